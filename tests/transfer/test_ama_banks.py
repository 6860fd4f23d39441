"""AMA archives and banks: what comes in, what goes out, and that it is the same again."""

import os
from pathlib import Path

import pytest
from ama_kit import HEADER, Row, archive, lines, memory
from import_kit import bring, opened, owner, size, texts

from satchel import Satchel
from satchel.bank.open_bank import open_bank
from satchel.config.settings import load_settings
from satchel.errors import ConflictError, EmptyInputError, MalformedError, TargetError
from satchel.model.records import Episodic, Identity, Procedural, Semantic, Working
from satchel.model.values import Entity
from satchel.receipts import comparison
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


def _out(path: Path, bank: str = "b", **options: object) -> Export:
    with open_bank(load_settings(), bank) as found:
        return export(found, path, ExportOptions(overwrite=True, **options))  # type: ignore[arg-type]


def test_an_archive_goes_through_a_bank_and_comes_out_equal(tmp_path: Path) -> None:
    """Every member of every line, in their order; the header says who wrote it and when."""
    bring(archive(tmp_path / "in.ama.jsonl", *_ROWS, note="kept"))
    done = _out(tmp_path / "out.ama.jsonl", embeddings=True)
    first, *rows = lines(tmp_path / "out.ama.jsonl")
    assert rows == _ROWS
    assert done.lost == 0
    assert (first["bank_id"], first["note"], first["memory_count"]) == ("noor", "kept", 4)
    assert first["exported_at"] > HEADER["exported_at"]
    assert os.stat(tmp_path / "out.ama.jsonl").st_mode & 0o777 == 0o600  # noqa: PTH116


def test_importing_the_same_archive_again_changes_nothing(tmp_path: Path) -> None:
    """Astrocyte stores it as often as it is imported, or drops what is alike."""
    path = archive(tmp_path / "in.ama.jsonl", *_ROWS)
    bring(path)
    before = size()
    done = bring(path).banks[0]
    assert (done.done.known, done.done.added) == (4, 0)
    assert size() == before


def test_importing_an_archive_of_ones_own_again_changes_nothing(tmp_path: Path) -> None:
    """Into the bank, and into another; two memories among them say the same."""
    with Satchel.open() as store:
        bank = store.create_bank("b")
        for _ in range(2):
            bank.remember(Procedural(name="deploy", description="how", body="x", tags=("a",)))
        bank.remember("It runs on Friday", type="procedural", key="deploy")
        bank.remember(type="procedural", data={"steps": ["build", {"wait": 1.5}]})
        bank.remember(Working(text="now"))
        bank.remember(Identity(text="Ada"))
    path = tmp_path / "own.ama.jsonl"
    _out(path)
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
    """Astrocyte never looks at the id; a fact type that changed is no other memory either."""
    bring(archive(tmp_path / "1.ama.jsonl", _ROWS[0]))
    changed = memory("m-1", "Noor keeps goats.", fact_type="observation")
    bring(archive(tmp_path / "2.ama.jsonl", changed), on_conflict=mode)
    assert texts() == expected


def test_two_texts_under_one_id_in_a_file_are_a_conflict(tmp_path: Path) -> None:
    """Astrocyte imports both as memories of their own."""
    path = archive(tmp_path / "in.ama.jsonl", _ROWS[0], memory("m-1", "Noor keeps goats."))
    with pytest.raises(ConflictError, match="m-1"):
        bring(path, on_conflict=ConflictPolicy.ERROR)
    assert bring(path).banks[0].done.skipped == 1
    assert texts() == ["Noor keeps bees."]


def test_the_same_id_in_two_archives_of_two_banks_are_two_memories(tmp_path: Path) -> None:
    """The seed's own ids, ``mem_001`` and so on, are in every archive."""
    bring(archive(tmp_path / "1.ama.jsonl", memory("mem_001", "one")))
    bring(archive(tmp_path / "2.ama.jsonl", memory("mem_001", "two"), bank_id="other"))
    assert texts() == ["one", "two"]
    _out(tmp_path / "out.ama.jsonl")
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


def test_an_own_bank_round_trips(tmp_path: Path) -> None:
    """All components, owners, links, equal texts: the same current memories under the same ids."""
    _fill("a")
    done = _out(tmp_path / "a.ama.jsonl", "a")
    assert [loss.name for loss in done.losses] == []
    bring(tmp_path / "a.ama.jsonl", "b")
    assert diff(load_settings(), "a", "b").is_same
    ids = []
    for name in ("a", "b"):
        with opened(name) as there, there.ledger.reading() as view:
            ids.append({one.record.id for one in view.scan() if one.record.type != "source"})
    assert len(ids[0] & ids[1]) == 8


def test_an_archive_of_a_bank_changes_nothing_in_that_bank(tmp_path: Path) -> None:
    """Its memories are recognized by their ids, and not doubled."""
    _fill("a")
    _out(tmp_path / "a.ama.jsonl", "a")
    before = size("a")
    assert bring(tmp_path / "a.ama.jsonl", "a").banks[0].done.known == 8
    assert size("a") == before


