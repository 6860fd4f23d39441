"""Exports: complete, in order, verified, with every loss named."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ledger_kit import memories
from transfer_kit import append, document, import_into, new_bank

from satchel.bank.open_bank import open_bank
from satchel.config.settings import load_settings
from satchel.crypto.canonical import Limits
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import Sealed, derive, seal
from satchel.errors import (
    EmptyInputError,
    LossError,
    RetiredMemoryError,
    SatchelError,
    TargetExistsError,
    UnknownMemoryError,
    UsageError,
    VerificationError,
)
from satchel.model.records import Edge, Episodic, Erasure, GraphNode, Semantic, SessionEvent, Status
from satchel.model.values import Origin, Scope
from satchel.ports.record_set import open_record_set
from satchel.transfer.export_records import Export, ExportOptions, selection
from satchel.transfer.exports import export
from satchel.transfer.verification import VerifyOptions, verify

SAMPLES = Path(__file__).parent.parent / "data" / "formats" / "mem0"
KEY = SigningKey.from_seed(b"k" * 32)


@pytest.fixture
def bank() -> str:
    """An empty bank of this machine's own."""
    return new_bank()


def export_bank(output: Path, key: SigningKey | None = KEY, **options: Any) -> Export:
    """Export the only bank."""
    with open_bank(load_settings()) as found:
        return export(found, output, ExportOptions(key=key, **options))


def records_in(path: Path) -> list[Sealed]:
    """Return the records of an artifact."""
    with open_record_set(path, Limits()) as found:
        return list(found)


def texts(path: Path) -> list[Any]:
    """Return the texts of an artifact's entries."""
    models = [record.model for record in records_in(path)]
    return [model.text for model in models if isinstance(model, Semantic | Episodic)]


def outcomes(path: Path) -> list[str]:
    """Return the findings of a deep verification that trusts the signer."""
    found = verify(path, load_settings(), VerifyOptions(deep=True, keys=(KEY.did,)))
    assert {step.state for step in found.steps} <= {"passed", "failed"}
    return [outcome.value for outcome in found.outcomes]


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("good-*.json")), ids=lambda path: path.stem)
def test_a_mem0_file_round_trips_through_a_bank(sample: Path, bank: str, tmp_path: Path) -> None:
    """Every field, the fields around the memories, their order and their nesting."""
    import_into(bank, sample)
    done = export_bank(tmp_path / "out.mem0.json")
    assert done.losses == []
    found, expected = (
        json.loads(path.read_bytes(), parse_constant=str)  # NaN is not equal to itself
        for path in (tmp_path / "out.mem0.json", sample)
    )
    assert found == expected


@pytest.mark.shared
@pytest.mark.parametrize("name", ["get_all_ada", "get_one", "mem0_get_all", "mem0_list"])
def test_files_written_by_mem0_round_trip_through_a_bank(
    name: str, bank: str, shared_data: Path, tmp_path: Path
) -> None:
    """Files of the real product."""
    sample = shared_data / "mem0" / f"{name}.json"
    import_into(bank, sample)
    done = export_bank(tmp_path / "out.mem0.json")
    assert done.losses == []
    assert document(tmp_path / "out.mem0.json") == document(sample)


def test_two_mem0_files_are_exported_as_one_and_their_outer_fields_are_reported(
    bank: str, tmp_path: Path
) -> None:
    """The fields around the memories have no place then; that is a named loss."""
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    first.write_text('{"results": [{"id": "1", "memory": "tea"}], "next": null, "count": 1}')
    second.write_text('[{"id": "2", "memory": "milk"}]')
    import_into(bank, first)
    import_into(bank, second)
    done = export_bank(tmp_path / "out.mem0.json")
    assert [row["memory"] for row in document(tmp_path / "out.mem0.json")["results"]] == [
        "tea",
        "milk",
    ]
    assert [(loss.name, loss.count) for loss in done.losses] == [("container", 1)]


def test_an_artifact_of_a_bank_names_its_log(bank: str, tmp_path: Path) -> None:
    """Bank, signed head, scope and keys that may sign; every step of verification runs."""
    append(bank, memories(5))
    done = export_bank(tmp_path / "a.pam.jsonl")
    assert (done.read_back, done.signed_by, done.entries) == ("untrusted", KEY.did, 5)
    assert outcomes(tmp_path / "a.pam.jsonl") == ["good"]
    found = verify(tmp_path / "a.pam.jsonl", load_settings(), VerifyOptions(keys=(KEY.did,)))
    assert found.statement is not None
    head = found.statement["head"]["signed"]
    assert (found.statement["bank"], head["size"], head["root"]) == (bank, done.size, done.root)
    assert found.statement["scope"] == {"kind": "full"}
    assert "the file does not show that the head's key belongs to the bank" not in found.notes


