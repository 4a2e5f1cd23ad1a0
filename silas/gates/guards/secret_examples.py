"""Examples for every secret format of the kernel: made up, of the right form, never valid.

They are put together from pieces, so that scanners of source code do not take them for leaks.
"""

_LETTERS = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"
_HEX = "0123456789abcdef0123456789abcdef"
_CAPITALS = "ABCDEFGHIJKLMNOP"
_BEGIN, _END = "-----BEGIN {} KEY-----", "-----END {} KEY-----"
_PEM = f"{_BEGIN}\nMIIBOgIBAAJBAKj34GkxFhD90vcNLYLInFEX6Ppy1tPf9Cnzj4p4WGeKLs1Pt8Q\n{_END}"

SECRET_EXAMPLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "private key": (
        (_PEM.format("RSA PRIVATE", "RSA PRIVATE"), _BEGIN.format("PRIVATE") + "\nabc"),
        (_PEM.format("PUBLIC", "PUBLIC"), "keep your private key private"),
    ),
    "private key file of PuTTY": (
        ("Private-Lines: 8\nAAAAgQCh",),
        ("Public-Lines: 8\nAAAAgQCh",),
    ),
    "openssh private key": (("b3BlbnNzaC1rZXktdjE" + "AAAABG5vbmU",), ("AAAAC3NzaC1lZDI1NTE5",)),
    "age key": (("AGE-SECRET-KEY-1" + _CAPITALS * 2,), ("age1" + "q" * 40,)),
    "model provider key": (
        ("sk-" + _LETTERS, "key sk-ant-api03-" + _LETTERS),
        ("task-" + "a" * 30, "sk-short"),
    ),
    "model provider key, other prefixes": (("xai-" + _LETTERS, "nvapi-" + _LETTERS), ("xai-mini",)),
    "model provider key, prefixes with a low line": (("gsk_" + _LETTERS,), ("tgsk_" + _LETTERS,)),
    "aws access key": (("AKIA" + _CAPITALS,), ("AKIA" + _CAPITALS + "QR", "akia")),
    "github token": (("ghp_" + _LETTERS,), ("ghp_short",)),
    "github fine-grained token": (("github_pat_" + _LETTERS,), ("github_pat_x",)),
    "gitlab token": (("glpat-" + _LETTERS,), ("glpat-x", "single-page-application-template")),
    "slack token": (("xoxb-" + "1234567890-abcdef",), ("xox-ray",)),
    "webhook address": (
        ("https://hooks.slack.com/services/" + "T0000/B0000/XXXXXXXX",),
        ("https://hooks.slack.com/docs",),
    ),
    "stripe key": (("sk_live_" + _LETTERS,), ("sk_live_x",)),
    "google key": (("AIza" + _LETTERS[:35],), ("AIzawa",)),
    "google oauth secret": (("GOCSPX-" + _LETTERS,), ("GOCSPX-x",)),
    "google access token": (("ya29." + _LETTERS,), ("ya29.",)),
    "google refresh token": (("1//0" + _LETTERS,), ("1//0",)),
    "telegram bot token": (("123456789:AA" + _LETTERS[:33],), ("12:AA",)),
    "sendgrid key": (("SG." + _LETTERS + "." + _LETTERS,), ("SG.1 and SG.2",)),
    "tavily key": (("tvly-" + _LETTERS,), ("tvly-x",)),
    "npm token": (("npm_" + _LETTERS[:36],), ("npm_config",)),
    "package index token": (("pypi-Ag" + _LETTERS,), ("pypi-Again",)),
    "hugging face token": (("hf_" + _LETTERS,), ("hf_hub",)),
    "service token": (("shpat_" + _HEX, "lin_api_" + _LETTERS), ("lin_api_key",)),
    "hashicorp vault token": (("hvs." + _LETTERS,), ("hvs.x",)),
    "atlassian token": (("ATATT3" + _LETTERS,), ("ATATT3",)),
    "databricks token": (("dapi" + _HEX,), ("dapi", "dapinator")),
    "json web token": (
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0." + _LETTERS,),
        ("eyJhbGciOiJIUzI1NiJ9",),
    ),
    "authorization header": (
        ("Authorization: Token " + _LETTERS, "Cookie: session=" + _HEX),
        ("Authorization: none", "Cookie: a pleasant snack"),
    ),
    "bearer token": (("Bearer " + _LETTERS,), ("bearer of good news", "basic instructions")),
    "credentials in a URL": (
        ("postgres://anna:s3cret@db.example.com/x",),
        ("http://localhost:8080/path", "https://example.com/@anna"),
    ),
    "token in a URL": (("https://" + _LETTERS + "@github.com/x",), ("https://anna@example.com",)),
    "assignment": (
        ("password=hunter22", 'api_key = "9f8e7d6c5b4a"'),
        ("password=None", "token = next(lexer)", "secret=..."),
    ),
    "assignment with a colon": (
        ("Password: hunter22", '"client_secret": "9f8e7d6c5b4a"'),
        ("password: str", "token: the next token", "Secrets: see below"),
    ),
    "command line option": (
        ("mysql --password hunter22",),
        ("curl --token TOKEN", "--password is asked for", "--api-key <key>"),
    ),
}
