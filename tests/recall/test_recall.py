"""Recall: words, filters, moments, validity and budgets, the same in each store."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from recall_kit import Remembering

from satchel.bank.changes import superseding
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import UsageError, VerificationError
from satchel.model.records import (
    Entry,
    Episodic,
    FileVersion,
    Identity,
    Procedural,
    Semantic,
    SessionEvent,
    Status,
    Working,
)
from satchel.model.text import estimated_tokens, memory_text
from satchel.model.values import Origin, Scope
from satchel.recall import engine
from satchel.recall.query import Query
from satchel.stores.memory import InMemoryStore
from satchel.stores.sqlite import SqliteStore

MAY, JUNE, JULY = (f"2026-{month:02}-01T12:00:00.000000Z" for month in (5, 6, 7))


def retirement(record: Any, state: str = "deleted") -> Status:
    """Return a status that retires a record."""
    return Status(target=record.id, state=state)  # type: ignore[arg-type]  # one of them


def test_recall_finds_the_answer_and_gives_reasons(bank: Remembering) -> None:
    """The matched words and a score are returned; stop words are ignored."""
    bank.add(Semantic(text="Ada eats no peanuts"), Semantic(text="the what and the does"))
    (hit,) = bank.ask("What does Ada eat?").hits
    assert hit.entry.text == "Ada eats no peanuts"
    assert hit.terms == ("ada", "eat")
    assert hit.score is not None
    assert hit.score > 0
    assert hit.tokens > 5


@pytest.mark.parametrize(
    ("text", "typed", "terms"),
    [
        ("次の金曜日に会議があります", "金曜日の会議", ("金曜", "曜日", "会議")),
        ("ผมชอบกาแฟร้อน", "กาแฟ", ("กาแฟ",)),
        ("我喜欢喝咖啡和茶", "咖啡", ("咖啡",)),
        ("회의는 세 시입니다", "회의", ("회의",)),
        ("緑茶を飲む", "茶", ("茶",)),
        ("mail ada@example.com today", "ada@example.com", ("ada example com",)),
    ],
)
def test_recall_finds_words_in_any_script(
    bank: Remembering, text: str, typed: str, terms: tuple[str, ...]
) -> None:
    """And returned as they are written."""
    bank.add(Semantic(text=text), Semantic(text="something else"))
    (hit,) = bank.ask(typed).hits
    assert (hit.entry.text, hit.terms) == (text, terms)


def test_recall_without_words_lists_newest_first(bank: Remembering) -> None:
    """Also for punctuation alone; filters apply."""
    bank.add(*(Semantic(text=f"memory {number}", tags=("ab"[number % 2],)) for number in range(40)))
    for text in ("", " ", "?!"):
        assert bank.texts(text, limit=2) == ["memory 39", "memory 38"]
    assert bank.texts(tags=frozenset("a"), limit=2) == ["memory 38", "memory 36"]
    assert bank.ask().hits[0].score is None
    assert len(bank.ask().hits) == 10


def test_a_text_of_stop_words_alone_is_searched_by_them(bank: Remembering) -> None:
    """For "to be", for example; next to other words they are ignored."""
    bank.add(Semantic(text="to be or not to be"), Semantic(text="harbour"))
    assert bank.texts("to be") == ["to be or not to be"]
    assert bank.texts("the harbour to be") == ["harbour"]


FILTERED: list[tuple[dict[str, Any], Entry, Entry]] = [
    ({"components": frozenset({"episodic"})}, Episodic(text="tea"), Semantic(text="tea")),
    (
        {"tags": frozenset({"a", "b"})},
        Semantic(text="tea", tags=("b", "a")),
        Semantic(text="tea", tags=("a",)),
    ),
    (
        {"any_tags": frozenset({"a", "b"})},
        Semantic(text="tea", tags=("b",)),
        Semantic(text="tea", tags=("c",)),
    ),
    ({"since": JUNE}, Semantic(text="tea", created_at=JUNE), Semantic(text="tea", created_at=MAY)),
    ({"until": JUNE}, Semantic(text="tea", created_at=MAY), Semantic(text="tea", created_at=JUNE)),
    (
        {"until": JUNE},
        Semantic(text="tea", occurred_at=MAY, created_at=JULY),
        Semantic(text="tea"),
    ),
    *(
        (
            {name: "ada"},
            Semantic(text="tea", scope=wanted),
            Semantic(text="tea", scope=other),
        )
        for name, wanted, other in (
            ("user", Scope(user="ada"), Scope(agent="ada")),
            ("agent", Scope(agent="ada"), Scope(run="ada")),
            ("run", Scope(run="ada"), Scope(app="ada")),
            ("app", Scope(app="ada"), Scope(user="ada")),
        )
    ),
    (
        {"provider": "mem0"},
        Semantic(text="tea", origin=Origin(provider="mem0")),
        Semantic(text="tea", origin=Origin(provider="letta")),
    ),
    (
        {"source": "work"},
        Semantic(text="tea", origin=Origin(provider="mem0", source="work")),
        Semantic(text="tea", origin=Origin(provider="mem0")),
    ),
]


@pytest.mark.parametrize(
    ("members", "wanted", "other"),
    FILTERED,
    ids=[f"{next(iter(members))}-{number}" for number, (members, _, _) in enumerate(FILTERED)],
)
def test_each_filter_excludes_only_what_it_should(
    bank: Remembering, members: dict[str, Any], wanted: Entry, other: Entry
) -> None:
    """With words and without."""
    bank.add(replace(wanted, kind="wanted"), other)
    for text in ("tea", ""):
        assert [hit.entry.kind for hit in bank.ask(text, **members).hits] == ["wanted"]
        assert len(bank.ask(text).hits) == 2


def test_the_plan_counts_what_each_filter_excluded(bank: Remembering) -> None:
    """It explains why a memory with matching words is missing."""
    bank.add(
        Semantic(text="tea", tags=("own",)),
        Semantic(text="tea"),
        Semantic(text="tea", tags=("own",), valid_until=MAY),
        Semantic(text="tea", tags=("own",), origin=Origin(provider="mem0")),
    )

    assert bank.ask("tea", tags=frozenset({"own"})).plan.excluded == {"tags": 1, "validity": 1}
    assert bank.ask("tea", provider="mem0").plan.excluded == {"provider": 3}
    assert bank.ask("tea", with_expired=True).plan.excluded == {}
    assert bank.ask("tea", trust="user", with_expired=True).plan.excluded.keys() <= {"trust"}


def test_filtered_memories_do_not_use_up_the_candidates(bank: Remembering) -> None:
    """Better matches that a filter excludes do not take the place of others."""
    bank.add(Semantic(text="tea at four o'clock in the garden", tags=("own",)))
    bank.add(*(Semantic(text="tea", scope=Scope(user="bela")) for _ in range(150)))
    assert bank.texts("tea", tags=frozenset({"own"}), limit=1)
    bank.add(Semantic(text="a cup of tea and some sugar beside it", scope=Scope(user="ada")))
    assert bank.texts("tea", user="ada", limit=1)
    found = bank.ask("tea", tags=frozenset({"nobody's"}))
    assert (found.hits, found.complete) == ((), True)


def test_the_search_is_bounded_and_reports_it(
    bank: Remembering, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: a bank full of excluded memories; the answer says that the search stopped."""
    monkeypatch.setattr(engine, "MOST_LOOKED_AT", 30)
    bank.add(Semantic(text="tea", tags=("own",)), *(Semantic(text="tea") for _ in range(40)))
    for text in ("tea", ""):
        found = bank.ask(text, tags=frozenset({"own"}))
        assert (found.hits, found.complete) == ((), False)
        assert bank.ask(text, limit=5).complete


