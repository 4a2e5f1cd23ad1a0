"""The bundled mail connection, on a real IMAP and a real SMTP server."""

import importlib.util
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import silas.skills
from tests.servers.bridge import SignedIn, declared_uses, run_script, signed_in
from tests.servers.dovecot import Dovecot, MailAccount, dovecot, message
from tests.servers.smtp import SmtpServer, smtp

__all__ = ["dovecot", "smtp"]

SCRIPTS = Path(silas.skills.__file__).parent / "bundled" / "mail" / "scripts"
GMAIL = "imap.gmail.com"
"""A server whose `Authentication-Results` are known to be the provider's own."""


@pytest.fixture
def way(dovecot: Dovecot, smtp: SmtpServer) -> Iterator[SignedIn]:
    with signed_in(dovecot.add_account(), smtp) as ready:
        yield ready


@pytest.fixture
def account(way: SignedIn) -> MailAccount:
    return way.account


MEBIBYTE = 1024 * 1024
Call = Callable[..., dict[str, Any]]


@pytest.fixture
def mail(way: SignedIn) -> Call:
    """Run one command of the connection, as its tool does."""

    def call(
        command: str,
        *,
        fails: bool = False,
        host: str = GMAIL,
        memory: int = 512 * MEBIBYTE,
        **args: Any,
    ) -> dict[str, Any]:
        way.commands.clear()
        ran = run_script(
            SCRIPTS / "mail.py",
            command,
            stdin=json.dumps(args),
            ports={"imap_session.BROKER": way.imap_port, "mail.RELAY": way.smtp_port},
            environment=way.environment(host),
            memory=memory,
        )
        assert ran.returncode == int(fails), ran.stdout + ran.stderr
        answer = json.loads(ran.stdout)
        assert ("error" in answer) == fails
        allowed = declared_uses(SCRIPTS / "mail.py", command).imap
        assert allowed is None or set(way.commands) <= set(allowed)
        return answer

    return call


