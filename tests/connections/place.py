"""A data directory with a connection of its own, whose scripts need no server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from silas.app.connections import make_connections
from silas.connections.manager import ConnectionManager
from silas.connections.models import Connection, ConnectionStatus
from silas.connections.service import ConnectionService
from silas.review.questions import Question
from silas.web.pending_secrets import PendingSecrets
from tests.skills.place import SkillPlace, make_skill
from tests.skills.place import open_place as open_skill_place

CANARY = "canary-5f1c0e7d-never-to-be-seen"
_LONGEST_WAIT = 90

DISCOVER = """import json, sys
hint = json.loads(sys.stdin.readline())["identity_hint"]
print(json.dumps({"auth_strategy": "secure_input", "provider": "Letters",
    "username": hint.get("user", hint["identity"]),
    "address": hint["identity"] if "user" in hint else "",
    "endpoints": [{"kind": "imap", "host": "mail.example.org", "port": 993, "tls": "tls"}]}))
"""
SETUP = """import json, sys
def tell(**event): print(json.dumps(event), flush=True)
start = json.loads(sys.stdin.readline())
tell(type="log", level="info", message="begun")
tell(type="setup_step", step_id="p", step={"type": "secure_input", "request": {"ref_id": "owner",
    "label": "Password", "input_hint": "abcd-...", "guidance": {"instructions": "Type it."}}})
tell(type="await_input", step_id="p")
said = json.loads(sys.stdin.readline())
assert said["payload"] == {"ref_id": "owner", "success": True}, said
tell(type="setup_step", step_id="q", step={"type": "progress", "message": "Half way."})
tell(type="completion", connection_payload={"summary": "done"})
"""
PROBE = 'print(\'{"summary": "3 letters"}\')\n'
HEALTH = 'print(\'{"healthy": true, "latency_ms": 3}\')\n'
RECOVER = "print('{\"success\": true}')\n"
LOOK = 'import os\nprint("looked", os.environ["SILAS_ACCOUNT"])\n'
SEND = 'print("sent")\n'
SCRIPTS = {
    "scripts/discover.py": DISCOVER,
    "scripts/setup.py": SETUP,
    "scripts/probe.py": PROBE,
    "scripts/health_check.py": HEALTH,
    "scripts/recover.py": RECOVER,
    "scripts/look.py": LOOK,
    "scripts/post.py": SEND,
}
SIDECAR: dict[str, Any] = {
    "type": "connection",
    "auth_strategy": "secure_input",
    "hosts": ["finding.example.org"],
    "permissions": {
        "initial": ["letters.observe"],
        "available": ["letters.observe", "letters.draft", "letters.act"],
    },
    "scripts": {
        "scripts/look.py": {
            "tool": "letters_look",
            "description": "Look for letters.",
            "action": "observe",
            "reversibility": "reversible",
            "permission": "letters.observe",
        },
        "scripts/post.py": {
            "tool": "letters_post",
            "description": "Post a letter.",
            "action": "send",
            "reversibility": "irreversible",
            "permission": "letters.act",
            "arguments": {
                "text": {"type": "string", "max_length": 100},
                "to": {"type": "array", "optional": True},
                "copy_to": {"type": "string", "optional": True},
            },
            "uses": {"recipients": ["to", "copy_to"], "imap": ["APPEND"]},
        },
    },
}


@dataclass
class ConnectionPlace:
    """One data directory, its owner, and its connections."""

    skills: SkillPlace
    service: ConnectionService
    secrets: PendingSecrets

    @property
    def manager(self) -> ConnectionManager:
        return self.service.manager

    async def install(self, root: Path, **scripts: str | None) -> None:
        """The skill `letters`; scripts by their names, None leaves one out."""
        changed = {f"scripts/{name}.py": text for name, text in scripts.items()}
        kept = {path: text for path, text in {**SCRIPTS, **changed}.items() if text is not None}
        directory = make_skill(root, "letters", body="# Letters", scripts=kept, sidecar=SIDECAR)
        await self.skills.install(directory)

    async def ask(self, identity: str = "ada@example.org", **more: Any) -> Question:
        asked = await self.service.connect("letters", identity, **more)
        assert asked.card_id is not None
        return await self.manager.cards.questions.get(asked.card_id)

    async def answer(self, question: Question, answer: Mapping[str, Any]) -> None:
        await self.manager.cards.questions.answer_with_vault(question.question_id, answer)
        await self.manager.answered(question.about)

    async def approve(self, question: Question) -> None:
        await self.answer(question, {"selected_value": "approve"})

    async def until_secret(self, name: str) -> str:
        async with asyncio.timeout(_LONGEST_WAIT):
            while True:
                ref = (await self.service.show(name)).connection.wants_secret
                if ref is not None and await self.secrets.open_requests():
                    return ref
                found = await self.manager.store.find(name)
                assert found.status is not ConnectionStatus.FAILED, found.problem
                await asyncio.sleep(0.02)

    async def until_settled(self, name: str) -> Connection:
        async with asyncio.timeout(_LONGEST_WAIT):
            while True:
                found = await self.manager.store.find(name)
                if found.status is not ConnectionStatus.CONNECTING and not self.manager.runs:
                    return found
                await asyncio.sleep(0.02)

    async def connect(self, identity: str = "ada@example.org", **more: Any) -> Connection:
        """All of it: card, yes, password, probe."""
        question = await self.ask(identity, **more)
        await self.approve(question)
        name = question.content.body["connection"]["connection_id"]
        await self.secrets.fulfil(await self.until_secret(name), CANARY)
        return await self.until_settled(name)

    async def events(self) -> list[str]:
        entries = await self.skills.core.audit.tail(1000)
        return [each.event for each in entries]


@contextlib.asynccontextmanager
async def open_place(root: Path, **given: Any) -> AsyncIterator[ConnectionPlace]:
    """The data directory below `root`, new or as it was left."""
    async with open_skill_place(root, **given) as skills:
        core = skills.core
        secrets = PendingSecrets(core.vault, core.database, core.clock)
        service = make_connections(core, skills.questions, secrets)
        await service.manager.take_up()
        try:
            yield ConnectionPlace(skills, service, secrets)
        finally:
            await service.manager.close()
