"""`silas review`: what waits for the owner's decision, shown whole and decided with the vault open.

Plans and questions are decided with the owner's own key, which is proof enough for everything.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import click

from silas.agents.models.choices import Role
from silas.app.agents import model_name
from silas.app.client import NotRunning, call_server
from silas.app.core import Core
from silas.app.review import open_questions
from silas.app.runtime import open_cards
from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.cli.approver import (
    as_quoted_json,
    ask_owner,
    decide,
    exact_plan,
    in_quotes,
    own_line,
    shown_plan,
)
from silas.cli.commands import (
    CliContext,
    JsonGroup,
    ask_api,
    on_terminal,
    pass_cli,
    paths_of,
    settings_of,
    with_core,
)
from silas.cli.work import call_data, decide_calls, shown_call, waiting_calls
from silas.gates.risk import EffectOf
from silas.kernel import SystemClock, TaintLevel, strict_loads, visible, visible_json
from silas.proactive.lessons import ItemAnswers
from silas.review.cards import MAX_CHANGES_CHARS, UNDO, Card, asking_for
from silas.review.decisions import QuestionKind
from silas.review.questions import QUESTION, YES, Question
from silas.stream.cards import require_shown
from silas.work import WorkItem
from silas.work.effects import ChangeKind
from silas.work.models import STOPPED_BY_OWNER
from silas.work.paused import KeptCall, KeptRun
from silas.work.plan_markdown import plan_difference, stored_markdown
from silas.work.previews import PlanPreview, preview_plan
from silas.work.store import WorkItemStore
from silas.work.wording import verb_of

_CALL = "call_"
_Waiting = tuple[KeptRun, KeptCall]
_VERDICTS = {QuestionKind.DRAFT, QuestionKind.AUTONOMY, QuestionKind.GATE, QuestionKind.PERMISSION}
_WORDS = {
    TaintLevel.OWNER: "your own words",
    TaintLevel.AUTH: "words of somebody who is known here, or of a model",
    TaintLevel.EXTERNAL: "words that are not yours: read closely what it does",
}
_THEN = {
    QuestionKind.SKILL: "Silas tries it out and, if nothing speaks against it, installs it",
    QuestionKind.SKILL_SOURCE: "Silas fetches it and puts it before you",
}
"""What a yes to such a question leads to, in the running Silas alone."""


@click.group(cls=JsonGroup)
def review() -> None:
    """Show the plans, questions and calls that wait for you, and decide."""


@review.command("list")
@pass_cli
def list_cards(cli: CliContext) -> None:
    """Show what waits."""

    found, questions, calls = _everything_that_waits(cli)
    cards = [card for card in found if card.requested_by != UNDO]
    undo = [card for card in found if card.requested_by == UNDO]
    lines = [
        f"{card.card_id}  {card.risk.value:12}  {_title(card)}  ({_asked_by(card)})"
        for card in cards
    ] + [_question_line(question) for question in questions]
    lines += [_call_line(call) for _, call in calls]
    data = {
        "cards": [card.model_dump(mode="json") for card in cards],
        "questions": [question.model_dump(mode="json") for question in questions],
        "undo": [card.model_dump(mode="json") for card in undo],
        "calls": [call_data(run, call) for run, call in calls],
    }
    lines = lines or ["Nothing is waiting for your decision."]
    lines += [f"{card.card_id}  until {card.expires_at:%H:%M} UTC  {_title(card)}" for card in undo]
    cli.show(data, "\n".join(lines))


@review.command("show")
@click.argument("card_id")
@click.option("--exact", is_flag=True, help="The very bytes that would be signed, as JSON.")
@pass_cli
def show(cli: CliContext, card_id: str, *, exact: bool) -> None:
    """Show a card, a question or a call whole: everything that would be signed."""
    if card_id.startswith(_CALL):
        run, call = _found_call(with_core(cli, waiting_calls), card_id)
        cli.show({"call": call_data(run, call)}, shown_call(run, call))
        return
    if card_id.startswith(QUESTION):
        question = with_core(cli, lambda core: _question(core, card_id))
        text = _exact_question(question) if exact else shown_question(question)
        cli.show({"question": question.model_dump(mode="json")}, text)
        return

    async def found(core: Core) -> tuple[Card, list[WorkItem], str, PlanPreview, str]:
        card = await open_cards(core).get(card_id)
        items, changed, preview = await compared(core, card)
        words = card_text(card, items, changed, preview, effect_of=core.tools.effect_of)
        return card, items, changed, preview, words

    card, items, changed, preview, words = with_core(cli, found)
    state = f"risk {card.risk.value}, {card.state}, until {card.expires_at:%Y-%m-%d %H:%M} UTC"
    text = "\n\n".join(
        [
            in_quotes(card.message),
            *(map(exact_plan, items) if exact else [words]),
            *([state, _what_to_do(card)] if card.state == "open" else [state]),
        ]
    )
    plans = [item.model_dump(mode="json") for item in items]
    data = {
        "card": card.model_dump(mode="json"),
        "items": plans,
        "difference": changed,
        "preview": preview.model_dump(mode="json"),
    }
    cli.show(data, text)


@review.command("approve")
@click.argument("card_id")
@click.option(
    "--hash",
    "hashes",
    multiple=True,
    metavar="HASH",
    help="Where nobody can be asked: the full hash of every item, as `silas review show` has it.",
)
@pass_cli
def approve(cli: CliContext, card_id: str, hashes: tuple[str, ...]) -> None:
    """Approve exactly what the card or the call shows. The running Silas then does it."""
    if card_id.startswith(_CALL):
        decide_calls(cli, (card_id,), hashes, decline=False)
        return

    async def inside(core: Core) -> tuple[Card, list[WorkItem]]:
        card, items = await _card(core, card_id)
        _, changed, preview = await compared(core, card)
        cli.say("\n\n".join(_around(card, changed, preview)))
        decision = decide(
            cli,
            items,
            hashes,
            effect_of=core.tools.effect_of,
            option="--hash",
            shows=f"silas review show {visible(card_id)}",
            question="Approve exactly this?",
            risk=card.risk,
            changes=card.requested_by != UNDO,
        )
        await open_cards(core).decide_with_vault(card_id, decision, shown=card.plan_hashes)
        return await _card(core, card_id)

    _tell(cli, *with_core(cli, inside))


@review.command("decline")
@click.argument("card_id")
@pass_cli
def decline(cli: CliContext, card_id: str) -> None:
    """Say no; nothing of it is done."""
    if card_id.startswith(_CALL):
        decide_calls(cli, (card_id,), (), decline=True)
        return
    no = ApprovalDecision(verdict=ApprovalVerdict.DECLINED)

    async def inside(core: Core) -> Card:
        return await open_cards(core).decide_with_vault(card_id, no)

    _tell(cli, with_core(cli, inside))


@review.command("changes")
@click.argument("card_id")
@click.argument("text")
@pass_cli
def ask_for_changes(cli: CliContext, card_id: str, text: str) -> None:
    """Send a plan back with TEXT, your words for what should be different.

    The planner writes it anew. The new plan comes on a card of its own and shows what changed; the
    old one is replaced, and nothing of it is done.
    """
    if not 0 < len(text.strip()) <= MAX_CHANGES_CHARS:
        raise click.UsageError(
            f"Say what should be different, in at most {MAX_CHANGES_CHARS} characters."
        )

    async def inside(core: Core) -> Card:
        card, _ = await _card(core, card_id)
        decision = asking_for(text.strip())
        return await open_cards(core).decide_with_vault(card_id, decision, shown=card.plan_hashes)

    card = with_core(cli, inside)
    then = "Silas plans it anew now, or as soon as it runs; see `silas review list`."
    cli.show(card.model_dump(mode="json"), f"{_title(card)}: sent back for changes. {then}")


@review.command("answer")
@click.argument("question_id")
@click.argument("value")
@click.option(
    "--text",
    metavar="TEXT",
    help="Your words: for a draft the whole new text, for a batch the items to keep (1,3,5-8).",
)
@click.option("--hash", "hashed", metavar="HASH", help="Where nobody can be asked: the full hash.")
@pass_cli
def answer(
    cli: CliContext, question_id: str, value: str, text: str | None, hashed: str | None
) -> None:
    """Answer a question of `silas review list` with one of its VALUEs.

    Plans that wait together are decided one by one here: `silas review approve`.
    """
    answered = give_answer(cli, question_id, value, text=text, hashed=hashed)
    said = f"{visible(answered.content.intent)}: {visible(answered.state)}."
    if then := _THEN.get(answered.content.kind) if answered.state == YES else None:
        minutes = settings_of(cli).settings.approval.default_ttl_minutes
        said = f"{said} {then} now, or when it runs next (`silas start`) within {minutes} minutes."
    cli.show(answered.model_dump(mode="json"), said)


@review.command("rules")
@pass_cli
def list_rules(cli: CliContext) -> None:
    """Show the rules that you have signed on cards about single items."""
    _show_rules(cli, _ask_about_rules(cli, "list"))


@review.command("drop-rule")
@click.argument("rule_id")
@pass_cli
def drop_rule(cli: CliContext, rule_id: str) -> None:
    """Take a rule back: what it selected is asked about by itself again."""
    _show_rules(cli, _ask_about_rules(cli, "drop", rule_id=rule_id))


def _show_rules(cli: CliContext, answer: dict[str, Any]) -> None:
    lines = [
        visible(f"{each['rule_id']}  {each['words']} → {each['label']}", keep_newlines=False)
        for each in answer["rules"]
    ]
    cli.show(answer, "\n".join(lines) or "You have signed no rule.")


def _ask_about_rules(cli: CliContext, command: str, **given: str) -> dict[str, Any]:
    """What the API answers about rules, here or in the Silas that is running."""
    # Late: its module brings the web framework, which no other command here needs.
    from silas.web.connections import RULE_COMMANDS  # noqa: PLC0415

    def service(core: Core) -> Any:
        questions = open_questions(core, core.queue)
        return nullcontext(ItemAnswers(core.database, questions, core.audit, core.clock))

    found = RULE_COMMANDS[command]
    return dict(ask_api(cli, f"/api/rules/{command}", found, given, service))


def give_answer(
    cli: CliContext,
    question_id: str,
    value: str,
    *,
    text: str | None = None,
    hashed: str | None = None,
) -> Question:
    """Show a question, and answer it with the owner's own key once that was seen."""

    async def inside(core: Core) -> Question:
        questions = open_questions(core, core.queue)
        question = await questions.get(question_id)
        said = _answer(question, value, text)
        _require_seen(cli, question, hashed)
        return await questions.answer_with_vault(question_id, said)

    return with_core(cli, inside)


