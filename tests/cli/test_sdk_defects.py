"""Defects of the published SDK's commands, reproduced with ours.

Each test has the ID of the defect in the reference; the list with all tests is
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
TEXT = "The user prefers dark mode in every editor"
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
    """Return the texts of the bank's memories; none without a bank."""
    found = satchel("list", "--json")
    return [one["text"] for one in found.json["memories"]] if found.status == 0 else []


def strip(file: Any) -> None:
    """Remove IDs, root and signature, and change the entry."""
    file["semantic"][0].update(id="", object="gin")
    file.update(root_hash="", signature="")


def test_e01_a_stripped_file_is_not_imported_nor_signed(satchel: "Run", tmp_path: Path) -> None:
    """The SDK prints FAIL, imports the file, and signs it with the victim's key."""
    path = sdk_file(tmp_path, None, strip)
    assert satchel("remember", "ours").status == 0
    unsafe = ("--bank", "default", "--unsafe-accept", "unsigned")
    assert satchel("import", path, *unsafe).status == 4
    assert texts(satchel) == ["ours"]


def test_e04_a_file_of_an_unknown_key_is_untrusted(
    satchel: "Run", tmp_path: Path, key: SigningKey
) -> None:
    """Regardless of the agent name it claims."""
    path = sdk_file(tmp_path, key)
    ran = satchel("import", path)
    assert ran.status == 3
    assert "untrusted" in ran.err
    assert texts(satchel) == []
    accept = [word for name in ("untrusted", "entries-only") for word in ("--unsafe-accept", name)]
    assert satchel("import", path, "--bank", "default", *accept).status == 0
    (memory,) = satchel("list", "--json").json["memories"]
    record = satchel("show", memory["id"], "--json").json["record"]
    assert record["origin"]["trust"] == "imported"


@pytest.mark.parametrize("signature", ["00" * 64, "zz", "00"])
def test_e19_an_invalid_signature_is_an_error_status(
    satchel: "Run", tmp_path: Path, key: SigningKey, signature: str
) -> None:
    """The SDK prints FAIL and exits with 0, so no script notices."""
    path = sdk_file(tmp_path, key, lambda file: file.update(signature=signature))
    assert satchel("verify", path, "--trust-key", key.did).status in (3, 4)


def test_e10_a_file_with_wrong_hashes_does_not_change_the_store(
    satchel: "Run", tmp_path: Path, key: SigningKey
) -> None:
    """The SDK stores it, drops its identity entries, and never loads again."""
    assert satchel("remember", "tea at four").status == 0
    path = sdk_file(tmp_path, key, lambda file: file["semantic"][0].update(object="gin"))
    ran = satchel("import", path, "--bank", "default", "--unsafe-accept", "untrusted")
    assert ran.status == 3
    assert "the ID does not match the content" in ran.err
    assert texts(satchel) == ["tea at four"]
    assert "tea at four" in satchel("rehydrate").out


def test_e20_an_edited_store_is_not_exported(satchel: "Run", tmp_path: Path) -> None:
    """The SDK signs the edited data; here each record is verified on export."""
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


def test_d10_a_later_export_includes_new_memories(satchel: "Run", tmp_path: Path) -> None:
    """Sign, append, save: the SDK saves the old root, and refuses its own file."""
    for number in (1, 2):
        assert satchel("remember", f"memory {number}").status == 0
        assert satchel("export", "--output", tmp_path / f"{number}.pam.jsonl").status == 0
    for number in (1, 2):
        found = satchel("verify", tmp_path / f"{number}.pam.jsonl", "--deep", "--json").json
        assert found["outcome"] in ("good", "older")
        assert found["records"]["semantic"] == number


def test_d27_a_repeated_fact_is_one_memory_or_a_reported_duplicate(
    satchel: "Run", tmp_path: Path
) -> None:
    """One after a second import or under one key; otherwise ``duplicates`` lists it."""
    theirs = tmp_path / "mem0.json"
    theirs.write_text(json.dumps([{"id": "1", "memory": "lives in Oslo"}]))
    for _ in range(2):
        assert satchel("import", theirs, "--bank", "default").status == 0
        assert satchel("remember", TEXT, "--key", "theme").status == 0
    assert sorted(texts(satchel)) == sorted([TEXT, "lives in Oslo"])
    assert satchel("remember", TEXT).status == 0
    assert TEXT[:20] in satchel("duplicates").out


def test_e11_a_store_with_more_than_1000_working_memories_opens(
    satchel: "Run",
) -> None:
    """The SDK's hook writes the 1,001st, then nothing loads, and the next write empties it."""
    with filled() as bank:
        bank.ledger.append([seal(Working(goals=(f"goal {n}",))) for n in range(1_001)])
    assert satchel("remember", "one more", "--type", "working").status == 0
    with filled() as bank, bank.ledger.reading() as view:
        assert view.head.counts["working"] == 1_002


def test_e14_a_memory_is_stored_as_given(satchel: "Run") -> None:
    """The SDK splits it into ("The", "user", "prefers dark mode ...")."""
    identity = satchel("remember", TEXT, "--json").json["id"]
    record = satchel("show", identity, "--json").json["record"]
    assert record["text"] == TEXT
    assert not {"subject", "predicate", "object"} & record.keys()


@pytest.mark.parametrize(("member", "value"), [("confidence", 5), ("confidence", "1.0")])
def test_memories_are_immutable_and_validated(satchel: "Run", member: str, value: Any) -> None:
    """The SDK validates a value on creation only, never after."""
    with pytest.raises(AttributeError):
        setattr(Semantic(text="x"), member, value)
    ran = satchel("remember", "x", "--field", f"{member}={json.dumps(value)}")
    assert ran.status != 0
    assert texts(satchel) == []


def test_sec_016_an_error_is_reported_with_an_exit_status(satchel: "Run") -> None:
    """The SDK's servers ignore load errors, and continue with an empty store."""
    with filled() as bank:
        keep(bank, "tea at four")
    Path(load_settings().store).write_bytes(b"not a database at all" * 100)
    ran = satchel("list", "--json")
    assert ran.status != 0
    assert ran.error["message"]
    assert satchel("remember", "tea").status != 0
    assert Path(load_settings().store).read_bytes().startswith(b"not a database")
