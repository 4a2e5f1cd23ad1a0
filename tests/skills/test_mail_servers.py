"""How the bundled mail connection finds its servers, and what a server that refuses has said."""

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import silas.skills
from tests.servers.bridge import run_script
from tests.servers.certificates import certificates

SCRIPTS = Path(silas.skills.__file__).parent / "bundled" / "mail" / "scripts"
DATABASE, RESOLVER = "autoconfig.thunderbird.net", "cloudflare-dns.com"
AUTOCONFIG = """<?xml version="1.0"?>
<clientConfig version="1.1"><emailProvider id="small.example">
  <incomingServer type="pop3"><hostname>pop.small.example</hostname><port>995</port>
    <socketType>SSL</socketType><username>%EMAILADDRESS%</username></incomingServer>
  <incomingServer type="imap"><hostname>plain.small.example</hostname><port>143</port>
    <socketType>plain</socketType><username>%EMAILADDRESS%</username></incomingServer>
  <incomingServer type="imap"><hostname>imap.%EMAILDOMAIN%</hostname><port>993</port>
    <socketType>SSL</socketType><username>%EMAILLOCALPART%</username></incomingServer>
  <outgoingServer type="smtp"><hostname>out.small.example</hostname><port>587</port>
    <socketType>STARTTLS</socketType><username>%EMAILADDRESS%</username></outgoingServer>
</emailProvider></clientConfig>
"""
SRV = {
    "_imaps._tcp.small.example": ["20 1 993 late.small.example.", "10 1 1993 mx.small.example."],
    "_submissions._tcp.small.example": ["0 0 0 ."],
    "_submission._tcp.small.example": ["0 1 587 mx.small.example."],
}


