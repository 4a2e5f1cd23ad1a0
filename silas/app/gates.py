"""The gates, wired: every provider registered, scripts in the sandbox, the settings' own gates."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from silas.app.ground import Ground
from silas.app.paths import Paths
from silas.app.settings import Settings
from silas.gates import Gate, GateProvider
from silas.gates.built_in import BUILT_IN_CHECKS
from silas.gates.guards.registry import built_in_guards
from silas.gates.loading import load_gates
from silas.gates.ports import (
    AuditTrail,
    CommandOutcome,
    CommandRunner,
    GateCheckProvider,
    GateModel,
)
from silas.gates.providers import CustomProvider, LlmProvider, PredicateProvider, ScriptProvider
from silas.gates.providers.guardrails_ai import GuardrailsAiProvider
from silas.gates.providers.guardrails_library import AllValidators, library_classes
from silas.gates.runner import GateRunner
from silas.kernel import Clock
from silas.sandbox import BackendChoice, Boundary, SandboxLimits, all_backends
from silas.sandbox.requests import checked_request
from silas.sandbox.verification import HARDENED_ENVIRONMENT
from silas.storage.errors import translated
from silas.storage.files import make_private_directory

_SHELL = ("/bin/sh", "-c")
_INSIST = frozenset({Boundary.NETWORK, Boundary.FILESYSTEM})


@dataclass(frozen=True)
class SandboxedCommands:
    """`CommandRunner` in the sandbox: it can read the gates' own directory and nothing else."""

    choice: BackendChoice
    backend: str
    directory: Path
    memory_bytes: int

    async def run(self, command: str, *, env: Mapping[str, str], seconds: int) -> CommandOutcome:
        with translated(str(self.directory)):
            make_private_directory(self.directory)
        place = str(self.directory.resolve())
        backend = await self.choice.choose(self.backend)
        ran = await backend.run(
            checked_request(
                argv=(*_SHELL, command),
                env={**HARDENED_ENVIRONMENT, **env},
                cwd=place,
                read=(place,),
                limits=SandboxLimits(
                    wall_seconds=seconds, cpu_seconds=seconds, memory_bytes=self.memory_bytes
                ),
                require=_INSIST,
            )
        )
        return CommandOutcome(
            exit_code=ran.exit_code,
            output=ran.stdout,
            truncated=ran.stdout_truncated,
            stopped=ran.limit.value if ran.limit else None,
        )


def sandboxed_commands(settings: Settings, paths: Paths, *, clock: Clock) -> SandboxedCommands:
    """Scripts of gates live in `gates` in the data directory."""
    sandbox = settings.sandbox
    return SandboxedCommands(
        BackendChoice(all_backends(clock=clock, image=sandbox.base_image)),
        sandbox.backend,
        paths.gates,
        sandbox.default_memory_mb * 1024 * 1024,
    )


def gate_providers(
    settings: Settings,
    paths: Paths,
    *,
    commands: CommandRunner | None = None,
    model: GateModel | None = None,
) -> dict[str, GateCheckProvider]:
    """Every provider by its name. Without commands, script gates block; for models see `llm.py`."""
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


def open_gates(ground: Ground, *, model: GateModel | None = None) -> GateRunner:
    """The gate runner of this ground floor."""
    settings, paths = ground.settings, ground.paths
    commands = sandboxed_commands(settings, paths, clock=ground.clock)
    providers = gate_providers(settings, paths, commands=commands, model=model)
    return gate_runner(settings, providers, audit=ground.audit)


def prove_guards(settings: Settings) -> None:
    """Try the rules of the guards that every message passes, ahead of the first message."""
    guards = built_in_guards()
    used = {gate.check for gate in settings.gates.system}
    for name in guards.names:
        if name in used:
            guards.prove(name)


async def load_system_gates(ground: Ground, *, model: GateModel | None = None) -> tuple[Gate, ...]:
    """The gates of the configuration; raises `GatesNotLoaded` if one could not do its work."""
    providers = open_gates(ground, model=model).providers
    return await load_gates(ground.settings.gates.system, providers)
