"""Plans of imports, exports and conversions: a dry run returns them and changes nothing."""

import json
from pathlib import Path

import pytest
from import_kit import A, B, C, bring, opened, rows, size, texts, write
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from msgspec import to_builtins

from satchel.config.settings import load_settings
from satchel.crypto.sealed_records import seal
from satchel.model.records import Semantic
from satchel.model.text import estimated_tokens
from satchel.recall.duplicates import NearDuplicateMode
from satchel.receipts.page import plan_page
from satchel.receipts.receipt import TransferPlan
from satchel.transfer.conversion import ConvertOptions, convert
from satchel.transfer.export_records import ExportOptions
from satchel.transfer.exports import export

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
