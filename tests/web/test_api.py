"""The web API against its own description: schemathesis asks what nobody would, signed and not.

`SILAS_API_EXAMPLES` says how often for each route and mode.
"""

import contextlib
import json
import os
import secrets
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
)

from silas.kernel import SystemClock, format_timestamp
from silas.web.access import request_bytes
from silas.web.api import REFUSALS, make_api
from tests.web.place import Place, TestDevice, environ_for, http_client, open_place

pytestmark = pytest.mark.slow
EXAMPLES = int(os.environ.get("SILAS_API_EXAMPLES", "5"))
CHECKS = [not_a_server_error, response_schema_conformance, content_type_conformance]
RESTARTS = "/api/setup/model"
_NOTHING_WRONG = contextlib.suppress(Unsatisfiable)
"""A route that takes anything, or nothing, cannot be asked wrongly."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    directory = tmp_path_factory.mktemp("api")
    environ = environ_for(directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", environ["HOME"])
        async with open_place(directory, environ) as place:
            yield place


@pytest.fixture(scope="module")
def operations(place: Place) -> list[APIOperation[Any, Any, Any, Any]]:
    api = make_api(place.front, place.web.hub, (), described=REFUSALS)
    schema = schemathesis.openapi.from_dict(api.openapi())
    return [found.ok() for found in schema.get_all_operations()]


def cases_of(
    operation: APIOperation[Any, Any, Any, Any], mode: GenerationMode, examples: int
) -> list[Case]:
    cases: list[Case] = []

    @settings(
        max_examples=examples,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(mode))
    def collect(case: Case) -> None:
        cases.append(case)

    wanted = contextlib.nullcontext() if mode is GenerationMode.POSITIVE else _NOTHING_WRONG
    with wanted:
        collect()
    return cases


async def sent(place: Place, case: Case, device: TestDevice | None) -> httpx.Response:
    body = b"" if not case.operation.body else _as_json(case.body)
    headers = {"Origin": place.address}
    if case.method not in {"GET", "HEAD"}:
        headers["Content-Type"] = "application/json"
    async with http_client(place.address) as client:
        request = client.build_request(
            case.method, case.formatted_path, content=body, headers=headers
        )
        if device is not None:
            at, nonce = format_timestamp(SystemClock().now()), secrets.token_hex(8)
            payload = request_bytes(
                method=case.method,
                path=request.url.path,
                body=body,
                timestamp=at,
                nonce=nonce,
            )
            extra = {
                "Cookie": f"silas_session={device.cookie}",
                "Silas-Timestamp": at,
                "Silas-Nonce": nonce,
                "Silas-Signature": device.sign(payload),
            }
            request.headers.update(extra)
        return await client.send(request)


def _as_json(body: Any) -> bytes:
    try:
        return json.dumps(body).encode()
    except (TypeError, ValueError):
        return b"{"


@pytest.fixture(scope="module", params=list(GenerationMode), ids=lambda mode: mode.value)
def asked(
    request: pytest.FixtureRequest, operations: list[APIOperation[Any, Any, Any, Any]]
) -> list[tuple[APIOperation[Any, Any, Any, Any], list[Case]]]:
    """Each route with what it is asked: to think of it takes longer than to ask."""
    return [(each, cases_of(each, request.param, EXAMPLES)) for each in operations]


async def test_a_stranger_gets_nothing_from_any_route(
    place: Place, asked: list[tuple[APIOperation[Any, Any, Any, Any], list[Case]]]
) -> None:
    for operation, cases in asked:
        for case in cases:
            answer = await sent(place, case, None)
            case.validate_response(answer, checks=CHECKS)
            if operation.path != "/health":
                assert answer.status_code in {401, 403, 404, 405, 413, 422}, operation.label


async def test_the_owner_gets_what_is_described_or_a_reason(
    place: Place, asked: list[tuple[APIOperation[Any, Any, Any, Any], list[Case]]]
) -> None:
    device = await place.device()
    async with device.conversation():
        pass
    for operation, cases in asked:
        if operation.path == RESTARTS:
            continue  # it opens the house anew; `test_onboarding` asks it
        for case in cases:
            answer = await sent(place, case, device)
            case.validate_response(answer, checks=CHECKS)
            assert answer.status_code < 500, operation.label
    assert (await device.get("/health")).status_code == 200
