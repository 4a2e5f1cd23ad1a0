"""`silas review`: questions that are not plans, shown and answered with the owner's own key."""

from typing import Any

import click

from silas.app.ground import Ground
from silas.app.review import open_questions
from silas.app.stream import open_queue
from silas.approval import ApprovalVerdict
from silas.cli.commands import JsonCommand
from silas.cli.context import CliContext, pass_cli
from silas.cli.opening import with_ground
from silas.cli.terminal import on_terminal
from silas.cli.working import ask_owner
from silas.kernel import strict_loads, visible, visible_json
from silas.stream.review.models import Kind, Question

_VERDICTS = {Kind.DRAFT, Kind.AUTONOMY, Kind.GATE, Kind.PERMISSION}


async def open_of(ground: Ground) -> list[Question]:
    """What waits for an answer."""
    return await open_questions(ground, open_queue(ground)).open()


def line_of(question: Question) -> str:
    """One question in one line, with what can be answered."""
    values = ", ".join(action.value for action in question.content.actions)
    title, risk = visible(question.content.intent), question.content.risk.value
    return f"{question.question_id}  {risk:12}  {title}  (answers: {values})"


def shown_question(question: Question) -> str:
    """Exactly what is signed, whole."""
    shown = visible_json(strict_loads(question.content.to_bytes()))
    return f"{shown}\nhash {question.content_hash}  {question.question_id}"


@click.command("answer", cls=JsonCommand)
@click.argument("question_id")
@click.argument("value")
@click.option("--text", metavar="TEXT", help="Your words: for a draft the whole new text.")
@click.option("--hash", "hashed", metavar="HASH", help="Where nobody can be asked: the full hash.")
@pass_cli
def answer(
    cli: CliContext, question_id: str, value: str, text: str | None, hashed: str | None
) -> None:
    """Answer a question of `silas review list` with one of its VALUEs.

    Plans that wait together are decided one by one here: `silas review approve`.
    """

    async def inside(ground: Ground) -> Question:
        questions = open_questions(ground, open_queue(ground))
        question = await questions.get(question_id)
        said = _answer(question, value, text)
        _require_seen(cli, question, hashed)
        return await questions.answer(question_id, said)

    answered = with_ground(cli, inside)
    told = f"{visible(answered.content.intent)}: {visible(answered.state)}."
    cli.show(answered.model_dump(mode="json"), told)


def _answer(question: Question, value: str, text: str | None) -> dict[str, Any]:
    kind = question.content.kind
    if kind is Kind.BATCH:
        raise click.UsageError("Decide these plans one by one: `silas review approve`.")
    if value not in question.values:
        known = ", ".join(sorted(question.values))
        raise click.UsageError(f"That is not one of the answers: {known}.")
    if kind is Kind.DRAFT and value == "edit":
        return {"verdict": value, "edited_text": text or ""}
    if kind in _VERDICTS:
        return {"verdict": value}
    if kind is Kind.CONNECTION_SETUP:
        return {"step_type": question.content.body["step_type"], "action": value}
    if kind is Kind.CONNECTION_FAILURE:
        return {"selected_action": value}
    return {"selected_value": value, **({"freetext": text} if text else {})}


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
