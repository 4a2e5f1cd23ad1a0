"""Where things are: one place that knows the names of the files in the data directory."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Paths:
    """The files of one Silas."""

    data_dir: Path
    config_file: Path

    @property
    def database(self) -> Path:
        return self.data_dir / "silas.db"

    @property
    def journal(self) -> Path:
        """The owner's own records."""
        return self.data_dir / "journal.db"

    @property
    def companions(self) -> Path:
        """Who the companions are, what they remember and report; nothing of the journal."""
        return self.data_dir / "agent.db"

    @property
    def companion_kinds(self) -> Path:
        """The owner's own kinds of companions: one YAML file each."""
        return self.data_dir / "companions"

    @property
    def vault(self) -> Path:
        return self.data_dir / "vault.json"

    @property
    def public_key(self) -> Path:
        return self.data_dir / "owner.pub"

    @property
    def audit_witness(self) -> Path:
        """A copy of the newest audit checkpoint, outside the database that it vouches for."""
        return self.data_dir / "audit.checkpoint"

    @property
    def artifacts(self) -> Path:
        """What attempts at work items left behind."""
        return self.data_dir / "artifacts"

    @property
    def gates(self) -> Path:
        """The scripts that gates may run."""
        return self.data_dir / "gates"

    @property
    def model_modes(self) -> Path:
        """What `silas models test` found out about the models; can be deleted."""
        return self.data_dir / "model_modes.json"

    @property
    def first_run(self) -> Path:
        """That the owner was welcomed, and what he is called; without it he is welcomed again."""
        return self.data_dir / "first_run.json"

    @property
    def archive(self) -> Path:
        """Old parts of the audit log, each a file that proves itself."""
        return self.data_dir / "archive"

    @property
    def lock(self) -> Path:
        return self.data_dir / "silas.lock"

    @property
    def socket(self) -> Path:
        return self.data_dir / "silas.sock"