def module(name: str) -> Any:
    """A module of the skill, by itself."""
    spec = importlib.util.spec_from_file_location(f"mail_{name}", SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def ids(found: dict[str, Any]) -> list[str]:
    return [each["id"] for each in found["mails"]]


# Looking.


def test_a_search_gives_the_newest_first_and_marks_nothing(
    mail: Call, account: MailAccount
) -> None:
    account.deliver(message("One"), message("Two", sender="Bo <bo@example.net>"))
    found = mail("search")
    assert [each["subject"] for each in found["mails"]] == ["Two", "One"]
    assert (found["found"], found["older_ones"]) == (2, 0)
    assert mail("read", mail=ids(found)[0])["text"].strip() == "Hello."
    assert all(each["unread"] for each in mail("search")["mails"])


def test_criteria_are_met_all_at_once(mail: Call, account: MailAccount) -> None:
    march = datetime(2026, 3, 5, tzinfo=UTC)
    account.deliver(
        message("Rechnung für März", text="Betrag: 20 €", when=march),
        message("Rechnung", sender="Müller <m@example.net>"),
        message("Hello"),
    )
    assert mail("search", text="20 €")["found"] == 1
    assert mail("search", subject="Rechnung", sender="Müller")["found"] == 1
    assert mail("search", subject="für", text="Betrag")["found"] == 1
    assert mail("search", subject='"quoted" \\ text')["found"] == 0
    assert mail("search", since="2001-01-01", before="2002-01-01")["found"] == 0
    assert mail("search", since="march", fails=True)["kind"] == "conflict"
    assert mail("search", subject="a\r\nb LOGOUT", fails=True)["kind"] == "conflict"
    assert mail("search", folder="No such folder", fails=True)["kind"] == "conflict"


def test_pages_follow_one_another(mail: Call, account: MailAccount) -> None:
    account.deliver(*(message(f"Mail {number}") for number in range(7)))
    first = mail("search", limit=3)
    assert first["older_ones"] == 4
    second = mail("search", limit=3, older_than=ids(first)[-1])
    subjects = [each["subject"] for each in (*first["mails"], *second["mails"])]
    assert subjects == [f"Mail {number}" for number in (6, 5, 4, 3, 2, 1)]


def test_folders_have_their_names_in_every_language(mail: Call, account: MailAccount) -> None:
    with account.login() as imap:
        imap.create('"Entw&APw-rfe & mehr"'.replace("& ", "&- "))
    account.deliver(message("One"))
    listed = mail("folders")["folders"]
    assert {"folder": "INBOX", "mails": 1, "unread": 1} in listed
    assert "Entwürfe & mehr" in [each["folder"] for each in listed]
    [one] = ids(mail("search"))
    mail("move", mails=[one], folder="Entwürfe & mehr")
    assert mail("search", folder="Entwürfe & mehr")["found"] == 1


HTML = """From: Ann <ann@example.com>\r\nMessage-ID: <h@example.com>\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=
Content-Type: text/html; charset=utf-8

<html><head><title>no</title><style>p {color: red}</style></head>
<body><p>Hello&nbsp;you</p><script>steal()</script><p>Bye</p></body></html>
"""


def test_a_page_of_html_becomes_text(mail: Call, account: MailAccount) -> None:
    account.deliver(HTML.encode())
    [one] = ids(mail("search"))
    read = mail("read", mail=one)
    assert read["subject"] == "Grüße"
    assert read["text"].split() == ["Hello", "you", "Bye"]


def test_a_broken_mail_is_read_as_far_as_it_goes(mail: Call, account: MailAccount) -> None:
    account.deliver(
        b"Message-ID: <b@example.com>\nFrom: =?nonsense?q?x\nContent-Type: text/plain; charset=none\n"
        b"Subject: \xff\xfe\n\nwhat \xff is this"
    )
    [one] = ids(mail("search"))
    assert "what" in mail("read", mail=one)["text"]


NOTE = b"Message-ID: <l@example.com>\nFrom: Ann <ann@example.com>\nSubject: Hello\n"
ALTERNATIVE = (
    NOTE
    + b"Content-Type: multipart/alternative; boundary=b\n\n--b\nContent-Type: text/plain\n\n %s\n"
    + b"--b\nContent-Type: text/html; charset=utf-8\n\n<html><head><meta charset=utf-8><body>"
    + b"<p>In the page</p>\n--b--\n"
)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        pytest.param(ALTERNATIVE % b"", "In the page", id="the plain form is empty"),
        pytest.param(ALTERNATIVE % b"In words", "In words", id="of two forms the plain one"),
        pytest.param(NOTE + "\nGrüße".encode(), "Grüße", id="no charset, and UTF-8"),
        pytest.param(NOTE + "\nGrüße €".encode("cp1252"), "Grüße €", id="no charset, and Windows"),
        pytest.param(
            NOTE + b"Content-Type: text/plain; charset=x-mac-klingon\n\nGr\xc3\xbc\xc3\x9fe",
            "Grüße",
            id="a charset that nobody knows",
        ),
        pytest.param(
            NOTE
            + b"Content-Type: multipart/mixed; boundary=b\n\n--b\n"
            + b"Content-Type: text/plain; charset=x-unknown\n\nHello\n--b\n"
            + b"Content-Type: application/pdf; name*=utf-8''r%C3%A9.pdf\n\nx\n--b--\n",
            "Hello",
            id="the same among several parts",
        ),
        pytest.param(
            NOTE + b"Content-Type: text/plain; charset=utf-8\n\nGr\xc3\xbc\xc3",
            "Gr\u00fc\ufffd",
            id="cut within a letter",
        ),
    ],
)
def test_a_mail_says_what_it_says(raw: bytes, text: str) -> None:
    letters = module("letters")
    assert letters.text_of(letters.parsed(raw)).strip() == text


BROKEN = (
    b"To: undisclosed-recipients:;\xe9",
    b"From: =?utf-8?q?x?= <a@b.org>;:\xff",
    b"Subject: =?utf-16?b?2AA=?=",
    b"Date: \xff\xfe",
    b'Content-Disposition: attachment; filename="\xff.pdf"',
    b"Content-Type: text/plain; name*0*=\xff''%\xff",
    b"Authentication-Results: \xff(((",
    b'Content-Type: ="',
)


def test_no_mail_of_a_strangers_hides_the_others(mail: Call, account: MailAccount) -> None:
    account.deliver(message("Still here"), *(NOTE + each + b"\n\nText\n" for each in BROKEN))
    found = mail("search")
    assert len(found["mails"]) == len(BROKEN) + 1
    assert found["mails"][-1]["subject"] == "Still here"
    for each in found["mails"]:
        mail("read", mail=each["id"])