def test_only_memories_are_recalled(bank: Remembering) -> None:
    """Not messages of a conversation, nor deleted or held memories."""
    bank.add(SessionEvent(event="message", session="s", text="tea"))
    deleted, held = bank.add(Semantic(text="tea, deleted"), Semantic(text="tea, held"))
    bank.add(retirement(deleted), retirement(held, "quarantined"), Semantic(text="tea, kept"))
    assert bank.texts("tea") == bank.texts() == ["tea, kept"]
    bank.add(retirement(deleted, "restored"), retirement(held, "released"))
    assert sorted(map(str, bank.texts("tea"))) == ["tea, deleted", "tea, held", "tea, kept"]


@pytest.mark.parametrize("text", ["tea", ""])
def test_validity_is_exact_to_the_microsecond(bank: Remembering, text: str) -> None:
    """From the first moment, before the last; others are returned on request."""
    before, after = JUNE.replace("000000Z", "000001Z"), "2026-06-01T11:59:59.999999Z"
    bank.add(
        Semantic(text="tea 1", valid_from=JUNE),
        Semantic(text="tea 2", valid_until=JUNE),
        Semantic(text="tea 3", expires_at=JUNE),
    )
    assert sorted(map(str, bank.texts(text, moment=after))) == ["tea 2", "tea 3"]
    assert bank.texts(text, moment=JUNE) == ["tea 1"]
    assert bank.texts(text, moment=before) == ["tea 1"]
    assert len(bank.texts(text, with_expired=True, moment=JUNE)) == 3


