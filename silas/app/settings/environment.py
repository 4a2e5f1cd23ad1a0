"""Settings from the environment: `SILAS_CHANNELS__WEB__PORT=9000` sets `channels.web.port`.

Two underscores stand between the levels; upper and lower case are the same. Sections, maps and
lists are written as JSON or as YAML in one line.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from silas.app.settings.draft import Draft
from silas.app.settings.keys import ROOT, Kind, child, default_of, kind_at, typed, walk
from silas.app.settings.origin import KeyPath, Origin, presentable
from silas.app.settings.suggest import did_you_mean
from silas.kernel.yaml_positions import YamlError, load_yaml

PREFIX = "SILAS_"
RESERVED = frozenset(
    {
        "SILAS_CONFIG",
        "SILAS_DATA_DIR",
        "SILAS_DEBUG",
        "SILAS_VAULT_PASSPHRASE",
        "SILAS_VAULT_KEY_FILE",
        "SILAS_TELEGRAM_TOKEN",
        "SILAS_TELEGRAM_OWNER_ID",
    }
)
_NULLS = ("", "~", "null")


def apply_environment(draft: Draft, environ: Mapping[str, str]) -> None:
    """Lay the variables over what the file says; the deeper a variable reaches, the later."""
    taken: dict[KeyPath, str] = {}
    for name in sorted(_candidates(environ), key=lambda name: (name.count("__"), name)):
        key = _key_of(name, draft)
        if key is None:
            draft.warnings.append(_unknown(name))
        elif key in taken and environ[name] != environ[taken[key]]:
            origin = Origin("environment", presentable(name))
            draft.complain(key, f"is also set by {taken[key]}; unset one of them", origin=origin)
        else:
            taken[key] = name
            _apply(draft, key, environ[name], origin=Origin("environment", presentable(name)))


def variable_name(key: KeyPath) -> str:
    """The variable that sets this setting."""
    return PREFIX + "__".join(str(part) for part in key).upper()


def _candidates(environ: Mapping[str, str]) -> Iterator[str]:
    return (n for n in environ if n.upper().startswith(PREFIX) and n.upper() not in RESERVED)


def _key_of(name: str, draft: Draft) -> KeyPath | None:
    """The setting that a variable means; None if there is none."""
    key: KeyPath = ()
    kind: Kind | None = ROOT
    for part in name[len(PREFIX) :].lower().split("__"):
        if kind is None or kind.shape not in ("section", "map") or not part:
            return None
        key = (*key, _entry(draft, key, part) if kind.shape == "map" else part)
        kind = child(kind, part)
    return key if kind else None


def _entry(draft: Draft, key: KeyPath, part: str) -> str:
    """The key of a map as it is written there: the names of variables have no case."""
    entries = draft.find(key) if draft.has(key) else default_of(key)
    names = entries if isinstance(entries, dict) else {}
    return next((name for name in names if name.lower() == part), part)


def _apply(draft: Draft, key: KeyPath, text: str, *, origin: Origin) -> None:
    kind = kind_at(key)
    if kind is None:
        return
    _prepare_maps(draft, key)
    if kind.shape == "value":
        value = None if kind.nullable and text in _NULLS else typed(kind, text)
        draft.put(key, value, origin=origin)
        return
    try:
        _merge(draft, key, kind, load_yaml(text).value, origin)
    except YamlError:
        draft.complain(key, "must be JSON, or YAML in one line", origin=origin)


def _merge(draft: Draft, key: KeyPath, kind: Kind, value: Any, origin: Origin) -> None:
    """A section is merged key by key; anything else replaces what was there."""
    if kind.shape == "section" and isinstance(value, dict) and draft.has(key):
        for name, each in value.items():
            inner = child(kind, name) or Kind("value", Any)
            _merge(draft, (*key, name), inner, each, origin)
    else:
        draft.put(key, value, origin=origin)


def _prepare_maps(draft: Draft, key: KeyPath) -> None:
    """A variable changes one entry of a map; without this, the default entries would be lost."""
    for depth in range(1, len(key)):
        kind = kind_at(key[:depth])
        if kind and kind.shape == "map" and not draft.has(key[:depth]):
            draft.put(key[:depth], default_of(key[:depth]))
            return


def _unknown(name: str) -> str:
    known = {variable_name(key): key for key, _ in walk()}
    flat = {variable.replace("__", "_"): variable for variable in known}
    same = flat.get(name.upper().replace("__", "_"))
    hint = f"; did you mean `{same}`?" if same else did_you_mean(name.upper(), known)
    return f"The variable {presentable(name)} sets nothing{hint or '.'}"
