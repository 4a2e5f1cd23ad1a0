"""What commands give away: shell, PowerShell and JavaScript, in scripts and in code that is shown.

1. Nothing is executed. Each rule is an expression over text that repeats over bounded runs.
2. A rule is `danger` only if hardly anything honest looks like it. What honest skills do as well
   (an installer of a known project, an API call with a key, a cron entry) is `warn` or `info`.
3. Where an address decides, its class does: addresses without a name, sites where anybody pastes
   text, collectors of requests, tunnels and shorteners are `hidden`; known projects are `known`; a
   host that the rest of the skill is about is `related`; all others are `unknown`.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from urllib.parse import urlsplit

from silas.kernel.models import Data
from silas.kernel.redaction import SECRET_FORMATS


class FindingWeight(StrEnum):
    """How much a finding weighs; any `danger` flags the skill."""

    INFO = "info"
    WARN = "warn"
    DANGER = "danger"


class SkillFinding(Data):
    """One thing that somebody should know before they trust a skill."""

    file: str
    line: int
    rule: str
    weight: FindingWeight
    message: str


class TextFinding(Data):
    """A finding in one text, by the place where it begins."""

    start: int
    rule: str
    weight: FindingWeight
    message: str


@dataclass(frozen=True)
class LineFinding:
    """A finding in a script, by its line."""

    line: int
    rule: str
    weight: FindingWeight
    message: str


INFO, WARN, DANGER = FindingWeight


# Addresses


class HostClass(IntEnum):
    """How much an address tells about who is behind it; the higher, the less."""

    KNOWN = 0
    RELATED = 1
    UNKNOWN = 2
    HIDDEN = 3


def set_of_words(text: str) -> frozenset[str]:
    """The words of a list that is written as one text."""
    return frozenset(text.split())


_KNOWN = set_of_words(
    "bun.sh deno.land deno.com astral.sh sh.rustup.rs rustup.rs get.docker.com docker.com"
    " install.python-poetry.org python-poetry.org pypa.io pypi.org pythonhosted.org python.org"
    " npmjs.org npmjs.com registry.npmjs.org yarnpkg.com pnpm.io get.pnpm.io nodejs.org volta.sh"
    " get.volta.sh fnm.vercel.app nixos.org determinate.systems install.determinate.systems brew.sh"
    " get.sdkman.io sdkman.io get.helm.sh k8s.io dl.k8s.io get.k3s.io k3d.io kubernetes.io"
    " cli.github.com github.blog gitlab.com starship.rs ohmyz.sh ollama.com ollama.ai fly.io"
    " vercel.com netlify.com heroku.com cli-assets.heroku.com supabase.com railway.app"
    " sentry.io cursor.com claude.ai anthropic.com openai.com openclaw.ai clawhub.ai clawd.bot"
    " tailscale.com cloudflare.com amazonaws.com awscli.amazonaws.com aws.amazon.com google.com"
    " googleapis.com sdk.cloud.google.com dl.google.com microsoft.com aka.ms azure.com"
    " packages.microsoft.com apple.com hashicorp.com releases.hashicorp.com pulumi.com"
    " get.pulumi.com terraform.io mozilla.org debian.org ubuntu.com get.scoop.sh scoop.sh"
    " chocolatey.org community.chocolatey.org foundry.paradigm.xyz solana.com release.solana.com"
    " anza.xyz release.anza.xyz sourcegraph.com semgrep.dev grafana.com elastic.co stripe.com"
    " twilio.com shopify.dev modal.com huggingface.co conda.io anaconda.com repo.anaconda.com"
    " julialang.org install.julialang.org haskell.org get-ghcup.haskell.org opam.ocaml.org"
    " raw.githubusercontent.com/homebrew raw.githubusercontent.com/nvm-sh"
    " raw.githubusercontent.com/ohmyzsh raw.githubusercontent.com/helm"
    " raw.githubusercontent.com/golangci raw.githubusercontent.com/anchore"
    " raw.githubusercontent.com/aquasecurity raw.githubusercontent.com/rhysd"
    " raw.githubusercontent.com/pyenv raw.githubusercontent.com/asdf-vm"
    " raw.githubusercontent.com/microsoft raw.githubusercontent.com/google"
    " raw.githubusercontent.com/anthropics raw.githubusercontent.com/openai"
    " raw.githubusercontent.com/astral-sh raw.githubusercontent.com/kubernetes"
    " raw.githubusercontent.com/k3d-io raw.githubusercontent.com/docker"
    " raw.githubusercontent.com/technosophos raw.githubusercontent.com/creationix"
    " github.com/yt-dlp github.com/docker github.com/microsoft github.com/google"
    " github.com/openclaw github.com/steipete github.com/anthropics github.com/cli"
    " github.com/astral-sh github.com/sharkdp github.com/burntsushi github.com/jqlang"
)
_PASTES = set_of_words(
    "pastebin.com glot.io rentry.co rentry.org hastebin.com paste.ee dpaste.com dpaste.org"
    " ghostbin.com termbin.com ix.io 0x0.st transfer.sh file.io anonfiles.com catbox.moe"
    " files.catbox.moe gofile.io bashupload.com paste.rs sprunge.us controlc.com justpaste.it"
    " privatebin.net telegra.ph cl1p.net paste.debian.net zerobin.net toptal.com/developers/hastebin"
    " cdn.discordapp.com media.discordapp.net mediafire.com mega.nz anonymfile.com pixeldrain.com"
    " temp.sh uguu.se oshi.at workupload.com sendspace.com tmpfiles.org pastecode.io snippet.host"
    " codepad.org ideone.com gist.githubusercontent.com"
)
_COLLECTORS = set_of_words(
    "webhook.site requestbin.com requestbin.net pipedream.net m.pipedream.net requestcatcher.com"
    " beeceptor.com oast.fun oast.pro oast.live oast.site oast.online oast.me interact.sh"
    " interactsh.com burpcollaborator.net oastify.com dnslog.cn ceye.io hookbin.com postb.in"
    " webhook-test.com requestinspector.com mockbin.org canarytokens.com dnsbin.zhack.ca"
)
_TUNNELS = set_of_words(
    "ngrok.io ngrok.app ngrok-free.app ngrok.dev trycloudflare.com serveo.net loca.lt"
    " localtunnel.me localhost.run lhr.life bore.pub pagekite.me portmap.io onion duckdns.org"
    " no-ip.org ddns.net hopto.org zapto.org sytes.net"
)
_SHORTENERS = set_of_words(
    "bit.ly tinyurl.com t.co is.gd cutt.ly goo.gl rb.gy shorturl.at ow.ly tiny.cc v.gd s.id t.ly"
)
_HIDDEN = _PASTES | _COLLECTORS | _TUNNELS | _SHORTENERS
_ODD_ENDINGS = set_of_words(
    "xyz top tk ml ga cf gq click zip mov su onion buzz rest icu cyou monster quest cam"
    " lol bid loan download party stream gdn racing"
)
_WELL_KNOWN_SHARED = set_of_words(
    "github.com raw.githubusercontent.com gitlab.com bitbucket.org githubusercontent.com"
    " objects.githubusercontent.com storage.googleapis.com s3.amazonaws.com vercel.app netlify.app"
    " pages.dev workers.dev herokuapp.com onrender.com r2.dev github.io web.app firebaseapp.com"
)
_LOCAL = re.compile(
    r"(?:localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|\[?::1\]?|10\.\d+\.\d+\.\d+|192\.168\.\d+\.\d+"
    r"|172\.(?:1[6-9]|2\d|3[01])\.\d+\.\d+|host\.docker\.internal|[a-z0-9-]+\.local)"
)
_ADDRESS = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}|0x[0-9a-f]{8}|\d{8,10}|\[[0-9a-f:]+\]")
# A login that a variable gives is the owner's; any other may hide what the host is.
_OWN_LOGIN = re.compile(
    r"(?:\$|<|%|\[|__token__|oauth2|x-access-token|x-token-auth|user(?:name)?:)", re.IGNORECASE
)
URL = re.compile(r"(?:https?|ftps?|wss?)://[^\s\"'`<>|;()\\{}]{3,400}", re.IGNORECASE)
DEFANGED = re.compile(r"hxxps?://|\[\.\]")


@dataclass(frozen=True)
class SkillScope:
    """What the rest of a skill says about which hosts belong to it."""

    words: Set[str] = frozenset()
    """Of its name and of its author."""
    hosts: Set[str] = frozenset()
    """That it links to elsewhere, by their main domains."""
    about: str = ""
    """Its name and description."""

    def is_about(self, host: str) -> bool:
        """Whether the host is one that the skill is about."""
        main = main_domain(host)
        # Nothing less than the whole name: `acme-setup.example` is how one pretends to be Acme.
        return main in self.hosts or main.split(".")[0] in self.words


def main_domain(host: str) -> str:
    """The last two labels of a host; three where two are shared by everybody."""
    labels = host.lower().rstrip(".").split(".")
    shared = ".".join(labels[-2:]) in _WELL_KNOWN_SHARED or labels[-2:-1] in (["co"], ["com"])
    return ".".join(labels[-3:] if shared else labels[-2:])


def _is_listed(host: str, path: str, listed: Set[str]) -> bool:
    labels = host.split(".")
    owner = path.strip("/").split("/")[0].lower()
    endings = {".".join(labels[at:]) for at in range(len(labels))}
    return bool(endings & listed) or any(f"{each}/{owner}" in listed for each in endings)


def classify(url: str, scope: SkillScope) -> HostClass:
    """How much the address tells about who is behind it (rule 3)."""
    try:
        parts = urlsplit(url)
        host, path = (parts.hostname or "").lower(), parts.path
    except ValueError:
        return HostClass.HIDDEN
    if _LOCAL.fullmatch(host):
        return HostClass.KNOWN
    given = "@" in parts.netloc and not _OWN_LOGIN.match(parts.netloc)
    nameless = _ADDRESS.fullmatch(host) or given or host.startswith("xn--")
    if nameless or _is_listed(host, path, _HIDDEN):
        return HostClass.HIDDEN
    if _is_listed(host, path, _KNOWN):
        return HostClass.KNOWN
    if host.rpartition(".")[2] in _ODD_ENDINGS:
        return HostClass.HIDDEN
    return HostClass.RELATED if _is_about(host, path, scope) else HostClass.UNKNOWN


def _is_about(host: str, path: str, scope: SkillScope) -> bool:
    if host in _WELL_KNOWN_SHARED:
        first = path.strip("/").lower().split("/")[:2]
        return any(len(word) >= 4 and word in part for part in first for word in scope.words)
    return scope.is_about(host)


def is_strange(url: str, scope: SkillScope) -> bool:
    """Whether nobody knows who is behind the address: no known project, no place that all use."""
    found = re.match(r"https?://([^/:?#\s]+)", url, re.IGNORECASE)
    shared = found is not None and found[1].lower() in _WELL_KNOWN_SHARED
    return not shared and classify(url, scope) >= HostClass.UNKNOWN


_LITERAL_HOOK = re.compile(
    r"api\.telegram\.org/bot\d{6,12}:[\w-]{20,}|discord(?:app)?\.com/api/webhooks/\d{8,}/[\w-]{20,}"
    r"|hooks\.slack\.com/services/T\w{6,}/B\w{6,}/\w{16,}",
    re.IGNORECASE,
)


def is_somebodys_own(url: str) -> bool:
    """Whether whoever wrote the address alone gets what is sent: a bare number, a written-out hook."""
    if _LITERAL_HOOK.search(url):
        return not _PLACEHOLDER.search(url)
    try:
        host = (urlsplit(url).hostname or "").lower()
    except ValueError:
        return True
    resolvers = ("1.1.1.1", "1.0.0.1", "8.8.8.8", "8.8.4.4", "9.9.9.9")
    return bool(_ADDRESS.fullmatch(host)) and not _LOCAL.fullmatch(host) and host not in resolvers


_IMITATED = set_of_words(
    "openclaw clawhub clawdbot moltbot anthropic claude openai chatgpt codex hermes apple microsoft"
    " google github gitlab metamask phantom ledger trezor binance coinbase polymarket telegram discord"
    " homebrew docker nodejs python cloudflare aws azure"
)


def is_imitation(url: str) -> bool:
    """Whether a host uses a well-known name beside other words, and is none of its own."""
    if classify(url, SkillScope()) is HostClass.KNOWN:
        return False
    try:
        host = (urlsplit(url).hostname or "").lower()
    except ValueError:
        return True
    words = main_domain(host).split(".")[0].split("-")
    return len(words) > 1 and any(word in _IMITATED for word in words)


def is_taken_by_anybody(url: str) -> bool:
    """Whether what is sent there ends with whoever wrote the address."""
    return is_collector(url) or is_somebodys_own(url)


def is_collector(url: str) -> bool:
    """Whether requests to this address are collected for whoever asks."""
    try:
        parts = urlsplit(url)
        host, path = (parts.hostname or "").lower(), parts.path
    except ValueError:
        return True
    return _is_listed(host, path, _COLLECTORS | _TUNNELS | _PASTES)


# What is worth stealing

_HOME = r"(?:~|\$\{?HOME\}?|%USERPROFILE%|/home/[\w.-]+|/Users/[\w.-]+|/root)[/\\]{1,2}"
HARD_SECRETS = re.compile(
    r"\.ssh[/\\]+(?:id_(?:rsa|dsa|ecdsa|ed25519)\b(?!\S*\.pub)|id_\*|\*|identity\b)|\bid_(?:rsa|ed25519)\b(?!\.pub)"
    r"|\.ssh[/\\]*[\"'`\s)]"
    r"|\.git-credentials\b|\.config[/\\]gh[/\\]hosts|\.docker[/\\]config\.json"
    r"|\.aws[/\\]+credentials|\.gnupg(?:[/\\]|\b)|\.kube[/\\]+config"
    r"|/etc/shadow|\.(?:bash|zsh)_history"
    r"|Login[ \\]*Data\b|Local[ ]State\b|cookies\.sqlite|logins\.json|key4\.db|Web[ ]Data\b"
    r"|Chrome[/\\]+(?:User[ ]Data|Default)[/\\]+\S*Cookies"
    r"|login\.keychain|Keychains[/\\]|dump-keychain|find-(?:generic|internet)-password\b[^\n]{0,80}-[gw]"
    r"|wallet\.dat|nkbihfbeogaeaoehlefnkodbefgpgknn|Exodus[/\\]exodus\.wallet|Electrum[/\\]wallets"
    r"|\.electrum[/\\]|\.ethereum[/\\]keystore|\.config[/\\]solana[/\\]id\.json|\.bitcoin[/\\]"
    r"|Telegram[^\n]{0,40}tdata\b|tdata[/\\]|\.\{[\w,]{0,40}\b(?:ssh|aws|gnupg|kube)\b[\w,]{0,40}\}|discord[/\\]Local[ ]Storage|\.config[/\\]gcloud[/\\](?:credentials|access_tokens|application)",
    re.IGNORECASE,
)
SOFT_SECRETS = re.compile(
    r"(?<![\w.])\.env\b(?!\.(?:example|sample|template))|\.netrc\b|\.npmrc\b|\.pypirc\b"
    r"|\.docker[/\\]config\.json|\.git-credentials|\.(?:openclaw|clawdbot|moltbot|hermes)[/\\]\S{0,60}"
    r"(?:json|env|credentials|sessions|md)|\.claude(?:\.json|[/\\]\.credentials)|\.codex[/\\]auth"
    r"|\.config[/\\]gh[/\\]hosts|/etc/passwd|\.Renviron\b|\.pgpass\b",
    re.IGNORECASE,
)
_SURE_FORMATS = tuple(
    each
    for each in SECRET_FORMATS
    if not each.name.startswith(("assignment", "authorization", "bearer", "command", "token in"))
)
_PLACEHOLDER = re.compile(
    r"(?i)example|x{4,}|your|test|dummy|placeholder|0{6,}|1234|abcd|\.\.\.|<|replace|changeme|fake"
)


def secrets_in(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Credentials that are written out, each with the name of its format; placeholders are none."""
    small = text.lower()
    for each in _SURE_FORMATS:
        if any(hint in small for hint in each.hints):
            for found in each.pattern.finditer(text):
                if not _PLACEHOLDER.search(found[0]):
                    yield each.name, found


