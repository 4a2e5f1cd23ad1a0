"""A real Dovecot on loopback, run by an ordinary user: mailboxes that are there and gone again.

    def test_it(dovecot: Dovecot) -> None:
        account = dovecot.add_account()          # a new mailbox, with a password of its own
        account.deliver(message("Hello"))        # as if it had come by mail
        with account.login() as imap: ...        # what the test reads back by itself

It answers on two ports: `imap_port` (plain, and STARTTLS where the client asks for it) and
`imaps_port` (TLS). The certificate is for `*.example.org` and 127.0.0.1, and of the tests' own
authority (`tests.servers.certificates`). With `oauth`, the address at which a provider says whose a
token is, it takes bearer tokens as well (XOAUTH2, OAUTHBEARER).
"""

import contextlib
import grp
import imaplib
import itertools
import json
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from pathlib import Path

import pytest

from tests.servers.certificates import certificates

INSTALL = "needs a real IMAP server, version 2.3: apt install dovecot-imapd"
PROVIDER = "mx.example.org"
"""The authserv-id of the server that receives the mail of these mailboxes (RFC 8601)."""
_WAIT_SECONDS = 120

_CONFIG = """
protocols = imap
base_dir = {home}/run
state_dir = {home}/state
log_path = {home}/log
instance_name = silas-tests
listen = 127.0.0.1
default_internal_user = {user}
default_internal_group = {group}
default_login_user = {user}
first_valid_uid = 1
mail_uid = {user}
mail_gid = {group}
mail_location = maildir:{home}/mail/%n
mail_max_userip_connections = 100
maildir_very_dirty_syncs = no
maildir_copy_with_hardlinks = yes
ssl = yes
ssl_cert = <{chain}
ssl_key = <{key}
disable_plaintext_auth = no
auth_mechanisms = plain login {more_mechanisms}
auth_cache_size = 0
auth_failure_delay = 0
login_greeting = Ready.
{oauth}
passdb {{
  driver = dict
  args = {home}/passwords
}}
userdb {{
  driver = static
  args = uid={user} gid={group} home={home}/mail/%n
}}
namespace inbox {{
  inbox = yes
  separator = /
  mailbox Drafts {{
    special_use = \\Drafts
    auto = subscribe
  }}
  mailbox Sent {{
    special_use = \\Sent
    auto = subscribe
  }}
  mailbox Archive {{
    special_use = \\Archive
    auto = subscribe
  }}
  mailbox Trash {{
    special_use = \\Trash
    auto = subscribe
  }}
}}
service imap-login {{
  chroot =
  client_limit = 200
  inet_listener imap {{
    port = {imap_port}
  }}
  inet_listener imaps {{
    port = {imaps_port}
    ssl = yes
  }}
}}
service imap {{
  process_limit = 100
}}
service anvil {{
  chroot =
}}
service stats {{
  chroot =
}}
"""
# One file for each account, read anew every time: a changed password holds at once.
_PASSWORDS = """
uri = fs:posix:prefix={home}/accounts/
default_pass_scheme = PLAIN
key passdb {{
  key = %u
  format = json
}}
passdb_objects = passdb
"""
_OAUTH = """
passdb {{
  driver = oauth2
  mechanisms = xoauth2 oauthbearer
  args = {home}/oauth
}}
"""
_INTROSPECTION = """
introspection_mode = auth
introspection_url = {url}
username_attribute = sub
"""
_numbers = itertools.count(1)


def message(
    subject: str,
    *,
    sender: str = "Ann Other <ann@example.com>",
    to: str = "owner@example.org",
    text: str = "Hello.",
    authentication: str | None = f"{PROVIDER}; dmarc=pass header.from=example.com",
    when: datetime | None = None,
    headers: Iterable[tuple[str, str]] = (),
) -> bytes:
    """A mail as the provider stores it, with what the provider found out about its sender."""
    mail = EmailMessage()
    if authentication is not None:
        mail["Authentication-Results"] = authentication
    mail["From"], mail["To"], mail["Subject"] = sender, to, subject
    mail["Date"] = format_datetime(when or datetime.now(UTC))
    mail["Message-ID"] = make_msgid(domain="example.com")
    for name, value in headers:
        mail[name] = value
    mail.set_content(text)
    return mail.as_bytes()


@dataclass(frozen=True)
class MailAccount:
    """One mailbox: its address is its user name."""

    server: "Dovecot"
    address: str
    password: str

    @property
    def maildir(self) -> Path:
        return self.server.home / "mail" / self.address.partition("@")[0]

    def deliver(self, *mails: bytes) -> None:
        """Put mails into the inbox, oldest first, as a delivery agent does (maildir)."""
        new = self._folder("new")
        for mail in mails:
            number = next(_numbers)
            # Its name orders the mail; it appears whole, or not at all.
            name = f"{time.time_ns() // 10**9}.M{number:09d}P{os.getpid()}.tests"
            written = self._folder("tmp") / name
            written.write_bytes(mail.replace(b"\r\n", b"\n"))
            self.server.give(written)
            written.rename(new / name)

    def _folder(self, name: str) -> Path:
        path = self.maildir / name
        if not path.is_dir():
            for each in (self.maildir, *(self.maildir / kind for kind in ("tmp", "new", "cur"))):
                each.mkdir(mode=0o700, exist_ok=True)
                self.server.give(each)
        return path

    @contextlib.contextmanager
    def login(self) -> Iterator[imaplib.IMAP4]:
        """A session of the test's own."""
        imap = imaplib.IMAP4("127.0.0.1", self.server.imap_port, timeout=_WAIT_SECONDS)
        try:
            imap.login(self.address, self.password)
            yield imap
        finally:
            with contextlib.suppress(imaplib.IMAP4.error, OSError):
                imap.logout()

    def opens_with_token(self, token: str) -> bool:
        """Whether a bearer token lets somebody in (XOAUTH2)."""
        imap = imaplib.IMAP4("127.0.0.1", self.server.imap_port, timeout=_WAIT_SECONDS)
        said = f"user={self.address}\x01auth=Bearer {token}\x01\x01".encode()
        answers = iter([said])
        try:
            imap.authenticate("XOAUTH2", lambda _challenge: next(answers, b""))
        except imaplib.IMAP4.error:
            return False
        finally:
            with contextlib.suppress(imaplib.IMAP4.error, OSError):
                imap.logout()
        return True

    def change_password(self, password: str) -> "MailAccount":
        """The same mailbox with another password, from now on."""
        self.server.set_password(self.address, password)
        return MailAccount(self.server, self.address, password)

    def subjects(self, folder: str = "INBOX") -> list[str]:
        """What lies in a folder, oldest first."""
        with self.login() as imap:
            imap.select(f'"{folder}"', readonly=True)
            _, [found] = imap.uid("SEARCH", "ALL")
            subjects = []
            for uid in found.split():
                _, data = imap.uid("FETCH", uid.decode(), "(BODY.PEEK[HEADER.FIELDS (SUBJECT)])")
                # Parsed, because a long subject is folded.
                head = message_from_bytes(data[0][1], policy=policy.default)
                subjects.append(str(head["Subject"] or "").strip())
            return subjects