def test_as_of_a_size_finds_the_memories_of_that_size(bank: Remembering) -> None:
    """Later memories are missing and later retired ones exist, with and without words."""
    old, _ = bank.add(Semantic(text="Ada lives in Accra"), Semantic(text="Bela lives in Accra"))
    size = bank.size()
    bank.add(Semantic(text="Ada lives in Lomé"), retirement(old, "superseded"))
    now, then = ["Ada lives in Lomé"], ["Ada lives in Accra"]
    assert bank.texts("Ada") == now
    assert bank.texts("Ada", as_of=size) == then
    assert sorted(map(str, bank.texts("Accra", as_of=size))) == [*then, "Bela lives in Accra"]
    assert bank.texts("", as_of=size, limit=5) == ["Bela lives in Accra", "Ada lives in Accra"]
    assert bank.ask("Ada", as_of=size).size == size
    assert bank.texts("Ada", as_of=size, user="nobody") == []
    assert bank.texts("", as_of=0) == []
    with pytest.raises(UsageError, match="records") as caught:
        bank.ask("Ada", as_of=bank.size() + 1)
    assert caught.value.field == "as_of"


def test_as_of_a_moment_is_the_log_of_that_moment() -> None:
    """By arrival, the moment included; validity is judged at that moment."""
    arrivals = iter((MAY, MAY, MAY, MAY, JULY))
    bank = Remembering(InMemoryStore(), lambda: next(arrivals))
    bank.add(Semantic(text="tea 1", expires_at=JUNE))
    (second,) = bank.add(Semantic(text="tea 2"))
    bank.add(retirement(second))
    with bank.ledger.reading() as view:
        assert view.size_at("2025-01-01T00:00:00.000000Z") == 0
        assert view.size_at(MAY) == 4
        assert view.size_at(JULY) == view.head.size == 5
    assert sorted(map(str, bank.texts("tea", as_of=MAY))) == ["tea 1", "tea 2"]
    assert bank.texts("tea", as_of="2026-06-01T12:00:00.000001Z") == ["tea 2"]
    assert bank.texts("tea", as_of=JULY) == []


def test_as_of_finds_an_import_that_was_undone(bank: Remembering) -> None:
    """Each of its records once, also those that were deleted individually."""
    from satchel.ledger.transaction import closing_receipt
    from satchel.model.records import Source

    (source,) = bank.add(Source(provider="mem0", format="mem0"))
    first, _ = bank.add(Semantic(text="tea 1"), Semantic(text="tea 2"), batch=source.id)
    before = bank.size()
    bank.ledger.append([closing_receipt(source.id, MAY)])
    size = bank.size()
    bank.add(retirement(first), retirement(source))
    assert bank.texts("tea") == bank.texts("tea", as_of=before) == []
    assert sorted(map(str, bank.texts("tea", as_of=size))) == ["tea 1", "tea 2"]


