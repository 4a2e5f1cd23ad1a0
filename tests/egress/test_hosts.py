"""How hosts are written, and which addresses are public."""

import pytest
from pydantic import TypeAdapter, ValidationError

from silas.egress import Hosts, in_words
from silas.egress.hosts import (
    EgressRefused,
    HostAndPort,
    ListedHost,
    is_public,
    parse_authority,
    require_listed,
    require_public,
)

HOSTS = TypeAdapter(Hosts)


def test_a_plan_lists_names_and_perhaps_ports() -> None:
    listed = HOSTS.validate_python(["pypi.org", "example.org:8443", "xn--bcher-kva.example"])
    assert listed == ("pypi.org", "example.org:8443", "xn--bcher-kva.example")
    assert in_words(listed[:1]) == "reaches pypi.org, and nothing else"
    assert in_words(()) == "none"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (
            "nas.home.arpa:3000@192.168.1.20",
            "nas.home.arpa:3000 at 192.168.1.20 (your own network)",
        ),
        ("git.example.org:443@fd12::5", "git.example.org:443 at fd12::5 (your own network)"),
        (
            "mail.localhost.test:1143@127.0.0.1",
            "mail.localhost.test:1143 at 127.0.0.1 (this machine)",
        ),
        ("a.test:80@::1", "a.test:80 at ::1 (this machine)"),
    ],
)
def test_a_service_at_home_is_listed_with_port_and_address(entry: str, words: str) -> None:
    assert HOSTS.validate_python([entry]) == (entry,)
    assert in_words([entry]) == f"reaches {words}, and nothing else"
    listed = ListedHost.parse(entry)
    wanted = HostAndPort(listed.name, listed.port or 0)
    assert require_listed([entry], wanted, usual_port=443) == listed
    with pytest.raises(EgressRefused):
        require_listed([entry], HostAndPort(listed.name, 8), usual_port=8)


@pytest.mark.parametrize(
    "place",
    [
        *("nas.home.arpa@192.168.1.20", "nas.home.arpa:3000@", "192.168.1.20:80@192.168.1.20"),
        *("a.test:80@169.254.169.254", "a.test:80@fe80::1", "a.test:80@fd00:ec2::254"),
        *("a.test:80@100.100.100.200", "a.test:80@0.0.0.0", "a.test:80@224.0.0.1", "a.test:80@::"),
        *("a.test:80@93.184.216.34", "a.test:80@::ffff:127.0.0.1", "a.test:80@2130706433"),
        *("a.test:80@127.1", "a.test:80@0127.0.0.1", "a.test:80@fd12::5%eth0", "a.test:80@FD12::5"),
        *("a.test:80@192.168.1.0/24", "a.test:80@nas", "a.test:80@127.0.0.1@127.0.0.1"),
        *("a.test:80@127.0.0.1:81", "a.test:80@[::1]", "a.test:80@ 127.0.0.1", "me@a.test:80"),
    ],
)
def test_an_address_that_nobody_could_mean_is_not_listed(place: str) -> None:
    with pytest.raises(ValidationError):
        HOSTS.validate_python([place])


@pytest.mark.parametrize("none", [None, False, [], ()])
def test_nothing_means_no_host(none: object) -> None:
    assert HOSTS.validate_python(none) == ()


def test_the_whole_network_cannot_be_asked_for() -> None:
    for whole in (True, "pypi.org"):
        with pytest.raises(ValidationError, match="must be a list of hosts"):
            HOSTS.validate_python(whole)


@pytest.mark.parametrize(
    "trick",
    [
        *("*", "*.org", "localhost", "PyPI.org", "pypi.org.", ".pypi.org", "pypi..org", ""),
        *("127.0.0.1", "127.1", "2130706433", "0x7f.1", "0x7f000001", "[::1]", "::1"),
        *("93.184.216.34", "https://pypi.org", "pypi.org/simple", "user@pypi.org"),
        *("pypi.org:0", "pypi.org:65536", "pypi.org:", "pypi.org:80:80", "pypi.org:08"),
        *("bücher.example", "pypi.org\n", "pypi.org\0.evil.org", "pypi.org evil.org"),
        *("pypi。org", "-a.org", "a-.org", "a_b.org", f"{'a' * 64}.org"),
        *(
            f"{'a.' * 130}org",
            "pypi.o\u0433g",
            "pypi.org:\uff18\uff10",
            "pypi.org#",
            "pypi.org%2eevil",
        ),
    ],
)
def test_what_is_no_plain_name_is_refused(trick: str) -> None:
    with pytest.raises(ValidationError):
        HOSTS.validate_python([trick])
    if not trick.isascii() or trick.lower() == trick:
        with pytest.raises(EgressRefused):
            parse_authority(trick)


def test_the_same_host_is_listed_once() -> None:
    with pytest.raises(ValidationError, match="twice"):
        HOSTS.validate_python(["pypi.org", "pypi.org"])


def test_a_request_is_compared_without_case_and_with_its_port() -> None:
    wanted = parse_authority("PyPI.ORG:443")
    require_listed(["pypi.org"], wanted, usual_port=443)
    for hosts in ([], ["files.pypi.org"], ["org"], ["pypi.org:8443"]):
        with pytest.raises(EgressRefused):
            require_listed(hosts, wanted, usual_port=443)
    for port in (80, 22, 8443):
        with pytest.raises(EgressRefused):
            require_listed(["pypi.org"], parse_authority(f"pypi.org:{port}"), usual_port=443)
    require_listed(["pypi.org:8443"], parse_authority("pypi.org:8443"), usual_port=443)


@pytest.mark.parametrize("address", ["93.184.216.34", "1.1.1.1", "2606:4700:4700::1111"])
def test_public_addresses(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.1.2.3", "172.16.0.1"),
        *("172.31.255.255", "192.168.1.1", "169.254.169.254", "169.254.0.1", "100.64.0.1"),
        *("100.100.100.200", "168.63.129.16", "192.0.0.192", "198.18.0.1", "224.0.0.1"),
        *("239.255.255.250", "255.255.255.255", "240.0.0.1", "192.0.2.1", "203.0.113.9"),
        *("::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:1.1.1.1"),
        *("fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1"),
        *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::1"),
        *("2002:a9fe:a9fe::1", "2001::1", "2001:0:7f00:1::", "2001:db8::1", "3fff::1", "100::1"),
        *("2606:4700::1%1", "localhost", "", "0x7f.1", "1.1.1.1.", " 1.1.1.1", "1.1.1"),
    ],
)
def test_every_other_address_is_refused(address: str) -> None:
    assert not is_public(address)
    with pytest.raises(EgressRefused):
        require_public(["1.1.1.1", address])


def test_a_host_without_an_address_is_refused() -> None:
    with pytest.raises(EgressRefused):
        require_public([])