def test_an_archive_becomes_a_sealed_file_and_an_archive_again(tmp_path: Path) -> None:
    """Header and lines are those that were read, also compressed."""
    source = archive(tmp_path / "in.ama.jsonl", *_ROWS, note=[1, {"a": None}])
    for name in ("1.pam", "2.ama.jsonl.gz", "3.pam.cbor", "4.ama.jsonl"):
        convert(source, tmp_path / name, load_settings(), ConvertOptions(key=owner()))
        source = tmp_path / name
    assert lines(source) == lines(tmp_path / "in.ama.jsonl")


def test_malformed_lines_are_skipped_on_request(tmp_path: Path) -> None:
    """Counted, named with their lines, in imports and conversions, also in a dry run."""
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
    """Nothing is imported, and nobody has to guess why."""
    path = archive(tmp_path / "in.ama.jsonl", b"{", b"[")
    with pytest.raises(EmptyInputError, match="line 2"):
        bring(path, skip_bad=True)


def test_one_byte_of_a_header_never_becomes_many(tmp_path: Path) -> None:
    """A megabyte of ``provider`` was a megabyte in each memory; here it is in none."""
    rows = [memory(str(number)) for number in range(50)]
    bring(archive(tmp_path / "in.ama.jsonl", *rows, provider="p" * 1000))
    with opened() as there, there.ledger.reading() as view:
        found = [one.record.body for one in view.scan()]
    assert sum(b"ppp" in body for body in found) <= 1


def test_a_failing_export_leaves_the_old_archive_as_it_was(tmp_path: Path) -> None:
    """Astrocyte opens the final name for writing, and has lost the old one when it fails."""
    bring(archive(tmp_path / "in.ama.jsonl", *_ROWS))
    output = tmp_path / "out.ama.jsonl"
    output.write_bytes(b"the old archive")
    with pytest.raises(EmptyInputError):
        _out(output, selection=selection(tags=("no such tag",)))
    assert output.read_bytes() == b"the old archive"
    assert {one.name for one in tmp_path.iterdir() if one.is_file()} == {
        "in.ama.jsonl",
        "out.ama.jsonl",
    }


def test_long_and_alike_and_blank_memories_arrive_one_by_one_as_they_are(tmp_path: Path) -> None:
    """Astrocyte splits the first, drops most of the second as duplicates, and skips the third."""
    rows = [memory("long", "A sentence about bees. " * 2000)]
    rows += [memory(f"alike-{n}", f"The hive number {n} was moved to the roof.") for n in range(5)]
    rows += [memory("blank", "  \r\n "), memory("empty", "")]
    bring(archive(tmp_path / "in.ama.jsonl", *rows))
    assert texts() == [row["text"] for row in rows]
    _out(tmp_path / "out.ama.jsonl")
    assert lines(tmp_path / "out.ama.jsonl")[1:] == rows


def test_an_export_makes_no_folders_and_invents_no_times(tmp_path: Path) -> None:
    """A folder that is not there is an error; a memory without an event time has none after."""
    bring(archive(tmp_path / "in.ama.jsonl", memory()))
    with pytest.raises(TargetError):
        _out(tmp_path / "none" / "out.ama.jsonl")
    assert not (tmp_path / "none").exists()
    _out(tmp_path / "out.ama.jsonl")
    assert lines(tmp_path / "out.ama.jsonl")[1] == memory()


def test_a_memory_that_was_changed_here_is_written_as_it_is_now(tmp_path: Path) -> None:
    """What its source said is not put back over it: no old text, time or embedding."""
    bring(archive(tmp_path / "in.ama.jsonl", {**_ROWS[0], "created_at": "2026-01-01", "x": 1}))
    with Satchel.open(bank="b") as store:
        (there,) = store.bank().list()
        store.bank().update(there.id, "Noor keeps goats.", tags=["goats"])
    _out(tmp_path / "out.ama.jsonl", embeddings=True)
    row = lines(tmp_path / "out.ama.jsonl")[1]
    assert (row["id"], row["text"], row["tags"]) == ("m-1", "Noor keeps goats.", ["goats"])
    assert (row["x"], row.get("embedding")) == (1, None)


def test_numbers_that_canonical_bytes_spell_otherwise_read_back_equal_in_one_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single ``0.0`` among many memories does not send all of them the long way."""

    def refuse() -> None:
        raise AssertionError("laid side by side")

    rows = [
        memory(f"m-{at}", f"Reading {at}.", metadata={"sure": sure})
        for at, sure in enumerate([0.0, 1.0, -0.0, 0.25, 1e-7, 3])
    ]
    bring(archive(tmp_path / "in.ama.jsonl", *rows))
    monkeypatch.setattr(comparison, "Pairing", refuse)
    assert _out(tmp_path / "out.ama.jsonl").lost == 0
    assert lines(tmp_path / "out.ama.jsonl")[1:] == rows
