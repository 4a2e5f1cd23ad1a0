"""Sign-ins at providers, from the card that shows them to the day that they are taken back.

1. Where the owner signs in, as which client and for what is found out before the card, and signed
   with it. The tokens are the broker's; nothing here sees one.
2. Tokens are renewed before they end, whether or not anything uses the account (spec 5.10.3). An
   outage is no failure: the next look tries again.
3. A sign-in that the provider no longer takes fails the connection, with the step to take.
4. Removing takes the sign-in back at the provider, and says if that was not confirmed.
5. A wider sign-in lies beside the old one until the provider has granted all of it. Then the old
   one is forgotten; before that, and in every other case, the new one is.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import ValidationError

from silas.audit.models import AuditTrail
from silas.connections.models import (
    Connection,
    ConnectionRefused,
    Discovery,
    FailureReport,
    HealthCheckResult,
)
from silas.connections.registry import ConnectionStore
from silas.connections.scripts import ScriptMisbehaved
from silas.connections.setup import SecretRequests
from silas.egress.accounts import OAuthRegistration, OAuthServer
from silas.egress.broker import CredentialBroker
from silas.egress.oauth import CredentialMissing, GrantRevoked, OAuthClient
from silas.kernel import EgressError, visible
from silas.kernel.models import problem_text
from silas.skills.sidecar import AuthStrategy

NOT_CONFIRMED = (
    "The provider has not confirmed that the sign-in is taken back. Take it back in the settings "
    "of your account there."
)
_AHEAD = timedelta(minutes=10)
"""So long before its end a token is renewed."""
_PAUSE = timedelta(minutes=5)
"""Tokens that live shorter than the above are not renewed more often than this."""
_SLIDING, _DORMANT, _DAY = timedelta(days=7), timedelta(days=30), timedelta(days=1)
_TAKEN_BACK = "Sign in again, and Silas goes on where it was."


@dataclass(frozen=True)
class SignIns:
    """The sign-ins of all connections that have one."""

    broker: CredentialBroker
    store: ConnectionStore
    secrets: SecretRequests
    audit: AuditTrail

    @property
    def oauth(self) -> OAuthClient:
        """Who talks to the provider."""
        return self.broker.oauth

    async def registration(self, found: Discovery, ref: str) -> OAuthRegistration | None:
        """Rule 1; None: a secret is typed. Raises `ConnectionRefused`."""
        offer, strategy = found.oauth, found.auth_strategy
        if (offer is None) != (strategy is AuthStrategy.SECURE_INPUT):
            raise ScriptMisbehaved("discover.py does not say where the owner signs in, and how.")
        if offer is None:
            return None
        try:
            server = await self.oauth.discover(offer.issuer, address=offer.address)
            _require_way(server, strategy)
            return OAuthRegistration(
                server=server,
                client_id=offer.client_id,
                scopes=offer.scopes,
                client_secret_ref=f"{ref}/client" if offer.client_secret else None,
                later_scopes=offer.later_scopes,
            )
        except EgressError as error:
            raise ConnectionRefused(error.message) from error
        except ValidationError as error:
            raise ScriptMisbehaved(
                f"discover.py names a client that cannot be: "
                f"{visible(problem_text(error), keep_newlines=False)}."
            ) from error

    async def renew_if_due(self, connection: Connection, now: datetime) -> FailureReport | None:
        """Rule 2; what has failed, if the sign-in is gone."""
        held = await self.oauth.held(connection.credential_ref)
        if held is None or not held.renewable:
            return None
        renewed, ends = connection.last_refresh, held.refresh_expires_at
        if renewed is not None and now - renewed < _PAUSE:
            return None
        if held.expires_at is not None and held.expires_at - now <= _AHEAD:
            return await self.renew(connection, now)
        dormant = now - (connection.last_used_at or connection.created_at) >= _DORMANT
        rested = renewed is None or now - renewed >= _DAY
        if ends is None or ends - now > _SLIDING or not dormant or not rested:
            return None
        failed = await self.renew(connection, now)
        if failed is None:
            await self.audit.log(
                "proactive_refresh_dormant",
                connection=connection.connection_id,
                name=connection.name,
            )
        return failed

    async def renew(self, connection: Connection, now: datetime) -> FailureReport | None:
        """Renew the tokens now; raises `EgressError` in an outage."""
        try:
            await self.oauth.refresh(connection.credential_ref)
        except (GrantRevoked, CredentialMissing):
            return gone(connection)
        await self.store.note(connection.connection_id, last_refresh=now, problem="")
        await self.note_ends(connection)
        return None

    async def note_ends(self, connection: Connection) -> None:
        """Write down when the tokens end."""
        if connection.oauth is None:
            return
        held = await self.oauth.held(connection.credential_ref)
        await self.store.note(
            connection.connection_id,
            token_expires_at=held.expires_at if held else None,
            refresh_token_expires_at=held.refresh_expires_at if held else None,
        )

    async def judged(
        self, connection: Connection, result: HealthCheckResult, report: FailureReport | None
    ) -> tuple[HealthCheckResult, FailureReport | None]:
        """What a check found, with what its script cannot know: when tokens end, or are gone."""
        if connection.oauth is None:
            return result, report
        held = await self.oauth.held(connection.credential_ref)
        if held is None:  # rule 3: the broker has forgotten what the provider does not take
            report = gone(connection)
            return HealthCheckResult(healthy=False, error=report.message), report
        ends = {
            "token_expires_at": held.expires_at,
            "refresh_token_expires_at": held.refresh_expires_at,
        }
        return result.model_copy(update=ends), report

    async def require(self, connection: Connection, scopes: Collection[str]) -> None:
        """Raise `ConnectionRefused` unless the provider has granted them (rule 5)."""
        held = await self.oauth.held(connection.credential_ref)
        granted = " ".join(held.scopes if held else ()).replace(",", " ").split()
        missing = " ".join(each for each in scopes if each not in granted)
        if missing:
            raise ConnectionRefused(f"The provider did not grant {missing}.")

    async def replace(self, left: Connection) -> None:
        """Forget one of two sign-ins; the other one goes on (rule 5)."""
        if await self.oauth.held(left.credential_ref) is None:
            return
        confirmed = await self.oauth.revoke(left.credential_ref, replaced=True)
        await self.audit.log(
            "connection_sign_in_revoked" if confirmed else "connection_sign_in_forgotten",
            connection=left.connection_id,
            name=left.name,
        )

    async def forget(self, connection: Connection) -> bool:
        """Rule 4, and every secret; False: nobody confirmed that a sign-in is taken back."""
        if connection.oauth is None:
            await self.secrets.forget(connection.ref_id)
            return True
        signed_in = await self.oauth.held(connection.credential_ref) is not None
        confirmed = await self.broker.forget(connection.credential_ref)
        if connection.oauth.client_secret_ref is not None:
            await self.secrets.forget(connection.oauth.client_secret_ref)
        if signed_in:
            await self.audit.log(
                "connection_sign_in_revoked" if confirmed else "connection_sign_in_forgotten",
                connection=connection.connection_id,
                name=connection.name,
            )
        return confirmed or not signed_in


def gone(connection: Connection) -> FailureReport:
    """What is told of a sign-in that the provider does not take any more (rule 3)."""
    return FailureReport(
        failure_type="token_revoked", service=connection.provider, message=_TAKEN_BACK
    )


def _require_way(server: OAuthServer, strategy: AuthStrategy) -> None:
    """Raise `ConnectionRefused` if one cannot sign in there in this way."""
    if strategy is AuthStrategy.DEVICE_CODE and server.device_authorization_endpoint is None:
        raise ConnectionRefused(
            f"{server.issuer} has no sign-in by code. Connect with "
            "`--option flow=browser_redirect`."
        )
    if strategy is AuthStrategy.BROWSER_REDIRECT and server.authorization_endpoint is None:
        raise ConnectionRefused(
            f"{server.issuer} has no page to sign in at. Connect with `--option flow=device_code`."
        )
