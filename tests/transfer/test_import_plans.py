"""Plans of imports, exports and conversions: a dry run returns them and changes nothing."""

import json
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from import_kit import A, B, C, bring, opened, rows, size, texts, write
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from msgspec import to_builtins

from satchel.config.settings import load_settings
from satchel.crypto.sealed_records import random_nonce, seal, seal_many
from satchel.model.records import Edge, Model, Semantic
from satchel.model.text import estimated_tokens
from satchel.model.values import Origin, Scope
from satchel.ports.rows import Row, unplaced_row
from satchel.recall.duplicates import NearDuplicateMode
from satchel.receipts.page import plan_page
from satchel.receipts.receipt import TransferPlan
from satchel.runtime import scratch
from satchel.runtime.scratch import SpoolStreams
from satchel.transfer.conversion import ConvertOptions, convert
from satchel.transfer.export_records import ExportOptions
from satchel.transfer.exports import export
from satchel.transfer.import_plan import ImportPlan
from satchel.transfer.import_results import ImportRules
from satchel.transfer.import_stage import GROUP, GROUP_BYTES, WIDTH, ImportStage, key_of, key_of_row

_SCHEMAS = Path(__file__).parent.parent.parent / "schemas"


def _fits(name: str, value: object) -> None:
    schema = json.loads((_SCHEMAS / f"{name}.json").read_bytes())
    Draft202012Validator(schema).validate(json.loads(json.dumps(to_builtins(value))))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file of three memories."""
    return write(tmp_path / "a.json", rows(A, B, C))


def test_the_plan_of_an_import_equals_its_result(source: Path, tmp_path: Path) -> None:
    """Created, changed, unchanged, and conflicting memories."""
    bring(write(tmp_path / "b.json", rows(A, ("2", "cocoa"))))
    before = size()
    plan = bring(source, on_conflict="overwrite", dry_run=True).plan
    assert size() == before
    assert isinstance(plan, TransferPlan)
    (target,) = plan.targets
    assert (target.created, target.changed, target.left_alone) == (2, 1, 1)
    assert (target.conflicts, target.conflict_examples) == (1, ["'2' of mem0"])
    assert plan.read == {"semantic": 3}
    _fits("plan", plan)
    done = bring(source, on_conflict="overwrite")
    assert done.banks[0].done.added == target.created
    _fits("account", done.accounts[0])


def test_a_plan_estimates_the_cost_of_embedding(source: Path) -> None:
    """Records, characters and tokens."""
    plan = bring(source, dry_run=True).plan
    assert plan is not None
    words = ("tea", "coffee", "water")
    assert (plan.embedding.records, plan.embedding.characters) == (3, len("".join(words)))
    assert plan.embedding.tokens == sum(map(estimated_tokens, words))
    assert plan.bytes_per_second > 0


def test_a_plan_and_its_page_count_near_duplicates(tmp_path: Path) -> None:
    """With the IDs of both; they are omitted if they were not searched."""
    bring(write(tmp_path / "a.json", rows(A)))
    one, other = "Mira prefers trains to planes.", "Mira prefers trains to planes!"
    file = write(tmp_path / "b.json", rows(("7", one), ("8", other), ("9", "water")))

    plan = bring(file, dry_run=True).plan
    unasked = bring(file, dry_run=True, near_duplicates=NearDuplicateMode.OFF).plan

    assert plan is not None
    assert unasked is not None
    assert plan.near_duplicates == 1
    (pair,) = plan.near_examples
    assert pair.one != pair.other
    assert pair.similarity >= 0.92
    assert "1 nearly the same as another one" in plan_page(plan)
    assert "about" in plan_page(plan).split("embedding")[1].splitlines()[0]
    assert "about" in plan_page(plan).split("time ")[1].splitlines()[0]
    assert unasked.near_duplicates is None
    assert "alike" not in plan_page(unasked)
    _fits("plan", plan)


def test_the_plan_of_an_export_lists_its_losses(source: Path, tmp_path: Path) -> None:
    """By field, and by owner."""
    bring(source)
    with opened() as there:
        there.ledger.append([seal(Semantic(text="x", valid_from="2026-01-01T00:00:00.000000Z"))])
        asked = ExportOptions(format="mem0", dry_run=True, accept_loss=("valid_from",))
        done = export(there, tmp_path / "o.json", asked)
    plan = done.plan
    assert plan is not None
    assert [(one.field, one.count, one.accepted) for one in plan.cannot_hold] == [
        ("valid_from", 1, True)
    ]
    assert {(one.sort, one.name, one.records) for one in plan.tenants} == {
        ("user", "ada", 3),
        ("nobody", "", 1),
    }
    assert not (tmp_path / "o.json").exists()
    _fits("plan", plan)


def test_a_dry_run_of_a_conversion_writes_nothing(source: Path, tmp_path: Path) -> None:
    """Neither a file, a key nor a receipt."""
    settings = load_settings()
    done = convert(source, tmp_path / "o.pam", settings, ConvertOptions(dry_run=True))
    assert done.plan is not None
    assert (done.plan.targets[0].created, done.output_digest, done.receipt) == (3, None, None)
    assert not (tmp_path / "o.pam").exists()
    assert not settings.home.exists()


def test_a_plan_creates_no_bank(source: Path) -> None:
    """Not even a store."""
    plan = bring(source, None, dry_run=True).plan
    assert plan is not None
    assert [(one.name, one.makes) for one in plan.targets] == [("ada", True)]
    assert not load_settings().home.exists()


def test_attack_the_page_of_a_plan_contains_no_escape_sequences(tmp_path: Path) -> None:
    """Attack: owners, IDs and file names with escape sequences."""
    nasty = "\x1b[2J\u202e\n"
    path = write(tmp_path / "a.json", rows(("1", "x"), (nasty, "y"), user=nasty))
    plan = bring(path, None, dry_run=True).plan
    assert plan is not None
    page = plan_page(plan)
    assert "\x1b" not in page
    assert "\u202e" not in page
    bring(path, None)
    assert texts(nasty) == ["x", "y"]


_ORIGIN = Origin(provider="mem0", id="1")
_FEW, _MANY, _TOGETHER = 2_000, 8_000, 500


def _rows(number: int) -> Iterator[list[Row]]:
    """Yield rows; every other memory has an origin ID."""
    scope = Scope(user="ada")
    for start in range(0, number, _TOGETHER):
        drafts = [
            Semantic(
                text=f"fact {at}",
                scope=scope,
                origin=Origin(provider="mem0", id=str(at)) if at % 2 else None,
            )
            for at in range(start, start + _TOGETHER)
        ]
        made = zip(drafts, seal_many(drafts), strict=True)
        yield [unplaced_row(draft, one.id, one.body) for draft, one in made]


def _plan_bytes(number: int) -> int:
    """Plan an import of some records, and return the bytes that the plan takes in memory."""
    strands = SpoolStreams()
    plan = ImportPlan(
        None, ImportRules(), strands, nonces=random_nonce, at="2026-01-01T00:00:00.000000Z"
    )
    tracemalloc.start(1)
    try:
        for rows in _rows(number):
            plan.take(rows)
        found = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    plan.finish()
    assert plan.done.added == number
    assert len(plan.keys) == WIDTH * number
    strands.close()
    return found


def test_the_plan_of_a_long_file_is_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a number of keys, its memory does not grow with the file."""
    monkeypatch.setattr(scratch, "MOST_IN_MEMORY", 2_000)
    _plan_bytes(_FEW)
    assert _plan_bytes(_MANY) - _plan_bytes(_FEW) < (_MANY - _FEW) * WIDTH