def _found_call(calls: Sequence[_Waiting], call_id: str) -> _Waiting:
    for run, call in calls:
        if call.id == call_id:
            return run, call
    raise click.UsageError("No such call waits. `silas review list` shows what does.")


def _call_line(kept: KeptCall) -> str:
    call = kept.call
    what = visible(f"{call.tool}: {call.reasons[0]}", keep_newlines=False)
    return f"{kept.id}  call          {what}  ({visible(call.work_item_id)})"


async def _question(core: Core, question_id: str) -> Question:
    return await open_questions(core, core.queue).get(question_id)


async def _card(core: Core, card_id: str) -> tuple[Card, list[WorkItem]]:
    card = await open_cards(core).get(card_id)
    store = core.work.items
    return card, require_shown(card, [await store.get(name) for name in card.plan_hashes])


def card_text(
    card: Card,
    items: Sequence[WorkItem],
    changed: str = "",
    preview: PlanPreview | None = None,
    *,
    effect_of: EffectOf,
) -> str:
    """The card that the page shows, as text."""
    plans = [shown_plan(item, effect_of) for item in items]
    return "\n\n".join([*plans, *_around(card, changed, preview)])


def _around(card: Card, changed: str, preview: PlanPreview | None) -> list[str]:
    """What stands beside the plans: what is different, who asked, how risky it is."""
    return [
        *([f"Different from the plan before it:\n{in_quotes(changed)}"] if changed else []),
        *_preview_lines(preview or PlanPreview()),
        f"{_provenance(card)}\nRisk: {card.risk.value}. Card: {card.card_id}",
    ]


