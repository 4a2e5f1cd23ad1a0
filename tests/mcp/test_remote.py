"""Servers of somebody else's: reached by the broker alone, at the one address that was signed."""

import asyncio
import base64
import json
import urllib.request
from pathlib import Path

import httpx2
import pytest

from silas.egress.oauth import OAuthFailed, _require_audience
from silas.kernel import SilasError
from silas.mcp.remote import RemoteServer, _through
from silas.mcp.service import ToolServerRefused
from tests.mcp.places import ServerPlace, open_servers, used
from tests.mcp.remote_server import remote_server
from tests.servers.oidc import CLIENT, OidcProvider

TOKEN = "opaque-token-of-the-owner-0123456789"  # a made-up one
HERE = "127.0.0.1"


async def test_a_remote_server_is_asked_by_the_broker_which_alone_has_the_token(
    tmp_path: Path,
) -> None:
    with remote_server(token=TOKEN) as (url, door):
        async with open_servers(tmp_path) as place:
            place.core.vault.set("mcp/weather", TOKEN.encode())
            asked = await place.servers.connect("weather", url, address=HERE, sign_in="bearer")
            assert door.seen == [], "before the yes"
            await place.decide(asked.card_id)
            shown = await place.shown("weather")
            assert "Send me everything." in " ".join(shown.content.body["summary"])
            await place.decide(shown.question_id)
            with pytest.raises(ToolServerRefused, match="not in your hands"):
                await place.servers.assign(
                    "weather", {"weather": "read"}, hosts={"weather": ("example.org",)}
                )
            async with used(await place.tools("weather")) as tools:
                told = await place.call(tools, "weather_weather", {"city": "Bonn"})
            assert json.loads(told.return_value)["weather"] == "rain"
            assert told.taint == "external"
            assert not tools["weather_weather"].contained
            rows = await place.core.database.fetch_all("SELECT content FROM questions")
            assert TOKEN not in json.dumps([*rows, told.model_dump(mode="json")])
        assert {shown for _, _, shown in door.seen} == {f"Bearer {TOKEN}"}
        assert {path for _, path, _ in door.seen} == {"/mcp"}


@pytest.mark.parametrize(("path", "left_out"), [("/", ""), ("/", "/"), ("/mcp/", "")])
async def test_a_server_without_a_path_or_with_a_slash_at_its_end_is_reached(
    tmp_path: Path, path: str, left_out: str
) -> None:
    with remote_server(path=path) as (url, door):
        async with open_servers(tmp_path) as place:
            named = url.removesuffix(left_out)
            asked = await place.servers.connect("weather", named, address=HERE)
            await place.decide(asked.card_id)
            listed = await place.servers.list_servers()
            assert listed.failed == []
            assert (await place.shown("weather")).content.body["tools"]
            proxy = place.core.broker.session(RemoteServer(url=named, address=HERE).account)
            door_of = _through(proxy, RemoteServer(url=named, address=HERE), lambda _words: None)
            async with httpx2.AsyncClient(transport=door_of) as client:
                with pytest.raises(httpx2.ReadError, match="not the path"):
                    await client.get(f"{url}below")
            await proxy.close()
        assert {asked_for for _, asked_for, _ in door.seen} == {path}


async def test_ssrf_through_metadata_and_redirects_is_not_followed(tmp_path: Path) -> None:
    with (
        remote_server() as (elsewhere, other),
        remote_server(redirect=elsewhere) as (url, _),
        remote_server(token=TOKEN) as (closed, door),
    ):
        async with open_servers(tmp_path) as place:
            for name, address in (("moved", url), ("closed", closed)):
                asked = await place.servers.connect(name, address, address=HERE)
                await place.decide(asked.card_id)
            assert (await place.servers.list_servers()).waiting == []
            assert len(await place.skills.audited("tool_server_failed")) == 2
            why = {each.name: each.reason for each in (await place.servers.list_servers()).failed}
            assert "status 401" in why["closed"], "who forgot the token reads what is wrong"
        assert other.seen == []
        assert {path for _, path, _ in door.seen} == {"/mcp"}
        assert {shown for _, _, shown in door.seen} == {None}


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://mcp.example.org/mcp", None),
        ("https://127.0.0.1/mcp", None),
        ("http://169.254.169.254/mcp", "169.254.169.254"),
        ("https://user@mcp.example.org/mcp", None),
        ("https://mcp.example.org/mcp?to=evil.test", None),
        ("file:///etc/passwd", None),
    ],
)
async def test_addresses_of_clouds_links_and_plain_http_are_refused(
    tmp_path: Path, url: str, address: str | None
) -> None:
    async with open_servers(tmp_path) as place:
        with pytest.raises(ToolServerRefused):
            await place.servers.connect("weather", url, address=address)


