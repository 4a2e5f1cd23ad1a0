"""The offline brain as a model of the library, so that it drives everything a model would.

1. `hear` finds the request in a prompt, and what the tools have answered.
2. As proxy (`route`) the brain answers itself, or hands the request to the planner. As planner
   (`plan`) it writes the wish as a plan, or says what is missing for one.
3. The next move is one more tool call (`Call`), or the answer (`BrainAnswer`).
"""

import html
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from silas.agents.brain.accounts import call_for_change, plan_for_change
from silas.agents.brain.files import call_for, told_files
from silas.agents.brain.grammar import chips, example_of, understand
from silas.agents.brain.intents import (
    AccountChange,
    AddTasks,
    ConnectAccount,
    Forget,
    Greeting,
    Help,
    ListWatches,
    LookAtAccount,
    LookAtFiles,
    LookAtJournal,
    NotUnderstood,
    Planned,
    RecallIntent,
    Remark,
    Remember,
    Said,
    SaveAttachment,
    StopWatching,
    StopWork,
    Thanks,
    UndoLast,
    Watch,
    WhatDidYouDo,
    WhoAmI,
)
from silas.agents.brain.plans import NOT_CHECKED, CannotPlan, Places, write_plan
from silas.agents.models.choices import Role
from silas.agents.models.errors import ModelNotUsable
from silas.agents.prompting import REPOSITORY, WORK_BY_DEFAULT, WORK_HERE, disarm
from silas.journal.conversation import JournalOp
from silas.stream.attachments import FileKind, size_words
from silas.stream.models import ALL_WATCHES, LAST_UNDO, WHAT_CAN_BE_SAID, WHAT_RUNS
from silas.work.plan import parse

_REQUEST = re.compile(r"<request>\n(?P<text>.*?)\n</request>", re.DOTALL)

_FOLDERS = re.compile(r"<folders>(.*?)</folders>", re.DOTALL)
_BASE_FOLDER = re.compile(
    rf"^- (?P<path>/[^\n]*?)(?:{re.escape(REPOSITORY)})?: (?:{WORK_HERE}|{WORK_BY_DEFAULT})$",
    re.MULTILINE,
)
_FRAMED = re.compile(r"<external\b[^<>]*>(?P<text>.*)</external>", re.DOTALL)
_ATTACHMENTS = re.compile(r"<attachments>(?P<lines>.*?)</attachments>", re.DOTALL)
_BEGINNING = re.compile(r"<external\b[^<>]*>(?P<text>.*?)</external>", re.DOTALL)
_FAILED = re.compile(r"(?:<external[^>]*>)?\s*(?:Did not work: |Refused: |There is no tool )")
"""How the toolset chain begins the answer of a call that did not work."""


@dataclass(frozen=True)
class Call:
    """Use a tool."""

    tool: str
    args: Mapping[str, Any]


@dataclass(frozen=True)
class BrainAnswer:
    """The answer, as the fields that were asked for."""

    fields: Mapping[str, Any]


Move = Call | BrainAnswer


@dataclass(frozen=True)
class ToolAnswer:
    """What a tool answered."""

    tool: str
    text: str
    success: bool

    @property
    def plain(self) -> str:
        """The text without the frame that says to a model where it came from."""
        framed = _FRAMED.fullmatch(self.text)
        return framed["text"] if framed else self.text


@dataclass(frozen=True)
class HeardFile:
    """A file that came with the request."""

    name: str
    kind: FileKind
    size: int
    sha256: str
    lines: int | None
    beginning: str = ""


@dataclass(frozen=True)
class Heard:
    """One request to the brain, in its own words."""

    prompt: str
    """Everything that it was told."""
    request: str
    """What a person asked for."""
    answers: tuple[ToolAnswer, ...]
    tools: frozenset[str]
    wanted: frozenset[str]
    """The fields of the answer that is wanted."""
    output_tool: str | None
    folder: str | None = None
    """Where work happens that names no folder."""
    files: tuple[HeardFile, ...] = ()


