"""The models of one Silas, wired: settings, keys, what was found out about them, the brain."""

from collections.abc import Mapping

from silas.agents.models.factory import Brain, Models
from silas.agents.models.modes import ModeMemory
from silas.app.ground import Ground
from silas.app.model_choices import key_reader, model_choices


def open_models(
    ground: Ground, *, environ: Mapping[str, str], brain: Brain | None = None
) -> Models:
    """The models of all roles. The vault is opened only if the settings name a secret in it."""
    choices = model_choices(ground.settings, key_reader(ground.vault.get, environ))
    memory = ModeMemory(ground.paths.model_modes)
    return Models(choices, environ=environ, clock=ground.clock, memory=memory, brain=brain)
