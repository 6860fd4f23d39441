"""Edits by someone who knows the format and has no key: every one is noticed."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from satchel.artifact.encodings import Encoding, sign_statement
from satchel.artifact.verification import Outcome, TrustPolicy
from satchel.artifact.verifier import VerificationRequest, verify_file
from satchel.crypto.keys import SigningKey
from satchel.errors import SatchelError

if TYPE_CHECKING:
    from tests.hostile.conftest import Value

Edit = Callable[["Value", random.Random], None]


def containers(value: Any) -> Iterator[Any]:
    """Yield every object and list inside a value that has something in it."""
    if isinstance(value, dict | list) and value:
        yield value
        for part in value.values() if isinstance(value, dict) else value:
            yield from containers(part)


def other(value: Any, choose: random.Random) -> Any:
    """Return a value that is not the given one, often of the same kind."""
    if isinstance(value, bool) or value is None:
        return choose.choice([not value, 0, "", []])
    if isinstance(value, int | float):
        return choose.choice([value + 1, -value - 1, value + 0.5, str(value), None])
    if isinstance(value, str):
        place = choose.randrange(len(value) + 1)
        return choose.choice(
            [
                value[:place] + choose.choice("aZ09.\u0301\u200b\u202e é") + value[place:],
                value[:place] + value[place + 1 :] if place < len(value) else value + "x",
                value.swapcase() + " ",
                f"{value}\u0000",
                [value],
            ]
        )
    return choose.choice([[value], {"": value}, None, "", 7])


def change_somewhere(root: Any, choose: random.Random) -> None:
    """Change, add, drop, rename or swap something, at any depth."""
    held = choose.choice(list(containers(root)))
    keys = list(held) if isinstance(held, dict) else list(range(len(held)))
    key = choose.choice(keys)
    match choose.randrange(5):
        case 0 | 1:
            held[key] = other(held[key], choose)
        case 2:
            del held[key]
        case 3 if isinstance(held, dict):
            held[choose.choice(["x", "expires_at", "tags", "trust", "critical"])] = "added"
        case 3:
            held.insert(choose.choice(keys), copy.deepcopy(held[key]))
        case _:
            with_key = choose.choice(keys)
            held[key], held[with_key] = held[with_key], held[key]


def in_statement(value: Value, choose: random.Random) -> None:
    """Edit what the signed header says."""
    change_somewhere(value.statement, choose)


def in_record(value: Value, choose: random.Random) -> None:
    """Edit a record and leave its id."""
    change_somewhere(value.sections[choose.choice(list(value.sections))], choose)


def in_sections(value: Value, choose: random.Random) -> None:
    """Move, copy, swap, drop or reorder records and sections."""
    names = list(value.sections)
    one, two = choose.sample(names, 2)
    mine, theirs = value.sections[one], value.sections[two]
    match choose.randrange(5):
        case 0:
            theirs.insert(0, mine.pop())
        case 1:
            theirs.append(copy.deepcopy(choose.choice(mine)))
        case 2:
            value.sections[one], value.sections[two] = theirs, mine
        case 3:
            del value.sections[one]
        case _:
            value.sections[f"{one}x"] = value.sections.pop(one)


def in_signatures(value: Value, choose: random.Random) -> None:
    """Edit the signature, drop it, or replace it with an unknown key's."""
    unknown = SigningKey.from_seed(choose.randbytes(32))
    theirs = msgspec.to_builtins(sign_statement(value.statement, [unknown]))
    match choose.randrange(5):
        case 0:
            value.signatures.clear()
        case 1:
            value.signatures = theirs
        case 2:
            value.signatures[0]["sig"] = theirs[0]["sig"]
        case 3:
            value.signatures[0]["key"] = theirs[0]["key"]
        case _:
            change_somewhere(value.signatures, choose)


def as_a_forger(value: Value, choose: random.Random) -> None:
    """Edit a record, then make its id, the hashes and the counts fit."""
    choose.choice([in_record, in_sections])(value, choose)
    if choose.random() < 0.7:
        for name, records in value.sections.items():
            fitting = [
                value.resealed(record) if isinstance(record, dict) and "id" in record else record
                for record in records
            ]
            value.sections[name] = fitting
    value.restated()
    if choose.random() < 0.5:
        unknown = SigningKey.from_seed(choose.randbytes(32))
        value.signatures = msgspec.to_builtins(sign_statement(value.statement, [unknown]))


