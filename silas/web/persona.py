"""`/persona/*`: how Silas speaks to the owner, looked at and moved by him."""

from typing import Annotated, Any, Literal

from fastapi import HTTPException
from pydantic import Field

from silas.kernel import SilasError, format_timestamp
from silas.personality import PersonalityAxis, PersonalityEngine
from silas.personality.feedback import FEEDBACK
from silas.personality.models import PersonaEvent
from silas.web.access import page
from silas.web.command_routes import Routes
from silas.web.commands import Body, PageAccess
from silas.web.front import Front

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


def persona_routes(front: Front) -> Routes:
    """The routes."""
    routes = Routes("/persona")
    owner = front.owner_id

    @routes.post("/state")
    @page(None)
    async def state_for_commands(_: Body) -> dict[str, Any]:
        return await state()

    @routes.get("/state")
    @page(PageAccess.SESSION)
    async def state() -> dict[str, Any]:
        engine = _engine(front)
        now = await engine.state(owner)
        return {
            "baseline_axes": now.baseline_axes.model_dump(),
            "mood": now.mood.model_dump(),
            "context": now.last_context,
            "preset": now.active_preset,
            "presets": engine.presets,
            "directives": await engine.render_directives(owner, now.last_context),
            "sample": await engine.sample(owner),
            "changes": [_told(each) for each in await engine.owner_changes(owner)],
        }

    @routes.post("/preset")
    @page(PageAccess.SIGNED)
    async def preset(wanted: Preset) -> dict[str, str]:
        try:
            now = await _engine(front).set_preset(owner, wanted.preset)
        except SilasError as error:
            raise HTTPException(404, error.message) from error
        return {"preset": now.active_preset}

    @routes.post("/feedback")
    @page(PageAccess.SIGNED)
    async def feedback(given: FeedbackGiven) -> dict[str, bool]:
        await _engine(front).hear_feedback(owner, f"feedback_{given.type}", trusted=True)
        return {"heard": True}

    @routes.post("/tune")
    @page(PageAccess.SIGNED)
    async def tune(wanted: Tuning) -> dict[str, bool]:
        delta = {axis.value: step for axis, step in wanted.delta.items()}
        await _engine(front).adjust_axes(
            owner, delta, trusted=True, persist_to_baseline=wanted.persist_to_baseline
        )
        return {"tuned": True}

    @routes.post("/undo")
    @page(PageAccess.SIGNED)
    async def undo(_: Body) -> dict[str, str]:
        last = await _engine(front).undo_change(owner)
        if last is None:
            raise HTTPException(404, "You have changed nothing that could be taken back.")
        return {"undone": _told(last)["text"]}

    return routes


def _told(event: PersonaEvent) -> dict[str, str]:
    """A change of the manner, in words."""
    feedback = FEEDBACK.get(event.event_type)
    steps = [f"{'more' if step > 0 else 'less'} {name}" for name, step in event.delta_axes.items()]
    text = feedback.wanted if feedback else ", ".join(steps)
    return {"text": text, "at": format_timestamp(event.created_at)}


def _engine(front: Front) -> PersonalityEngine:
    if front.personality is None:
        raise HTTPException(404, "No manner is configured: personality.enabled is false.")
    return front.personality
