"""Links that are created when facts are stored: the same on every store, in order."""

import uuid
from collections.abc import Sequence

import pytest
from agents_kit import bank_of
from hypothesis import given
from hypothesis import strategies as st

from satchel.amplihack import facts
from satchel.amplihack.facts import COMPARED, SIMILAR, TERMS, Linker, similar_links
from satchel.amplihack.hierarchy import NewEpisode, NewFact, store_episode, store_facts
from satchel.bank.changes import forget
from satchel.bank.open_bank import OpenBank
from satchel.crypto.sealed_records import seal
from satchel.errors import EmptyInputError, UnknownMemoryError, UsageError
from satchel.model.records import Edge, Erasure
from satchel.stores.memory import InMemoryStore


def workers_fact(count: int, day: int = 1, **more: object) -> NewFact:
    """Return a fact about the number of workers on a day."""
    said = f"The deployment uses {count} queue workers"
    made = f"2026-01-{day:02d}"
    return NewFact(content=said, concept="queue workers", created_at=made, **more)  # type: ignore[arg-type]


def chain_of(bank: OpenBank, kind: str = "supersedes") -> list[tuple[str, str]]:
    """Return the numbers at both ends of the current edges of a kind."""
    with bank.ledger.reading() as view:
        found = list[tuple[str, str]]()
        for logged in view.scan():
            edge = logged.model
            if isinstance(edge, Edge) and edge.kind == kind and logged.row.retired is None:
                ends = view.get([edge.source, edge.target])
                texts = [ends[one].model.text or "" for one in (edge.source, edge.target)]  # type: ignore[union-attr]
                later, earlier = (text.split()[3] for text in texts)
                found.append((later, earlier))
        return sorted(found)


def similar_pairs(bank: OpenBank) -> set[tuple[str, str]]:
    """Return the ends of the computed similarity links."""
    with bank.ledger.reading() as view:
        return {(link.source, link.target) for link in similar_links(view)}


def test_numeric_changes_form_a_chain_of_supersedes_edges(bank: OpenBank) -> None:
    """4, 8, 12: each fact supersedes the previous one only."""
    linker = Linker()
    for day, count in enumerate((4, 8), 1):
        store_facts(bank, [workers_fact(count, day)], linker=linker)
    (done,) = store_facts(bank, [workers_fact(12, 3)], linker=linker)
    assert chain_of(bank) == [("12", "8"), ("8", "4")]
    assert len(done.supersedes) == 1
    assert chain_of(bank, "transitioned_to") == [("12", "8"), ("8", "4")]
    with bank.ledger.reading() as view:
        edges = [one.model for one in view.scan() if isinstance(one.model, Edge)]
    said = [edge.properties for edge in edges if edge.kind == "transitioned_to"]
    assert [(one["from_value"], one["to_value"], one["turn"]) for one in said] == [
        ("4", "8", 2),
        ("8", "12", 3),
    ]


@given(order=st.permutations([1, 2, 3, 4, 5]), group=st.integers(1, 5), index=st.booleans())
def test_a_chain_does_not_depend_on_the_order_or_batches_of_facts(
    order: Sequence[int], group: int, *, index: bool
) -> None:
    """Each fact supersedes the one right before it in time, and no other."""
    with pytest.MonkeyPatch.context() as machine:  # each example has a store of its own
        machine.setenv("SATCHEL_STORE", f"{uuid.uuid4().hex}.db")
        bank = bank_of(InMemoryStore(), "ada")
    facts = [
        workers_fact(
            10 * step, 1 if index else step, metadata={"temporal_index": step} if index else {}
        )
        for step in order
    ]
    for start in range(0, len(facts), group):
        store_facts(bank, facts[start : start + group])
    expected = sorted((str(10 * later), str(10 * (later - 1))) for later in range(2, 6))
    assert chain_of(bank) == expected
    assert chain_of(bank, "transitioned_to") == expected


def test_superseded_facts_are_not_retired(bank: OpenBank) -> None:
    """The edge is a guess, so recall still returns them."""
    done = store_facts(bank, [workers_fact(4), workers_fact(8, 2)])
    with bank.ledger.reading() as view:
        assert all(one.row.retired is None for one in view.get([each.id for each in done]).values())


def test_similarity_links_are_stored_beside_the_log(bank: OpenBank) -> None:
    """As index data without a record, on every store."""
    before = store_facts(bank, [NewFact(content="Redis caches the sessions of the web shop")])
    after = store_facts(bank, [NewFact(content="Redis caches the sessions of the web portal")])
    store_facts(bank, [NewFact(content="Lunch is at noon")])
    assert similar_pairs(bank) == {(after[0].id, before[0].id)}
    with bank.ledger.reading() as view:
        assert "edge" not in view.head.counts


