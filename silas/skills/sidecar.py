"""What `silas.yaml` says beside `SKILL.md`: how a skill is used, what it asks for, its scripts.

1. The file is optional. What it does not say is not asked for: no host, no variable, no tool.
2. A script that is declared here becomes a tool, with the words of `silas.tools`: what it does to
   the world, whether that can be undone, which tool undoes it, whether it is contained. A script
   that is not declared can be read, and no model is offered it.
3. The arguments of a script are declared one by one. They are checked before anything is run, and
   reach the script as options (`--name=value`), as positional words, or as one JSON object on its
   standard input; never through a shell.
4. A script that does several things is declared once for each: by its path, a blank, and the word
   that chooses (`scripts/mail.py search`). The word is the first that the script is called with.
5. An example of a script has to fit its own arguments: it is what the trial run is made with.
6. A script of a connection may take away from what its permission allows at the broker, and never
   add to it (`uses`).
"""

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from silas.egress.accounts import HttpRules, ImapCommands
from silas.egress.hosts import Hosts
from silas.gates.risk import ActionKind, DeclaredEffect, Reversibility
from silas.kernel.models import Data, FieldProblem, refuse, text_like
from silas.tools.declaration import ArgumentsRefused, ToolDeclaration, checked

MAX_SCRIPTS = 100
MAX_ARGUMENTS = 40
MAX_SERVED = 200
_MAX_LIST = 100
_WORD = r"[a-z][a-z0-9_]{0,63}"

SkillName = Annotated[
    str,
    Field(max_length=64),
    text_like(
        r"[a-z0-9]+(?:-[a-z0-9]+)*",
        "must consist of lower-case letters, digits and single hyphens, such as `pdf-forms`",
    ),
]
ToolName = Annotated[str, text_like(_WORD, "must be a name such as `place_order`")]
ArgumentName = Annotated[str, text_like(_WORD, "must be a name such as `order_id`")]
VariableName = Annotated[
    str, text_like(r"[A-Za-z_][A-Za-z0-9_]{0,127}", "must be the name of an environment variable")
]
OptionName = Annotated[
    str, text_like(r"--?[A-Za-z0-9][A-Za-z0-9_-]{0,63}", "must be an option such as `--limit`")
]
Line = Annotated[
    str, Field(min_length=1, max_length=500), text_like(r"[^\n\r]*", "must be one line")
]
_Lines = Annotated[tuple[Line, ...], Field(max_length=_MAX_LIST)]


class Activation(StrEnum):
    """Who brings a skill into play."""

    AUTO = "auto"
    """The planner may choose it."""
    MANUAL = "manual"
    """Only the owner names it."""
    BACKGROUND = "background"
    """It is read, and none of its scripts is offered."""


class SkillKind(StrEnum):
    """What a skill is for."""

    SKILL = "skill"
    CONNECTION = "connection"
    """It sets up and keeps an account with somebody else."""
    TOOL_SERVER = "tool_server"
    """It brings the tools of a server that speaks the Model Context Protocol."""


class AuthStrategy(StrEnum):
    """How the owner lets a connection in."""

    DEVICE_CODE = "device_code"
    BROWSER_REDIRECT = "browser_redirect"
    SECURE_INPUT = "secure_input"


ACCOUNT = "account"
"""The argument that every tool of a connection has besides its own: which account is meant."""
PermissionName = Annotated[Line, Field(max_length=100)]
"""What it is about and how far it goes, such as `mail.observe` or `mail.act`. A name that does not
end with observe, draft, act or manage counts as act."""