_MINERS = r"(?:xmrig|cpuminer|cgminer|bfgminer|t-rex|lolminer|nbminer|ethminer|ccminer|phoenixminer|teamredminer|gminer|srbminer\S*)"
_SHELL = r"(?:sudo\s+(?:-\w+\s+)*)?(?:/(?:usr/)?(?:local/)?bin/)?(?:env\s+)?(?:(?:ba|z|da|k|c|fi)?sh\b|\$\{?SHELL\b[^\s}]{0,12}\}?)"
_RUNNER = rf"(?:{_SHELL}|(?:sudo\s+)?(?:/usr/bin/)?(?:python[\d.]*|node|perl|ruby|php|osascript|bun|deno)\b)"
_FETCH = r"(?:curl|wget|fetch|aria2c|https?\s+(?:--?\w+\s+)*GET)\b"


@dataclass(frozen=True)
class CommandRule:
    """One expression, and what it means where it is found."""

    name: str
    weight: FindingWeight
    message: str
    pattern: re.Pattern[str]
    hints: tuple[str, ...]
    """One of them stands in every text that the expression finds something in, small and with
    single blanks: looking for them first is what makes a large skill bearable."""
    by_host: bool = False
    """The class of the address in it decides about the weight."""


def _rule(
    name: str,
    weight: FindingWeight,
    message: str,
    expression: str,
    *,
    hints: str,
    by_host: bool = False,
) -> CommandRule:
    pattern = re.compile(expression, re.IGNORECASE)
    return CommandRule(name, weight, message, pattern, tuple(hints.split("~")), by_host)


