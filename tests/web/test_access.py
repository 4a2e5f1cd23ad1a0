"""Who may ask what: every route of the API, over the socket, with and without what it declares."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator

import pytest
import pytest_asyncio
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from silas.app.client import call_server
from silas.kernel import SilasError
from silas.web.access import page_access
from silas.web.api import make_api, make_routes
from silas.web.commands import PageAccess
from silas.web.owner_socket import LIVE, owner_socket
from tests.web.place import Place, TestDevice, environ_for, open_place

OPEN = {
    "GET /health",
    "POST /api/pair",
    "POST /api/session",
    # Of visitors, who show a secret of their own (tests/web/test_visitors.py).
    "POST /visit/connections",
    "POST /visit/messages",
    "GET /visit/history",
    "GET /visit/messages/{after}",
}
OWNER_ALONE = {
    f"GET {LIVE}",
    "POST /api/web/pair",
    "POST /api/web/passkey_code",
    "POST /api/web/ask_secret",
    "POST /api/web/devices_changed",
    "POST /api/companions/new_from_file",
    "POST /persona/state",
    "POST /api/visitors/invite",
    "POST /api/folders/list",
    "POST /api/rules/list",
    "POST /api/conversations/list",
    "POST /api/answers/stop",
    "POST /api/usage/show",
    "POST /api/review/waiting",
    *(f"POST /api/connections/{name}" for name in ("list", "show", "it_request")),
    *(f"POST /api/autonomy/{name}" for name in ("list", "show", "grant", "grants")),
    *(
        f"POST /api/proposals/{name}"
        for name in (
            "recognise", "propose", "propose_plan", "propose_command", "look", "look_at_work",
            "status", "result", "work_result", "verify", "withdraw", "withdraw_work",
        )
    ),
    *(f"POST /api/skills/{name}" for name in ("list", "show", "file", "difference")),
    *(f"POST /api/mcp/{name}" for name in ("list", "show")),
    *(
        f"POST /api/memory/{name}"
        for name in ("changes", "forget", "newest", "numbers", "search", "show", "to_forget")
    ),
    *(
        f"POST /api/companions/{name}"
        for name in (
            "list", "meant", "listed", "show", "kinds", "models", "runs", "report", "why", "trace",
            "switches", "questions", "waiting", "disclosure", "persona", "timers",
            "forgotten", "conversation", "model_rules", "reports", "diagnostics", "objectives",
            "rollout",
        )
    ),
}  # fmt: skip
"""What a paired browser may not ask, or reads by other routes."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    """One for all: nothing here changes anything."""
    directory = tmp_path_factory.mktemp("access")
    async with open_place(directory, environ_for(directory)) as place:
        yield place


def declared(place: Place) -> dict[str, PageAccess | None]:
    api = make_api(place.front, place.web.hub, place.web.api._groups)
    return {
        f"{method} {prefix}{route.path}": page_access(route.endpoint)
        for prefix, route in routes_in(api.routes)
        for method in route.methods
    }


def routes_in(found: Iterable[BaseRoute], prefix: str = "") -> Iterator[tuple[str, APIRoute]]:
    """The routes of an app, also of the routers that it includes, with what stands before each."""
    for each in found:
        if isinstance(each, APIRoute):
            yield prefix, each
        elif (included := getattr(each, "original_router", None)) is not None:
            yield from routes_in(included.routes, prefix + each.include_context.prefix)


async def test_what_each_route_needs_is_what_it_does(place: Place) -> None:
    found = declared(place)
    assert len(found) > 80
    assert {name for name, access in found.items() if access is PageAccess.OPEN} == OPEN
    assert {name for name, access in found.items() if access is None} == OWNER_ALONE
    for name, access in found.items():
        if access is PageAccess.SESSION:
            assert name.startswith("GET "), "a cookie alone changes nothing"
        if access is PageAccess.SIGNED:
            assert name.startswith("POST ")


async def test_routes_that_wait_are_made_together_with_all_that_could_answer(place: Place) -> None:
    """No place is in another: whichever is asked for first, the same route answers."""
    places = make_routes(place.front, place.web.hub).by_place()
    assert len(places) > 15
    assert not [name for name in places if "{" in name]
    assert not [(a, b) for a in places for b in places if b.startswith(f"{a}/")]


async def test_a_route_that_declares_nothing_is_not_there_for_a_browser(place: Place) -> None:
    device = await place.device()
    async with device.conversation():
        pass
    for name in sorted(OWNER_ALONE):
        method, path = name.split(" ")
        answer = await (device.get(path) if method == "GET" else device.signed_post(path, {}))
        assert answer.status_code in (404, 422), name
        assert "link" not in answer.text


async def test_a_stranger_reaches_nothing_but_what_is_open(place: Place) -> None:
    stranger = TestDevice(place.address)
    for name, access in declared(place).items():
        method, path = name.split(" ")
        if access is PageAccess.OPEN or "{" in path:
            continue
        answer = await (stranger.get(path) if method == "GET" else stranger.post(path, {}))
        assert answer.status_code in (401, 404, 422), name


async def test_a_browser_cannot_say_that_it_is_the_owner(place: Place) -> None:
    headers = {"silas.owner": "true", "Silas-Owner": "True", "X-Forwarded-For": "127.0.0.1"}
    answer = await TestDevice(place.address).post("/api/web/pair", {}, **headers)
    assert answer.status_code == 404


async def test_the_owner_at_the_machine_reaches_every_route(place: Place) -> None:
    async with owner_socket(place.web.api, place.core.paths.socket):
        for name in declared(place):
            method, path = name.split(" ")
            if method != "POST" or "{" in path:
                continue
            assert "Not Found" not in await refused(place, path), name


async def refused(place: Place, path: str) -> str:
    """What is told to the owner who asks in a way that makes no sense."""
    wanted = {"no": "such"}
    with pytest.raises(SilasError) as caught:
        await asyncio.to_thread(call_server, place.core.paths, path, wanted)
    return str(caught.value)
