"""Imports from a live product and exports to one: a local Mem0 store."""

import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from import_kit import bring, opened, owner, rows, size, texts
from mem0_kit import SAMPLE, STORAGE, copy_of_sample, digests, entry_of, read, with_points
from secrets_kit import Maker

from benchmarks import peers
from satchel.bank.details import history
from satchel.config.settings import load_settings
from satchel.connectors._qdrant import Points
from satchel.crypto.sealed_records import seal
from satchel.errors import (
    ConflictError,
    EmptyInputError,
    LossError,
    MalformedError,
    TargetError,
    TargetExistsError,
    UsageError,
)
from satchel.model.records import Semantic
from satchel.model.values import Origin
from satchel.ports.rows import Filter
from satchel.transfer.export_records import Export, ExportOptions
from satchel.transfer.exports import export
from satchel.transfer.import_batches import ImportBatch
from satchel.transfer.import_results import ConflictPolicy, ImportOptions
from satchel.transfer.imports import import_file, undo_import

_PEER = Path(__file__).parent.parent.parent / "benchmarks" / "peers" / "mem0_local.py"
_USERS = ("ada", "bo", "cy")


def _export(bank: str, folder: Path | str, **options: Any) -> Export:
    with opened(bank) as there:
        return export(there, Path(folder), ExportOptions(format="mem0-local", **options))


def _content(folder: Path) -> tuple[Any, Any]:
    """Return the sorted content of a store: the points, and the history of existing ones."""
    with closing(sqlite3.connect(folder / "history.db")) as database:
        rows = sorted(database.execute("SELECT * FROM history WHERE new_memory IS NOT NULL"))
    items, _ = read(folder)
    gone = {row[1] for row in rows} - {one.origin.id for one in items if one.origin}
    shown = [json.dumps(msgspec.to_builtins(one), sort_keys=True) for one in items]
    return sorted(shown), [row for row in rows if row[1] not in gone]


def test_each_user_gets_a_bank_with_memories_and_their_history(tmp_path: Path) -> None:
    """The source is recognized by its files, which do not change."""
    folder = copy_of_sample(tmp_path / "a")
    before = digests(folder)
    done = bring(folder, None)
    assert digests(folder) == before
    assert done.source_format == "mem0-local"
    assert sorted(str(one.name) for one in done.banks) == [*_USERS]
    assert sum(one.done.added for one in done.banks) == 20
    assert sum(one.done.past for one in done.banks) == 6

    with opened("ada") as there:
        with there.ledger.reading() as view:
            found = view.scan(Filter(user="ada"))
            name = next(one.record.id for one in found if "Now" in str(one.record.value["text"]))
        told = history(there, name)
    assert [one.text for one in told.versions] == [
        "Fact 0 of ada.",
        "Fact 0 of ada. At least it was so.",
        "Fact 0 of ada. Now it is not.",
    ]
    assert [one.state for one in told.versions] == ["superseded", "superseded", "current"]
    changed = [one.events[0].at for one in told.versions[:-1]]
    assert changed == [one.text_of_updated_at for one in told.versions[1:]]


def test_importing_a_live_source_again_changes_nothing_with_any_policy() -> None:
    """Older versions and deleted memories are known as well, also with overwrite."""
    bring(SAMPLE, include_deleted=True)
    before = size()
    for mode in ConflictPolicy:
        done = bring(SAMPLE, include_deleted=True, on_conflict=mode).banks[0]
        assert (done.done.known, done.done.past, done.source) == (done.done.read, 0, None)
    assert bring(SAMPLE, include_deleted=True, mirror=True).banks[0].source is None
    assert size() == before


def test_deleted_texts_are_imported_as_deleted_memories() -> None:
    """In the history and in no list."""
    done = bring(SAMPLE, include_deleted=True).banks[0]
    assert done.done.past == 8
    assert not any("Fact 9 " in str(text) for text in texts())
    assert any("Fact 9 " in str(text) for text in texts(retired=True))


def test_a_deleted_text_has_no_owner() -> None:
    """It goes to the given bank, and never to the first user."""
    with pytest.raises(MalformedError, match="no user or agent"):
        bring(SAMPLE, None, include_deleted=True)


def test_a_file_cannot_be_imported_with_deleted_memories(tmp_path: Path) -> None:
    """The option is refused, not ignored."""
    path = tmp_path / "a.json"
    path.write_text('[{"memory": "a", "user_id": "ada"}]')
    with pytest.raises(UsageError):
        bring(path, include_deleted=True)


