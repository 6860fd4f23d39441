"""``satchel import`` and ``satchel undo``, as a person sees them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from secrets_kit import Maker

from satchel.actions.config import load_settings
from satchel.actions.opened import opened_bank
from satchel.errors import StoreError, UnknownBankError
from satchel.memory.entries import Entry
from satchel.ports.rows import Filter

if TYPE_CHECKING:
    from tests.cli.conftest import Run

Process = Callable[..., "subprocess.Popen[bytes]"]


def _ids(bank: str) -> list[str]:
    with opened_bank(load_settings(), bank) as there, there.ledger.reading() as view:
        return [one.record.id for one in view.scan(Filter()) if isinstance(one.model, Entry)]


def test_an_import_says_what_it_did_and_how_to_take_it_back(satchel: Run, mem0: Path) -> None:
    """The command that it names works as it stands."""
    ran = satchel("import", mem0, "--bank", "assistant")
    assert ran.status == 0
    assert "imported 2 records" in ran.out
    assert "assistant (new)" in ran.out
    assert "2 new" in ran.out
    undo = next(line for line in ran.out.splitlines() if line.startswith("undo"))
    words = undo.split()[2:]
    assert words[0] == "undo"
    assert satchel(*words).status == 0
    assert _ids("assistant") == []
    again = satchel(*words)
    assert (again.status, again.err) == (0, "it was undone before\n")


def test_the_file_may_be_given_as_an_option(satchel: Run, mem0: Path) -> None:
    """As the first seed has it."""
    assert satchel("import", "--bank", "b", "--input", mem0, "--json").json["banks"][0]["made"]


def test_the_imports_are_listed(satchel: Run, mem0: Path) -> None:
    """With when they began, how many records came, and whether they hold."""
    assert satchel("undo", "--list", "--bank", "b").status == 2
    satchel("bank", "create", "b")
    assert "No imports yet" in satchel("undo", "--list", "--bank", "b").err
    satchel("import", mem0, "--bank", "b")
    ran = satchel("undo", "--list", "--bank", "b")
    assert "mem0" in ran.out
    assert "complete" in ran.out


def test_a_dry_run_of_undo_changes_nothing(satchel: Run, mem0: Path) -> None:
    """It says what would be taken back."""
    satchel("import", mem0, "--bank", "b")
    ran = satchel("undo", "--dry-run")
    assert "would take back 2 records" in ran.out
    assert len(_ids("b")) == 2


def test_an_import_reads_the_standard_input(process: Process, mem0: Path) -> None:
    """So a provider's own tool can be its source."""
    started = process("import", "-", "--bank", "b", "--json")
    out, err = started.communicate(mem0.read_bytes(), timeout=60)
    assert started.returncode == 0, err
    assert json.loads(out)["input"] == "standard input"
    assert len(_ids("b")) == 2


def test_one_bad_record_stops_an_import_and_says_how_to_go_on_without_it(
    satchel: Run, tmp_path: Path
) -> None:
    """Whatever is bad about it, the line is named; left out, the rest is there, and it is told."""
    path = tmp_path / "a.json"
    rows = [{"id": "1", "memory": "kept"}, {"id": "2", "memory": "x" * 1_100_000}]
    path.write_text("\n".join(("[", ",\n".join(map(json.dumps, rows)), "]")))
    ran = satchel("import", path, "--bank", "b")
    assert ran.status == 4
    assert "line 3" in ran.err
    assert "--skip-bad" in ran.err
    ran = satchel("import", path, "--bank", "b", "--skip-bad")
    assert ran.status == 1
    assert "over the limit" in ran.err
    assert len(_ids("b")) == 1


def test_a_hostile_owner_cannot_drive_the_terminal(satchel: Run, tmp_path: Path) -> None:
    """Attack: escape sequences in a user's id, which becomes the name of a bank."""
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"memory": "x", "user_id": "\x1b[2Jada\u202e"}]))
    ran = satchel("import", path)
    assert ran.status == 0
    assert "\x1b" not in ran.out + ran.err
    assert "\u202e" not in ran.out + ran.err
    assert "\x1b" not in satchel("bank", "list").out


