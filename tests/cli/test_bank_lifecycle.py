"""``satchel bank rename``, ``copy``, ``merge`` and ``delete``."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from ledger_kit import created, memories, noting

from satchel.bank.connections import configured_store, open_ledger, witness_of
from satchel.bank.open_bank import find_bank, name_of, open_bank
from satchel.config.settings import load_settings
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import Sealed, seal
from satchel.erasure.prune import GROUP
from satchel.errors import UnknownBankError
from satchel.ledger.authority import rename_record
from satchel.ledger.examination import examine
from satchel.model.records import Config, Semantic, Status
from satchel.model.values import now
from satchel.ports.vectors import Generation

if TYPE_CHECKING:
    from tests.cli.conftest import Run

WORD = "quorxzbivank"
THIEF = SigningKey.from_seed(b"t" * 32)


def append(bank: str, records: list[Sealed]) -> None:
    """Add records on this machine."""
    with open_bank(load_settings(), bank, writes=True) as opened:
        opened.ledger.append(records)


def stored_name(bank: str) -> str | None:
    """Return the name of a bank."""
    with configured_store(load_settings()) as store, store.reading() as reader:
        return name_of(reader, bank)


@pytest.fixture
def bank(satchel: Run) -> str:
    """A bank that this machine owns, with memories."""
    made = satchel("bank", "create", "assistant")
    append("assistant", memories(3))
    return made.out.strip()


# -- rename ----------------------------------------------------------------------------------


def test_a_bank_is_renamed_by_its_owner_and_keeps_its_id(satchel: Run, bank: str) -> None:
    """The old name is unknown afterwards, and free."""
    ran = satchel("bank", "rename", "assistant", "work")
    assert (ran.status, ran.out) == (0, f"{bank} renamed to work\n")
    (found,) = satchel("bank", "list", "--json").json["banks"]
    assert (found["id"], found["name"], found["trust"]) == (bank, "work", "own")
    assert satchel("bank", "rename", "assistant", "x").status == 2
    assert satchel("bank", "create", "work").status == 2
    assert satchel("bank", "create", "assistant").status == 0
    assert satchel("bank", "rename", "work", "assistant", "--json").error["field"] == "name"
    assert satchel("bank", "rename", "work", " ").status == 2
    size = found["records"]
    again = satchel("bank", "rename", "work", "work", "--json").json
    assert (again["records"], again["name"]) == (size, "work")
    assert satchel("doctor", "--deep").status == 0


def test_attack_a_bank_is_renamed_without_its_owner(satchel: Run, bank: str) -> None:
    """Unsigned, signed by another key, made for another bank, or written into the file."""
    owner = load_settings().keyring.load("default")
    unsigned = Config(action="renamed", payload={"bank": bank, "name": "evil"})
    other = "blake3:" + "7" * 64
    append(bank, [seal(unsigned), rename_record(bank, "evil", THIEF, now())])
    append(bank, [rename_record(other, "evil", owner, now())])
    odd = [rename_record(bank, name, owner, now()) for name in (7, None, ["x"])]  # type: ignore[arg-type]
    append(bank, odd)
    assert stored_name(bank) == "assistant"
    assert satchel("bank", "rename", "assistant", "x", "--signing-key", "nobody").status == 3
    assert satchel("bank", "rename", "assistant", "work").status == 0
    database = apsw.Connection(load_settings().store)
    database.execute("DELETE FROM record WHERE type = 'config' AND instr(body, 'work')")
    assert database.changes() == 1
    database.close()
    assert stored_name(bank) == "assistant"  # in messages; opening it is refused
    assert satchel("bank", "list").status == 3


def test_an_adopted_bank_is_renamed_by_its_new_owner(satchel: Run) -> None:
    """The name of the previous owner is replaced."""
    with configured_store(load_settings()) as store:
        bank = created(store).bank
    assert satchel("bank", "adopt", bank).status == 0
    assert satchel("bank", "rename", bank, "mine").status == 0
    assert stored_name(bank) == "mine"


# -- copy and merge ---------------------------------------------------------------------------


def test_bank_copy_creates_an_independent_bank(satchel: Run, bank: str) -> None:
    """With another ID and log; merge adds only missing records."""
    before = satchel("bank", "list", "--json").json["banks"][0]["records"]
    ran = satchel("bank", "copy", "assistant", "second", "--json")
    assert ran.json["carried"]["records"] == 3
    assert ran.json["bank"] != bank
    assert satchel("bank", "copy", "assistant", "second").status == 2
    assert satchel("bank", "copy", "assistant", "assistant").status == 2
    assert satchel("bank", "copy", "assistant", "").status == 2
    append("second", memories(1, start=9))
    sizes = {one["name"]: one["records"] for one in satchel("bank", "list", "--json").json["banks"]}
    assert sizes["assistant"] == before
    assert satchel("doctor", "--deep").status == 0
    ran = satchel("bank", "merge", "second", "assistant", "--dry-run")
    assert ran.out == "1 record would be added\n3 unchanged\n"
    ran = satchel("bank", "merge", "second", "assistant")
    assert ran.out == "1 record added\n3 unchanged\n"
    assert satchel("bank", "merge", "second", "second").status == 2
    assert satchel("bank", "merge", "second", "third").status == 2


@pytest.mark.usefixtures("bank")
def test_an_interrupted_copy_is_resumed_by_name(satchel: Run) -> None:
    """Fault: the process ended right after the creation of the new bank."""
    made = satchel("bank", "create", "second").out.strip()
    assert satchel("bank", "copy", "assistant", "second", "--json").json["bank"] == made


# -- delete ------------------------------------------------------------------------------------


def _all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_attack_the_files_are_searched_for_a_deleted_bank(satchel: Run, bank: str) -> None:
    """No rows, words, links, vectors, blobs or side values remain; other banks are intact."""
    satchel("bank", "create", WORD)
    with open_bank(load_settings(), WORD, writes=True) as opened:
        record = seal(Semantic(text=f"{WORD} text", kind=WORD, tags=(WORD,)))
        opened.ledger.append([record, *memories(500)])
        with opened.store.writing() as writing:
            writing.blobs.put(opened.id, [WORD.encode() * 1000])
            writing.vectors.put(opened.id, Generation(WORD, 2), {record.id: [1, 2]})
            writing.put_side(opened.id, {WORD: WORD.encode()})
        gone = opened.id
    home = load_settings().home
    assert WORD.encode() in _all_bytes(home)
    planned = satchel("bank", "delete", WORD, "--dry-run", "--json").json
    assert (planned["records"]["semantic"], planned["blobs"]) == (501, 1)
    assert satchel("bank", "delete", WORD, "--yes", "--json").json["id"] == gone
    assert WORD.encode() not in _all_bytes(home)
    assert gone[7:].encode() not in _all_bytes(home)
    assert gone not in witness_of(load_settings()).banks()
    assert satchel("doctor", "--deep").status == 0
    (found,) = satchel("bank", "list", "--json").json["banks"]
    assert (found["id"], found["records"]) == (bank, 5)
    append("assistant", memories(1, start=9))


def test_bank_delete_requires_confirmation(satchel: Run, bank: str) -> None:
    """Without a terminal, ``--yes``."""
    for more in ([], ["--json"]):
        ran = satchel("bank", "delete", "assistant", *more)
        assert (ran.status, "--yes" in ran.err) == (2, True)
    assert satchel("bank", "delete", "other", "--yes").status == 2
    with pytest.raises(UnknownBankError), configured_store(load_settings()) as store:
        find_bank(store, "other")
    assert satchel("bank", "list", "--json").json["banks"][0]["id"] == bank


def test_bank_delete_can_be_declined(process: Callable[..., Any], satchel: Run, bank: str) -> None:
    """Any answer but yes keeps the bank."""
    for answer, left in ((b"y\n", 1), (b"\n", 1), (b"yes\n", 0)):
        parent, child = os.openpty()
        running = process("bank", "delete", bank, stdin=child, stderr=child)
        os.write(parent, answer)
        running.communicate(timeout=60)
        os.close(child)
        os.close(parent)
        assert len(satchel("bank", "list", "--json").json["banks"]) == left


def test_an_interrupted_deletion_is_finished_by_id(satchel: Run, bank: str) -> None:
    """Fault: the bank is deleted, but still in the witness."""
    settings = load_settings()
    with configured_store(settings) as store, store.writing() as writing:
        writing.remove(bank)
    assert satchel("doctor").status == 1
    assert satchel("bank", "delete", bank, "--yes").status == 0
    assert satchel("doctor").status == 0
    assert satchel("bank", "delete", bank, "--yes").status == 2


# -- killed ------------------------------------------------------------------------------------


def _killed(process: Callable[..., Any], chance: random.Random, *words: str) -> None:
    """Start a command, and kill it at a random moment."""
    running = process(*words)
    time.sleep(0.15 + chance.random() * 0.5)
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_a_killed_prune_leaves_whole_groups(process: Callable[..., Any], satchel: Run) -> None:
    """Fault: kill -9 at random moments; a group is erased completely or not at all."""
    chance = random.Random(3)  # noqa: S311 - the same plan each time
    for turn in range(5):
        name = f"bank {turn}"
        satchel("bank", "create", name)
        records = memories(3 * GROUP, start=turn * 10_000)
        append(name, records)
        append(name, [seal(Status(target=one.id, state="superseded")) for one in records])
        with noting(f"turn {turn}"):
            _killed(process, chance, "prune", "--superseded-before", "0h", "--bank", name)
            with configured_store(load_settings()) as store:
                bank = find_bank(store, name)
                assert examine(store, bank).is_sound
                with open_ledger(load_settings(), store, bank).reading() as view:
                    assert len(view.get([one.id for one in records])) % GROUP == 0
            assert satchel("prune", "--superseded-before", "0h", "--bank", name).status == 0
            text = f'"memory {turn * 10_000 + 7}"'.encode()
            assert text not in _all_bytes(load_settings().home)


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_a_killed_deletion_leaves_the_whole_bank_or_nothing(
    process: Callable[..., Any], satchel: Run
) -> None:
    """Fault: kill -9 at random moments."""
    chance = random.Random(4)  # noqa: S311 - the same plan each time
    satchel("bank", "create", "other")
    append("other", memories(100))
    for turn in range(5):
        made = satchel("bank", "create", "large").out.strip()
        append("large", memories(5_000))
        with noting(f"turn {turn}"):
            _killed(process, chance, "bank", "delete", made, "--yes")
            with configured_store(load_settings()) as store:
                assert store.check() == []
                with store.reading() as reader:
                    banks = reader.banks()
                for bank in banks:
                    assert examine(store, bank).is_sound
            missed = made in witness_of(load_settings()).banks()
            expected = 0 if made in banks or missed else 2
            assert satchel("bank", "delete", made, "--yes").status == expected
            assert satchel("doctor", "--deep").status == 0