def test_only_current_memories_are_exported(bank: str, tmp_path: Path) -> None:
    """Not replaced, deleted or held ones; expired ones with their expiry."""
    old, gone, held, kept, late = (
        seal(Semantic(text=text, expires_at=at))
        for text, at in (
            ("old", None),
            ("gone", None),
            ("held", None),
            ("kept", None),
            ("late", "2020-01-01T00:00:00.000000Z"),
        )
    )
    append(bank, [old, gone, held, kept, late])
    states = [(old, "superseded"), (gone, "deleted"), (held, "quarantined"), (kept, "promoted")]
    append(bank, [seal(Status(target=one.id, state=state)) for one, state in states])  # type: ignore[arg-type]
    done = export_bank(tmp_path / "a.pam")
    assert texts(tmp_path / "a.pam") == ["kept", "late"]
    statuses = [one.model for one in records_in(tmp_path / "a.pam") if one.type == "status"]
    assert [one.target for one in statuses if isinstance(one, Status)] == [kept.id]
    assert any("expired entries" in note for note in done.notes)

    with_old = export_bank(tmp_path / "b.pam", selection=selection(as_of=7))
    assert texts(tmp_path / "b.pam") == ["old", "gone", "held", "kept", "late"]
    assert with_old.selection.as_of == 7


def test_each_filter_of_an_export_excludes_memories(bank: str, tmp_path: Path) -> None:
    """Type, tag, time and owner; the owner is a user, or an agent if there is no user."""
    day = "2026-0{}-01T00:00:00.000000Z"
    append(
        bank,
        [
            seal(Semantic(text="a", tags=("tea",), created_at=day.format(1))),
            seal(Episodic(text="b", tags=("tea", "x"), occurred_at=day.format(2))),
            seal(Semantic(text="c", scope=Scope(user="ada"), created_at=day.format(3))),
            seal(Semantic(text="d", scope=Scope(agent="ada"))),
            seal(Semantic(text="e", scope=Scope(user="bob", agent="ada"))),
            seal(SessionEvent(event="message", text="f", scope=Scope(user="ada"))),
        ],
    )
    expected: list[tuple[dict[str, Any], list[str]]] = [
        ({"components": ("episodic",)}, ["b"]),
        ({"tags": ("x", "nothing")}, ["b"]),
        ({"tags": ("tea",), "components": ("semantic",)}, ["a"]),
        ({"since": "2026-02-01"}, ["b", "c"]),
        ({"since": "2026-01-01", "until": "2026-02-01"}, ["a"]),
        ({"owner": "ada"}, ["c", "d"]),
        ({"owner": "bob"}, ["e"]),
    ]
    for number, (wanted, found) in enumerate(expected):
        path = tmp_path / f"{number}.pam"
        export_bank(path, selection=selection(**wanted))
        assert texts(path) == found, wanted
        sessions = [one for one in records_in(path) if one.type == "session_event"]
        assert len(sessions) == ("owner" in wanted and wanted["owner"] == "ada"), wanted
    value = verify(tmp_path / "2.pam", load_settings()).statement
    assert value is not None
    assert value["scope"] == {
        "kind": "filter",
        "filter": {"components": ["semantic"], "tags": ["tea"]},
    }


def test_only_the_named_memories_are_exported(bank: str, tmp_path: Path) -> None:
    """By ID or prefix, each once; the file names them in full and verifies."""
    wanted, other, parent = (seal(Semantic(text=text)) for text in ("wanted", "other", "parent"))
    child = derive([parent], {"type": "semantic", "text": "child"})
    talk = seal(SessionEvent(event="message", text="a message"))
    append(bank, [wanted, other, parent, child, talk])
    path = tmp_path / "a.pam.jsonl"
    named = (wanted.id.removeprefix("blake3:")[:12], child.id, wanted.id)
    done = export_bank(path, selection=selection(ids=named))
    assert sorted(texts(path)) == ["child", "wanted"]
    assert (done.entries, done.records["withheld"]) == (2, 1)
    assert done.selection.ids == tuple(sorted((wanted.id, child.id)))
    assert outcomes(path) == ["good"]
    assert not [one for one in records_in(path) if one.type == "session_event"]
    value = verify(path, load_settings()).statement
    assert value is not None
    assert value["scope"] == {"kind": "filter", "filter": {"ids": sorted((wanted.id, child.id))}}