def as_a_squatter(value: Value, choose: random.Random) -> None:
    """Give a new record the nonce, the id or the parents of a real one."""
    entries = value.sections["semantic"] + value.sections["episodic"]
    real, name = choose.choice(entries), choose.choice(["id", "nonce", "parent_ids", "created_at"])
    fake = {**choose.choice(entries), "text": f"forged {choose.random()}"}
    fake[name] = real.get(name, "2020-01-01T00:00:00.000000Z")
    value.sections["semantic"].append(fake if choose.random() < 0.5 else value.resealed(fake))
    if choose.random() < 0.5:
        value.restated()


EDITS: list[Edit] = [
    in_statement,
    in_record,
    in_sections,
    in_signatures,
    as_a_forger,
    as_a_squatter,
]


def unnoticed(
    value: Value, path: Path, policy: TrustPolicy, encoding: Encoding, edits: range
) -> list[str]:
    """Make the numbered edits, and return what was done by those that verify as good."""
    original, missed, made = value.encoded(encoding), [], 0
    for number in edits:
        choose = random.Random(number)  # noqa: S311 - repeatable, not secret
        edit, changed = choose.choice(EDITS), copy.deepcopy(value)
        try:
            edit(changed, choose)
            data = changed.encoded(encoding)
        except (SatchelError, AttributeError, ValueError):
            continue  # nothing that could be laid out came of it
        if data == original:
            continue
        made += 1
        path.write_bytes(data)
        try:
            if verify_file(path, policy, VerificationRequest(deep=number % 4 == 0)):
                missed.append(f"{number}: {edit.__name__}")
        except SatchelError:
            continue
    assert made > len(edits) * 0.9, "too many edits came to nothing"
    return missed


@pytest.mark.parametrize("encoding", Encoding)
def test_no_edit_of_entries_or_statement_goes_unnoticed(
    value: Value, scratch: Path, trusting: TrustPolicy, encoding: Encoding
) -> None:
    """Text, numbers, members, order, sections, hashes, signatures: all are covered."""
    assert not unnoticed(value, scratch, trusting, encoding, range(1000))


@pytest.mark.prove
@pytest.mark.parametrize("encoding", Encoding)
def test_none_of_ten_thousand_edits_goes_unnoticed(
    value: Value, scratch: Path, trusting: TrustPolicy, encoding: Encoding
) -> None:
    """The published SDK saw none of 327 outside its entries."""
    assert not unnoticed(value, scratch, trusting, encoding, range(10_000))


@pytest.mark.parametrize("name", ["created_at", "source_agent", "metadata", "scope", "later"])
def test_changing_the_header_breaks_the_signature(
    value: Value, scratch: Path, trusting: TrustPolicy, name: str
) -> None:
    """Every member of the statement is signed, those of later versions too."""
    changed = copy.deepcopy(value)
    changed.statement[name] = {
        "created_at": "2020-01-01T00:00:00.000000Z",
        "scope": {"kind": "filter"},
    }.get(name, {"name": "another"})
    scratch.write_bytes(changed.encoded(Encoding.JSONL))
    assert verify_file(scratch, trusting).outcome is Outcome.TAMPERED


def test_a_file_signed_again_by_an_unknown_key_is_untrusted(
    value: Value, scratch: Path, trusting: TrustPolicy
) -> None:
    """A perfect forgery without the key is still not the owner's word."""
    changed = copy.deepcopy(value)
    changed.sections["semantic"][0] = value.resealed(
        {**changed.sections["semantic"][0], "text": "no"}
    )
    changed.restated()
    unknown = SigningKey.from_seed(b"\1" * 32)
    changed.signatures = msgspec.to_builtins(sign_statement(changed.statement, [unknown]))
    scratch.write_bytes(changed.encoded(Encoding.CBOR))
    assert verify_file(scratch, trusting).outcomes == [Outcome.UNTRUSTED]


def test_an_unknown_signature_beside_the_owners_changes_nothing(
    value: Value, scratch: Path, trusting: TrustPolicy
) -> None:
    """Anyone may add a signature; it must neither help nor harm."""
    changed = copy.deepcopy(value)
    unknown = SigningKey.from_seed(b"\1" * 32)
    added = msgspec.to_builtins(sign_statement(changed.statement, [unknown]))
    changed.signatures = [*added, *changed.signatures]
    scratch.write_bytes(changed.encoded(Encoding.JSON))
    assert verify_file(scratch, trusting).outcome is Outcome.GOOD
