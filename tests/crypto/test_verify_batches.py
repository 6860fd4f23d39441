"""Batch verification of entries: a batch accepts only what is accepted for one entry."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import rfc8785
from blake3 import blake3
from hypothesis import example, given
from hypothesis import strategies as st

from satchel.artifact.encodings import (
    ArtifactBuilder,
    Encoding,
    Header,
    sign_statement,
    write_artifact,
)
from satchel.crypto.canonical import DEFAULT_LIMITS, Limits, encode_sorted
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import derive, seal, verify_entries
from satchel.model.records import Semantic
from satchel.model.values import Origin

_NUMBERS = st.one_of(
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.floats(allow_nan=False, allow_infinity=False, min_value=-9e15, max_value=9e15),
    st.sampled_from([0.0, -0.0, 1.0, 1e-5, 9.9e-6, 1e-6, 1e-7, 5e-324]),
)
_TEXTS = st.one_of(st.text(max_size=6), st.sampled_from(["\U0001f600", "\ue000", '"id":"x"']))
_JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), _NUMBERS, _TEXTS),
    lambda parts: st.one_of(
        st.lists(parts, max_size=3), st.dictionaries(_TEXTS, parts, max_size=3)
    ),
    max_leaves=8,
)
_UNIT = st.one_of(st.none(), st.sampled_from([0.0, 1e-7, 1e-5, 0.5, 1.0]))
_TIME = "2026-03-01T09:30:00.000001Z"


def _verified_positions(*lines: bytes, limits: Limits = DEFAULT_LIMITS) -> list[int]:
    """Return the positions of the lines that were verified as a batch."""
    found = verify_entries("semantic", list(lines), b"\n".join(lines) + b"\n", limits)
    return [place for _, _, place in found.proved]


def _hash(data: bytes) -> str:
    return f"blake3:{blake3(data).hexdigest()}"


def _with_own_id(line: bytes, identity: str) -> bytes:
    """Return changed bytes of a record under the id that matches these bytes."""
    rest = line.replace(b'"id":"%b",' % identity.encode(), b"", 1)
    return line.replace(identity.encode(), _hash(rest).encode(), 1)


@given(_JSON, _UNIT, st.sampled_from(["metadata", "origin"]))
@example({"\U0001f600": 1, "\uffff": 2}, None, "metadata")
@example(1e-6, 1.0, "origin")
def test_batch_verification_accepts_only_canonical_bytes(
    value: Any, unit: float | None, where: str
) -> None:
    """For all values: spellings that only msgspec writes go to the slow reader."""
    draft = Semantic(
        text="x",
        metadata={"a": value} if where == "metadata" else {},
        data=value,
        salience=unit,
        origin=Origin(provider="p", as_written={"b": value}) if where == "origin" else None,
    )
    record = seal(draft)
    assert record.body == rfc8785.dumps(record.value)
    line = _with_own_id(encode_sorted(record.model), record.id)
    if _verified_positions(line):
        assert line == rfc8785.dumps(msgspec.json.decode(line))


def test_attack_an_id_inside_data_is_not_taken_as_the_entry_id() -> None:
    """The hash of the rest is in ``data``, in front of an invented id."""
    made_up = "blake3:" + "0" * 64
    draft: Any = {
        "data": {"z": 1},
        "id": made_up,
        "nonce": "0" * 32,
        "text": "x",
        "type": "semantic",
    }
    rest = rfc8785.dumps(draft)
    inner = b'"data":{"id":"%b",' % _hash(rest).encode()
    assert _verified_positions(rest.replace(b'"data":{', inner)) == []


def test_a_common_record_is_verified_in_a_batch() -> None:
    """Without the fast path the result is the same, three times slower."""
    entry = Semantic(text="x", created_at=_TIME, salience=0.5, tags=("a",), metadata={"n": 1})
    assert _verified_positions(seal(entry).body) == [0]


def test_unusual_entries_are_excluded_from_a_batch() -> None:
    """Another id, shape, section, order or spelling, and a limit that is reached."""
    good = seal(Semantic(text="x", tags=("a", "b"), created_at=_TIME)).body
    assert _verified_positions(good) == [0]
    assert _verified_positions(good.replace(b'"x"', b'"y"')) == []
    assert _verified_positions(good.replace(b"semantic", b"episodic")) == []
    assert _verified_positions(good.replace(b'"x"', b'"x","new":1')) == []
    assert _verified_positions(good.replace(b'":"', b'": "', 1)) == []
    assert _verified_positions(good, limits=Limits(tags=1)) == []
    assert _verified_positions(good, limits=Limits(entry_bytes=100)) == []
    assert _verified_positions(b"", b"[" * 100_000, good) == [2]


@pytest.mark.parametrize("wrong", ["2026-02-30T", "2026-03-01t", "0000-03-01T", "2026-W09-1T"])
def test_an_invalid_time_excludes_the_whole_batch(wrong: str) -> None:
    """The slow reader then reports the line."""
    record = seal(Semantic(text="x", created_at=_TIME))
    odd = _with_own_id(record.body.replace(b"2026-03-01T", wrong.encode()), record.id)
    assert _verified_positions(record.body, odd, record.body) == []


def test_an_uppercase_nonce_excludes_the_whole_batch() -> None:
    """As an invalid time does."""
    record = seal(Semantic(text="x"))
    nonce = str(record.value["nonce"])
    odd = _with_own_id(record.body.replace(nonce.encode(), b"A" + nonce[1:].encode()), record.id)
    assert _verified_positions(record.body, odd, record.body) == []


# A separate process: only a process with one thread forks, and pytest has more threads.
SCRIPT = """
import os, signal, sys
from pathlib import Path
from satchel.artifact import contents
from satchel.artifact.verification import TrustPolicy
from satchel.artifact.verifier import VerificationRequest as Request, verify_artifact

