"""`/api/conversations/*`: the owner's conversations and the search, for page and command line.

A paired device signs each request; visitors have no device. Without a running Silas the command
line runs the same commands on the files itself.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from silas.kernel.models import Data, UtcDatetime
from silas.stream.conversations import MAX_TITLE_CHARS, ConversationLine, DeletedConversation
from silas.stream.search import KINDS, MAX_QUERY_CHARS, Kind, OldAnswer, Search, SearchResults
from silas.web import wire
from silas.web.commands import ApiCommand, PageAccess, by_name
from silas.web.showing import shown_delivery, shown_saying

Named = Annotated[str, Field(min_length=1, max_length=200)]
Words = Annotated[str, Field(max_length=MAX_QUERY_CHARS)]
Title = Annotated[str, Field(min_length=1, max_length=4 * MAX_TITLE_CHARS)]
Kinds = Annotated[list[Kind], Field(max_length=len(KINDS))]
Limit = Annotated[int, Field(ge=1, le=200)]


class ConversationShown(Data):
    """A part of one conversation, in the order in which it happened."""

    conversation: ConversationLine
    messages: list[wire.Message]


async def nobody_to_tell() -> None:
    """No page is open where no Silas runs."""


@dataclass(frozen=True)
class ConversationApi:
    """What can be done with the owner's conversations."""

    search: Search
    tell: Callable[[], Awaitable[None]] = nobody_to_tell
    """Tells open pages that the list has changed."""

    async def list(self) -> list[ConversationLine]:
        """All conversations, the last used first."""
        return await self.search.conversations.list()

    async def find(
        self, words: Words, *, kinds: Kinds | None = None, limit: Limit = 20
    ) -> SearchResults:
        """Search what was said and done; at most so many hits of each kind."""
        return await self.search.find(words, kinds=kinds or KINDS, limit=limit)

    async def show(
        self, name: Named, *, around: UtcDatetime | None = None, limit: Limit = 100
    ) -> ConversationShown:
        """The last messages of a conversation, or so many before and after a moment."""
        line = await self.search.conversations.find(name)
        part = await self.search.part(line.conversation, around=around, limit=limit)
        messages = [
            *map(shown_saying, part.said),
            *map(shown_delivery, part.deliveries),
            *(_shown_old(line.conversation, each) for each in part.older),
        ]
        messages.sort(key=lambda each: each.timestamp)
        return ConversationShown(conversation=line, messages=messages)

    async def rename(self, name: Named, title: Title) -> ConversationLine:
        """Give a conversation another title."""
        known = self.search.conversations
        line = await known.rename((await known.find(name)).conversation, title)
        await self.tell()
        return line

    async def archive(self, name: Named, *, archived: bool = True) -> ConversationLine:
        """Put a conversation away, or bring it back."""
        known = self.search.conversations
        line = await known.archive((await known.find(name)).conversation, archived=archived)
        await self.tell()
        return line

    async def delete(self, name: Named) -> DeletedConversation:
        """Take out what was said in a conversation; work, memories and the log stay."""
        known = self.search.conversations
        gone = await known.delete((await known.find(name)).conversation)
        await self.tell()
        return gone


def _shown_old(conversation: str, answer: OldAnswer) -> wire.Message:
    """An answer of long ago: its words are kept, and nothing else of it."""
    return wire.Message(
        sender="silas",
        number=0,
        message_id=answer.entry_id,
        text=answer.text,
        timestamp=answer.at,
        trace_id="",
        conversation=conversation,
    )


CONVERSATION_COMMANDS = by_name(
    [
        # The page is told the list. What it looks for stands in a body, not in an address.
        ApiCommand(ConversationApi.list),
        ApiCommand(ConversationApi.find, PageAccess.SIGNED, alias="search"),
        ApiCommand(ConversationApi.show, PageAccess.SIGNED),
        ApiCommand(ConversationApi.rename, PageAccess.SIGNED),
        ApiCommand(ConversationApi.archive, PageAccess.SIGNED),
        ApiCommand(ConversationApi.delete, PageAccess.SIGNED),
    ]
)
"""By name."""
