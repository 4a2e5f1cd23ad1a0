"""What a goal may propose about many items at once: where they are found, what fits which of them.

A policy stands in the front matter of a goal and is signed with it. It executes nothing: what it
leads to is put before the owner as a batch (`silas.proactive.batches`).

1. The source is one tool that only looks. Every item that it gives has an id, which says where the
   item is and what it was like; nothing else of an item is ever handed to a tool.
2. An action is one tool with fixed arguments. The ids of the items are all that is added to them.
3. Of several rules that fit, the first one counts. `leave` says that an item stays where it is.
4. A rule fits by what can be trusted, or by a stranger's text. The sender can be trusted only if
   the rule names it and the owner's provider vouches for it; whether a mail is of a mailing list,
   and of when, a sender says who can be trusted. The subject is a stranger's text.
"""

from collections.abc import Iterator
from typing import Annotated, Self

from pydantic import Field, model_validator

from silas.gates.envelopes import ArgumentName, Scalar, ToolName
from silas.gates.models import Name
from silas.kernel import visible
from silas.kernel.models import Data, FieldProblem, quoted, refuse, text_like

LEAVE = "leave"
"""What a rule does that lets an item stay where it is."""
MOST_ACTIONS, MOST_RULES = 12, 100

Words = Annotated[str, Field(min_length=1, max_length=200)]
Sender = Annotated[
    str,
    Field(max_length=320),
    text_like(
        r"[^\s<>,@]*@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?",
        "must be an address (ann@example.org) or a domain (@example.org)",
    ),
]


class ItemSource(Data):
    """Where the items come from: a tool that only looks, and what its answer calls their parts."""

    tool: ToolName
    args: dict[ArgumentName, Scalar] = Field(default_factory=dict)
    items: ArgumentName = "mails"
    id: ArgumentName = "id"
    title: ArgumentName = "subject"
    actor: ArgumentName = "from"
    occurred_at: ArgumentName = "date"
    verified: ArgumentName = "sender_verified"
    identity: ArgumentName = "message_id"
    """What stays the same when an item is moved and brought back; else its id is taken."""
    state: ArgumentName | None = None
    """What changes whenever the item does, such as an etag; an id of a mail says it already."""


class BatchAction(Data):
    """One thing that can be done with items."""

    tool: ToolName
    args: dict[ArgumentName, Scalar] = Field(default_factory=dict)
    ids: ArgumentName = "mails"
    """The argument that takes a list of ids."""
    state: ArgumentName | None = None
    """The argument that takes the state in which the item was seen."""
    label: Words | None = None
    """What it is called on a card."""

    @model_validator(mode="after")
    def _own_arguments(self) -> Self:
        if self.ids in self.args or (self.state is not None and self.state in self.args):
            refuse([FieldProblem(("args",), "must not hold the argument that takes the ids")])
        return self


class ItemCondition(Data):
    """What an item must be like; everything that is said must hold."""

    sender: list[Sender] | None = Field(default=None, min_length=1, max_length=200)
    subject: list[Words] | None = Field(default=None, min_length=1, max_length=50)
    mailing_list: bool | None = None
    unread: bool | None = None
    older_than_days: int | None = Field(default=None, ge=0, le=36_500)

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if all(getattr(self, name) is None for name in type(self).model_fields):
            refuse([FieldProblem((), "says nothing; name at least one thing")])
        return self


class BatchRule(Data):
    """Which action fits which items."""

    name: Name
    when: ItemCondition
    then: Name


class BatchPolicy(Data):
    """What a goal proposes about the items of an account (`batch` in the front matter)."""

    source: ItemSource
    actions: dict[Name, BatchAction] = Field(min_length=1, max_length=MOST_ACTIONS)
    rules: list[BatchRule] = Field(default_factory=list, max_length=MOST_RULES)
    guess: bool = False
    """Whether a model sees sender, subject and date of what no rule fits, and guesses an action."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        refuse(list(self._problems()))
        return self

    def _problems(self) -> Iterator[FieldProblem]:
        if LEAVE in self.actions:
            yield FieldProblem(("actions", LEAVE), "is what a rule says that does nothing")
        names = [rule.name for rule in self.rules]
        for index, rule in enumerate(self.rules):
            if rule.then != LEAVE and rule.then not in self.actions:
                known = ", ".join([*self.actions, LEAVE])
                message = f"{quoted(rule.then)} is not one of the actions: {known}"
                yield FieldProblem(("rules", index, "then"), message)
            if rule.name in names[:index]:
                message = f"{quoted(rule.name)} is there already; names must differ"
                yield FieldProblem(("rules", index, "name"), message)


def condition_in_words(condition: ItemCondition) -> str:
    """What a condition asks for, on one line."""
    said = []
    if condition.sender:
        said.append(f"from {' or '.join(condition.sender)}, vouched for")
    if condition.mailing_list is not None:
        said.append("of a mailing list" if condition.mailing_list else "not of a mailing list")
    if condition.unread is not None:
        said.append("unread" if condition.unread else "read")
    if condition.older_than_days is not None:
        said.append(f"older than {condition.older_than_days} days")
    if condition.subject:
        said.append(f"with {' or '.join(map(repr, condition.subject))} in the subject")
    return visible(", ".join(said), keep_newlines=False)


def label_of(policy: BatchPolicy, name: str) -> str:
    """What an action is called."""
    if name == LEAVE:
        return "Leave it where it is"
    action = policy.actions[name]
    return action.label or name.replace("_", " ").capitalize()


def policy_lines(policy: BatchPolicy) -> list[str]:
    """What a goal would propose, in words: for its card."""
    source = policy.source
    where = ", ".join(f"{name} {value}" for name, value in source.args.items())
    lines = [f"Looks with {source.tool}{f' ({where})' if where else ''}"]
    for name, action in policy.actions.items():
        args = ", ".join(f"{key} {value}" for key, value in action.args.items())
        with_ = f"{action.tool}{f' ({args})' if args else ''}"
        lines.append(f"May propose “{label_of(policy, name)}” (with {with_})")
    lines += [
        f"Rule {rule.name}: {condition_in_words(rule.when)} → {label_of(policy, rule.then)}"
        for rule in policy.rules
    ]
    if policy.guess:
        lines.append("Where no rule fits, your model sees sender, subject and date, and guesses")
    return [visible(line, keep_newlines=False) for line in lines]
