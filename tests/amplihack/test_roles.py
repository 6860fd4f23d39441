"""The three backend roles on every store: sessions, agents, learnings and prompt context."""

from collections.abc import Iterator

import pytest
from agents_kit import bank_of
from bank_kit import keep, owner

from satchel.amplihack.hosts import prompt_context
from satchel.amplihack.roles import (
    AgentMemory,
    MemoryRuntimeBackend,
    MemorySessionBackend,
    MemoryTreeBackend,
    clean,
    matching,
)
from satchel.amplihack.sessions import SessionLearning
from satchel.bank.open_bank import open_bank_in
from satchel.config.settings import load_settings
from satchel.errors import UsageError
from satchel.model.text import PER_MEMORY, estimated_tokens
from satchel.ports.store import Store


@pytest.fixture
def agents(store: Store) -> Iterator[AgentMemory]:
    """The memory of all agents, on each store."""
    with AgentMemory(load_settings(), store, agent="builder", owner=owner) as found:
        yield found


def learning(
    content: str, session: str = "s1", agent: str = "builder", **more: object
) -> SessionLearning:
    """Return a learning of an agent in a session."""
    return SessionLearning(session_id=session, agent_id=agent, content=content, **more)  # type: ignore[arg-type]


def store_learnings(agents: AgentMemory) -> None:
    """Store learnings of two agents in three sessions."""
    for one in (
        learning("The tests need a real PostgreSQL server", memory_type="context"),
        learning("We decided to keep SQLite as the default", memory_type="decision"),
        learning("Redis drops connections after ten minutes idle", session="s2"),
        learning("The reviewer wants small commits", session="test_3", agent="reviewer"),
    ):
        assert agents.store_session_learning(one) is not None


def test_agent_memory_implements_all_three_roles(agents: AgentMemory) -> None:
    """On every store."""
    assert isinstance(agents, MemoryTreeBackend)
    assert isinstance(agents, MemorySessionBackend)
    assert isinstance(agents, MemoryRuntimeBackend)


def test_sessions_are_listed_with_their_memories_and_agents_are_counted(
    agents: AgentMemory,
) -> None:
    """The session with the newest memory first; filtered by session and by type."""
    store_learnings(agents)
    rows = agents.load_session_rows()
    assert [(one.session_id, one.agent_ids, one.memory_count) for one, _ in rows] == [
        ("test_3", ["reviewer"], 1),
        ("s2", ["builder"], 1),
        ("s1", ["builder"], 2),
    ]
    assert agents.collect_agent_counts() == [("builder", 3), ("reviewer", 1)]
    ((only, memories),) = agents.load_session_rows("s1", "decision")
    assert (only.session_id, [one.memory_type for one in memories]) == ("s1", ["decision"])
    assert agents.load_session_rows("nothing") == []
    assert agents.load_session_rows(memory_type="artifact") == []


def test_memories_of_other_interfaces_are_listed_if_they_have_a_session(store: Store) -> None:
    """A run is a session; memories without one are not listed."""
    bank = bank_of(store, "ada")
    keep(bank, "of no session")
    keep(bank, "of a session", scope={"run": "r1"})
    with AgentMemory(load_settings(), store, owner=owner) as agents:
        ((summary, (memory,)),) = agents.load_session_rows()
    assert (summary.session_id, memory.agent_id, memory.memory_type) == ("r1", "ada", "semantic")


def test_the_same_learning_of_several_sessions_is_stored_once(agents: AgentMemory) -> None:
    """Differences in case and spaces are ignored; a different number is another learning."""
    assert agents.store_session_learning(learning("Redis needs 4 GB of memory to start"))
    for session in ("s1", "s2"):
        for text in (
            "Redis needs 4 GB of memory to start",
            "  redis needs 4 GB of  memory to START. ",
        ):
            assert agents.store_session_learning(learning(text, session=session)) is None
    assert agents.store_session_learning(learning("Redis needs 8 GB of memory to start"))
    long = "the {} server of the shop in the cellar needs a new fan, filter, cable, lamp and lock"
    assert agents.store_session_learning(learning(long.format("Berlin")))
    assert agents.store_session_learning(learning(long.format("Madrid")))
    assert agents.store_session_learning(
        learning("Redis needs 4 GB of memory to start", agent="other")
    )


def test_secrets_in_learnings_are_replaced(agents: AgentMemory, store: Store) -> None:
    """The reference stores them unchanged."""
    secret = "ghp_" + "a1B2c3D4e5" * 4
    identity = agents.store_session_learning(learning(f"The deploy token is {secret} for now"))
    bank = open_bank_in(load_settings(), store, "builder")
    with bank.ledger.reading() as view:
        assert secret.encode() not in view.get([str(identity)])[str(identity)].record.body


@pytest.mark.parametrize(
    "wrong",
    [
        {"memory_type": "note"},
        {"importance": 11},
        {"session": " "},
        {"agent": "../x"},
        {"agent": ""},
    ],
)
def test_an_invalid_learning_is_refused(agents: AgentMemory, wrong: dict[str, object]) -> None:
    """Nothing is stored."""
    with pytest.raises(UsageError):
        agents.store_session_learning(learning("a learning that is long enough", **wrong))  # type: ignore[arg-type]
    assert agents.list_sessions() == []


def test_a_learning_below_ten_bytes_is_not_stored(agents: AgentMemory) -> None:
    """It returns None."""
    assert agents.store_session_learning(learning("  ok  ")) is None


def test_a_new_session_gets_the_learnings_of_all_sessions_of_its_agent(agents: AgentMemory) -> None:
    """The reference searches only the new session, which is empty."""
    store_learnings(agents)
    found = agents.load_prompt_context_memories("brand-new", query="redis connections")
    assert [one.session_id for one in found] == ["s2", "s1", "s1"]
    assert "reviewer" not in {one.agent_id for one in found}
    of_reviewer = agents.load_prompt_context_memories("test_3")
    assert [one.agent_id for one in of_reviewer] == ["reviewer"]


def test_prompt_context_skips_a_memory_over_budget_and_tries_the_next(store: Store) -> None:
    """The reference stops at the first memory that does not fit."""
    bank = bank_of(store, "builder")
    long, short = "redis " + "very long story " * 100, "redis is fast"
    keep(bank, long, salience=1.0)
    keep(bank, short)
    budget = estimated_tokens(short) + PER_MEMORY
    found = prompt_context(bank, query="redis", budget=budget)
    assert [one.content for one in found.memories] == [short]
    assert (found.tokens, found.over_budget) == (budget, 1)


def test_clean_forgets_only_the_sessions_that_match(agents: AgentMemory) -> None:
    """Only * and ? are wildcards; case matters."""
    store_learnings(agents)
    agents.store_session_learning(learning("something about brackets", session="test_[x]"))
    assert {one.session_id for one in matching(agents, "test_[x]")} == {"test_[x]"}
    assert {one.session_id for one in matching(agents, "TEST_*")} == set()
    found = matching(agents, "test_?")
    done = clean(agents, "test_?", found)
    assert (done.deleted, done.failed) == (["test_3"], {})
    assert {one.session_id for one in agents.list_sessions()} == {"s1", "s2", "test_[x]"}
    assert agents.load_prompt_context_memories("test_3", query="small commits") == (
        agents.load_prompt_context_memories("other", query="small commits")
    )
    assert not agents.delete_session("test_3")
    assert not agents.delete_session("")