def test_a_named_memory_that_cannot_be_exported_is_refused(bank: str, tmp_path: Path) -> None:
    """An unknown, replaced, held or retired one: none is omitted silently."""
    old, held, kept = (seal(Semantic(text=text)) for text in ("old", "held", "kept"))
    append(bank, [old, held, kept])
    append(bank, [seal(Status(target=old.id, state="superseded"))])
    append(bank, [seal(Status(target=held.id, state="quarantined"))])
    refusals: list[tuple[str, type[SatchelError]]] = [
        (old.id, RetiredMemoryError),
        (held.id, RetiredMemoryError),
        ("0" * 64, UnknownMemoryError),
        ("abc", UsageError),
    ]
    for identity, error in refusals:
        with pytest.raises(error):
            export_bank(tmp_path / "a.pam", selection=selection(ids=(kept.id, identity)))
    with pytest.raises(UsageError, match="as_of"):
        selection(ids=(kept.id,), as_of=3)
    assert not (tmp_path / "a.pam").exists()


def test_an_omitted_parent_has_a_proof_and_is_not_missing(bank: str, tmp_path: Path) -> None:
    """Filtered, deleted or erased: the file is complete, and reveals only its existence."""
    parents = [seal(Semantic(text=f"secret {n}")) for n in range(3)]
    child = derive(parents, {"type": "semantic", "text": "child", "tags": ["x"]})
    append(bank, [*memories(40), *parents, child])
    append(bank, [seal(Status(target=parents[1].id, state="deleted"))])
    append(bank, [seal(Status(target=parents[2].id, state="deleted"))])
    append(bank, [seal(Erasure(entry=parents[2].id))])
    path = tmp_path / "a.pam.jsonl"
    done = export_bank(path, selection=selection(tags=("x",)))
    assert done.records["withheld"] == 3
    assert outcomes(path) == ["good"]
    assert texts(path) == ["child"]
    assert b"secret" not in path.read_bytes()
    assert any("3 parents" in note for note in done.notes)


def test_an_unknown_parent_makes_the_file_incomplete_and_is_named(
    bank: str, tmp_path: Path
) -> None:
    """What the bank itself lacks has no proof."""
    parent = seal(Semantic(text="never here"))
    append(bank, [derive([parent], {"type": "semantic", "text": "child"})])
    done = export_bank(tmp_path / "a.pam")
    assert outcomes(tmp_path / "a.pam") == ["incomplete"]
    assert any(parent.id in note for note in done.notes)


def test_edges_are_included_when_both_ends_are(bank: str, tmp_path: Path) -> None:
    """In any order; one that leads to a deleted memory is omitted, and counted."""
    one, two, gone = memories(3)
    node = seal(GraphNode(name="Ada"))
    joins = [
        seal(Edge(source=one.id, target=two.id, kind="similar_to")),
        seal(Edge(source=one.id, target=node.id, kind="mentions")),
        seal(Edge(source=one.id, target="somewhere else", kind="mentions")),
    ]
    dangles = [
        seal(Edge(source=one.id, target=gone.id, kind="similar_to")),
        seal(Edge(source="nowhere", target="somewhere else", kind="mentions")),
    ]
    append(bank, [*joins[:1], *dangles, one, two, gone, node, *joins[1:]])
    append(bank, [seal(Status(target=gone.id, state="deleted"))])
    done = export_bank(tmp_path / "a.pam")
    edges = [record for record in records_in(tmp_path / "a.pam") if record.type == "edge"]
    assert edges == joins
    assert any("edges skipped" in note and note.endswith(": 2") for note in done.notes)


def test_losses_of_an_export_are_counted_or_refused(bank: str, tmp_path: Path) -> None:
    """Also on a dry run, which writes nothing."""
    append(bank, [seal(Semantic(text="a", salience=0.5)), seal(Episodic(observation="b"))])
    path = tmp_path / "a.mem0.json"
    tried = export_bank(path, dry_run=True)
    assert ({loss.name for loss in tried.losses}, path.exists()) == (
        {"episodic", "salience"},
        False,
    )
    for dry in (True, False):
        with pytest.raises(LossError):
            export_bank(path, fail_on_loss=True, dry_run=dry)
        assert not path.exists()
    done = export_bank(path)
    assert (done.losses, done.lost) == (tried.losses, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.mem0.json",
        "satchel-home",
        "satchel-witness",
    ]


