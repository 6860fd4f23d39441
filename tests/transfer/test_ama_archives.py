"""AMA archives and banks: import, export, and lossless round trips."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ama_kit import HEADER, Row, archive, lines, memory
from import_kit import bring, opened, owner, size, texts

import satchel
from satchel import Satchel
from satchel.bank.open_bank import open_bank
from satchel.cli.main import run
from satchel.config.settings import load_settings
from satchel.errors import (
    ConflictError,
    ContainmentError,
    EmptyInputError,
    LimitError,
    MalformedError,
    TargetError,
    TargetExistsError,
)
from satchel.model.records import Episodic, Identity, Procedural, Semantic, Working
from satchel.model.values import Entity
from satchel.receipts import comparison
from satchel.transfer import import_stage
from satchel.transfer.comparison import diff
from satchel.transfer.conversion import ConvertOptions, convert
from satchel.transfer.export_records import Export, ExportOptions, selection
from satchel.transfer.exports import export
from satchel.transfer.import_results import ConflictPolicy

_ROWS: list[Row] = [
    memory("m-1", "Noor keeps bees.", fact_type="world", tags=["bees"], embedding=[0.5, -0.25]),
    memory("m-2", "Noor asked for jars.", fact_type="experience", memory_layer="fact"),
    memory("m-3", "Noor likes order.", fact_type="observation", metadata={"$int": "5", "n": 2**70}),
    memory("m-4", "It rains.", occurred_at="May 2026", entities=[{"name": "rain", "more": None}]),
]


def _export(path: Path, bank: str = "b", **options: object) -> Export:
    with open_bank(load_settings(), bank) as found:
        return export(found, path, ExportOptions(overwrite=True, **options))  # type: ignore[arg-type]


def test_an_archive_round_trips_through_a_bank(tmp_path: Path) -> None:
    """Every member of every line, in order; the header says who wrote it and when."""
    bring(archive(tmp_path / "in.ama.jsonl", *_ROWS, note="kept"))
    done = _export(tmp_path / "out.ama.jsonl", embeddings=True)
    first, *rows = lines(tmp_path / "out.ama.jsonl")
    assert rows == _ROWS
    assert done.lost == 0
    assert (first["bank_id"], first["note"], first["memory_count"]) == ("noor", "kept", 4)
    assert first["exported_at"] > HEADER["exported_at"]
    assert os.stat(tmp_path / "out.ama.jsonl").st_mode & 0o777 == 0o600  # noqa: PTH116


def test_importing_the_same_archive_again_changes_nothing(tmp_path: Path) -> None:
    """Astrocyte stores it with each import, or drops similar memories."""
    path = archive(tmp_path / "in.ama.jsonl", *_ROWS)
    bring(path)
    before = size()
    done = bring(path).banks[0]
    assert (done.done.known, done.done.added) == (4, 0)
    assert size() == before


def test_importing_an_exported_archive_again_changes_nothing(tmp_path: Path) -> None:
    """Into the bank, and into another; two of the memories have the same text."""
    with Satchel.open() as store:
        bank = store.create_bank("b")
        for _ in range(2):
            bank.remember(Procedural(name="deploy", description="how", body="x", tags=("a",)))
        bank.remember("It runs on Friday", type="procedural", key="deploy")
        bank.remember(type="procedural", data={"steps": ["build", {"wait": 1.5}]})
        bank.remember(Working(text="now"))
        bank.remember(Identity(text="Ada"))
    path = tmp_path / "own.ama.jsonl"
    _export(path)
    for into, added in (("b", 0), ("other", 6), ("other", 0)):
        done = bring(path, bank=into).banks[0].done
        assert (done.added, done.known) == (added, 6 - added), into


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (ConflictPolicy.SKIP, ["Noor keeps bees."]),
        (ConflictPolicy.OVERWRITE, ["Noor keeps goats."]),
        (ConflictPolicy.RENAME, ["Noor keeps bees.", "Noor keeps goats."]),
    ],
)
def test_another_text_under_an_id_is_another_version(
    mode: ConflictPolicy, expected: list[str], tmp_path: Path
) -> None:
    """Astrocyte ignores the ID; a changed fact type is not another memory either."""
    bring(archive(tmp_path / "1.ama.jsonl", _ROWS[0]))
    changed = memory("m-1", "Noor keeps goats.", fact_type="observation")
    bring(archive(tmp_path / "2.ama.jsonl", changed), on_conflict=mode)
    assert texts() == expected


def test_two_texts_under_one_id_in_a_file_are_a_conflict(tmp_path: Path) -> None:
    """Astrocyte imports both as separate memories."""
    path = archive(tmp_path / "in.ama.jsonl", _ROWS[0], memory("m-1", "Noor keeps goats."))
    with pytest.raises(ConflictError, match="m-1"):
        bring(path, on_conflict=ConflictPolicy.ERROR)
    assert bring(path).banks[0].done.skipped == 1
    assert texts() == ["Noor keeps bees."]


def test_the_same_id_in_archives_of_two_banks_is_two_memories(tmp_path: Path) -> None:
    """The example IDs ``mem_001`` and so on are in every archive."""
    bring(archive(tmp_path / "1.ama.jsonl", memory("mem_001", "one")))
    bring(archive(tmp_path / "2.ama.jsonl", memory("mem_001", "two"), bank_id="other"))
    assert texts() == ["one", "two"]
    _export(tmp_path / "out.ama.jsonl")
    assert [row.get("bank_id") for row in lines(tmp_path / "out.ama.jsonl")] == [
        "b",
        "noor",
        "other",
    ]


def _fill(bank: str) -> None:
    with Satchel.open() as store:
        found = store.create_bank(bank)
        first = found.remember("Noor keeps bees.", user="noor", tags=["bees"], key="k")
        found.remember(Procedural(name="harvest", body="Smoke first.", preconditions=("dry",)))
        found.remember(Episodic(observation="Noor asked for jars.", actor="user:noor"))
        found.remember(Working(goals=("order jars",), data={"jars": 40}))
        found.remember(Identity(persona={"tone": "patient"}, policies=("no haste",)))
        found.remember(
            Semantic(text="She is a beekeeper.", confidence=0.75, entities=(Entity(name="Noor"),)),
            parents=[first.id],
        )
        found.remember("She is a beekeeper.", salience=0.5)
        changed = found.remember("Noor keeps goats.")
        found.update(changed.id, "Noor keeps sheep.", reason="she told us")


def test_a_bank_round_trips_through_an_archive(tmp_path: Path) -> None:
    """All types, owners, links, equal texts: the same current memories under the same IDs."""
    _fill("a")
    done = _export(tmp_path / "a.ama.jsonl", "a")
    assert [loss.name for loss in done.losses] == []
    bring(tmp_path / "a.ama.jsonl", "b")
    assert diff(load_settings(), "a", "b").is_same
    ids = []
    for name in ("a", "b"):
        with opened(name) as there, there.ledger.reading() as view:
            ids.append({one.record.id for one in view.scan() if one.record.type != "source"})
    assert len(ids[0] & ids[1]) == 8


def test_an_archive_of_a_bank_changes_nothing_in_that_bank(tmp_path: Path) -> None:
    """Its memories are recognized by their IDs, and not duplicated."""
    _fill("a")
    _export(tmp_path / "a.ama.jsonl", "a")
    before = size("a")
    assert bring(tmp_path / "a.ama.jsonl", "a").banks[0].done.known == 8
    assert size("a") == before


def test_an_archive_round_trips_through_a_sealed_file(tmp_path: Path) -> None:
    """Header and lines are unchanged, also compressed."""
    source = archive(tmp_path / "in.ama.jsonl", *_ROWS, note=[1, {"a": None}])
    for name in ("1.pam", "2.ama.jsonl.gz", "3.pam.cbor", "4.ama.jsonl"):
        convert(source, tmp_path / name, load_settings(), ConvertOptions(key=owner()))
        source = tmp_path / name
    assert lines(source) == lines(tmp_path / "in.ama.jsonl")


def test_malformed_lines_are_skipped_on_request(tmp_path: Path) -> None:
    """Counted and named with their lines, in imports and conversions, also in a dry run."""
    path = archive(tmp_path / "in.ama.jsonl", _ROWS[0], b"{", memory("x", tags=5), _ROWS[1])
    with pytest.raises(MalformedError) as refusal:
        bring(path)
    assert refusal.value.line == 3
    planned, done = bring(path, skip_bad=True, dry_run=True), bring(path, skip_bad=True)
    made = convert(path, tmp_path / "out.pam", load_settings(), ConvertOptions(skip_bad=True))
    for found in (planned, done, made):
        assert [(one.line, one.field) for one in found.refused] == [(3, None), (4, "tags")]
        assert [(loss.name, loss.count) for loss in found.losses] == [("record", 2)]
    assert texts() == ["Noor keeps bees.", "Noor asked for jars."]


def test_a_file_with_only_malformed_records_reports_them(tmp_path: Path) -> None:
    """Nothing is imported, and the error gives the reason."""
    path = archive(tmp_path / "in.ama.jsonl", b"{", b"[")
    with pytest.raises(EmptyInputError, match="line 2"):
        bring(path, skip_bad=True)


def test_attack_a_large_header_is_not_copied_into_each_memory(tmp_path: Path) -> None:
    """Attack: a megabyte of ``provider`` was once a megabyte in each memory; now it is in none."""
    rows = [memory(str(number)) for number in range(50)]
    bring(archive(tmp_path / "in.ama.jsonl", *rows, provider="p" * 1000))
    with opened() as there, there.ledger.reading() as view:
        found = [one.record.body for one in view.scan()]
    assert sum(b"ppp" in body for body in found) <= 1


def test_a_failed_export_keeps_the_old_archive(tmp_path: Path) -> None:
    """Astrocyte writes to the final name, and loses the old archive when it fails."""
    bring(archive(tmp_path / "in.ama.jsonl", *_ROWS))
    output = tmp_path / "out.ama.jsonl"
    output.write_bytes(b"the old archive")
    with pytest.raises(EmptyInputError):
        _export(output, selection=selection(tags=("no such tag",)))
    assert output.read_bytes() == b"the old archive"
    assert {one.name for one in tmp_path.iterdir() if one.is_file()} == {
        "in.ama.jsonl",
        "out.ama.jsonl",
    }


def test_long_similar_and_blank_memories_are_imported_unchanged(tmp_path: Path) -> None:
    """Astrocyte splits the first, drops most of the second as duplicates, and skips the third."""
    rows = [memory("long", "A sentence about bees. " * 2000)]
    rows += [memory(f"alike-{n}", f"The hive number {n} was moved to the roof.") for n in range(5)]
    rows += [memory("blank", "  \r\n "), memory("empty", "")]
    bring(archive(tmp_path / "in.ama.jsonl", *rows))
    assert texts() == [row["text"] for row in rows]
    _export(tmp_path / "out.ama.jsonl")
    assert lines(tmp_path / "out.ama.jsonl")[1:] == rows


def test_an_export_creates_no_folders_and_invents_no_times(tmp_path: Path) -> None:
    """A missing folder is an error; a memory without an event time gets none."""
    bring(archive(tmp_path / "in.ama.jsonl", memory()))
    with pytest.raises(TargetError):
        _export(tmp_path / "none" / "out.ama.jsonl")
    assert not (tmp_path / "none").exists()
    _export(tmp_path / "out.ama.jsonl")
    assert lines(tmp_path / "out.ama.jsonl")[1] == memory()


def test_a_changed_memory_is_exported_in_its_current_form(tmp_path: Path) -> None:
    """Without the old text, time or embedding of its source."""
    bring(archive(tmp_path / "in.ama.jsonl", {**_ROWS[0], "created_at": "2026-01-01", "x": 1}))
    with Satchel.open(bank="b") as store:
        (there,) = store.bank().list()
        store.bank().update(there.id, "Noor keeps goats.", tags=["goats"])
    _export(tmp_path / "out.ama.jsonl", embeddings=True)
    row = lines(tmp_path / "out.ama.jsonl")[1]
    assert (row["id"], row["text"], row["tags"]) == ("m-1", "Noor keeps goats.", ["goats"])
    assert (row["x"], row.get("embedding")) == (1, None)


def test_numbers_with_another_canonical_form_read_back_equal_in_one_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single ``0.0`` among many memories does not cause a second pass over all of them."""

    def refuse() -> None:
        raise AssertionError("laid side by side")

    rows = [
        memory(f"m-{at}", f"Reading {at}.", metadata={"sure": sure})
        for at, sure in enumerate([0.0, 1.0, -0.0, 0.25, 1e-7, 3])
    ]
    bring(archive(tmp_path / "in.ama.jsonl", *rows))
    monkeypatch.setattr(comparison, "Pairing", refuse)
    assert _export(tmp_path / "out.ama.jsonl").lost == 0
    assert lines(tmp_path / "out.ama.jsonl")[1:] == rows


