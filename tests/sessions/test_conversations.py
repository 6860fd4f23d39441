"""Sessions, checkpoints and forks: messages are never lost, and any point can be resumed."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from bank_kit import filled, keep, texts
from sessions_kit import begun, distilled, say, texts_of, turns

from satchel.bank.open_bank import OpenBank, open_bank
from satchel.crypto.sealed_records import seal
from satchel.errors import (
    EmptyInputError,
    LimitError,
    UnknownSessionError,
    UsageError,
    ValueRefusedError,
)
from satchel.ledger.transaction import closing_receipt
from satchel.model.records import Erasure, SessionEvent, Source, Status
from satchel.model.text import Message
from satchel.model.values import now
from satchel.ports.rows import Row
from satchel.recall.query import Query
from satchel.recall.search import recall_for_session
from satchel.sessions import branches
from satchel.sessions import queries as sessions_queries
from satchel.sessions import record as recording
from satchel.sessions.branches import create_checkpoint, fork
from satchel.sessions.chains import tip_of
from satchel.sessions.distillation import distill
from satchel.sessions.queries import diff_sessions, list_sessions, show_session
from satchel.sessions.record import NewSession, begin, record
from satchel.sessions.record import set_state as change
from satchel.stores.sqlite.reader import SqliteView


@pytest.fixture
def bank() -> Iterator[OpenBank]:
    """A bank of this test's home."""
    with filled() as found:
        yield found


def size_of(bank: OpenBank) -> int:
    """Return how many records the log has."""
    with bank.ledger.reading() as view:
        return view.head.size


def bodies(bank: OpenBank) -> list[bytes]:
    """Return the bodies of all records of the log."""
    with bank.ledger.reading() as view:
        return [logged.record.body for logged in view.scan()]


def disk_size(bank: OpenBank) -> int:
    """Return the size of the store on disk, without its write-ahead log."""
    with apsw.Connection(bank.settings.store) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Path(bank.settings.store).stat().st_size


# -- messages -------------------------------------------------------------------------------------


def test_messages_are_returned_with_all_members(bank: OpenBank) -> None:
    """Parts, tool calls, names and times; also a message without text."""
    parts = [{"type": "text", "text": "look"}, {"type": "image", "url": "x"}]
    calls = {"tool_calls": [{"id": "1", "function": {"name": "find", "arguments": "{}"}}]}
    at = "2026-01-02T03:04:05.000000Z"
    said = [
        Message(role="user", content=parts, created_at=at),
        Message(role="assistant", more=calls),
        Message(role="tool", name="find", content="found", more={"tool_call_id": "1"}),
    ]
    session = begin(bank, NewSession(name="talk", agent="helper", user="ada"), said).session
    found = show_session(bank, "talk")
    assert [(one.role, one.name, one.content, one.more) for one in found.messages] == [
        ("user", None, parts, {}),
        ("assistant", None, None, calls),
        ("tool", "find", "found", {"tool_call_id": "1"}),
    ]
    assert found.messages[0].created_at == at
    assert (found.session.id, found.session.agent, found.session.user) == (session, "helper", "ada")


def test_any_prefix_of_a_session_can_be_read(bank: OpenBank) -> None:
    """A point is a message: its number, or its ID."""
    begun(bank, 12)
    every = texts_of(bank, "talk")
    ids = [one.id for one in sessions_queries.messages_of(bank, "talk")]
    for number in range(13):
        assert texts_of(bank, "talk", str(number)) == every[:number]
        assert texts_of(bank, "talk", f"message:{number}") == every[:number]
    for number, identity in enumerate(ids, 1):
        assert texts_of(bank, "talk", identity) == every[:number]
        assert texts_of(bank, "talk", identity[7:27]) == every[:number]
    with pytest.raises(UnknownSessionError):
        texts_of(bank, "talk", "13")


def test_show_returns_the_last_messages_and_counts_the_others(bank: OpenBank) -> None:
    """The number of messages before them is returned."""
    begun(bank, 30)
    found = show_session(bank, "talk", last=3)
    assert [one.number for one in found.messages] == [28, 29, 30]
    assert found.left_out == 27
    assert show_session(bank, "talk", last=0).left_out == 30
    assert len(show_session(bank, "talk", last=1000).messages) == 30


def test_400_turns_take_less_than_two_megabytes(bank: OpenBank) -> None:
    """Added a few at a time; no turn is stored again because another follows."""
    session = begun(bank).session
    before = disk_size(bank)
    said = turns(400, size=590)
    for start in range(0, 400, 5):
        record(bank, session, said[start : start + 5])
    assert sessions_queries.show_session(bank, session).number == 400
    assert disk_size(bank) - before < 2_000_000


