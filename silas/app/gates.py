"""The gates, wired: every provider registered, scripts in the sandbox, the settings' own gates."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from silas.app.core import Core
from silas.audit.models import AuditTrail
from silas.gates import Gate, GateProvider
from silas.gates.guards.registry import built_in_guards
from silas.gates.models import (
    CommandOutcome,
    CommandRunner,
    GateCheckProvider,
    GateModel,
)
from silas.gates.providers import CustomProvider, LlmProvider, PredicateProvider, ScriptProvider
from silas.gates.providers.builtin import BUILT_IN_CHECKS
from silas.gates.providers.guardrails_ai import AllValidators, GuardrailsAiProvider, library_classes
from silas.gates.runner import GateRunner, load_gates
from silas.sandbox import SandboxLimits, SandboxRunner
from silas.sandbox.environment import HARDENED_ENVIRONMENT
from silas.sandbox.models import checked_request
from silas.settings.models import Settings
from silas.settings.paths import Paths
from silas.storage.errors import translated
from silas.storage.files import make_private_directory

_SHELL = ("/bin/sh", "-c")


@dataclass(frozen=True)
class SandboxedCommands:
    """`CommandRunner` in the sandbox: it can read the gates' own directory and nothing else."""

    sandbox: SandboxRunner
    directory: Path
    memory_bytes: int

    async def run(self, command: str, *, env: Mapping[str, str], seconds: int) -> CommandOutcome:
        with translated(str(self.directory)):
            make_private_directory(self.directory)
        place = str(self.directory.resolve())
        ran = await self.sandbox.run(
            checked_request(
                argv=(*_SHELL, command),
                env={**HARDENED_ENVIRONMENT, **env},
                cwd=place,
                read=(place,),
                limits=SandboxLimits(
                    wall_seconds=seconds, cpu_seconds=seconds, memory_bytes=self.memory_bytes
                ),
            )
        )
        return CommandOutcome(
            exit_code=ran.exit_code,
            output=ran.stdout,
            truncated=ran.stdout_truncated,
            stopped=ran.limit.value if ran.limit else None,
        )


def sandboxed_commands(
    settings: Settings, paths: Paths, sandbox: SandboxRunner
) -> SandboxedCommands:
    """Scripts of gates live in `gates` in the data directory."""
    memory_bytes = settings.sandbox.default_memory_mb * 1024 * 1024
    return SandboxedCommands(sandbox, paths.gates, memory_bytes)


def gate_providers(
    settings: Settings,
    paths: Paths,
    *,
    commands: CommandRunner | None = None,
    model: GateModel | None = None,
) -> dict[str, GateCheckProvider]:
    """Every provider by its name. Without commands, script gates block; see also `LlmProvider`."""
    guards = built_in_guards()
    validators = AllValidators(guards, names=guards.names, library=library_classes())
    directories = (paths.data_dir / "work", paths.gates)
    return {
        GateProvider.PREDICATE: PredicateProvider(directories),
        GateProvider.CUSTOM: CustomProvider(BUILT_IN_CHECKS),
        GateProvider.SCRIPT: ScriptProvider(commands, directories),
        GateProvider.GUARDRAILS_AI: GuardrailsAiProvider(validators),
        GateProvider.LLM: LlmProvider(model, seconds=settings.gates.llm_defaults.timeout_seconds),
    }


def gate_runner(
    settings: Settings, providers: Mapping[str, GateCheckProvider], *, audit: AuditTrail
) -> GateRunner:
    """The runner with the limits of the settings."""
    return GateRunner(
        providers, audit, max_gate_evals_per_turn=settings.limits.max_gate_evals_per_turn
    )


def open_gates(core: Core, *, model: GateModel | None = None) -> GateRunner:
    """The gate runner of this data directory."""
    settings, paths = core.settings, core.paths
    commands = sandboxed_commands(settings, paths, core.sandbox)
    providers = gate_providers(settings, paths, commands=commands, model=model)
    return gate_runner(settings, providers, audit=core.audit)


def prove_guards(settings: Settings) -> None:
    """Try the rules of the guards that every message passes, ahead of the first message."""
    guards = built_in_guards()
    used = {gate.check for gate in settings.gates.system}
    for name in guards.names:
        if name in used:
            guards.prove(name)


async def load_system_gates(core: Core, *, model: GateModel | None = None) -> tuple[Gate, ...]:
    """The gates of the configuration; raises `GatesNotLoaded` if one could not do its work."""
    providers = open_gates(core, model=model).providers
    return await load_gates(core.settings.gates.system, providers)
