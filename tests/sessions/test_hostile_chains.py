"""Attacks: records that claim an impossible conversation."""

from collections.abc import Iterator
from typing import Any

import pytest
from bank_kit import filled, keep
from sessions_kit import begun, say, texts_of

from satchel.bank.open_bank import OpenBank
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import SatchelError
from satchel.ledger.transaction import closing_receipt
from satchel.model.records import SessionEvent, Source
from satchel.model.text import Message
from satchel.model.values import now
from satchel.sessions.branches import create_checkpoint, fork
from satchel.sessions.drafts import Recorder, about, new_session
from satchel.sessions.elements import Tip
from satchel.sessions.queries import diff_sessions, list_checkpoints, list_sessions, show_session

_NOBODY = "blake3:" + "0" * 64


@pytest.fixture
def bank() -> Iterator[OpenBank]:
    """A bank of this test's home."""
    with filled() as found:
        yield found


def event(kind: str = "message", **members: Any) -> Sealed:
    """Return a record made by other software."""
    return seal(SessionEvent(event=kind, **members))  # type: ignore[arg-type]


def import_records(bank: OpenBank, *records: Sealed) -> None:
    """Import records."""
    source = seal(Source(provider="x", format="x", at=now()))
    bank.ledger.append([source])
    bank.ledger.append(records, batch=source.id)
    bank.ledger.append([closing_receipt(source.id, now())])


def read_everything(bank: OpenBank) -> None:
    """Call every read operation; a refusal must be a typed error."""
    for one in list_sessions(bank, include_archived=True):
        for call in (
            lambda name: show_session(bank, name),
            lambda name: show_session(bank, name, at="1"),
            lambda name: list_checkpoints(bank, name),
            lambda name: diff_sessions(bank, name, name),
            lambda name: fork(bank, name),
            lambda name: create_checkpoint(bank, name),
        ):
            try:
                call(one.id)
            except SatchelError as error:
                assert error.code != "satchel"  # noqa: PT017 - a typed one, each time


def test_parents_that_lead_nowhere_or_to_other_records_end_a_chain(bank: OpenBank) -> None:
    """The ID of nothing, of a memory, the bank or another session; a text that is not an ID."""
    memory, other = keep(bank, "x"), begun(bank, 2, "other")
    session = new_session("s")
    parents = [_NOBODY, memory, bank.id, other.element, "x" * 71, ""]
    records = [
        event(session=session.id, parent=parent, role="user", text=str(n), state={"step": n})
        for n, parent in enumerate(parents)
    ]
    import_records(bank, session, *records)
    read_everything(bank)
    for record in records:
        found = fork(bank, "s", at=record.id)
        assert len(texts_of(bank, found.id)) <= len(records)
    assert texts_of(bank, "other") == ["turn 1", "turn 2"]


_CLAIMS: tuple[Any, ...] = (
    *(None, [], "x", {}, {"step": -1}, {"step": "1"}, {"step": True}, {"number": 1.5}),
    {"step": 2**53 - 1, "number": 2**53 - 1},
    {"step": 0, "state": _NOBODY, "latest": {"note": _NOBODY}},
    {"step": 1, "latest": [1], "note": "x", "working_state": {}, "thread_summary": 3},
    {"as_of": -5, "log": {"size": -1}, "why": 3, "distillation": 7, "memories": []},
    {"as_of": 2**53 - 1, "tip": _NOBODY, "archived": "yes", "state": 5, "checkpoint": 4},
)


@pytest.mark.in_check(2)
@pytest.mark.parametrize("kind", ["message", "session", "checkpoint", "fork"])
def test_claimed_positions_are_not_trusted(bank: OpenBank, kind: str) -> None:
    """Attack: counts and pointers of any kind, in each type of record."""
    real = begun(bank, 2, "real")
    for state in _CLAIMS:
        of_it = [
            event(kind, session=real.session, parent=one, state=state, role="r")
            for one in (None, real.session, real.element)
        ]
        import_records(bank, *of_it, event(kind, parent=real.element, state=state, name="n"))
        assert texts_of(bank, real.session) == ["turn 1", "turn 2"]
    read_everything(bank)
    say(bank, real.session, "third")
    assert texts_of(bank, real.session) == ["turn 1", "turn 2", "third"]


