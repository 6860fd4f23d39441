"""Sessions: forks compared with durable commits, reads of a long session, bytes per turn."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from benchmarks.measure import Table, best_of, report
from satchel.bank.machine_keys import signing_key
from satchel.bank.open_bank import OpenBank
from satchel.config.settings import load_settings
from satchel.crypto.sealed_records import seal
from satchel.model.records import SessionEvent
from satchel.model.text import Message
from satchel.sessions.branches import fork
from satchel.sessions.queries import messages_of
from satchel.sessions.record import NewSession, begin, record
from satchel.setup.init import open_bank_for_writing

MESSAGES, FORKS, SIZE = 10_000, 1_000, 600
MOST_TIME, MOST_SPACE = 2.0, 1.1
MOST_MEMORY = 16 * 2**20
MOST_TURNS_BYTES = 2_000_000


@contextmanager
def _bank(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenBank]:
    """Open a bank in its own home."""
    monkeypatch.setenv("SATCHEL_HOME", str(folder))
    settings = load_settings()
    with open_bank_for_writing(settings, None, lambda: signing_key(settings)[0]) as bank:
        yield bank


def _messages(count: int) -> list[Message]:
    return [Message(role="user", content=f"turn {n} " + "x" * (SIZE - 10)) for n in range(count)]


def _bytes(bank: OpenBank) -> int:
    with apsw.Connection(bank.settings.store) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Path(bank.settings.store).stat().st_size


def _forks(
    bank: OpenBank, messages: int, forks: int
) -> tuple[dict[str, float], tuple[int, int], int]:
    """Fork a session many times and commit as often; return seconds, sizes and bytes per fork."""
    source = begin(bank, NewSession(name="long"), _messages(messages))
    ids = [one.id for one in messages_of(bank, source.session)]
    before = _bytes(bank)

    def forking() -> None:
        for number in range(forks):
            fork(bank, source.session, at=ids[number * len(ids) // forks])

    forking()
    sizes = (before, _bytes(bank))

    def bare() -> None:
        for number in range(forks):
            draft = SessionEvent(event="fork", session="other", name=str(number))
            bank.ledger.append([seal(draft)])

    return best_of({"fork": forking, "bare": bare}, 2), sizes, len(ids)


def test_forks_are_made_and_a_session_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the measurements below, once, on a small input."""
    with _bank(tmp_path, monkeypatch) as bank:
        seconds, sizes, count = _forks(bank, 60, 20)

    assert seconds.keys() == {"fork", "bare"}
    assert count == 60
    assert sizes[1] >= sizes[0]


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_a_thousand_forks_of_ten_thousand_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At points all over the session, each durable, compared with as many durable commits."""
    with _bank(tmp_path, monkeypatch) as bank:
        seconds, (before, after), _ = _forks(bank, MESSAGES, FORKS)
    ratio, space = seconds["fork"] / seconds["bare"], after / before
    report(
        "session forks",
        Table(
            f"{FORKS:,} forks of a session of {MESSAGES:,} messages",
            ["of bare commits", "space, of before", "bytes a fork"],
            [[ratio, space, (after - before) // FORKS]],
            f"Bounds: {MOST_TIME}, {MOST_SPACE}.",
        ),
    )
    assert ratio <= MOST_TIME
    assert space <= MOST_SPACE


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_ten_thousand_messages_are_read_in_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In order, each verified; and 400 turns take no more than their text."""
    with _bank(tmp_path, monkeypatch) as bank:
        begun = begin(bank, NewSession(name="long"), _messages(MESSAGES))
        session = begin(bank, NewSession(name="turns")).session
        before = _bytes(bank)
        for message in _messages(400):
            record(bank, session, [message])
        turns = _bytes(bank) - before
    with _bank(tmp_path, monkeypatch) as bank:
        sum(1 for _ in messages_of(bank, session))  # made once for each bank
        tracemalloc.start()
        count = sum(1 for _ in messages_of(bank, begun.session))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    report(
        "session reading",
        Table(
            f"{MESSAGES:,} messages of {SIZE} bytes",
            ["peak, bytes", "400 turns, bytes"],
            [[peak, turns]],
            f"Bounds: {MOST_MEMORY:,} and {MOST_TURNS_BYTES:,}.",
        ),
    )
    assert count == MESSAGES
    assert peak <= MOST_MEMORY
    assert turns <= MOST_TURNS_BYTES
