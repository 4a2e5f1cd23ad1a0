"""The first run, and the choice of a model: what `silas.web.onboarding` asks for, done.

1. What is offered is what answers on this machine, and a short list of providers.
2. A model is asked a real question with the very settings that would be in force. Only if it
   answers are they written.
3. A key goes into the vault; the configuration names it (`secret:models/openai`).
4. Nothing but `models` changes, and the house is opened again through the same door as at the
   start: gates and guards are loaded anew, never left out.
"""

import asyncio
import importlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from silas.agents.models.providers import key_from_environment, package_missing
from silas.agents.models.roles import Role
from silas.agents.models.servers import KNOWN_SERVERS, FoundServer, LocalServer
from silas.app.ground import Ground
from silas.app.model_choices import key_reader, model_choices, model_name
from silas.app.settings import LoadedSettings, Settings
from silas.app.settings.edit import change_section
from silas.app.settings.errors import SettingsNotChanged
from silas.app.settings.model_roles import ModelSettings
from silas.kernel import format_timestamp
from silas.storage.errors import translated
from silas.storage.files import write_private_file
from silas.stream.said import SaidStore
from silas.web.onboarding import ChosenModel, CloudProvider, LocalModels, SetupShown, TriedModel

# What only a choice needs is loaded with it: the libraries of models and of their servers.
_DETECTION = "silas.agents.models.detection"
_TRIAL = "silas.app.model_trial"
_ROLES = ("proxy", "planner", "executor", "scorer")
_CLOUD = {
    "openrouter": ("OpenRouter", ("anthropic/claude-haiku-4-5", "anthropic/claude-sonnet-4-5")),
    "openai": ("OpenAI", ("gpt-5-mini", "gpt-5")),
    "anthropic": ("Anthropic", ("claude-haiku-4-5", "claude-sonnet-4-5")),
    "google": ("Google", ("gemini-2.5-flash", "gemini-2.5-pro")),
    "deepseek": ("DeepSeek", ("deepseek-chat",)),
}
_KEY = re.compile(r"[!-~]+")
"""What can stand in a header of a request."""

_Secret = tuple[str, str]
"""Its name in the vault, and its value."""