_ANYWHERE: Any = {"allow_uncontained": True}


def _archive(path: Path, *texts: str, bank: str = "user-123", **more: Any) -> Path:
    header = {
        "_ama_version": 1,
        "bank_id": bank,
        "exported_at": "2026-04-03T12:00:00Z",
        "provider": "mem0",
        "memory_count": len(texts),
    }
    rows = [{"id": f"m{number}", "text": text, **more} for number, text in enumerate(texts)]
    path.write_text("".join(json.dumps(one) + "\n" for one in (header, *rows)))
    return path


def _header(path: Path) -> Any:
    return json.loads(path.read_text().splitlines()[0])


def test_an_archive_names_its_bank_or_the_archive_that_all_memories_came_from(
    tmp_path: Path,
) -> None:
    """The bank's own memories are not attributed to another bank."""
    with Satchel.open() as there:
        there.import_bank("emb", _archive(tmp_path / "a.ama.jsonl", "tea"), **_ANYWHERE)
        there.export_bank("emb", tmp_path / "same.ama.jsonl", **_ANYWHERE)
        there.bank("emb").remember("coffee")
        there.export_bank("emb", tmp_path / "more.ama.jsonl", **_ANYWHERE)
    assert _header(tmp_path / "same.ama.jsonl")["bank_id"] == "user-123"
    assert _header(tmp_path / "more.ama.jsonl")["bank_id"] == "emb"
    done = bring(tmp_path / "more.ama.jsonl", "emb")
    assert not done.changed


