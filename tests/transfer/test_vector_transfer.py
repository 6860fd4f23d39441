"""Vectors of a bank in an archive: exported on request, and imported if they fit."""

import json
import struct
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from ama_kit import Row, archive, lines, memory
from hypothesis import given
from hypothesis import strategies as st
from import_kit import bring, opened

from satchel.admin.statistics import stats
from satchel.bank.open_bank import open_bank
from satchel.config.settings import load_settings
from satchel.formats._ama import header_member
from satchel.inference.static_table import StaticTable
from satchel.model.records import Entry
from satchel.ports.inference import Embedder
from satchel.ports.vectors import Maker, VectorChecksum, pack_imported, text_mark
from satchel.recall import vector_index
from satchel.recall import vector_updates as embedding
from satchel.recall.vector_index import CURRENT, current_generation, fill, pending_generation
from satchel.recall.vector_updates import embed_bank
from satchel.transfer import import_job
from satchel.transfer.comparison import diff
from satchel.transfer.conversion import ConvertOptions, convert
from satchel.transfer.export_records import Export, ExportOptions
from satchel.transfer.exports import BankVectors, export
from satchel.transfer.import_results import ImportSummary
from satchel.transfer.import_stage import SourceVectors

TEXTS = ("Noor keeps bees.", "Noor likes order.", "It rains a lot in May.")
ROWS = [memory(f"m-{n}", text) for n, text in enumerate(TEXTS)]


class FixedEmbedder:
    """A model without training; its vectors depend on its name."""

    def __init__(self, model: str = "one", dimensions: int = 3, revision: str = "") -> None:
        self.model, self.dimensions, self.revision = model, dimensions, revision

    def embed(self, given: Sequence[str]) -> list[bytes]:
        """Return vectors that have every kind of number: a fraction, a tiny one, minus zero."""
        numbers = [[len(one) / 3, -1e-42 * len(self.model), -0.0] for one in given]
        return [struct.pack(f"<{self.dimensions}f", *part[: self.dimensions]) for part in numbers]


Configure = Callable[[Embedder], None]