class Listing:
    """A server that lists these folders."""

    capabilities = ("IMAP4REV1",)

    def __init__(self, *lines: bytes) -> None:
        self.lines = list(lines)

    def list(self, *_: str) -> tuple[str, list[bytes]]:
        return "OK", self.lines


GERMAN = b'(\\All) "/" "[Gmail]/Alle Nachrichten"'


@pytest.mark.parametrize(
    ("use", "lines", "chosen"),
    [
        ("SENT", [b'() "." INBOX', b'() "." "INBOX.Sent"'], "INBOX.Sent"),
        ("DRAFTS", [b'() "/" Entw&APw-rfe'], "Entwürfe"),
        ("SENT", [b'() NIL "Gesendete Objekte"'], "Gesendete Objekte"),
        ("ARCHIVE", [b'() "/" INBOX', GERMAN], "[Gmail]/Alle Nachrichten"),
        ("ARCHIVE", [GERMAN, b'() "\\\\" "Mine\\\\Archiv"'], "Mine\\Archiv"),
        ("ARCHIVE", [b'() "/" Archives', b'(\\Archive) "/" Old'], "Old"),
    ],
)
def test_the_folder_for_something_is_found_on_every_server(
    monkeypatch: pytest.MonkeyPatch, use: str, lines: list[bytes], chosen: str
) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    box = module("imap_session").Mailbox(Listing(*lines))
    assert box.special(*getattr(module("mail"), f"_{use}")) == chosen


def test_a_mailbox_without_such_a_folder_says_what_to_do() -> None:
    session = module("imap_session")
    with pytest.raises(session.Conflict, match="Make one that is called Sent"):
        session.Mailbox(Listing(b'() "/" INBOX')).special("sent", {"sent"})


def test_a_long_text_goes_on(mail: Call, account: MailAccount) -> None:
    account.deliver(message("Long", text="word " * 9000))
    [one] = ids(mail("search"))
    first = mail("read", mail=one)
    assert len(first["text"]) == first["text_goes_on_at"] == 20_000
    assert mail("read", mail=one, start=40_000)["text_goes_on_at"] is None


# Who a sender is.

GENUINE = "mx.google.com; dkim=pass header.i=@example.com; dmarc=pass header.from=example.com"


@pytest.mark.parametrize(
    ("results", "counts"),
    [
        ([GENUINE], True),
        (["mx.google.com; dkim=pass header.d=example.com"], True),
        (
            ["mx.google.com (comment; dmarc=pass) ; dmarc=pass (p=NONE) header.from=example.com"],
            True,
        ),
        ([], False),
        (["mx.google.com; dmarc=fail header.from=example.com"], False),
        (["mx.google.com; dmarc=pass header.from=evil.example"], False),
        (["mx.google.com; dkim=pass header.d=evil.example"], False),
        (["mx.google.com; spf=pass smtp.mailfrom=example.com"], False),
        (["mx.google.com.evil.example; dmarc=pass header.from=example.com"], False),
        (["evil.example; dmarc=pass header.from=example.com"], False),
        # The sender's own line is below the one that the receiving server has written.
        (["mx.google.com; dmarc=fail header.from=example.com", GENUINE], False),
        (["mx.google.com; none (dmarc=pass header.from=example.com)"], False),
        # What the server repeats of the sender's is no finding, however it is put.
        (["mx.google.com; none ((x) dmarc=pass header.from=example.com y)"], False),
        (["mx.google.com; none ((x); dmarc=pass header.from=example.com ; )"], False),
        (['mx.google.com; spf=pass smtp.mailfrom="; dmarc=pass header.from=example.com ;"'], False),
        (["mx.google.com; spf=pass smtp.mailfrom=x dmarc=pass header.from=example.com"], False),
        (["mx.google.com; dmarc=pass header.from=example.com header.from=evil.example"], False),
        (["mx.google.com; none (; dmarc=pass header.from=example.com"], False),
        ([r"mx.google.com; none (\); dmarc=pass header.from=example.com)"], False),
    ],
)
def test_a_sender_counts_if_the_receiving_server_says_so(results: list[str], counts: bool) -> None:
    letters = module("letters")
    lines = "".join(f"Authentication-Results: {each}\n" for each in results)
    mail = letters.parsed(lines.encode() + message("Hello", authentication=None))
    assert letters.is_verified(mail, ["mx.google.com"]) is counts
    assert not letters.is_verified(mail, [])