def test_a_budget_is_filled_in_rank_order_and_nothing_is_cut(bank: Remembering) -> None:
    """A memory that does not fit is omitted whole and counted; a later one may fit."""
    long = "tea " * 200
    bank.add(Semantic(text="tea tea"), Semantic(text=long), Semantic(text="tea and cake"))
    everything = bank.ask("tea")
    assert everything.over_budget == 0
    found = bank.ask("tea", budget=60)
    assert [hit.entry.text for hit in found.hits] == ["tea tea", "tea and cake"]
    assert found.over_budget == 1
    assert sum(hit.tokens for hit in found.hits) <= 60
    exact = sum(hit.tokens for hit in everything.hits)
    assert len(bank.ask("tea", budget=exact).hits) == 3
    assert bank.ask("tea", budget=exact - 1).over_budget == 1


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 1001}, "limit"),
        ({"budget": 0}, "budget"),
        ({"components": frozenset({"dreams"})}, "component"),
        ({"components": frozenset()}, "component"),
        ({"since": "yesterday"}, "since"),
        ({"as_of": -1}, "as_of"),
    ],
)
def test_invalid_queries_are_refused(members: dict[str, Any], field: str) -> None:
    """The error names the member."""
    with pytest.raises(UsageError) as caught:
        Query(**members)
    assert caught.value.field == field


def test_attack_a_query_of_a_mebibyte_works(
    make_bank: Callable[[str], Remembering],
) -> None:
    """Attack: a page pasted as a query; only its first terms count."""
    bank = make_bank("sqlite")
    bank.add(Semantic(text="tea"), Semantic(text="cake"))
    for filler in ("the ", "\0", "茶", '" OR * NEAR(', "🎂\u202e", "zanzibar "):
        assert bank.texts("tea " + filler * (2**20 // len(filler.encode()))) == ["tea"]


@pytest.mark.parametrize(
    "syntax", ['tea" OR cake', "tea*", "terms:tea", "NOT tea", "(tea", "tea NEAR tea", "-tea", '"']
)
def test_attack_operators_of_the_index_are_plain_text(bank: Remembering, syntax: str) -> None:
    """Attack: operators in a query are words, or ignored."""
    bank.add(Semantic(text="tea"), Semantic(text="teapot"))
    assert bank.texts(syntax) == (["teapot", "tea"] if syntax == '"' else ["tea"])


def test_attack_a_text_changed_in_the_store_is_refused(
    make_bank: Callable[[str], Remembering],
) -> None:
    """Attack: another text under the ID of a memory, in the file."""
    bank = make_bank("sqlite")
    bank.add(Semantic(text="Ada is allergic to peanuts"))
    assert isinstance(bank.store, SqliteStore)
    with bank.store.writing() as writing:
        connection = writing._connection
        connection.execute(
            "UPDATE record SET"
            " body = CAST(replace(CAST(body AS TEXT), 'peanuts', 'nothing') AS BLOB)"
            " WHERE type = 'semantic'"
        )
    with pytest.raises(VerificationError):
        bank.ask("peanuts")


WORDS = ["tea", "the", "harbours", "harbour", "次の金曜日", "会議", "茶", "cake", "a.b"]


@given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5), min_size=1, max_size=30),
    st.lists(st.lists(st.sampled_from(WORDS), max_size=4), min_size=1, max_size=3),
    st.sets(st.integers(0, 29), max_size=3),
    st.sampled_from([{}, {"user": "a"}, {"tags": frozenset({"b"})}, {"limit": 2}, {"as_of": 12}]),
)
def test_both_stores_recall_the_same(
    texts: list[list[str]], queries: list[list[str]], gone: set[int], members: dict[str, Any]
) -> None:
    """For all memories and queries: the same memories, in the same order, by the same words."""
    drafts = [
        Semantic(text=" ".join(words), scope=Scope(user="ab"[at % 2]), tags=("bc"[at % 2],))
        for at, words in enumerate(texts)
    ]
    with tempfile.TemporaryDirectory() as folder:
        banks = [Remembering(InMemoryStore()), Remembering(SqliteStore(Path(folder) / "a.db"))]
        for bank in banks:
            records = bank.add(*drafts)
            bank.add(Semantic(text="last"))
            bank.add(*(retirement(records[at]) for at in sorted(gone) if at < len(records)))
        members = (
            {**members, "as_of": min(members["as_of"], banks[0].size())}
            if ("as_of" in members)
            else members
        )
        for words in queries:
            asked = [bank.ask(" ".join(words), **members) for bank in banks]
            found = [[(hit.logged.seq, hit.terms) for hit in one.hits] for one in asked]
            assert sorted(found[0]) == sorted(found[1])
            assert [one.complete for one in asked] == [True, True]
        banks[1].store.close()


