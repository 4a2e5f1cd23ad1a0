"""Secrets in a conversation: a value that the owner tells goes to the vault, or away.

1. What looks like a secret is taken out of the message before anything of it is written down. The
   message itself stays as it was signed, on the bus, until the turn is over; no agent is shown it.
2. No agent answers then. The owner is told in one line that nothing of it was kept, and is offered
   a card that takes the value to the vault.
3. Asked for a secret that is in the vault, Silas says its name there and how to see it, and never
   the value: it does not even look.
"""

import asyncio
from dataclasses import replace

from silas.kernel import TaintLevel
from silas.kernel.told_secrets import asked_secret, told_secret
from silas.stream.gate_checks import known_of
from silas.stream.turn_context import Turn, TurnContext

_NOT_KEPT = "That looks like a secret, so I did not keep it."
_NOT_OWNER = (
    "That looks like a secret, so I did not keep it. The message was not signed as yours, so I "
    "offer no card either."
)
_CARD = "Type it into the card under Review, and it goes to the vault as `{name}`."
_TERMINAL = "`silas secrets set {name}` puts it into the vault."
_REPLACES = "A value is there already; yours replaces it."
_IN_VAULT = (
    "Your {label} is in the vault as `{name}`. I never say a value; `silas secrets show {name}` "
    "shows it, in a terminal on Silas's machine."
)


def without_secret(services: TurnContext, turn: Turn) -> Turn:
    """The turn with a text without the secret that it tells (1). What visitors say stays."""
    if turn.origin.connection_id != services.policy.owner_id:
        return turn
    told = told_secret(turn.text)
    return turn if told is None else replace(turn, text=told.text, told_secret=told)


async def answer_about_secret(services: TurnContext, turn: Turn) -> Turn | None:
    """The turn with the answer if the message tells or asks for a secret; None if it does not."""
    owners = turn.message.taint is TaintLevel.OWNER
    if turn.told_secret is not None:
        said = await _offer(services, turn) if owners else _NOT_OWNER
    elif owners and (found := await _asked_for(services, turn.text)) is not None:
        label, name = found
        said = _IN_VAULT.format(label=label, name=name)
    else:
        return None
    if turn.told_secret is not None:
        entry = {**known_of(turn), "name": turn.told_secret.name}
        turn = turn.auditing(lambda tx: services.audit.append(tx, "secret_not_kept", entry))
    # The runtime says it, about the message alone: nobody else's text has a part in it.
    return replace(turn.saying(said), taint=turn.message.taint, read_taint=turn.message.taint)


async def _offer(services: TurnContext, turn: Turn) -> str:
    """Ask for the value where it can be typed, and say so (2)."""
    told, vault = turn.told_secret, services.vault
    if told is None:
        return _NOT_KEPT
    asked = vault is not None and await vault.ask(told.name, told.label)
    lines = [_NOT_KEPT, (_CARD if asked else _TERMINAL).format(name=told.name)]
    if told.name in await _names(services):
        lines.append(_REPLACES)
    return " ".join(lines)


async def _asked_for(services: TurnContext, text: str) -> tuple[str, str] | None:
    """What the message asks for, and its name in the vault, if it is there (3)."""
    label = asked_secret(text)
    if label is None:
        return None
    wanted = set(label.split())
    for name in await _names(services):
        if wanted == set(name.replace("_", "-").replace("/", "-").lower().split("-")):
            return label, name
    return None


async def _names(services: TurnContext) -> tuple[str, ...]:
    if services.vault is None:
        return ()
    return tuple(await asyncio.to_thread(services.vault.names))