def test_nothing_to_export_is_an_error_and_leaves_no_file(bank: str, tmp_path: Path) -> None:
    """An empty bank, or a filter that excludes everything."""
    with pytest.raises(EmptyInputError):
        export_bank(tmp_path / "a.pam")
    append(bank, memories(2))
    with pytest.raises(EmptyInputError):
        export_bank(tmp_path / "a.pam", selection=selection(owner="nobody"))
    assert not (tmp_path / "a.pam").exists()


def test_an_existing_file_is_replaced_only_on_request(bank: str, tmp_path: Path) -> None:
    """The new file is complete before it takes the name."""
    append(bank, memories(2))
    path = tmp_path / "a.pam"
    path.write_text("precious")
    with pytest.raises(TargetExistsError):
        export_bank(path)
    assert path.read_text() == "precious"
    export_bank(path, overwrite=True)
    assert outcomes(path) == ["good"]


@pytest.mark.parametrize(
    ("name", "format_", "expected"),
    [
        ("memory", None, "pam"),
        ("memory.json", None, "pam"),
        ("memory.pam.jsonl.gz", None, "pam_jsonl"),
        ("memory.pam.cbor", None, "pam_cbor"),
        ("memory.pam", "mem0", "mem0"),
    ],
)
def test_the_format_is_the_given_one_then_that_of_the_suffix_then_an_artifact(
    bank: str, tmp_path: Path, name: str, format_: str | None, expected: str
) -> None:
    """In this order."""
    append(bank, memories(2))
    assert export_bank(tmp_path / name, format=format_).format == expected


@pytest.mark.parametrize(
    "wrong", [{"components": ("semantics",)}, {"since": "soon"}, {"as_of": 0}], ids=str
)
def test_an_invalid_filter_is_refused(wrong: Any) -> None:
    """Before anything is read."""
    with pytest.raises(UsageError):
        selection(**wrong)


def test_attack_a_memory_hidden_by_the_store_stops_the_export(bank: str, tmp_path: Path) -> None:
    """Attack: a row is marked as deleted without a record in the log."""
    append(bank, memories(300))
    settings = load_settings()
    with open_bank(settings, writes=True) as found, found.store.writing() as writing:
        sql = "UPDATE record SET retired = 5 WHERE place & 1048575 = 290"
        writing._connection.execute(sql)  # type: ignore[attr-defined]
    for wanted in (selection(), selection(tags=("x",))):
        with pytest.raises(VerificationError):
            export_bank(tmp_path / "a.pam", selection=wanted)
    assert not (tmp_path / "a.pam").exists()


_PROGRAM = """
from pathlib import Path
from transfer_kit import *
from satchel.transfer.export_records import ExportOptions
from satchel.transfer.exports import export
from satchel.bank.open_bank import open_bank as opened_bank
with opened_bank(load_settings()) as found:
    for name in ("out.pam.jsonl", "out.mem0.json"):
        export(found, Path(name), ExportOptions())
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_exporting_100_000_memories_takes_constant_memory(bank: str, tmp_path: Path) -> None:
    """Under 120 MB, for an artifact and for a Mem0 file."""
    many = [{"id": str(n), "memory": f"memory {n} " * 5, "user_id": "ada"} for n in range(100_000)]
    (tmp_path / "many.json").write_text(json.dumps(many))
    import_into(bank, tmp_path / "many.json")
    del many
    kit = Path(__file__).parent.parent / "kit"
    path = os.pathsep.join([str(kit), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=True,
    )
    assert int(ran.stdout) < 120 * 1024
    assert document(tmp_path / "out.mem0.json") == document(tmp_path / "many.json")


def test_current_memories_with_a_slot_are_exported(bank: str, tmp_path: Path) -> None:
    """The current one of a slot is exported; the one it replaced is not."""
    origin = Origin(provider="test", id="1")
    old, new = (seal(Semantic(text=text, origin=origin)) for text in ("old", "new"))
    append(bank, [old])
    append(bank, [seal(Status(target=old.id, state="superseded", by=new.id)), new])
    export_bank(tmp_path / "a.pam")
    assert texts(tmp_path / "a.pam") == ["new"]