def hear(messages: Sequence[ModelMessage], info: AgentInfo) -> Heard:
    """Read a prompt of ours."""
    parts = [part for each in messages if isinstance(each, ModelRequest) for part in each.parts]
    told = [str(part.content) for part in parts if isinstance(part, SystemPromptPart)]
    asked = [_as_text(part.content) for part in parts if isinstance(part, UserPromptPart)]
    prompt = "\n\n".join([info.instructions or "", *told, *asked])
    requests = _REQUEST.findall("\n\n".join(asked))
    folders = _FOLDERS.findall("\n\n".join(asked))
    folder = _BASE_FOLDER.search(folders[-1]) if folders else None
    output = info.output_tools[0] if info.output_tools else None
    schema = output.parameters_json_schema if output else _native_schema(info)
    return Heard(
        prompt=prompt,
        request=_restored(requests[-1]) if requests else "\n\n".join(asked),
        answers=tuple(_tool_answer(part) for part in parts if isinstance(part, ToolReturnPart)),
        tools=frozenset(tool.name for tool in info.function_tools),
        wanted=frozenset(schema.get("properties", {})),
        output_tool=output.name if output else None,
        folder=_restored(folder["path"]) if folder else None,
        files=_files("\n\n".join(asked)),
    )


def _files(asked: str) -> tuple[HeardFile, ...]:
    """The files that a prompt of ours lists, with how the texts among them begin."""
    listed = _ATTACHMENTS.search(asked)
    if listed is None:
        return ()
    begun = [found["text"] for found in _BEGINNING.finditer(asked, listed.end())]
    found = []
    for line in listed["lines"].strip().splitlines():
        facts = json.loads(_restored(line.removeprefix("- ")))
        beginning = begun.pop(0) if facts["lines"] and begun else ""
        kind = FileKind(facts.pop("kind"))
        found.append(HeardFile(**facts, kind=kind, beginning=html.unescape(beginning)))
    return tuple(found)


def _native_schema(info: AgentInfo) -> dict[str, Any]:
    wanted = info.model_request_parameters.output_object
    return wanted.json_schema if wanted else {}


def _restored(text: str) -> str:
    """The text before it was made harmless for models, if there is one; its letters count here."""
    candidate = text.replace("&lt;", "<").replace("&#91;", "[")
    return candidate if disarm(candidate) == text else text


def _as_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n\n".join(part for part in content if isinstance(part, str))


def _tool_answer(part: ToolReturnPart) -> ToolAnswer:
    content = part.content
    text = content if isinstance(content, str) else json.dumps(content, default=str)
    return ToolAnswer(part.tool_name, text, _FAILED.match(text) is None)


_MEMORY = "memory_search"
_ACTIVITY = "recent_activity"
_JOURNAL = "journal_read"
_WATCHED = "watched"
_WATCH_LINE = re.compile(
    r"^(?P<id>[\w.-]+) \((?P<state>[^\n]*?)\): (?P<title>[^\n]*)$", re.MULTILINE
)
_NO_FILES = "I can read no files from here."
_MOST_CHIPS = 3
_FOUND = re.compile(r"^(?P<id>mem\w+) \((?P<kind>[\w, ]+)\): (?P<text>.*)$", re.MULTILINE)
_MEMORY_ID = re.compile(r"mem\w+")
_SHOWN = 10
_AT_ONCE = "it can be answered at once"

_CAN = (
    "I am the offline brain: no model is configured, so I understand a small set of requests. What "
    "I do on your machine still needs your approval and is checked. I can:\n"
    "- run a command: “{run}”\n"
    "- write and change files: “{file}”, “{edit}”\n"
    "- read files in folders that you open to me: “{list}”, “{show}”\n"
    "- save a file that you attach: “{save}”\n"
    "- fix something by your patch, and test it\n"
    "- watch an address or a command: “{watch}”; “{watching}” lists them\n"
    "- remember, recall and forget: “{remember}”\n"
    "- remind you: “{remind}”\n"
    "- keep your journal: “{task}”, “{timer}”, “{plan}”, “{today}”\n"
    "- look into accounts that you connect: “{inbox}”, “{calendar}”, “{ci}”\n"
    "- answer mails and move events: “{answer}”, “{move}”; “{brief}”\n"
    "- stop and take back: “{stop}”, “{undo}”; tell you what I did: “{did}”\n\n"
    "For everything else, set up a model: Settings → Model in the page, or `silas models detect`."
)