_FETCH_HINTS = "curl~wget~fetch~aria2c~http ~https "
_NC_HINTS = "~".join(f"{before}nc" for before in (" ", "`", ";", "&", "(", "/", "$", '"', "'"))


COMMAND_RULES: tuple[CommandRule, ...] = (
    _rule(
        "download_and_run",
        DANGER,
        "downloads a program and runs it without anybody having read it",
        rf"{_FETCH}[^\n|;]{{0,400}}\|\s*(?:tee\s+\S+\s*\|\s*)?{_RUNNER}"
        rf"|{_SHELL}\s+-c\s+[\"']?\$\(\s*{_FETCH}[^\n]{{0,400}}"
        rf"|(?:\beval|\bsource|(?<![\w)\]\"'`*!?])\.)[ \t]+[\"']?(?:\$\(|<\(|`)\s*{_FETCH}[^\n]{{0,400}}"
        rf"|{_RUNNER}\s+<\(\s*{_FETCH}[^\n]{{0,400}}"
        rf"|python[\d.]*\s+-c\s+[\"'][^\n]{{0,200}}(?:(?:urlopen|requests\.get)[^\n]{{0,200}}exec|exec\s*\([^\n]{{0,120}}(?:urlopen|\.get)\s*\()[^\n]{{0,200}}"
        r"|(?:irm|iwr|invoke-(?:webrequest|restmethod))\b[^\n]{0,300}\|\s*(?:iex|invoke-expression)\b"
        r"|\b(?:iex|invoke-expression)\b[^\n]{0,200}(?:downloadstring|irm\b|iwr\b|invoke-webrequest|invoke-restmethod)[^\n]{0,200}",
        by_host=True,
        hints=f"{_FETCH_HINTS}~python~irm~iwr~invoke-~iex",
    ),
    _rule(
        "download_and_run",
        DANGER,
        "downloads code and evaluates it",
        r"\bsource\s*\(\s*(?:url\s*\(\s*)?[\"'](?:https?|ftp)://[^\n]{3,300}|\b(?:source_url|source_gist)\s*\([^\n]{3,200}",
        by_host=True,
        hints="source",
    ),
    _rule(
        "download_then_run",
        WARN,
        "downloads a program, makes it executable and runs it",
        rf"{_FETCH}[^\n]{{0,300}}(?:&&|;|\n)(?:[^\n]{{0,200}}\n){{0,3}}?[^\n]{{0,120}}(?:chmod\s+(?:\+x|[0-7]*7[0-7]*)|(?:^|[;&|\n])[ \t]*(?:start(?:-process)?|open)\s+\S|(?:^|[\s;&|])\./\w|{_SHELL}\s+(?:/tmp/|\./))[^\n]{{0,120}}",
        by_host=True,
        hints=_FETCH_HINTS,
    ),
    _rule(
        "download_then_run",
        DANGER,
        "downloads a program and starts it",
        r"(?:DownloadFile|Start-BitsTransfer|(?:Invoke-WebRequest|iwr|curl(?:\.exe)?|wget)\b[^\n]{0,200}-OutFile)[^\n]{0,300}"
        r"(?:\n[^\n]{0,300}){0,8}?(?:Start-Process|Invoke-Item|\bsaps\b|&\s*[\"'$]|;\s*\.?[/\\]\w|\bcmd(?:\.exe)?\s+/c)[^\n]{0,200}",
        by_host=True,
        hints="downloadfile~start-bitstransfer~-outfile",
    ),
    _rule(
        "download_and_run",
        DANGER,
        "downloads code and evaluates it",
        r"(?:\bhttps?[\"')\s]{0,3}\.get|\bfetch|axios(?:\.get)?|\bgot|\brequest)\s*\(\s*[\"'`\\]{0,3}https?://[^\n]{0,300}(?:\n[^\n]{0,160}){0,10}?"
        r"\b(?:eval|new\s+Function|runInThisContext|runInNewContext|execSync|_compile)\s*\(",
        by_host=True,
        hints="eval~new function~runin~execsync~_compile",
    ),
    _rule(
        "hidden_download",
        DANGER,
        "downloads a program to a hidden place and runs it",
        rf"{_FETCH}[^\n]{{0,300}}(?:-o|-O|--output|>)\s*[\"']?(?:/tmp/\.|/var/tmp/\.|/dev/shm/|~/\.\w+/\.)[^\n]{{0,200}}(?:\n[^\n]{{0,160}}){{0,2}}?(?:chmod|nohup|{_SHELL}|open\s)",
        hints=_FETCH_HINTS,
    ),
    _rule(
        "encoded_command",
        DANGER,
        "decodes a hidden text and runs it",
        rf"base64\s+(?:-{{1,2}}d(?:ecode)?\b|-D\b)[^\n|]{{0,120}}\|\s*(?:gunzip|gzip\s+-\w+|zcat|xxd[^|\n]{{0,20}})?\s*\|?\s*{_RUNNER}"
        rf"|(?:eval|{_SHELL}\s+-c)\s+[\"']?(?:\$\(|`)[^\n]{{0,4000}}base64\s+-{{1,2}}[dD]"
        rf"|(?:xxd\s+-r\s+-p|openssl\s+(?:enc\s+)?-?base64\s+-d|tr\s+[\"']?[A-Za-z-]{{5,}}[\"']?\s+[\"']?[N-Zn-z][\w-]*)[^\n|]{{0,80}}\|\s*{_RUNNER}"
        rf"|\|\s*rev\s*\|\s*{_RUNNER}"
        rf"|{_RUNNER}\s+<<<\s*[\"']?\$\([^\n]{{0,400}}base64\s+-{{1,2}}[dD]"
        r"|\w=[\"']?\$\(\s*(?:printf|echo\s+-e)\s+[\"']?(?:\\x[0-9a-f]{2}|\\[0-7]{3}){3,}"
        r"|powershell(?:\.exe)?[^\n]{0,200}\s-e(?:nc|ncodedcommand|c)?\s+[A-Za-z0-9+/=]{20,}"
        r"|\[(?:System\.)?Convert\]::FromBase64String[^\n]{0,400}(?:iex|invoke-expression)"
        r"|(?:iex|invoke-expression)[^\n]{0,200}FromBase64String"
        r"|\b(?:eval|Function|execSync|exec|spawnSync|runInThisContext|runInNewContext)\s*\(\s*(?:atob\s*\(|Buffer\.from\s*\([^)\n]{1,4000}[\"'](?:base64|hex)[\"'])"
        r"|python[\d.]*\s+-c\s+[\"'][^\n]{0,300}(?:b64decode|fromhex|zlib\.decompress|marshal\.loads)",
        hints="base64~xxd~openssl~ tr ~|tr ~(tr ~`tr ~|rev~| rev~printf~echo -e~powershell~atob~buffer.from~b64decode~fromhex~decompress~marshal",
    ),
    _rule(
        "reverse_shell",
        DANGER,
        "opens a shell for somebody else over the network",
        r"(?:ba|z)?sh\s+-i\b[^\n]{0,80}/dev/(?:tcp|udp)/"
        r"|/dev/(?:tcp|udp)/[^\s]{3,80}\s+0(?:>&|<&)1"
        r"|exec\s+\d+<>\s*/dev/(?:tcp|udp)/[^\n]{0,200}(?:\n[^\n]{0,200}){0,3}(?:<&\d|sh\b)"
        r"|\b(?:nc|ncat|netcat)(?:\.exe|\.traditional|\.openbsd)?\s[^\n|]{0,120}(?:\s-[a-z]*[ec]\s*|--(?:sh-)?exec[= ])[\"']?(?:/\S*/)?(?:ba|z)?(?:sh|cmd|powershell)\b"
        r"|mkfifo\s[^\n]{0,200}(?:\n[^\n]{0,120})?\b(?:nc|ncat|netcat|telnet|openssl\s+s_client)\b"
        r"|socat\s[^\n]{0,200}exec:"
        r"|\bsock(?:et)?\b[^\n]{0,400}(?:\n[^\n]{0,200}){0,8}dup2\s*\([^\n]{0,200}(?:\n[^\n]{0,200}){0,6}(?:/bin/(?:ba)?sh|pty\.spawn)"
        r"|perl\s+-[Me][^\n]{0,60}Socket[^\n]{0,400}exec"
        r"|open\s*\(?\s*STDIN\s*,\s*[\"'][<>]&[^\n]{0,200}(?:\n[^\n]{0,200}){0,4}exec\b"
        r"|ruby\s+-rsocket[^\n]{0,300}(?:exec|TCPSocket)"
        r"|php\s+-r[^\n]{0,80}fsockopen"
        r"|Net\.Sockets\.TCPClient[^\n]{0,800}(?:\n[^\n]{0,300}){0,8}(?:iex|Invoke-Expression|cmd\.exe|StreamWriter)"
        r"|net\.(?:Socket|connect|createConnection)\b[^\n]{0,300}(?:\n[^\n]{0,200}){0,10}spawn\s*\(\s*[\"'`](?:/bin/)?(?:ba|z)?(?:sh|cmd)"
        r"|spawn\s*\(\s*[\"'`](?:/bin/)?(?:ba|z)?(?:sh|cmd(?:\.exe)?)[\"'`][^\n]{0,200}(?:\n[^\n]{0,200}){0,10}net\.(?:Socket|connect|createConnection)",
        hints=f"/dev/tcp~/dev/udp~ncat~netcat~{_NC_HINTS}~mkfifo~socat~sock~perl~stdin~ruby~tcpclient~net.~spawn",
    ),
    _rule(
        "steals_secrets",
        DANGER,
        "hands keys, the environment or other secrets to an address",
        r"(?:\benv\b|\bprintenv\b|\bset\b|export\s+-p)\s*(?:\|[^\n]{0,120})?\|\s*(?:base64[^\n|]{0,40}\|\s*)?(?:curl|wget|nc|ncat|netcat)\b"
        r"|(?:curl|wget|http)\b[^\n]{0,300}(?:\$\(\s*(?:env|printenv|set)\b|`(?:env|printenv)\b|/proc/(?:self|\d+|\$\$)/environ)"
        r"|(?:curl|wget)\b[^\n]{0,300}(?:(?:-T|--upload-file|--post-file[= ])\s*|@|\$\(\s*(?:cat|base64|tar)\b[^\n]{0,80})[^\n]{0,80}(?:\.ssh/|id_rsa|id_ed25519|\.aws/|\.gnupg|\.kube/config|\.netrc|wallet\.dat|/etc/shadow|\.(?:bash|zsh)_history|keychain|Login Data|\.env\b|\.openclaw|\.clawdbot)"
        r"|(?:cat|tar|zip|base64|gzip|find|grep)\b[^\n]{0,200}(?:\.ssh\b|PRIVATE.KEY|id_rsa|id_ed25519|\.aws\b|\.gnupg|\.kube/config|\.netrc|wallet\.dat|/etc/shadow|\.(?:bash|zsh)_history|keychain|Login Data|\.openclaw|\.clawdbot)[^\n]{0,200}\|\s*(?:[^\n|]{0,80}\|\s*){0,2}(?:curl|wget|nc|ncat|netcat|socat)\b"
        r"|(?:^|[;&|`\n])[ \t]*(?:dig|nslookup|host|ping)\s[^\n`]{0,120}\$\([^\n]{1,200}\)\S{0,40}\.[a-z]{2,}"
        r"|toJSON\s*\(\s*secrets\s*\)[^\n]{0,300}(?:\n[^\n]{0,200}){0,6}?\b(?:curl|wget|nc|Invoke-\w+)\b"
        r"|JSON\.stringify\s*\(\s*process\.env\b[^\n]{0,300}(?:\n[^\n]{0,200}){0,12}(?:fetch|axios|https?\.request|XMLHttpRequest)"
        r"|(?:fetch|axios\.\w+|https?\.request)\s*\([^\n]{0,300}(?:\n[^\n]{0,200}){0,12}JSON\.stringify\s*\(\s*(?:\{[^}\n]{0,80})?(?:\.\.\.)?process\.env\b(?!\.|\[)",
        hints=f"curl~wget~ncat~netcat~socat~{_NC_HINTS}~http ~dig ~nslookup~host ~ping ~tojson~process.env",
    ),
    _rule(
        "installs_itself",
        DANGER,
        "makes itself start again, with something from the network or a hidden place",
        r"(?:curl|wget)\b[^\n]{0,200}authorized_keys|\bssh\s[^\n]{0,200}-\w*R\s*\S{0,40}:(?:localhost|127\.0\.0\.1):22\b"
        r"|crontab\b[^\n]{0,200}(?:curl|wget|base64|/tmp/|/dev/tcp|\bnc\b)"
        r"|(?:curl|wget|base64|/tmp/\.|/dev/tcp|\bnc\s)[^\n]{0,300}\|\s*crontab\b"
        r"|(?:echo|printf|cat|tee)\b[^\n]{0,300}(?:curl|wget|base64\s+-|/dev/tcp)[^\n]{0,300}>>\s*\S*(?:\.bashrc|\.zshrc|\.profile|\.bash_profile|\.zprofile|/etc/rc\.local|/etc/cron)"
        r"|(?:ssh-(?:rsa|ed25519)|ecdsa-sha2-\S+)\s+AAAA[^\n]{20,2000}authorized_keys"
        r"|HK(?:CU|LM):?\\{1,2}Software\\+Microsoft\\+Windows\\+CurrentVersion\\+Run\b|schtasks\s+/create[^\n]{0,200}(?:powershell|http|\.vbs|\.bat)",
        hints="crontab~>>~authorized_keys~currentversion~schtasks~ssh ",
    ),
    _rule(
        "persistence",
        WARN,
        "changes what starts by itself",
        r"\|\s*crontab\b|crontab\s+-(?!l|h)\S*|LaunchAgents/|systemctl\s+(?:--user\s+)?enable"
        r"|>>\s*\S*(?:\.bashrc|\.zshrc|\.profile|\.bash_profile)\b|authorized_keys\b|launchctl\s+load",
        hints="crontab~launchagents~systemctl~>>~authorized_keys~launchctl",
    ),
    _rule(
        "destroys",
        DANGER,
        "deletes far more than a skill could be about",
        r"(?:^|[;&|(\n]|sudo\s|\bdo\s|\bthen\s)\s*rm\s+(?:-\w+\s+)*-\w*(?:rf|fr|r\s+-f)\w*\s+(?:--no-preserve-root\s+)?[\"']?(?:/|~/?|\$\{?HOME\}?/?|/\*|~/(?:Documents|Desktop|Pictures)/?|/(?:home|usr|etc|var|Users|System|Library|bin)/?)[\"']?(?:\*)?\s*(?:$|[;&|\n)#2>])"
        r"|(?:^|[;&|\n]|sudo\s)\s*dd\s[^\n]{0,120}of=/dev/(?:sd|nvme|disk|hd)\w*"
        r"|(?:^|[;&|\n]|sudo\s)\s*mkfs(?:\.\w+)?\s+/dev/"
        r"|:\(\)\s*\{\s*:\s*\|\s*:\s*&\s*\}\s*;\s*:",
        hints="rm ~dd ~mkfs~:()",
    ),
    _rule(
        "asks_for_password",
        DANGER,
        "asks for the password in a window of its own, and sends data",
        r"display\s+dialog\b[^\n]{0,300}hidden\s+answer[^\n]{0,300}(?:\n[^\n]{0,300}){0,12}?\b(?:curl|wget|nc)\b",
        hints="display dialog",
    ),
    _rule(
        "hides_traces",
        DANGER,
        "removes what would tell that it ran",
        r"history\s+-c\b[^\n]{0,60}(?:rm|>|;\s*:)|\brm\s[^\n]{0,80}\.(?:bash|zsh)_history|unset\s+HISTFILE|HISTFILE=/dev/null"
        r"|>\s*/var/log/(?:auth|syslog|wtmp|secure|lastlog)|wevtutil\s+cl\b|Clear-EventLog",
        hints="history~histfile~/var/log/~wevtutil~clear-eventlog",
    ),
    _rule(
        "mines",
        DANGER,
        "mines a currency for somebody",
        r"stratum\+(?:tcp|ssl)://[\w$-]"
        rf"|(?:{_FETCH}|\bgit\s+clone|\b(?:install|run|nohup|exec)\b|\./|/tmp/|\bchmod)[^\n|]{{0,160}}\b{_MINERS}\b"
        rf"|\b{_MINERS}\b[^\n|]{{0,160}}\s(?:-[aou]|--(?:url|user|algo|coin|pool|donate-level))\b"
        r"|\bcoinhive\b|\bminerd\s+-",
        hints="stratum~miner~xmrig~t-rex~coinhive",
    ),
    _rule(
        "takes_away_protection",
        DANGER,
        "takes away what protects the machine from programs of strangers",
        r"xattr\s+-(?:c|r?d|dr|cr)\b[^\n]{0,120}(?:/tmp/|\./\S|\$)[^\n]{0,80}(?:\n[^\n]{0,160}){0,2}(?:\./|open\s|chmod|/tmp/|&&)"
        r"|(?:echo|printf|tee|>>)[^\n]{0,120}NOPASSWD:\s*ALL\b[^\n]{0,120}sudoers|chmod\s+-R\s+(?:0?777|a\+rwx)\s+[\"']?(?:~|/|\$\{?HOME\}?)/?[\"']?(?=[\s`;&|]|$)"
        r"|clusterrolebinding\b[^\n]{0,200}system:(?:anonymous|unauthenticated)"
        r"|spctl\s+--master-disable|csrutil\s+disable|setenforce\s+0[^\n]{0,80}curl"
        r"|(?:Set|Add)-MpPreference\b[^\n]{0,120}(?:Disable|Exclusion)"
        r"|Set-ExecutionPolicy\s+(?:-\w+\s+)*(?:Bypass|Unrestricted)[^\n]{0,200}(?:downloadstring|DownloadFile|http://)"
        r"|certutil(?:\.exe)?\s[^\n]{0,80}-urlcache|\bmshta(?:\.exe)?\s+(?:https?:|javascript:)|bitsadmin\s+/transfer|regsvr32\s[^\n]{0,80}/i:http",
        hints="xattr~nopasswd~chmod~clusterrolebinding~spctl~csrutil~setenforce~mppreference~set-executionpolicy~certutil~mshta~bitsadmin~regsvr32",
    ),
    _rule(
        "foreign_package",
        WARN,
        "installs a package from an address that is no known index",
        r"pip3?\s+install\b[^\n]{0,200}(?:--(?:extra-)?index-url|-i|--find-links|git\+https?://|https?://)[^\n]{0,200}|npm\s+(?:i|install)\b[^\n]{0,120}https?://[^\n]{0,200}"
        r"|pip3?\s+config\s+set\s[^\n]{0,60}(?:index-url|find-links)[^\n]{0,200}|(?:npm|pnpm|yarn)\s+config\s+set\s+registry\s[^\n]{0,200}|\b(?:PIP_(?:EXTRA_)?INDEX_URL|UV_INDEX_URL|NPM_CONFIG_REGISTRY)=[^\n]{0,200}",
        by_host=True,
        hints="install~npm i ~config set~index_url~npm_config",
    ),
    _rule(
        "misspelled_package",
        DANGER,
        "installs a package whose name imitates a well-known one",
        r"(?:pip3?|uv\s+pip|pipx)\s+install\b[^\n]{0,200}\b(?:reqeusts|requsts|request5|reqests|requestss|urlib3|urllib|beautifulsup4?|colourama|colorma|python-sqlite|python3-dateutil|jeilyfish|crypt0|djanga|setup-tools|pandsa|nunpy|numppy|openai-api-client|opencv-pyhton|tensorfow|pytroch|anthropicc|openaai|scikit-lern|selemium|pyyml)\b"
        r"|npm\s+(?:i|install)\b[^\n]{0,200}\s(?:crossenv|cross-env\.js|loadash|lodahs|expres|reacct|axois|axioss|electorn|discordd?\.jss|chalkk|nodemailer-js|event-streem|momnet)\b",
        hints="install~npm i ",
    ),
    _rule(
        "unasked_install",
        INFO,
        "installs programs or packages",
        r"(?:pip3?|uv\s+pip|npm|pnpm|yarn|brew|apt(?:-get)?|cargo|go|gem|pipx|uv\s+tool)\s+(?:install|add)\b|\bnpx\s+-y\b",
        hints="install~add~npx ",
    ),
)
_DECODED_SIGNS = re.compile(
    r"curl\s|wget\s|https?://|/bin/(?:ba|z)?sh|bash\s+-|powershell|/dev/tcp|os\.system|subprocess|"
    r"exec\s*\(|eval\s*\(|import\s+(?:os|socket)|child_process|ignore\s+(?:all\s+)?previous",
    re.IGNORECASE,
)
OBFUSCATED_JS = re.compile(r"\b_0x[0-9a-f]{1,6}\b")
_MOST_HITS = 20


