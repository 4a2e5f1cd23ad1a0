"""Requests that nobody should send: each is answered with a sentence, and changes nothing."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from silas.journal import OWNER, dispatch
from tests.web.place import Place, TestDevice, environ_for, open_place

API = "/api/companions"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    """One for all: nothing here changes anything."""
    directory = tmp_path_factory.mktemp("malformed")
    async with open_place(directory, environ_for(directory)) as place:
        yield place


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def device(place: Place) -> TestDevice:
    """A paired device with a session."""
    device = await place.device()
    async with device.conversation():
        return device


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def agent(place: Place, device: TestDevice) -> str:
    """A Planner in the category Gym."""
    journal = place.house.journal
    made = await dispatch.call(
        journal, "create_category", {"name": "Gym"}, scope=OWNER, actor="owner"
    )
    companions = place.house.companions.service
    planner = await companions.new("planner", category_ids=[made.payload["category_id"]])
    return planner.id


async def shown(device: TestDevice, agent: str) -> dict[str, Any]:
    answer = await device.get(f"{API}/of/{agent}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


MALFORMED = {
    "an argument is missing": ("wake", {}),
    "an argument is unknown": ("wake", {"agent_id": "AGENT", "loudly": True}),
    "an id is a number": ("pause", {"agent_id": 7}),
    "an id is null": ("pause", {"agent_id": None}),
    "an id is a list": ("cancel", {"agent_id": ["AGENT"]}),
    "what is said is an object": ("wake", {"agent_id": "AGENT", "said": {"text": "hello"}}),
    "the reason of a stop is a list": ("stop", {"scope": "global", "reason": ["now"]}),
    "the scope of a stop is unknown": ("stop", {"scope": "everything"}),
    "the scope of a stop is a report's": ("stop", {"scope": "weekly"}),
    "categories are one text": ("new", {"kind": "planner", "category_ids": "gym"}),
    "a category is a number": ("new", {"kind": "planner", "category_ids": [1]}),
    "a file is named": ("new", {"kind": "", "category_ids": [], "file": "/etc/passwd"}),
    "offline is a word": ("configure", {"agent_id": "AGENT", "offline": "no"}),
    "a budget is text": ("configure", {"agent_id": "AGENT", "budget": {"tokens": "5"}}),
    "a budget is a number": ("configure", {"agent_id": "AGENT", "budget": 5}),
    "a risk is unknown": ("configure", {"agent_id": "AGENT", "confirm_from": "huge"}),
    "changes of a persona are a list": ("propose_persona", {"agent_id": "AGENT", "changes": []}),
    "an answer is missing": ("answer", {"question_id": "q"}),
    "there is no object": ("resume_all", []),
    "there is nothing": ("resume_all", None),
}
"""Each was answered with 500 once, or did what nobody had asked for."""


@pytest.mark.parametrize("case", MALFORMED)
async def test_a_malformed_call_is_a_sentence_and_changes_nothing(
    place: Place, device: TestDevice, agent: str, case: str
) -> None:
    name, body = MALFORMED[case]
    if isinstance(body, dict):
        body = {key: agent if value == "AGENT" else value for key, value in body.items()}
    before = await shown(device, agent)
    answer = await device.signed_post(f"{API}/{name}", body)
    assert answer.status_code == 422
    assert answer.json()["code"] == "E_SERVER_BAD_REQUEST"
    assert answer.json()["detail"].startswith("This request cannot be understood: ")
    assert "/etc/passwd" not in answer.text
    assert await shown(device, agent) == before
    assert await place.house.companions.service.switches() == ()


@pytest.mark.parametrize(
    "name", ["nothing", "decided", "recover", "_desk", "new_from_file", "list"]
)
async def test_what_is_no_command_of_the_page_is_not_there(
    device: TestDevice, agent: str, name: str
) -> None:
    answer = await device.signed_post(f"{API}/{name}", {})
    assert answer.status_code in (404, 405)
