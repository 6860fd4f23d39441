"""Sidecars: what the format of an output cannot hold, valid only for that output."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from import_kit import bring
from matrix_kit import held, ids, output_of, put, rich

from satchel.bank.machine_keys import create_identity, lock_for
from satchel.bank.open_bank import open_bank
from satchel.config.settings import load_settings
from satchel.crypto.sealed_records import seal
from satchel.errors import MalformedError, PathRefusedError, TargetExistsError, UsageError
from satchel.model.records import Semantic
from satchel.receipts.archive import find_receipts
from satchel.transfer.conversion import ConvertOptions, convert
from satchel.transfer.export_records import Export, ExportOptions
from satchel.transfer.exports import export
from satchel.transfer.sidecars import SidecarLine, SidecarLines, head_of

SUFFIX = ".satchel.jsonl"


def export_with_sidecar(output: Path, bank: str = "start", **options: Any) -> Export:
    """Export a bank with a sidecar."""
    options.setdefault("sidecar", True)
    with open_bank(load_settings(), bank) as there:
        return export(there, output, ExportOptions(**options))


def edit_rows(path: Path, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Change the rows of a Mem0 file, as another program does."""
    value = json.loads(path.read_text())
    change(value["results"] if isinstance(value, dict) else value)
    path.write_text(json.dumps(value))


def row_with(rows: list[dict[str, Any]], text: str) -> dict[str, Any]:
    """Return the row with a text."""
    return next(row for row in rows if text in row["memory"])


