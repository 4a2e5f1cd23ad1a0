"""Ends sandboxes whose Silas was killed, from the first moment of their building on.

Launchers can ask the kernel to be killed with their parent (`bwrap --die-with-parent`), but only
once they run, and each of their children anew: a Silas that dies while a sandbox is being built
would leave it behind. So every process group of a launcher is entered in a list that a small shell
keeps. It waits for the end of its input. That comes when Silas ends in whatever way, and then it
kills what is still on the list. One shell serves a whole Silas process.
"""

import os
from functools import cache

_SCRIPT = """
list=" "
while read -r line; do
  group=${line#?}
  case $line in
    +*) list="$list$group " ;;
    -*) list="${list%%" $group "*} ${list#*" $group "}" ;;
  esac
done
for group in $list; do kill -KILL "-$group" 2>/dev/null; done
"""


class Undertaker:
    """Knows which process groups must not outlive this process."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._writing = _start_shell()

    def enter(self, group: int) -> None:
        """From now on this process group dies with us."""
        self._groups.add(group)
        self._tell(f"+{group}\n")

    def strike(self, group: int) -> None:
        """The group is gone; its number may soon be somebody else's."""
        self._groups.discard(group)
        self._tell(f"-{group}\n")

    def _tell(self, line: str) -> None:
        try:
            os.write(self._writing, line.encode())
        except BrokenPipeError:
            # Somebody killed the shell: a new one gets the whole list.
            os.close(self._writing)
            self._writing = _start_shell()
            os.write(self._writing, "".join(f"+{group}\n" for group in self._groups).encode())


def _start_shell() -> int:
    """Start it, and return the end of the pipe that only we hold."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    silent = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        # In a session of its own, a Ctrl-C at the terminal does not reach it.
        os.posix_spawn(
            "/bin/sh",
            ["/bin/sh", "-c", _SCRIPT],
            {},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, reading, 0),
                (os.POSIX_SPAWN_DUP2, silent, 1),
                (os.POSIX_SPAWN_DUP2, silent, 2),
            ],
            setsid=True,
        )
    finally:
        os.close(reading)
        os.close(silent)
    return writing


@cache
def the_undertaker() -> Undertaker:
    """The one of this process, which is what it watches."""
    return Undertaker()
