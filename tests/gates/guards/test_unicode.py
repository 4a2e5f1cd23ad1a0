"""The guard `unicode`: what hides or deceives goes; what languages and emoji need stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.gates.guards import GuardDecision, built_in_guards

GUARDS = built_in_guards()
LANGUAGES = (
    "Grüße aus Wien – “Zitat” … 10 €",
    "Здравствуйте, как дела? IT-компания",
    "中文文本，包括標點。 葛\U000e0100",
    "日本語のテキスト、カタカナ",
    "한국어 문장입니다",
    "मैं हिंदी में लिख रहा हूँ क्\u200dष",
    "العربية تُكتب من اليمين إلى اليسار",
    "می\u200cخواهم به خانه بروم",
    "עברית (test)\u200e נכון!\u200f שָׁלוֹם",
    "ไทย\u200bไทย ភាសា\u200bខ្មែរ",
    "Tiếng Việt rất đẹp, e\u0302\u0323",
    "Ελληνικά, α, β, γ, λ-calculus, σ²=4 Ωm",
    "ő ű ł ż ğ ş ı İ ø ß",
    "co\u00adoperate",
    "ⓒ Ⅳ ½ ℃ № µm",
    "\ufefffirst line",
    "tab\tand\r\nnewline",
)
EMOJI = (
    "👨\u200d👩\u200d👧\u200d👦",
    "🏳\ufe0f\u200d🌈",
    "👍🏽",
    "🇦🇹",
    "1\ufe0f\u20e3#\ufe0f\u20e3",
    "❤\ufe0f\u200d🔥",
    "☎\ufe0e",
    "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
)


@pytest.mark.parametrize("text", LANGUAGES + EMOJI)
def test_languages_and_emoji_pass(text: str) -> None:
    verdict = GUARDS.check("unicode", text)
    assert verdict.decision is GuardDecision.PASS, verdict.findings


@pytest.mark.parametrize(
    ("text", "mended", "rule"),
    [
        ("ig\u200bno\u200bre", "ignore", "zero-width"),
        ("a\u2060b\u2064c", "abc", "zero-width"),
        ("a\u200eb", "ab", "zero-width"),
        ("\u3164x", "x", "zero-width"),
        ("file\u202etxt.exe", "filetxt.exe", "bidi-override"),
        ("\u2066a\u2069", "a", "bidi-override"),
        ("hi\U000e0068\U000e0069 there", "hi there", "tag-character"),
        ("😀" + "\U000e0141\U000e0142", "😀", "stray-selector"),
        ("a\ufe01b", "ab", "stray-selector"),
        ("a\x1b[31mred", "a[31mred", "control-character"),
        ("a\x00b\ud800", "ab", "control-character"),
        ("pаypаl", "paypal", "lookalike"),
        ("МiсrоSоft", "MicroSoft", "lookalike"),
        ("z" + "\u0300" * 30, "z" + "\u0300" * 5, "stacked-marks"),
    ],
)
def test_the_rest_is_mended(text: str, mended: str, rule: str) -> None:
    verdict = GUARDS.check("unicode", text)
    assert rule in [finding.rule for finding in verdict.findings]
    assert verdict.fixed_text == mended


def test_a_flag_next_to_hidden_tags() -> None:
    flag = EMOJI[-1]
    verdict = GUARDS.check("unicode", f"{flag}\U000e0041 and {flag}")
    assert verdict.fixed_text == f"{flag} and {flag}"
    assert verdict.findings[0].start == len(flag)


@given(
    st.text()
    | st.text(alphabet="aZаοр\u200b\u200d\ufe0f\u202e\U000e0041\u0301❤1\u20e3א\u200f葛\U000e0100 ")
)
def test_what_is_mended_passes(text: str) -> None:
    verdict = GUARDS.check("unicode", text)
    if verdict.decision is GuardDecision.FIX:
        assert verdict.fixed_text is not None
        assert GUARDS.check("unicode", verdict.fixed_text).decision is GuardDecision.PASS


@given(st.text(alphabet=st.characters(codec="ascii", exclude_categories=["Cc"])))
def test_printable_ascii_always_passes(text: str) -> None:
    assert GUARDS.check("unicode", text).decision is GuardDecision.PASS


def test_a_text_full_of_lookalikes_is_stopped() -> None:
    assert GUARDS.check("unicode", "pаypal " * 5000).decision is GuardDecision.BLOCK
