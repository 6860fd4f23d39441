"""Edits by an attacker without a key who knows the format: all are detected."""

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
    """Yield every non-empty object and list inside a value."""
    if isinstance(value, dict | list) and value:
        yield value
        for part in value.values() if isinstance(value, dict) else value:
            yield from containers(part)


def different(value: Any, choose: random.Random) -> Any:
    """Return a different value, often of the same type."""
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


def random_change(root: Any, choose: random.Random) -> None:
    """Change, add, drop, rename or swap something, at any depth."""
    held = choose.choice(list(containers(root)))
    keys = list(held) if isinstance(held, dict) else list(range(len(held)))
    key = choose.choice(keys)
    match choose.randrange(5):
        case 0 | 1:
            held[key] = different(held[key], choose)
        case 2:
            del held[key]
        case 3 if isinstance(held, dict):
            held[choose.choice(["x", "expires_at", "tags", "trust", "critical"])] = "added"
        case 3:
            held.insert(choose.choice(keys), copy.deepcopy(held[key]))
        case _:
            with_key = choose.choice(keys)
            held[key], held[with_key] = held[with_key], held[key]


def edit_statement(value: Value, choose: random.Random) -> None:
    """Edit the signed header."""
    random_change(value.statement, choose)


def edit_record(value: Value, choose: random.Random) -> None:
    """Edit a record without its ID."""
    random_change(value.sections[choose.choice(list(value.sections))], choose)


def edit_sections(value: Value, choose: random.Random) -> None:
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


def edit_signatures(value: Value, choose: random.Random) -> None:
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
            random_change(value.signatures, choose)


def forge_record(value: Value, choose: random.Random) -> None:
    """Edit a record, then update its ID, the hashes and the counts."""
    choose.choice([edit_record, edit_sections])(value, choose)
    if choose.random() < 0.7:
        for name, records in value.sections.items():
            fitting = [
                value.resealed(record) if isinstance(record, dict) and "id" in record else record
                for record in records
            ]
            value.sections[name] = fitting
    value.update_statement()
    if choose.random() < 0.5:
        unknown = SigningKey.from_seed(choose.randbytes(32))
        value.signatures = msgspec.to_builtins(sign_statement(value.statement, [unknown]))


def squat_record(value: Value, choose: random.Random) -> None:
    """Add a record with the nonce, ID or parents of an existing one."""
    entries = value.sections["semantic"] + value.sections["episodic"]
    real, name = choose.choice(entries), choose.choice(["id", "nonce", "parent_ids", "created_at"])
    fake = {**choose.choice(entries), "text": f"forged {choose.random()}"}
    fake[name] = real.get(name, "2020-01-01T00:00:00.000000Z")
    value.sections["semantic"].append(fake if choose.random() < 0.5 else value.resealed(fake))
    if choose.random() < 0.5:
        value.update_statement()


EDITS: list[Edit] = [
    edit_statement,
    edit_record,
    edit_sections,
    edit_signatures,
    forge_record,
    squat_record,
]


def undetected(
    value: Value, path: Path, policy: TrustPolicy, encoding: Encoding, edits: range
) -> list[str]:
    """Apply the numbered edits, and return those that verify as good."""
    original, missed, made = value.encoded(encoding), [], 0
    for number in edits:
        choose = random.Random(number)  # noqa: S311 - repeatable, not secret
        edit, changed = choose.choice(EDITS), copy.deepcopy(value)
        try:
            edit(changed, choose)
            data = changed.encoded(encoding)
        except (SatchelError, AttributeError, ValueError):
            continue  # the edit cannot be encoded
        if data == original:
            continue
        made += 1
        path.write_bytes(data)
        try:
            if verify_file(path, policy, VerificationRequest(deep=number % 4 == 0)):
                missed.append(f"{number}: {edit.__name__}")
        except SatchelError:
            continue
    assert made > len(edits) * 0.9, "too many edits had no effect"
    return missed


@pytest.mark.in_check(1)
@pytest.mark.parametrize("encoding", Encoding)
def test_every_edit_is_detected(
    value: Value, scratch: Path, trusting: TrustPolicy, encoding: Encoding
) -> None:
    """Text, numbers, members, order, sections, hashes and signatures."""
    assert not undetected(value, scratch, trusting, encoding, range(1000))


@pytest.mark.prove
@pytest.mark.parametrize("encoding", Encoding)
def test_ten_thousand_edits_are_detected(
    value: Value, scratch: Path, trusting: TrustPolicy, encoding: Encoding
) -> None:
    """The published SDK detected none of 327 outside its entries."""
    assert not undetected(value, scratch, trusting, encoding, range(10_000))


@pytest.mark.parametrize("name", ["created_at", "source_agent", "metadata", "scope", "later"])
def test_changing_the_header_breaks_the_signature(
    value: Value, scratch: Path, trusting: TrustPolicy, name: str
) -> None:
    """Every member of the statement is signed, unknown ones included."""
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
    """A consistent forgery without the owner's key."""
    changed = copy.deepcopy(value)
    changed.sections["semantic"][0] = value.resealed(
        {**changed.sections["semantic"][0], "text": "no"}
    )
    changed.update_statement()
    unknown = SigningKey.from_seed(b"\1" * 32)
    changed.signatures = msgspec.to_builtins(sign_statement(changed.statement, [unknown]))
    scratch.write_bytes(changed.encoded(Encoding.CBOR))
    assert verify_file(scratch, trusting).outcomes == [Outcome.UNTRUSTED]


def test_an_additional_unknown_signature_changes_no_verdict(
    value: Value, scratch: Path, trusting: TrustPolicy
) -> None:
    """Anyone may add a signature."""
    changed = copy.deepcopy(value)
    unknown = SigningKey.from_seed(b"\1" * 32)
    added = msgspec.to_builtins(sign_statement(changed.statement, [unknown]))
    changed.signatures = [*added, *changed.signatures]
    scratch.write_bytes(changed.encoded(Encoding.JSON))
    assert verify_file(scratch, trusting).outcome is Outcome.GOOD