_NO_ACCOUNTS = "I can look into no account from here."
_NOT_CONNECTED = re.compile(r"`silas connect (?P<kind>mail|calendar|github) ")
_WHO = {"mail": "YOUR-ADDRESS", "calendar": "YOUR-ADDRESS", "github": "YOUR-LOGIN"}
_CONNECT = (
    "Open Connections in the page and choose {kind}, or run `silas connect {kind} {who}`. A card "
    "shows you what I could then do, and nothing is connected before your yes."
)
_TOO_HARD = "I need a model for that: Settings → Model in the page, or `silas models detect`."
_NO_NAME = "You have not told me your name yet. Say “My name is …”."
_MY_NAME = re.compile(r"(?:my|the owner's) name is (?P<name>[^\n.]{1,80})", re.IGNORECASE)


def route(heard: Heard) -> Move:
    """The proxy's next move."""
    wish = understand(heard.request)
    if isinstance(wish, SaveAttachment):
        chosen = _chosen(wish, heard.files)
        if isinstance(chosen, str):
            return _direct(chosen)
    if isinstance(wish, Planned | AccountChange):
        return BrainAnswer(_decision("planner", "something is to be done", "execution"))
    if heard.files and isinstance(wish, NotUnderstood):
        return _direct(_received(heard.files))
    return _say(wish, heard)


def _chosen(wish: SaveAttachment, files: Sequence[HeardFile]) -> SaveAttachment | str:
    """The wish with the file that is meant; or what to say if that is not clear."""
    named = [each for each in files if wish.name in (None, each.name)]
    if not files:
        return "Nothing is attached to this message. Attach the file, and say it again with it."
    if len(named) == 1:
        return replace(wish, name=named[0].name, sha256=named[0].sha256)
    names = ", ".join(each.name for each in files)
    return (
        f"Which file? These are attached: {names}. Send them again and say "
        f"“save the file {files[0].name} as {wish.path}”."
    )


def _received(files: Sequence[HeardFile]) -> str:
    """What came, for somebody who cannot read it."""
    parts = []
    for each in files:
        lines = "" if each.lines is None else f", {each.lines} line{'' if each.lines == 1 else 's'}"
        head = f"I have got {each.name}: {each.kind.words}, {size_words(each.size)}{lines}."
        quoted = "\n".join(f"> {line}" for line in each.beginning.strip().splitlines())
        parts.append(f"{head} It begins:\n\n{quoted}" if quoted else head)
    name = files[0].name
    parts.append(
        "Without a model I do not understand what is in a file. I can save it as it is: send it "
        f"again with “Save it as notes/{name}”."
    )
    return "\n\n".join(parts)


def _say(wish: Said, heard: Heard) -> Move:  # noqa: PLR0911 - one return for each kind of wish
    match wish:
        case Remember(text):
            op = {"op": "store", "content": text, "memory_type": "fact"}
            return _direct(f"I will remember: {text}", ops=[op])
        case RecallIntent() | Forget() | WhoAmI():
            return _memory(wish, heard)
        case JournalOp() | AddTasks() | LookAtJournal():
            return _journal(wish, heard)
        case ListWatches() | StopWatching():
            return _watches(wish, heard)
        case StopWork():
            return _direct("", plan_action={"action": "abort", "continuation_of": WHAT_RUNS})
        case UndoLast():
            return _direct("", plan_action={"action": "execute_next", "continuation_of": LAST_UNDO})
        case LookAtFiles() | WhatDidYouDo():
            return _read(wish, heard)
        case LookAtAccount() | ConnectAccount():
            return _account(wish, heard)
        case _:
            reason = WHAT_CAN_BE_SAID if isinstance(wish, Help) else _AT_ONCE
            return _direct(_words(wish), chips=_nearest(wish), reason=reason)


def _memory(wish: RecallIntent | Forget | WhoAmI, heard: Heard) -> Move:
    match wish:
        case RecallIntent(about):
            return _recall(about, heard)
        case Forget(about):
            return _forget(about, heard)
        case WhoAmI():
            return _name(heard)


def _words(wish: Greeting | Remark | Thanks | Help | NotUnderstood) -> str:
    match wish:
        case Greeting():
            return "Hello! What can I do for you?"
        case Remark(wanted):
            return (
                f"Understood: {wanted}. It holds for what a model writes here; without a model "
                "my words are fixed."
            )
        case Thanks():
            return "You are welcome."
        case Help():
            return what_i_can()
        case NotUnderstood():
            return wish.lacks or _did_not_understand(wish.near)


