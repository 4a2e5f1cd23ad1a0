"""The first run, and the choice of a model: what `silas.web.onboarding` asks for, done.

1. What is offered is what answers on this machine, every provider that needs no more than a key,
   and an address of the owner's own.
2. A model is asked a real question with the very settings that would be in force. Only if it
   answers are they written.
3. A key goes into the vault; the configuration names it (`secret:models/openai`).
4. Nothing but `models` changes, and the runtime is opened again through the same door as at the
   start: gates and guards are loaded anew, never left out.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from silas.agents.models.choices import Role
from silas.agents.models.detection import KNOWN_SERVERS, FoundServer, LocalServer
from silas.agents.models.providers import NEEDS_MORE, PROVIDERS, key_from_environment
from silas.agents.models.words import (
    install_command,
    label_of,
    what_it_can,
    what_it_cannot,
    why_it_failed,
)
from silas.app.agents import agent_factory, key_reader, model_choices, model_name
from silas.app.core import Core
from silas.kernel import format_timestamp, visible
from silas.kernel.loopback import is_loopback_url
from silas.settings.load import LoadedSettings
from silas.settings.models import Settings
from silas.settings.problems import SettingsNotChanged
from silas.settings.services import ModelSettings
from silas.settings.write import change_section
from silas.storage.errors import translated
from silas.storage.files import write_private_file
from silas.stream.delivery import UserMessageStore
from silas.web.onboarding import ChosenModel, CloudProvider, LocalModels, SetupShown, TriedModel

_ROLES = ("proxy", "planner", "executor", "scorer")
_SUGGESTED = {
    "openrouter": ("anthropic/claude-haiku-4-5", "anthropic/claude-sonnet-4-5"),
    "openai": ("gpt-5-mini", "gpt-5"),
    "anthropic": ("claude-haiku-4-5", "claude-sonnet-4-5"),
    "google": ("gemini-2.5-flash", "gemini-2.5-pro"),
    "deepseek": ("deepseek-chat",),
}
"""The providers that most people look for come first, with models that do well."""
_CLOUD = (*_SUGGESTED, *sorted(PROVIDERS.keys() - _SUGGESTED.keys() - NEEDS_MORE))
_OWN_KEY = "models/own-server"
"""The name in the vault of the key for the owner's own address."""
_KEY = re.compile(r"[!-~]+")
"""What can stand in a header of a request."""
_MOST_NAMES = 12

_Secret = tuple[str, str]
"""Its name in the vault, and its value."""


