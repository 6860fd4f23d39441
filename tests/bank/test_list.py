"""Lists of memories: order, pages, filters, and earlier states of the bank."""

from typing import Any

import pytest
from bank_kit import keep, texts
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from satchel.bank import listings
from satchel.bank.changes import MemoryEdit, forget, update
from satchel.bank.listings import ListRequest, list_memories
from satchel.bank.memory import Memory
from satchel.bank.open_bank import OpenBank
from satchel.crypto.sealed_records import seal
from satchel.errors import SatchelError, UsageError
from satchel.model.records import Edge, Semantic, Status
from satchel.model.values import now


def list_pages(bank: OpenBank, **wanted: Any) -> list[str | None]:
    """Return the texts of all pages in order."""
    found: list[Memory] = []
    after = wanted.pop("after", None)
    while True:
        page = list_memories(bank, ListRequest(after=after, **wanted))
        assert len(page) <= wanted.get("limit", 50)
        found += page
        assert len(found) <= 1000, "a page begins where the last one began"
        after = page.next
        if after is None:
            return [memory.text for memory in found]
        assert len(page) == wanted.get("limit", 50)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data())
def test_pages_have_each_memory_once_in_order(
    data: st.DataObject, bank: OpenBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For any page size and read-ahead, in both directions."""
    monkeypatch.setattr(listings, "_FIRST_STRETCH", data.draw(st.integers(1, 9)))
    monkeypatch.setattr(listings, "_GROWTH", data.draw(st.integers(1, 3)))
    with bank.ledger.reading() as view:
        there = sum(logged.record.type == "semantic" for logged in view.scan())
    if not there:
        edge = Edge(source="a", target="b", kind="c")
        records = [Semantic(text=str(n), tags=("even",) if n % 2 == 0 else ()) for n in range(40)]
        bank.ledger.append([seal(each) for each in records[:20]])
        bank.ledger.append([seal(edge) for _ in range(30)])
        bank.ledger.append([seal(each) for each in records[20:]])
    limit, tags = data.draw(st.integers(1, 45)), data.draw(st.sampled_from([(), ("even",)]))
    every = [str(n) for n in range(0, 40, 2 if tags else 1)]
    assert list_pages(bank, limit=limit, tags=tags, oldest_first=True) == every
    assert list_pages(bank, limit=limit, tags=tags) == every[::-1]


def test_the_newest_are_listed_first(bank: OpenBank) -> None:
    """Or the oldest on request; a log position continues a list."""
    for number in range(4):
        keep(bank, str(number))
    assert texts(bank) == ["3", "2", "1", "0"]
    first = list_memories(bank, ListRequest(oldest_first=True, limit=2))
    assert ([each.text for each in first], first.next) == (["0", "1"], first.memories[-1].position)
    assert texts(bank, oldest_first=True, after=first.next) == ["2", "3"]
    assert list_memories(bank, ListRequest(limit=4)).next is None
    assert texts(bank, after=0) == []
    assert texts(bank, after=-5) == []
    assert texts(bank, after=10**6) == ["3", "2", "1", "0"]
    assert texts(bank, after=10**6, oldest_first=True) == []


def test_each_filter_selects_matching_memories(bank: OpenBank) -> None:
    """Alone and together."""
    scope = {"user": "u", "agent": "a", "run": "r", "app": "p"}
    keep(bank, "plain")
    keep(
        bank,
        "full",
        type="episodic",
        tags=["t", "s"],
        kind="k",
        key="key",
        scope=scope,
        occurred_at="2020-01-01",
    )
    wanted: dict[str, Any] = {
        "types": ["episodic"],
        "tags": ["t", "s"],
        "kind": "k",
        "key": "key",
        **scope,
        "until": "2020-01-02",
    }
    for name, value in wanted.items():
        assert texts(bank, **{name: value}) == ["full"]
    assert texts(bank, **wanted) == ["full"]
    assert texts(bank, tags=["t", "x"]) == []
    assert texts(bank, since="2020-01-02") == ["plain"]
    assert texts(bank, since="2020-01-01", until="2020-01-01") == []
    assert texts(bank, types=["episodic", "semantic"]) == ["full", "plain"]


def test_retired_expired_and_quarantined_memories_are_listed_on_request(bank: OpenBank) -> None:
    """With their states."""
    old = keep(bank, "old")
    update(bank, old, MemoryEdit(members={"text": "new"}))
    forget(bank, [keep(bank, "gone")])
    held = keep(bank, "held")
    bank.ledger.append([seal(Status(target=held, state="quarantined", at=now()))])
    keep(bank, "past", expires_at="2020-01-01")
    keep(bank, "to come", expires_at="9999-01-01")
    assert texts(bank) == ["to come", "new"]
    found = list_memories(bank, ListRequest(everything=True))
    assert [(each.text, each.state, each.held) for each in found] == [
        ("to come", "current", False),
        ("past", "expired", False),
        ("held", "current", True),
        ("gone", "deleted", False),
        ("new", "current", False),
        ("old", "superseded", False),
    ]


def test_a_list_can_show_an_earlier_state(bank: OpenBank) -> None:
    """Memories have the state that they had then."""
    old = keep(bank, "old")
    with bank.ledger.reading() as view:
        then = view.head.size
    new = update(bank, old, MemoryEdit(members={"text": "new"})).id
    forget(bank, [new])
    keep(bank, "later")
    (memory,) = list_memories(bank, ListRequest(as_of=then))
    assert (memory.text, memory.state) == ("old", "current")
    assert texts(bank, as_of=then + 2) == ["new"]
    assert texts(bank, as_of=then + 3) == []
    assert texts(bank, as_of=0) == []
    assert texts(bank, as_of=10**9) == ["later"]
    states = [
        each.state for each in list_memories(bank, ListRequest(as_of=then + 2, everything=True))
    ]
    assert states == ["current", "superseded"]


def test_expiry_is_judged_by_the_time_of_the_earlier_state(bank: OpenBank) -> None:
    """Not by the current time."""
    moment = "2020-01-01T00:00:00.000000Z"
    made = keep(bank, "for a day", expires_at="2020-01-02")
    bank.ledger._clock = lambda: moment
    keep(bank, "x")
    with bank.ledger.reading() as view:
        then = view.head.size
    keep(bank, "y")
    assert made
    assert texts(bank) == ["y", "x"]
    assert texts(bank, as_of=then) == ["x", "for a day"]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"types": ["dream"]}, "type"),
    ({"types": ["status"]}, "type"),
    ({"since": "soon"}, "since"),
    ({"until": "2026-13-01"}, "until"),
    ({"limit": 0}, "limit"),
    ({"limit": 10_001}, "limit"),
    ({"as_of": -1}, "as_of"),
]


@pytest.mark.parametrize(("wanted", "field"), WRONG, ids=range(len(WRONG)))
def test_an_invalid_list_request_is_refused(
    bank: OpenBank, wanted: dict[str, Any], field: str
) -> None:
    """The error names the field."""
    with pytest.raises(SatchelError) as raised:
        texts(bank, **wanted)
    assert (type(raised.value), raised.value.field) == (UsageError, field)


def test_list_returns_every_field_of_a_memory(bank: OpenBank) -> None:
    """Also members of its type, unknown members, and its origin."""
    keep(
        bank,
        "x",
        type="semantic",
        subject="s",
        novel=[1],
        entities=[{"name": "Ada"}],
        sources=[{"kind": "message", "id": "m1"}],
        origin={"provider": "mem0", "id": "7"},
    )
    (memory,) = list_memories(bank, ListRequest())
    assert memory.members == {
        "subject": "s",
        "novel": [1],
        "entities": [{"name": "Ada"}],
        "sources": [{"kind": "message", "id": "m1"}],
    }
    assert memory.origin is not None
    assert (memory.origin.provider, memory.key) == ("mem0", None)


GISTS: list[tuple[dict[str, Any], str]] = [
    ({"text": "words", "observation": "o"}, "words"),
    ({"type": "episodic", "observation": "seen"}, "seen"),
    ({"subject": "Ada", "predicate": "likes", "object": "tea"}, "Ada likes tea"),
    ({"type": "procedural", "name": "deploy", "description": "how"}, "deploy\nhow"),
    ({"data": {"a": 1}}, '{"a": 1}'),
    ({"type": "identity", "preferences": {"tea": True}}, '{"tea": true}'),
]


@pytest.mark.parametrize(("members", "gist"), GISTS, ids=range(len(GISTS)))
def test_the_text_of_a_memory_is_taken_from_its_members(
    bank: OpenBank, members: dict[str, Any], gist: str
) -> None:
    """For each type."""
    keep(bank, **{"text": None, **members})
    (memory,) = list_memories(bank, ListRequest())
    assert memory.text == gist


@pytest.mark.parametrize("text", ["\ud800", "\0", '"', "\\", "\x1b", "é", "🫖", "a\u2028"])
def test_tags_and_keys_of_any_text_select_exact_matches(bank: OpenBank, text: str) -> None:
    """A text that no memory can have matches none."""
    keep(bank, "other", tags=["x"], key="x")
    wanted = []
    if text != "\ud800":
        keep(bank, "it", tags=["y", text], key=text)
        wanted = ["it"]
    keep(bank, text if wanted else "z", metadata={"said": text if wanted else ""})
    assert texts(bank, tags=[text]) == wanted
    assert texts(bank, key=text) == wanted
    assert texts(bank, key=text, oldest_first=True) == wanted