async def compared(core: Core, card: Card) -> tuple[list[WorkItem], str, PlanPreview]:
    """The items of a card, what is different from the plan that it replaces, and its files."""
    _, items = await _card(core, card.card_id)
    preview = PlanPreview()
    if card.state == "open" and card.requested_by != UNDO:
        scripted = model_name(core.settings, Role.EXECUTOR) is None
        preview = await preview_plan(items, scripted=scripted)
    return items, await _difference_of(core.work.items, card), preview


def _preview_lines(preview: PlanPreview) -> list[str]:
    """What the plans would write, compared with the files as they are now."""
    parts = []
    for each in preview.files:
        if each.kind is ChangeKind.ADDED:
            continue  # its content stands in the plan
        head = own_line(f"{verb_of(each.kind)} {each.path}, compared with what is there now:")
        parts.append("\n".join([head, in_quotes("\n".join(each.lines) or each.note)]))
    return [*parts, *([preview.note] if preview.note else [])]


async def _difference_of(items: WorkItemStore, card: Card) -> str:
    """What is different in the plan of a card from the one that it replaces; empty without one."""
    if card.replaces is None or card.requested_by == UNDO:
        return ""
    before = await stored_markdown(items, card.replaces)
    after = await stored_markdown(items, next(iter(card.plan_hashes)))
    return plan_difference(before, after) if before else ""