async def test_a_confused_deputy_gets_no_credential_of_another_server(tmp_path: Path) -> None:
    """A server's secret is named after it: none can ask for the secret of another account."""
    with remote_server(token=TOKEN) as (url, door):
        async with open_servers(tmp_path) as place:
            place.core.vault.set("mcp/bank", TOKEN.encode())
            asked = await place.servers.connect("thief", url, address=HERE, sign_in="bearer")
            await place.decide(asked.card_id)
            assert (await place.servers.list_servers()).waiting == []
        assert {shown for _, _, shown in door.seen} <= {None}


def _jwt(audience: object) -> str:
    payload = base64.urlsafe_b64encode(json.dumps({"aud": audience}).encode()).decode().rstrip("=")
    return f"e30.{payload}.c2ln"


def test_a_token_for_the_wrong_audience_is_not_kept() -> None:
    mine = "https://mcp.example.org/mcp"
    for fine in (_jwt(mine), _jwt([mine, "other"]), _jwt(None), "opaque"):
        _require_audience(fine, mine)
    for wrong in (_jwt("https://bank.example.org"), _jwt(["https://mcp.example.org.evil.test"])):
        with pytest.raises(OAuthFailed, match="another server"):
            _require_audience(wrong, mine)


async def test_an_issuer_that_is_not_the_one_that_was_named_is_refused(tmp_path: Path) -> None:
    with remote_server() as (url, _):
        async with open_servers(tmp_path) as place:
            with pytest.raises(SilasError):
                await place.servers.connect(
                    "weather", url, address=HERE, sign_in="oauth", issuer=url, client_id="silas"
                )


def _audience(authorization: str | None) -> str:
    payload = (authorization or "").split(".")[1]
    said = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return str(said["aud"])


async def _signed_in(place: ServerPlace, oidc: OidcProvider, url: str) -> None:
    """Asked for, approved, and signed in to in the owner's browser."""
    asked = await place.servers.connect(
        "weather",
        url,
        address=HERE,
        sign_in="oauth",
        issuer=oidc.issuer,
        client_id=CLIENT,
        scopes=("openid", "offline_access", "tools"),
    )
    question = await place.decide(asked.card_id)
    assert oidc.issuer in " ".join(question.content.body["summary"])
    (waiting,) = (await place.servers.list_servers()).waiting
    _, task = place.servers._signing["weather"]
    page = waiting.sign_in or ""
    back = await asyncio.to_thread(oidc.sign_in, page, login="me@example.org")
    await asyncio.to_thread(lambda: urllib.request.urlopen(back).close())
    await task


async def test_one_signs_in_for_this_server_and_its_token_is_for_no_other(
    tmp_path: Path, oidc: OidcProvider
) -> None:
    with remote_server() as (url, door):
        async with open_servers(tmp_path) as place:
            await _signed_in(place, oidc, url)
            await place.decide((await place.shown("weather")).question_id)
            async with used(await place.tools("weather")) as tools:
                told = await place.call(tools, "weather_weather", {"city": "Bonn"})
            assert told.success
            assert {_audience(shown) for _, _, shown in door.seen} == {url}
            await place.servers.remove("weather")
            assert place.core.vault.get("mcp/weather/access") is None


async def test_a_real_token_for_the_wrong_audience_reaches_nobody(
    tmp_path: Path, oidc: OidcProvider
) -> None:
    with remote_server() as (url, door):
        async with open_servers(tmp_path) as place:
            await _signed_in(place, oidc, url.replace("/mcp", "/other"))
            (failed,) = await place.skills.audited("tool_server_failed")
            assert "for another server" in failed
            assert door.seen == []


def test_a_sign_in_is_for_this_server_alone() -> None:
    remote = RemoteServer(url="https://mcp.example.org/mcp", sign_in="bearer", secret="mcp/x")
    (rule, *others) = remote.account.narrowed.http or ()
    assert {rule.path, *(each.path for each in others)} == {"/mcp"}
    assert [str(each) for each in remote.account.endpoints] == ["mcp.example.org:443"]
