"""The card of a skill: what the owner is shown, and signs, before it is installed.

1. `ShownSkill` is the whole of it: what the skill is, where it came from, what it asks for, what it
   would be given, what was taken out and found, and every file with its digest.
2. `summary_of` says the same in sentences. What a skill would be given is said first; what it asked
   for and does not get comes after it.
3. The risk is that of a stranger's text with rights that can be taken back, whatever is in it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from silas.approval import ApprovalScope
from silas.egress import named
from silas.gates.risk import ActionKind, DeclaredEffect, Reversibility, RiskLevel, risk_of
from silas.kernel import TaintLevel
from silas.kernel.models import Data
from silas.review.decisions import QuestionKind
from silas.review.questions import (
    YES,
    Question,
    QuestionChoice,
    QuestionContent,
    ShownPayload,
)
from silas.skills.command_rules import SkillFinding
from silas.skills.format import Skill
from silas.skills.sidecar import ScriptDeclaration, SkillKind
from silas.skills.store import SkillOrigin
from silas.skills.tree import SkillFile, TreeDifference

DECLINE = "decline"
_LIFETIME = timedelta(days=7)


class ShownTool(Data):
    """A tool that a skill would bring, as the card shows it."""

    name: str
    script: str
    description: str
    action: str
    reversibility: str
    inverse: str | None
    contained: bool


class ShownSkill(Data):
    """What the owner signs: everything that is installed, and everything that it is given."""

    version_id: str
    name: str
    digest: str
    description: str
    source: str
    origin: SkillOrigin | None = None
    """The commit that it was fetched as, if it was."""
    activation: str
    replaces: str | None
    """The digest of the version in force."""
    tools: tuple[ShownTool, ...]
    hosts: tuple[str, ...]
    """What its scripts may reach; they get no credential."""
    composes_with: tuple[str, ...]
    needs: tuple[str, ...]
    """Programs, packages and variables that it expects. Silas installs none, and passes none on."""
    not_granted: tuple[str, ...]
    """What it asked for and does not get."""
    unresolved: tuple[str, ...]
    """What the import could not settle."""
    transformation: dict[str, Any] | None
    """What the import has changed; None: it is as its author wrote it."""
    findings: tuple[SkillFinding, ...]
    """What was found in its files, the weightiest first."""
    changes: TreeDifference
    files: tuple[SkillFile, ...]


@dataclass(frozen=True)
class StagedSkill:
    """A skill in a folder of Silas' own, ready to be put before the owner."""

    directory: Path
    source: str
    origin: SkillOrigin | None = None
    """The commit that it was fetched as."""
    not_granted: tuple[str, ...] = ()
    report: dict[str, Any] | None = None
    """What the import has changed."""
    unresolved: tuple[str, ...] = ()
    """What a person has to look at."""
    kind: SkillKind | None = None
    """`tool_server`, where Silas has written it out of what a server offers; nobody else may."""
    summary: tuple[str, ...] = ()
    """The card in sentences, where the usual ones do not fit."""
    body: Mapping[str, Any] = field(default_factory=dict)
    """What the card shows besides."""


def version_id(name: str, digest: str) -> str:
    """How a token names one version of a skill."""
    return f"skill_{name}_{digest[:32]}"


def payload_of(question: Question) -> ShownPayload:
    """What a yes to this question approves."""
    skill = question.content.body["skill"]
    return ShownPayload(str(skill["version_id"]), skill)


def declared_effect(skill: Skill, declared: ScriptDeclaration) -> DeclaredEffect | None:
    """What a tool declares; an inverse that the skill does not bring undoes nothing."""
    effect = declared.effect
    if effect is None or declared.inverse is None or declared.inverse in skill.sidecar.tools:
        return effect
    return effect.model_copy(update={"reversibility": Reversibility.IRREVERSIBLE})


def _risk() -> RiskLevel:
    """A stranger's text gets rights that can be taken back."""
    return risk_of(
        ApprovalScope.SKILL_INSTALL,
        ActionKind.GRANT,
        reversibility=Reversibility.REVERSIBLE,
        taint=TaintLevel.EXTERNAL,
        inside_envelope=False,
    )


def shown_tools(skill: Skill) -> tuple[ShownTool, ...]:
    """The tools of a skill, as cards and lists show them."""
    found = []
    for path, declared in sorted(skill.sidecar.scripts.items()):
        effect = declared_effect(skill, declared)
        found.append(
            ShownTool(
                name=declared.tool_name(path),
                script=path,
                description=declared.description,
                action=effect.action.value if effect else "not declared",
                reversibility=effect.reversibility.value if effect else "irreversible",
                inverse=declared.inverse,
                contained=declared.contained and not skill.reaches_out,
            )
        )
    for name, served in skill.sidecar.served.items():
        effect = served.declared
        found.append(
            ShownTool(
                name=name,
                script=served.served,
                description="",
                action=effect.action.value if effect else "not declared",
                reversibility=effect.reversibility.value if effect else "irreversible",
                inverse=served.inverse,
                contained=effect is not None and not served.is_final and not skill.reaches_out,
            )
        )
    return tuple(found)


