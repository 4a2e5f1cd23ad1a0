"""A project directory with a configuration file, and what loading it gives."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from silas.kernel import ConfigError
from silas.settings.load import LoadedSettings, load_settings


@dataclass
class Project:
    """A directory in which Silas is called, and the environment of whoever calls it."""

    directory: Path
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        return self.directory / "config" / "silas.yaml"

    def write(self, text: str | bytes, *, mode: int = 0o600) -> "Project":
        self.file.parent.mkdir(exist_ok=True)
        self.file.write_bytes(text.encode() if isinstance(text, str) else text)
        self.file.chmod(mode)
        return self

    def set(self, settings: str) -> "Project":
        """Write settings, one a line, dotted: `channels.web.port: 9000`."""
        tree: dict[str, Any] = {}
        for line in filter(None, settings.splitlines()):
            key, _, value = line.strip().partition(":")
            *around, name = key.split(".")
            section = tree
            for part in around:
                section = section.setdefault(part, {})
            section[name] = value
        return self.write("\n".join(["silas:", *_block(tree, "  ")]) + "\n")

    def line_of(self, text: str) -> int:
        """The first line of the file with this text."""
        lines = self.file.read_text().splitlines()
        return next(number for number, line in enumerate(lines, start=1) if text in line)

    def load(
        self, *, data_dir: str | None = None, config_file: str | None = None, **environ: str
    ) -> LoadedSettings:
        return load_settings(
            data_dir=data_dir,
            config_file=config_file,
            environ={**self.environ, **environ},
            cwd=self.directory,
        )

    def outcome(self, **options: Any) -> LoadedSettings | ConfigError:
        try:
            return self.load(**options)
        except ConfigError as error:
            return error

    def fail(self, **options: Any) -> ConfigError:
        with pytest.raises(ConfigError) as caught:
            self.load(**options)
        return caught.value

    def problems(self, **options: Any) -> dict[str, str]:
        """What is wrong, by the name of the setting."""
        error = self.fail(**options)
        assert (error.code, error.exit_code) == ("E_CFG_INVALID", 10)
        return {problem["key"]: problem["message"] for problem in error.details["problems"]}


def _block(tree: dict[str, Any], indent: str) -> Iterator[str]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield f"{indent}{name}:"
            yield from _block(value, f"{indent}  ")
        else:
            yield f"{indent}{name}:{value}"
