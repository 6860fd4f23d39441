"""Links that are made as facts are stored: the same on every store, chains in order."""

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


def workers(count: int, day: int = 1, **more: object) -> NewFact:
    """Return what is known of a queue on some day."""
    said = f"The deployment uses {count} queue workers"
    made = f"2026-01-{day:02d}"
    return NewFact(content=said, concept="queue workers", created_at=made, **more)  # type: ignore[arg-type]


def chain(bank: OpenBank, kind: str = "supersedes") -> list[tuple[str, str]]:
    """Return the numbers that the current edges of a kind lead from and to."""
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


def similar(bank: OpenBank) -> set[tuple[str, str]]:
    """Return the ends of the links that were computed."""
    with bank.ledger.reading() as view:
        return {(link.source, link.target) for link in similar_links(view)}


def test_a_numeric_change_is_followed_in_order_as_a_chain(bank: OpenBank) -> None:
    """4, 8, 12: each takes the place of the one before, no triangle, with what changed."""
    linker = Linker()
    for day, count in enumerate((4, 8), 1):
        store_facts(bank, [workers(count, day)], linker=linker)
    (done,) = store_facts(bank, [workers(12, 3)], linker=linker)
    assert chain(bank) == [("12", "8"), ("8", "4")]
    assert len(done.supersedes) == 1
    assert chain(bank, "transitioned_to") == [("12", "8"), ("8", "4")]
    with bank.ledger.reading() as view:
        edges = [one.model for one in view.scan() if isinstance(one.model, Edge)]
    said = [edge.properties for edge in edges if edge.kind == "transitioned_to"]
    assert [(one["from_value"], one["to_value"], one["turn"]) for one in said] == [
        ("4", "8", 2),
        ("8", "12", 3),
    ]


@given(order=st.permutations([1, 2, 3, 4, 5]), group=st.integers(1, 5), index=st.booleans())
def test_a_chain_is_the_same_in_whatever_order_and_groups_facts_arrive(
    order: Sequence[int], group: int, *, index: bool
) -> None:
    """For all orders: what held later leads to what held right before it, and to nothing else."""
    with pytest.MonkeyPatch.context() as machine:  # each example has a store of its own
        machine.setenv("SATCHEL_STORE", f"{uuid.uuid4().hex}.db")
        bank = bank_of(InMemoryStore(), "ada")
    facts = [
        workers(10 * step, 1 if index else step, metadata={"temporal_index": step} if index else {})
        for step in order
    ]
    for start in range(0, len(facts), group):
        store_facts(bank, facts[start : start + group])
    expected = sorted((str(10 * later), str(10 * (later - 1))) for later in range(2, 6))
    assert chain(bank) == expected
    assert chain(bank, "transitioned_to") == expected


def test_what_was_superseded_can_still_be_recalled(bank: OpenBank) -> None:
    """That it took its place is a guess: no fact is retired by it."""
    done = store_facts(bank, [workers(4), workers(8, 2)])
    with bank.ledger.reading() as view:
        assert all(one.row.retired is None for one in view.get([each.id for each in done]).values())


def test_likeness_is_kept_beside_the_log_and_found_by_every_store(bank: OpenBank) -> None:
    """No record of it; storing at once, and in a new process, gives the same links."""
    before = store_facts(bank, [NewFact(content="Redis caches the sessions of the web shop")])
    after = store_facts(bank, [NewFact(content="Redis caches the sessions of the web portal")])
    store_facts(bank, [NewFact(content="Lunch is at noon")])
    assert similar(bank) == {(after[0].id, before[0].id)}
    with bank.ledger.reading() as view:
        assert "edge" not in view.head.counts


def test_facts_that_came_otherwise_are_compared_with_as_well(bank: OpenBank) -> None:
    """Those stored without links, and by another program, count from the next fact on."""
    first = store_facts(bank, [workers(4)], links=False)
    linker = Linker()
    second = store_facts(bank, [workers(8, 2)], linker=linker)
    third = store_facts(bank, [workers(12, 3)], links=False)
    fourth = store_facts(bank, [workers(16, 4)], linker=linker)
    assert second[0].supersedes == [first[0].id]
    assert fourth[0].supersedes == [third[0].id]


def test_many_facts_that_came_otherwise_are_taken_in_part_by_part(
    bank: OpenBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a large bank takes little memory; what was taken in is not looked at again."""
    monkeypatch.setattr(facts, "CAUGHT_UP", 3)
    done = store_facts(bank, [workers(10 * n, n) for n in range(1, 9)], links=False)
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
    (latest,) = store_facts(bank, [workers(90, 9)], linker=Linker())
    assert latest.supersedes == [done[-1].id]


def test_one_fact_is_compared_with_a_few_however_many_are_alike() -> None:
    """A thousand that say the same cost a thousand times a few comparisons, not a million."""
    bank = bank_of(InMemoryStore(), "ada")
    facts = [NewFact(content=f"alpha beta gamma delta {n % 7} epsilon") for n in range(1000)]
    done = store_facts(bank, facts)
    assert max(each.similar for each in done) <= COMPARED
    with bank.ledger.reading() as view:
        values = view.side(TERMS)
    assert max(map(len, values.values())) < 400


def test_an_erasure_takes_the_words_with_it(bank: OpenBank) -> None:
    """Nothing beside the log tells the words of what was erased; the rest is made again."""
    first, second = store_facts(bank, [workers(4), workers(8, 2)])
    forget(bank, [first.id])
    prune_everything(bank)
    with bank.ledger.reading() as view:
        assert view.side(TERMS) == {}
        assert view.side(SIMILAR) == {}
    (third,) = store_facts(bank, [workers(12, 3)])
    assert third.supersedes == [second.id]


def prune_everything(bank: OpenBank) -> None:
    """Erase what is no longer current."""
    with bank.ledger.reading() as view:
        gone = [one.record.id for one in view.scan() if one.row.retired is not None]
    bank.ledger.append([seal(Erasure(entry=identity)) for identity in gone])


def test_a_fact_names_the_episode_that_it_was_drawn_from(bank: OpenBank) -> None:
    """As its parent; how it was drawn stands in an edge beside that."""
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
def test_a_fact_that_makes_no_sense_stores_nothing(fact: NewFact, error: type[Exception]) -> None:
    """Also of those that came with it."""
    bank = bank_of(InMemoryStore(), "ada")
    with pytest.raises(error):
        store_facts(bank, [NewFact(content="fine"), fact])
    with bank.ledger.reading() as view:
        assert "semantic" not in view.head.counts
