"""``satchel erase``, ``redact`` and ``recover``: who is asked, what is shown, and the status."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Run

ADA = "Dr. Ada Lovelace, ada@analytical.example, of Marylebone"


def remembered(satchel: Run, text: str = ADA, user: str = "ada") -> str:
    """Remember a text and return its id."""
    assert satchel("init").status == 0
    return satchel("remember", text, "--user", user).out.strip()


def test_nothing_is_erased_where_nobody_can_be_asked(satchel: Run) -> None:
    """Neither by a script that forgot to say so, nor with --json; a dry run asks nobody."""
    remembered(satchel)
    for more in ((), ("--json",)):
        ran = satchel("erase", "--where", "user=ada", *more)
        assert ran.status == 2
        assert "--yes" in ran.err
    plan = satchel("erase", "--where", "user=ada", "--dry-run")
    assert plan.status == 0
    assert plan.out.startswith("1 record would be erased")
    assert satchel("list").out.count("Lovelace") == 1


def test_without_memories_erase_asks_for_them_before_any_confirmation(satchel: Run) -> None:
    """A hint that names --yes would be the wrong one."""
    remembered(satchel)
    ran = satchel("erase")
    assert (ran.status, "--where" in ran.err, "--yes" in ran.err) == (2, True, False)


def test_the_report_of_erased_and_searched_is_shown_and_stored(
    satchel: Run, tmp_path: Path
) -> None:
    """On a line each; the report is listed, verified, and a copy of it written."""
    remembered(satchel)
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


def test_a_remaining_fragment_sets_the_exit_status(satchel: Run, tmp_path: Path) -> None:
    """With the file that holds it."""
    remembered(satchel)
    home = next(tmp_path.rglob("satchel.db")).parent
    (home / "notes.txt").write_text(f"she said: {ADA}")
    ran = satchel("erase", "--where", "user=ada", "--yes", "--json")
    assert ran.status == 1
    assert [one["name"] for one in ran.json["scanned"] if one.get("found")] == [
        str(home / "notes.txt")
    ]


def test_misspelled_options_get_a_suggestion(satchel: Run) -> None:
    """A condition that is none, a memory that is not there, a kind that nobody knows."""
    identity = remembered(satchel)
    for words, hint in (
        (("erase", "--where", "color=red", "--yes"), "user"),
        (("erase", "blake3:" + "0" * 64, "--yes"), "satchel list"),
        (("redact", identity, "--data-kind", "nose"), "email"),
        (("redact", identity, "--field", "text"), "/text"),
        (("redact",), "--where"),
    ):
        ran = satchel(*words)
        assert ran.status == 2, words
        assert hint in ran.err


def test_a_memory_is_redacted_shown_and_recovered(satchel: Run, tmp_path: Path) -> None:
    """The words are never printed but by who may recover them."""
    identity = remembered(satchel)
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
    other = remembered(satchel, "nothing personal", "bob")
    assert satchel("recover", other).status == 3


def test_a_redacted_memory_stays_redacted_in_another_bank(satchel: Run, tmp_path: Path) -> None:
    """It comes under the id that it had, with what is left of its words, and verifies there."""
    remembered(satchel)
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
