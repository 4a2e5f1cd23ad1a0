"""Accounts: which endpoints can be signed, and which tier each request needs."""

from typing import Any

import pytest
from pydantic import ValidationError

from silas.egress.accounts import (
    AllowedRequest,
    BrokeredAccount,
    CredentialRef,
    Endpoint,
    OAuthServer,
    Tier,
    tier_of_command,
    tier_of_method,
)


def endpoint(**changes: Any) -> Endpoint:
    fields = {"kind": "imap", "host": "imap.example.org", "port": 993, "tls": "tls"}
    return Endpoint(**{**fields, **changes})


def test_tiers_are_ordered() -> None:
    assert [tier for tier in Tier if Tier.DRAFT.allows(tier)] == [Tier.OBSERVE, Tier.DRAFT]
    assert all(Tier.MANAGE.allows(tier) for tier in Tier)
    assert not Tier.OBSERVE.allows(Tier.ACT)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        *(("nas", "192.168.1.20"), ("localhost", "127.0.0.1"), ("cal.home.lan", "10.0.0.7")),
        *(("192.168.1.20", "192.168.1.20"), ("mail.home.lan", "fd12:3456::1"), ("b.c", "::1")),
        ("box.tailnet.example", "100.64.3.4"),
    ],
)
def test_an_exact_private_address_can_be_signed(host: str, address: str) -> None:
    signed = endpoint(host=host, address=address, tls="none")
    assert str(signed) == f"{host}:993 at {address}"


@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "169.254.1.1", "fe80::1", "fe80::1%eth0", "100.100.100.200"),
        *("fd00:ec2::254", "fd20:ce::254", "168.63.129.16", "192.0.0.192", "0.0.0.0", "::"),
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "224.0.0.1", "255.255.255.255"),
        *("64:ff9b::a9fe:a9fe", "2002:7f00:1::1", "1.1.1.1", "93.184.216.34", "localhost"),
        *("127.1", "0x7f.1", "127.0.0.01", "FD12::1", "fd12:0:0:0:0:0:0:1", "", "10.0.0.0/8"),
        "127.0.0.1\0",
    ],
)
def test_no_other_address_can_be_signed(address: str) -> None:
    with pytest.raises(ValidationError):
        endpoint(host="mail.example.org", address=address)


@pytest.mark.parametrize(
    "changes",
    [
        {"tls": "none"},
        {"kind": "http", "tls": "starttls"},
        {"host": "localhost"},
        {"host": "127.0.0.1"},
        {"host": "Imap.example.org"},
        {"host": "imap.example.org."},
        {"host": "im\u0430p.example.org"},
        {"host": "imap.example.org\0.evil.org"},
        {"host": "10.0.0.1", "address": "10.0.0.2"},
        {"host": "a b", "address": "10.0.0.2"},
        {"host": "nas\r\nx", "address": "10.0.0.2"},
        {"host": "NAS", "address": "10.0.0.2"},
        {"port": 0},
        {"port": 65_536},
    ],
)
def test_an_endpoint_that_does_not_hold_together_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        endpoint(**changes)


def test_an_account_has_one_mail_server_of_each_kind_and_a_name_to_sign_in_with() -> None:
    password = CredentialRef(kind="password", ref_id="conn_1/password", username="me@example.org")
    token = CredentialRef(kind="bearer", ref_id="conn_1/token")
    both = (endpoint(), endpoint(host="other.example.org"))
    BrokeredAccount(connection_id="conn_1", endpoints=both[:1], tier=Tier.ACT, credential=password)
    for wrong in (
        {"endpoints": both, "credential": password},
        {"endpoints": (endpoint(), endpoint()), "credential": password},
        {"endpoints": (), "credential": password},
        {"endpoints": both[:1], "credential": token},
    ):
        with pytest.raises(ValidationError):
            BrokeredAccount(connection_id="conn_1", tier=Tier.ACT, **wrong)
    with pytest.raises(ValidationError, match="user name"):
        CredentialRef(kind="password", ref_id="conn_1/password")
    with pytest.raises(ValidationError):
        CredentialRef(kind="oauth", ref_id="conn_1/oauth")


def test_an_authorization_server_is_encrypted_or_where_the_owner_signed_it() -> None:
    OAuthServer(issuer="https://a.example", token_endpoint="https://b.example/token")
    signed = {"issuer": "http://localhost:4000", "address": "127.0.0.1"}
    OAuthServer(token_endpoint="http://localhost:4000/token", **signed)
    for server in (
        {"issuer": "https://a.example", "token_endpoint": "http://a.example/token"},
        {"issuer": "https://a.example", "token_endpoint": "https://me@a.example/token"},
        {"issuer": "https://a.example", "token_endpoint": "https://127.0.0.1/token"},
        {"issuer": "https://a.example", "token_endpoint": "https://a.example/#b"},
        {"token_endpoint": "http://localhost:4001/token", **signed},
        {"token_endpoint": "https://b.example/token", **signed},
    ):
        with pytest.raises(ValidationError):
            OAuthServer(**server)


def test_what_is_in_no_table_counts_as_act() -> None:
    assert tier_of_method("http", "GET") is Tier.OBSERVE
    assert tier_of_method("http", "REPORT") is Tier.ACT
    assert tier_of_method("caldav", "REPORT") is Tier.OBSERVE
    for method in ("POST", "PUT", "PATCH", "DELETE", "QUERY", "OPTIONS", "get"):
        assert tier_of_method("caldav", method) is Tier.ACT
    assert tier_of_method("http", "TRACE") is None
    assert tier_of_command("EXAMINE") is Tier.OBSERVE
    assert tier_of_command("APPEND") is Tier.DRAFT
    for command in ("SELECT", "STORE", "MOVE", "EXPUNGE", "CLOSE", "XUNHEARDOF"):
        assert tier_of_command(command) is Tier.ACT
    assert tier_of_command("DELETE") is Tier.MANAGE
    for command in ("LOGIN", "AUTHENTICATE", "STARTTLS", "COMPRESS", "UNAUTHENTICATE"):
        assert tier_of_command(command) is None


def test_a_path_holds_what_lies_below_it_only_if_it_ends_like_a_folder() -> None:
    below = AllowedRequest(method="GET", path="/repos/")
    exact = AllowedRequest(method="GET", path="/notifications")
    assert below.holds("GET", "/repos/a/b")
    assert not below.holds("GET", "/repos")
    assert not below.holds("POST", "/repos/a/b")
    assert exact.holds("GET", "/notifications")
    assert not exact.holds("GET", "/notifications/threads")


def test_a_part_in_braces_holds_one_part_whatever_it_is() -> None:
    comments = AllowedRequest(method="POST", path="/repos/{owner}/{repository}/issues/{n}/comments")
    assert comments.holds("POST", "/repos/octo/app/issues/7/comments")
    for path in (
        "/repos/octo/app/issues/7",
        "/repos/octo/app/issues/7/comments/9",
        "/repos/octo/app/pulls/7/comments",
        "/repos/octo//issues/7/comments",
        "/repos/octo/app/issues/7/comments/",
    ):
        assert not comments.holds("POST", path)
    below = AllowedRequest(method="GET", path="/repos/{owner}/")
    assert below.holds("GET", "/repos/octo/app/issues")
    assert not below.holds("GET", "/repos/octo")
