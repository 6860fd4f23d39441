"""Erasure on the command line: erase, redact, recover, prune and everything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Run

ADA = "Dr. Ada Lovelace, ada@analytical.example, of Marylebone"


def remember(satchel: Run, text: str = ADA, user: str = "ada") -> str:
    """Store a memory and return its ID."""
    assert satchel("init").status == 0
    return satchel("remember", text, "--user", user).out.strip()


def test_erase_requires_yes_without_a_terminal(satchel: Run) -> None:
    """Also with ``--json``; a dry run needs no confirmation."""
    remember(satchel)
    for more in ((), ("--json",)):
        ran = satchel("erase", "--where", "user=ada", *more)
        assert ran.status == 2
        assert "--yes" in ran.err
    plan = satchel("erase", "--where", "user=ada", "--dry-run")
    assert plan.status == 0
    assert plan.out.startswith("1 record would be erased")
    assert satchel("list").out.count("Lovelace") == 1


def test_erase_prints_and_stores_a_report(
    satchel: Run, tmp_path: Path
) -> None:
    """It is listed and verified, and a copy is written."""
    remember(satchel)
    copy = tmp_path / "report.json"
    ran = satchel("erase", "--where", "user=ada", "--yes", "--receipt", copy)
    assert ran.status == 0
    assert "1 record erased" in ran.out
    assert "no remnants" in ran.out
    assert "not searched: backups" in ran.err
    assert "Lovelace" not in ran.out + ran.err
    assert satchel("receipt", "verify", copy).status == 0
    page = satchel("receipt", "show", copy).out
    assert page.startswith("REPORT OF AN ERASURE")
    assert "nothing found" in page
    assert satchel("doctor", "--deep").status == 0
    assert satchel("erase", "--where", "user=ada", "--yes", "--no-scan").status == 0


def test_a_remnant_after_erase_sets_exit_status_1(satchel: Run, tmp_path: Path) -> None:
    """The report names the file that contains it."""
    remember(satchel)
    home = next(tmp_path.rglob("satchel.db")).parent
    (home / "notes.txt").write_text(f"she said: {ADA}")
    ran = satchel("erase", "--where", "user=ada", "--yes", "--json")
    assert ran.status == 1
    assert [one["name"] for one in ran.json["scanned"] if one.get("found")] == [
        str(home / "notes.txt")
    ]


def test_invalid_arguments_of_erase_and_redact_get_a_hint(satchel: Run) -> None:
    """An unknown field, memory or kind of data."""
    identity = remember(satchel)
    for words, hint in (
        (("erase", "--where", "colour=red", "--yes"), "user"),
        (("erase", "blake3:" + "0" * 64, "--yes"), "satchel list"),
        (("redact", identity, "--data-kind", "nose"), "email"),
        (("redact", identity, "--field", "text"), "/text"),
        (("redact",), "--where"),
    ):
        ran = satchel(*words)
        assert ran.status == 2, words
        assert hint in ran.err


def test_a_memory_is_redacted_shown_and_recovered(satchel: Run, tmp_path: Path) -> None:
    """The removed words are printed only by ``recover``, to its recipient."""
    identity = remember(satchel)
    plan = satchel("redact", identity, "--dry-run")
    assert "1 memory would be redacted" in plan.out
    ran = satchel("redact", "--where", "user=ada", "--recover-for", "default")
    assert ran.status == 0
    assert "1 email" in ran.out
    assert "Lovelace" not in plan.out + ran.out + ran.err
    assert "[REDACTED:email:1]" in satchel("list").out
    assert satchel("recover", identity).json["text"] == ADA
    output = tmp_path / "original.json"
    assert satchel("recover", identity, "-o", output).status == 0
    assert json.loads(output.read_bytes())["id"] == identity
    assert output.stat().st_mode & 0o777 == 0o600
    other = remember(satchel, "nothing personal", "bob")
    assert satchel("recover", other).status == 3


def test_a_redacted_memory_stays_redacted_in_another_bank(satchel: Run, tmp_path: Path) -> None:
    """With the same ID, and it verifies there."""
    remember(satchel)
    assert satchel("redact", "--where", "user=ada").status == 0
    file, again = tmp_path / "all.pam.jsonl", tmp_path / "again.pam.jsonl"
    assert satchel("export", "--output", file).status == 0
    assert satchel("verify", file, "--deep").status == 0
    assert satchel("bank", "create", "second").status == 0
    assert satchel("import", file, "--bank", "second").status == 0
    for command in (("list",), ("recall", "ada")):
        ran = [satchel(*command, "--bank", bank, "--json") for bank in ("default", "second")]
        ids = [[one["id"] for one in json.loads(each.out)["memories"]] for each in ran]
        assert ids[0] == ids[1]
    assert satchel("export", "--bank", "second", "--output", again).status == 0
    assert satchel("verify", again, "--deep").status == 0
    assert b"REDACTED" in again.read_bytes()