@pytest.fixture
def configure_model(monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Set the model that makes vectors of banks without any."""

    def configure(embedder: Embedder) -> None:
        monkeypatch.setattr(import_job, "embedder_of", lambda _settings: embedder)

    return configure


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read two memories at a time, and make vectors only on request."""
    monkeypatch.setenv("SATCHEL_INFERENCE_AUTOMATIC", "false")
    monkeypatch.setattr(vector_index, "_TOGETHER", 2)
    monkeypatch.setattr(embedding, "_GROUP", 2)


def make_vectors(bank: str, embedder: Embedder) -> None:
    """Make the vectors of a bank."""
    with opened(bank) as there:
        fill(there.store, there.ledger, embedder)


def export_with_vectors(path: Path, bank: str = "b", **options: Any) -> Export:
    """Export a bank with its vectors."""
    asked = ExportOptions(**{"overwrite": True, "embeddings": True, **options})
    with open_bank(load_settings(), bank) as found:
        return export(found, path, asked)


def vectors(bank: str) -> dict[str, bytes]:
    """Return the vectors that a bank uses, as bits, by the text of each memory."""
    with opened(bank) as there, there.ledger.reading() as view:
        made = current_generation(view)
        if made is None:
            return {}
        logged = list(view.scan(CURRENT))
        found = view.vectors(made.generation, [one.record.id for one in logged])
        kind = f"<{made.dimensions}f"
        return {
            one.model.text: struct.pack(kind, *found[one.record.id])
            for one in logged
            if one.record.id in found
        }


@pytest.fixture
def vector_archive(tmp_path: Path, configure_model: Configure) -> Path:
    """An archive of a bank with vectors of a model; the same model is configured."""
    bring(archive(tmp_path / "in.ama.jsonl", *ROWS))
    make_vectors("b", FixedEmbedder())
    configure_model(FixedEmbedder())
    export_with_vectors(tmp_path / "sent.ama.jsonl")
    return tmp_path / "sent.ama.jsonl"


def rewrite(path: Path, change: Callable[[list[Row]], object]) -> Path:
    """Change the lines of an archive."""
    rows = lines(path)
    change(rows)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def reasons(done: ImportSummary) -> str:
    """Return the notes of an import about vectors."""
    return "\n".join(one for one in done.notes if "not used" in one)


# -- out -----------------------------------------------------------------------------------


def test_each_line_has_the_vector_of_its_text_and_the_header_names_the_model(
    vector_archive: Path,
) -> None:
    """With the mark of the text that it was made of."""
    header, *rows = lines(vector_archive)
    assert header["_satchel"] == {
        "embedding_model": "one",
        "vectors": {"model": "one", "dimensions": 3},
    }
    for row, text in zip(rows, TEXTS, strict=True):
        assert row["text"] == text
        assert struct.pack("<3f", *row["embedding"]) == FixedEmbedder().embed([text])[0]
        assert row["_satchel"]["vector_of"] == text_mark(text)


def test_vectors_are_not_exported_by_default_and_counted(vector_archive: Path) -> None:
    """With the model that made them."""
    done = export_with_vectors(vector_archive, embeddings=False)
    assert "3 vectors of one were not exported; to include them: --include-embeddings" in done.notes
    assert all("embedding" not in row for row in lines(vector_archive))
    assert "_satchel" not in lines(vector_archive)[0]


def test_a_memory_without_a_vector_is_exported_without_one_and_counted(
    vector_archive: Path,
) -> None:
    """It was added after the vectors were made."""
    bring(archive(vector_archive.with_name("more.ama.jsonl"), memory("m-9", "New.")))
    done = export_with_vectors(vector_archive)
    assert [("embedding" in row) for row in lines(vector_archive)[1:]] == [True, True, True, False]
    assert "1 memories have no vector yet; to compute them: satchel embed" in done.notes


def test_vectors_that_depend_on_their_bank_are_distinguished(tmp_path: Path) -> None:
    """Vectors with other word weights are of another model, though the name is the same."""
    bring(archive(tmp_path / "in.ama.jsonl", *ROWS))
    with opened() as there:
        embed_bank(there, "static-idf")
    export_with_vectors(tmp_path / "out.ama.jsonl")
    made = lines(tmp_path / "out.ama.jsonl")[0]["_satchel"]["vectors"]
    assert made.keys() == {"model", "dimensions", "revision", "learnt"}


def test_imported_embeddings_are_not_mixed_with_the_banks_vectors(
    tmp_path: Path, configure_model: Configure
) -> None:
    """They are exported in a separate member, and restored when the archive is imported."""
    foreign = [memory("m-1", TEXTS[0], embedding=[0.5]), memory("m-2", TEXTS[1])]
    bring(archive(tmp_path / "in.ama.jsonl", *foreign, _satchel={"embedding_model": "theirs"}))
    make_vectors("b", FixedEmbedder())
    configure_model(FixedEmbedder())
    path = tmp_path / "out.ama.jsonl"
    done = export_with_vectors(path)
    assert done.lost == 0
    assert {len(row["embedding"]) for row in lines(path)[1:]} == {3}
    assert lines(path)[0]["_satchel"]["embedding_model"] == "one"
    bring(path, "copy")
    assert vectors("copy") == vectors("b")
    assert diff(load_settings(), "b", "copy").is_same
    configure_model(FixedEmbedder("another"))
    with opened("copy") as there, there.store.writing() as writing:
        writing.put_side(there.id, {vector_index._USED: None})
    export_with_vectors(path, "copy")
    first, *again = lines(path)
    assert first["_satchel"] == {"embedding_model": "theirs"}
    assert [row.get("embedding") for row in again] == [[0.5], None]


def test_a_format_that_cannot_hold_vectors_is_an_error(vector_archive: Path) -> None:
    """They were requested."""
    done = export_with_vectors(vector_archive.with_name("out.pam.jsonl"))
    assert "pam_jsonl does not support vectors; they were not exported" in done.notes


def test_exporting_and_importing_vectors_takes_constant_memory(
    tmp_path: Path, configure_model: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three times as many take almost no more."""
    monkeypatch.setattr(vector_index, "_TOGETHER", 64)
    monkeypatch.setattr(embedding, "_GROUP", 64)
    configure_model(FixedEmbedder())
    peaks = []
    for count in (96, 288):
        rows = [memory(f"m-{n}", f"text number {n}") for n in range(count)]
        bring(archive(tmp_path / f"{count}.ama.jsonl", *rows), f"from {count}")
        make_vectors(f"from {count}", FixedEmbedder())
        tracemalloc.start()
        export_with_vectors(tmp_path / f"{count}.out.ama.jsonl", f"from {count}")
        done = bring(tmp_path / f"{count}.out.ama.jsonl", f"to {count}")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert done.banks[0].reused is not None
        assert done.banks[0].reused.reused == count
    assert peaks[1] < peaks[0] + 192 * 2000


def test_a_conversion_reports_that_it_omits_vectors(vector_archive: Path) -> None:
    """A converted file has no bank that they could belong to."""
    done = convert(
        vector_archive, vector_archive.with_name("out.pam"), load_settings(), ConvertOptions()
    )
    assert [(one.name, one.count) for one in done.losses] == [("embedding", 3)]


def test_a_vector_that_reads_back_differently_is_a_loss(
    vector_archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes on the disk are compared, not the intended ones."""

    def other(self: BankVectors, mark: str, vector: Sequence[float]) -> None:
        self.sent.take(mark, [*vector[:-1], 1.0])

    monkeypatch.setattr(BankVectors, "wrote", other)
    done = export_with_vectors(vector_archive)
    assert [one.name for one in done.losses] == ["embedding"]


# -- in ------------------------------------------------------------------------------------


def test_vectors_round_trip_bit_for_bit_and_are_used(vector_archive: Path) -> None:
    """From a bank into an archive, and from there into another bank."""
    done = bring(vector_archive, "copy").banks[0]
    assert done.reused is not None
    assert (done.reused.reused, done.reused.model) == (3, "one")
    assert vectors("copy") == vectors("b") != {}
    with opened("copy") as there:
        found = stats(there).vectors
    assert found is not None
    assert (found.model, found.count, found.missing) == ("one", 3, 0)
    assert diff(load_settings(), "b", "copy").is_same


def test_an_archive_with_vectors_changes_nothing_in_its_bank(vector_archive: Path) -> None:
    """They are not part of the memories."""
    done = bring(vector_archive).banks[0]
    assert (done.source, done.done.known) == (None, 3)


@pytest.mark.parametrize(
    ("here", "why"),
    [
        (FixedEmbedder("two"), "two, of 3 numbers"),
        (FixedEmbedder("one", 2), "one, of 2 numbers"),
        (FixedEmbedder(revision="2"), "another build of it"),
    ],
)
def test_vectors_of_another_model_are_not_imported(
    here: FixedEmbedder, why: str, vector_archive: Path, configure_model: Configure
) -> None:
    """Of the same length or not, in a bank with vectors or without: they are counted."""
    configure_model(here)
    done = bring(vector_archive, "new")
    assert f"3 embeddings of one are not used: the configured model is {why}" in reasons(done)
    assert vectors("new") == {}
    bring(archive(vector_archive.with_name("other.ama.jsonl"), memory("x", "Other.")), "full")
    make_vectors("full", here)
    done = bring(vector_archive, "full")
    assert f"the bank uses {why}" in reasons(done)
    assert vectors("full").keys() == {"Other."}


def test_a_model_that_is_trained_on_its_bank_imports_no_vectors(vector_archive: Path) -> None:
    """Neither if it is configured, nor if it is in use."""
    assert "weighs words" in reasons(_with_default_model(vector_archive, "new"))
    bring(archive(vector_archive.with_name("other.ama.jsonl"), memory("x", "Other.")), "full")
    with opened("full") as there:
        embed_bank(there, "static-idf")
    assert "weighs words" in reasons(bring(vector_archive, "full"))


def _with_default_model(path: Path, bank: str) -> ImportSummary:
    with pytest.MonkeyPatch.context() as patched:
        from satchel.recall.models import embedder_of

        patched.setattr(import_job, "embedder_of", embedder_of)
        return bring(path, bank)


def test_the_built_in_model_imports_its_own_vectors(
    tmp_path: Path, configure_model: Configure
) -> None:
    """With its digest, so that another table would be another model."""
    bring(archive(tmp_path / "in.ama.jsonl", *ROWS))
    make_vectors("b", StaticTable())
    export_with_vectors(tmp_path / "out.ama.jsonl")
    configure_model(StaticTable())
    assert bring(tmp_path / "out.ama.jsonl", "copy").banks[0].reused.reused == 3  # type: ignore[union-attr]
    assert vectors("copy") == vectors("b")


def test_a_vector_of_a_changed_text_is_not_used(vector_archive: Path) -> None:
    """The others are, and the missing one can be made."""
    rewrite(vector_archive, lambda rows: rows[2].update(text="Noor hates order."))
    done = bring(vector_archive, "copy")
    assert "1 embeddings were not used: they were computed from another text" in reasons(done)
    assert vectors("copy").keys() == {TEXTS[0], TEXTS[2]}
    with opened("copy") as there:
        found = stats(there).vectors
    assert found is not None
    assert (found.count, found.missing) == (2, 1)
    make_vectors("copy", FixedEmbedder())
    assert vectors("copy").keys() == {TEXTS[0], "Noor hates order.", TEXTS[2]}


@pytest.mark.in_check(5)
@pytest.mark.parametrize(
    "hostile",
    [
        "[NaN, 1, 1]",
        "[Infinity, 1, 1]",
        "[1e300, 1, 1]",
        "[3e38, 1, 1]",
        "[0.1, 1, 1]",
        "[1" + "0" * 400 + ", 1, 1]",
        "[1, 1]",
        "[1, 1, 1, 1]",
        "[true, 1, 1]",
        '["1", 1, 1]',
        "[[1], 1, 1]",
        '{"0": 1}',
        '"AAAA"',
        "null",
    ],
)
def test_invalid_vectors_are_dropped_and_counted(hostile: str, vector_archive: Path) -> None:
    """The memory is imported all the same, without a vector."""
    text = vector_archive.read_text()
    there = json.dumps(lines(vector_archive)[1]["embedding"], separators=(",", ":"))
    assert text.count(there) == 1
    vector_archive.write_text(text.replace(there, hostile))
    done = bring(vector_archive, "copy")
    assert done.banks[0].done.added == 3
    assert "1 embeddings were not used: they are not 3 finite 32-bit numbers" in reasons(done)
    assert vectors("copy").keys() == {TEXTS[1], TEXTS[2]}


def test_two_vectors_of_one_text_are_both_dropped(vector_archive: Path) -> None:
    """One of them must be wrong, and which one is unknown."""

    def doubled(rows: list[Row]) -> None:
        rows.append({**rows[1], "id": "m-7", "embedding": [1.0, 0.0, 0.0]})
        rows[0]["memory_count"] = 4

    done = bring(rewrite(vector_archive, doubled), "copy")
    assert "1 embeddings were not used: the text has two vectors" in reasons(done)
    assert vectors("copy").keys() == {TEXTS[1], TEXTS[2]}


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"model": "one"},
        {"model": "one", "dimensions": 0},
        {"model": "one", "dimensions": 10**12},
        {"model": "", "dimensions": 3},
        {"model": "x" * 1001, "dimensions": 3},
        {"model": 1, "dimensions": 3},
        [],
        None,
    ],
)
def test_vectors_without_a_model_in_the_header_are_not_used(
    header: object, vector_archive: Path
) -> None:
    """They stay with the memories, like those of other programs."""
    rewrite(vector_archive, lambda rows: rows[0]["_satchel"].update(vectors=header))
    done = bring(vector_archive, "copy")
    assert vectors("copy") == {}
    assert done.banks[0].done.added == 3