def test_secrets_are_told_and_replaced_when_asked_for(satchel: Run, tmp_path: Path) -> None:
    """By kind and number; what they are is nowhere in the output, nor scrubbed in the bank."""
    _, secret = Maker(1).make("github-token")
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"id": "1", "memory": f"my token is {secret}", "user_id": "a"}]))
    ran = satchel("import", path, "--bank", "kept")
    assert "1 github-token" in ran.err
    assert "--scrub-secrets" in ran.err
    scrubbed = satchel("import", path, "--bank", "scrubbed", "--scrub-secrets", "--json")
    assert scrubbed.json["secrets"] == {"github-token": 1}
    assert secret not in ran.out + ran.err + scrubbed.out
    with opened_bank(load_settings(), "scrubbed") as there, there.ledger.reading() as view:
        bodies = b"".join(one.record.body for one in view.scan())
    assert secret.encode() not in bodies
    assert b"my token is [REDACTED:github-token:1]" in bodies


def test_a_sealed_file_is_not_scrubbed_on_its_way_in(satchel: Run, sealed: Path) -> None:
    """Its ids would be others; the error says so."""
    ran = satchel("import", sealed, "--bank", "b", "--scrub-secrets")
    assert ran.status == 2
    assert "sealed" in ran.err


def _large(path: Path, count: int) -> Path:
    rows = [{"id": str(n), "memory": f"memory {n}", "user_id": "ada"} for n in range(count)]
    path.write_text(json.dumps(rows))
    return path


def _killed_at(process: Process, path: Path, bank: str, size: int) -> bool:
    """Kill an import once the bank's log has a size; tell whether it was still running."""
    started = process("import", path, "--bank", bank, "--json")
    while started.poll() is None:
        try:
            with opened_bank(load_settings(), bank) as there, there.ledger.reading() as view:
                if view.head.size >= size:
                    break
        except (UnknownBankError, StoreError):  # it is not there yet, or just being made
            continue
    running = started.poll() is None
    started.kill()
    started.communicate()
    return running


def _said(imported: Any) -> Any:
    """Return what a receipt says besides when, into which bank and in how many attempts."""
    (account,) = imported["accounts"]
    assert account["counts"]["semantic"]["read_back"] == account["input"]["records"]
    apart = ("began", "ended", "source", "resumed", "output")
    return {name: part for name, part in account.items() if name not in apart}


@pytest.mark.prove
@pytest.mark.timeout(1200)
def test_an_import_of_100_000_killed_at_ten_points_gives_the_same_memories(
    satchel: Run, process: Process, tmp_path: Path
) -> None:
    """Each once, in the order of the file, with the ids that the first attempt gave them.

    Its receipt says what that of an import says which nobody killed.
    """
    count = 100_000
    path = _large(tmp_path / "a.json", count)
    killed, first = 0, list[str]()
    for point in range(10):
        running = _killed_at(process, path, "b", 3 + point * (count // 11))
        killed += running
        with opened_bank(load_settings(), "b") as there, there.ledger.reading() as view:
            (one,) = view.imports()
            pending = [logged.record.id for logged in view.pending(one.source)]
            shown = sum(1 for logged in view.scan() if isinstance(logged.model, Entry))
        assert shown == 0
        assert pending[: len(first)] == first
        first = pending
    assert killed == 10
    (job,) = satchel("job", "list", "--json").json
    assert (job["state"], job["parts"][0]["total"]) == ("waiting", count)
    resumed = satchel("job", "resume", job["id"], "--json")
    assert resumed.status == 0
    whole = satchel("import", path, "--bank", "whole", "--json").json
    assert _said(resumed.json) == _said(whole)
    with opened_bank(load_settings(), "b") as there, there.ledger.reading() as view:
        found = [one for one in view.scan() if isinstance(one.model, Entry)]
    assert [one.record.id for one in found][: len(first)] == first
    assert [one.model.text for one in found if isinstance(one.model, Entry)] == [
        f"memory {n}" for n in range(count)
    ]
