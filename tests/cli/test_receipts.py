"""Receipts, plans and jobs on the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from import_kit import killed
from transfer_kit import append, new_bank

from satchel.crypto.sealed_records import seal
from satchel.model.records import Semantic

if TYPE_CHECKING:
    from tests.cli.conftest import Run


@pytest.fixture
def lossy_bank() -> str:
    """A bank with a field that Mem0 cannot store."""
    append(new_bank("full"), [seal(Semantic(text="x", valid_from="2026-01-01T00:00:00.000000Z"))])
    return "full"


def test_a_transfer_prints_the_command_that_shows_its_receipt(satchel: Run, mem0: Path) -> None:
    """The printed command works as it is."""
    ran = satchel("import", mem0, "--bank", "b")
    words = next(line for line in ran.err.splitlines() if line.startswith("receipt: ")).split()
    page = satchel(*words[2:])
    assert page.status == 0
    assert page.out.startswith("RECEIPT OF AN IMPORT\n")
    assert "Complete: nothing was lost." in page.out
    assert "Signed by a trusted key" in page.out
    listed = satchel("receipt", "list")
    assert words[-1] in listed.out
    assert "2 records" in listed.out


def test_a_receipt_is_written_to_a_file_and_verified(
    satchel: Run, mem0: Path, tmp_path: Path
) -> None:
    """On another machine its signer is untrusted."""
    path = tmp_path / "r.json"
    assert satchel("convert", mem0, tmp_path / "o.pam", "--receipt", path).status == 0
    assert satchel("receipt", "verify", path).out.startswith("good  blake3:")
    elsewhere = satchel("--home", tmp_path / "elsewhere", "receipt", "verify", path)
    assert (elsewhere.status, elsewhere.out[:9]) == (3, "untrusted")
    path.write_bytes(path.read_bytes().replace(b'"read":2', b'"read":3'))
    ran = satchel("receipt", "verify", path)
    assert (ran.status, ran.out[:8]) == (3, "tampered")
    assert "TAMPERED" in satchel("receipt", "show", path).out


def test_an_output_whose_receipt_cannot_be_stored_is_reported(
    satchel: Run, mem0: Path, tmp_path: Path, own_home: Path
) -> None:
    """As a warning, and by a field of the JSON: the output is complete."""
    satchel("import", mem0, "--bank", "b")
    shutil.rmtree(own_home / "receipts")
    (own_home / "receipts").write_text("in the way")
    for command in (["export", "--bank", "b", "-o"], ["convert", str(mem0)]):
        path = tmp_path / f"{command[0]}.pam"
        ran = satchel(*command, path)
        assert ran.status == 0
        assert "warning: the receipt was not stored on this machine: " in ran.err
        assert "satchel receipt show" not in ran.err
        assert satchel("verify", path).status == 0
        done = satchel(*command, path, "--overwrite", "--json").json
        assert str(own_home / "receipts") in done["receipt_problem"]
        assert "receipt" not in done
        copy = tmp_path / f"{command[0]}.receipt.json"
        done = satchel(*command, path, "--overwrite", "--receipt", copy, "--json").json
        assert (bool(done["receipt"]), "not stored" in done["receipt_problem"]) == (True, True)
        assert satchel("receipt", "verify", copy).status == 0


def test_a_loss_is_exit_status_1_until_it_is_accepted(
    satchel: Run, lossy_bank: str, tmp_path: Path
) -> None:
    """The message names the option; a dry run has the same status."""
    words = ["export", "--bank", lossy_bank, "--to", "mem0"]
    ran = satchel(*words, "-o", tmp_path / "a.json")
    assert ran.status == 1
    assert "1 value lost. To accept the loss: --accept-loss FIELD" in ran.err
    assert satchel(*words, "-o", tmp_path / "b.json", "--dry-run").status == 1
    for accepted in ("valid_from", "all"):
        more = ["--accept-loss", accepted]
        output = tmp_path / f"{accepted}.json"
        assert satchel(*words, "-o", output, "--dry-run", *more).status == 0
        assert satchel(*words, "-o", output, *more).status == 0
    assert satchel(*words, "-o", tmp_path / "c.json", "--accept-loss", "text").status == 1


def test_import_and_receipt_show_return_the_same_json(satchel: Run, mem0: Path) -> None:
    """The account of the receipt."""
    done = satchel("import", mem0, "--bank", "b", "--json").json
    shown = satchel("receipt", "show", done["receipts"][0], "--json").json
    assert shown["account"] == done["accounts"][0]
    assert shown["record"]["result"] == done["accounts"][0]
    assert shown["outcome"] == "good"


def test_a_dry_run_prints_a_plan(satchel: Run, mem0: Path, tmp_path: Path) -> None:
    """Of an import, and of a conversion."""
    assert "WOULD IMPORT" in satchel("import", mem0, "--bank", "b", "--dry-run").out
    ran = satchel("convert", mem0, tmp_path / "o.pam", "--dry-run")
    assert (ran.status, "WOULD CONVERT" in ran.out) == (0, True)
    assert satchel("key", "list", "--json").json["keys"] == []


def test_jobs_are_listed_resumed_and_canceled(satchel: Run, mem0: Path) -> None:
    """With IDs that can be typed."""
    assert "No import is running" in satchel("job", "list").err
    job = killed(mem0, "b")
    ran = satchel("job", "list")
    assert job in ran.out
    assert "2 of 2" in ran.out
    assert [one["id"] for one in satchel("job", "list", "--json").json["jobs"]] == [job]
    ran = satchel("job", "resume", job)
    assert (ran.status, "resumed: 2 records" in ran.out) == (0, True)
    job = killed(mem0, "c")
    assert f"removed 2 records of {job}" in satchel("job", "cancel", job).out
    assert satchel("job", "cancel", job, "--json").error["code"] == "job.unknown"


def test_import_maps_owners_to_banks(satchel: Run, tmp_path: Path) -> None:
    """With ``--map``, which may be repeated."""
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"memory": "x", "user_id": "ada"}, {"memory": "y", "run_id": "r"}]))
    assert satchel("import", path).status == 4
    ran = satchel("import", path, "--map", "user:ada=bank-ada", "--map", "run:r=runs")
    assert ran.status == 0
    assert [bank["name"] for bank in satchel("bank", "list", "--json").json["banks"]] == [
        "bank-ada",
        "runs",
    ]
    ran = satchel("import", path, "--map", "user:eve=x", "--map", "run:r=runs", "--json")
    assert (ran.status, ran.error["code"], ran.error["field"]) == (2, "usage", "map")
