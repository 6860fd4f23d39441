"""Random edits of a sealed file and of a token, by hand and by a forger: all are detected.

An edit changes one value, as with an editor, and the file stays canonical. A forger also updates
IDs and hashes; without the key, the signature cannot be
updated.
"""

import copy
import random
from collections import Counter
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from token_kit import HOLDER, SEMANTIC, chain_of, child_of

from satchel.artifact.body import COMPONENTS, RECORD_SECTIONS
from satchel.artifact.encodings import Encoding, sign_statement
from satchel.artifact.verification import TrustPolicy
from satchel.artifact.verifier import VerificationRequest, verify_file
from satchel.crypto import key_files
from satchel.crypto.canonical import canonical
from satchel.crypto.encryption import Lock, Unlocker, decrypt, encrypt, new_identity
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import seal
from satchel.crypto.token_chain import open_chain
from satchel.crypto.tokens import payload_value
from satchel.errors import EncryptionError, InputError, MalformedError, TokenError
from satchel.model.records import Edge, Episodic, Semantic, Status, Token
from tests.hostile.conftest import Value

pytestmark = pytest.mark.usefixtures("private_umask")

PARTS = ("entries", "statement", "edges", "status", "tokens")
QUICK, MANY = 60, 2_000
"""Edits of each part in `make check`, and in `make prove`: 10,000 in all."""

Place = tuple[Any, Any]
"""A container and the position of a value in it."""


@pytest.fixture(scope="module")
def sample(key: SigningKey) -> Value:
    """A file with entries, links, statuses and tokens, signed."""
    first = seal(Episodic(text="Tea?", actor="user", salience=0.25, tags=("a", "b")))
    second = seal(Semantic(text="likes tea", parent_ids=(first.id,), confidence=0.9))
    token = chain_of(SEMANTIC).leaf
    records = [
        first,
        second,
        seal(Edge(source=first.id, target=second.id, kind="similar_to", weight=0.5)),
        seal(Status(target=first.id, state="superseded", by=second.id, reason="newer")),
        seal(Status(target=second.id, state="promoted", reason="checked")),
        seal(
            Token(
                payload=payload_value(token.payload), signatures=tuple(token.value()["signatures"])
            )
        ),
    ]
    sections: dict[str, list[Any]] = {}
    for record in records:
        sections.setdefault(RECORD_SECTIONS[record.type], []).append(record.value)
    value = Value({}, [], sections)
    value.statement = {
        "format": "satchel/1",
        "created_at": "2026-01-02T03:04:05.000006Z",
        "scope": {"kind": "full"},
        "source_agent": {"name": "ada's agent", "runtime": "r", "model_family": "m"},
        "metadata": {"why": "test", "numbers": [1, 0.5, None, True]},
    }
    value.update_statement()
    value.signatures = msgspec.to_builtins(sign_statement(value.statement, [key]))
    return value