def _provenance(card: Card) -> str:
    """Who asked for it, and whose words it was made from."""
    sources = "".join(f"\n  - from {visible(each, keep_newlines=False)}" for each in card.sources)
    return f"Asked for by {_asked_by(card)}. Made from {_WORDS[card.taint]}.{sources}"


def _title(card: Card) -> str:
    return visible(card.title, keep_newlines=False)


def _asked_by(card: Card) -> str:
    return visible(f"{card.connection_id}, {card.channel}", keep_newlines=False)


def _tell(cli: CliContext, card: Card, items: Sequence[WorkItem] = ()) -> None:
    """Say what is so after the decision: work may have been stopped while it was made."""
    data: dict[str, Any] = card.model_dump(mode="json")
    stopped = [item for item in items if item.status in STOPPED_BY_OWNER]
    then = "Silas does it now, or as soon as it runs; see `silas work list`."
    if stopped:
        data["stopped"] = {item.id: item.status.value for item in stopped}
        named = ", ".join(f"{item.id} ({item.status.value})" for item in stopped)
        then = f"But it was stopped meanwhile, and Silas does not begin it: {named}."
    words = f"{_title(card)}: {card.state}."
    cli.show(data, f"{words} {then}" if card.state == ApprovalVerdict.APPROVED else words)


def _everything_that_waits(
    cli: CliContext,
) -> tuple[list[Card], list[Question], list[_Waiting]]:
    """Cards, questions and calls: of the running Silas, or of the files, whose seals need a key."""

    async def inside(core: Core) -> tuple[list[Card], list[Question], list[_Waiting]]:
        cards, questions = open_cards(core), open_questions(core, core.queue)
        return await cards.open_cards(), await questions.open(), await waiting_calls(core)

    try:
        answer = call_server(paths_of(cli), "/api/review/waiting", {})
    except NotRunning:
        return with_core(cli, inside)
    runs, now = [KeptRun.model_validate(each) for each in answer["runs"]], SystemClock().now()
    return (
        [Card.model_validate(each) for each in answer["cards"]],
        [Question.model_validate(each) for each in answer["questions"]],
        [(run, call) for run in runs for call in run.undecided(now)],
    )