class ArgumentType(StrEnum):
    """What an argument of a script may be."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    ARRAY = "array"
    """A list of texts."""


_PYTHON_TYPES: Mapping[ArgumentType, Any] = {
    ArgumentType.STRING: str,
    ArgumentType.INTEGER: int,
    ArgumentType.NUMBER: float,
    ArgumentType.BOOLEAN: bool,
    ArgumentType.ARRAY: list[str],
}
_KEYWORDS = {
    "min_length": "min_length",
    "max_length": "max_length",
    "minimum": "ge",
    "maximum": "le",
    "pattern": "pattern",
}


_LIMITS_OF: Mapping[ArgumentType, frozenset[str]] = {
    ArgumentType.STRING: frozenset({"min_length", "max_length", "pattern", "enum"}),
    ArgumentType.INTEGER: frozenset({"minimum", "maximum", "enum"}),
    ArgumentType.NUMBER: frozenset({"minimum", "maximum"}),
    ArgumentType.BOOLEAN: frozenset(),
    ArgumentType.ARRAY: frozenset({"min_length", "max_length"}),
}


class ScriptArgument(Data):
    """One argument of a script. It has to be given unless it has a default or is optional."""

    type: ArgumentType
    description: Annotated[str, Field(max_length=1000)] = ""
    default: str | bool | int | float | tuple[str, ...] | None = None
    optional: bool = False
    min_length: Annotated[int, Field(ge=0)] | None = None
    max_length: Annotated[int, Field(ge=0)] | None = None
    minimum: float | None = None
    maximum: float | None = None
    pattern: Annotated[str, Field(max_length=500)] | None = None
    enum: Annotated[tuple[str | int, ...], Field(min_length=1, max_length=_MAX_LIST)] | None = None
    position: Annotated[int, Field(ge=1, le=MAX_ARGUMENTS)] | None = None
    """It is the n-th positional word, and no option."""
    option: OptionName | None = None
    """How its option is written; unless given, `--name-of-the-argument`."""

    @model_validator(mode="after")
    def _limits_fit(self) -> Self:
        refuse(
            [
                FieldProblem((limit,), f"limits no argument of the type `{self.type}`")
                for limit in (*_KEYWORDS, "enum")
                if getattr(self, limit) is not None and limit not in _LIMITS_OF[self.type]
            ]
        )
        return self

    @property
    def is_required(self) -> bool:
        return self.default is None and not self.optional

    def field(self, name: str) -> tuple[Any, Any]:
        """The argument as a field of a pydantic model."""
        kind: Any = Literal[self.enum] if self.enum else _PYTHON_TYPES[self.type]
        limits: dict[str, Any] = {
            keyword: value
            for key, keyword in _KEYWORDS.items()
            if (value := getattr(self, key)) is not None and not self.enum
        }
        default = list(self.default) if isinstance(self.default, tuple) else self.default
        return kind if self.is_required or default is not None else kind | None, Field(
            ... if self.is_required else default,
            alias=name,
            description=self.description or None,
            **limits,
        )


class AccountLimits(Data):
    """What a script of a connection uses of its account, where that is less than its permission
    allows (rule 6). The broker holds it to this."""

    http: HttpRules | None = None
    imap: ImapCommands | None = None
    recipients: Annotated[tuple[ArgumentName, ...], Field(max_length=10)] | None = None
    """The arguments that hold mail addresses: what it sends goes to these addresses alone."""


class ScriptDeclaration(Data):
    """One script as a tool."""

    tool: ToolName | None = None
    """The tool's name; unless given, the script's, without its ending."""
    description: Annotated[str, Field(min_length=1, max_length=2000)]
    arguments: Annotated[dict[ArgumentName, ScriptArgument], Field(max_length=MAX_ARGUMENTS)] = (
        Field(default_factory=dict)
    )
    action: ActionKind | None = None
    """What it does to the world; None: nobody has said so, and it counts as the worst."""
    reversibility: Reversibility | None = None
    inverse: ToolName | None = None
    """The tool that undoes what this one does."""
    permission: PermissionName | None = None
    """What its connection must have been granted for it. Only scripts of connections have one;
    where it is missing, no call of theirs passes the gate `connection_permission`."""
    uses: AccountLimits = Field(default_factory=AccountLimits)
    contained: bool = False
    """It acts in the workspace and its sandbox, and nowhere else."""
    passes: Literal["options", "json"] = "options"
    """How the arguments reach the script (rule 3)."""
    examples: Annotated[tuple[dict[str, Any], ...], Field(max_length=10)] = ()

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        problems = [*self._effect_problems(), *self._argument_problems()]
        refuse(problems)
        return self

    def _effect_problems(self) -> list[FieldProblem]:
        if (self.action is None) != (self.reversibility is None):
            return [FieldProblem(("action",), "comes with `reversibility`, and only with it")]
        undone = self.reversibility is Reversibility.REVERSIBLE
        if undone and self.action is not ActionKind.OBSERVE and self.inverse is None:
            return [FieldProblem(("reversibility",), "`reversible` needs the tool that undoes it")]
        return []

    def _argument_problems(self) -> list[FieldProblem]:
        places = [each.position for each in self.arguments.values() if each.position is not None]
        if sorted(places) != list(range(1, len(places) + 1)):
            return [FieldProblem(("arguments",), "their positions must be 1, 2, 3 and so on")]
        problems = []
        for name, argument in self.arguments.items():
            try:
                create_model("Argument", value=(argument.field(name)))
            except Exception as error:  # noqa: BLE001 - pydantic lets several kinds out
                message = f"these limits do not go together ({str(error).splitlines()[0][:200]})"
                problems.append(FieldProblem(("arguments", name), message))
        return problems or self._example_problems()

    def _example_problems(self) -> list[FieldProblem]:
        problems = []
        for index, example in enumerate(self.examples):
            try:
                checked(self.arguments_model, example)
            except ArgumentsRefused as error:
                problems.append(FieldProblem(("examples", index), f"does not fit: {error}"))
        for name, argument in self.arguments.items():
            if argument.default is not None:
                probe = {name: self._default(argument)}
                one = self.model_copy(update={"arguments": {name: argument}})
                try:
                    checked(one.arguments_model, probe)
                except ArgumentsRefused as error:
                    problems.append(FieldProblem(("arguments", name, "default"), str(error)))
        return problems

    @staticmethod
    def _default(argument: ScriptArgument) -> Any:
        value = argument.default
        return list(value) if isinstance(value, tuple) else value

    @property
    def effect(self) -> DeclaredEffect | None:
        """What it declares to do to the world."""
        if self.action is None or self.reversibility is None:
            return None
        return DeclaredEffect(action=self.action, reversibility=self.reversibility)

    @property
    def arguments_model(self) -> type[BaseModel]:
        """The arguments as a model that refuses every other one."""
        # Fields have names of their own: an argument may be called `copy` or `json`.
        fields: dict[str, Any] = {
            f"argument_{number}": each.field(name)
            for number, (name, each) in enumerate(self.arguments.items(), 1)
        }
        config = ConfigDict(extra="forbid", frozen=True)
        return create_model("ScriptArguments", __config__=config, **fields)

    def tool_name(self, path: str) -> str:
        """The name of the tool that the script at this path becomes."""
        file, word = script_parts(path)
        named = f"{PurePosixPath(file).stem} {word}".lower()
        stem = re.sub(r"[^a-z0-9]+", "_", named).strip("_")
        return self.tool or (stem if re.fullmatch(_WORD, stem) else f"script_{stem}"[:64])

    def declaration(self, path: str) -> ToolDeclaration:
        """The script at this path as a tool of Silas."""
        return ToolDeclaration(
            self.tool_name(path),
            self.arguments_model,
            contained=self.contained,
            effect=self.effect,
            inverse=self.inverse,
            description=self.description,
        )

    def call(self, args: Mapping[str, Any]) -> "ScriptCall":
        """What is handed to the script; raises `ArgumentsRefused` unless the arguments fit."""
        values = checked(self.arguments_model, args).model_dump(by_alias=True)
        if self.passes == "json":
            return ScriptCall(words=(), stdin=json.dumps(values, ensure_ascii=False))
        placed = [(each.position, name) for name, each in self.arguments.items() if each.position]
        words = [word for name in values for word in self._option(name, values[name])]
        for _position, name in sorted(placed):
            words += _positional(name, values[name])
        return ScriptCall(words=tuple(words), stdin="")

    def _option(self, name: str, value: Any) -> list[str]:
        argument = self.arguments[name]
        if argument.position is not None or value is None or value is False:
            return []
        option = argument.option or f"--{name.replace('_', '-')}"
        if value is True:
            return [option]
        each = value if isinstance(value, list) else [value]
        # A short option takes no `=`; the word behind it is its value, whatever it begins with.
        if not option.startswith("--"):
            return [word for item in each for word in (option, str(item))]
        return [f"{option}={item}" for item in each]


class ScriptCall(Data):
    """How a script is called: the words behind its name, and its standard input."""

    words: tuple[str, ...]
    stdin: str


def script_parts(entry: str) -> tuple[str, str]:
    """The file of a script and the word that chooses, by how it is declared (rule 4)."""
    found = re.fullmatch(rf"(.+\.\w+) ({_WORD})", entry)
    return (found[1], found[2]) if found else (entry, "")


def script_file(entry: str) -> str:
    """The file of a script, by how it is declared."""
    return script_parts(entry)[0]


def _positional(name: str, value: Any) -> list[str]:
    if value is None:
        return []
    words = [str(each) for each in (value if isinstance(value, list) else [value])]
    for word in words:
        # It would be taken for an option that nobody has declared.
        if word.startswith("-") and not isinstance(value, (int, float)):
            raise ArgumentsRefused(f"{name}: must not begin with a hyphen")
    return words


class ServedEffect(StrEnum):
    """What the owner says that a tool of a server does to the world."""

    READ = "read"
    CHANGE = "change"
    SEND = "send"
    IRREVERSIBLE = "irreversible"


class ServedTool(Data):
    """One tool of a tool server, as far as the owner decides about it."""

    served: Annotated[Line, Field(max_length=128)]
    """How its server calls it."""
    effect: ServedEffect | None = None
    """None: the owner has not said. It counts as the worst, and is asked about every time."""
    inverse: ToolName | None = None
    """The tool of the same server that undoes what this one does."""
    hosts: Hosts = ()
    """What its server reaches while this tool is called, and no others."""

    @property
    def only_reads(self) -> bool:
        return self.effect is ServedEffect.READ

    @property
    def is_final(self) -> bool:
        """Whether it cannot be taken back."""
        return self.effect in (ServedEffect.SEND, ServedEffect.IRREVERSIBLE)

    @property
    def declared(self) -> DeclaredEffect | None:
        """The effect in the words of `silas.tools`."""
        undone = Reversibility.REVERSIBLE if self.inverse else Reversibility.HARD
        final = Reversibility.IRREVERSIBLE
        found = {
            ServedEffect.READ: (ActionKind.OBSERVE, Reversibility.REVERSIBLE),
            ServedEffect.CHANGE: (ActionKind.CHANGE, undone),
            ServedEffect.SEND: (ActionKind.SEND, final),
            ServedEffect.IRREVERSIBLE: (ActionKind.DESTROY, final),
        }
        if self.effect is None:
            return None
        action, reversibility = found[self.effect]
        return DeclaredEffect(action=action, reversibility=reversibility)


class SkillUi(Data):
    """How a skill is shown."""

    display_name: Annotated[Line, Field(max_length=80)] | None = None
    icon: Line | None = None
    """A file of the skill."""
    short_description: Annotated[Line, Field(max_length=200)] | None = None


class SkillRequirements(Data):
    """What must be there for the skill to work. Silas installs none of it."""

    programs: _Lines = ()
    packages: _Lines = ()
    """Of Python, as a requirements file names them."""
    environment: Annotated[tuple[VariableName, ...], Field(max_length=_MAX_LIST)] = ()
    """The variables that its scripts read."""
    other: _Lines = ()
    """In words."""


class SkillPermissions(Data):
    """What a connection asks for in the account."""

    initial: Annotated[tuple[PermissionName, ...], Field(max_length=_MAX_LIST)] = ()
    """What is asked for when the account is connected."""
    available: Annotated[tuple[PermissionName, ...], Field(max_length=_MAX_LIST)] = ()
    """What can be asked for later; `initial` belongs to it."""


class SkillSidecar(Data):
    """The content of `silas.yaml`."""

    activation: Activation = Activation.AUTO
    ui: SkillUi = Field(default_factory=SkillUi)
    requirements: SkillRequirements = Field(default_factory=SkillRequirements)
    composes_with: Annotated[tuple[SkillName, ...], Field(max_length=_MAX_LIST)] = ()
    type: SkillKind = SkillKind.SKILL
    auth_strategy: AuthStrategy | None = None
    permissions: SkillPermissions = Field(default_factory=SkillPermissions)
    hosts: Hosts = ()
    """The hosts that its scripts may reach, and no others."""
    scripts: Annotated[dict[str, ScriptDeclaration], Field(max_length=MAX_SCRIPTS)] = Field(
        default_factory=dict
    )
    """Its scripts as tools, by their paths (and the words that choose, rule 4)."""
    served: Annotated[dict[ToolName, ServedTool], Field(max_length=MAX_SERVED)] = Field(
        default_factory=dict
    )
    """The tools of a tool server, by their names here."""

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        problems = []
        if (self.type is SkillKind.CONNECTION) != (self.auth_strategy is not None):
            message = "comes with `type: connection`, and only with it"
            problems.append(FieldProblem(("auth_strategy",), message))
        names = [each.tool_name(path) for path, each in self.scripts.items()]
        problems += [
            FieldProblem(("scripts",), f"two scripts become the tool `{name}`; name one otherwise")
            for name in sorted({name for name in names if names.count(name) > 1})
        ]
        refuse([*problems, *self._permission_problems(), *self._served_problems()])
        return self

    def _served_problems(self) -> list[FieldProblem]:
        """Only a tool server has served tools, and it has no scripts."""
        if self.type is not SkillKind.TOOL_SERVER:
            message = "comes with `type: tool_server`, and only with it"
            return [FieldProblem(("served",), message)] if self.served else []
        problems = []
        if self.scripts:
            problems.append(FieldProblem(("scripts",), "are no part of a tool server"))
        for name, tool in self.served.items():
            if tool.inverse is not None and (
                tool.inverse == name
                or tool.inverse not in self.served
                or tool.effect is not ServedEffect.CHANGE
            ):
                message = "is another tool of the server that undoes a `change`"
                problems.append(FieldProblem(("served", name, "inverse"), message))
        return problems

    def _permission_problems(self) -> list[FieldProblem]:
        """Tools of a connection say what they need; it is among what can be granted."""
        problems = []
        known = {*self.permissions.initial, *self.permissions.available}
        for path, script in self.scripts.items():
            place = ("scripts", path, "permission")
            if self.type is not SkillKind.CONNECTION:
                if script.permission is not None or script.uses != AccountLimits():
                    problems.append(FieldProblem(place, "belongs to `type: connection` alone"))
                continue
            if script.permission is not None and script.permission not in known:
                problems.append(FieldProblem(place, "must be one of `permissions`"))
            if not set(script.uses.recipients or ()) <= set(script.arguments):
                words = "must be names of its own arguments"
                problems.append(FieldProblem(("scripts", path, "uses", "recipients"), words))
            if ACCOUNT in script.arguments:
                words = "is an argument of every tool of a connection; name yours otherwise"
                problems.append(FieldProblem(("scripts", path, "arguments", ACCOUNT), words))
        return problems

    @cached_property
    def tools(self) -> Mapping[str, str]:
        """The paths of the declared scripts by the names of their tools."""
        return {each.tool_name(path): path for path, each in self.scripts.items()}

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of all tools that it brings."""
        return (*self.tools, *self.served)