class Dovecot:
    """A running server. `home` is deleted when it is stopped."""

    def __init__(self, *, oauth: str | None = None) -> None:
        self.imap_port, self.imaps_port = free_ports(2)
        # The path of a socket has to be short.
        self.home = Path(tempfile.mkdtemp(prefix="silas-dovecot-", dir="/tmp"))
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
        self._passwords: dict[str, str] = {}
        self._oauth = oauth
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        for name in ("run", "state", "mail", "accounts"):
            (self.home / name).mkdir(exist_ok=True)
        self._write("passwords", _PASSWORDS.format(home=self.home))
        self._write("oauth", _INTROSPECTION.format(url=self._oauth))
        self._write("dovecot.conf", self._config())
        for each in (self.home, *self.home.iterdir()):
            self.give(each)
        # Started by root, it would insist on three users of its own.
        switch = {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}
        self._process = subprocess.Popen(
            ["dovecot", "-F", "-c", self.home / "dovecot.conf"],
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ["PATH"] + ":/usr/sbin"},
            **(switch if os.geteuid() == 0 else {}),
        )
        self._wait_until_it_answers()

    def stop(self) -> None:
        """End it and everything that it started. Its mailboxes stay; `start` brings them back."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=_WAIT_SECONDS)
            self._process = None

    def close(self) -> None:
        """End it, and delete what it kept."""
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)

    def add_account(self, name: str | None = None, password: str | None = None) -> MailAccount:
        """A new, empty mailbox with a password that is found nowhere else."""
        local = name or f"owner{next(_numbers)}-{secrets.token_hex(3)}"
        account = MailAccount(self, f"{local}@example.org", password or secrets.token_hex(16))
        self.set_password(account.address, account.password)
        return account

    def set_password(self, address: str, password: str) -> None:
        """From now on, this password and no other opens the mailbox."""
        self._passwords[address] = password
        self._write(f"accounts/{address}", json.dumps({"password": password}))

    def password_of(self, address: str) -> str | None:
        """What opens the mailbox now."""
        return self._passwords.get(address)

    def account(self, address: str) -> MailAccount | None:
        """The mailbox with this address, if there is one."""
        password = self._passwords.get(address)
        return None if password is None else MailAccount(self, address, password)

    @property
    def log(self) -> str:
        path = self.home / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def give(self, path: Path) -> None:
        """Let the server's user own a file."""
        if os.geteuid() == 0:
            os.chown(path, self._user.pw_uid, self._user.pw_gid)

    def _write(self, name: str, text: str) -> None:
        path = self.home / name
        path.write_text(text)
        self.give(path)

    def _config(self) -> str:
        made = certificates()
        return _CONFIG.format(
            home=self.home,
            user=self._user.pw_name,
            group=grp.getgrgid(self._user.pw_gid).gr_name,
            chain=made.chain,
            key=made.key,
            imap_port=self.imap_port,
            imaps_port=self.imaps_port,
            more_mechanisms="xoauth2 oauthbearer" if self._oauth else "",
            oauth=_OAUTH.format(home=self.home) if self._oauth else "",
        )

    def _wait_until_it_answers(self) -> None:
        ends = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < ends:
            if self._process is None or self._process.poll() is not None:
                break
            with contextlib.suppress(OSError, imaplib.IMAP4.error):
                imaplib.IMAP4("127.0.0.1", self.imap_port, timeout=5).logout()
                return
            time.sleep(0.05)
        raise AssertionError(f"Dovecot did not start:\n{self.log}")


def free_ports(count: int) -> list[int]:
    """Ports on loopback that nobody listens on."""
    with contextlib.ExitStack() as stack:
        open_ = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in open_:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in open_]


def require_dovecot() -> None:
    """Skip, with the command to install it, where there is no Dovecot 2.3."""
    path = os.environ.get("PATH", "") + ":/usr/sbin"
    program = shutil.which("dovecot", path=path)
    if program is None:
        pytest.skip(INSTALL)
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    if not said.stdout.startswith("2.3."):
        pytest.skip(f"{INSTALL} (this one is {said.stdout.split()[0]})")


@pytest.fixture(scope="session")
def dovecot() -> Iterator[Dovecot]:
    """One server for the whole session; each test makes its own account."""
    require_dovecot()
    server = Dovecot()
    try:
        server.start()
        yield server
    finally:
        server.close()