def test_a_genuine_sender_is_shown_as_one(mail: Call, account: MailAccount) -> None:
    account.deliver(message("Forged", authentication=None), message("True", authentication=GENUINE))
    listed = mail("search")["mails"]
    assert [each["sender_verified"] for each in listed] == [True, False]
    assert mail("read", mail=listed[0]["id"])["sender_verified"] is True


def test_no_sender_counts_where_nobody_knows_the_receiving_server(
    mail: Call, account: MailAccount
) -> None:
    account.deliver(message("Hello", authentication=GENUINE))
    [found] = mail("search", host="imap.example.org")["mails"]
    assert found["sender_verified"] is False


def test_two_senders_are_none(mail: Call, account: MailAccount) -> None:
    two = message("Hello", authentication=GENUINE, sender="a@example.com, b@evil.example")
    account.deliver(two, b"From: boss@example.com\n" + message("Again", authentication=GENUINE))
    assert [each["sender_verified"] for each in mail("search")["mails"]] == [False, False]


# Tidying, and back.


def test_what_is_archived_comes_back(mail: Call, account: MailAccount) -> None:
    account.deliver(message("Keep"), message("Away"), message("Away too"))
    chosen = ids(mail("search"))[:2]
    done = mail("archive", mails=chosen)
    assert (done["moved"], done["folder"], done["read_back"]) == (2, "Archive", True)
    assert account.subjects() == ["Keep"]
    assert sorted(account.subjects("Archive")) == ["Away", "Away too"]
    assert done["undo"]["tool"] == "mail_unarchive"
    mail("unarchive", **done["undo"]["args"])
    assert sorted(account.subjects()) == ["Away", "Away too", "Keep"]
    assert account.subjects("Archive") == []


def test_the_inverse_takes_the_arguments_of_the_call(mail: Call, account: MailAccount) -> None:
    account.deliver(message("One"))
    args = {"mails": ids(mail("search")), "folder": "Trash"}
    mail("move", **args)
    assert account.subjects("Trash") == ["One"]
    mail("move_back", **args)
    assert account.subjects() == ["One"]
    assert mail("read", mail=args["mails"][0])["subject"] == "One"  # found by its Message-ID


def test_a_mail_that_was_moved_meanwhile_is_a_conflict_for_all(
    mail: Call, account: MailAccount
) -> None:
    account.deliver(message("One"), message("Two"))
    both = ids(mail("search"))
    with account.login() as imap:
        imap.select()
        imap.uid("MOVE", "1", "Trash")
    for command, more in (
        ("archive", {}),
        ("move", {"folder": "Sent"}),
        ("label", {"label": "x"}),
        ("mark", {"mark": "read"}),
    ):
        assert mail(command, mails=both, fails=True, **more)["kind"] == "conflict"
    assert account.subjects() == ["Two"]
    assert account.subjects("Archive") == []
    assert mail("search")["mails"][0]["unread"]


def test_another_mail_under_the_same_number_is_not_touched(
    mail: Call, account: MailAccount
) -> None:
    account.deliver(message("One"))
    [one] = ids(mail("search"))
    other = re.sub(r"<.*>", "<other@example.com>", one)
    assert mail("archive", mails=[other], fails=True)["kind"] == "conflict"
    assert mail("read", mail=other, fails=True)["kind"] == "conflict"
    assert account.subjects() == ["One"]


def test_a_folder_that_was_numbered_anew_loses_no_mail(mail: Call, account: MailAccount) -> None:
    account.deliver(message("One"), message("Two"))
    two = ids(mail("search"))[0]
    validity, rest = two.split(".", 1)
    old = f"{int(validity) - 1}.9{rest}"
    assert mail("read", mail=old)["subject"] == "Two"
    mail("archive", mails=[old])
    assert account.subjects() == ["One"]


@pytest.mark.parametrize("text", ["", "1.2", "x", "1.2<a@b>", "1.2<a b>INBOX", "-1.2<a@b>INBOX"])
def test_nonsense_is_no_id(mail: Call, text: str) -> None:
    assert mail("read", mail=text, fails=True)["kind"] == "conflict"