def test_a_vector_in_a_file_is_not_given_to_existing_memories(vector_archive: Path) -> None:
    """A file must not affect the ranking of other memories with the same text."""
    other = archive(
        vector_archive.with_name("other.ama.jsonl"), memory("x", TEXTS[0]), bank_id="other"
    )
    bring(other, "full")
    bring(vector_archive, "full")
    with opened("full") as there, there.ledger.reading() as view:
        first = next(iter(view.scan(CURRENT)))
        made = current_generation(view)
        assert made is not None
        assert isinstance(first.model, Entry)
        assert first.model.text == TEXTS[0]
        assert view.vectors(made.generation, [first.record.id]) == {}
    assert len(vectors("full")) == 3


def test_an_unfinished_generation_is_not_changed_by_an_import(vector_archive: Path) -> None:
    """An interrupted run can resume it."""
    bring(archive(vector_archive.with_name("other.ama.jsonl"), memory("x", "Other.")), "full")
    with opened("full") as there:
        vector_index.begin_generation(there.store, there.ledger, FixedEmbedder("two"))
    done = bring(vector_archive, "full")
    assert "vectors of two are being computed" in reasons(done)
    with opened("full") as there, there.ledger.reading() as view:
        assert pending_generation(view) is not None


def test_scrubbing_a_secret_drops_the_vector_of_its_text(
    tmp_path: Path, configure_model: Configure
) -> None:
    """The vector was made of the text with the secret."""
    secret = "the key is ghp_" + "a1B2c3D4" * 4 + "e5F6"
    bring(archive(tmp_path / "in.ama.jsonl", memory("m-9", secret), ROWS[1]))
    make_vectors("b", FixedEmbedder())
    configure_model(FixedEmbedder())
    export_with_vectors(tmp_path / "whole.ama.jsonl")
    export_with_vectors(tmp_path / "scrubbed.ama.jsonl", scrub_secrets=True)
    _, *rows = lines(tmp_path / "scrubbed.ama.jsonl")
    assert ["embedding" in row for row in rows] == [False, True]
    bring(tmp_path / "whole.ama.jsonl", "copy", scrub_secrets=True)
    assert vectors("copy").keys() == {TEXTS[1]}


