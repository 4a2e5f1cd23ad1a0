"""`/persona/*`: how Silas speaks to the owner, looked at and moved by him."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException
from pydantic import Field

from silas.kernel import SilasError
from silas.personality import PersonalityAxis, PersonalityEngine
from silas.web.bodies import Body
from silas.web.front import Front

_STEP = 0.05
_FEEDBACK: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "too_harsh": {"assertiveness": -_STEP},
        "too_soft": {"assertiveness": _STEP},
        "too_wordy": {"verbosity": -_STEP},
        "too_brief": {"verbosity": _STEP},
        "too_cold": {"warmth": _STEP},
        "too_warm": {"warmth": -_STEP},
        "too_formal": {"formality": -_STEP},
        "too_casual": {"formality": _STEP},
    }
)
Feedback = Literal[
    "too_harsh",
    "too_soft",
    "too_wordy",
    "too_brief",
    "too_cold",
    "too_warm",
    "too_formal",
    "too_casual",
]
Guard = Callable[..., Awaitable[Any]]


class Preset(Body):
    """A manner by its name."""

    preset: Annotated[str, Field(min_length=1, max_length=100)]


class FeedbackGiven(Body):
    """What was wrong with how something was said."""

    type: Feedback


class Tuning(Body):
    """Axes to be moved."""

    delta: dict[PersonalityAxis, Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)]]
    persist_to_baseline: bool = False


def persona_routes(front: Front, *, reader: Guard, signer: Guard) -> APIRouter:
    """The routes; whoever passes the guards is the owner."""
    router = APIRouter(prefix="/persona")
    owner = front.owner_id

    @router.get("/state", dependencies=[Depends(reader)])
    async def state() -> dict[str, Any]:
        engine = _engine(front)
        now = await engine.state(owner)
        return {
            "baseline_axes": now.baseline_axes.model_dump(),
            "mood": now.mood.model_dump(),
            "context": now.last_context,
            "preset": now.active_preset,
            "directives": await engine.render_directives(owner, now.last_context),
        }

    @router.post("/preset", dependencies=[Depends(signer)])
    async def preset(wanted: Preset) -> dict[str, str]:
        try:
            now = await _engine(front).set_preset(owner, wanted.preset)
        except SilasError as error:
            raise HTTPException(404, error.message) from error
        return {"preset": now.active_preset}

    @router.post("/feedback", dependencies=[Depends(signer)])
    async def feedback(given: FeedbackGiven) -> dict[str, bool]:
        await _engine(front).adjust_axes(
            owner, _FEEDBACK[given.type], trusted=True, persist_to_baseline=True
        )
        return {"heard": True}

    @router.post("/tune", dependencies=[Depends(signer)])
    async def tune(wanted: Tuning) -> dict[str, bool]:
        delta = {axis.value: step for axis, step in wanted.delta.items()}
        await _engine(front).adjust_axes(
            owner, delta, trusted=True, persist_to_baseline=wanted.persist_to_baseline
        )
        return {"tuned": True}

    return router


def _engine(front: Front) -> PersonalityEngine:
    if front.personality is None:
        raise HTTPException(404, "No manner is configured: personality.enabled is false.")
    return front.personality