def test_undoing_an_import_undoes_its_history() -> None:
    """None of it is current, and it can be imported again."""
    bring(SAMPLE)
    undo_import(load_settings(), "b", None)
    assert texts() == []
    assert bring(SAMPLE).banks[0].done.read == 26
    assert len(texts()) == 20


def test_an_empty_live_source_is_an_error(tmp_path: Path) -> None:
    """Nothing was read."""
    with pytest.raises(EmptyInputError):
        bring(with_points(tmp_path / "a"))


def _changed(folder: Path, *texts_: str) -> Path:
    """Return the sample with changes of its first memory, as the library writes them."""
    if not folder.exists():
        copy_of_sample(folder)
    ((entry, *_), _) = read(folder)
    assert entry.origin is not None
    name, before, at = entry.origin.id, entry.text, ""
    with (
        closing(sqlite3.connect(folder / "history.db")) as database,
        database,
    ):
        statement = "SELECT min(created_at) FROM history WHERE memory_id = ?"
        ((began,),) = database.execute(statement, [name])
        for number, text in enumerate(texts_):
            at = f"2027-01-0{number + 1}T00:00:00+00:00"
            row = (f"n{at}{text}", name, before, text, "UPDATE", began, at, 0, None, None)
            database.execute("INSERT INTO history VALUES (?,?,?,?,?,?,?,?,?,?)", row)
            before = text
    with closing(Points(folder / STORAGE, most_bytes=10**6, writes=True)) as points:
        point = points.page(None, 1)[0][0]
        said = {**point.payload, "data": before, "updated_at": at}
        points.put([(point.id, point.vectors, said)])
    return folder


def test_later_changes_of_a_live_source_are_skipped_or_refused(tmp_path: Path) -> None:
    """Two changes later, with the policies error and skip."""
    bring(SAMPLE)
    later = _changed(tmp_path / "later", "second", "third")
    with pytest.raises(ConflictError):
        bring(later, on_conflict="error")
    skipped = bring(later).banks[0].done
    assert (skipped.added, skipped.past) == (0, 0)
    assert skipped.skipped >= 1
    assert "third" not in texts()


def test_overwrite_imports_each_later_change_of_a_live_source(tmp_path: Path) -> None:
    """The bank's version is superseded by the next one, and that by the last."""
    bring(SAMPLE)
    later = _changed(tmp_path / "later", "second", "third")
    done = bring(later, on_conflict="overwrite").banks[0].done
    assert (done.added, done.past, done.overwritten) == (1, 1, 1)
    assert "third" in texts()
    assert "second" not in texts()
    before = size()
    assert bring(later, on_conflict="overwrite").banks[0].source is None
    assert size() == before


def test_a_mirror_import_applies_deletions_of_a_live_source(tmp_path: Path) -> None:
    """With ``mirror`` and deleted memories requested: once, not twice."""
    bring(SAMPLE)
    folder = copy_of_sample(tmp_path / "a")
    ((entry, *_), _) = read(folder)
    assert entry.origin is not None
    with closing(sqlite3.connect(folder / STORAGE)) as database, database:
        database.execute("DELETE FROM points WHERE rowid = (SELECT min(rowid) FROM points)")
    with closing(sqlite3.connect(folder / "history.db")) as database, database:
        row = (
            "d",
            entry.origin.id,
            entry.text,
            None,
            "DELETE",
            "2026",
            "2027-01-01",
            1,
            None,
            None,
        )
        database.execute("INSERT INTO history VALUES (?,?,?,?,?,?,?,?,?,?)", row)
    assert bring(folder, include_deleted=True).banks[0].done.vanished == 0
    done = bring(folder, include_deleted=True, mirror=True).banks[0].done
    assert done.vanished == 1
    assert entry.text not in texts()
    assert bring(folder, include_deleted=True, mirror=True).banks[0].source is None


# -- out again -----------------------------------------------------------------------------


def test_memories_and_their_history_round_trip_through_mem0(tmp_path: Path) -> None:
    """From three banks into one store."""
    bring(SAMPLE, None)
    notes = []
    for user in _USERS:
        done = _export(user, tmp_path / "a")
        assert (done.lost, done.known) == (0, 0)
        assert done.account is not None
        notes += [note for note in done.account.notes if "older versions" in note]
    assert sum(int(note.split()[0]) for note in notes) == 6
    assert all(note.endswith("they were not verified by reading back") for note in notes)
    assert _content(tmp_path / "a") == _content(SAMPLE)


