"""The cache of statuses outside the store: it is trusted only for the same log."""

import apsw
import pytest
from bank_kit import filled, keep

from satchel.admin.bank_health import check_banks
from satchel.bank.changes import forget, restore
from satchel.bank.connections import witness_of
from satchel.bank.listings import ListRequest, list_memories
from satchel.bank.open_bank import OpenBank, open_bank
from satchel.config.settings import load_settings
from satchel.errors import VerificationError
from satchel.ledger import projection
from satchel.ledger.projection import Fold, LogFact
from satchel.ports.rows import Filter


@pytest.fixture(autouse=True)
def small_cache_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cache the statuses of few records."""
    monkeypatch.setattr(projection, "_MANY", 1)


def _edit(sql: str, *values: bytes) -> None:
    connection = apsw.Connection(load_settings().store.removeprefix("sqlite:///"))
    try:
        connection.execute(sql, values)
        assert connection.total_changes() > 0
    finally:
        connection.close()


def _visible(bank: OpenBank) -> list[str]:
    return [memory.id for memory in list_memories(bank, ListRequest())]


def _fill() -> tuple[str, str]:
    """Make a bank with one forgotten memory, and cache the statuses of its log."""
    with filled() as bank:
        stays, gone = keep(bank, "the wombat sleeps"), keep(bank, "a wombat that is forgotten")
        forget(bank, [gone])
    with open_bank(load_settings()) as bank:
        assert _visible(bank) == [stays]
        assert witness_of(load_settings()).fold_path(bank.id).stat().st_mode & 0o777 == 0o600
    return stays, gone


def test_statuses_are_read_once_and_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that opens the bank later reads only the statuses since."""
    stays, gone = _fill()
    taken = list[int]()
    take = Fold.take

    def counted(fold: Fold, facts: list[LogFact], size: int) -> object:
        taken.append(len(facts))
        return take(fold, facts, size)

    monkeypatch.setattr(Fold, "take", counted)
    with open_bank(load_settings()) as bank:
        assert _visible(bank) == [stays]
        assert taken == [0]
    with filled() as bank:
        restore(bank, [gone])
        assert sorted(_visible(bank)) == sorted([stays, gone])
    with open_bank(load_settings()) as bank:
        assert sorted(_visible(bank)) == sorted([stays, gone])


def test_the_log_is_read_when_the_status_cache_is_missing_or_invalid() -> None:
    """The same memories are listed and refused."""
    stays, _ = _fill()
    with open_bank(load_settings()) as bank:
        path = witness_of(load_settings()).fold_path(bank.id)
    remembered = path.read_bytes()
    for cache in (b"", b"nonsense" * 9, remembered[:-1] + b"x", remembered):
        path.write_bytes(cache)
        with open_bank(load_settings()) as bank:
            assert _visible(bank) == [stays]


def test_a_memory_hidden_by_a_reverted_status_is_refused() -> None:
    """It was cached as retired and restored since; its old column does not hide it."""
    _, gone = _fill()
    with filled() as bank:
        restore(bank, [gone])
    _edit("UPDATE record SET retired = 5 WHERE id = ?", bytes.fromhex(gone.removeprefix("blake3:")))
    with open_bank(load_settings()) as bank, pytest.raises(VerificationError):
        _visible(bank)


@pytest.mark.parametrize(
    "edit",
    [
        "DELETE FROM record WHERE type = 'status'",
        "UPDATE record SET type = 'semantic' WHERE type = 'status'",
        "UPDATE record SET body = zeroblob(9) WHERE type = 'status'",
        "UPDATE record SET id = zeroblob(32) WHERE type = 'status'",
        (
            "UPDATE record SET type = CASE type WHEN 'semantic' THEN 'status' ELSE 'semantic' END"
            " WHERE type IN ('semantic', 'status') AND retired IS NULL"
        ),
        "UPDATE record SET retired = NULL",
    ],
)
def test_an_edited_status_cache_restores_nothing_and_is_detected(edit: str) -> None:
    """A forgotten memory stays forgotten, or the bank is refused; ``doctor`` names the bank."""
    stays, _ = _fill()
    _edit(edit)
    try:
        with open_bank(load_settings()) as bank:
            assert _visible(bank) == [stays]
    except VerificationError:
        pass
    assert any(check.state == "problem" for check in check_banks(load_settings()))


def test_a_status_hidden_by_an_edited_type_is_detected() -> None:
    """Statuses not read when the bank was opened are counted by their leaves."""
    statuses = Filter(types=frozenset({"status"}))
    _fill()
    with open_bank(load_settings()) as bank, bank.ledger.reading() as view:
        assert len(list(view.newest(statuses))) == 1
    _edit(
        "UPDATE record SET type = CASE type WHEN 'semantic' THEN 'status' ELSE 'semantic' END"
        " WHERE place IN (SELECT max(place) FROM record WHERE type IN ('semantic', 'status')"
        " GROUP BY type)"
    )
    with open_bank(load_settings()) as bank, bank.ledger.reading() as view:
        for read in (view.newest, view.scan):
            with pytest.raises(VerificationError):
                list(read(statuses))
