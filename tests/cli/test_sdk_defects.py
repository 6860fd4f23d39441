"""What goes wrong with the published SDK's own commands, done with ours.

Each test has the id of the defect in the reference; the whole list, with the tests elsewhere, is
``tests/data/pam_sdk_defects.json``.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from bank_kit import filled, keep

from satchel.artifact.pam_sdk.writer import dump_json, make_document
from satchel.config.settings import load_settings
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import seal
from satchel.model.records import Semantic, Working

if TYPE_CHECKING:
    from tests.cli.conftest import Run

AT = "2026-01-02T03:04:05+00:00"
SAID = "The user prefers dark mode in every editor"
AGENT = {"name": "trusted", "model_family": "m", "runtime": "r", "version": ""}
ENTRY = {"created_at": AT, "subject": "Ada", "predicate": "drinks", "object": "tea"}


def sdk_file(
    folder: Path, key: SigningKey | None, edit: Callable[[Any], object] | None = None
) -> Path:
    """Write a file of the SDK, edited after it was signed."""
    document = make_document({"semantic": [ENTRY]}, {"created_at": AT, "source_agent": AGENT}, key)
    if edit is not None:
        edit(document)
    path = folder / "theirs.pam"
    path.write_bytes(dump_json(document))
    return path


def texts(satchel: "Run") -> list[str]:
    """Return what the bank holds, or nothing where there is none."""
    found = satchel("list", "--json")
    return [one["text"] for one in found.json["memories"]] if found.status == 0 else []


def emptied(file: Any) -> None:
    """Take ids, root and signature away, and let the entry say something else."""
    file["semantic"][0].update(id="", object="gin")
    file.update(root_hash="", signature="")


def test_e01_a_stripped_file_is_not_imported_nor_signed(satchel: "Run", tmp_path: Path) -> None:
    """The SDK prints FAIL, imports it all the same, and signs it with the victim's key."""
    path = sdk_file(tmp_path, None, emptied)
    assert satchel("remember", "ours").status == 0
    unsafe = ("--bank", "default", "--unsafe-accept", "unsigned")
    assert satchel("import", path, *unsafe).status == 4
    assert texts(satchel) == ["ours"]


def test_e04_a_random_key_is_asked_for_before_anything_is_taken(
    satchel: "Run", tmp_path: Path, key: SigningKey
) -> None:
    """Whatever it calls its agent: nobody here said that the key counts."""
    path = sdk_file(tmp_path, key)
    ran = satchel("import", path)
    assert ran.status == 3
    assert "untrusted" in ran.err
    assert texts(satchel) == []
    put_up = [word for name in ("untrusted", "entries-only") for word in ("--unsafe-accept", name)]
    assert satchel("import", path, "--bank", "default", *put_up).status == 0
    (memory,) = satchel("list", "--json").json["memories"]
    record = satchel("show", memory["id"], "--json").json["record"]
    assert record["origin"]["trust"] == "imported"


@pytest.mark.parametrize("signature", ["00" * 64, "zz", "00"])
def test_e19_a_bad_signature_is_an_exit_status(
    satchel: "Run", tmp_path: Path, key: SigningKey, signature: str
) -> None:
    """The SDK prints FAIL and ends with 0, so no script notices."""
    path = sdk_file(tmp_path, key, lambda file: file.update(signature=signature))
    assert satchel("verify", path, "--trust-key", key.did).status in (3, 4)


def test_e10_a_file_with_wrong_hashes_leaves_the_store_as_it_was(
    satchel: "Run", tmp_path: Path, key: SigningKey
) -> None:
    """The SDK stores it, drops its identity entries, and never wakes up again."""
    assert satchel("remember", "tea at four").status == 0
    path = sdk_file(tmp_path, key, lambda file: file["semantic"][0].update(object="gin"))
    ran = satchel("import", path, "--bank", "default", "--unsafe-accept", "untrusted")
    assert ran.status == 3
    assert "the ID does not match the content" in ran.err
    assert texts(satchel) == ["tea at four"]
    assert "tea at four" in satchel("rehydrate").out


