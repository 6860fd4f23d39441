"""``satchel.amplihack``: the memory of agents under amplihack's names."""

import asyncio
from pathlib import Path

import pytest

from satchel import aio
from satchel.amplihack import (
    BackendChoice,
    HierarchicalMemory,
    MemoryRuntimeBackend,
    MemorySessionBackend,
    MemoryTreeBackend,
    NewFact,
    SessionLearning,
    open_cleanup_backend,
    open_runtime_backend,
    open_tree_backend,
    resolve_backend_with_autodetect,
    resolve_transfer_backend_choice,
)
from satchel.errors import ClosedError, ConfigError, PathRefusedError


@pytest.mark.parametrize("choice", [BackendChoice.SQLITE, "kuzu"])
def test_the_three_factories_open_the_same_memory(choice: str) -> None:
    """Each backend sees what another one stored; the old name of a backend is accepted."""
    runtime = open_runtime_backend(choice)
    assert isinstance(runtime, MemoryRuntimeBackend)
    said = SessionLearning(session_id="s", agent_id="general", content="a thing that was learned")
    assert runtime.store_session_learning(said)
    assert [one.content for one in runtime.load_prompt_context_memories("new")] == [said.content]
    runtime.close()  # type: ignore[attr-defined]  # the class has it, the protocol does not
    tree = open_tree_backend(choice)
    assert isinstance(tree, MemoryTreeBackend)
    assert tree.collect_agent_counts() == [("general", 1)]
    assert tree.backend_name() == ("graph-db" if choice == "kuzu" else choice)
    tree.close()  # type: ignore[attr-defined]  # idem
    cleanup = open_cleanup_backend(choice)
    assert isinstance(cleanup, MemorySessionBackend)
    assert cleanup.delete_session("s")
    assert cleanup.list_sessions() == []
    cleanup.close()  # type: ignore[attr-defined]  # idem


def test_autodetection_prefers_an_existing_graph_and_refuses_links(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library, the commands and transfers use it; the reference never calls it."""
    assert resolve_backend_with_autodetect() is BackendChoice.SQLITE
    (own_home / "hierarchical_memory" / "ada" / "graph_db").mkdir(parents=True)
    assert resolve_backend_with_autodetect() is BackendChoice.GRAPH_DB
    assert resolve_backend_with_autodetect("ada") is BackendChoice.GRAPH_DB
    assert resolve_backend_with_autodetect("bob") is BackendChoice.SQLITE
    assert resolve_transfer_backend_choice("ada") is BackendChoice.GRAPH_DB
    assert resolve_backend_with_autodetect(backend="sqlite") is BackendChoice.SQLITE
    monkeypatch.setenv("AMPLIHACK_MEMORY_BACKEND", "sqlite")
    assert resolve_transfer_backend_choice("ada") is BackendChoice.SQLITE
    monkeypatch.setenv("AMPLIHACK_MEMORY_BACKEND", "rocksdb")
    with pytest.raises(ConfigError):
        resolve_transfer_backend_choice()
    monkeypatch.delenv("AMPLIHACK_MEMORY_BACKEND")
    (own_home / "hierarchical_memory" / "eve").symlink_to(own_home)
    with pytest.raises(PathRefusedError):
        resolve_backend_with_autodetect()


@pytest.mark.parametrize("backend", ["sqlite", "graph-db"])
def test_facts_and_episodes_are_stored_with_their_links(tmp_path: Path, backend: str) -> None:
    """With the four kinds of links, on each backend."""
    with HierarchicalMemory("ada", storage_path=tmp_path / "agents", backend=backend) as memory:
        episode = memory.store_episode("we looked at the queue", "call", tags=["ops"])
        first = memory.store_knowledge(
            "The queue has 4 workers", "queue", source_id=episode, extraction_method="by hand"
        )
        second = memory.store_many([NewFact(content="The queue has 8 workers", concept="queue")])[0]
        links = {(one.source, one.target, one.kind): one.properties for one in memory.links()}
    assert second.supersedes == [first.id]
    assert set(links) == {
        (first.id, episode, "derives_from"),
        (second.id, first.id, "supersedes"),
        (second.id, first.id, "transitioned_to"),
        (second.id, first.id, "similar_to"),
    }
    similar = links[second.id, first.id, "similar_to"]
    assert similar["metadata"] == {"contradiction": True}
    assert 0.3 < similar["weight"] < 1
    with pytest.raises(ClosedError):
        memory.links()


def test_async_calls_create_the_same_links(tmp_path: Path) -> None:
    """In ``satchel.aio``."""

    async def work() -> list[str]:
        place = tmp_path / "agents"
        async with await aio.HierarchicalMemory.open("ada", storage_path=place) as memory:
            await memory.store_knowledge("The cache is enabled", "cache")
            await memory.store_knowledge("The cache is disabled", "cache")
            return sorted(link.kind for link in await memory.links())

    assert asyncio.run(work()) == ["similar_to", "supersedes", "transitioned_to"]
