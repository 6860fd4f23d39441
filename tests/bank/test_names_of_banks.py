"""A bank is found by its name in a store with many, and what is told of names is still proved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from ledger_kit import OWNER, WRITER, memories
from msgspec.structs import replace
from postgres_kit import emptying, in_schema, run_sql

from satchel.bank import open_bank
from satchel.bank.open_bank import (
    BankNames,
    bank_exists,
    banks_called,
    find_bank,
    find_by_prefix,
    name_of,
    named_banks,
)
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import seal
from satchel.errors import StoreError, UnknownBankError, UsageError
from satchel.ledger import heads
from satchel.ledger.authority import rename_record, signed_config
from satchel.ledger.ledger import Ledger
from satchel.ledger.witness import Witness
from satchel.ledger.witness_file import WitnessedHead
from satchel.model.records import Bank, Config
from satchel.ports.rows import Row, derive_row
from satchel.ports.store import Commit, Reader, Store
from satchel.stores.ladybug import LadybugStore
from satchel.stores.memory import InMemoryStore
from satchel.stores.postgres import PostgresStore
from satchel.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

AT = "2026-03-01T09:30:00.000001Z"
OUTSIDER = SigningKey.from_seed(b"s" * 32)
SAID = ("old", "new", "x", "other", "", "ol", 'old"', "\ud800", "nobody")


@pytest.fixture(params=["ladybug", "memory", "postgresql", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Each store in turn, empty."""
    made: Store
    if request.param == "postgresql":
        address = request.getfixturevalue("postgres")
        made = PostgresStore(in_schema(address, "names"))
        run_sql(address, emptying("names"))
    elif request.param == "ladybug":
        made = LadybugStore(tmp_path / "graph")
    else:
        made = InMemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "a.db")
    yield made
    made.close()


def founded(store: Store, name: str | None) -> Ledger:
    """Start a bank of a name, whatever others are called."""
    return Ledger.create(store, owner=OWNER, writer=WRITER, name=name)


def renamed(ledger: Ledger, name: str, owner: SigningKey = OWNER) -> None:
    """Log that a bank has another name, as an owner says; or as somebody who is none does."""
    ledger.append([rename_record(ledger.bank, name, owner, AT)])


def proved(store: Store, name: str) -> list[str]:
    """Return the banks that have a name by proving the names of all banks."""
    with store.reading() as reader:
        return [bank for bank in reader.banks() if name_of(reader, bank) == name]


def require_as_proved(store: Store) -> None:
    """Require that every name leads where proving all banks leads."""
    for name in SAID:
        assert banks_called(store, name) == proved(store, name), name
    names = BankNames(store)
    assert {name: names.called(name) for name in SAID} == {
        name: named_banks(store).get(name, []) for name in SAID
    }


def row_at(store: Store, bank: str, place: int) -> Row:
    """Return a row as it is kept."""
    with store.reading() as reader:
        return reader.at(bank, [place])[0]


def put(store: Store, bank: str, row: Row) -> None:
    """Put something else in the place of a row; no head, node or signature goes with it."""
    with store.writing() as writing:
        writing.rewrite(bank, [row])


def test_a_bank_is_found_by_the_name_that_it_has_now(store: Store) -> None:
    """Not by one that it had, nor by one that somebody else than an owner gave it."""
    bank, other = founded(store, "old"), founded(store, "other")
    renamed(bank, "new")
    renamed(other, "x", OUTSIDER)
    assert find_bank(store, "new") == bank.bank
    assert find_bank(store, "other") == other.bank
    for name in ("old", "x", "ne", "new ", '"new"', "\ud800"):
        with pytest.raises(UnknownBankError):
            find_bank(store, name)
    renamed(bank, "old")
    assert find_bank(store, "old") == bank.bank
    require_as_proved(store)


def test_a_name_can_be_any_text(store: Store) -> None:
    """Quotes, what names are written as, NUL, another language, long ones that begin alike."""
    long = ["x" * size for size in (88, 89, 90, 91, 300)] + ["x" * 300 + "y"]
    strange = ['"', '\\"', '","name":"b', '{"name":"b"}', "\0", "金曜日", "e\u0301", "\u00e9", " "]
    banks = {name: founded(store, name).bank for name in (*long, *strange)}
    assert {name: find_bank(store, name) for name in banks} == banks
    for bank in banks.values():
        ledger = Ledger(store, bank, writer=WRITER)
        renamed(ledger, f"{bank[7:17]}.")
    for name, bank in banks.items():
        assert banks_called(store, name) == []
        assert find_bank(store, f"{bank[7:17]}.") == bank


def test_two_banks_of_one_name_are_refused_as_before(store: Store) -> None:
    """However each came by it; when one is called something else, the name is the other's."""
    one, two, three = founded(store, "x"), founded(store, "old"), founded(store, "old")
    renamed(two, "x")
    with pytest.raises(UsageError, match="2 banks are named 'x'") as caught:
        find_bank(store, "x")
    assert str(caught.value.hint) == f"Choose one: {', '.join(sorted((one.bank, two.bank)))}"
    assert find_bank(store, "old") == three.bank
    renamed(one, "other")
    assert find_bank(store, "x") == two.bank
    require_as_proved(store)


