"""The published vectors, file by file: `make docs` writes them, a test compares them."""

import json
from collections.abc import Callable
from typing import Any

from silas.review.attestations import APPROVAL_TYPE, RUN_TYPE, predicate_schemas
from tests.vectors import attestations, chains, documents, signatures, tokens
from tests.vectors.signatures import SIGNER


def _file(cases: Callable[[], list[dict[str, Any]]], **more: str) -> Callable[[], str]:
    def write() -> str:
        return json.dumps({**more, "cases": cases()}, indent=1, sort_keys=True) + "\n"

    return write


def _schema(name: str) -> Callable[[], str]:
    def write() -> str:
        return json.dumps(predicate_schemas()[name], indent=1, sort_keys=True) + "\n"

    return write


_KEY = SIGNER.public.hex()

FILES: dict[str, Callable[[], str]] = {
    "vectors/canonical_json.json": _file(documents.cases),
    "vectors/ed25519.json": _file(signatures.cases),
    "vectors/tokens.json": _file(tokens.token_cases, public_key=_KEY),
    "vectors/proofs.json": _file(tokens.proof_cases, public_key=_KEY),
    "vectors/attestations.json": _file(attestations.cases, public_key=_KEY),
    "vectors/approval-v1.schema.json": _schema(APPROVAL_TYPE),
    "vectors/run-v1.schema.json": _schema(RUN_TYPE),
    "vectors/audit_chains.json": _file(chains.cases, public_key=_KEY),
}