def test_re_embed_makes_the_missing_vectors(
    vector_archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Imported ones stay."""
    from satchel.recall import vector_updates as embedding

    monkeypatch.setattr(embedding, "embedder_of", lambda _settings, _name=None: FixedEmbedder())
    rewrite(vector_archive, lambda rows: rows[2].update(text="Noor hates order."))
    done = bring(vector_archive, "copy", re_embed=True).banks[0]
    assert done.reused is not None
    assert done.embedded is not None
    assert (done.reused.reused, done.embedded.made, done.embedded.kept) == (2, 1, 2)


# -- parts ---------------------------------------------------------------------------------


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=8))
def test_every_32_bit_number_survives_json(numbers: list[float]) -> None:
    """Also minus zero and subnormal numbers."""
    again = json.loads(json.dumps(numbers))
    assert pack_imported(again, len(numbers)) == struct.pack(f"<{len(numbers)}f", *numbers)


def test_imported_vectors_are_stored_on_disk_by_text_mark() -> None:
    """An invalid mark is counted as an unusable vector."""
    found = SourceVectors()
    found.begin(Maker(model="one", dimensions=1))
    for mark in ("", "zz", "00" * 15, text_mark("x").upper(), "é"):
        found.take(mark, [1.0])
    found.take(text_mark("x"), [1.0])
    found.take(text_mark("x"), [1.0])
    assert (found.count, sum(found.unusable.values())) == (1, 5)
    assert found.find([text_mark("x"), text_mark("y")]) == {text_mark("x"): struct.pack("<f", 1.0)}


def test_the_checksum_detects_exchanged_vectors() -> None:
    """In any order."""
    pairs = [("a", [1.0]), ("b", [2.0])]
    one, same, other = VectorChecksum(), VectorChecksum(), VectorChecksum()
    for mark, vector in pairs:
        one.take(mark, vector)
    for mark, vector in reversed(pairs):
        same.take(mark, vector)
    other.take("a", [2.0])
    other.take("b", [1.0])
    assert one.total == same.total != other.total


def test_a_header_that_is_not_an_object_is_unchanged() -> None:
    """Unless vectors must be recorded in it."""
    assert header_member("kept", None) == "kept"
    assert header_member("kept", Maker(model="m", dimensions=1))["embedding_model"] == "m"