@dataclass(frozen=True)
class FirstRun:
    """`silas.web.onboarding.SetupService`."""

    core: Core
    environ: Mapping[str, str]
    reload: Callable[[], LoadedSettings] | None
    """Reads the settings the way they were read at the start; None: nothing can be changed."""
    apply: Callable[[Settings], None]
    """Opens the runtime again with these settings."""
    servers: Sequence[LocalServer] = KNOWN_SERVERS

    async def shown(self) -> SetupShown:
        """How things stand. Who has talked to Silas before needs no welcome."""
        settings, record = self.core.settings, self._record()
        messages = UserMessageStore(self.core.database, self.core.clock)
        model, reason = model_name(settings, Role.PROXY), self._fixed()
        known = record is not None or model or await messages.newest(settings.owner_id, 1)
        return SetupShown(
            finished=bool(known),
            name=str((record or {}).get("name", "")),
            model=model,
            changeable=reason is None,
            reason=reason or "",
            cloud=await asyncio.to_thread(self._providers),
        )

    async def local_models(self) -> list[LocalModels]:
        """Who answers on this machine (rule 1)."""
        found = await _detected(self.servers)
        return [LocalModels(kind=s.kind, address=s.base_url, models=s.models) for s in found]

    async def choose(self, wanted: ChosenModel) -> TriedModel:
        """Ask the model, and keep the choice if it answers; raises `SettingsNotChanged`."""
        reason = self._fixed()
        if self.reload is None or reason is not None:
            raise SettingsNotChanged(reason)
        loaded = self.reload()
        values, secret = await self._values(wanted, loaded)
        tried = TriedModel(ok=True)
        if wanted.kind != "none":
            tried = await self._try(values, secret)
            if not tried.ok:
                return tried
        if secret is not None:  # 3
            await asyncio.to_thread(self.core.vault.set, secret[0], secret[1].encode())
        changed = change_section(loaded, "models", values, reload=self.reload)
        await self.core.audit.log("model_chosen", model=tried.model, kind=wanted.kind)
        self.apply(changed.settings)
        return tried

    async def finish(self, name: str) -> None:
        """Never show the first run again."""
        record = {"finished_at": format_timestamp(self.core.clock.now()), "name": name}
        path = self.core.paths.first_run
        with translated(str(path)):
            write_private_file(path, json.dumps(record, ensure_ascii=False).encode())
        await self.core.audit.log("first_run_finished", named=bool(name))

    def _record(self) -> dict[str, Any] | None:
        path = self.core.paths.first_run
        try:
            record = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            return {}  # it was there; that is enough
        return record if isinstance(record, dict) else {}

    def _fixed(self) -> str | None:
        """Why the models cannot be chosen from here."""
        if self.reload is None:
            return SettingsNotChanged.sentence()
        loaded = self.reload()
        for role in _ROLES:
            origin = loaded.origin_of(("models", role))
            if origin.source == "environment":
                return f"The model is set by an environment variable ({origin}). Change it there."
        return None

    def _providers(self) -> list[CloudProvider]:
        return [
            CloudProvider(
                provider=name,
                label=label_of(name),
                models=_SUGGESTED.get(name, ()),
                has_key=self._has_key(name),
                install=install_command(name) or "",
            )
            for name in _CLOUD
        ]

    def _has_key(self, provider: str) -> bool:
        in_environment = key_from_environment(provider, self.environ) is not None
        return in_environment or self._reference(provider) is not None

    def _reference(self, provider: str) -> str | None:
        """Where the provider's own key is; never that of another server."""
        named = self.core.settings.models.api_keys.get(provider)
        if named is not None and named != f"secret:{_OWN_KEY}":
            return str(named)
        kept = f"models/{provider}"
        return f"secret:{kept}" if kept in self.core.vault.list() else None

    async def _values(
        self, wanted: ChosenModel, loaded: LoadedSettings
    ) -> tuple[dict[str, Any], _Secret | None]:
        """What `models` would say, and the secret that belongs to it."""
        if wanted.kind == "none":
            return dict.fromkeys(_ROLES), None
        if wanted.kind == "address":
            return await self._address_values(wanted, loaded.settings)
        if wanted.model is None:
            raise SettingsNotChanged("Say which model it is.")
        if wanted.kind == "local":
            server = await self._server(wanted)
            values: dict[str, Any] = dict.fromkeys(_ROLES, f"{server.provider}:{wanted.model}")
            if server.provider == "ollama":
                return values, None
            keys = _keys_without(loaded.settings, "openai")
            return {**values, "base_url": server.base_url, **keys}, None
        values, secret = await asyncio.to_thread(self._cloud_values, wanted, loaded.settings)
        if loaded.origin_of(("models", "base_url")).source == "file":
            values["base_url"] = None  # it was another server's; no provider's key is sent there
        return values, secret

    def _cloud_values(
        self, wanted: ChosenModel, settings: Settings
    ) -> tuple[dict[str, Any], _Secret | None]:
        provider = wanted.provider or ""
        if provider not in _CLOUD:
            raise SettingsNotChanged("There is no such provider in the list.")
        command = install_command(provider)
        if command is not None:
            raise SettingsNotChanged(
                f"{label_of(provider)} needs a package that is not installed. Run `{command}`, "
                "then start Silas again."
            )
        values: dict[str, Any] = dict.fromkeys(_ROLES, f"{provider}:{wanted.model}")
        given = _given_key(wanted)
        if given is not None:
            name = f"models/{provider}"
            keys = {**settings.models.api_keys, provider: f"secret:{name}"}
            return {**values, "api_keys": keys}, (name, given)
        if not self._has_key(provider):
            raise SettingsNotChanged(
                f"Type your key for {label_of(provider)} first. It was not asked without one."
            )
        reference = self._reference(provider)
        if reference is None:  # it is in the environment
            return {**values, **_keys_without(settings, provider)}, None
        return {**values, "api_keys": {**settings.models.api_keys, provider: reference}}, None

    async def _address_values(
        self, wanted: ChosenModel, settings: Settings
    ) -> tuple[dict[str, Any], _Secret | None]:
        """A server of the owner's own, which speaks OpenAI's protocol."""
        address, given = (wanted.server or "").strip().rstrip("/"), _given_key(wanted)
        _require_address(address, has_key=given is not None)
        model = wanted.model or await _only_model(address, given)
        values = {**dict.fromkeys(_ROLES, f"openai:{model}"), "base_url": address}
        if given is None:
            return {**values, **_keys_without(settings, "openai")}, None
        keys = {**settings.models.api_keys, "openai": f"secret:{_OWN_KEY}"}
        return {**values, "api_keys": keys}, (_OWN_KEY, given)

    async def _server(self, wanted: ChosenModel) -> FoundServer:
        for server in await _detected(self.servers):
            if server.base_url == wanted.server and wanted.model in server.models:
                return server
        raise SettingsNotChanged("This model does not answer on this machine any more.")

    async def _try(self, values: dict[str, Any], secret: _Secret | None) -> TriedModel:
        """One real question (rule 2); the key is not in the vault yet."""
        settings = self.core.settings
        try:
            models = ModelSettings.model_validate({**settings.models.model_dump(), **values})
        except ValidationError as error:
            raise SettingsNotChanged("This is not the name of a model.") from error
        candidate = settings.model_copy(update={"models": models})

        def read(name: str) -> bytes | None:
            if secret is not None and name == secret[0]:
                return secret[1].encode()
            return self.core.vault.get(name)

        choice = model_choices(candidate, key_reader(read, self.environ))[Role.PROXY]
        factory = await asyncio.to_thread(agent_factory, self.core, environ=self.environ)
        report = await factory.try_choice(choice, quick=False)
        address = choice.model.base_url if choice.model else None
        if not report.ok:
            provider, _, model = report.model.partition(":")
            told = why_it_failed(report.error, provider=provider, model=model, address=address)
            return TriedModel(ok=False, model=report.model, message=told)
        return TriedModel(
            ok=True,
            model=report.model,
            milliseconds=report.latency_ms,
            facts=what_it_can(report),
            warnings=what_it_cannot(report),
        )