class Directory:
    """Stands where proxy, database and resolver are: each asked for over TLS, in a tunnel."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with contextlib.suppress(OSError, ssl.SSLError):
                    self._answer(client)

    def _answer(self, client: socket.socket) -> None:
        host = _head(client).split()[1].rpartition(":")[0]
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        with certificates().server_context().wrap_socket(client, server_side=True) as inside:
            path = _head(inside).split()[1]
            self.asked.append(f"{host}{path}")
            known = next((text for at, text in self.answers.items() if at in f"{host}{path}"), None)
            status, body = ("404 no", b"") if known is None else ("200 OK", known.encode())
            head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n"
            inside.sendall(head.encode() + body)


def _head(connection: socket.socket) -> str:
    said = b""
    while not said.endswith(b"\r\n\r\n"):
        piece = connection.recv(1024)
        if not piece:
            raise OSError("it has ended")
        said += piece
    return said.decode("latin-1")


@contextlib.contextmanager
def directory(answers: Mapping[str, str]) -> Iterator[Directory]:
    with contextlib.closing(Directory(answers)) as found:
        yield found


def discovered(at: Directory, **hint: str) -> dict[str, Any]:
    ran = run_script(
        SCRIPTS / "discover.py",
        stdin=json.dumps({"type": "discover", "identity_hint": hint}) + "\n",
        ports={"lifecycle.PROXY": at.port},
        environment={"SSL_CERT_FILE": str(certificates().authority)},
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def servers(found: Mapping[str, Any]) -> list[str]:
    return [f"{each['host']}:{each['port']}/{each['tls']}" for each in found["endpoints"]]


def test_the_database_of_mail_servers_is_asked_for_the_domain_alone() -> None:
    with directory({f"{DATABASE}/v1.1/small.example": AUTOCONFIG}) as at:
        found = discovered(at, identity="ada.lovelace@small.example")
        assert servers(found) == ["imap.small.example:993/tls", "out.small.example:587/starttls"]
        assert found["identity_match"] is True
        assert found["username"] == "ada.lovelace", "this provider wants no domain there"
        assert not [each for each in at.asked if "ada" in each]


def test_records_of_the_domain_are_asked_where_the_database_knows_nothing() -> None:
    records = {
        f"name={name}": json.dumps({"Answer": [{"type": 33, "data": each} for each in data]})
        for name, data in SRV.items()
    }
    with directory(records) as at:
        found = discovered(at, identity="ada@small.example")
        # The lowest priority first, and a dot says that there is no such service.
        assert servers(found) == ["mx.small.example:1993/tls", "mx.small.example:587/starttls"]
        assert (found["identity_match"], found["username"]) == (True, "ada@small.example")
        assert [each for each in at.asked if "ada" in each] == []
        assert at.asked[0].startswith(DATABASE)
        assert at.asked[1].startswith(RESOLVER)


def receives(*servers: str) -> dict[str, str]:
    """The MX records of the domain acme.example."""
    said = [{"type": 15, "data": each} for each in servers]
    return {"type=MX&name=acme.example": json.dumps({"Answer": said})}


def test_a_domain_of_ones_own_at_a_known_provider_is_known_by_who_takes_its_mail() -> None:
    with directory(receives("20 backup.example.", "1 SMTP.Google.com.")) as at:
        found = discovered(at, identity="ada@acme.example")
        assert (found["provider"], servers(found)[0]) == ("Gmail", "imap.gmail.com:993/tls")
        assert (found["identity_match"], found["auth_strategy"]) == (True, "secure_input")
        assert [each for each in at.asked if "ada" in each] == []
    with directory(receives("0 acme-example.mail.protection.outlook.com.")) as at:
        refused = discovered(at, identity="ada@acme.example")["failure"]["message"]
        assert "Microsoft lets programs sign in on its own page alone" in refused
        found = discovered(at, identity="ada@acme.example", client_id="the-client")
        assert found["oauth"]["issuer"] == "https://login.microsoftonline.com/common/v2.0"
        assert servers(found)[0] == "outlook.office365.com:993/tls"


def test_who_is_no_known_provider_is_not_taken_for_one() -> None:
    with directory(receives("1 smtp.google.com.evil.example.", "2 evilgoogle.com.")) as at:
        found = discovered(at, identity="ada@acme.example")
        assert servers(found)[0] == "imap.acme.example:993/tls"
        assert found["identity_match"] is False


def test_nobody_is_asked_for_servers_that_the_owner_names() -> None:
    with directory({}) as at:
        named = {"imap": "imap.gmail.com:993", "smtp": "smtp.gmail.com:465"}
        found = discovered(at, identity="ada@acme.example", client_id="the-client", **named)
        assert at.asked == []
        assert found["oauth"]["issuer"] == "https://accounts.google.com", "known by its server"


@pytest.mark.parametrize(
    "answer",
    [
        "no xml",
        '<!DOCTYPE a [<!ENTITY x "xxxxxxxx">]><clientConfig>&x;</clientConfig>',
        AUTOCONFIG.replace("SSL", "plain"),
        AUTOCONFIG.replace("out.small.example", "out small/example"),
    ],
    ids=["no xml", "entities", "not encrypted", "no host"],
)
def test_a_database_that_answers_nonsense_connects_nothing_by_itself(answer: str) -> None:
    with directory({DATABASE: answer}) as at:
        found = discovered(at, identity="ada@small.example")
        if "failure" not in found:  # guessed: the card says so
            assert servers(found) == ["imap.small.example:993/tls", "smtp.small.example:465/tls"]
            assert found["identity_match"] is False


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("[AUTHENTICATIONFAILED] Invalid credentials", "token_revoked"),
        ("[ALERT] Application-specific password required", "mfa_required"),
        ("[WEBALERT https://accounts.example/] Web login required", "mfa_required"),
        ("[LIMIT] Too many connections from you", "rate_limited"),
        ("[EXPIRED] Your password has expired", "token_revoked"),
        ("[CONTACTADMIN] Blocked", "enterprise_policy_block"),
        ("[PRIVACYREQUIRED] Encrypt", "enterprise_policy_block"),
        ("", "token_revoked"),
    ],
)
def test_what_a_refusal_means_is_read_behind_the_words_of_the_broker(said: str, kind: str) -> None:
    told = f"* BYE [AUTHENTICATIONFAILED] The mail server did not let Silas in. {said}\r\n"
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        client, _ = listener.accept()
        with client:
            client.sendall(told.encode())

    threading.Thread(target=serve, daemon=True).start()
    with contextlib.closing(listener):
        ran = run_script(
            SCRIPTS / "health_check.py",
            stdin='{"type": "health_check"}\n',
            ports={"imap_session.BROKER": listener.getsockname()[1]},
            environment={},
        )
    assert json.loads(ran.stdout)["failure"]["failure_type"] == kind