def test_labels_and_marks_come_and_go(mail: Call, account: MailAccount) -> None:
    account.deliver(message("One"), message("Two"))
    both = ids(mail("search"))
    mail("label", mails=both[:1], label="taxes")
    done = mail("label", mails=both, label="taxes")
    assert (done["changed"], done["unchanged"]) == (1, 1)
    assert mail("search", label="taxes")["found"] == 2
    mail("unlabel", **done["undo"]["args"])
    assert ids(mail("search", label="taxes")) == both[:1]
    done = mail("mark", mails=both, mark="read")
    assert mail("search", unread=True)["found"] == 0
    mail("unmark", **done["undo"]["args"])
    assert mail("search", unread=True)["found"] == 2
    assert mail("mark", mails=both, mark="unread")["undo"] is None
    assert (
        mail("label", mails=both, label="a b) +FLAGS (\\Deleted", fails=True)["kind"] == "conflict"
    )


# Writing.

LETTER: dict[str, Any] = {"to": ["ann@example.com"], "subject": "Tuesday", "text": "Is fine. Grüße"}


def test_a_draft_is_kept_once_and_can_be_discarded(
    mail: Call, account: MailAccount, smtp: SmtpServer
) -> None:
    done = mail("draft", **LETTER)
    assert account.subjects("Drafts") == ["Tuesday"]
    assert mail("read", mail=done["draft"])["text"].strip() == "Is fine. Grüße"
    assert mail("draft", fails=True, **LETTER)["kind"] == "conflict"
    mail("discard_draft", **done["undo"]["args"])
    assert account.subjects("Drafts") == []
    assert mail("discard_draft", fails=True, **LETTER)["kind"] == "conflict"
    assert smtp.sent_by(account.address) == []


def test_a_draft_that_was_written_anew_is_not_discarded(mail: Call, account: MailAccount) -> None:
    undo = mail("draft", **LETTER)["undo"]["args"]
    with (
        account.login() as imap
    ):  # as mail programs do it: a new mail by the same name, the old gone
        imap.select("Drafts")
        _, data = imap.fetch("1", "(RFC822)")
        assert isinstance(data[0], tuple)
        changed = data[0][1] + b"\r\nAnd bring cake.\r\n"
        imap.append("Drafts", "\\Draft", "", changed)
        imap.store("1", "+FLAGS", "\\Deleted")
        imap.expunge()
    refused = mail("discard_draft", fails=True, **undo)
    assert refused["kind"] == "conflict"
    assert account.subjects("Drafts") == ["Tuesday"]


def test_a_sent_mail_is_sent_once_and_kept(
    mail: Call, account: MailAccount, smtp: SmtpServer
) -> None:
    done = mail("send", cc=["bo@example.com"], bcc=["cy@example.com"], **LETTER)
    assert done["copy_in"] == "Sent"
    [sent] = smtp.sent_by(account.address)
    assert sent.recipients == ("ann@example.com", "bo@example.com", "cy@example.com")
    assert (sent.sender, sent.message["From"]) == (account.address, account.address)
    assert b"cy@example.com" not in sent.content
    assert sent.message.get_payload(decode=True).decode().strip() == "Is fine. Grüße"
    assert account.subjects("Sent") == ["Tuesday"]
    again = mail("send", fails=True, cc=["bo@example.com"], bcc=["cy@example.com"], **LETTER)
    assert again["kind"] == "conflict"
    assert len(smtp.sent_by(account.address)) == 1


def test_an_answer_belongs_to_its_thread(
    mail: Call, account: MailAccount, smtp: SmtpServer
) -> None:
    account.deliver(message("Tuesday?", headers=[("References", "<first@example.com>")]))
    [found] = mail("search")["mails"]
    mail("send", to=["ann@example.com"], text="Fine.", answer_to=found["id"])
    [sent] = smtp.sent_by(account.address)
    identity = re.search("<.*>", found["id"])
    assert sent.message["Subject"] == "Re: Tuesday?"
    assert sent.message["In-Reply-To"] == identity[0]
    assert sent.message["References"].split() == ["<first@example.com>", identity[0]]


