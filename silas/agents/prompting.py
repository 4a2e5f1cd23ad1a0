"""Prompts: files that people can read, put together in one fixed order.

What never changes comes first, byte for byte (the constitution, the role), so that caches of
providers hit. Then, from the most lasting to the most fleeting: access level, skills, directives,
context, findings, request.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from string import Template

from pydantic_ai.framing import wrap

from silas.agents.framing import (
    CONVERSATION,
    DIRECTIVES,
    FINDINGS,
    REQUEST,
    SKILLS,
    disarm,
    frame_external,
)
from silas.agents.harmless import HarmlessBlocks
from silas.stream.models import AgentTurn
from silas.stream.ports import Finding

# Digests only, of blocks of any conversation: whoever knows a block learns nothing from it.
_HARMLESS_BLOCKS = HarmlessBlocks()


@cache
def prompt_file(name: str) -> str:
    """The text of one file in `prompts/`."""
    return (files("silas.agents") / "prompts" / f"{name}.md").read_text(encoding="utf-8").strip()


def instructions(role: str, **values: str) -> str:
    """What a role is told before everything else: the constitution, then its own file."""
    return f"{prompt_file('constitution')}\n\n{Template(prompt_file(role)).substitute(values)}"


def turn_prompt(
    turn: AgentTurn, *, findings: Sequence[Finding] = (), closing: Sequence[str] = ()
) -> str:
    """What an agent is told for one answer."""
    parts = [f"Access level: {disarm(turn.access_level)}"]
    if turn.skills:
        parts.append(wrap(SKILLS, _listed(turn.skills)))
    if turn.directives:
        parts.append(wrap(DIRECTIVES, f"\n{disarm(turn.directives)}\n"))
    if turn.context:
        parts.append(wrap(CONVERSATION, f"\n{_HARMLESS_BLOCKS.disarmed(turn.context)}\n"))
    if findings:
        parts.append(_findings(findings))
    parts.append(wrap(REQUEST, f"\n{disarm(turn.request)}\n"))
    return "\n\n".join([*parts, *closing])


def _listed(skills: Mapping[str, str]) -> str:
    return "".join(f"\n- {disarm(name)}: {disarm(text)}" for name, text in skills.items()) + "\n"


def _findings(findings: Sequence[Finding]) -> str:
    answers = "\n".join(
        f"Question: {disarm(each.question)}\n"
        f"{'Answer' if each.ok else 'Not found'}: "
        f"{frame_external(each.answer, ', '.join(each.sources) or 'unknown')}"
        for each in findings
    )
    # Each answer is framed and escaped by itself; to wrap them again would escape their frames.
    return f"<{FINDINGS}>\n{answers}\n</{FINDINGS}>"
