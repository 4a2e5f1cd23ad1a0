"""A process that tells reminders and is killed on the way: `ROOT DEATH FIRST`."""

import asyncio
import json
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

from tests.stream.test_reminders import NOON, reminding


def _die(*_args: object, **_more: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def main(root: Path, death: str, *, first: bool) -> None:
    at = NOON if first else NOON + timedelta(minutes=1)
    async with reminding(root, at=at) as here:
        if first:
            await here.wish(op="remind", title="call mom", due="in 1 minute")
            here.clock.advance(minutes=1)
        if death == "audit":
            here.house.core.audit.append = _die  # type: ignore[method-assign,assignment]
        if death == "notify":
            here.house.stream.queue.bus.notify_of = _die  # type: ignore[method-assign]
        await here.look()
        print(json.dumps(await here.told()))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], first=sys.argv[3] == "True"))