def command_findings(text: str, scope: SkillScope) -> Iterator[TextFinding]:
    """What the rules say about commands in a text."""
    small = " ".join(text.lower().split())
    for rule in COMMAND_RULES:
        if not any(hint in small for hint in rule.hints):
            continue
        for count, found in enumerate(rule.pattern.finditer(text)):
            if count >= _MOST_HITS:
                break
            weight = _weight_by_host(rule, found[0], scope) if rule.by_host else rule.weight
            yield TextFinding(
                start=found.start(), rule=rule.name, weight=weight, message=rule.message
            )
    if "curl" in small or "wget" in small:
        yield from _plain_uploads(text, scope)


# `curl get.example/x`: without a scheme, and therefore without encryption.
_BARE_ADDRESS = re.compile(
    r"(?<![\w./@$-])(?:[a-z0-9-]{1,60}\.){1,4}[a-z]{2,12}(?::\d+)?/[^\s\"'`|;)]{0,200}"
)


def _weight_by_host(rule: CommandRule, text: str, scope: SkillScope) -> FindingWeight:
    urls = URL.findall(text) or [f"http://{each}" for each in _BARE_ADDRESS.findall(text)]
    if not urls:
        # An address that is put together out of variables: nobody can see what is fetched.
        return WARN
    worst = max(classify(url, scope) for url in urls)
    plain = any(url.lower().startswith("http://") for url in urls) and worst > HostClass.KNOWN
    if worst is HostClass.HIDDEN or plain:
        return DANGER
    if worst is HostClass.UNKNOWN:
        return rule.weight
    return INFO if worst is HostClass.KNOWN else min(rule.weight, WARN, key=_rank)