def _needs(skill: Skill) -> tuple[str, ...]:
    needs = skill.sidecar.requirements
    return (
        *(f"the program {each}" for each in needs.programs),
        *(f"the Python package {each}" for each in needs.packages),
        *(f"the variable {each}, which it does not get" for each in needs.environment),
        *needs.other,
    )


def shown_skill(
    skill: Skill,
    staged: StagedSkill,
    findings: Sequence[SkillFinding],
    *,
    replaces: str | None,
    changes: TreeDifference,
) -> ShownSkill:
    """What the card shows of a skill."""
    asked = skill.manifest.allowed_tools
    return ShownSkill(
        version_id=version_id(skill.name, skill.digest),
        name=skill.name,
        digest=skill.digest,
        description=skill.description,
        source=staged.source,
        origin=staged.origin,
        activation=skill.sidecar.activation.value,
        replaces=replaces,
        tools=shown_tools(skill),
        hosts=skill.sidecar.hosts,
        composes_with=skill.sidecar.composes_with,
        needs=_needs(skill),
        not_granted=(
            *staged.not_granted,
            *([f"tools without asking (allowed-tools): {asked}"] if asked else []),
        ),
        unresolved=staged.unresolved,
        transformation=staged.report,
        findings=tuple(findings),
        changes=changes,
        files=skill.tree.files,
    )


def skill_question(
    shown: ShownSkill, staged: StagedSkill, name: str, *, owner_id: str, now: datetime
) -> Question:
    """The question whether to install it; a yes is to exactly what is shown."""
    verb = "Update" if shown.replaces else "Install"
    what = "tool server" if staged.kind is SkillKind.TOOL_SERVER else "skill"
    return Question(
        question_id=name,
        scope_id=owner_id,
        trace_id=f"trace_{name}",
        about=f"skill:{shown.name}:{shown.digest}",
        content=QuestionContent(
            kind=QuestionKind.SKILL,
            intent=f"{verb} the {what} {shown.name}?",
            rationale=f"From {shown.source}. It says of itself: {shown.description}",
            risk=_risk(),
            taint=TaintLevel.EXTERNAL,
            actions=[
                QuestionChoice(value=YES, label=f"{verb} {shown.name}"),
                QuestionChoice(value=DECLINE, label="Do not install it"),
            ],
            body={
                "summary": list(staged.summary) or summary_of(shown),
                "skill": shown.model_dump(mode="json"),
                **staged.body,
            },
        ),
        created_at=now,
        expires_at=now + _LIFETIME,
    )


def summary_of(shown: ShownSkill) -> list[str]:
    """The card in sentences: what the skill would be given, and what it would not."""
    lines = ["It sees its own files and a copy of the workspace of the plan that names it."]
    lines.append(
        f"Its scripts reach {named(shown.hosts)}, and nothing else."
        if shown.hosts
        else "Its scripts reach no host."
    )
    lines.append("It gets no credential, no variable of yours and no memory.")
    for tool in shown.tools:
        where = "inside of the sandbox alone" if tool.contained else "also outside of the sandbox"
        undone = {
            "reversible": f"{tool.inverse} undoes it" if tool.inverse else "nothing to undo",
            "hard": "hard to undo",
        }.get(tool.reversibility, "cannot be undone")
        lines.append(f"Tool {tool.name}: {tool.action}, with effects {where}, {undone}.")
    if not shown.tools:
        lines.append("It brings no tool: it is text for the worker.")
    lines += [f"Asked for, not granted: {each}" for each in shown.not_granted]
    lines += [f"It expects {each}." for each in shown.needs]
    if shown.origin is not None:
        lines.append(f"It is {shown.origin}.")
    lines += _adapted(shown)
    return [*lines, *_changes(shown)]


def _adapted(shown: ShownSkill) -> list[str]:
    if shown.transformation is None:
        return []
    rewritten = [
        f"{each['script']}: {each['how']}" for each in shown.transformation.get("rewritten", ())
    ]
    origin = f"It was written for {shown.transformation.get('dialect')}, and adapted."
    return [
        origin,
        *(f"Rewritten: {each}" for each in rewritten),
        *(f"Look at this yourself: {each}" for each in shown.unresolved),
    ]


def _changes(shown: ShownSkill) -> Sequence[str]:
    if shown.replaces is None:
        return []
    parts = [
        (word, paths)
        for word, paths in (
            ("added", shown.changes.added),
            ("changed", shown.changes.changed),
            ("removed", shown.changes.removed),
        )
        if paths
    ]
    told = "; ".join(f"{word} {', '.join(paths)}" for word, paths in parts)
    return [f"Different from the version in force: {told}."] if told else []
