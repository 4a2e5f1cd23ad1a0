"""The servers of the tests are what they claim to be."""

import imaplib
import smtplib
import ssl

import pytest

from tests.servers.certificates import certificates
from tests.servers.dovecot import Dovecot, dovecot, message
from tests.servers.smtp import SmtpServer, smtp

__all__ = ["dovecot", "smtp"]


def test_a_delivered_mail_lies_in_the_inbox(dovecot: Dovecot) -> None:
    account = dovecot.add_account()
    account.deliver(message("First"), message("Second"))
    assert account.subjects() == ["First", "Second"]
    with account.login() as imap:
        assert b"UIDPLUS" in imap.capability()[1][0]
        assert b"MOVE" in imap.capability()[1][0]


def test_a_changed_password_holds_at_once(dovecot: Dovecot) -> None:
    before = dovecot.add_account()
    after = before.change_password("another")
    with pytest.raises(imaplib.IMAP4.error), before.login():
        pass
    with after.login():
        pass


def test_imap_has_a_certificate_of_the_tests_alone(dovecot: Dovecot) -> None:
    context = certificates().client_context()
    with imaplib.IMAP4_SSL("127.0.0.1", dovecot.imaps_port, ssl_context=context, timeout=90):
        pass
    with pytest.raises(ssl.SSLCertVerificationError):
        imaplib.IMAP4_SSL(
            "127.0.0.1", dovecot.imaps_port, ssl_context=ssl.create_default_context(), timeout=90
        )


@pytest.mark.parametrize("way", ["plain", "starttls", "tls"])
def test_a_sent_mail_is_kept_and_delivered(dovecot: Dovecot, smtp: SmtpServer, way: str) -> None:
    sender, receiver = dovecot.add_account(), dovecot.add_account()
    context = certificates().client_context()
    if way == "tls":
        client = smtplib.SMTP_SSL("127.0.0.1", smtp.tls_port, context=context, timeout=90)
    else:
        port = smtp.plain_port if way == "plain" else smtp.starttls_port
        client = smtplib.SMTP("127.0.0.1", port, timeout=90)
    with client:
        if way == "starttls":
            client.starttls(context=context)
        client.login(sender.address, sender.password)
        client.sendmail(sender.address, [receiver.address], message("By " + way))
    [sent] = smtp.sent_by(sender.address)
    assert sent.recipients == (receiver.address,)
    assert sent.message["Subject"] == f"By {way}"
    assert receiver.subjects() == [f"By {way}"]


def test_smtp_takes_nothing_without_the_password(dovecot: Dovecot, smtp: SmtpServer) -> None:
    account = dovecot.add_account()
    with smtplib.SMTP("127.0.0.1", smtp.plain_port, timeout=90) as client:
        with pytest.raises(smtplib.SMTPAuthenticationError):
            client.login(account.address, "wrong")
        with pytest.raises(smtplib.SMTPException):
            client.sendmail(account.address, ["ann@example.com"], message("No"))
    assert smtp.sent_by(account.address) == []