def leaves(value: Any, holder: Any = None, at: Any = None) -> Iterator[Place]:
    """Yield the position of every plain value, at any depth."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from leaves(part, value, name)
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from leaves(part, value, number)
    elif holder is not None:
        yield holder, at


def _text(found: str, choose: random.Random) -> str:
    if not found:
        return "x"
    at, changes = choose.randrange(len(found)), choose.randrange(4)
    other = chr((ord(found[at]) - 32 + choose.randrange(1, 94)) % 95 + 32)
    return [
        found[:at] + other + found[at + 1 :],
        found[:at] + found[at + 1 :],
        found[:at] + other + found[at:],
        found + " ",
    ][changes]


def edit(part: Any, choose: random.Random) -> None:
    """Change, remove or add one value."""
    holder, at = choose.choice(list(leaves(part)))
    found = holder[at]
    how = choose.randrange(8)
    if how == 0:
        del holder[at]
    elif how == 1 and isinstance(holder, dict):
        holder[f"{at}x"] = holder.pop(at)
    elif how == 2 and isinstance(holder, list):
        holder.insert(choose.randrange(len(holder) + 1), copy.deepcopy(found))
    elif isinstance(found, str):
        holder[at] = _text(found, choose)
    elif isinstance(found, bool) or found is None:
        holder[at] = choose.choice([one for one in (True, False, None, 0) if one is not found])
    else:
        holder[at] = choose.choice([found + 1, -found - 1, found / 2 + 0.125, str(found)])


def edits(sample: Value, part: str, count: int) -> Iterator[tuple[str, Value]]:
    """Yield the sample with one value of a part changed, alternately by hand and by a forger."""
    choose = random.Random(f"{part} 1")  # noqa: S311 - repeatable, not secret
    sections = COMPONENTS if part == "entries" else (part,)
    for number in range(count):
        changed = copy.deepcopy(sample)
        before = canonical([changed.statement, changed.sections])
        if part == "statement":
            edit(changed.statement, choose)
        else:
            held = [(name, at) for name in sections for at in range(len(_in(sample, name)))]
            name, at = choose.choice(held)
            edit(changed.sections[name][at], choose)
            if number % 2:
                changed.sections[name][at] = Value.resealed(changed.sections[name][at])
                changed.update_statement()
        if canonical([changed.statement, changed.sections]) == before:
            continue
        yield "forged" if number % 2 else "edited", changed


def _in(sample: Value, section: str) -> list[Any]:
    return sample.sections.get(section, [])


def undetected(
    sample: Value, part: str, count: int, scratch: Path, key: SigningKey
) -> tuple[Counter[str], list[Any]]:
    """Return the outcomes of the edits, and those edits that verified."""
    policy = TrustPolicy(keys=frozenset({key.did}))
    outcomes, passed = Counter[str](), list[Any]()
    for how, changed in edits(sample, part, count):
        scratch.write_bytes(changed.encoded(Encoding.JSONL))
        verdict = verify_file(scratch, policy, VerificationRequest())
        outcomes[f"{how}: {verdict.outcome}"] += 1
        if verdict:
            passed.append(changed)
    return outcomes, passed


def test_the_unedited_sample_is_good(sample: Value, scratch: Path, key: SigningKey) -> None:
    """Otherwise the tests below would prove nothing."""
    scratch.write_bytes(sample.encoded(Encoding.JSONL))
    policy = TrustPolicy(keys=frozenset({key.did}))
    assert verify_file(scratch, policy, VerificationRequest())
    assert verify_file(scratch, policy, VerificationRequest(deep=True))
    assert set(PARTS[1:]) - {"statement"} <= sample.sections.keys()


@pytest.mark.parametrize("part", PARTS)
def test_an_edit_of_any_part_is_detected(
    sample: Value, scratch: Path, key: SigningKey, part: str
) -> None:
    """With and without updated hashes."""
    outcomes, passed = undetected(sample, part, QUICK, scratch, key)
    assert passed == []
    assert outcomes.total() > QUICK * 0.9


@pytest.mark.prove
@pytest.mark.parametrize("part", PARTS)
def test_ten_thousand_edits_of_any_part_are_detected(
    sample: Value, scratch: Path, key: SigningKey, part: str, record_property: Callable[..., None]
) -> None:
    """The published SDK detected 0 of 327 edits outside its entries; the table is in the docs."""
    outcomes, passed = undetected(sample, part, MANY, scratch, key)
    record_property("outcomes", dict(outcomes))
    assert passed == []
    assert outcomes.total() > MANY * 0.9


@pytest.mark.parametrize("count", [200, pytest.param(MANY, marks=pytest.mark.prove)])
def test_an_edit_of_a_presented_token_is_detected(count: int) -> None:
    """In any token of a chain: by its signature, its link, or its syntax."""
    whole = child_of(chain_of(SEMANTIC, audience=HOLDER.did), SEMANTIC).value()
    assert open_chain(canonical(whole)).value() == whole
    choose, passed = random.Random("tokens"), []  # noqa: S311 - repeatable, not secret
    for _ in range(count):
        changed = copy.deepcopy(whole)
        edit(changed, choose)
        if changed == whole:
            continue
        try:
            open_chain(canonical(changed))
        except (InputError, TokenError):
            continue
        passed.append(changed)
    assert passed == []


# -- the encrypted form ----------------------------------------------------------------------------


def _decrypted(data: bytes, unlocking: Unlocker) -> bytes | None:
    sink = BytesIO()
    try:
        decrypt(BytesIO(data), sink, unlocking)
    except (EncryptionError, InputError, MalformedError):
        return None
    return sink.getvalue()


@pytest.mark.parametrize("how", ["recipient", "passphrase"])
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.prove)])
def test_a_flipped_or_truncated_encrypted_file_is_refused(
    samples: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    step: int,
) -> None:
    """Every byte and length; only an unused time before the data is not covered."""
    monkeypatch.setattr(key_files, "_OPS", 1)
    monkeypatch.setattr(key_files, "_MEMORY", 8192)
    identity, recipient = new_identity()
    (tmp_path / "id").write_text(identity)
    (tmp_path / "id").chmod(0o600)
    unlocking = Unlocker(files=(tmp_path / "id",), passphrase=lambda: "correct horse")
    lock = Lock(recipients=(recipient,))
    if how == "passphrase":
        lock = Lock(passphrase="correct horse")  # noqa: S106 - a test value
    plain, sink = samples["pam.jsonl"], BytesIO()
    encrypt(BytesIO(plain), sink, lock)
    made = sink.getvalue()
    assert _decrypted(made, unlocking) == plain
    same = []
    for place in range(0, len(made), step):
        bent = made[:place] + bytes([made[place] ^ 1]) + made[place + 1 :]
        found = _decrypted(bent, unlocking)
        assert found in (None, plain)
        if found is not None:
            same.append(place)
        assert _decrypted(made[:place], unlocking) is None
    time = range(made.index(b":"), made.index(b",")) if how == "passphrase" else ()
    assert set(same) <= set(time)
