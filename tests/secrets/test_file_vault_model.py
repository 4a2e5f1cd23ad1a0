"""A vault file behaves like a dictionary, whatever is done to it in whatever order."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from silas.secrets import WrongKey, new_passphrase
from tests.secrets.files import FAST_N, make_vault, reopen

names = st.sampled_from(["a", "b", "mail/password", "silas/owner-keys", "x.y_z-9"])
values = st.binary(min_size=1, max_size=300)
passphrases = st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=20)


class VaultFile(RuleBasedStateMachine):
    """Two handles on one file, as two processes would have them, and a dictionary."""

    @initialize(passphrase=passphrases)
    def make(self, passphrase: str) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="silas-vault-"))
        self.path = self.directory / "vault.json"
        self.passphrase = passphrase
        self.model: dict[str, bytes] = {}
        self.handles = [make_vault(self.path, passphrase), reopen(self.path, passphrase)]

    @rule(which=st.integers(0, 1), name=names, value=values)
    def set(self, which: int, name: str, value: bytes) -> None:
        self.handles[which].set(name, value)
        self.model[name] = value

    @rule(which=st.integers(0, 1), name=names)
    def delete(self, which: int, name: str) -> None:
        assert self.handles[which].delete(name) == (self.model.pop(name, None) is not None)

    @rule(which=st.integers(0, 1))
    def open_again(self, which: int) -> None:
        self.handles[which] = reopen(self.path, self.passphrase)

    @rule(which=st.integers(0, 1), passphrase=passphrases)
    def change_passphrase(self, which: int, passphrase: str) -> None:
        self.handles[which].change_key(new_passphrase(passphrase), unsafe_scrypt_n_for_tests=FAST_N)
        self.passphrase = passphrase
        self.handles[1 - which] = reopen(self.path, passphrase)

    @rule()
    def try_a_wrong_passphrase(self) -> None:
        with pytest.raises(WrongKey):
            reopen(self.path, self.passphrase + "!").list()

    @invariant()
    def agrees_with_the_model(self) -> None:
        for handle in getattr(self, "handles", ()):
            assert handle.list() == sorted(self.model)
            assert {name: handle.get(name) for name in handle.list()} == self.model

    def teardown(self) -> None:
        shutil.rmtree(getattr(self, "directory", "/nonexistent"), ignore_errors=True)


TestVaultFile = VaultFile.TestCase
TestVaultFile.settings = settings(max_examples=60, stateful_step_count=20)