def _nearest(wish: Greeting | Remark | Thanks | Help | NotUnderstood) -> tuple[str, ...]:
    """The nearest things that work, to tap."""
    match wish:
        case NotUnderstood(near=str(near), instead=()):
            return example_of(near), example_of("help")
        case NotUnderstood(instead=instead):
            return instead
        case Greeting() | Help():
            return chips()
        case _:
            return ()


def what_i_can() -> str:
    """Everything that can be said, with an example each."""
    return _CAN.format(
        run=example_of("run a command"),
        file=example_of("make a file"),
        edit=example_of("change a file"),
        list=example_of("list files"),
        show=example_of("show a file"),
        save=example_of("save an attached file"),
        watch=example_of("watch something"),
        watching=example_of("list what is watched"),
        remember=example_of("remember"),
        remind=example_of("remind me"),
        task=example_of("add a task"),
        timer=example_of("start the timer"),
        plan=example_of("plan a block"),
        today=example_of("look at a day"),
        did=example_of("say what was done"),
        stop=example_of("stop what runs"),
        undo=example_of("undo"),
        inbox=example_of("look into the inbox"),
        calendar=example_of("look at the calendar"),
        ci=example_of("say what failed in CI"),
        answer=example_of("answer a mail"),
        move=example_of("move an event"),
        brief=example_of("be briefed regularly"),
    )


def _did_not_understand(near: str | None) -> str:
    if near is None:
        return _TOO_HARD
    return f"I did not understand that exactly. Say it like this: “{example_of(near)}”"


def _recall(about: str, heard: Heard) -> Move:
    move = _look(_MEMORY, _query(about), heard, otherwise="I have no memory here.")
    if isinstance(move, Call) or not heard.answers or not heard.answers[-1].success:
        return move
    found = _memories(heard.answers[-1])
    if not found:
        about_you = "I do not remember anything about you yet."
        return _direct("I do not remember anything about that." if about else about_you)
    head = "This is what I remember:" if about else "This is what I remember of you:"
    return _direct("\n".join([head, *(f"- {text}" for _, text in found)]))


def _name(heard: Heard) -> Move:
    """What the owner has said to be called, last."""
    move = _look(_MEMORY, {"query": "my name is", "max_results": _SHOWN}, heard, otherwise=_NO_NAME)
    if isinstance(move, Call) or not heard.answers or not heard.answers[-1].success:
        return move
    found = _memories(heard.answers[-1])
    names = {each: named["name"] for each, text in found if (named := _MY_NAME.search(text))}
    if not names:
        return _direct(_NO_NAME)
    return _direct(f"Your name is {names[max(names)].strip()}.")  # ids are in the order of time


def _forget(about: str, heard: Heard) -> Move:
    if _MEMORY_ID.fullmatch(about):
        # The runtime does it or does not, and says so: there is nothing to add.
        return _direct("", ops=[{"op": "delete", "memory_id": about}])
    move = _look(_MEMORY, _query(about), heard, otherwise="I have no memory here.")
    if isinstance(move, Call) or not heard.answers or not heard.answers[-1].success:
        return move
    found = _memories(heard.answers[-1])
    if not found:
        return _direct("I do not remember anything about that, so there is nothing to forget.")
    if len(found) > 1:
        listed = [f"- {memory_id}: {text}" for memory_id, text in found]
        return _direct(
            "\n".join(["Which one? Say “forget” with its name:", *listed]),
        )
    [(memory_id, _)] = found
    return _direct("", ops=[{"op": "delete", "memory_id": memory_id}])


def _watches(wish: ListWatches | StopWatching, heard: Heard) -> Move:
    move = _look(_WATCHED, {}, heard, otherwise="I cannot see from here what is watched.")
    if isinstance(move, Call) or not heard.answers or not heard.answers[-1].success:
        return move
    watched = list(_WATCH_LINE.finditer(heard.answers[-1].plain))
    if not watched:
        return _direct("I watch nothing.", chips=[example_of("watch something")])
    if isinstance(wish, ListWatches):
        return _watch_list("I watch:", watched)
    if wish.everything:
        return _direct("", plan_action={"action": "abort", "continuation_of": ALL_WATCHES})
    found = _meant_watches(wish.about.casefold(), watched)
    if len(found) == 1:
        # The runtime stops it or does not, and says so: there is nothing to add.
        return _direct("", plan_action={"action": "abort", "continuation_of": found[0]["id"]})
    return _watch_list("Which one?" if found else "I watch nothing of that name.", found or watched)


