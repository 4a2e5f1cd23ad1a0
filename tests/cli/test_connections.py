"""`silas connect` and `silas connections`, at a terminal and in scripts, with a real mailbox."""

import contextlib
import json
import re
import threading
import time
import urllib.request
from typing import Any

import pytest

from tests.cli.machine import Machine
from tests.cli.test_devices import serving
from tests.servers.dovecot import Dovecot, dovecot, message, require_dovecot
from tests.servers.oidc import CLIENT, OidcProvider, oidc
from tests.servers.smtp import SmtpServer, smtp
from tests.web.mail_account import servers_of

__all__ = ["dovecot", "oidc", "smtp"]
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
    connect = ("connect", "mail", account.address, "--name", "Post", *options(dovecot, smtp))
    with serving(owner):
        code, shown = owner.type(
            *connect,
            answers=[("Answer exactly this so?", "yes"), ("Password for Post", "\x03")],
        )
        assert code != 0
        assert "Cancelled. Nothing was connected" in shown
        assert b"connections/" not in owner.run("secrets", "list").stdout
        left = json.loads(owner.run("connections", "show", "Post", "--json").stdout)
        assert left["connection"]["status"] == "proposed"
        code, shown = owner.type(
            *connect,
            answers=[("Answer exactly this so?", "yes"), ("Password for Post", CANARY)],
        )
        assert code == 0, shown
        assert "make one for Silas: you can take it back there at any time." in shown
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


@pytest.mark.parametrize("flow", ["device_code", "browser_redirect"])
def test_one_signs_in_at_the_provider_and_the_terminal_says_where(
    owner: Machine, oidc: OidcProvider, smtp: SmtpServer, flow: str
) -> None:
    require_dovecot()
    with contextlib.closing(Dovecot(oauth=f"{oidc.issuer}/me")) as server, serving(owner):
        server.start()
        address = server.add_account().address
        more = {"issuer": f"{oidc.issuer}@127.0.0.1", "client_id": CLIENT}
        more["scopes"], more["flow"] = "openid offline_access email", flow
        named = [text for key, value in more.items() for text in ("--option", f"{key}={value}")]
        arguments = ["connect", "mail", address, *options(server, smtp), *named, "--json"]
        asked = json.loads(owner.run(*arguments).stdout)
        name, card = asked["connection"]["connection_id"], asked["card_id"]
        shown = owner.run("review", "show", card).stdout.decode()
        assert f"You sign in at {oidc.issuer}" in shown
        hashed = re.findall(r"[0-9a-f]{64}", shown)[-1]
        answered = owner.run("review", "answer", card, "approve", "--hash", hashed)
        assert answered.returncode == 0, answered.stderr
        person = threading.Thread(target=_agree, args=(owner, oidc, name, address))
        person.start()
        followed = owner.run("connections", "password", name)
        person.join()
        said = followed.stdout.decode() + followed.stderr.decode()
        assert followed.returncode == 0, said
        where = f"Open {oidc.issuer}/device and enter the code"
        here = f"Open this page in a browser on this machine:\n{oidc.issuer}/auth?"
        assert (where if flow == "device_code" else here) in said
        assert "is connected. The inbox has 0 mails" in said
        removed = owner.run("connections", "remove", name, "--yes").stdout.decode()
        assert "its secret is forgotten." in removed
        assert "not confirmed" not in removed
        assert b"connections/" not in owner.run("secrets", "list").stdout


def _agree(owner: Machine, oidc: OidcProvider, name: str, login: str) -> None:
    """What a person does in a browser."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        found: dict[str, Any] = json.loads(owner.run("connections", "show", name, "--json").stdout)
        sign_in = found["connection"]["sign_in"]
        if sign_in and sign_in["user_code"]:
            oidc.enter_code(sign_in["user_code"], login=login)
            return
        if sign_in:
            back = oidc.sign_in(sign_in["url"], login=login)
            urllib.request.urlopen(back, timeout=90).close()
            return