def test_every_type_has_a_text_to_show() -> None:
    """A memory without a text is not an empty line."""
    shown = {
        memory_text(Semantic(subject="Ada", predicate="eats", object="rice")): "Ada eats rice",
        memory_text(Procedural(name="brew", body="boil")): "brew\nboil",
        memory_text(Working(goals=("finish", {"a": 1}))): 'finish\n{"a": 1}',
        memory_text(Identity(persona={"tone": "kind"}, policies=("be brief",))): (
            '{"tone": "kind"}\nbe brief'
        ),
        memory_text(Semantic(data=[1, "b"])): '[1, "b"]',
    }
    assert list(shown) == list(shown.values())


def test_the_token_estimate_is_not_too_low_for_any_script() -> None:
    """At least one token per character in Japanese, and a third of one in English."""
    assert estimated_tokens("") == 1
    assert estimated_tokens("茶" * 100) >= 100
    assert 100 / 3 <= estimated_tokens("a" * 100) <= 50
    assert estimated_tokens("🎂") >= 3
    assert estimated_tokens("tea " * 1000) >= 1000


def _version(path: str, text: str | None, number: int) -> Sealed:
    return seal(
        FileVersion(
            path=path,
            text=text,
            action="modified" if text else "deleted",
            actor="agent",
            metadata={"version": number},
        )
    )


def _write(bank: Remembering, path: str, text: str | None, old: Sealed | None = None) -> Sealed:
    """Log a version of a file that replaces the previous one."""
    new = _version(path, text, 1 if old is None else 2)
    gone = [] if old is None else [superseding(old.id, new.id, actor="agent")]
    bank.ledger.append([new, *gone])
    return new


def _paths(bank: Remembering, text: str, as_of: int | None = None) -> list[str]:
    return [hit.file.path for hit in bank.ask(text, files=True, as_of=as_of).files]


def test_recall_finds_current_and_earlier_files(bank: Remembering) -> None:
    """Changed and deleted files, next to memories; only on request."""
    bank.add(Semantic(text="Ada fears lighthouses"))
    plans = _write(bank, "user/plans.md", "First the harbour.\nThen the lighthouse.")
    gone = _write(bank, "gone.md", "the lighthouse keeper")
    then = bank.size()
    _write(bank, "user/plans.md", "First the harbour.\nThen the museum.", plans)
    _write(bank, "gone.md", None, gone)
    assert _paths(bank, "lighthouse") == []
    assert _paths(bank, "museum") == ["user/plans.md"]
    assert sorted(_paths(bank, "lighthouse", as_of=then)) == ["gone.md", "user/plans.md"]
    assert bank.texts("lighthouse", files=True) == ["Ada fears lighthouses"]
    assert bank.ask("museum").files == ()


@pytest.mark.parametrize("budget", [20, 200, 4_000])
def test_files_and_memories_share_a_budget(bank: Remembering, budget: int) -> None:
    """Neither uses the share of the other; what did not fit is counted."""
    bank.add(*(Semantic(text=f"the lighthouse of number {one}") for one in range(20)))
    for one in range(20):
        _write(bank, f"{one}.md", f"the lighthouse keeper of number {one}")
    found = bank.ask("lighthouse", files=True, budget=budget)
    assert found.tokens <= budget
    assert len(found.files) + found.files_over_budget > 0
    assert bool(found.files) is (budget > 20)