def _meant_watches(about: str, watched: Sequence[re.Match[str]]) -> list[re.Match[str]]:
    """The one with this id, or those whose title has these words; none said means all."""
    named = [each for each in watched if each["id"].casefold() == about]
    return named or [each for each in watched if about in each["title"].casefold()]


def _watch_list(said: str, watched: Sequence[re.Match[str]]) -> BrainAnswer:
    lines = [f"- {each['title']}, {each['state']}" for each in watched]
    chips = [f"Stop watching {each['id']}" for each in watched[:_MOST_CHIPS]]
    return _direct("\n".join([said, *lines]), chips=chips)


def _read(wish: LookAtFiles | WhatDidYouDo, heard: Heard) -> Move:
    if isinstance(wish, WhatDidYouDo):
        return _look(_ACTIVITY, {}, heard, otherwise="I cannot see the log from here.")
    tool, args = call_for(wish)
    if not heard.answers:
        return Call(tool, args) if tool in heard.tools else _direct(_NO_FILES)
    answer = heard.answers[-1]
    seen = _restored(answer.plain)
    return _direct(told_files(wish, seen) if answer.success else _FAILED.sub("", seen, count=1))


def _account(wish: LookAtAccount | ConnectAccount, heard: Heard) -> Move:
    if isinstance(wish, ConnectAccount):
        return _direct(_CONNECT.format(kind=wish.kind, who=_WHO[wish.kind]))
    tool, args = wish.tool, wish.args
    if not heard.answers:
        return Call(tool, args) if tool in heard.tools else _direct(_NO_ACCOUNTS)
    return _told_account(heard.answers[-1])


def _told_account(answer: ToolAnswer) -> BrainAnswer:
    """What an account gave; what is not connected can be, with a tap."""
    seen = _restored(answer.plain)
    text = seen if answer.success else _FAILED.sub("", seen, count=1)
    missing = None if answer.success else _NOT_CONNECTED.search(text)
    return _direct(text, chips=[f"Connect my {missing['kind']}"] if missing else ())


def _journal(wish: JournalOp | AddTasks | LookAtJournal, heard: Heard) -> Move:
    if not isinstance(wish, LookAtJournal):
        # The runtime does it or does not, and says so: there is nothing to add.
        ops = wish.tasks if isinstance(wish, AddTasks) else (wish,)
        return _direct("", journal=[op.model_dump(mode="json", exclude_none=True) for op in ops])
    args = {"show": wish.show, "day": wish.day, "category": wish.category}
    return _look(_JOURNAL, args, heard, otherwise="I have no journal of yours here.")


def _look(tool: str, args: Mapping[str, Any], heard: Heard, *, otherwise: str) -> Move:
    """Use the tool once; its answer is the answer."""
    if heard.answers:
        return _direct(heard.answers[-1].plain)
    return Call(tool, args) if tool in heard.tools else _direct(otherwise)


def _query(about: str) -> dict[str, Any]:
    if not about:
        # As far back as words about time reach.
        return {"query": "last year", "strategy": "temporal", "max_results": _SHOWN}
    return {"query": about, "max_results": _SHOWN}


def _memories(answer: ToolAnswer) -> Sequence[tuple[str, str]]:
    return [(found["id"], found["text"]) for found in _FOUND.finditer(answer.text)]


def _direct(
    message: str,
    *,
    ops: Sequence[Mapping[str, Any]] = (),
    journal: Sequence[Mapping[str, Any]] = (),
    chips: Sequence[str] = (),
    plan_action: Mapping[str, Any] | None = None,
    reason: str = _AT_ONCE,
) -> BrainAnswer:
    register = "status" if ops or journal or plan_action else "exploration"
    decision = _decision("direct", reason, register)
    response = {
        "message": message,
        "memory_ops": list(ops),
        "journal_ops": list(journal),
        "chips": list(chips),
        **({"plan_action": dict(plan_action)} if plan_action else {}),
    }
    return BrainAnswer({**decision, "response": response})


def _decision(route_to: str, reason: str, register: str) -> dict[str, Any]:
    """`context_profile` is filled in by whoever knows which there are."""
    return {
        "route": route_to,
        "reason": reason,
        "interaction_register": register,
        "interaction_mode": "act_and_report" if register == "execution" else "default_and_offer",
        "continuation_of": None,
        "response": None,
    }


_ADVICE = (
    "No model is configured, so there is nobody to think about it. Do the steps of the briefing "
    "once more, exactly as they are written."
)
_PLAN_ID = "task-of-the-brain"


