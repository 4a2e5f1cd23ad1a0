"""`AutonomyService`: how much Silas asks, why, and the one tap that takes back what was widened.

The same for the page (`/api/autonomy`) and the command line (`silas autonomy`, `silas grants`).
Nothing here widens anything: that follows from the owner's signed yes to a proposal alone
(`calibrator`, `grants`).
"""

from dataclasses import dataclass
from typing import Any

from silas.kernel.errors import ApprovalError
from silas.kernel.models import Data, UtcDatetime
from silas.proactive.calibrator import AutonomyCalibrator, InForce, Knob
from silas.proactive.grants import GrantShown, StandingGrants, StandingGrantUnknown
from silas.proactive.outcomes import Tally, is_suggestion, of_actions


class AutonomyChangeUnknown(ApprovalError):
    """There is no such change in force. `silas autonomy list` shows them."""

    code = "E_APPROVAL_CHANGE"


class ThresholdShown(Data):
    """One knob: what is in force, and what the settings say."""

    key: str
    words: str
    value: str
    as_set: str
    changed: bool
    until: UtcDatetime | None = None
    """When the change ends by itself."""


class ChangeShown(Data):
    """A change that is in force, with what it was proposed on."""

    proposal_id: str
    key: str
    words: str
    goal_id: str | None
    direction: str
    before: str
    value: str
    since: UtcDatetime
    until: UtcDatetime
    sample_size: int
    correction_rate: float


class FamilyShown(Data):
    """How often the owner corrected a kind of action lately."""

    family: str
    samples: int
    corrections: int
    rate: float


class AutonomyShown(Data):
    """What the page and `silas autonomy list` show."""

    enabled: bool
    thresholds: tuple[ThresholdShown, ...]
    changes: tuple[ChangeShown, ...]
    families: tuple[FamilyShown, ...]
    grants: tuple[GrantShown, ...]
    total: FamilyShown
    window: str
    needed: int
    """How many decisions a proposal needs."""


class Tightened(Data):
    """What one tap has taken back."""

    changes: int
    grants: int
    told: str


_WORDS = {
    Knob.BATCH_SIZE: "Items that one card decides together",
    Knob.HIGH_MIN: "How sure I must be to put an item into a batch",
    Knob.EXECUTIONS: "How often a standing grant can be used",
    Knob.EXPIRY: "How long a standing grant holds",
    Knob.SCOPE: "What a standing grant covers",
}
_OF_BATCHES = (Knob.BATCH_SIZE, Knob.HIGH_MIN)


@dataclass(frozen=True)
class AutonomyService:
    """Shows and tightens the autonomy of one data directory."""

    calibrator: AutonomyCalibrator
    standing: StandingGrants
    owner_id: str

    async def state(self) -> AutonomyShown:
        """Show how much is asked, and how often you correct what is proposed."""
        policy = self.calibrator.policy
        in_force = await self.calibrator.in_force()
        since = self.calibrator.clock.now() - policy.window
        cases = await self.calibrator.outcomes.cases(self.owner_id, since=since)
        names = sorted({n for case in cases for n in case.families if not is_suggestion(n)})
        families = [Tally(n, tuple(c for c in cases if n in c.families)) for n in names]
        total = of_actions(cases).newest(policy.window_actions)
        return AutonomyShown(
            enabled=policy.enabled,
            thresholds=tuple([await self._threshold(key, in_force) for key in _OF_BATCHES]),
            changes=tuple(map(_change, in_force)),
            grants=tuple([each for each in await self.standing.shown() if each.in_force]),
            families=tuple(_family(each.newest(policy.window_actions)) for each in families),
            total=_family(total),
            window=policy.words,
            needed=policy.min_samples,
        )

    async def show(self, proposal_id: str) -> ChangeShown:
        """Show one change that is in force; raises `AutonomyChangeUnknown`."""
        for each in await self.calibrator.in_force():
            if each.proposal_id == proposal_id:
                return _change(each)
        raise AutonomyChangeUnknown

    async def tighten(self, proposal_id: str | None = None) -> Tightened:
        """Take back everything that was widened, at once: the settings hold again.

        `proposal_id` is the card that the owner has answered so, if it was one.
        """
        grants = await self.standing.revoke_all()
        changes = len(await self.calibrator.tighten(proposal_id))
        parts = [_counted(changes, "change"), _counted(grants, "standing grant")]
        taken = " and ".join(part for part in parts if part)
        told = f"Taken back: {taken}." if taken else "There was nothing to take back."
        return Tightened(changes=changes, grants=grants, told=f"{told} The settings hold.")

    async def grants(self) -> tuple[GrantShown, ...]:
        """Show all standing grants, also those that have ended, with what was done under them."""
        return tuple(await self.standing.shown())

    async def grant(self, grant_id: str) -> GrantShown:
        """Show one standing grant; raises `StandingGrantUnknown`."""
        for each in await self.standing.shown():
            if each.grant_id == grant_id:
                return each
        raise StandingGrantUnknown

    async def revoke(self, grant_id: str) -> Tightened:
        """Take one standing grant back, at once; raises `StandingGrantUnknown`."""
        await self.standing.revoke(grant_id)
        return Tightened(changes=0, grants=1, told="Taken back. I ask you again about these calls.")

    async def _threshold(self, key: Knob, in_force: list[InForce]) -> ThresholdShown:
        policy = self.calibrator.policy
        usual: dict[Knob, Any] = {
            Knob.BATCH_SIZE: policy.batch_size,
            Knob.HIGH_MIN: policy.high_min,
        }
        found = [each for each in in_force if each.key == key and each.goal_id is None]
        return ThresholdShown(
            key=key.value,
            words=_WORDS[key],
            value=found[0].value if found else str(usual[key]),
            as_set=str(usual[key]),
            changed=bool(found),
            until=found[0].until if found else None,
        )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count > 1)}" if count else ""


def _change(each: InForce) -> ChangeShown:
    return ChangeShown(
        proposal_id=each.proposal_id,
        key=each.key,
        words=_WORDS[Knob(each.key)],
        goal_id=each.goal_id,
        direction=each.direction,
        before=each.before,
        value=each.value,
        since=each.since,
        until=each.until,
        sample_size=each.sample_size,
        correction_rate=each.correction_rate,
    )


def _family(tally: Tally) -> FamilyShown:
    return FamilyShown(
        family=tally.family,
        samples=tally.samples,
        corrections=tally.corrections,
        rate=tally.rate,
    )
