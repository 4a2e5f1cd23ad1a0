"""A whole Silas in a home of its own, for tests about reading: real questions, real signatures."""

import asyncio
import base64
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from silas.app.agents import Agents
from silas.app.core import Core, make_core
from silas.app.runtime import Runtime, open_runtime
from silas.approval.devices import Attached, message_bytes
from silas.queue.models import QueueMessage, UserMessage
from silas.review.decisions import QuestionKind
from silas.review.questions import Question
from silas.secrets import OnDemandVault
from silas.settings.load import load_settings
from silas.stream.models import AgentTurn, RouteDecision
from silas.stream.places import OpenedPlaces
from silas.testing import MemoryVault
from silas.testing.stream import FakeProxy, direct
from silas.tools.execution import ModelView
from silas.work.ports import ToolCaller

PATIENCE = 120.0


@dataclass
class ReadingHome:
    """A running Silas, and what its owner does."""

    core: Core
    runtime: Runtime
    home: Path

    @property
    def places(self) -> OpenedPlaces:
        return self.runtime.places

    @property
    def workspace(self) -> Path:
        return self.home / "silas-files"

    async def say(
        self,
        text: str,
        *,
        signed: bool = True,
        said_in: Path | None = None,
        files: Sequence[Attached] = (),
        conversation: str | None = None,
    ) -> QueueMessage:
        now, nonce = self.core.clock.now(), self.core.ids.new("nonce")
        content = message_bytes(
            text=text, timestamp=now, nonce=nonce, conversation=conversation, attachments=files
        )
        signature = self.core.keys.sign(content)[1]
        said = UserMessage(
            channel="test",
            connection_id="owner",
            sender_id="owner",
            timestamp=now,
            signature=base64.b64encode(signature).decode() if signed else None,
            nonce=nonce if signed else None,
            said_in=str(said_in) if said_in else None,
            attachments=list(files),
            conversation=conversation,
        )
        record = self.runtime.search.conversations.record
        return await self.runtime.stream.intake.accept(text, said, record=record)

    async def heard(self, message: QueueMessage) -> list[QueueMessage]:
        """What was said about this message so far."""
        found = await self.runtime.deliveries.after("owner", 0, limit=500)
        return [each.message for each in found if each.message.trace_id == message.trace_id]

    async def answer(self, message: QueueMessage, *, number: int = 1) -> QueueMessage:
        """The answer with this number, counted from 1, once it is there."""

        async def there() -> list[QueueMessage]:
            found = await self.heard(message)
            return found if len(found) >= number else []

        return (await until(there))[number - 1]

    async def ask(self, text: str, **more: Any) -> str:
        return (await self.answer(await self.say(text, **more))).content

    async def question(self) -> Question:
        """The question about a place that waits."""
        return (await until(self.waiting))[0]

    async def waiting(self) -> list[Question]:
        found = await self.runtime.reviews.questions.open()
        return [each for each in found if each.content.kind is QuestionKind.PLACE]

    async def decide(self, question: Question, value: str) -> None:
        questions = self.runtime.reviews.questions
        await questions.answer_with_vault(question.question_id, {"selected_value": value})

    async def open(self, path: Path) -> None:
        """The owner opens a place by himself."""
        asked = await self.places.ask(str(path))
        await self.decide(asked, "approve")

        async def is_open() -> bool:
            return any(each.path == str(path) for each in await self.places.readable())

        await until(is_open)

    async def audited(self, event: str) -> list[dict[str, Any]]:
        return [each.data for each in await self.core.audit.tail(500) if each.event == event]


async def until(there: Callable[[], Awaitable[Any]]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := await there()):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    return found


@dataclass
class Reading:
    """A model that calls these tools and answers with what they gave."""

    calls: list[tuple[str, dict[str, Any]]]
    views: list[ModelView] = field(default_factory=list)

    async def __call__(self, _turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
        self.views += [await tools.call(name, args) for name, args in self.calls]
        return direct("\n".join(each.error or each.return_value for each in self.views[-3:]))

    @property
    def agents(self) -> Agents:
        return Agents(proxy=FakeProxy(self))


@contextlib.asynccontextmanager
async def open_reading(
    root: Path, agents: Agents | None = None, *, vault: MemoryVault | None = None, **environ: str
) -> AsyncIterator[ReadingHome]:
    """Silas, running; the same root and vault opened again are the same Silas after a restart."""
    home, data = root / "home", root / "data"
    home.mkdir(exist_ok=True)
    data.mkdir(exist_ok=True)
    settings = load_settings(
        data_dir=str(data),
        config_file=None,
        environ={"HOME": str(home), "SILAS_CHANNELS__WEB__ENABLED": "false", **environ},
        cwd=root,
    )
    opened = vault or MemoryVault()
    async with make_core(settings, OnDemandVault(lambda: opened)) as core:
        if not core.keys.exists():
            core.keys.generate_keypair()
        async with open_runtime(core, environ=environ, home=home, agents=agents) as runtime:
            yield ReadingHome(core, runtime, home)