@pytest.mark.parametrize(
    "wrong",
    [
        {"to": []},
        {"to": ["ann"]},
        {"to": ["ann@example.com\r\nBcc: eve@example.com"]},
        {"to": ["ann@example.com, eve@example.com"]},
        {"to": ["Ann <ann@example.com>"]},
        {"cc": ["<eve@example.com>"]},
        {"subject": "Hello\r\nBcc: eve@example.com"},
        {"subject": "Hello\nX"},
    ],
)
def test_no_recipient_is_smuggled_in(
    mail: Call, account: MailAccount, smtp: SmtpServer, wrong: dict[str, Any]
) -> None:
    assert mail("send", fails=True, **{**LETTER, **wrong})["kind"] == "refused"
    assert smtp.sent_by(account.address) == []
    assert account.subjects("Sent") == []


@pytest.mark.parametrize(
    "text", ["a\n.\nMAIL FROM:<eve@example.com>", ".", "..\n.", "a\r\n.\r\nQUIT", "a\n.\r\nRSET"]
)
def test_no_line_of_a_text_ends_the_mail(
    mail: Call, account: MailAccount, smtp: SmtpServer, text: str
) -> None:
    mail("send", **{**LETTER, "text": text})
    [sent] = smtp.sent_by(account.address)
    assert sent.message.get_payload(decode=True).decode().split() == text.split()


def test_a_refused_recipient_refuses_the_whole_mail(
    mail: Call, account: MailAccount, smtp: SmtpServer
) -> None:
    smtp.refuse_with = "451 4.7.1 Try again later"
    try:
        assert mail("send", fails=True, **LETTER)["kind"] == "rate_limited"
        smtp.refuse_with = "550 5.1.1 No such user"
        assert mail("send", fails=True, **LETTER)["kind"] == "refused"
    finally:
        smtp.refuse_with = None
    assert smtp.sent_by(account.address) == []
    assert account.subjects("Sent") == []


LIST = [
    ("List-Unsubscribe", "<https://l.example.com/u>, <mailto:leave@example.com?subject=out%20now>")
]


def test_a_list_is_left_by_mail_if_its_sender_is_genuine(
    mail: Call, account: MailAccount, smtp: SmtpServer
) -> None:
    account.deliver(
        message("Forged news", headers=LIST, authentication=None),
        message("News", headers=LIST, authentication=GENUINE),
        message(
            "By page", headers=[("List-Unsubscribe", "<https://x.example>")], authentication=GENUINE
        ),
    )
    by_page, genuine, forged = ids(mail("search"))
    assert mail("unsubscribe", mail=forged, fails=True)["kind"] == "refused"
    assert "https://x.example" in mail("unsubscribe", mail=by_page, fails=True)["error"]
    assert smtp.sent_by(account.address) == []
    mail("unsubscribe", mail=genuine)
    [sent] = smtp.sent_by(account.address)
    assert (sent.recipients, sent.message["Subject"]) == (("leave@example.com",), "out now")


# Connecting it, and looking after it.


def ask(way: SignedIn, script: str, *lines: dict[str, Any]) -> list[dict[str, Any]]:
    ran = run_script(
        SCRIPTS / script,
        stdin="".join(json.dumps(each) + "\n" for each in lines),
        ports={"imap_session.BROKER": way.imap_port},
        environment=way.environment(),
    )
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


START = {
    "type": "start",
    "auth_strategy": "secure_input",
    "initial_permissions": ["mail.observe"],
    "identity_hint": {"identity": "me@gmail.com"},
}
STORED = {"type": "step_result", "step_id": "password", "payload": {"success": True}}


def test_setup_asks_for_the_password_and_looks_inside(way: SignedIn) -> None:
    way.account.deliver(message("One"))
    step, wait, progress, done = ask(way, "setup.py", START, STORED)
    assert step["step"]["type"] == "secure_input"
    assert step["step"]["request"]["guidance"]["help_url"].startswith("https://")
    assert (wait["type"], wait["step_id"]) == ("await_input", step["step_id"])
    assert progress["step"]["type"] == "progress"
    assert done["connection_payload"]["summary"] == "The inbox has 1 mails, 1 of them unread."


def test_a_cancelled_setup_ends(way: SignedIn) -> None:
    assert len(ask(way, "setup.py", START, {"type": "cancel"})) == 2
    assert len(ask(way, "setup.py", START)) == 2
    assert ask(way, "setup.py", {"type": "cancel"}) == []


