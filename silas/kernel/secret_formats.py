"""How secrets are written: the formats that give one away wherever it stands.

1. Each pattern is anchored on a literal (its hints), and repeats over one class of characters at a
   time, so that it runs in linear time on any text.
2. The left edge of a pattern is no word boundary where it can be helped: tokens stand behind
   `bot`, `_` and `/` as well.
3. Groups named `keep` and `after` hold what stays to tell the reader what was there: `password=`.
"""

import re
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class SecretFormat:
    """One way a secret is written. Without its sign and one of its hints, it cannot be there."""

    name: str
    sign: str
    """A single character that is quickly looked for; empty if there is none."""
    hints: tuple[str, ...]
    """Small-letter literals of which the text, in small letters, holds at least one."""
    expression: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled when a text holds a hint: most commands meet none, and start sooner."""
        return re.compile(self.expression)


def _format(name: str, sign: str, hints: str, expression: str) -> SecretFormat:
    return SecretFormat(name, sign, tuple(hints.lower().split()), expression)


_NOT_IN_A_WORD = r"(?<![A-Za-z0-9])"
# Between a name and its value: the end of a quoted name, then a sign.
_ASSIGNS = r"(?:\\{0,3}[\"'])?[ \t]{0,8}(?:=>|[:=]{1,2})[ \t]{0,8}"
# A value in quotes, in escaped quotes (JSON inside a JSON text), or up to the next separator.
_VALUE = (
    r"(?:(?P<quote>[\"'`])(?:\\.|(?!(?P=quote))[^\\\r\n])*+"
    r"|(?P<escaped>\\[\"'`])(?:\\{3}[\"'`]|(?!(?P=escaped))[^\r\n])*+"
    r"|[^\s,;&]++)"
)
_LONG_NAMES = (
    r"pass(?:word|phrase|wd|code)s?|secrets?|api[_-]?keys?|token|credentials?"
    r"|(?:access|private|signing|encryption|account|master|shared|secret)[_-]?key"
)
_SHORT_NAMES = r"(?<![a-z])(?:pass|pwd|otp|pin|auth|sig|jwt)"
_NAME_HINTS = "pass pwd secret key token credential otp pin auth sig jwt"
_ASSIGNMENT = rf"(?i)(?P<keep>(?:{_LONG_NAMES}|{_SHORT_NAMES}){_ASSIGNS}){_VALUE}"

_PRIVATE_KEY = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?"

SECRET_FORMATS: tuple[SecretFormat, ...] = (
    # Whole blocks come first: a later pattern could take away the line that they begin with.
    _format(
        "private key",
        "-",
        "PRIVATE",
        rf"(?s)-{{4,5}} ?BEGIN {_PRIVATE_KEY} ?-{{4,5}}"
        # Up to the line that ends it, or to the end of the text.
        rf"(?:[^-]++|-(?!-{{3,4}} ?END {_PRIVATE_KEY} ?-{{4}}))*+"
        rf"(?:-{{4,5}} ?END {_PRIVATE_KEY} ?-{{4,5}}|\Z)",
    ),
    _format("private key file of PuTTY", "-", "Private-Lines", r"(?s)Private-Lines: .*"),
    _format(
        "openssh private key", "", "b3BlbnNzaC1rZXktdjE", r"b3BlbnNzaC1rZXktdjE[A-Za-z0-9+/=\s]*+"
    ),
    _format("age key", "-", "AGE-SECRET-KEY-", r"AGE-SECRET-KEY-1[A-Z0-9]{20,}+"),
    _format(
        "model provider key",
        "-",
        "sk-",
        rf"(?:{_NOT_IN_A_WORD}sk-|sk-(?:ant-api|proj|or-v1|svcacct))[A-Za-z0-9_-]{{20,}}+",
    ),
    _format(
        "model provider key, other prefixes",
        "-",
        "xai- pplx- csk- nvapi-",
        _NOT_IN_A_WORD + r"(?:xai|pplx|csk|nvapi)-[A-Za-z0-9_-]{20,}+",
    ),
    _format(
        "model provider key, prefixes with a low line",
        "_",
        "gsk_ r8_",
        _NOT_IN_A_WORD + r"(?:gsk|r8)_[A-Za-z0-9_-]{20,}+",
    ),
    _format("aws access key", "", "AKIA ASIA", r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])"),
    _format("github token", "_", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{30,}+"),
    _format("github fine-grained token", "_", "github_pat_", r"github_pat_[A-Za-z0-9_]{30,}+"),
    _format("gitlab token", "-", "gl", r"gl(?:pat|dt|rt|cbt|ptt|ft)-[A-Za-z0-9_.-]{20,}+"),
    _format("slack token", "-", "xox xapp-", r"(?:xox[abceoprs]|xapp)-[A-Za-z0-9-]{10,}+"),
    _format(
        "webhook address",
        "/",
        "hooks.slack.com/ /api/webhooks/",
        r"(?P<keep>hooks\.slack\.com/(?:services|workflows)/|/api/webhooks/)[A-Za-z0-9/_-]{8,}+",
    ),
    _format(
        "stripe key", "_", "k_live_ k_test_ whsec_", r"(?:[prs]k_(?:live|test)|whsec)_\w{16,}+"
    ),
    _format("google key", "", "AIza", r"AIza[A-Za-z0-9_-]{35}"),
    _format("google oauth secret", "-", "GOCSPX-", r"GOCSPX-[A-Za-z0-9_-]{20,}+"),
    _format("google access token", ".", "ya29.", r"ya29\.[A-Za-z0-9_.-]{20,}+"),
    _format("google refresh token", "/", "1/0 1//0", r"1//?0[A-Za-z0-9_-]{30,}+"),
    _format("telegram bot token", ":", ":AA", r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"),
    _format("sendgrid key", ".", "SG.", r"SG\.[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}+"),
    _format("tavily key", "-", "tvly-", r"tvly-[A-Za-z0-9_-]{16,}+"),
    _format("npm token", "_", "npm_", r"npm_[A-Za-z0-9]{36}"),
    _format("package index token", "-", "pypi-Ag", r"pypi-Ag[A-Za-z0-9_-]{14,}+"),
    _format("hugging face token", "_", "hf_", r"hf_[A-Za-z0-9]{30,}+"),
    _format(
        "service token",
        "_",
        "shpat_ shpss_ shpca_ dop_v1_ lin_api_ figd_ ntn_ dckr_pat_",
        r"(?:shpat|shpss|shpca|dop_v1|lin_api|figd|ntn|dckr_pat)_[A-Za-z0-9_=-]{20,}+",
    ),
    _format("hashicorp vault token", ".", "hvs.", r"hvs\.[A-Za-z0-9_-]{20,}+"),
    _format("atlassian token", "", "ATATT3", r"ATATT3[A-Za-z0-9_=.-]{20,}+"),
    _format("databricks token", "", "dapi", r"dapi[0-9a-f]{32}"),
    _format(
        # Each piece ends where the next token could begin, so nothing is read twice.
        "json web token",
        ".",
        "eyJ",
        r"eyJ(?:(?!eyJ)[A-Za-z0-9_-])++(?:\.[A-Za-z0-9_-]*+){1,4}",
    ),
    _format(
        "authorization header",
        ":",
        "authorization cookie",
        r"(?i)(?P<keep>(?:authorization|cookie)" + _ASSIGNS + r"[\"']?)[^\r\n\"']++",
    ),
    _format(
        "bearer token",
        " ",
        "bearer basic",
        rf"(?i)(?P<keep>{_NOT_IN_A_WORD}(?:bearer|basic)\s{{1,4}})[A-Za-z0-9._~+/=-]{{8,}}+",
    ),
    _format(
        # The password may hold `@` and `/`; a port number followed by a path is no password. One
        # slash is enough, because a URL that was taken for a path has lost the other.
        "credentials in a URL",
        "@",
        ":/",
        r"(?P<keep>:/{1,2})[^\s/:@\"'<>]*+:(?!\d{0,5}(?:[/?#\s\"'<>]|$))"
        r"(?:(?:[^\s\"'<>@:]++|:(?!/))*+(?P<after>@))++",
    ),
    _format("token in a URL", "@", ":/", r"(?P<keep>:/{1,2})[A-Za-z0-9_.~%-]{16,}+(?=@)"),
    _format("assignment", "=", _NAME_HINTS, _ASSIGNMENT),
    _format("assignment with a colon", ":", _NAME_HINTS, _ASSIGNMENT),
    _format(
        "command line option",
        "-",
        "--",
        r"(?i)(?P<keep>--(?!-)(?:[a-z0-9]{1,20}-){0,4}"
        rf"(?:{_LONG_NAMES}|otp|pin)\s{{1,4}})(?!--)\S++",
    ),
)
