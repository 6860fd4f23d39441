"""Listing banks, and nominating banks for a name."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from hypothesis import example, given
from hypothesis import strategies as st

from satchel.conformance.stores.oracle import (
    AT,
    BANK,
    OTHER,
    Bench,
    StoreSubject,
    bench,
    made_up,
    memory,
)
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import seal
from satchel.model.records import Bank, Config, Semantic
from satchel.ports.rows import bank_name_bytes, derive_row
from satchel.ports.store import Reader, StoredHead

THIRD = "blake3:1" + "3" * 63
"""It has the prefix of ``BANK``."""

_OWNER = SigningKey.from_seed(bytes(32)).did
_HOSTILE = (
    *("", "\0", "a\0b", "' OR 1=1 --", '"', '\\"', '","name":"', "%", "\U0001f600", "e\u0301"),
    *("\u00e9", "\u202e", "\r\n", "\x7f", " a ", "x" * 89, "x" * 90, "x" * 91, "\u91d1" * 200),
)
_NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def _founded(name: str | None) -> Bank:
    return Bank(owner_keys=(_OWNER,), created_at=AT, name=name)


def _renamed(name: str, **payload: str) -> Config:
    return Config(action="renamed", payload={"name": name, **payload}, at=AT)


def _called(name: str) -> Callable[[Reader], list[str]]:
    return lambda reader: reader.named(bank_name_bytes(name))


def _begin(both: Bench, bank: str, name: str) -> None:
    """Start a bank without a head."""
    commit = replace(both.commit(_founded(name), bank=bank), head=StoredHead(b"", made_up(1)))
    both.put(commit, bank)


def test_banks_are_listed_by_id_prefix_up_to_a_limit(
    store: StoreSubject,
) -> None:
    """Sorted; an empty prefix means any; a bank without a head does not count."""
    with bench(store) as both:
        assert both.same(lambda reader: reader.banks(limit=1)) == []
        for bank in (THIRD, OTHER, BANK):
            both.append(memory(1), bank=bank)
        _begin(both, "blake3:1" + "0" * 63, "begun")
        for start in ("", "blake3:", "blake3:1", "blake3:13", BANK, f"{BANK}0", "blake4", "b", "~"):
            for limit in (None, 0, 1, 2, 9):
                found = both.same(partial(_listed, start=start, limit=limit))
                there = [bank for bank in sorted((BANK, OTHER, THIRD)) if bank.startswith(start)]
                assert found == there[:limit]


def _listed(reader: Reader, start: str, limit: int | None) -> list[str]:
    return reader.banks(start, limit=limit)


def _examples(check: Callable[..., None]) -> Callable[..., None]:
    for name in _HOSTILE:
        check = example(name=name)(check)
    return check


@_examples
@given(name=_NAMES)
def test_banks_are_found_by_name(store: StoreSubject, name: str) -> None:
    """In the first row or the configuration, at any position, for any name."""
    with bench(store) as both:
        both.append(_founded(name), memory(1))
        both.append(_founded(f"{name}."), memory(2), bank=OTHER)
        assert both.same(_called(name)) == [BANK]
        assert both.same(_called(f"{name}.")) == [OTHER]
        assert both.same(_called(f"-{name}")) == []
        both.append(_renamed(f"-{name}"), bank=OTHER)
        assert both.same(_called(f"-{name}")) == [OTHER]
        assert both.same(_called(f"{name}.")) == [OTHER]
        both.append(_renamed(name), bank=OTHER)
        assert both.same(_called(name)) == [BANK, OTHER]


def test_a_bank_is_found_by_any_of_its_names(store: StoreSubject) -> None:
    """Deep in a document, before or after another name, in a later record."""
    with bench(store) as both:
        document = {"name": "x", "banks": [{"name": "one"}, {"name": "two"}]}
        both.append(_founded("nobody"), Config(action="settings", payload=document, at=AT))
        both.append(_renamed("three", a="1"), _renamed("four", metadata="2"))
        for name in ("nobody", "x", "one", "two", "three", "four"):
            assert both.same(_called(name)) == [BANK]
        assert both.same(_called("five")) == []


def test_texts_of_memories_name_no_bank(store: StoreSubject) -> None:
    """Nor does the name of a bank without a head, or of a removed one."""
    with bench(store) as both:
        both.append(_founded(None), Semantic(text="x", metadata={"name": "ada"}))
        _begin(both, OTHER, "ada")
        both.append(_founded("ada"), bank=THIRD)
        assert both.same(_called("ada")) == [THIRD]
        for each in (both.oracle, both.store):
            with each.writing() as writing:
                writing.remove(THIRD)
        assert both.same(_called("ada")) == []


def test_a_renamed_bank_is_found_by_its_new_name(store: StoreSubject) -> None:
    """After a repair the rows have another name."""
    with bench(store) as both:
        both.append(_founded("before"), _renamed("then"))
        assert both.same(_called("then")) == [BANK]
        rows = []
        for place, draft in enumerate((_founded("after"), _renamed("now"))):
            record = seal(draft)
            rows.append(derive_row(record.model, seq=place, at=AT, body=record.body))
        for each in (both.oracle, both.store):
            with each.writing() as writing:
                writing.rewrite(BANK, rows)
        for name, banks in (("before", []), ("then", []), ("after", [BANK]), ("now", [BANK])):
            assert both.same(_called(name)) == banks


__all__ = [name for name in dir() if name.startswith("test_")]
