"""`silas connect` and `silas connections`, at a terminal and in scripts, with a real mailbox."""

import json
import re

import pytest

from tests.cli.machine import Machine
from tests.cli.test_devices import serving
from tests.servers.dovecot import Dovecot, dovecot, message
from tests.servers.smtp import SmtpServer, smtp
from tests.web.mail_account import servers_of

__all__ = ["dovecot", "smtp"]
pytestmark = pytest.mark.slow
CANARY = "canary-91ab-of-the-terminal"


def options(dovecot: Dovecot, smtp: SmtpServer) -> list[str]:
    found = []
    for kind, where in servers_of(dovecot, smtp).items():
        found += ["--option", f"{kind}={where}"]
    return found


def test_a_mailbox_is_connected_at_a_terminal_and_removed(
    owner: Machine, dovecot: Dovecot, smtp: SmtpServer
) -> None:
    account = dovecot.add_account(password=CANARY)
    account.deliver(message("Hello"))
    with serving(owner):
        code, shown = owner.type(
            *("connect", "mail", account.address, "--name", "Post", *options(dovecot, smtp)),
            answers=[("Answer exactly this so?", "yes"), ("Password for Post", CANARY)],
        )
        assert code == 0, shown
        assert "Post is connected. The inbox has 1 mails" in shown
        assert CANARY not in shown
        listed = owner.run("connections", "list").stdout.decode()
        assert "Post  works  may mail.observe" in listed
        assert "mail" in listed.splitlines()[-1]
        checked = json.loads(owner.run("connections", "check", "--json").stdout)
        assert checked["checks"][0]["result"]["healthy"], checked
        detail = owner.run("connections", "show", "Post").stdout.decode()
        assert f"IMAP localhost:{dovecot.imap_port} (NOT encrypted" in detail
        asked = owner.run("connections", "permissions", "Post", "mail.act")
        assert b"just_this_once" in asked.stdout, asked.stderr
        wrong = owner.run("connections", "permissions", "Post", "mail.everything")
        assert b"There are: mail.observe, mail.draft, mail.act" in wrong.stderr
        assert owner.run("connections", "pause", "Post").returncode == 0
    # Without a server: on the files.
    assert b"is paused" in owner.run("connections", "list").stdout
    assert owner.run("connections", "remove", "Post", "--yes").returncode == 0
    assert b"connections/" not in owner.run("secrets", "list").stdout
    assert b"Nothing is connected yet." in owner.run("connections", "list").stdout


def test_a_wrong_password_is_told_and_can_be_typed_again_by_a_script(
    owner: Machine, dovecot: Dovecot, smtp: SmtpServer
) -> None:
    account = dovecot.add_account(password=CANARY)
    with serving(owner):
        arguments = ["connect", "mail", account.address, *options(dovecot, smtp), "--json"]
        asked = json.loads(owner.run(*arguments).stdout)
        name, card = asked["connection"]["connection_id"], asked["card_id"]
        shown = owner.run("review", "show", card).stdout.decode()
        assert "in your own network" in shown
        hashed = re.findall(r"[0-9a-f]{64}", shown)[-1]
        answered = owner.run("review", "answer", card, "approve", "--hash", hashed)
        assert answered.returncode == 0, answered.stderr
        refused = owner.run("connections", "password", name, "--stdin", stdin="wrong\n")
        assert refused.returncode == 245, refused.stdout
        assert b"does not take the password" in refused.stderr
        assert b"DOES NOT WORK" in owner.run("connections", "list").stdout
        doctor = owner.run("doctor").stdout.decode()
        assert f"silas connections reconnect {name}" in doctor
        assert owner.run("connections", "reconnect", name).returncode == 0
        typed = owner.run("connections", "password", name, "--stdin", stdin=f"{CANARY}\n")
        assert typed.returncode == 0, typed.stderr
        assert b"is connected" in typed.stdout


def test_what_cannot_be_connected_is_said_in_one_sentence(owner: Machine) -> None:
    off = owner.run("connect", "mail", "ada@example.org")
    assert b"silas start" in off.stderr
    with serving(owner):
        for arguments, sentence in (
            (("connect", "coding"), b"no connection"),
            (("connect", "nonsense"), b"is not installed"),
            (("connect", "mail", "nobody"), b"silas connect mail you@example.org"),
            (("connect", "mail", "a@b.example", "--option", "imap"), b"KEY=VALUE"),
            (("connect", "mail", "a@b.example", "--option", "imap=10.0.0.7"), b"host"),
            (("connections", "show", "Nothing"), b"There is no connection"),
        ):
            failed = owner.run(*arguments)
            assert failed.returncode != 0
            assert sentence in failed.stderr, (arguments, failed.stderr)