def test_many_messages_become_visible_together_or_not_at_all(
    bank: OpenBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than one commit: a message that is refused leaves none of those before it."""
    monkeypatch.setattr(recording, "TOGETHER", 30)
    good = turns(2 * recording.TOGETHER + 7)
    begin(bank, NewSession(name="long"), good)
    assert len(texts_of(bank, "long")) == len(good)
    bad = [*good, Message(role="user", content="x" * (2 << 20))]
    with pytest.raises(LimitError):
        begin(bank, NewSession(name="other"), bad)
    with pytest.raises(LimitError):
        record(bank, "long", bad)
    assert len(texts_of(bank, "long")) == len(good)
    assert [one.name for one in list_sessions(bank)] == ["long"]
    record(bank, "long", turns(100, start=len(good) + 1))
    assert texts_of(bank, "long")[-1] == f"turn {len(good) + 100}"


def test_invalid_messages_are_refused_and_nothing_is_written(bank: OpenBank) -> None:
    """Each with the error that names it."""
    session = begun(bank, 1).session
    size = size_of(bank)
    with pytest.raises(ValueRefusedError):
        record(bank, session, [Message(role="user", content={"n": float("nan")})])
    with pytest.raises(EmptyInputError):
        record(bank, session, [])
    with pytest.raises(UsageError):
        change(bank, session)
    with pytest.raises(UsageError):
        begin(bank, NewSession(name=" "))
    with pytest.raises(UnknownSessionError):
        say(bank, "nobody", "hello")
    assert size_of(bank) == size


def test_concurrent_writers_append_one_after_the_other(bank: OpenBank) -> None:
    """No message is lost, and those of one call stay together."""
    session = begun(bank).session
    start = threading.Barrier(6)

    def add(name: str) -> None:
        start.wait()
        for number in range(5):
            say(bank, session, f"{name} {number} a", f"{name} {number} b")

    threads = [threading.Thread(target=add, args=(f"w{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [str(text) for text in texts_of(bank, session)]
    assert sorted(found) == sorted(
        f"w{w} {n} {p}" for w in range(6) for n in range(5) for p in "ab"
    )
    assert all(one[:-1] == other[:-1] for one, other in zip(found[::2], found[1::2], strict=True))


def test_secrets_are_counted_and_replaced_on_request(bank: OpenBank) -> None:
    """In messages and in the session state."""
    secret = "sk-ant-api03-" + "a1B2" * 23 + "AA"  # shaped like a key, and none
    done = say(bank, begun(bank).session, f"my key is {secret}")
    assert sum(done.secrets.values()) == done.secrets_kept == 1
    scrubbed = begin(
        bank, NewSession(name="s"), [Message(role="user", content=secret)], scrub_secrets=True
    )
    assert scrubbed.secrets_kept == 0
    assert secret not in str(texts_of(bank, "s"))


# -- state ----------------------------------------------------------------------------------------


def test_the_state_of_a_session_can_be_read_at_each_point(bank: OpenBank) -> None:
    """Working state, summary and notes, at every message and in every fork."""
    session = begun(bank, 2).session
    change(bank, session, working_state={"task": 1}, note="first")
    say(bank, session, "third")
    change(bank, session, thread_summary="three", note="second", category="decision")
    change(bank, session, working_state={"task": 2})
    say(bank, session, "fourth")
    seen = {}
    for number in range(5):
        state = show_session(bank, session, at=str(number)).state
        notes = [(note.content, note.category) for note in state.notes]
        seen[number] = (state.working_state, state.thread_summary, notes)
        forked = fork(bank, session, at=str(number)).id
        assert show_session(bank, forked).state == state
    first, second = ("first", "context"), ("second", "decision")
    assert seen == {
        0: (None, None, []),
        1: (None, None, []),
        2: (None, None, []),
        3: ({"task": 1}, None, [first]),
        4: ({"task": 2}, "three", [first, second]),
    }


def test_a_fork_changes_only_its_own_state(bank: OpenBank) -> None:
    """The source keeps its state."""
    session = begun(bank, 2).session
    change(bank, session, working_state="old", note="one")
    forked = fork(bank, session).id
    change(bank, forked, working_state="new", note="two")
    assert show_session(bank, session).state.working_state == "old"
    state = show_session(bank, forked).state
    assert state.working_state == "new"
    assert [note.content for note in state.notes] == ["one", "two"]


# -- forks ----------------------------------------------------------------------------------------


def test_each_of_five_distillations_can_be_forked(bank: OpenBank) -> None:
    """By number, checkpoint or receipt, with the state right after it."""
    session = begun(bank).session
    batches = [[f"I live in town {n}.", f"We decided to go to {n}.", "ok"] for n in range(1, 6)]
    points = distilled(bank, session, batches)
    whole = texts_of(bank, session)
    for number, checkpoint in enumerate(points, 1):
        shown = sessions_queries.list_checkpoints(bank, session)[number - 1]
        assert (shown.id, shown.number) == (checkpoint, 3 * number)
        with bank.ledger.reading() as view:
            receipts = [one.record.value for one in view.scan() if one.record.type == "receipt"]
        receipt = next(r["id"] for r in receipts if r["result"].get("checkpoint") == checkpoint)
        for at in (f"distillation:{number}", checkpoint, checkpoint[7:20], receipt):
            done = fork(bank, session, at=at)
            assert texts_of(bank, done.id) == whole[: 3 * number]
            assert done.messages == 3 * number
            assert done.checkpoint == checkpoint
            summary = show_session(bank, done.id).state.thread_summary or ""
            assert f"town {number}" in summary
            assert f"town {number + 1}" not in summary
    assert texts_of(bank, session) == whole


def test_a_fork_leaves_its_source_unchanged_byte_for_byte(bank: OpenBank) -> None:
    """No record changes, the end of the source stays, and the fork costs one record."""
    session = begun(bank, 9).session
    before = bodies(bank)
    done = fork(bank, session, at="4", name="other")
    after = bodies(bank)
    assert after[:-1] == before
    assert len(after[-1]) < 1_000
    say(bank, done.id, "another way")
    assert bodies(bank)[: len(before)] == before
    assert texts_of(bank, session) == [f"turn {n}" for n in range(1, 10)]
    assert texts_of(bank, done.id) == [*(f"turn {n}" for n in range(1, 5)), "another way"]
    say(bank, session, "on")
    assert texts_of(bank, session)[-1] == "on"
    assert len(texts_of(bank, done.id)) == 5


def test_forks_of_forks_can_start_at_any_message_of_any_ancestor(bank: OpenBank) -> None:
    """Also before the earlier fork; a fork without messages can be forked."""
    session = begun(bank, 4).session
    first = fork(bank, session, at="3", name="a").id
    say(bank, first, "a1", "a2")
    empty = fork(bank, first, name="b").id
    second = fork(bank, empty, at="4", name="c").id
    say(bank, second, "c1")
    third = fork(bank, second, at="2", name="d").id
    say(bank, third, "d1")
    assert texts_of(bank, empty) == ["turn 1", "turn 2", "turn 3", "a1", "a2"]
    assert texts_of(bank, second) == ["turn 1", "turn 2", "turn 3", "a1", "c1"]
    assert texts_of(bank, third) == ["turn 1", "turn 2", "d1"]
    shown = {one.name: (one.depth, one.messages) for one in list_sessions(bank)}
    assert shown == {"talk": (0, 4), "a": (1, 5), "b": (2, 5), "c": (3, 5), "d": (4, 3)}
    numbers = [one.number for one in sessions_queries.messages_of(bank, third)]
    assert numbers == [1, 2, 3]


def test_the_branch_tree_shows_where_each_fork_begins(bank: OpenBank) -> None:
    """Parents before children, oldest first, with the point."""
    session = begun(bank, 5).session
    point = create_checkpoint(bank, session, name="c", at="2")
    late = fork(bank, session, at="4", name="late")
    early = fork(bank, session, at="c", name="early")
    fork(bank, late.id, name="later")
    begun(bank, 1, "alone")
    found = list_sessions(bank)
    assert [one.name for one in found] == ["talk", "late", "later", "early", "alone"]
    origin = found[3].origin
    assert origin is not None
    assert (origin.session, origin.number, origin.checkpoint) == (session, 2, point.id)
    assert found[3].id == early.id


def test_a_fork_keeps_and_counts_later_memories(bank: OpenBank) -> None:
    """They may be right on their own; a fork goes back only in the conversation."""
    session = begun(bank, 2).session
    keep(bank, "before")
    say(bank, session, "third")
    keep(bank, "after one")
    keep(bank, "after two")
    assert fork(bank, session, at="3").memories_later == 2
    assert fork(bank, session, at="2").memories_later == 3
    point = create_checkpoint(bank, session, name="now")
    keep(bank, "after three")
    done = fork(bank, session, at=point.id, memories="as-of")
    assert (done.memories_later, done.memories) == (1, "as-of")
    assert len(texts(bank)) == 4


def test_a_fork_with_hidden_later_memories_recalls_earlier_and_its_own_memories(
    bank: OpenBank,
) -> None:
    """Also replaced versions, and for its forks. Other sessions recall everything."""
    session = begun(bank, 1).session
    keep(bank, "tea is green", key="tea")
    point = create_checkpoint(bank, session)
    keep(bank, "tea is black", key="tea")
    keep(bank, "tea is hot")
    hiding = fork(bank, session, at=point.id, memories="as-of").id
    open_one = fork(bank, session, at=point.id).id
    say(bank, hiding, "I like tea with milk.")
    distill(bank, hiding)
    below = fork(bank, hiding).id

    def recalled(name: str, limit: int | None = None, as_of: int | None = None) -> set[str]:
        answer = recall_for_session(bank, Query(text="tea", limit=limit, as_of=as_of), name)
        return {memory.text for memory in answer.memories}

    assert recalled(hiding) == recalled(below) == {"tea is green", "I like tea with milk."}
    assert {"tea is black", "tea is hot", "I like tea with milk."} <= recalled(open_one)
    assert len(recalled(hiding, limit=1)) == 1
    with pytest.raises(UsageError):
        recalled(hiding, as_of=3)


def test_a_point_of_another_session_is_refused(bank: OpenBank) -> None:
    """A message, a checkpoint, or a message after the point of the fork."""
    one, other = begun(bank, 3, "one").session, begun(bank, 3, "other")
    point = create_checkpoint(bank, other.session, name="elsewhere")
    memory = keep(bank, "a memory")
    forked = fork(bank, one, at="1", name="f").id
    left = [each.id for each in sessions_queries.messages_of(bank, one)][2]
    for at in (other.element, point.id, "elsewhere", memory, "distillation:1", "zzz"):
        with pytest.raises(UnknownSessionError):
            fork(bank, one, at=at)
    with pytest.raises(UnknownSessionError):
        fork(bank, forked, at=left)


def test_duplicate_session_names_are_refused_as_ambiguous(bank: OpenBank) -> None:
    """IDs always work."""
    first = begun(bank, 1, "same").session
    begun(bank, 1, "same")
    with pytest.raises(UsageError, match="2 conversations"):
        show_session(bank, "same")
    for _ in range(2):
        create_checkpoint(bank, first, name="p")
    with pytest.raises(UsageError, match="2 points"):
        fork(bank, first, at="p")


# -- names and archives ---------------------------------------------------------------------------


def test_a_session_is_renamed_and_archived_without_changing_its_messages(
    bank: OpenBank,
) -> None:
    """The last name counts; an archived session is listed on request, and usable."""
    session = begun(bank, 3).session
    branches.rename_session(bank, "talk", "better")
    assert branches.rename_session(bank, "better", "better").name == "better"
    size = size_of(bank)
    branches.rename_session(bank, "better", "better")
    assert size_of(bank) == size
    assert branches.archive_session(bank, "better").archived
    assert not list(list_sessions(bank))
    assert [one.name for one in list_sessions(bank, include_archived=True)] == ["better"]
    say(bank, "better", "still here")
    assert not branches.archive_session(bank, session, restore=True).archived
    assert [one.messages for one in list_sessions(bank)] == [4]


def test_a_diff_shows_where_two_sessions_diverge(bank: OpenBank) -> None:
    """Common messages are the same records, so they are not compared."""
    session = begun(bank, 6).session
    one, other = fork(bank, session, at="4").id, fork(bank, session, at="2").id
    say(bank, one, "x")
    say(bank, other, "y", "z")
    found = diff_sessions(bank, one, other)
    assert (found.common, found.one.messages, found.other.messages) == (2, 3, 2)
    assert [each.content for each in found.one.first] == ["turn 3", "turn 4", "x"]
    assert diff_sessions(bank, session, session).is_same
    change(bank, one, working_state=1)
    assert not diff_sessions(bank, one, one).one.messages
    apart = diff_sessions(bank, session, begun(bank, 1, "alone").session)
    assert (apart.common, apart.at) == (0, None)


# -- what goes ------------------------------------------------------------------------------------


def test_an_erased_or_deleted_message_leaves_only_a_gap(bank: OpenBank) -> None:
    """The conversation continues before and after it, in forks too."""
    session = begun(bank, 3).session
    change(bank, session, note="one")
    change(bank, session, note="two")
    change(bank, session, working_state="w")
    say(bank, session, "fourth", "fifth")
    forked = fork(bank, session, at="4").id
    say(bank, forked, "sixth")
    ids = [one.id for one in sessions_queries.messages_of(bank, session)]
    note = show_session(bank, session).state.notes[1].id
    for gone in (ids[1], ids[3], note):
        bank.ledger.append([seal(Status(target=gone, state="deleted"))])
        bank.ledger.append([seal(Erasure(entry=gone))])
    bank.ledger.append([seal(Status(target=ids[2], state="deleted"))])
    assert texts_of(bank, session) == ["turn 1", "fifth"]
    assert texts_of(bank, forked) == ["turn 1", "sixth"]
    for each in (session, forked):
        state = show_session(bank, each).state
        assert [one.content for one in state.notes] == ["one"]
        assert state.working_state == "w"
    assert [one.number for one in sessions_queries.messages_of(bank, forked)] == [1, 5]
    say(bank, session, "on")
    assert texts_of(bank, session) == ["turn 1", "fifth", "on"]


# -- listings -------------------------------------------------------------------------------------


def test_a_listing_counts_the_same_as_reading_each_session(bank: OpenBank) -> None:
    """Sessions with state, checkpoints and forks; all of them, or the newest."""
    for number in range(5):
        session = begin(bank, NewSession(name=f"s{number}"), turns(number)).session
        if number % 2:
            change(bank, session, working_state={"step": number})
        if number > 1:
            create_checkpoint(bank, session)
            forked = fork(bank, session, at="1")
            record(bank, forked.id, turns(2))
    branches.archive_session(bank, "s0")
    found = list_sessions(bank, include_archived=True)
    with bank.ledger.reading() as view:
        starts = view.get([shown.id for shown in found])
        counts = {identity: tip_of(view, start).number for identity, start in starts.items()}

    assert {shown.id: shown.messages for shown in found} == counts
    assert len(found) == 8
    assert list(list_sessions(bank)) == [shown for shown in found if not shown.archived]
    newest = list_sessions(bank, include_archived=True, limit=3)
    by_log = {shown.id: shown for shown in found}
    assert [shown.messages for shown in newest] == [by_log[one.id].messages for one in newest]
    assert len(newest) == 3
    assert list_sessions(bank, include_archived=True, limit=99) == found
    with pytest.raises(UsageError):
        list_sessions(bank, limit=0)


def test_a_listing_of_the_newest_sessions_reads_only_their_part_of_the_log(
    bank: OpenBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, whatever is before it; later checkpoints and names are included."""
    begun_in_turn = [begin(bank, NewSession(name=f"s{number}"), turns(3)) for number in range(60)]
    session = begun_in_turn[-1].session
    create_checkpoint(bank, session)
    branches.rename_session(bank, session, "the newest")
    rows, asked, scan = list[Row](), list[Any](), SqliteView.scan

    def counted(*args: Any, **more: Any) -> Iterator[Row]:
        asked.append(args)
        for row in scan(*args, **more):
            rows.append(row)
            yield row

    with open_bank(bank.settings, bank.id) as again:
        monkeypatch.setattr(SqliteView, "scan", counted)
        newest = list_sessions(again, limit=4)

    assert [(one.name, one.messages, one.checkpoints) for one in newest] == [
        *[(f"s{number}", 3, 0) for number in (56, 57, 58)],
        ("the newest", 3, 1),
    ]
    # Only of a conversation that ends with something else than a message is the end looked for.
    wanted = [one for _, _, one in asked if "session_event" in (one.types or ())]
    assert [one.session for one in wanted] == [None, session, session]
    # A reader takes a few dozen at once; each conversation has four records.
    assert len([row for row in rows if row.type == "session_event"]) <= 64


def test_a_session_continued_on_another_machine_is_counted_whole(bank: OpenBank) -> None:
    """A later import moves the end, and a diverging branch does not."""
    session = begin(bank, NewSession(name="s"), turns(2)).session
    with bank.ledger.reading() as view:
        tip = tip_of(view, view.get([session])[session])
    following = seal(
        SessionEvent(
            event="message",
            session=session,
            role="user",
            content="from elsewhere",
            parent=tip.element,
            state={"number": 3, "step": 3},
        )
    )
    aside = seal(
        SessionEvent(
            event="message",
            session=session,
            role="user",
            content="another way",
            parent=session,
            state={"number": 1, "step": 1},
        )
    )
    source = seal(Source(provider="x", format="x", at=now()))
    bank.ledger.append([source])
    bank.ledger.append([following, aside], batch=source.id)
    bank.ledger.append([closing_receipt(source.id, now())])

    assert [shown.messages for shown in list_sessions(bank)] == [3]