def test_a_password_that_does_not_hold_is_said_to_be_so(way: SignedIn, dovecot: Dovecot) -> None:
    dovecot.set_password(way.account.address, "another")
    failed = ask(way, "setup.py", START, STORED)[-1]
    assert (failed["type"], failed["failure"]["failure_type"]) == ("failure", "token_revoked")
    for script in ("probe.py", "health_check.py", "recover.py"):
        [answer] = ask(way, script, {"type": "x"})
        assert answer["failure"]["failure_type"] == "token_revoked"


def test_a_server_that_is_not_there_is_said_to_be_so(way: SignedIn) -> None:
    nowhere = SignedIn(way.account, 9, 9, [])
    [answer] = ask(nowhere, "health_check.py", {"type": "health_check"})
    assert answer["failure"]["failure_type"] == "service_unavailable"


def test_health_and_probe_look_inside(way: SignedIn) -> None:
    [health] = ask(way, "health_check.py", {"type": "health_check"})
    assert health["healthy"] is True
    [probe] = ask(way, "probe.py", {"type": "probe"})
    assert probe["summary"] == "The inbox has 0 mails, 0 of them unread."
    assert ask(way, "recover.py", {"type": "recover", "error": "x"}) == [{"success": True}]


def discovered(**hint: str) -> dict[str, Any]:
    ran = run_script(
        SCRIPTS / "discover.py",
        stdin=json.dumps({"type": "discover", "identity_hint": hint}) + "\n",
        ports={"lifecycle.PROXY": 9},
        environment={},
    )
    [line] = ran.stdout.splitlines()
    return json.loads(line)


def test_servers_of_known_providers_are_known() -> None:
    found = discovered(identity="me@gmail.com")
    assert found["provider"] == "Gmail"
    places = [
        (each["kind"], each["host"], each["port"], each["tls"]) for each in found["endpoints"]
    ]
    assert places == [
        ("imap", "imap.gmail.com", 993, "tls"),
        ("smtp", "smtp.gmail.com", 465, "tls"),
    ]


def test_servers_that_the_owner_names_are_taken() -> None:
    found = discovered(
        identity="me@example.org", imap="nas:1143/none@192.168.1.5", smtp="smtp.example.org:587"
    )
    assert found["identity_match"] is True
    imap, smtp = found["endpoints"]
    assert imap == {
        "kind": "imap",
        "host": "nas",
        "port": 1143,
        "tls": "none",
        "address": "192.168.1.5",
    }
    assert (smtp["port"], smtp["tls"], smtp["address"]) == (587, "starttls", None)


def test_who_signs_in_with_another_name_writes_with_their_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = discovered(identity="me@example.org", user="ab123")
    assert (found["username"], found["address"]) == ("ab123", "me@example.org")
    assert discovered(identity="me@example.org")["address"] == ""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    said = {"username": found["username"], "address": found["address"]}
    monkeypatch.setenv("SILAS_ACCOUNT", json.dumps(said))
    assert module("mail")._own_address() == "me@example.org"


def test_what_nobody_knows_is_guessed_and_says_so() -> None:
    found = discovered(identity="me@nowhere.example")
    assert found["identity_match"] is False
    assert [each["host"] for each in found["endpoints"]] == [
        "imap.nowhere.example",
        "smtp.nowhere.example",
    ]


@pytest.mark.parametrize(
    "hint",
    [
        {},
        {"identity": "me"},
        {"identity": "me@example.org", "imap": "a b"},
        {"identity": "m@live.com"},
    ],
)
def test_what_cannot_be_connected_is_said_to_be_so(hint: dict[str, str]) -> None:
    assert discovered(**hint)["failure"]["message"]


# Ten thousand mails.


@pytest.mark.slow
def test_ten_thousand_mails_are_listed_in_little_memory(mail: Call, account: MailAccount) -> None:
    one = message("Mail number 00000", text="x" * 500, headers=[("X-Number", "00000")])
    identity = re.search(rb"Message-ID: <([^>]*)", one)[1]
    account.deliver(
        *(
            one.replace(b"00000", b"%05d" % number).replace(identity, b"%d@example.com" % number)
            for number in range(10_000)
        )
    )
    found = mail("search", limit=200, memory=96 * MEBIBYTE)
    assert (found["found"], len(found["mails"]), found["older_ones"]) == (10_000, 200, 9_800)
    assert found["mails"][0]["subject"] == "Mail number 09999"
    assert mail("search", subject="number 00042", memory=96 * MEBIBYTE)["found"] == 1
