"""How a page comes in and stays: the handshake, the heartbeat, and what was not taken."""

from typing import Annotated, Literal

from pydantic import Field

from silas.approval import Base64Bytes
from silas.kernel.models import Data
from silas.web.wire.fields import Name, Number


class Hello(Data):
    """The first frame: sign this challenge within five seconds."""

    type: Literal["hello"] = "hello"
    challenge: str


class Auth(Data):
    """The first frame. `signature` is the device's, over `auth_bytes`."""

    type: Literal["auth"] = "auth"
    device_id: Name | None = None
    signature: Base64Bytes | None = None
    token: Annotated[str, Field(max_length=1000)] | None = None
    """`channels.web.auth_token`, where one is configured."""
    delivery: Number = 0
    """The number of the last answer that the page has."""
    said: Number = 0
    """The number of the last message of the owner's that the page has."""


class Ready(Data):
    """The device is known. `ticket` opens a session for HTTP requests, once."""

    type: Literal["ready"] = "ready"
    device_id: str
    device_name: str
    owner_id: str
    ticket: str
    version: str
    model: str | None
    """Who thinks; None for the offline brain."""
    chips: list[str]
    """What can be said, to begin with."""


class Failed(Data):
    """Why something was not taken. `about` is the id that it was about, if it had one."""

    type: Literal["error"] = "error"
    code: str
    message: str
    about: str | None = None
    retry_after: int | None = None
    """Seconds to wait before it is sent again, where that helps."""


class Ping(Data):
    """Is anybody there?"""

    type: Literal["ping"] = "ping"


class Pong(Data):
    """Yes."""

    type: Literal["pong"] = "pong"