def _question_line(question: Question) -> str:
    """One question in one line, with what can be answered."""
    values = ", ".join(action.value for action in question.content.actions)
    title, risk = visible(question.content.intent, keep_newlines=False), question.content.risk.value
    return f"{question.question_id}  {risk:12}  {title}  (answers: {values})"


def _what_to_do(card: Card) -> str:
    """How a card is decided, here or where nobody can be asked."""
    hashes = " ".join(f"--hash {each}" for each in card.plan_hashes.values())
    changes = f'    or: silas review changes {card.card_id} "what should be different"\n'
    return (
        f"Decide: silas review approve {card.card_id} {hashes}\n"
        f"{'' if card.requested_by == UNDO else changes}"
        f"    or: silas review decline {card.card_id}"
    )


def shown_question(question: Question) -> str:
    """Everything that is signed, for people; what has no words of its own stands as it is."""
    if question.content.kind is QuestionKind.SKILL:
        return _shown_skill(question)
    if question.content.kind is QuestionKind.ITEMS:
        return _shown_items(question)
    if question.content.kind is QuestionKind.TOOL_SERVER:
        return _shown_start(question)
    content = strict_loads(question.content.to_bytes())
    lines = [in_quotes(content.pop("intent")), "Because:", in_quotes(content.pop("rationale"))]
    for action in content.pop("actions"):
        lines += [f"Answer {action['value']}:", in_quotes(action["label"])]
    body = {name: value for name, value in (content.pop("body") or {}).items() if value}
    for name, value in {**body, **content}.items():
        sentences = isinstance(value, list) and all(isinstance(each, str) for each in value)
        text = "\n".join(value) if sentences else value
        text = text if isinstance(text, str) else visible_json(text)
        lines += [f"{name.replace('_', ' ').capitalize()}:", in_quotes(text)]
    return "\n".join([*lines, f"hash {question.content_hash}  {question.question_id}"])


def _shown_items(question: Question) -> str:
    """A batch before the owner: each item with its number; `--exact` has the very bytes."""
    content, batch = question.content, question.content.body["batch"]
    lines = [in_quotes(content.intent), "Because:", in_quotes(content.rationale)]
    args = ", ".join(f"{name} {value}" for name, value in batch["args"].items())
    where = f"{batch['tool']}{f' ({args})' if args else ''}, {content.body['connection_name']}"
    lines += ["With:", in_quotes(where), f"Items ({batch['count']}):"]
    for number, each in enumerate(content.body["items"], 1):
        odd = f"\n! {each['anomaly']}" if each["anomaly"] else ""
        why = f"{each['reason']}, {round(100 * each['confidence'])} % sure"
        mark = "x" if each["ticked"] else " "
        lines.append(in_quotes(f"{number}. [{mark}] {each['line']}\n{why}{odd}"))
    *answers, risk, hashed = _choices(question)
    lines += [*answers, "Some of them: answer edit_selection --text 1,3,5-8", risk, hashed]
    return "\n".join(lines)


def _shown_skill(question: Question) -> str:
    """A skill before the owner, in words; `--exact` has the very bytes."""
    content = question.content
    skill = content.body["skill"]
    lines = [in_quotes(content.intent), "Because:", in_quotes(content.rationale)]
    lines += ["What it is given:", in_quotes("\n".join(content.body["summary"]))]
    for tool in content.body.get("tools", ()):
        said = f"{tool['description']}\n{visible_json(tool['input_schema'])}"
        lines += [own_line(f"The server says of its tool {tool['name']}:"), in_quotes(said)]
    lines.append(_findings(skill["findings"]))
    lines.append(f"Every file that would be installed ({len(skill['files'])}):")
    lines += [
        own_line(f"  {each['path']}  {each['size']} bytes  SHA-256 {each['sha256']}")
        for each in skill["files"]
    ]
    lines.append(f"Read one: silas skills read {question.question_id} SKILL.md")
    return "\n".join([*lines, *_choices(question)])


