"""What is said: the owner's messages, and what is answered while it grows and when it is whole."""

from typing import Annotated, Literal

from pydantic import Field

from silas.approval import Base64Bytes
from silas.kernel.models import Data, UtcDatetime
from silas.web.wire.fields import MAX_TEXT, Name


class Say(Data):
    """A message, signed over text, timestamp and nonce."""

    type: Literal["message"] = "message"
    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
    message_id: Annotated[str, Field(pattern=r"^msg_[A-Za-z0-9_-]{8,60}$")]
    timestamp: UtcDatetime
    nonce: Name
    signature: Base64Bytes
    sender_id: Name | None = None


class Accepted(Data):
    """The message was written down, and will be answered."""

    type: Literal["accepted"] = "accepted"
    message_id: str
    trace_id: str


class Message(Data):
    """One message of the conversation: `number` is its place among those of its sender."""

    type: Literal["message"] = "message"
    sender: Literal["owner", "silas"]
    number: int
    message_id: str
    text: str
    timestamp: UtcDatetime
    trace_id: str
    surface: str = "stream"
    final: bool = True
    chips: list[str] = Field(default_factory=list)
    card_id: str | None = None


class History(Data):
    """What the page has missed, in its order."""

    type: Literal["history"] = "history"
    messages: list[Message]


class Streaming(Data):
    """An answer grows; the whole of it comes as a `message`."""

    type: Literal["text"] = "text"
    trace_id: str
    piece: str


class Progress(Data):
    """Work goes on."""

    type: Literal["progress"] = "progress"
    trace_id: str
    what: str
    detail: str
