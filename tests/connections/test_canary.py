"""The search for a secret finds it wherever it is put; else an empty result would show nothing."""

import base64

import pytest

from tests.connections.canary import is_in, places_with
from tests.connections.place import CANARY
from tests.web.conftest import fresh_place
from tests.web.place import Place

__all__ = ["fresh_place"]

WRITTEN = {
    "as it is": CANARY,
    "in base64": base64.b64encode(f"me:{CANARY}".encode()).decode(),
    "in hexadecimal": f"x{CANARY.encode().hex()}",
    "backwards": CANARY[::-1],
}


@pytest.mark.parametrize("form", WRITTEN)
def test_a_secret_is_known_in_every_form(form: str) -> None:
    assert is_in(CANARY, f"before {WRITTEN[form]} after")
    assert not is_in(CANARY, "another text", CANARY[:-1])


async def test_a_secret_is_found_in_a_file_a_row_and_the_backup(fresh_place: Place) -> None:
    core = fresh_place.core
    data = core.paths.data_dir
    assert await places_with(CANARY, core, fresh_place.home, data) == []
    (data / "left.txt").write_text(f"password={CANARY}")
    await core.audit.log("leaked", text="x" * 20_000 + CANARY)
    found = await places_with(CANARY, core, fresh_place.home, data)
    assert str(data / "left.txt") in found
    assert any(each.endswith("searched-backup.tar!silas.db:audit_log") for each in found), found