def _shown_start(question: Question) -> str:
    """What would be started, in words that name every byte; `--exact` has the very bytes."""
    content = question.content
    lines = [in_quotes(content.intent), "Because:", in_quotes(content.rationale)]
    lines += ["What would be done:", in_quotes("\n".join(content.body["summary"]))]
    return "\n".join([*lines, *_choices(question)])


def _choices(question: Question) -> list[str]:
    """How a question is answered, and what is signed."""
    content = question.content
    lines: list[str] = []
    for action in content.actions:
        lines += [f"Answer {action.value}:", in_quotes(action.label)]
    lines.append(f"Risk: {content.risk.value}. It is {_WORDS[content.taint]}.")
    return [*lines, f"hash {question.content_hash}  {question.question_id}"]


def _findings(findings: Sequence[dict[str, Any]]) -> str:
    if not findings:
        return "Nothing suspicious was found in it. That is no proof."
    told = [
        f"{each['weight']}: {each['file']}:{each['line']}: {each['message']}" for each in findings
    ]
    return "What was found in it, the weightiest first:\n" + in_quotes("\n".join(told))


def _exact_question(question: Question) -> str:
    """The very bytes that are signed, as JSON."""
    shown = as_quoted_json(question.content.to_bytes())
    return f"{shown}\nhash {question.content_hash}  {question.question_id}"


def _answer(question: Question, value: str, text: str | None) -> dict[str, Any]:
    kind = question.content.kind
    if kind is QuestionKind.BATCH:
        raise click.UsageError("Decide these plans one by one: `silas review approve`.")
    if value not in question.values:
        known = ", ".join(sorted(question.values))
        raise click.UsageError(f"That is not one of the answers: {known}.")
    if kind is QuestionKind.ITEMS:
        return {"verdict": value, "selected_item_ids": _chosen(question, value, text)}
    if kind is QuestionKind.DRAFT:
        words = {"edit": "edited_text", "rephrase": "words"}.get(value)
        given = text if value == "rephrase" else text or ""
        return {"verdict": value, **({words: given} if words and given is not None else {})}
    if kind in _VERDICTS:
        return {"verdict": value}
    if kind is QuestionKind.CONNECTION_SETUP:
        return {"step_type": question.content.body["step_type"], "action": value}
    if kind is QuestionKind.CONNECTION_FAILURE:
        return {"selected_action": value}
    return {"selected_value": value, **({"freetext": text} if text else {})}


def _chosen(question: Question, value: str, numbers: str | None) -> list[str]:
    """The ids of the items with these numbers, as the card lists them."""
    if value != "edit_selection":
        return []
    ids = [str(each["item_id"]) for each in question.content.body["items"]]
    try:
        wanted = {each for part in (numbers or "").split(",") for each in _span(part)}
    except ValueError:
        wanted = set()
    chosen = [name for number, name in enumerate(ids, 1) if number in wanted]
    if not chosen or len(chosen) != len(wanted):
        raise click.UsageError(f"Say which of the {len(ids)} to keep: --text 1,3,5-8.")
    return chosen


def _span(part: str) -> range:
    first, _, last = part.strip().partition("-")
    return range(int(first), int(last or first) + 1)


def _require_seen(cli: CliContext, question: Question, hashed: str | None) -> None:
    """The answer is to what was shown: typed at the terminal, or with the full hash."""
    if hashed is not None:
        if hashed != question.content_hash:
            raise click.UsageError("--hash must name the full hash of the question.")
        return
    if not on_terminal() or cli.as_json:
        raise click.UsageError("Nobody can be asked here. Read the question, and say --hash.")
    cli.say(shown_question(question))
    if ask_owner("Answer exactly this so?").verdict is not ApprovalVerdict.APPROVED:
        raise click.Abort
