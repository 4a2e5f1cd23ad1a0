"""What is allowed but should be known: warnings about settings that are in force."""

import stat
from collections.abc import Iterator

from silas.app.settings.draft import Draft
from silas.app.settings.fields import is_time_zone
from silas.app.settings.keys import walk
from silas.app.settings.locate import Location
from silas.app.settings.models import Settings
from silas.app.settings.origin import presentable
from silas.kernel.field_problems import dotted
from silas.kernel.loopback import is_loopback

_GOOD_TOKEN_LENGTH = 16


def advice_on_settings(settings: Settings) -> Iterator[str]:
    """Settings that work, but perhaps not as their owner expects."""
    web = settings.channels.web
    token = web.auth_token.get_secret_value() if web.auth_token else ""
    if not is_loopback(web.host) and len(token) < _GOOD_TOKEN_LENGTH:
        yield (
            "channels.web.auth_token is short enough to be guessed by others on the network; "
            f"use at least {_GOOD_TOKEN_LENGTH} characters."
        )
    if not is_time_zone(settings.scheduler.timezone):
        yield "This machine has no time zone data; install the system's `tzdata` package."
    if settings.active_goal and not settings.active_goal.is_file():
        goal = presentable(str(settings.active_goal), longest=400)
        yield f"active_goal names a file that does not exist: {goal}"


def advice_on_file(location: Location, mode: int, draft: Draft) -> Iterator[str]:
    """Who may read and change the file."""
    if stat.S_ISREG(mode) and mode & stat.S_IWOTH:
        yield f"{location.shown} can be changed by everyone; run `chmod o-w {location.shown}`."
    secrets = [dotted(key) for key, kind in walk() if kind.is_secret and _is_in_file(draft, key)]
    if secrets and stat.S_ISREG(mode) and mode & (stat.S_IRGRP | stat.S_IROTH):
        yield (
            f"{location.shown} contains {', '.join(secrets)} and can be read by others; "
            f"run `chmod 600 {location.shown}`."
        )


def _is_in_file(draft: Draft, key: tuple[str, ...]) -> bool:
    written = key in draft.origins and draft.origins[key].source == "file"
    return written and key not in draft.concealed and draft.find(key) is not None
