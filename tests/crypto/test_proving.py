"""Proving a large file with several processes finds what one process finds."""

import subprocess
import sys
from pathlib import Path

import pytest

from satchel.artifact.encodings import (
    ArtifactBuilder,
    Encoding,
    Header,
    sign_statement,
    write_artifact,
)
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import derive, seal
from satchel.model.records import Semantic

# A process of its own: a fork is only made where there is one thread, and pytest has more.
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


def _file(folder: Path, key: SigningKey) -> Path:
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


def _found(path: Path, key: SigningKey, size: str, how: str = "") -> str:
    words = [sys.executable, "-c", SCRIPT, str(path), key.did, size, how]
    done = subprocess.run(words, capture_output=True, check=True)
    return done.stdout.decode()


def test_many_processes_find_what_one_finds(tmp_path: Path, key: SigningKey) -> None:
    """The whole result is the same, for a good file and for one with changed entries."""
    path = _file(tmp_path, key)
    good = _found(path, key, TOGETHER)
    assert "'outcome': 'good'" in good
    assert good == _found(path, key, ALONE)

    changed = path.read_bytes().replace(b"x17 ", b"y17 ").replace(b"x2900 ", b"y2900 ")
    path.write_bytes(changed)
    bad = _found(path, key, TOGETHER)
    assert "'outcome': 'tampered'" in bad
    assert bad == _found(path, key, ALONE)


@pytest.mark.timeout(60)
def test_a_worker_that_is_killed_costs_time_and_nothing_else(
    tmp_path: Path, key: SigningKey
) -> None:
    """Its work is done by the process that asked."""
    path = _file(tmp_path, key)

    assert _found(path, key, TOGETHER, "killed") == _found(path, key, ALONE)