@dataclass(frozen=True)
class FirstRun:
    """`silas.web.onboarding.SetupDesk`."""

    ground: Ground
    environ: Mapping[str, str]
    reload: Callable[[], LoadedSettings] | None
    """Reads the settings the way they were read at the start; None: nothing can be changed."""
    apply: Callable[[Settings], None]
    """Opens the house again with these settings."""
    servers: Sequence[LocalServer] = KNOWN_SERVERS

    async def shown(self) -> SetupShown:
        """How things stand. Who has talked to Silas before needs no welcome."""
        settings, kept = self.ground.settings, self._kept()
        said = SaidStore(self.ground.database, self.ground.clock)
        model, reason = model_name(settings, Role.PROXY), self._fixed()
        known = kept is not None or model or await said.newest(settings.owner_id, 1)
        return SetupShown(
            finished=bool(known),
            name=str((kept or {}).get("name", "")),
            model=model,
            changeable=reason is None,
            reason=reason or "",
            cloud=[self._provider(name) for name in _CLOUD if package_missing(name) is None],
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
        if wanted.kind != "none":
            tried = await self._try(values, secret)
            if not tried.ok:
                return tried
        else:
            tried = TriedModel(ok=True)
        if secret is not None:  # 3
            await asyncio.to_thread(self.ground.vault.set, secret[0], secret[1].encode())
        changed = change_section(loaded, "models", values, reload=self.reload)
        await self.ground.audit.log("model_chosen", model=tried.model, kind=wanted.kind)
        self.apply(changed.settings)
        return tried

    async def finish(self, name: str) -> None:
        """Never show the first run again."""
        kept = {"finished_at": format_timestamp(self.ground.clock.now()), "name": name}
        path = self.ground.paths.first_run
        with translated(str(path)):
            write_private_file(path, json.dumps(kept, ensure_ascii=False).encode())
        await self.ground.audit.log("first_run_finished", named=bool(name))

    def _kept(self) -> dict[str, Any] | None:
        path = self.ground.paths.first_run
        try:
            kept = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            return {}  # it was there; that is enough
        return kept if isinstance(kept, dict) else {}

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

    def _provider(self, name: str) -> CloudProvider:
        label, models = _CLOUD[name]
        has_key = name in self.ground.settings.models.api_keys
        has_key = has_key or key_from_environment(name, self.environ) is not None
        return CloudProvider(provider=name, label=label, models=models, has_key=has_key)

    async def _values(
        self, wanted: ChosenModel, loaded: LoadedSettings
    ) -> tuple[dict[str, Any], _Secret | None]:
        """What `models` would say, and the secret that belongs to it."""
        if wanted.kind == "none":
            return dict.fromkeys(_ROLES), None
        if wanted.model is None:
            raise SettingsNotChanged("Say which model it is.")
        if wanted.kind == "local":
            server = await self._server(wanted)
            values: dict[str, Any] = dict.fromkeys(_ROLES, f"{server.provider}:{wanted.model}")
            base = {} if server.provider == "ollama" else {"base_url": server.base_url}
            return {**values, **base}, None
        values, secret = _cloud_values(wanted, loaded.settings)
        if loaded.origin_of(("models", "base_url")).source == "file":
            values["base_url"] = None  # it was a local server's; no key is ever sent there
        return values, secret

    async def _server(self, wanted: ChosenModel) -> FoundServer:
        for server in await _detected(self.servers):
            if server.base_url == wanted.server and wanted.model in server.models:
                return server
        raise SettingsNotChanged("This model does not answer on this machine any more.")

    async def _try(self, values: dict[str, Any], secret: _Secret | None) -> TriedModel:
        """One real question (rule 2); the key is not in the vault yet."""
        settings = self.ground.settings
        try:
            models = ModelSettings.model_validate({**settings.models.model_dump(), **values})
        except ValidationError as error:
            raise SettingsNotChanged("This is not the name of a model.") from error
        candidate = settings.model_copy(update={"models": models})

        def read(name: str) -> bytes | None:
            if secret is not None and name == secret[0]:
                return secret[1].encode()
            return self.ground.vault.get(name)

        choice = model_choices(candidate, key_reader(read, self.environ))[Role.PROXY]
        ground = replace(self.ground, settings=candidate)
        trial = await asyncio.to_thread(importlib.import_module, _TRIAL)
        report = await trial.try_choice(ground, choice, self.environ, quick=True)
        if not report.ok and report.error is None:  # it answers, but in another form than this one
            report = await trial.try_choice(ground, choice, self.environ, quick=False)
        told = "" if report.ok else _why(report.error)
        return TriedModel(
            ok=report.ok, model=report.model, milliseconds=report.latency_ms, message=told
        )


async def _detected(servers: Sequence[LocalServer]) -> list[FoundServer]:
    detection = await asyncio.to_thread(importlib.import_module, _DETECTION)
    found: list[FoundServer] = await detection.detect_servers(servers)
    return found


def _why(error: Mapping[str, Any] | None) -> str:
    if error is None:
        return "It answers, but not in a form that Silas can use. Choose another model."
    return str(error.get("message", ""))


def _cloud_values(wanted: ChosenModel, settings: Settings) -> tuple[dict[str, Any], _Secret | None]:
    provider = wanted.provider or ""
    if provider not in _CLOUD:
        raise SettingsNotChanged("There is no such provider in the list.")
    values: dict[str, Any] = dict.fromkeys(_ROLES, f"{provider}:{wanted.model}")
    given = wanted.key.get_secret_value().strip() if wanted.key else ""
    if not given:
        return values, None
    if not _KEY.fullmatch(given):
        raise SettingsNotChanged("This cannot be a key: it has spaces, line breaks or accents.")
    name = f"models/{provider}"
    keys = {**settings.models.api_keys, provider: f"secret:{name}"}
    return {**values, "api_keys": keys}, (name, given)