def test_the_plan_in_memory_takes_a_bounded_number_of_bytes_a_record() -> None:
    """At the largest number of keys in memory, some tens of megabytes."""
    _plan_bytes(_FEW)
    each = (_plan_bytes(_MANY) - _plan_bytes(_FEW)) / (_MANY - _FEW)
    assert each * scratch.MOST_IN_MEMORY * scratch.PLAN_TIMES / scratch.A_KEY < 40 * 10**6


@pytest.mark.parametrize(
    "model",
    [
        Semantic(text="tea", origin=_ORIGIN),
        Semantic(text="tea", parent_ids=("blake3:" + "0" * 64,), origin=_ORIGIN),
        Semantic(text="tea", parent_ids=("blake3:" + "0" * 64,)),
        Semantic(text='"parent_ids":[', metadata={"parent_ids": ["x"], "type": "edge"}),
        Semantic(text="tea", metadata={"type": "session_event"}, origin=_ORIGIN),
        Edge(source="blake3:" + "0" * 64, target="blake3:" + "1" * 64, kind="k", origin=_ORIGIN),
    ],
    ids=["plain", "parent", "parent without origin", "names in data", "types in data", "edge"],
)
def test_a_record_has_the_same_fingerprint_by_its_row_and_by_its_bytes(model: Model) -> None:
    """Columns that show that a record has no links give the same fingerprint."""
    record = seal(model)
    row = unplaced_row(record.model, record.id, record.body)
    assert key_of_row(row) == key_of(record.id, record.body)


def _row(text: str) -> Row:
    draft = Semantic(text=text)
    record = seal(draft)
    return unplaced_row(draft, record.id, record.body)


def _sizes(groups: Sequence[Sequence[Row]]) -> list[int]:
    return [sum(len(row.body or b"") for row in group) for group in groups]


@pytest.mark.parametrize("together", [1, 10])
@pytest.mark.parametrize("early", [False, True], ids=["staged", "streamed"])
def test_a_group_of_long_records_is_limited_by_bytes(*, early: bool, together: int) -> None:
    """4,096 messages of 8 KB would be in memory several times."""
    row, count = _row("tea " * 60_000), 100
    with closing(SpoolStreams()) as strands:
        stage, given = ImportStage(strands), list[Sequence[Row]]()

        def take(rows: Sequence[Row]) -> bool:
            given.append(rows)
            return True

        stage.sink = take if early else None
        for _ in range(count // together):
            stage.add_many([row] * together)
        stage.flush()
        groups = given or [*stage.groups()]

    assert min(_sizes(groups)[:-1]) >= GROUP_BYTES
    assert max(_sizes(groups)) < GROUP_BYTES + len(row.body or b"")
    assert sum(map(len, groups)) == count


def test_a_group_of_short_records_is_limited_by_number() -> None:
    """From the position of an earlier attempt on."""
    row = _row("tea")
    with closing(SpoolStreams()) as strands:
        stage = ImportStage(strands)
        for _ in range(GROUP + 10):
            stage.add(row)
        stage.add_many([])

        assert [len(group) for group in stage.groups()] == [GROUP, 10]
        assert [len(group) for group in stage.groups(after=5)] == [GROUP, 5]