def plan(heard: Heard, places: Places) -> Move:
    """The plan for a request, or the advice for a worker."""
    if "plan_action" not in heard.wanted:
        return BrainAnswer({"text": _ADVICE})
    wish = understand(heard.request)
    if isinstance(wish, SaveAttachment):
        chosen = _chosen(wish, heard.files)
        if isinstance(chosen, str):
            return BrainAnswer({"message": chosen})
        wish = chosen
    if isinstance(wish, AccountChange):
        return _change_account(wish, heard)
    if not isinstance(wish, Planned):
        return BrainAnswer({"message": f"I cannot make a plan from that. {_TOO_HARD}"})
    if heard.folder is not None:
        places = replace(places, workspace=Path(heard.folder))
    try:
        markdown = write_plan(wish, plan_id=_PLAN_ID, places=places)
    except CannotPlan as error:
        return BrainAnswer({"message": str(error)})
    return BrainAnswer(
        {
            "message": _offer(wish, markdown),
            "plan_action": {"action": "propose", "plan_markdown": markdown},
            "needs_approval": True,
        }
    )


def _change_account(wish: AccountChange, heard: Heard) -> Move:
    tool, args = call_for_change(wish)
    if not heard.answers:
        return Call(tool, args) if tool in heard.tools else BrainAnswer({"message": _NO_ACCOUNTS})
    answer = heard.answers[-1]
    seen = _restored(answer.plain)
    try:
        markdown = plan_for_change(wish, seen, plan_id=_PLAN_ID) if answer.success else ""
    except ValueError:
        return BrainAnswer({"message": "I could not read what the account says, so I do nothing."})
    if not markdown:
        return BrainAnswer({"message": _FAILED.sub("", seen, count=1)})
    return BrainAnswer(
        {
            "message": "Here is exactly what I would do. Nothing happens before your yes.",
            "plan_action": {"action": "propose", "plan_markdown": markdown},
            "needs_approval": True,
        }
    )


def _offer(wish: Planned, markdown: str) -> str:
    if isinstance(wish, Watch):
        return f"I would look {wish.often} and report when it does not work. Shall I?"
    told = "Here is exactly what I would do. Nothing happens before your yes."
    return told if parse(markdown).verify else f"{told} {NOT_CHECKED}"


Mind = Callable[[Heard], Move]


def brain_model(role: Role, *, places: Places, profile: str) -> FunctionModel:
    """The brain in one role; `profile` is the context profile that it always chooses."""
    mind = _mind(role, places, profile)
    return FunctionModel(
        partial(_answer, mind), stream_function=partial(_stream, mind), model_name="offline-brain"
    )


def _mind(role: Role, places: Places, profile: str) -> Mind:
    match role:
        case Role.PROXY:
            return lambda heard: _with_profile(route(heard), profile)
        case Role.PLANNER:
            return lambda heard: plan(heard, places)
        case Role.EXECUTOR | Role.SCORER | Role.GATE:
            # Plans of the brain need no model to be executed. To judge text is what it cannot do.
            raise ModelNotUsable(f"The offline brain cannot be the {role}. Set models.{role}.")


def _with_profile(move: Move, profile: str) -> Move:
    if isinstance(move, Call):
        return move
    return BrainAnswer({**move.fields, "context_profile": profile})


async def _answer(mind: Mind, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    heard = hear(messages, info)
    name, args, call_id = _call(mind(heard), heard)
    if name is None:
        return ModelResponse(parts=[TextPart(args)])
    return ModelResponse(parts=[ToolCallPart(name, args, tool_call_id=call_id)])


async def _stream(
    mind: Mind, messages: list[ModelMessage], info: AgentInfo
) -> AsyncIterator[str | DeltaToolCalls]:
    heard = hear(messages, info)
    name, args, call_id = _call(mind(heard), heard)
    if name is None:
        yield args
        return
    yield {0: DeltaToolCall(name, args, tool_call_id=call_id)}


def _call(move: Move, heard: Heard) -> tuple[str | None, str, str]:
    """The tool to call (None: to speak), what with, and the number of the call."""
    number = f"call-{len(heard.answers) + 1}"
    match move:
        case Call(tool, args):
            return tool, json.dumps(dict(args)), number
        case BrainAnswer(fields):
            return heard.output_tool, json.dumps(dict(fields)), number
