"""Secrets that somebody has asked the owner for: only these can be written from the page."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from silas.secrets import InvalidSecret, check_name, is_internal
from silas.web.wire import SecureInputRequest


class SecretVault(Protocol):
    """Where secrets go."""

    def set(self, ref_id: str, value: bytes) -> None:
        """Keep it."""
        ...


class SecretState(StrEnum):
    """What became of a request."""

    UNKNOWN = "unknown"
    PENDING = "pending"
    FULFILLED = "fulfilled"


@dataclass
class PendingSecrets:
    """The requests of this process."""

    vault: SecretVault
    _requests: dict[str, SecureInputRequest] = field(default_factory=dict)
    _fulfilled: set[str] = field(default_factory=set)

    def ask(self, request: SecureInputRequest) -> None:
        """Let the owner type it, once; raises `InvalidSecret` for a name of Silas's own."""
        check_name(request.ref_id)
        if is_internal(request.ref_id):
            raise InvalidSecret("This name belongs to Silas itself. Choose another one.")
        self._requests[request.ref_id] = request
        self._fulfilled.discard(request.ref_id)

    def state(self, ref_id: str) -> SecretState:
        """Whether this secret is waited for."""
        if ref_id not in self._requests:
            return SecretState.UNKNOWN
        return SecretState.FULFILLED if ref_id in self._fulfilled else SecretState.PENDING

    def fulfil(self, ref_id: str, value: str) -> None:
        """Keep the secret; it goes nowhere else."""
        self.vault.set(ref_id, value.encode())
        self._fulfilled.add(ref_id)

    def open_requests(self) -> list[SecureInputRequest]:
        """What is waited for."""
        return [each for name, each in self._requests.items() if name not in self._fulfilled]
