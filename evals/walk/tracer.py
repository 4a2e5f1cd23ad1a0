"""A server that notes what it calls: `python -m evals.walk.tracer SOCKET start --no-open …`.

The arguments after the socket are those of `silas`. While somebody has asked for it on the socket,
every call of a function in `silas/` is noted, in every thread, in order, and besides:

- `verified`, `signed`: Ed25519 operations that were really computed,
- `transaction`: a transaction that may write, in `silas.db`,
- `process`: a program that was started, with its command line.

A coroutine that goes on after waiting is not called again. Comprehensions and lambdas belong to
the function that they stand in.
"""

import json
import socket
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import apsw

from silas.cli.main import main as silas

ROOT = Path(__file__).parents[2]
_RUNTIME_DATABASE = "silas.db"
_SIGNATURES = {
    ("Ed25519PublicKey", "verify"): "verified",
    ("Ed25519PrivateKey", "sign"): "signed",
}
_RESUME_AT_START = 0


class Tracer:
    """Notes events while it is switched on."""

    def __init__(self) -> None:
        self._events: list[CodeType | tuple[str, str]] = []
        self._noted: dict[CodeType, bool] = {}
        self._on = False

    def install(self) -> None:
        """Watch this thread and all that will be started, all databases and all processes."""
        apsw.connection_hooks.append(self._watch_connection)
        sys.addaudithook(self._audit)
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def answer_at(self, address: str) -> None:
        """Listen for `begin` and `end`, each on a connection of its own; for a thread."""
        sys.setprofile(None)
        Path(address).unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(address)
            listening.listen()
            while True:
                connection, _ = listening.accept()
                with connection, connection.makefile("rw") as stream:
                    stream.write(self._answer(stream.readline().strip()))

    def _answer(self, asked: str) -> str:
        self._on = False
        events, self._events = self._events, []
        self._on = asked == "begin"
        return json.dumps([_written(each) for each in events if not self._on])

    def _profile(self, frame: FrameType, event: str, arg: Any) -> None:
        if not self._on:
            return
        code = frame.f_code
        if event == "call":
            noted = self._noted.get(code)
            if noted is None:
                noted = self._noted[code] = _is_ours(code)
            if noted and code.co_code[frame.f_lasti + 1] == _RESUME_AT_START:
                self._events.append(code)
        elif event == "c_call" and arg.__name__ in ("verify", "sign"):
            kind = _SIGNATURES.get((type(arg.__self__).__name__, arg.__name__))
            if kind:
                self._events.append((kind, ""))

    def _watch_connection(self, connection: apsw.Connection) -> None:
        if Path(connection.filename).name == _RUNTIME_DATABASE:
            connection.trace_v2(apsw.SQLITE_TRACE_STMT, self._statement, id=self)

    def _statement(self, event: dict[str, Any]) -> None:
        if self._on and event["sql"].startswith("BEGIN IMMEDIATE"):
            self._events.append(("transaction", ""))

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._on and event == "subprocess.Popen":
            self._events.append(("process", " ".join(map(str, arguments[1]))))


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(f"{ROOT}/silas/") and not code.co_name.startswith("<")


def _written(event: CodeType | tuple[str, str]) -> tuple[str, str]:
    if isinstance(event, tuple):
        return event
    name = event.co_qualname.replace(".<locals>", "")
    return str(Path(event.co_filename).relative_to(ROOT)), name


def main() -> None:
    """Start the server that is traced."""
    tracer = Tracer()
    threading.Thread(target=tracer.answer_at, args=(sys.argv[1],), daemon=True).start()
    tracer.install()
    try:
        silas(sys.argv[2:])
    finally:
        sys.setprofile(None)


if __name__ == "__main__":
    main()