def _rank(weight: FindingWeight) -> int:
    return list(FindingWeight).index(weight)


_UPLOAD = re.compile(
    r"\b(?:curl|wget)\b[^\n]{0,400}?(?:\s-(?:d|F|T)\s*|--data(?:-\w+)?[= ]|--form[= ]|--upload-file[= ]|--post-(?:data|file)[= ]|-X\s*POST)[^\n]{0,400}",
    re.IGNORECASE,
)


# A file, the output of a command or a variable: not a sample that is written out.
_TAKES_ALONG = re.compile(
    r"\$\(|`[^`]+`|=?@[\w./~$-]|\$\{?[A-Za-z_]|--post-file|--upload-file|\s-T\s"
)


def _plain_uploads(text: str, scope: SkillScope) -> Iterator[TextFinding]:
    """Data that is sent to an address behind which anybody may be."""
    for found in _UPLOAD.finditer(text):
        for url in URL.findall(found[0]):
            if classify(url, scope) is not HostClass.HIDDEN:
                continue
            collects = is_collector(url) or bool(_ADDRESS.fullmatch(urlsplit(url).hostname or ""))
            collects = collects and _TAKES_ALONG.search(found[0]) is not None
            yield TextFinding(
                start=found.start(),
                rule="sends_to_hidden_host",
                weight=DANGER if collects else WARN,
                message="sends data to an address behind which anybody may be",
            )


def decoded_signs(text: str) -> bool:
    """Whether a text that was encoded reads like a command."""
    return _DECODED_SIGNS.search(text) is not None


def line_of(text: str) -> Callable[[int], int]:
    """Gives the line of a place in the text, counted from 1."""
    ends = [found.start() for found in re.finditer("\n", text)]
    return lambda start: bisect_left(ends, start) + 1