def test_the_backup_loop_creates_its_folder_and_replaces_its_own_files(tmp_path: Path) -> None:
    """Run twice; a file of another program stays."""
    folder = tmp_path / "backup" / "all"
    with Satchel.open() as there:
        for name in ("user-123", "team-support"):
            there.import_bank(name, _archive(tmp_path / "a.ama.jsonl", name), **_ANYWHERE)
        for _ in range(2):
            for name in ("user-123", "team-support"):
                there.export_bank(name, folder / f"{name}.ama.jsonl", **_ANYWHERE)
        for _ in range(2):
            roots: Any = {"allowed_roots": [tmp_path]}
            there.export_bank("user-123", tmp_path / "in" / "roots" / "x.ama.jsonl", **roots)
        other = tmp_path / "notes.ama.jsonl"
        other.write_text("my own notes")
        with pytest.raises(TargetExistsError, match="overwrite=True"):
            there.export_bank("user-123", other, **_ANYWHERE)
        with pytest.raises(TargetExistsError):
            there.export_bank(
                "user-123", folder / "user-123.ama.jsonl", overwrite=False, **_ANYWHERE
            )
    assert other.read_text() == "my own notes"
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("sign", ["\x1b", "\n", "\x7f", "\x00"])
def test_control_characters_in_paths_are_refused_in_every_mode(tmp_path: Path, sign: str) -> None:
    """Before any file is read, as a ValueError."""
    path = f"{tmp_path}/a{sign}b.ama.jsonl"
    with Satchel.open() as there:
        there.import_bank("b", _archive(tmp_path / "a.ama.jsonl", "tea"), **_ANYWHERE)
        modes: list[Any] = [_ANYWHERE, {"allowed_roots": [tmp_path]}]
        for mode in modes:
            with pytest.raises(ContainmentError) as caught:
                there.export_bank("b", path, **mode)
            assert isinstance(caught.value, ValueError)
            with pytest.raises(ContainmentError):
                there.import_bank("b", path, **mode)
    assert [one.name for one in tmp_path.glob("*b.ama*")] == []


