"""How commands get at what they work on: settings, paths, the wired ground floor."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeVar

from silas.app.ground import Ground, open_ground
from silas.app.settings import LoadedSettings, load_settings
from silas.cli.context import CliContext
from silas.cli.terminal import passphrase_prompt

T = TypeVar("T")


def settings_of(cli: CliContext) -> LoadedSettings:
    """The settings that this call is to use."""
    return load_settings(
        data_dir=cli.data_dir, config_file=cli.config_file, environ=os.environ, cwd=Path.cwd()
    )


def ground_of(cli: CliContext) -> AbstractAsyncContextManager[Ground]:
    """The ground floor of the data directory that this call is to use."""
    return open_ground(settings_of(cli), environ=os.environ, prompt=passphrase_prompt())


def with_ground(cli: CliContext, work: Callable[[Ground], Awaitable[T]]) -> T:
    """Open the ground floor, do the work, close it."""

    async def inside() -> T:
        async with ground_of(cli) as ground:
            return await work(ground)

    return asyncio.run(inside())
