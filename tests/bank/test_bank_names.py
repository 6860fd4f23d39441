"""Names of banks: fast to look up in a store with many, and still verified."""

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
NAMES = ("old", "new", "x", "other", "", "ol", 'old"', "\ud800", "nobody")


@pytest.fixture(params=["ladybug", "memory", "postgresql", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store of each backend."""
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


def create_bank_named(store: Store, name: str | None) -> Ledger:
    """Create a bank with a name, even if another one has it."""
    return Ledger.create(store, owner=OWNER, writer=WRITER, name=name)


def rename(ledger: Ledger, name: str, owner: SigningKey = OWNER) -> None:
    """Log a new name for a bank, signed by an owner or by somebody else."""
    ledger.append([rename_record(ledger.bank, name, owner, AT)])


def verified_banks(store: Store, name: str) -> list[str]:
    """Return the banks with a name, by verifying the names of all banks."""
    with store.reading() as reader:
        return [bank for bank in reader.banks() if name_of(reader, bank) == name]


def require_verified_lookup(store: Store) -> None:
    """Require that a lookup equals a full verification, for every name."""
    for name in NAMES:
        assert banks_called(store, name) == verified_banks(store, name), name
    names = BankNames(store)
    assert {name: names.called(name) for name in NAMES} == {
        name: named_banks(store).get(name, []) for name in NAMES
    }


def row_at(store: Store, bank: str, place: int) -> Row:
    """Return a stored row."""
    with store.reading() as reader:
        return reader.at(bank, [place])[0]


def replace_row(store: Store, bank: str, row: Row) -> None:
    """Replace a row without its head, node and signature."""
    with store.writing() as writing:
        writing.rewrite(bank, [row])


def test_a_bank_is_found_by_its_current_name(store: Store) -> None:
    """Not by an old name, nor by one that a key other than an owner's gave it."""
    bank, other = create_bank_named(store, "old"), create_bank_named(store, "other")
    rename(bank, "new")
    rename(other, "x", OUTSIDER)
    assert find_bank(store, "new") == bank.bank
    assert find_bank(store, "other") == other.bank
    for name in ("old", "x", "ne", "new ", '"new"', "\ud800"):
        with pytest.raises(UnknownBankError):
            find_bank(store, name)
    rename(bank, "old")
    assert find_bank(store, "old") == bank.bank
    require_verified_lookup(store)


def test_a_name_can_be_any_text(store: Store) -> None:
    """Quotes, JSON, NUL, other scripts, and long names with the same start."""
    long = ["x" * size for size in (88, 89, 90, 91, 300)] + ["x" * 300 + "y"]
    strange = ['"', '\\"', '","name":"b', '{"name":"b"}', "\0", "金曜日", "e\u0301", "\u00e9", " "]
    banks = {name: create_bank_named(store, name).bank for name in (*long, *strange)}
    assert {name: find_bank(store, name) for name in banks} == banks
    for bank in banks.values():
        ledger = Ledger(store, bank, writer=WRITER)
        rename(ledger, f"{bank[7:17]}.")
    for name, bank in banks.items():
        assert banks_called(store, name) == []
        assert find_bank(store, f"{bank[7:17]}.") == bank


def test_a_name_of_two_banks_is_ambiguous(store: Store) -> None:
    """Until one of them is renamed."""
    one, two, three = (
        create_bank_named(store, "x"),
        create_bank_named(store, "old"),
        create_bank_named(store, "old"),
    )
    rename(two, "x")
    with pytest.raises(UsageError, match="2 banks are named 'x'") as caught:
        find_bank(store, "x")
    assert str(caught.value.hint) == f"Choose one: {', '.join(sorted((one.bank, two.bank)))}"
    assert find_bank(store, "old") == three.bank
    rename(one, "other")
    assert find_bank(store, "x") == two.bank
    require_verified_lookup(store)


def test_the_name_of_a_removed_bank_is_free(store: Store) -> None:
    """Another bank with the name is then found."""
    one, two = create_bank_named(store, "x"), create_bank_named(store, "x")
    with store.writing() as writing:
        writing.remove(one.bank)
    assert find_bank(store, "x") == two.bank
    with store.writing() as writing:
        writing.remove(two.bank)
    assert banks_called(store, "x") == []
    with store.reading() as reader:
        assert not bank_exists(reader, one.bank)


def test_a_bank_is_found_by_its_id_or_a_prefix(store: Store) -> None:
    """A name comes before a prefix."""
    one = create_bank_named(store, None)
    create_bank_named(store, "old")
    digits = one.bank.removeprefix("blake3:")
    for said in (one.bank, digits, digits[:6], f"blake3:{digits[:9]}"):
        assert find_bank(store, said) == one.bank
    for said in (digits[:5], f"{digits[:6]}%", digits[:6].upper() + "G", "blake3:", "' OR 1=1"):
        with pytest.raises(UnknownBankError):
            find_bank(store, said)
    taken = create_bank_named(store, digits[:6])
    assert find_bank(store, digits[:6]) == taken.bank
    with store.reading() as reader:
        assert bank_exists(reader, one.bank)
        assert not any(
            bank_exists(reader, said) for said in (digits, "x", "\0", "blake3:" + "0" * 64)
        )


def _another_body(row: Row, draft: Bank | Config) -> Row:
    body = seal(draft).body
    return derive_row(seal(draft).model, seq=row.seq, at=row.at, body=body)


def _rename_record(bank: str, name: str) -> Config:
    return Config(action="renamed", payload={"bank": bank, "name": name}, at=AT)


def _forge_founding(store: Store, bank: str) -> None:
    row = row_at(store, bank, 0)
    replace_row(
        store, bank, _another_body(row, Bank(owner_keys=(OUTSIDER.did,), created_at=AT, name="x"))
    )


def _edit_founding(store: Store, bank: str) -> None:
    row = row_at(store, bank, 0)
    replace_row(store, bank, replace(row, body=(row.body or b"").replace(b'"old"', b'"x"')))


def _retype_founding(store: Store, bank: str) -> None:
    replace_row(store, bank, replace(row_at(store, bank, 0), type="edge"))


def _empty_founding(store: Store, bank: str) -> None:
    replace_row(store, bank, row_at(store, bank, 0).erased())


def _forge_rename(store: Store, bank: str) -> None:
    replace_row(store, bank, _another_body(row_at(store, bank, 2), _rename_record(bank, "x")))


def _edit_rename(store: Store, bank: str) -> None:
    row = row_at(store, bank, 2)
    replace_row(store, bank, replace(row, body=(row.body or b"").replace(b'"new"', b'"x"')))


def _retype_rename(store: Store, bank: str) -> None:
    replace_row(store, bank, replace(row_at(store, bank, 2), type="edge"))


def _empty_rename(store: Store, bank: str) -> None:
    replace_row(store, bank, row_at(store, bank, 2).erased())


def _garble_rename(store: Store, bank: str) -> None:
    replace_row(store, bank, replace(row_at(store, bank, 2), body=b'\xff{"name":"x"\0'))


def _append_rename(store: Store, bank: str, *, how: str = "config") -> None:
    with store.writing() as writing:
        head = writing.head(bank)
        assert head is not None
        seq = sum(writing.counts(bank).values())
        model = signed_config(_rename_record(bank, "x"), OUTSIDER).model
        row = derive_row(model, seq=seq, at=AT, body=seal(_rename_record(bank, "x")).body)
        writing.append(bank, Commit(rows=[replace(row, type=how)], nodes=[bytes(32)], head=head))


def _remove_signature(store: Store, bank: str) -> None:
    with store.writing() as writing:
        head = writing.head(bank)
        assert head is not None
        writing.append(bank, Commit(rows=[], nodes=[], head=head._replace(signed=b"{}")))


def _remove_head(store: Store, bank: str) -> None:
    with store.writing() as writing:
        head = writing.head(bank)
        assert head is not None
        writing.append(bank, Commit(rows=[], nodes=[], head=head._replace(signed=b"")))


def _add_unlogged_values(store: Store, bank: str) -> None:
    with store.writing() as writing:
        writing.put_side(bank, {"name": b"x", "names": b'{"x": "y"}', "name:x": b"x"})
        writing.put_side("", {"x": bank.encode()})


_ATTACKS: dict[str, Callable[[Store, str], None]] = {
    "founding_record_forged": _forge_founding,
    "founding_record_edited": _edit_founding,
    "founding_record_retyped": _retype_founding,
    "founding_record_emptied": _empty_founding,
    "rename_record_forged": _forge_rename,
    "rename_record_edited": _edit_rename,
    "rename_record_retyped": _retype_rename,
    "rename_record_emptied": _empty_rename,
    "rename_record_garbled": _garble_rename,
    "rename_record_appended": _append_rename,
    "rename_record_appended_with_another_type": partial(_append_rename, how="edge"),
    "head_unsigned": _remove_signature,
    "head_removed": _remove_head,
    "unlogged_values_added": _add_unlogged_values,
}


@pytest.mark.in_check(19)
@pytest.mark.parametrize("attack", _ATTACKS)
def test_attack_a_changed_store_does_not_redirect_a_name(store: Store, attack: str) -> None:
    """A writer to the store gets the result of verifying every bank."""
    bank, other = create_bank_named(store, "old"), create_bank_named(store, "other")
    rename(bank, "new")
    bank.append(memories(3))
    before = {name: verified_banks(store, name) for name in NAMES}
    _ATTACKS[attack](store, bank.bank)
    require_verified_lookup(store)
    assert find_bank(store, "other") == other.bank
    assert banks_called(store, "x") == []
    if attack == "unlogged_values_added":
        assert {name: banks_called(store, name) for name in NAMES} == before


def test_attack_hiding_a_rename_record_does_not_redirect_a_name(store: Store) -> None:
    """Of two banks with one name."""
    one, two = create_bank_named(store, "x"), create_bank_named(store, "old")
    rename(two, "x")
    _retype_rename(store, two.bank)
    require_verified_lookup(store)
    assert find_bank(store, "old") == two.bank  # opening it is then refused
    assert find_bank(store, "x") == one.bank


def test_a_damaged_bank_is_found_by_its_original_name(store: Store) -> None:
    """So that opening it reports the damage."""
    bank = create_bank_named(store, "x")
    bank.append(memories(3))
    with store.writing() as writing:
        writing.put_nodes(bank.bank, 0, [bytes(32)] * 2)
    assert find_bank(store, "x") == bank.bank
    require_verified_lookup(store)


class _UnindexedStore:
    """A store whose index of names is damaged."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.name = inner.name

    @contextmanager
    def reading(self) -> Iterator[Any]:
        with self._inner.reading() as reader:
            yield _UnindexedView(reader)


class _UnindexedView:
    def __init__(self, inner: Reader) -> None:
        self._inner = inner

    def named(self, said: bytes) -> list[str]:
        raise StoreError("a page is damaged")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_without_an_index_of_names_every_bank_is_verified() -> None:
    """Damage to one bank does not hide the others."""
    store = InMemoryStore()
    bank = create_bank_named(store, "x")
    create_bank_named(store, "old")
    failing: Any = _UnindexedStore(store)
    assert find_bank(failing, "x") == bank.bank
    assert banks_called(failing, "nobody") == []


# -- cost -------------------------------------------------------------------------


@pytest.fixture
def proofs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The banks whose names were verified, in order."""
    made = list[str]()
    real = heads.read_bank_name

    def counted(reader: Reader, bank: str) -> str | None:
        made.append(bank)
        return real(reader, bank)

    monkeypatch.setattr(open_bank, "read_bank_name", counted)
    return made


def test_one_lookup_verifies_one_bank(store: Store, proofs: list[str]) -> None:
    """An unknown name verifies none, a name of two banks two."""
    banks = [create_bank_named(store, f"bank {number}").bank for number in range(30)]
    assert find_bank(store, "bank 7") == banks[7]
    assert proofs == [banks[7]]
    proofs.clear()
    assert banks_called(store, "bank 30") == []
    assert find_bank(store, banks[3]) == banks[3]
    assert find_bank(store, banks[3][7:20]) == banks[3]
    assert proofs == []
    twin = create_bank_named(store, "bank 7").bank
    assert banks_called(store, "bank 7") == sorted((twin, banks[7]))
    assert sorted(proofs) == sorted((twin, banks[7]))


def test_many_lookups_verify_each_bank_at_most_twice(proofs: list[str]) -> None:
    """However many names are looked up."""
    store = InMemoryStore()
    banks = {
        f"bank {number}": [create_bank_named(store, f"bank {number}").bank] for number in range(60)
    }
    names = BankNames(store)
    assert {name: names.called(name) for name in banks} == banks
    assert names.called("nobody") == []
    assert len(proofs) < 2 * len(banks)
    assert BankNames(None).called("bank 7") == []


def test_the_witness_opens_only_the_requested_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not those of ten thousand other banks."""
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