def test_vectors_round_trip_through_mem0_on_request(tmp_path: Path) -> None:
    """For users who know that both sides use one model."""
    bring(SAMPLE, embeddings=True)
    kept = _export("b", tmp_path / "a")
    assert "vectors" in " ".join(kept.notes)
    assert _export("b", tmp_path / "b", embeddings=True).lost == 0
    assert _export("b", tmp_path / "b", embeddings=True).known == 20
    assert _vectors(tmp_path / "b") == _vectors(SAMPLE)


def _vectors(folder: Path) -> dict[Any, Any]:
    with closing(Points(folder / STORAGE, most_bytes=10**6)) as points:
        return {one.id: one.vectors for one in points.page(None, 100)[0]}


def test_exporting_to_mem0_again_writes_nothing(tmp_path: Path) -> None:
    """A killed export can be run again."""
    bring(SAMPLE)
    assert _export("b", tmp_path / "a").written == 20
    before = digests(tmp_path / "a")
    again = _export("b", tmp_path / "a")
    assert (again.written, again.known) == (0, 20)
    assert digests(tmp_path / "a") == before


def test_a_dry_run_predicts_the_import(tmp_path: Path) -> None:
    """It creates nothing."""
    bring(SAMPLE)
    planned = _export("b", tmp_path / "a", dry_run=True)
    assert not (tmp_path / "a").exists()
    done = _export("b", tmp_path / "a")
    assert (planned.written, planned.losses) == (done.written, done.losses)


def test_losses_of_an_export_to_mem0_are_named_and_can_be_refused(tmp_path: Path) -> None:
    """Tags have no place in Mem0's own store."""
    path = tmp_path / "a.json"
    path.write_text('[{"id": "1", "memory": "a", "user_id": "ada", "categories": ["x"]}]')
    bring(path)
    with pytest.raises(LossError, match="tags"):
        _export("b", tmp_path / "a", fail_on_loss=True)
    assert not (tmp_path / "a").exists()
    assert [loss.name for loss in _export("b", tmp_path / "a").losses] == ["tags"]


def test_an_unwritable_target_is_reported(tmp_path: Path) -> None:
    """A file is in place of the folder."""
    bring(SAMPLE)
    (tmp_path / "a").write_text("")
    with pytest.raises(TargetError):
        _export("b", tmp_path / "a")


def test_scrubbed_memories_are_imported_without_their_earlier_texts(tmp_path: Path) -> None:
    """The older texts would contain the secret."""
    text, secret = Maker().make("aws-access-key")
    later = _changed(tmp_path / "later", text, "fine again")
    bring(later)
    done = _export("b", tmp_path / "a", scrub_secrets=True)
    assert "were not exported" in " ".join(done.notes)
    assert secret.encode() in (later / "history.db").read_bytes()
    for found in (tmp_path / "a").rglob("*"):
        assert found.is_dir() or secret.encode() not in found.read_bytes()


