"""The OpenID provider of the tests is what it claims to be."""

import base64
import hashlib
import secrets
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.servers.dovecot import Dovecot, require_dovecot
from tests.servers.oidc import CLIENT, OidcProvider, oidc

__all__ = ["oidc"]

DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
SCOPE = "openid offline_access email"


def device_tokens(oidc: OidcProvider, login: str) -> dict[str, str]:
    status, device = oidc.post("/device/auth", client_id=CLIENT, scope=SCOPE)
    assert status == 200, device
    poll = {"client_id": CLIENT, "grant_type": DEVICE, "device_code": device["device_code"]}
    assert oidc.post("/token", **poll)[1]["error"] == "authorization_pending"
    oidc.enter_code(device["user_code"], login=login)
    status, tokens = oidc.post("/token", **poll)
    assert status == 200, tokens
    return tokens


def test_a_device_code_becomes_tokens_that_rotate_and_can_be_revoked(oidc: OidcProvider) -> None:
    tokens = device_tokens(oidc, "me@example.org")
    first = {"client_id": CLIENT, "grant_type": "refresh_token"}
    status, second = oidc.post("/token", refresh_token=tokens["refresh_token"], **first)
    assert status == 200
    assert second["refresh_token"] != tokens["refresh_token"]
    # The old one is used again: somebody has stolen it, and the whole grant is gone.
    assert oidc.post("/token", refresh_token=tokens["refresh_token"], **first)[0] == 400
    assert oidc.post("/token", refresh_token=second["refresh_token"], **first)[0] == 400


def test_a_device_code_can_be_denied(oidc: OidcProvider) -> None:
    _, device = oidc.post("/device/auth", client_id=CLIENT, scope=SCOPE)
    oidc.deny_code(device["user_code"])
    poll = {"client_id": CLIENT, "grant_type": DEVICE, "device_code": device["device_code"]}
    assert oidc.post("/token", **poll)[1]["error"] == "access_denied"


def test_a_browser_comes_back_with_a_code_and_the_issuer(oidc: OidcProvider) -> None:
    verifier = secrets.token_urlsafe(48)
    digest = hashlib.sha256(verifier.encode()).digest()
    asked = {
        "client_id": CLIENT,
        "response_type": "code",
        "redirect_uri": "http://127.0.0.1:9/callback",
        "scope": SCOPE,
        "prompt": "consent",
        "state": "once",
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    url = f"{oidc.metadata()['authorization_endpoint']}?{urlencode(asked)}"
    back = urlsplit(oidc.sign_in(url, login="me@example.org"))
    answer = parse_qs(back.query)
    assert (back.netloc, back.path) == ("127.0.0.1:9", "/callback")
    assert (answer["state"], answer["iss"]) == (["once"], [oidc.issuer])
    exchange = {
        "client_id": CLIENT,
        "grant_type": "authorization_code",
        "code": answer["code"][0],
        "redirect_uri": "http://127.0.0.1:9/callback",
    }
    assert oidc.post("/token", code_verifier="wrong" * 10, **exchange)[0] == 400
    assert oidc.metadata()["revocation_endpoint"]


def test_a_token_opens_a_mailbox_until_it_is_revoked(oidc: OidcProvider) -> None:
    require_dovecot()
    server = Dovecot(oauth=f"{oidc.issuer}/me")
    try:
        server.start()
        account = server.add_account()
        tokens = device_tokens(oidc, account.address)
        assert account.opens_with_token(tokens["access_token"])
        status, _ = oidc.post("/token/revocation", client_id=CLIENT, token=tokens["access_token"])
        assert status == 200
        assert not account.opens_with_token(tokens["access_token"])
    finally:
        server.close()