def test_a_relative_root_of_a_call_is_below_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the page's own calls; it still contains."""
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)
    inside: Any = {"allowed_roots": ["in"]}
    with Satchel.open() as there:
        there.import_bank("b", _archive(tmp_path / "in" / "a.ama.jsonl", "tea"), **inside)
        there.export_bank("b", "./in/o.ama.jsonl", **inside)
        with pytest.raises(ContainmentError):
            there.export_bank("b", tmp_path / "out" / "o.ama.jsonl", **inside)
        up: Any = {"allowed_roots": ["in/.."]}
        with pytest.raises(ContainmentError):
            there.export_bank("b", tmp_path / "out" / "o.ama.jsonl", **up)


def test_an_archive_without_a_header_is_reported(tmp_path: Path) -> None:
    """The file name shows the format, and the error what is missing."""
    path = tmp_path / "cut.ama.jsonl"
    path.write_text('{"id": "m1", "text": "tea"}\n')
    with pytest.raises(MalformedError, match="_ama_version"):
        bring(path)


def test_extracted_entities_have_the_types_of_the_archive(tmp_path: Path) -> None:
    """PERSON, ORG and LOCATION, as on the page."""
    path = _archive(tmp_path / "a.ama.jsonl", "Ada Lovelace works at Acme Corp in Lisbon.")
    bring(path, re_extract_entities=True)
    with Satchel.open() as there:
        there.export_bank("b", tmp_path / "o.ama.jsonl", **_ANYWHERE)
    row = json.loads((tmp_path / "o.ama.jsonl").read_text().splitlines()[1])
    types = {one["entity_type"] for one in row["entities"]}
    assert "PERSON" in types
    assert all(one == one.upper() for one in types)