def test_a_killed_import_of_a_live_source_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source is listed again with the same IDs and history."""
    with monkeypatch.context() as cut:
        cut.setattr(ImportBatch, "close", _killed)
        with pytest.raises(KeyboardInterrupt):
            bring(SAMPLE, include_deleted=True)
    assert texts() == []
    done = bring(SAMPLE, include_deleted=True).banks[0]
    assert done.resumed == 28 + 8
    assert len(texts()) == 20


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_a_thousand_memories_round_trip_and_mem0_reads_them(tmp_path: Path) -> None:
    """mem0ai itself, offline: three users, changes and deletions; every field equal.

    It reads our files, returns each memory and its history, and continues with them.
    """
    python = peers.environment("mem0ai") / "python"

    def library(*arguments: str | Path) -> None:
        subprocess.run([python, _PEER, *arguments], check=True, timeout=500)

    library("make", tmp_path / "a", "1000")
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    library("read", tmp_path / "copy", tmp_path / "a.json")

    import_file(load_settings(), tmp_path / "a", None, owner, ImportOptions())
    for user in _USERS:
        assert _export(user, f"mem0://{tmp_path / 'b'}?dimensions=8").lost == 0
    library("read", tmp_path / "b", tmp_path / "b.json")

    said = json.loads((tmp_path / "a.json").read_bytes())
    assert len(said) == 900
    assert json.loads((tmp_path / "b.json").read_bytes()) == said

    library("change", tmp_path / "b", said[0]["id"])
    items, past = read(tmp_path / "b")
    assert "changed by the library" in {entry.text for entry in items}
    assert said[0]["memory"] in {entry_of(one).text for one in past}


def test_a_damaged_memory_of_a_live_source_is_skipped_on_request(
    tmp_path: Path,
) -> None:
    """Named and counted, and the others are imported; one is damaged, one empty, one huge."""
    huge = {"data": "x", "user_id": "ada", "note": "y" * 2_000_000}
    said = [{"data": text, "user_id": "ada"} for text in ("tea", "water", "cocoa")]
    folder = with_points(tmp_path / "a", said[0], {"user_id": "ada"}, huge, *said[1:])
    with closing(sqlite3.connect(folder / STORAGE)) as database, database:
        database.execute("UPDATE points SET point = x'00' WHERE rowid = 5")
    with pytest.raises(MalformedError):
        bring(folder)

    done = bring(folder, skip_bad=True)

    assert texts() == ["tea", "water"]
    assert len(done.refused) == 3
    assert done.unaccepted == 3
    assert done.accounts[0].refused == 3
    assert bring(folder, skip_bad=True).banks[0].done.known == 2


def test_reading_back_detects_what_a_product_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any error: a missing member, another text, a missing memory."""
    path = tmp_path / "a.json"
    path.write_text(json.dumps(rows(("1", "tea"), ("2", "water"), metadata={"k": "v"})))
    bring(path)
    put = Points.put

    def badly(self: Points, points: Any) -> None:
        changed = [(one, vectors, dict(payload)) for one, vectors, payload in points]
        changed[0][2].pop("k")
        changed[0][2]["data"] = "cocoa"
        put(self, changed[:1])

    monkeypatch.setattr(Points, "put", badly)
    done = _export("b", tmp_path / "m", accept_loss=("metadata",))

    lost = {(loss.name, loss.count) for loss in done.losses}
    assert {("metadata", 1), ("text", 1), ("semantic", 1)} <= lost
    assert done.account is not None
    assert done.account.read_back == "differs"
    assert done.account.counts["semantic"].read_back == 1
    assert done.unaccepted >= 2


def test_reading_back_ignores_foreign_memories_of_a_product(
    tmp_path: Path,
) -> None:
    """Only exported memories are compared."""
    folder = copy_of_sample(tmp_path / "m")
    path, copy = tmp_path / "a.json", tmp_path / "r.json"
    path.write_text(json.dumps(rows(("1", "tea"), ("2", "water"))))
    bring(path)

    done = _export("b", folder, receipt=copy)

    assert (done.written, done.lost) == (2, 0)
    assert done.account is not None
    assert (done.account.read_back, done.account.total.read_back) == ("equal", 2)
    assert done.receipt is not None
    assert done.receipt.encode() in copy.read_bytes()
    with pytest.raises(TargetExistsError):
        _export("b", folder, receipt=copy)


def test_an_export_to_a_product_can_be_planned(tmp_path: Path) -> None:
    """New and known memories, and losses; nothing is written."""
    path = tmp_path / "a.json"
    path.write_text(json.dumps(rows(("1", "tea"), ("2", "water"), categories=["x"])))
    bring(path)

    plan = _export("b", tmp_path / "m", dry_run=True).plan

    assert plan is not None
    assert not (tmp_path / "m").exists()
    assert (plan.targets[0].created, plan.embedding.records) == (2, 2)
    assert [(one.field, one.count) for one in plan.cannot_hold] == [("tags", 2)]
    _export("b", tmp_path / "m")
    plan = _export("b", tmp_path / "m", dry_run=True).plan
    assert plan is not None
    assert (plan.targets[0].created, plan.targets[0].left_alone) == (0, 2)


def test_an_export_names_only_missing_origins(tmp_path: Path) -> None:
    """Those of other products; the history of Mem0 is a note."""
    bring(SAMPLE)
    foreign = Semantic(text="from elsewhere", origin=Origin(provider="letta", id="9"))
    with opened() as there:
        there.ledger.append([seal(foreign)])
        done = export(there, tmp_path / "o.json", ExportOptions(format="mem0"))

    assert [(loss.name, loss.count) for loss in done.losses] == [("origin", 1)]
    assert any("history" in note for note in done.notes)