def test_a_cycle_of_parents_ends(bank: OpenBank) -> None:
    """Attack: a message without a parent follows the one before it in the log, which leads back."""
    session = event("session", session="s", name="s")
    free = event(session="s", text="free", role="user")
    turn = event("fork", session="s", parent=free.id, name="f", state={"step": 5, "number": 5})
    back = event(session="s", parent=turn.id, text="back", role="user", state={"step": 9})
    import_records(bank, session, back, turn, free)
    read_everything(bank)
    assert texts_of(bank, "f") == ["free"]


def test_a_message_that_comes_before_its_parent_in_the_log_is_read_after_it(
    bank: OpenBank,
) -> None:
    """A conversation has the order of its chain; an archive may have any other."""
    session = new_session("s")
    recorder = Recorder(Tip(session.id, session.id))
    said = [recorder.message(Message(role="user", content=str(n))) for n in range(30)]
    import_records(bank, *reversed(said), session)
    point = fork(bank, "s", at=said[-1].id, name="f")
    assert texts_of(bank, "f") == [str(n) for n in range(30)]
    assert point.messages == 30


def test_a_diverging_branch_does_not_move_the_end(bank: OpenBank) -> None:
    """Attack, and accident: a copy of the session diverged and is merged."""
    session = begun(bank, 3).session
    tip = Tip(session, show_session(bank, session).messages[1].id, 2, 2)
    elsewhere = Recorder(tip)
    others = [elsewhere.message(Message(role="user", content=f"other {n}")) for n in range(3)]
    import_records(bank, *others)
    assert texts_of(bank, session) == ["turn 1", "turn 2", "turn 3"]
    say(bank, session, "fourth")
    assert texts_of(bank, session) == ["turn 1", "turn 2", "turn 3", "fourth"]
    found = fork(bank, session, at=others[-1].id)
    assert texts_of(bank, found.id) == ["turn 1", "turn 2", "other 0", "other 1", "other 2"]


def test_a_continuation_in_a_copy_moves_the_end(bank: OpenBank) -> None:
    """A copy that only added messages at the end is merged."""
    session = begun(bank, 2)
    elsewhere = Recorder(Tip(session.session, session.element, 2, 2))
    import_records(
        bank, *(elsewhere.message(Message(role="user", content=f"more {n}")) for n in range(2))
    )
    say(bank, session.session, "here again")
    assert texts_of(bank, session.session) == ["turn 1", "turn 2", "more 0", "more 1", "here again"]


def test_an_imported_end_marker_does_not_move_the_end(bank: OpenBank) -> None:
    """Attack: an import says which message is the last."""
    session = begun(bank, 3).session
    first = show_session(bank, session).messages[0].id
    import_records(bank, about(session, session, tip=first))
    assert len(texts_of(bank, session)) == 3


def test_a_message_that_claims_to_be_a_session_is_not_one(bank: OpenBank) -> None:
    """Attack: the bytes of a message contain those of a session."""
    trap = {"event": "session", "x": [{"event": "fork"}, {"event": "checkpoint"}]}
    session = begun(bank, 1).session
    say(bank, session, '"event":"session"')
    import_records(bank, event(session=session, content=trap, role="user"))
    assert [one.name for one in list_sessions(bank)] == ["talk"]


@pytest.mark.prove
def test_a_thousand_forks_of_forks_are_walked_without_recursion(bank: OpenBank) -> None:
    """Attack: arbitrarily deep nesting."""
    session = begun(bank, 2)
    records, element, source = [], session.element, session.session
    for _ in range(1_200):
        made = event(
            "fork", session=source, parent=element, name="f", state={"step": 2, "number": 2}
        )
        records.append(made)
        source = made.id
    bank.ledger.append(records)
    assert texts_of(bank, source) == ["turn 1", "turn 2"]
    assert show_session(bank, source).session.depth == 1_200
    assert len(list_sessions(bank, limit=10_000)) == 1_201