def record_with(bank: str, text: str) -> dict[str, Any]:
    """Return the only current record of a bank with a text."""
    (found,) = [value for value in held(bank) if text in (value.get("text") or "")]
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A Mem0 file of a bank with every member, with its sidecar."""
    put(rich(), "start", tmp_path)
    path = output_of("mem0", tmp_path, "out")
    export_with_sidecar(path)
    return path


def test_members_in_the_sidecar_are_not_losses(file: Path) -> None:
    """The receipt names them; the file itself is the same as without a sidecar."""
    beside = file.with_name(file.name + SUFFIX)
    done = export_with_sidecar(file, overwrite=True, fail_on_loss=True)
    alone = export_with_sidecar(file.with_name("alone.mem0.json"), sidecar=False)

    assert done.losses == []
    assert done.unaccepted == 0
    assert done.account is not None
    assert done.account.read_back == "equal"
    assert done.account.sidecar is not None
    assert done.account.sidecar.name == str(beside)
    assert {one.field for one in done.account.beside} == {loss.name for loss in alone.losses}
    assert file.read_bytes() == file.with_name("alone.mem0.json").read_bytes()
    assert beside.stat().st_mode & 0o077 == 0


def test_importing_an_export_into_its_own_bank_adds_nothing(file: Path) -> None:
    """Records come back under their IDs, so nothing is duplicated."""
    found = bring(file, "start")

    assert found.banks[0].done.added == 0
    assert found.losses == []
    assert len(ids("start")) == len(rich())


def test_an_edit_of_the_file_is_imported_with_the_members_of_the_sidecar(file: Path) -> None:
    """Members of the format come from the file, all others from the sidecar."""
    before = record_with("start", "q03")
    edit_rows(file, lambda rows: row_with(rows, "q03").update(memory="q03 Ada likes coffee"))
    found = bring(file, "new")
    after = record_with("new", "q03")

    assert after["text"] == "q03 Ada likes coffee"
    for name in ("subject", "confidence", "valid_until", "expires_at", "created_at"):
        assert after[name] == before[name]
    assert after["id"] != before["id"]
    assert any("1 changed" in note for note in found.notes)
    assert len(ids("new")) == len(rich())
    (child,) = [one for one in held("new") if "q04" in (one.get("text") or "")]
    assert after["id"] in child["parent_ids"]


def test_an_edit_of_the_file_replaces_the_record_of_its_bank(file: Path) -> None:
    """In the original bank, it supersedes the exported record."""
    before = record_with("start", "q06")["id"]
    edit_rows(file, lambda rows: row_with(rows, "q06").update(memory="q06 shorter"))
    bring(file, "start")
    again = bring(file, "start")

    assert record_with("start", "q06")["text"] == "q06 shorter"
    assert record_with("start", "q06")["tags"] == ["with space", "with,comma"]
    assert before not in ids("start")
    assert again.banks[0].done.added == 0
    assert len(ids("start")) == len(rich())


def test_rows_deleted_from_the_file_are_not_restored(file: Path) -> None:
    """Neither the record nor a link to it; they are counted. A bank that has it keeps it."""
    edit_rows(file, lambda rows: rows.remove(row_with(rows, "q03")))
    found = bring(file, "new")
    home = bring(file, "start")

    assert not any("q03" in str(one) for one in held("new"))
    assert not any(one["type"] == "edge" and one["kind"] == "similar_to" for one in held("new"))
    assert any("1 gone" in note for note in found.notes)
    assert home.banks[0].done.vanished == 0
    assert record_with("start", "q03")


def test_rows_added_to_the_file_are_imported(file: Path) -> None:
    """A new memory has no line in the sidecar, and needs none."""
    row = {"id": "00000000-0000-4000-8000-000000000001", "memory": "q90 new", "user_id": "ada"}
    edit_rows(file, lambda rows: rows.append(row))
    found = bring(file, "new")

    assert record_with("new", "q90")["origin"]["provider"] == "mem0"
    assert any("1 new" in note for note in found.notes)


def test_reordered_rows_lose_nothing(file: Path) -> None:
    """Another order in the file changes no memory."""
    edit_rows(file, lambda rows: rows.reverse())
    found = bring(file, "new")

    assert ids("new") == ids("start")
    assert any("was changed since" in note for note in found.notes)


def test_the_sidecar_of_a_renamed_file_is_found_by_its_digest(file: Path) -> None:
    """A sidecar names the bytes that it belongs to."""
    file.rename(file.with_name("renamed.json"))
    bring(file.with_name("renamed.json"), "new")

    assert ids("new") == ids("start")


def test_a_sidecar_in_another_place_can_be_given(file: Path, tmp_path: Path) -> None:
    """``--sidecar`` gives its path."""
    (tmp_path / "other").mkdir()
    there = file.with_name(file.name + SUFFIX).rename(tmp_path / "other" / "s")
    bring(file, "new", sidecar=there)

    assert ids("new") == ids("start")


def test_a_missing_sidecar_is_reported(file: Path) -> None:
    """The receipt stored here says that there was one."""
    file.with_name(file.name + SUFFIX).unlink()
    found = bring(file, "new")

    assert [(loss.name, loss.count) for loss in found.losses] == [("sidecar", 1)]
    assert found.unaccepted == 1


def test_the_sidecar_can_be_ignored(file: Path) -> None:
    """``--ignore-sidecar`` reads what another program would read."""
    found = bring(file, "new", ignore_sidecar=True)

    assert found.banks[0].done.added == 4
    assert "confidence" not in record_with("new", "q03")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data.replace(b"kettle", b"kettlf"),
        lambda data: data[: data.rstrip(b"\n").rfind(b"\n") + 1],
        lambda data: data + data.splitlines(keepends=True)[-1],
        lambda data: data[: len(data) // 2],
        lambda data: data.split(b"\n", 1)[1],
        lambda data: b"\0" * 10 + data,
        lambda _: b"",
        lambda data: data.replace(b'"satchel_sidecar":1', b'"satchel_sidecar":2'),
        lambda data: data.replace(b'"format":"mem0"', b'"format":"ama"'),
    ],
    ids=["changed", "short", "longer", "torn", "headless", "binary", "empty", "newer", "format"],
)
def test_a_changed_sidecar_is_refused(file: Path, spoil: Callable[[bytes], bytes]) -> None:
    """Nothing is imported; the error names it and the option to ignore it."""
    beside = file.with_name(file.name + SUFFIX)
    assert spoil(beside.read_bytes()) != beside.read_bytes()
    beside.write_bytes(spoil(beside.read_bytes()))
    with pytest.raises(MalformedError) as refusal:
        bring(file, "new")

    assert refusal.value.file == str(beside)
    assert refusal.value.line is not None
    assert bring(file, "new", ignore_sidecar=True).banks


def test_a_sidecar_of_another_file_is_refused(file: Path, tmp_path: Path) -> None:
    """Its name matches, but none of its records are in the file."""
    put([seal(Semantic(text="somebody else's memory"))], "other", tmp_path)
    export_with_sidecar(tmp_path / "other.mem0.json", "other")
    (tmp_path / f"other.mem0.json{SUFFIX}").replace(file.with_name(file.name + SUFFIX))
    with pytest.raises(MalformedError, match="belongs to another file"):
        bring(file, "new")


def test_a_forged_sidecar_is_refused(file: Path) -> None:
    """A record that is not a memory, or does not match its ID."""
    beside = file.with_name(file.name + SUFFIX)
    output = head_of(beside).output
    config = {"type": "config", "action": "writer", "id": "blake3:" + "0" * 64, "nonce": "0" * 32}
    for record in (config, {**rich()[1].value, "text": "something else"}):
        lines = SidecarLines()
        lines.add(SidecarLine(record=record))
        with beside.open("wb") as sink:
            lines.write(sink, "mem0", output)
        lines.close()
        with pytest.raises(MalformedError):
            bring(file, "new")


def test_a_link_in_place_of_a_sidecar_is_refused(file: Path, tmp_path: Path) -> None:
    """Permission to read the file does not cover the target of the link."""
    beside = file.with_name(file.name + SUFFIX)
    (tmp_path / "elsewhere").mkdir()
    beside.rename(tmp_path / "elsewhere" / "s")
    beside.symlink_to(tmp_path / "elsewhere" / "s")
    with pytest.raises(PathRefusedError):
        bring(file, "new")


def test_replacing_a_file_removes_its_old_sidecar(file: Path) -> None:
    """Otherwise it would be read as that of the new file."""
    beside = file.with_name(file.name + SUFFIX)
    file.unlink()
    with pytest.raises(TargetExistsError, match="sidecar"):
        export_with_sidecar(file, sidecar=False)
    done = export_with_sidecar(file, sidecar=False, overwrite=True)

    assert not beside.exists()
    assert any("sidecar" in note for note in done.notes)


def test_a_lossless_format_gets_no_sidecar(tmp_path: Path) -> None:
    """An artifact holds everything."""
    put(rich(), "start", tmp_path)
    done = export_with_sidecar(tmp_path / "whole.pam.jsonl")

    assert done.sidecar is None
    assert not list(tmp_path.glob("whole*satchel*"))


def test_a_dry_run_reports_the_contents_of_the_sidecar(tmp_path: Path) -> None:
    """None of it counts as lost."""
    put(rich(), "start", tmp_path)
    done = export_with_sidecar(tmp_path / "dry.mem0.json", dry_run=True)

    assert done.unaccepted == 0
    assert any("written to the sidecar" in note for note in done.notes)
    assert not list(tmp_path.glob("dry*"))


def test_an_encrypted_file_has_an_encrypted_sidecar(tmp_path: Path) -> None:
    """For the same recipients; neither shows a word."""
    put(rich(), "start", tmp_path)
    settings = load_settings()
    create_identity(settings, "me")
    path = tmp_path / "secret.mem0.json.age"
    export_with_sidecar(path, lock=lock_for(settings, ["me"]))
    beside = tmp_path / f"secret.mem0.json{SUFFIX}.age"

    assert b"kettle" not in beside.read_bytes()
    bring(path, "new")
    assert ids("new") == ids("start")


@pytest.mark.parametrize("name", ["markdown_memory", "agents_md"])
def test_a_folder_and_a_section_of_a_file_have_a_sidecar_next_to_them(
    name: str, tmp_path: Path
) -> None:
    """Foreign content there is imported as new."""
    put(rich(), "start", tmp_path)
    path = tmp_path / "AGENTS.md" if name == "agents_md" else tmp_path / "folder"
    if name == "agents_md":
        path.write_text("# Mine\n\nBuild with make.\n")
    export_with_sidecar(path, format=name)
    before = ids("start")
    bring(path, "new", source_format=name)

    assert (tmp_path / f"{path.name}{SUFFIX}").is_file()
    assert set(before) <= set(ids("new"))


def test_a_conversion_reads_and_writes_sidecars(file: Path, tmp_path: Path) -> None:
    """From format to format without a loss."""
    there = tmp_path / "there.graphiti.json"
    done = convert(file, there, load_settings(), ConvertOptions(sidecar=True))
    bring(there, "new")

    assert done.unaccepted == 0
    assert ids("new") == ids("start")


def test_secrets_of_records_that_keep_their_id_cannot_be_scrubbed(file: Path) -> None:
    """As in a sealed file; without the sidecar they can."""
    with pytest.raises(UsageError, match="cannot be changed"):
        bring(file, "new", scrub_secrets=True)
    assert bring(file, "new", scrub_secrets=True, ignore_sidecar=True).banks


def test_the_receipt_of_the_import_names_the_sidecar(file: Path) -> None:
    """By its digest, like that of the export."""
    found = bring(file, "new")
    account = find_receipts(load_settings(), found.receipts[0])[0].account

    assert account is not None
    assert account.sidecar is not None
    assert account.sidecar.digest == found.accounts[0].sidecar.digest  # type: ignore[union-attr]