def test_e20_a_store_that_was_edited_is_not_signed(satchel: "Run", tmp_path: Path) -> None:
    """The SDK signs what it finds on the disk; here each record is proved on its way out."""
    assert satchel("remember", "likes tea").status == 0
    connection = apsw.Connection(load_settings().store)
    connection.execute(
        "UPDATE record SET body = CAST(replace(CAST(body AS TEXT), 'likes tea', 'likes gin')"
        " AS BLOB) WHERE instr(body, 'likes tea')"
    )
    assert connection.total_changes() == 1
    connection.close()
    target = tmp_path / "out.pam.jsonl"
    assert satchel("export", "--output", target).status == 3
    assert not target.exists()


def test_d10_what_is_added_after_an_export_is_in_the_next_one(
    satchel: "Run", tmp_path: Path
) -> None:
    """Sign, append, save: the SDK saves the root of before, and refuses its own file."""
    for number in (1, 2):
        assert satchel("remember", f"memory {number}").status == 0
        assert satchel("export", "--output", tmp_path / f"{number}.pam.jsonl").status == 0
    for number in (1, 2):
        found = satchel("verify", tmp_path / f"{number}.pam.jsonl", "--deep", "--json").json
        assert found["outcome"] in ("good", "older")
        assert found["records"]["semantic"] == number


def test_d27_the_same_fact_twice_is_one_memory_or_is_named(satchel: "Run", tmp_path: Path) -> None:
    """Imported twice, or told twice under one key, it is one; else ``duplicates`` names it."""
    theirs = tmp_path / "mem0.json"
    theirs.write_text(json.dumps([{"id": "1", "memory": "lives in Oslo"}]))
    for _ in range(2):
        assert satchel("import", theirs, "--bank", "default").status == 0
        assert satchel("remember", SAID, "--key", "theme").status == 0
    assert sorted(texts(satchel)) == sorted([SAID, "lives in Oslo"])
    assert satchel("remember", SAID).status == 0
    assert SAID[:20] in satchel("duplicates").out


def test_e11_a_store_with_more_than_a_thousand_working_memories_stays_open(
    satchel: "Run",
) -> None:
    """The SDK's hook writes the 1,001st, then nothing loads, and the next write empties it."""
    with filled() as bank:
        bank.ledger.append([seal(Working(goals=(f"goal {n}",))) for n in range(1_001)])
    assert satchel("remember", "one more", "--type", "working").status == 0
    with filled() as bank, bank.ledger.reading() as view:
        assert view.head.counts["working"] == 1_002


def test_e14_a_memory_is_stored_as_given(satchel: "Run") -> None:
    """The SDK cuts it into ("The", "user", "prefers dark mode ...")."""
    identity = satchel("remember", SAID, "--json").json["id"]
    record = satchel("show", identity, "--json").json["record"]
    assert record["text"] == SAID
    assert not {"subject", "predicate", "object"} & record.keys()


@pytest.mark.parametrize(("member", "value"), [("confidence", 5), ("confidence", "1.0")])
def test_a_memory_is_not_assigned_to_and_not_made_of_what_it_cannot_be(
    satchel: "Run", member: str, value: Any
) -> None:
    """The SDK looks at a value when the entry is made, and never after."""
    with pytest.raises(AttributeError):
        setattr(Semantic(text="x"), member, value)
    ran = satchel("remember", "x", "--field", f"{member}={json.dumps(value)}")
    assert ran.status != 0
    assert texts(satchel) == []


def test_sec_016_an_error_is_reported_with_an_exit_status(satchel: "Run") -> None:
    """The SDK's servers swallow what fails while loading, and go on with an empty store."""
    with filled() as bank:
        keep(bank, "tea at four")
    Path(load_settings().store).write_bytes(b"not a database at all" * 100)
    ran = satchel("list", "--json")
    assert ran.status != 0
    assert ran.error["message"]
    assert satchel("remember", "tea").status != 0
    assert Path(load_settings().store).read_bytes().startswith(b"not a database")
