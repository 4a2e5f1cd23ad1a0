"""`silas review`: what waits for the owner's decision."""

from typing import Any

import click

from silas.app.ground import Ground
from silas.app.house import open_cards
from silas.app.review import open_questions
from silas.app.stream import open_queue
from silas.app.work import work_stores
from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.cli.commands import JsonGroup
from silas.cli.context import CliContext, pass_cli
from silas.cli.opening import with_ground
from silas.cli.review_questions import answer, line_of, open_of, shown_question
from silas.cli.working import decide, shown_plan
from silas.kernel import TaintLevel, visible
from silas.stream.cards import Card, require_shown
from silas.stream.decisions import UNDO
from silas.stream.review.models import QUESTION, Question
from silas.work import WorkItem

_WORDS = {
    TaintLevel.OWNER: "your own words",
    TaintLevel.AUTH: "words of somebody who is known here",
    TaintLevel.EXTERNAL: "words that are not yours: read closely what it does",
}


@click.group(cls=JsonGroup)
def review() -> None:
    """Show the plans and questions that wait for you, and decide.

    Calls of work that is under way and waits for you are in `silas work waiting`.
    """


review.add_command(answer)


@review.command("list")
@pass_cli
def list_cards(cli: CliContext) -> None:
    """Show what waits."""

    async def inside(ground: Ground) -> tuple[list[Card], list[Question]]:
        return await open_cards(ground).open_cards(), await open_of(ground)

    found, questions = with_ground(cli, inside)
    cards = [card for card in found if card.requested_by != UNDO]
    undo = [card for card in found if card.requested_by == UNDO]
    lines = [
        f"{card.card_id}  {card.risk.value:12}  {visible(card.title)}  ({_asked_by(card)})"
        for card in cards
    ] + [line_of(question) for question in questions]
    data = {
        "cards": [card.model_dump(mode="json") for card in cards],
        "questions": [question.model_dump(mode="json") for question in questions],
        "undo": [card.model_dump(mode="json") for card in undo],
    }
    lines = lines or ["Nothing waits for your decision."]
    lines += [
        f"{card.card_id}  until {card.expires_at:%H:%M} UTC  {visible(card.title)}" for card in undo
    ]
    cli.show(data, "\n".join(lines))


@review.command("show")
@click.argument("card_id")
@pass_cli
def show(cli: CliContext, card_id: str) -> None:
    """Show a card or a question whole: exactly what would be signed."""
    if card_id.startswith(QUESTION):
        question = with_ground(cli, lambda ground: _question(ground, card_id))
        cli.show({"question": question.model_dump(mode="json")}, shown_question(question))
        return
    card, items = with_ground(cli, lambda ground: _card(ground, card_id))
    text = "\n\n".join(
        [
            visible(card.message),
            *(shown_plan(item) for item in items),
            provenance(card),
            f"risk {card.risk.value}, {card.state}, until {card.expires_at:%Y-%m-%d %H:%M} UTC",
        ]
    )
    plans = [item.model_dump(mode="json") for item in items]
    cli.show({"card": card.model_dump(mode="json"), "items": plans}, text)


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
    """Approve exactly what the card shows. The running Silas then does it."""

    async def inside(ground: Ground) -> Card:
        card, items = await _card(ground, card_id)
        cli.say(provenance(card))
        decision = decide(
            cli, items, hashes, option="--hash", shows=f"silas review show {visible(card_id)}"
        )
        return await open_cards(ground).decide(card_id, decision, shown=card.plan_hashes)

    _tell(cli, with_ground(cli, inside))


@review.command("decline")
@click.argument("card_id")
@pass_cli
def decline(cli: CliContext, card_id: str) -> None:
    """Say no; nothing of it is done."""
    no = ApprovalDecision(verdict=ApprovalVerdict.DECLINED)

    async def inside(ground: Ground) -> Card:
        return await open_cards(ground).decide(card_id, no)

    _tell(cli, with_ground(cli, inside))


async def _question(ground: Ground, question_id: str) -> Question:
    return await open_questions(ground, open_queue(ground)).get(question_id)


async def _card(ground: Ground, card_id: str) -> tuple[Card, list[WorkItem]]:
    card = await open_cards(ground).get(card_id)
    store = work_stores(ground).items
    return card, require_shown(card, [await store.get(name) for name in card.plan_hashes])


def provenance(card: Card) -> str:
    """Who asked for it, and whose words it was made from."""
    return f"Asked for by {_asked_by(card)}. Made from {_WORDS[card.taint]}."


def _asked_by(card: Card) -> str:
    return visible(f"{card.connection_id}, {card.channel}", keep_newlines=False)


def _tell(cli: CliContext, card: Card) -> None:
    data: dict[str, Any] = card.model_dump(mode="json")
    then = "Silas does it now, or as soon as it runs; see `silas work list`."
    words = f"{visible(card.title)}: {card.state}."
    cli.show(data, f"{words} {then}" if card.state == ApprovalVerdict.APPROVED else words)