contents.WORTH_IT = int(sys.argv[3])
one, parent = contents.verify_task, os.getpid()

def dies(task):
    if os.getpid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    return one(task)

if sys.argv[4] == "killed":
    contents.verify_task = dies
policy = TrustPolicy(keys=frozenset([sys.argv[2]]))
found = verify_artifact(Path(sys.argv[1]), policy, Request(deep=True))
print(found.to_json() | {"file": ""})
"""
ALONE, TOGETHER = str(1 << 60), "0"


def _artifact(folder: Path, key: SigningKey) -> Path:
    path = folder / "memory.pam.jsonl"
    with ArtifactBuilder() as builder:
        last = seal(Semantic(text="first"))
        builder.add(last)
        for number in range(3000):
            text = "x" * 200 + f"{number} 🌞"
            last = derive([last], {"type": "semantic", "text": text, "metadata": {"n": number}})
            builder.add(last)
        body, totals = builder.finish()
        statement = Header().statement(totals)
        with path.open("wb") as stream:
            signatures = sign_statement(statement, [key])
            write_artifact(stream, Encoding.JSONL, body, statement, signatures)
    return path


def _verify(path: Path, key: SigningKey, size: str, how: str = "") -> str:
    words = [sys.executable, "-c", SCRIPT, str(path), key.did, size, how]
    done = subprocess.run(words, capture_output=True, check=True)
    return done.stdout.decode()


def test_several_processes_report_the_same_result_as_one(tmp_path: Path, key: SigningKey) -> None:
    """The whole result is equal, for a good file and for one with changed entries."""
    path = _artifact(tmp_path, key)
    good = _verify(path, key, TOGETHER)
    assert "'outcome': 'good'" in good
    assert good == _verify(path, key, ALONE)

    changed = path.read_bytes().replace(b"x17 ", b"y17 ").replace(b"x2900 ", b"y2900 ")
    path.write_bytes(changed)
    bad = _verify(path, key, TOGETHER)
    assert "'outcome': 'tampered'" in bad
    assert bad == _verify(path, key, ALONE)


@pytest.mark.timeout(60)
def test_a_killed_worker_does_not_change_the_result(tmp_path: Path, key: SigningKey) -> None:
    """The parent process verifies its share."""
    path = _artifact(tmp_path, key)

    assert _verify(path, key, TOGETHER, "killed") == _verify(path, key, ALONE)
