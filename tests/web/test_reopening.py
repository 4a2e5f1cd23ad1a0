"""A Silas that is opened anew while somebody asks."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

import silas.app.web
from silas.app.runtime import Runtime
from silas.app.web import WebFront
from tests.web.place import TestDevice, environ_for, open_place


async def test_who_asks_while_silas_is_opened_anew_is_answered_by_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, closed, may_open = asyncio.Event(), asyncio.Event(), asyncio.Event()
    answer, open_runtime = WebFront._answer, silas.app.web.open_runtime

    async def answering(front: WebFront, scope: Scope, receive: Receive, send: Send) -> None:
        asked.set()
        await answer(front, scope, receive, send)

    @contextlib.asynccontextmanager
    async def opening(*given: Any, **more: Any) -> AsyncIterator[Runtime]:
        closed.set()
        await may_open.wait()
        async with open_runtime(*given, **more) as runtime:
            yield runtime

    environ = environ_for(tmp_path)
    monkeypatch.setenv("HOME", environ["HOME"])
    monkeypatch.setattr(WebFront, "_answer", answering)
    async with open_place(tmp_path, environ) as place:
        monkeypatch.setattr(silas.app.web, "open_runtime", opening)
        place.web._wanted.put_nowait(place.core.settings)
        await asyncio.wait_for(closed.wait(), 120)
        asking = asyncio.create_task(TestDevice(place.address).get("/health"))
        await asyncio.wait_for(asked.wait(), 120)
        may_open.set()
        assert (await asking).status_code == 200


async def test_who_is_cancelled_while_silas_opens_leaves_nothing_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, ended = asyncio.Event(), asyncio.Event()

    @contextlib.asynccontextmanager
    async def never_open(*_given: Any, **_more: Any) -> AsyncIterator[Runtime]:
        try:
            opening.set()
            await asyncio.Event().wait()
            yield  # type: ignore[misc]
        finally:
            ended.set()

    async def live() -> None:
        async with open_place(tmp_path, environ):
            pass

    environ = environ_for(tmp_path)
    monkeypatch.setenv("HOME", environ["HOME"])
    monkeypatch.setattr(silas.app.web, "open_runtime", never_open)
    task = asyncio.create_task(live())
    await asyncio.wait_for(opening.wait(), 120)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert ended.is_set()