async def _detected(servers: Sequence[LocalServer]) -> list[FoundServer]:
    detect_servers = await asyncio.to_thread(_server_detection)
    return await detect_servers(servers)


def _server_detection() -> Callable[[Sequence[LocalServer]], Awaitable[list[FoundServer]]]:
    # Imported here, in a thread: only a choice needs the client of the servers.
    from silas.agents.models.detection import detect_servers  # noqa: PLC0415

    return detect_servers


def _given_key(wanted: ChosenModel) -> str | None:
    """The key that was typed, without what surrounds it; None if there is none."""
    given = wanted.key.get_secret_value().strip() if wanted.key else ""
    if given and not _KEY.fullmatch(given):
        raise SettingsNotChanged("This cannot be a key: it has spaces, line breaks or accents.")
    return given or None


def _keys_without(settings: Settings, provider: str) -> dict[str, Any]:
    """The change that keeps this provider's key from going to another server."""
    keys = dict(settings.models.api_keys)
    return {"api_keys": keys} if keys.pop(provider, None) is not None else {}


def _require_address(address: str, *, has_key: bool) -> None:
    try:
        parts = urlsplit(address)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.username or parts.password or parts.query or parts.fragment:
        raise SettingsNotChanged(
            "This is not the address of a server. Write it like http://127.0.0.1:8080/v1, without "
            "a name, a password or a question mark in it."
        )
    if has_key and parts.scheme == "http" and not is_loopback_url(address):
        raise SettingsNotChanged(
            "Everybody on the way could read a key that goes over http. Use https, or no key."
        )


async def _only_model(address: str, key: str | None) -> str:
    """The model of a server that has one; raises with the names of its models if it has several."""
    models_at = await asyncio.to_thread(_model_list)
    names = await models_at(address, key)
    if not names:
        raise SettingsNotChanged(
            f"No list of models comes from {address}. Does the server run, and does its address "
            "end in /v1? If it does, type the name of the model."
        )
    if len(names) > 1:
        shown = ", ".join(visible(name) for name in names[:_MOST_NAMES])
        raise SettingsNotChanged(f"This server has several models. Type one of these: {shown}.")
    return names[0]


def _model_list() -> Callable[[str, str | None], Awaitable[tuple[str, ...]]]:
    # Imported here, in a thread: only a choice needs the client of the servers.
    from silas.agents.models.detection import models_at  # noqa: PLC0415

    return models_at