def test_facts_stored_without_links_are_compared_with_the_next_fact(bank: OpenBank) -> None:
    """Also facts that another program stored."""
    first = store_facts(bank, [workers_fact(4)], links=False)
    linker = Linker()
    second = store_facts(bank, [workers_fact(8, 2)], linker=linker)
    third = store_facts(bank, [workers_fact(12, 3)], links=False)
    fourth = store_facts(bank, [workers_fact(16, 4)], linker=linker)
    assert second[0].supersedes == [first[0].id]
    assert fourth[0].supersedes == [third[0].id]


def test_facts_stored_without_links_are_indexed_in_batches(
    bank: OpenBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory stays bounded, and a fact is indexed once."""
    monkeypatch.setattr(facts, "CAUGHT_UP", 3)
    done = store_facts(bank, [workers_fact(10 * n, n) for n in range(1, 9)], links=False)
    linker = Linker()
    parts = 0
    while True:
        with bank.ledger.reading() as view:
            values = linker.catch_up(view)
        if values is None:
            break
        parts += 1
        with bank.store.writing() as writing:
            writing.put_side(bank.id, values)
    assert parts == 2
    (latest,) = store_facts(bank, [workers_fact(90, 9)], linker=Linker())
    assert latest.supersedes == [done[-1].id]


def test_comparisons_per_fact_are_bounded() -> None:
    """A thousand similar facts cost a few thousand comparisons, not a million."""
    bank = bank_of(InMemoryStore(), "ada")
    facts = [NewFact(content=f"alpha beta gamma delta {n % 7} epsilon") for n in range(1000)]
    done = store_facts(bank, facts)
    assert max(each.similar for each in done) <= COMPARED
    with bank.ledger.reading() as view:
        values = view.side(TERMS)
    assert max(map(len, values.values())) < 400


def test_erasure_removes_indexed_words(bank: OpenBank) -> None:
    """The index has no words of erased facts; it is rebuilt from the others."""
    first, second = store_facts(bank, [workers_fact(4), workers_fact(8, 2)])
    forget(bank, [first.id])
    erase_retired(bank)
    with bank.ledger.reading() as view:
        assert view.side(TERMS) == {}
        assert view.side(SIMILAR) == {}
    (third,) = store_facts(bank, [workers_fact(12, 3)])
    assert third.supersedes == [second.id]


def erase_retired(bank: OpenBank) -> None:
    """Erase all retired records."""
    with bank.ledger.reading() as view:
        gone = [one.record.id for one in view.scan() if one.row.retired is not None]
    bank.ledger.append([seal(Erasure(entry=identity)) for identity in gone])


def test_a_fact_has_its_source_episode_as_parent(bank: OpenBank) -> None:
    """The extraction method is in an edge."""
    episode = store_episode(bank, NewEpisode(content="we talked", source_label="call"), agent="ada")
    plain = NewFact(content="Ada likes tea", source_id=episode)
    told = NewFact(content="Bob likes milk", source_id=episode, extraction_method="by hand")
    done = store_facts(bank, [plain, told], agent="ada")
    with bank.ledger.reading() as view:
        facts = view.get([each.id for each in done])
        edges = [one.model for one in view.scan() if isinstance(one.model, Edge)]
    assert {one.model.parent_ids for one in facts.values()} == {(episode,)}  # type: ignore[union-attr]
    assert [(edge.source, edge.target, edge.kind) for edge in edges] == [
        (done[1].id, episode, "derives_from")
    ]
    assert edges[0].properties == {"extraction_method": "by hand", "confidence": 0.8}


@pytest.mark.parametrize(
    ("fact", "error"),
    [
        (NewFact(content=" "), EmptyInputError),
        (NewFact(content="x", confidence=1.5), UsageError),
        (NewFact(content="x", source_id="blake3:" + "0" * 64), UnknownMemoryError),
        (NewFact(content="x", metadata={"temporal_index": -1}), UsageError),
        (NewFact(content="x", created_at="yesterday"), UsageError),
    ],
)
def test_an_invalid_fact_stores_nothing(fact: NewFact, error: type[Exception]) -> None:
    """Nor are the valid facts of the same call stored."""
    bank = bank_of(InMemoryStore(), "ada")
    with pytest.raises(error):
        store_facts(bank, [NewFact(content="fine"), fact])
    with bank.ledger.reading() as view:
        assert "semantic" not in view.head.counts