def test_progress_is_reported_while_the_input_is_read(tmp_path: Path) -> None:
    """Every hundred records, not only once everything is planned."""
    path = _archive(tmp_path / "a.ama.jsonl", *(f"memory {number}" for number in range(1000)))
    steps = list[Any]()
    bring(path, on_step=steps.append)
    reading = [one.total for one in steps if one.done == 0]
    assert reading == [*range(100, 1001, 100), 1000]
    assert steps[-1].done == 1000


def test_progress_is_reported_while_records_are_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Group by group; all are reported as done when they are durable."""
    monkeypatch.setattr(import_stage, "GROUP", 100)
    path = _archive(tmp_path / "a.ama.jsonl", *(f"memory {number}" for number in range(1000)))
    seen = list[tuple[int, int]]()

    def note(step: Any) -> None:
        with Satchel.open() as there:
            visible = len(there.bank("b").list(limit=1).memories) if there.list_banks() else 0
        seen.append((step.done, visible))

    bring(path, on_step=note)
    logging = [(done, visible) for done, visible in seen if done]
    assert logging == [*((done, 0) for done in range(100, 1000, 100)), (1000, 1)]


@pytest.mark.parametrize("known", [False, True])
def test_a_duplicate_id_in_a_file_is_counted_once_per_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, known: bool
) -> None:
    """Some of the added memories replace another version."""
    path = _archive(tmp_path / "a.ama.jsonl", "tea", "green tea")
    path.write_text(path.read_text().replace('"m1"', '"m0"'))
    if known:
        bring(_archive(tmp_path / "b.ama.jsonl", "tea"))
    assert run(["import", str(path), "--bank", "b", "--on-conflict", "overwrite"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0].startswith("imported 2 records")
    counts = ["1 memory added"] if known else ["2 memories added"]
    counts.append("of these, 1 memory superseding another version")
    counts += ["1 memory unchanged"] * known
    assert [line for line in lines if "memor" in line] == counts


def test_a_forgotten_memory_is_reported_as_forgotten(tmp_path: Path) -> None:
    """A repeated import reports what it does not restore."""
    path = _archive(tmp_path / "a.ama.jsonl", "tea", "coffee")
    bring(path)
    with Satchel.open() as there:
        bank = there.bank("b")
        bank.forget(bank.list().memories[0].id)
    done = bring(path).banks[0].done
    assert (done.known, done.forgotten) == (1, 1)


def test_the_error_of_a_too_long_memory_names_the_setting(tmp_path: Path) -> None:
    """Skipping it is not the only option."""
    path = _archive(tmp_path / "a.ama.jsonl", "x" * 2_000_000)
    with pytest.raises(LimitError) as caught:
        bring(path)
    assert "limits.entry_bytes" in str(caught.value.hint)


def test_a_minus_sign_exports_to_standard_output(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """It has only the file; reports go to standard error, and no file named `-` is made."""
    source = str(_archive(tmp_path / "a.ama.jsonl", "tea"))
    assert run(["import", source, "--bank", "b"]) == 0
    for command in (
        ["export", "--bank", "b", "--to", "ama"],
        ["export", "--bank", "b", "--to", "ama", "--output", "-", "--json"],
        ["convert", source, "-", "--to", "ama"],
    ):
        capfdbinary.readouterr()
        assert run(command) == 0, command
        out, err = capfdbinary.readouterr()
        lines = out.decode().splitlines()
        assert "_ama_version" in json.loads(lines[0])
        assert json.loads(lines[1])["text"] == "tea"
        assert len(lines) == 2
        assert err or "--json" in command
    assert not Path("-").exists()


def test_the_module_has_the_names_in_its_guide() -> None:
    """Each can be called."""
    assert hasattr(Satchel, "export_bank_config")
    assert not hasattr(satchel, "export_bank_config")
    text = (Path(__file__).parents[2] / "docs" / "guides" / "configuration.md").read_text()
    assert "`satchel.export_bank_config" not in text
