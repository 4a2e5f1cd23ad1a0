"""The workshop knows what work was made from, whoever opens it."""

from pathlib import Path

from silas.app.ground import OnDemandVault, make_ground
from silas.app.settings import load_settings
from silas.app.workshop import open_workshop
from silas.kernel import TaintLevel
from silas.storage import Transaction
from silas.stream.store import ConversationStore, WorkOrigin
from silas.testing import MemoryVault
from tests.work.shop import task


async def test_work_that_is_resumed_by_hand_keeps_its_taint(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    settings = load_settings(
        data_dir=str(tmp_path / "data"), config_file=None, environ=environ, cwd=tmp_path
    )
    (tmp_path / "data").mkdir()
    vault = MemoryVault()
    async with make_ground(settings, OnDemandVault(lambda: vault)) as ground:
        store = ConversationStore(ground.database, ground.clock)
        origin = WorkOrigin(
            work_item_id="t1", trace_id="trace", scope_id="owner", taint=TaintLevel.EXTERNAL
        )

        def note(tx: Transaction) -> None:
            store.note_work(tx, origin)

        await ground.database.transaction(note)
        assert await open_workshop(ground).bench.taint_of(task()) is TaintLevel.EXTERNAL
        bench, typed = open_workshop(ground).bench, task(id="t2")
        assert await bench.taint_of(typed) is TaintLevel.EXTERNAL, "nobody knows where it is from"
        await store.note_typed([typed, task()], owner_id="owner")
        assert await bench.taint_of(typed) is TaintLevel.OWNER
        assert await bench.taint_of(task()) is TaintLevel.EXTERNAL, "what is known stays"
