"""Every setting is read by something: a switch that does nothing is a defect.

A whole Silas is opened here with settings that notice who reads them. What nothing reads is listed
below with the subject that will read it. The list only shrinks.
"""

import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from silas.app.core import open_core
from silas.app.doctor import examine
from silas.app.jobs import core_jobs
from silas.app.web import WebFront
from silas.kernel import SystemClock
from silas.settings.fields import Section
from silas.settings.keys import ValueKind, kind_at, walk
from tests.web.place import environ_for, make_home, settings_for

_TELEGRAM = "the Telegram channel"

NOT_READ_YET = {
    "channels.telegram.owner_chat_id": _TELEGRAM,
    "channels.telegram.token": _TELEGRAM,
}
"""What nothing reads yet, and with what it will be read. Shorten this list; never lengthen it."""

READ_BY_LOADING = {
    "data_dir",  # reaches everything else as `Paths`
    # Loading refuses every value but the default, with its reason: see `test_rules.py`.
    "approval.auto_approve_risk_levels",
    "channels.telegram.enabled",
    "database_url",
    "skills.import.require_transform_report",
    "skills.validation.forbid_undeclared_env",
}
"""What the settings themselves deal with."""


class Readers:
    """Which fields of which sections were read by code outside of the settings."""

    def __init__(self) -> None:
        self.read: set[tuple[type[BaseModel], str]] = set()

    def note(self, section: type[BaseModel], name: str) -> None:
        whole = section.model_fields if name == "model_dump" else {}
        self.read |= {(section, field) for field in (name, *whole)}


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> Readers:
    noticed, plain = Readers(), Section.__getattribute__

    def noticing(self: Section, name: str) -> Any:
        reader = sys._getframe(1).f_globals.get("__name__", "")
        if reader.startswith("silas.") and not reader.startswith("silas.settings"):
            noticed.note(type(self), name)
        return plain(self, name)

    monkeypatch.setattr(Section, "__getattribute__", noticing)
    return noticed


async def test_every_key_is_read(tmp_path: Path, readers: Readers) -> None:
    environ = environ_for(
        tmp_path,
        SILAS_MODELS__PROXY="openai:small",
        SILAS_GATES__LLM_DEFAULTS__MODEL="openai:small",
        OPENAI_API_KEY="key",
    )
    await make_home(tmp_path, environ)
    loaded = settings_for(tmp_path, environ)
    web = WebFront(SystemClock(), environ=environ, home=tmp_path / "home")
    async with open_core(loaded, environ=environ) as core, web.open(core):
        for job in core_jobs(core):
            await job.run()
    async for _ in examine(loaded, environ=environ):
        pass
    unread = {".".join(key) for key, kind in walk() if is_unread(key, kind, readers)}
    assert unread - {*NOT_READ_YET} == READ_BY_LOADING, "Read it, or remove it."
    assert {*NOT_READ_YET} - unread == set(), "It is read now: take it off the list."


def is_unread(key: tuple[str, ...], kind: ValueKind, readers: Readers) -> bool:
    around = kind_at(key[:-1])
    assert around is not None
    names = {field.alias or name: name for name, field in around.type.model_fields.items()}
    return kind.shape != "section" and (around.type, names[key[-1]]) not in readers.read