def test_a_bank_that_is_removed_leaves_its_name(store: Store) -> None:
    """Nothing remembers it, and another that had the same is meant at once."""
    one, two = founded(store, "x"), founded(store, "x")
    with store.writing() as writing:
        writing.remove(one.bank)
    assert find_bank(store, "x") == two.bank
    with store.writing() as writing:
        writing.remove(two.bank)
    assert banks_called(store, "x") == []
    with store.reading() as reader:
        assert not bank_exists(reader, one.bank)


def test_ids_and_their_first_digits_are_found_as_before(store: Store) -> None:
    """A name comes before digits; text that is no digits is no id."""
    one = founded(store, None)
    founded(store, "old")
    digits = one.bank.removeprefix("blake3:")
    for said in (one.bank, digits, digits[:6], f"blake3:{digits[:9]}"):
        assert find_bank(store, said) == one.bank
    for said in (digits[:5], f"{digits[:6]}%", digits[:6].upper() + "G", "blake3:", "' OR 1=1"):
        with pytest.raises(UnknownBankError):
            find_bank(store, said)
    taken = founded(store, digits[:6])
    assert find_bank(store, digits[:6]) == taken.bank
    with store.reading() as reader:
        assert find_by_prefix(reader, digits[:6]) == [one.bank]
        assert find_by_prefix(reader, "%") == []
        assert bank_exists(reader, one.bank)
        assert not any(
            bank_exists(reader, said) for said in (digits, "x", "\0", "blake3:" + "0" * 64)
        )


def _another_body(row: Row, draft: Bank | Config) -> Row:
    body = seal(draft).body
    return derive_row(seal(draft).model, seq=row.seq, at=row.at, body=body)


def _renaming(bank: str, name: str) -> Config:
    return Config(action="renamed", payload={"bank": bank, "name": name}, at=AT)


def _forged_founding(store: Store, bank: str) -> None:
    row = row_at(store, bank, 0)
    put(store, bank, _another_body(row, Bank(owner_keys=(OUTSIDER.did,), created_at=AT, name="x")))


def _edited_founding(store: Store, bank: str) -> None:
    row = row_at(store, bank, 0)
    put(store, bank, replace(row, body=(row.body or b"").replace(b'"old"', b'"x"')))


def _relabeled_founding(store: Store, bank: str) -> None:
    put(store, bank, replace(row_at(store, bank, 0), type="edge"))


def _emptied_founding(store: Store, bank: str) -> None:
    put(store, bank, row_at(store, bank, 0).erased())


def _forged_renaming(store: Store, bank: str) -> None:
    put(store, bank, _another_body(row_at(store, bank, 2), _renaming(bank, "x")))


def _edited_renaming(store: Store, bank: str) -> None:
    row = row_at(store, bank, 2)
    put(store, bank, replace(row, body=(row.body or b"").replace(b'"new"', b'"x"')))


def _hidden_renaming(store: Store, bank: str) -> None:
    put(store, bank, replace(row_at(store, bank, 2), type="edge"))


def _emptied_renaming(store: Store, bank: str) -> None:
    put(store, bank, row_at(store, bank, 2).erased())


def _garbled_renaming(store: Store, bank: str) -> None:
    put(store, bank, replace(row_at(store, bank, 2), body=b'\xff{"name":"x"\0'))


def _added_renaming(store: Store, bank: str, *, how: str = "config") -> None:
    with store.writing() as writing:
        head = writing.head(bank)
        assert head is not None
        seq = sum(writing.counts(bank).values())
        model = signed_config(_renaming(bank, "x"), OUTSIDER).model
        row = derive_row(model, seq=seq, at=AT, body=seal(_renaming(bank, "x")).body)
        writing.append(bank, Commit(rows=[replace(row, type=how)], nodes=[bytes(32)], head=head))


def _no_signature(store: Store, bank: str) -> None:
    with store.writing() as writing:
        head = writing.head(bank)
        assert head is not None
        writing.append(bank, Commit(rows=[], nodes=[], head=head._replace(signed=b"{}")))


def _taken_head(store: Store, bank: str) -> None:
    with store.writing() as writing:
        head = writing.head(bank)
        assert head is not None
        writing.append(bank, Commit(rows=[], nodes=[], head=head._replace(signed=b"")))


def _values_beside(store: Store, bank: str) -> None:
    with store.writing() as writing:
        writing.put_side(bank, {"name": b"x", "names": b'{"x": "y"}', "name:x": b"x"})
        writing.put_side("", {"x": bank.encode()})


_ATTACKS: dict[str, Callable[[Store, str], None]] = {
    "founding_record_of_another": _forged_founding,
    "name_in_founding_record_changed": _edited_founding,
    "founding_record_under_another_type": _relabeled_founding,
    "founding_record_emptied": _emptied_founding,
    "renaming_put_for_another": _forged_renaming,
    "name_in_renaming_changed": _edited_renaming,
    "renaming_hidden_under_another_type": _hidden_renaming,
    "renaming_emptied": _emptied_renaming,
    "renaming_garbled": _garbled_renaming,
    "renaming_added_behind_the_head": _added_renaming,
    "renaming_added_as_something_else": partial(_added_renaming, how="edge"),
    "head_not_signed": _no_signature,
    "head_taken_away": _taken_head,
    "values_beside_the_log": _values_beside,
}


