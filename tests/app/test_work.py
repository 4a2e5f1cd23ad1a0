"""The workshop knows what work was made from, whoever opens it."""

from pathlib import Path

from silas.app.core import make_core
from silas.app.work import open_executor
from silas.kernel import TaintLevel
from silas.secrets import OnDemandVault
from silas.settings.load import load_settings
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
    async with make_core(settings, OnDemandVault(lambda: vault)) as core:
        store = ConversationStore(core.database, core.clock)
        origin = WorkOrigin(
            work_item_id="t1", trace_id="trace", scope_id="owner", taint=TaintLevel.EXTERNAL
        )

        def note(tx: Transaction) -> None:
            store.note_work(tx, origin)

        await core.database.transaction(note)
        assert await open_executor(core).context.taint_of(task()) is TaintLevel.EXTERNAL
        bench, typed = open_executor(core).context, task(id="t2")
        assert await bench.taint_of(typed) is TaintLevel.EXTERNAL, "nobody knows where it is from"
        await store.note_typed([typed, task()], owner_id="owner")
        assert await bench.taint_of(typed) is TaintLevel.OWNER
        assert await bench.taint_of(task()) is TaintLevel.EXTERNAL, "what is known stays"


async def test_searches_of_work_count_with_those_of_its_conversation(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "SILAS_LIMITS__WEB_SEARCH_CALLS_PER_MINUTE_PER_SCOPE": "2"}
    settings = load_settings(
        data_dir=str(tmp_path / "data"), config_file=None, environ=environ, cwd=tmp_path
    )
    (tmp_path / "data").mkdir()
    vault = MemoryVault()
    async with make_core(settings, OnDemandVault(lambda: vault)) as core:
        limits = open_executor(core).context.limits
        assert core.searches.take("owner"), "one that the conversation has made"
        assert await limits.too_often(task(), "web_search") is None
        assert "too many searches" in (await limits.too_often(task(), "web_search") or "")
        assert await limits.too_often(task(), "shell_exec") is None, "commands are no searches"
