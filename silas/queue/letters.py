"""Messages as the store keeps them: checked once on the way in, and read carefully on the way out.

What this process wrote, it need not check again: the newest letters are remembered together with
their exact text, and a stored text that is still the same is still that message. Any other text is
read as a stranger's.
"""

from collections import OrderedDict
from typing import NamedTuple

from pydantic import ValidationError

from silas.kernel.field_problems import dotted, problems_in
from silas.queue.errors import MessageRefused, NoRoute
from silas.queue.models import PlanResult, QueueMessage, QueueName, SystemEvent
from silas.queue.routing import PRIORITY, lane_of, route

_SERIALIZER = QueueMessage.__pydantic_serializer__
_REMEMBERED = 1024
_WORTH_REMEMBERING = 16_384
_OPEN_PAYLOADS = frozenset({PlanResult, SystemEvent})
"""They carry data of any shape."""


class Letter(NamedTuple):
    """A message with its address and its text."""

    message: QueueMessage
    queue: QueueName
    lane: str | None
    priority: int
    body: str


class DamagedLetter(ValueError):
    """A stored text that is not a message."""


def seal(message: QueueMessage) -> Letter:
    """Address a message; raises `MessageRefused` or `NoRoute`."""
    try:
        # As `model_dump_json` does, without its many parameters.
        body = _SERIALIZER.to_json(message, warnings="error").decode()
        checked = message if _is_sound(message) else QueueMessage.model_validate_json(body)
    except ValueError as error:
        raise MessageRefused(
            f"The message breaks the contract of the bus: {_words(error)}. Nothing was queued."
        ) from error
    queue = route(checked)
    return Letter(checked, queue, lane_of(checked, queue), PRIORITY[checked.urgency], body)


def _is_sound(message: QueueMessage) -> bool:
    """Whether its text is sure to be read as this message again.

    Where a part may hold data of any shape, only the text says how that will be read.
    """
    return (
        message.was_checked
        and message.payload.was_checked
        and (message.constraints is None or message.constraints.was_checked)
        and type(message.payload) not in _OPEN_PAYLOADS
    )


class LetterOpener:
    """Turns stored texts back into messages."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Letter] = OrderedDict()

    def remember(self, letter: Letter) -> None:
        """This is being written now, and will probably be read soon."""
        if len(letter.body) > _WORTH_REMEMBERING:
            return
        self._known[letter.message.message_id] = letter
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    def open(self, message_id: str, queue: str, body: str) -> QueueMessage:
        """The message; raises `DamagedLetter`. A remembered one is given out only once."""
        known = self._known.pop(message_id, None)
        if known is not None and known.body == body and known.queue == queue:
            return known.message
        return read_letter(message_id, queue, body)


def read_letter(message_id: str, queue: str, body: str) -> QueueMessage:
    """The message in a row that anybody may have written; raises `DamagedLetter`."""
    try:
        message = QueueMessage.model_validate_json(body)
        meant = route(message)
    except (ValidationError, NoRoute) as error:
        raise DamagedLetter(_words(error)) from error
    if (message.message_id, meant) != (message_id, queue):
        raise DamagedLetter("its text belongs to another message or queue")
    return message


def _words(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(
        f"{dotted(path)}: {message}" if path else message for path, message in problems_in(error)
    )