@pytest.mark.parametrize("attack", _ATTACKS)
def test_an_attack_on_a_name_leads_nowhere_else_than_it_did(store: Store, attack: str) -> None:
    """Attack: whoever can write to the store gets the answer that proving every bank gives."""
    bank, other = founded(store, "old"), founded(store, "other")
    renamed(bank, "new")
    bank.append(memories(3))
    before = {name: proved(store, name) for name in SAID}
    _ATTACKS[attack](store, bank.bank)
    require_as_proved(store)
    assert find_bank(store, "other") == other.bank
    assert banks_called(store, "x") == []
    if attack == "values_beside_the_log":
        assert {name: banks_called(store, name) for name in SAID} == before


def test_hiding_the_second_bank_of_a_name_costs_only_a_full_verification(store: Store) -> None:
    """Attack: two banks are called the same, and the record by which one came to it is hidden."""
    one, two = founded(store, "x"), founded(store, "old")
    renamed(two, "x")
    _hidden_renaming(store, two.bank)
    require_as_proved(store)
    assert find_bank(store, "old") == two.bank  # as which it is then refused by whoever opens it
    assert find_bank(store, "x") == one.bank


def test_a_damaged_bank_is_still_found_by_what_it_was_founded_as(store: Store) -> None:
    """So that whoever opens it is told what is wrong with it."""
    bank = founded(store, "x")
    bank.append(memories(3))
    with store.writing() as writing:
        writing.put_nodes(bank.bank, 0, [bytes(32)] * 2)
    assert find_bank(store, "x") == bank.bank
    require_as_proved(store)


class _Failing:
    """A store in which nobody can look for names: what it says of them is damaged."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.name = inner.name

    @contextmanager
    def reading(self) -> Iterator[Any]:
        with self._inner.reading() as reader:
            yield _View(reader)


class _View:
    def __init__(self, inner: Reader) -> None:
        self._inner = inner

    def named(self, said: bytes) -> list[str]:
        raise StoreError("a page is damaged")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_without_an_index_of_names_every_bank_is_verified() -> None:
    """A damaged page of one bank is not the end of all others."""
    store = InMemoryStore()
    bank = founded(store, "x")
    founded(store, "old")
    failing: Any = _Failing(store)
    assert find_bank(failing, "x") == bank.bank
    assert banks_called(failing, "nobody") == []


# -- what it costs -------------------------------------------------------------------------


@pytest.fixture
def proofs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The banks whose names were proved, in order."""
    made = list[str]()
    real = heads.read_bank_name

    def counted(reader: Reader, bank: str) -> str | None:
        made.append(bank)
        return real(reader, bank)

    monkeypatch.setattr(open_bank, "read_bank_name", counted)
    return made


def test_one_name_of_many_takes_one_proof(store: Store, proofs: list[str]) -> None:
    """And one that nobody has takes none; two of one name take two."""
    banks = [founded(store, f"bank {number}").bank for number in range(30)]
    assert find_bank(store, "bank 7") == banks[7]
    assert proofs == [banks[7]]
    proofs.clear()
    assert banks_called(store, "bank 30") == []
    assert find_bank(store, banks[3]) == banks[3]
    assert find_bank(store, banks[3][7:20]) == banks[3]
    assert proofs == []
    twin = founded(store, "bank 7").bank
    assert banks_called(store, "bank 7") == sorted((twin, banks[7]))
    assert sorted(proofs) == sorted((twin, banks[7]))


def test_many_names_are_looked_up_together(proofs: list[str]) -> None:
    """Each bank is proved a few times at the most, however many names are asked for."""
    store = InMemoryStore()
    banks = {f"bank {number}": [founded(store, f"bank {number}").bank] for number in range(60)}
    names = BankNames(store)
    assert {name: names.called(name) for name in banks} == banks
    assert names.called("nobody") == []
    assert len(proofs) < 2 * len(banks)
    assert BankNames(None).called("bank 7") == []


def test_the_witness_opens_only_the_files_that_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that nobody has is no reason to read what is known of ten thousand banks."""
    store, witness = InMemoryStore(), Witness(tmp_path / "witness")
    banks = [
        Ledger.create(store, owner=OWNER, writer=WRITER, witness=witness).bank for _ in range(20)
    ]
    looked = list[str]()
    real = Witness.last

    def last(self: Witness, bank: str) -> WitnessedHead | None:
        looked.append(bank)
        return real(self, bank)

    monkeypatch.setattr(Witness, "last", last)
    assert witness.banks(banks[5]) == [banks[5]]
    assert witness.knows(banks[6])
    assert not witness.knows("blake3:" + "0" * 64)
    assert not any(map(witness.knows, ("x", "", "blake3:", banks[5][:-1], banks[5] + "\n")))
    assert set(looked) == {banks[5], banks[6], "blake3:" + "0" * 64}
    assert witness.banks() == sorted(banks)
