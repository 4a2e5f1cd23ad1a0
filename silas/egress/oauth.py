"""The OAuth client: the owner signs in at the provider, and the tokens go into the vault.

1. A server is known by its metadata (RFC 8414), which has to name exactly the issuer that was asked
   for, or by a preset. Its endpoints are reached like everything outside (`network`).
2. Device code (RFC 8628): the owner enters a code at the provider. Silas asks as seldom as the
   server wants (`interval`, `slow_down`), and no longer than the code is valid. A server that does
   not answer for a while is asked more seldom, and costs no code.
3. Redirect (RFC 8252): the browser comes back to a socket on 127.0.0.1. Each attempt has a `state`
   that counts once, PKCE with S256, and one exact redirect address. A server that says who it is in
   its redirects (`iss`, RFC 9207) has to be the one that was asked.
4. Tokens are in the vault and nowhere else: `REF/access`, `REF/refresh`, and `REF/state` with the
   time at which they end. The new refresh token is stored before anything else is done with it.
5. A server that no longer takes the refresh token has revoked the grant, perhaps because somebody
   used an old one. Both tokens are then forgotten, and the owner has to sign in again.
6. Where a sign-in is for one server (`resource`, RFC 8707), it says so, and a token that names
   another one is not kept.
7. `revoke` takes the grant back at the provider where it has an endpoint for that, and always
   forgets the tokens. Of a sign-in that another one replaces, the access token is taken back.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import secrets
import socket
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import h11
from pydantic import ValidationError

from silas.egress.accounts import CredentialRef, OAuthRegistration, OAuthServer, endpoint_of
from silas.egress.hosts import EgressRefused
from silas.egress.proxy import Dialer, HttpAnswer, close_writer, next_event
from silas.kernel import Clock, EgressError, format_timestamp, parse_timestamp
from silas.kernel.models import Data, UtcDatetime
from silas.secrets import Vault

_LEEWAY = timedelta(seconds=60)
"""So long before its end a token is no longer used: a request takes its time."""
_DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_DEFAULT_INTERVAL, _SLOWER, _MAX_INTERVAL = 5, 5, 60
_MAX_DEVICE_SECONDS = 1800
_MAX_SECONDS = 10 * 365 * 86_400
_CALLBACK = "/callback"
REDIRECT_SECONDS = 600.0
"""So long the browser has to come back."""
_REVOKE_SECONDS = 20.0
_REQUEST_SECONDS = 10.0
_MAX_REQUEST_BYTES = 16 * 1024
_FORM = (("content-type", "application/x-www-form-urlencoded"), ("accept", "application/json"))
_DONE = "You are signed in. You can close this page and go back to Silas."
_NOT_DONE = "The sign-in did not work. Go back to Silas: it says why."
_NOT_OURS = "This page does not belong to a sign-in that Silas waits for."


def _preset(issuer: str, **endpoints: str) -> OAuthServer:
    named = {f"{name}_endpoint": url for name, url in endpoints.items()}
    return OAuthServer.model_validate({"issuer": issuer, **named})


_MICROSOFT = "https://login.microsoftonline.com/common"
_GITHUB, _GOOGLE = "https://github.com/login", "https://oauth2.googleapis.com"
_GOOGLE_ISSUER = "https://accounts.google.com"
PRESETS = {
    server.issuer: server
    for server in (
        # Its metadata names another issuer for each tenant.
        _preset(
            f"{_MICROSOFT}/v2.0",
            token=f"{_MICROSOFT}/oauth2/v2.0/token",
            authorization=f"{_MICROSOFT}/oauth2/v2.0/authorize",
            device_authorization=f"{_MICROSOFT}/oauth2/v2.0/devicecode",
        ),
        # It has no metadata.
        _preset(
            f"{_GITHUB}/oauth",
            token=f"{_GITHUB}/oauth/access_token",
            authorization=f"{_GITHUB}/oauth/authorize",
            device_authorization=f"{_GITHUB}/device/code",
        ),
        _preset(
            _GOOGLE_ISSUER,
            token=f"{_GOOGLE}/token",
            authorization="https://accounts.google.com/o/oauth2/v2/auth",
            device_authorization=f"{_GOOGLE}/device/code",
            revocation=f"{_GOOGLE}/revoke",
        ),
    )
}
"""Servers that everybody uses, by their issuers: they are known without being asked."""


class OAuthFailed(EgressError):
    """The provider did not let Silas in. Try again, or connect with another sign-in."""

    code = "E_EGRESS_OAUTH_FAILED"


class OAuthUnreachable(OAuthFailed):
    """The provider does not answer. Try again later."""

    code = "E_EGRESS_OAUTH_UNREACHABLE"


class OAuthDenied(OAuthFailed):
    """The sign-in was declined at the provider. Connect again if you did not mean to."""

    code = "E_EGRESS_OAUTH_DENIED"


class OAuthTimedOut(OAuthFailed):
    """Nobody signed in at the provider in time. Connect again to get a new code."""

    code = "E_EGRESS_OAUTH_TIMED_OUT"


class GrantRevoked(OAuthFailed):
    """The provider no longer takes this sign-in. Connect the account again."""

    code = "E_EGRESS_OAUTH_REVOKED"


class CredentialMissing(EgressError):
    """The vault does not have the credential of this connection. Connect the account again."""

    code = "E_EGRESS_CREDENTIAL"


class Granted(Data):
    """What a sign-in brought, without the tokens."""

    scopes: tuple[str, ...]
    expires_at: UtcDatetime | None = None
    """When the access token ends; None: the server did not say."""
    renewable: bool
    """There is a refresh token."""
    refresh_expires_at: UtcDatetime | None = None
    """When the refresh token ends; None: the server did not say."""


class DeviceSignIn:
    """A code that the owner enters at the provider (2)."""

    def __init__(self, answer: Mapping[str, Any], now: datetime, server: OAuthServer) -> None:
        self.user_code = _text(answer, "user_code")
        self.verification_url = _text(answer, "verification_uri", "verification_url")
        _require_page(self.verification_url, server)
        self.interval = _number(answer, "interval", _DEFAULT_INTERVAL, at_most=300)
        seconds = _number(answer, "expires_in", _MAX_DEVICE_SECONDS, at_most=_MAX_DEVICE_SECONDS)
        self.expires_at = now + timedelta(seconds=seconds)
        self._device_code = _text(answer, "device_code")

    def form(self) -> dict[str, str]:
        """What the server is asked with; for the client alone."""
        return {"grant_type": _DEVICE_GRANT, "device_code": self._device_code}


class RedirectSignIn:
    """A page of the provider that the owner's browser opens, and the socket that it returns to (3).

    It waits until `close`, which ends the socket, or until the browser has come back.
    """

    def __init__(
        self,
        registration: OAuthRegistration,
        listener: socket.socket,
        *,
        resource: str | None = None,
    ) -> None:
        self._server = registration.server
        self._listener = listener
        self._state = secrets.token_urlsafe(32)
        self.verifier = secrets.token_urlsafe(64)
        host, port = listener.getsockname()[:2]
        self.listening_on = f"{host}:{port}"
        self.redirect_uri = f"http://{self.listening_on}{_CALLBACK}"
        self.auth_url = self._url(registration, resource)
        self._code: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._accepting: asyncio.Server | None = None

    def _url(self, registration: OAuthRegistration, resource: str | None) -> str:
        digest = hashlib.sha256(self.verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": registration.client_id,
            "redirect_uri": self.redirect_uri,
            "scope": " ".join(registration.scopes),
            "state": self._state,
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
            **_for_resource(resource),
        }
        if "offline_access" in registration.scopes:  # else no refresh token (OpenID Connect, 11)
            asked["prompt"] = "consent"
        if registration.server.issuer == _GOOGLE_ISSUER:  # it has a way of its own to ask for one
            asked |= {"access_type": "offline", "prompt": "consent"}
        page = registration.server.authorization_endpoint
        if page is None:
            raise OAuthFailed("The provider has no page to sign in at. Use a device code.")
        return f"{page}{'&' if '?' in page else '?'}{urlencode(asked)}"

    async def open(self) -> None:
        """Accept the browser from now on."""
        self._accepting = await asyncio.start_server(self._serve, sock=self._listener)

    async def code(self, seconds: float = REDIRECT_SECONDS) -> str:
        """The code that the browser brings; raises `OAuthDenied` or `OAuthTimedOut`."""
        try:
            async with asyncio.timeout(seconds):
                return await self._code
        except TimeoutError as error:
            raise OAuthTimedOut from error
        finally:
            self.close()

    def close(self) -> None:
        """End the socket, and whoever waits for it."""
        if self._accepting is not None:
            self._accepting.close()
        self._listener.close()
        self._code.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_REQUEST_BYTES)
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                event = await next_event(http, reader)
                status, words = 400, _NOT_OURS
                if isinstance(event, h11.Request):
                    status, words = self._answer(event)
                writer.write(_page(status, words))
                await writer.drain()
        except (h11.RemoteProtocolError, UnicodeDecodeError, TimeoutError, OSError):
            writer.transport.abort()
        finally:
            await close_writer(writer)

    def _answer(self, request: h11.Request) -> tuple[int, str]:
        """What the browser brings counts only with the state of this attempt, and only once."""
        target = urlsplit(request.target.decode("ascii"))
        hosts = [value.decode("ascii") for name, value in request.headers if name == b"host"]
        if request.method != b"GET" or target.path != _CALLBACK or hosts != [self.listening_on]:
            return 404, _NOT_OURS
        brought = parse_qs(target.query, keep_blank_values=True, max_num_fields=50)
        state = brought.get("state", [])
        if len(state) != 1 or not hmac.compare_digest(state[0].encode(), self._state.encode()):
            return 400, _NOT_OURS
        if self._code.done():
            return 400, _NOT_OURS
        try:
            self._code.set_result(self._checked(brought))
        except OAuthFailed as error:
            self._code.set_exception(error)
            return 400, _NOT_DONE
        return 200, _DONE

    def _checked(self, brought: Mapping[str, list[str]]) -> str:
        issuer, code = brought.get("iss", []), brought.get("code", [])
        if issuer != [self._server.issuer] and (issuer or self._server.names_issuer):
            raise OAuthFailed("The answer to the sign-in came from another provider.")
        if "error" in brought:
            raise _refusal({"error": brought["error"][0]})
        if len(code) != 1 or not code[0]:
            raise OAuthFailed("The provider answered the sign-in without a code.")
        return code[0]


def _page(status: int, words: str) -> bytes:
    body = f"<!doctype html><meta charset=utf-8><title>Silas</title><p>{words}</p>".encode()
    head = (
        f"HTTP/1.1 {status} Silas\r\ncontent-type: text/html; charset=utf-8\r\n"
        f"content-length: {len(body)}\r\ncache-control: no-store\r\n"
        "referrer-policy: no-referrer\r\n"
        "content-security-policy: default-src 'none'\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


def _for_resource(resource: str | None) -> dict[str, str]:
    return {} if resource is None else {"resource": resource}


def _require_audience(token: str, resource: str | None) -> None:
    """Refuse a token that says itself that it is for somebody else (6); most say nothing."""
    parts = token.split(".")
    if resource is None or len(parts) != 3:
        return
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        said = json.loads(payload).get("aud")
    except (ValueError, AttributeError):
        return
    named = said if isinstance(said, list) else [said]
    known = {str(each).rstrip("/") for each in named if each}
    if known and resource.rstrip("/") not in known:
        raise OAuthFailed("The provider issued a token for another server. It was not kept.")


class OAuthClient:
    """Signs in, renews and takes back. Only the broker asks it for a token."""

    def __init__(
        self,
        vault: Vault,
        dialer: Dialer,
        *,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._vault = vault
        self._dialer = dialer
        self.clock = clock
        self._sleep = sleep
        self._renewing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def discover(self, issuer: str, *, address: str | None = None) -> OAuthServer:
        """The server of this issuer, by a preset or by its metadata (1)."""
        if issuer in PRESETS:
            return PRESETS[issuer]
        try:
            endpoint, path = endpoint_of(issuer, address=address)
        except ValueError as error:
            raise OAuthFailed(f"The issuer {issuer} cannot be used: it {error}.") from error
        path = path.rstrip("/")
        for place in (
            f"/.well-known/oauth-authorization-server{path}",
            f"{path}/.well-known/openid-configuration",
        ):
            answer = await self._reach(self._dialer.fetch(endpoint, "GET", place))
            if answer.status == 200:
                return _described(_json(answer), issuer, address)
        raise OAuthFailed(f"{issuer} does not describe how to sign in there.")

    async def start_device(self, registration: OAuthRegistration) -> DeviceSignIn:
        """Ask for a code that the owner enters at the provider."""
        url = registration.server.device_authorization_endpoint
        if url is None:
            raise OAuthFailed("The provider has no sign-in by code. Use the browser.")
        form = {"scope": " ".join(registration.scopes)}
        answer = await self._post(url, registration, form)
        fields = _json(answer)
        if not _is_success(answer, fields):
            raise _refusal(fields)
        try:
            return DeviceSignIn(fields, self.clock.now(), registration.server)
        except ValueError as error:
            raise OAuthFailed("The provider's answer names no code or no page for it.") from error

    async def finish_device(self, credential: CredentialRef, started: DeviceSignIn) -> Granted:
        """Ask until the owner has entered the code (2), and keep the tokens."""
        registration, interval = _registration(credential), started.interval
        away: OAuthFailed | None = None
        while True:
            await self._sleep(interval)
            if self.clock.now() >= started.expires_at:
                raise away or OAuthTimedOut()
            try:
                answer = await self._post(
                    registration.server.token_endpoint, registration, started.form()
                )
                away = OAuthUnreachable() if answer.status in _OUT_OF_ORDER else None
            except OAuthUnreachable as error:
                away = error
            if away is not None:  # RFC 8628, 3.5
                interval = min(interval * 2, max(interval, _MAX_INTERVAL))
                continue
            fields = _json(answer)
            if _is_success(answer, fields):
                return await self._keep_safely(credential, fields)
            if fields.get("error") == "slow_down":
                interval += _SLOWER
            elif fields.get("error") != "authorization_pending":
                raise _refusal(fields)

    async def start_redirect(
        self, registration: OAuthRegistration, *, resource: str | None = None
    ) -> RedirectSignIn:
        """Open the socket that the browser returns to, and say which page it opens."""
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        try:
            started = RedirectSignIn(registration, listener, resource=resource)
            await started.open()
        except BaseException:
            listener.close()
            raise
        return started

    async def finish_redirect(
        self,
        credential: CredentialRef,
        started: RedirectSignIn,
        *,
        seconds: float = REDIRECT_SECONDS,
    ) -> Granted:
        """Wait for the browser, exchange its code and keep the tokens."""
        registration = _registration(credential)
        form = {
            "grant_type": "authorization_code",
            "code": await started.code(seconds),
            "redirect_uri": started.redirect_uri,
            "code_verifier": started.verifier,
            **_for_resource(credential.resource),
        }
        answer = await self._post(registration.server.token_endpoint, registration, form)
        fields = _json(answer)
        if not _is_success(answer, fields):
            raise _refusal(fields)
        return await self._keep_safely(credential, fields)

    async def held(self, credential: CredentialRef) -> Granted | None:
        """What is in the vault, without the tokens; None: nothing."""
        ref = credential.ref_id
        if await self._get(f"{ref}/access") is None:
            return None
        state = await self._state(ref)
        return Granted(
            scopes=tuple(state.get("scopes") or ()),
            expires_at=_moment(state.get("expires_at")),
            renewable=await self._get(f"{ref}/refresh") is not None,
            refresh_expires_at=_moment(state.get("refresh_expires_at")),
        )

    async def access_token(self, credential: CredentialRef, *, renew: bool = False) -> str:
        """A token that is valid now, renewed where that is needed; for the broker alone."""
        ref = credential.ref_id
        async with self._renewing[ref]:
            token, state = await self._get(f"{ref}/access"), await self._state(ref)
            ends = _moment(state.get("expires_at"))
            if token and not renew and (ends is None or self.clock.now() + _LEEWAY < ends):
                return token
            await self._renew(credential)
            return await self._get(f"{ref}/access") or ""

    async def refresh(self, credential: CredentialRef) -> Granted:
        """Renew the tokens now, also if they are still valid."""
        async with self._renewing[credential.ref_id]:
            return await self._renew(credential)

    async def revoke(self, credential: CredentialRef, *, replaced: bool = False) -> bool:
        """Take the grant back (7); says whether the provider confirmed that.

        `replaced`: another sign-in of the same owner goes on. Where both came from one browser,
        taking back a refresh token would end that one as well, so only the access token is.
        """
        ref, registration = credential.ref_id, _registration(credential)
        confirmed = False
        async with self._renewing[ref]:
            url = registration.server.revocation_endpoint
            if replaced and registration.server.issuer == _GOOGLE_ISSUER:
                url = None  # one token taken back there takes back all of them
            for hint in ("access",) if replaced else ("refresh", "access"):
                token = await self._get(f"{ref}/{hint}")
                if url is None or token is None:
                    continue
                form = {"token": token, "token_type_hint": f"{hint}_token"}
                with suppress(EgressError, TimeoutError):
                    async with asyncio.timeout(_REVOKE_SECONDS):
                        confirmed = (await self._post(url, registration, form)).status == 200
            await self._forget(ref)
        return confirmed

    async def _renew(self, credential: CredentialRef) -> Granted:
        ref, registration = credential.ref_id, _registration(credential)
        token = await self._get(f"{ref}/refresh")
        if token is None:
            known = await self._get(f"{ref}/access")
            raise GrantRevoked if known else CredentialMissing
        form = {
            "grant_type": "refresh_token",
            "refresh_token": token,
            **_for_resource(credential.resource),
        }
        answer = await self._post(registration.server.token_endpoint, registration, form)
        fields = _json(answer)
        if _is_success(answer, fields):
            return await self._keep(credential, fields)
        if fields.get("error") in _GRANT_IS_GONE:  # 5
            await self._forget(ref)
            raise GrantRevoked
        raise _refusal(fields)

    async def _keep_safely(self, credential: CredentialRef, fields: Mapping[str, Any]) -> Granted:
        """`_keep`, whole also if the sign-in is cancelled meanwhile: `revoke` waits for it."""

        async def keep() -> Granted:
            async with self._renewing[credential.ref_id]:
                return await self._keep(credential, fields)

        return await asyncio.shield(keep())

    async def _keep(self, credential: CredentialRef, fields: Mapping[str, Any]) -> Granted:
        """Store what a server has issued (4)."""
        ref, registration = credential.ref_id, _registration(credential)
        access = _text(fields, "access_token")
        if str(fields.get("token_type", "")).lower() != "bearer":
            raise OAuthFailed("The provider issued a token of a kind that Silas does not use.")
        _require_audience(access, credential.resource)
        renewed = fields.get("refresh_token")
        if isinstance(renewed, str) and renewed:
            await self._set(f"{ref}/refresh", renewed)
        ends = None
        if "expires_in" in fields:
            seconds = _number(fields, "expires_in", 0, at_most=_MAX_SECONDS)
            ends = self.clock.now() + timedelta(seconds=seconds)
        known = await self._state(ref)
        refresh_ends = known.get("refresh_expires_at")
        if "refresh_token_expires_in" in fields:
            seconds = _number(fields, "refresh_token_expires_in", 0, at_most=_MAX_SECONDS)
            refresh_ends = format_timestamp(self.clock.now() + timedelta(seconds=seconds))
        scope = fields.get("scope")
        scopes = tuple(scope.split()) if isinstance(scope, str) else registration.scopes
        state = {
            "expires_at": format_timestamp(ends) if ends else None,
            "refresh_expires_at": refresh_ends,
            "scopes": scopes,
        }
        await self._set(f"{ref}/access", access)
        await self._set(f"{ref}/state", json.dumps(state))
        renewable = await self._get(f"{ref}/refresh") is not None
        return Granted(
            scopes=scopes,
            expires_at=ends,
            renewable=renewable,
            refresh_expires_at=_moment(refresh_ends),
        )

    async def _post(
        self, url: str, registration: OAuthRegistration, form: Mapping[str, str]
    ) -> HttpAnswer:
        endpoint, path = endpoint_of(url, address=registration.server.address)
        fields = {**form, "client_id": registration.client_id}
        if registration.client_secret_ref is not None:
            secret = await self._get(registration.client_secret_ref)
            if secret is None:
                raise CredentialMissing
            fields["client_secret"] = secret
        body = urlencode(fields).encode()
        return await self._reach(
            self._dialer.fetch(endpoint, "POST", path, headers=_FORM, body=body)
        )

    async def _reach(self, work: Awaitable[HttpAnswer]) -> HttpAnswer:
        """Errors of the network in words; none of them holds what was sent."""
        try:
            return await work
        except EgressRefused as error:
            raise OAuthFailed(f"The provider was not asked: {error}") from error
        except (OSError, h11.ProtocolError) as error:
            why = getattr(error, "strerror", None) or "it does not answer as it should"
            raise OAuthUnreachable(f"The provider cannot be reached: {why}.") from error

    async def _state(self, ref: str) -> dict[str, Any]:
        stored = await self._get(f"{ref}/state")
        found = json.loads(stored) if stored else {}
        return found if isinstance(found, dict) else {}

    async def _get(self, ref: str) -> str | None:
        value = await asyncio.to_thread(self._vault.get, ref)
        return value.decode() if value is not None else None

    async def _set(self, ref: str, value: str) -> None:
        await asyncio.to_thread(self._vault.set, ref, value.encode())

    async def _forget(self, ref: str) -> None:
        for name in ("access", "refresh", "state"):
            await asyncio.to_thread(self._vault.delete, f"{ref}/{name}")


def _moment(stored: object) -> datetime | None:
    return parse_timestamp(stored) if isinstance(stored, str) else None


def _require_page(url: str, server: OAuthServer) -> None:
    """Raise `ValueError` unless a page to open is encrypted, or at the server that was signed."""
    same = urlsplit(url)[:2] == urlsplit(server.issuer)[:2]
    endpoint_of(url, address=server.address if same else None)


def _registration(credential: CredentialRef) -> OAuthRegistration:
    if credential.oauth is None:
        raise CredentialMissing
    return credential.oauth


def _described(fields: Mapping[str, Any], issuer: str, address: str | None) -> OAuthServer:
    if fields.get("issuer") != issuer:
        raise OAuthFailed(f"The metadata of {issuer} names another issuer, so it is not used.")
    known = {
        name: fields[name]
        for name in OAuthServer.model_fields
        if name.endswith("_endpoint") and name in fields
    }
    names_issuer = fields.get("authorization_response_iss_parameter_supported") is True
    try:
        return OAuthServer(issuer=issuer, address=address, names_issuer=names_issuer, **known)
    except ValidationError as error:
        raise OAuthFailed(f"The metadata of {issuer} names places that Silas does not use.") from (
            error
        )


def _json(answer: HttpAnswer) -> dict[str, Any]:
    """The answer as an object; an answer that is none says nothing."""
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return found
    if answer.status == 200:
        raise OAuthFailed("The provider's answer cannot be read.")
    return {}


_OUT_OF_ORDER = (429, 500, 502, 503, 504)
_GRANT_IS_GONE = ("invalid_grant", "bad_refresh_token")


def _is_success(answer: HttpAnswer, fields: Mapping[str, Any]) -> bool:
    """Some servers answer 200 to what they refuse (GitHub)."""
    return answer.status == 200 and "error" not in fields


def _refusal(fields: Mapping[str, Any]) -> OAuthFailed:
    """The provider's error code in words; only known codes are repeated."""
    error = str(fields.get("error", ""))
    if error == "access_denied":
        return OAuthDenied()
    if error == "expired_token":
        return OAuthTimedOut()
    if error in _GRANT_IS_GONE:
        return GrantRevoked()
    known = {
        *("invalid_client", "invalid_request", "invalid_scope", "unauthorized_client"),
        *("unsupported_grant_type", "server_error", "temporarily_unavailable"),
        *("interaction_required", "login_required", "consent_required"),
    }
    return OAuthFailed(
        f"The provider refused the sign-in: {error}." if error in known else None,
        error=error if error in known else "unknown",
    )


def _text(fields: Mapping[str, Any], *names: str) -> str:
    for name in names:
        value = fields.get(name)
        if isinstance(value, str) and value and value.isprintable() and len(value) <= 16_384:
            return value
    raise OAuthFailed(f"The provider's answer has no {names[0]}.")


def _number(fields: Mapping[str, Any], name: str, default: int, *, at_most: int) -> int:
    value = fields.get(name, default)
    if isinstance(value, str) and value.isdecimal() and len(value) < 12:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise OAuthFailed(f"The provider's answer has no usable {name}.")
    return min(int(value), at_most)
