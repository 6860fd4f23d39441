"""``satchel import`` and ``satchel undo``."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from secrets_kit import Maker

from satchel.bank.open_bank import open_bank
from satchel.config.settings import load_settings
from satchel.model.records import Entry
from satchel.ports.rows import Filter
from satchel.transfer import import_stage

if TYPE_CHECKING:
    from tests.cli.conftest import Run

Process = Callable[..., "subprocess.Popen[bytes]"]


def _ids(bank: str) -> list[str]:
    with open_bank(load_settings(), bank) as there, there.ledger.reading() as view:
        return [one.record.id for one in view.scan(Filter()) if isinstance(one.model, Entry)]


@pytest.mark.parametrize("bank", ["assistant", "my notes", "zoë's", "--help", "a\u202eb\n"])
def test_the_undo_command_of_an_import_works_beside_other_banks(
    satchel: Run, mem0: Path, bank: str
) -> None:
    """The import and its receipt print it with the bank, which a shell reads as one word."""
    assert satchel("init").status == 0  # the default bank
    ran = satchel("import", mem0, f"--bank={bank}")
    assert ran.status == 0
    assert "imported 2 records" in ran.out
    assert "2 memories added" in ran.out
    receipt = re.search(r"receipt show (\w+)", ran.err)
    assert receipt is not None
    words: tuple[str, ...] = ()
    for printed in (ran.out, satchel("receipt", "show", receipt[1]).out):
        undo = re.search(r"^undo +satchel (undo .*)$", printed, re.MULTILINE)
        assert undo is not None
        words = tuple(shlex.split(undo[1]))
        assert satchel(*words, "--dry-run").status == 0
    assert satchel(*words).status == 0
    assert _ids(bank) == []
    again = satchel(*words)
    assert (again.status, again.err) == (0, "This import was already undone.\n")


def test_undo_names_the_bank_that_has_no_such_import(satchel: Run) -> None:
    """Imports often are in another bank than the default one."""
    assert satchel("init").status == 0
    for words in (("undo",), ("undo", "0123456789")):
        ran = satchel(*words)
        assert ran.status == 2
        assert "the bank 'default' has no import" in ran.err
        assert "--bank NAME" in ran.err


def test_import_accepts_input_as_an_option(satchel: Run, mem0: Path) -> None:
    """As the specification of the first version has it."""
    assert satchel("import", "--bank", "b", "--input", mem0, "--json").json["banks"][0]["made"]


def test_bank_imports_lists_imports(satchel: Run, mem0: Path) -> None:
    """With start, number of records and completeness."""
    assert satchel("bank", "imports", "--bank", "b").status == 2
    satchel("bank", "create", "b")
    assert "no imports" in satchel("bank", "imports", "--bank", "b").err
    satchel("import", mem0, "--bank", "b")
    ran = satchel("bank", "imports", "--bank", "b")
    assert "mem0" in ran.out
    assert "complete" in ran.out


def test_a_dry_run_of_undo_changes_nothing(satchel: Run, mem0: Path) -> None:
    """It reports how many records would be removed."""
    satchel("import", mem0, "--bank", "b")
    ran = satchel("undo", "--dry-run")
    assert "would remove 2 records" in ran.out
    assert len(_ids("b")) == 2


def test_import_reads_standard_input(process: Process, mem0: Path) -> None:
    """A provider's own tool can be the source."""
    started = process("import", "-", "--bank", "b", "--json")
    out, err = started.communicate(mem0.read_bytes(), timeout=60)
    assert started.returncode == 0, err
    assert json.loads(out)["input"] == "standard input"
    assert len(_ids("b")) == 2


def test_a_malformed_record_stops_an_import_without_skip_bad(satchel: Run, tmp_path: Path) -> None:
    """The error names line and option; with the option the rest is imported, with status 1."""
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


def test_attack_a_user_id_controls_the_terminal(satchel: Run, tmp_path: Path) -> None:
    """Escape sequences in a user ID, which becomes the name of a bank."""
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"memory": "x", "user_id": "\x1b[2Jada\u202e"}]))
    ran = satchel("import", path)
    assert ran.status == 0
    assert "\x1b" not in ran.out + ran.err
    assert "\u202e" not in ran.out + ran.err
    assert "\x1b" not in satchel("bank", "list").out


def test_import_counts_secrets_and_scrubs_them_on_request(satchel: Run, tmp_path: Path) -> None:
    """Per kind; the values are in no output and, scrubbed, not in the bank."""
    _, secret = Maker(1).make("github-token")
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"id": "1", "memory": f"my token is {secret}", "user_id": "a"}]))
    ran = satchel("import", path, "--bank", "kept")
    assert "1 github-token" in ran.err
    assert "--scrub-secrets" in ran.err
    scrubbed = satchel("import", path, "--bank", "scrubbed", "--scrub-secrets", "--json")
    assert scrubbed.json["secrets"] == {"github-token": 1}
    assert secret not in ran.out + ran.err + scrubbed.out
    with open_bank(load_settings(), "scrubbed") as there, there.ledger.reading() as view:
        bodies = b"".join(one.record.body for one in view.scan())
    assert secret.encode() not in bodies
    assert b"my token is [REDACTED:github-token:1]" in bodies


def test_scrub_secrets_is_refused_for_a_sealed_file(satchel: Run, sealed: Path) -> None:
    """Scrubbing would change the IDs."""
    ran = satchel("import", sealed, "--bank", "b", "--scrub-secrets")
    assert ran.status == 2
    assert "sealed" in ran.err


def _large(path: Path, count: int) -> Path:
    rows = [{"id": str(n), "memory": f"memory {n}", "user_id": "ada"} for n in range(count)]
    path.write_text(json.dumps(rows))
    return path


_KILLED_IMPORT = """
import os, signal, sys

from satchel.transfer import import_job as work
from satchel.cli.main import main
from satchel.transfer import import_batches as batch, import_stage as stage

moment, at = sys.argv[1], int(sys.argv[2])
stage.GROUP = int(sys.argv[3])
stage.COMMIT_BYTES = work.COMMIT_BYTES = int(sys.argv[4])
sys.argv = ["satchel", *sys.argv[5:]]
where = {"commit": batch.Tally, "durable": work.ImportJob}[moment]
name = {"commit": "add_many", "durable": "_tell"}[moment]
original, calls = getattr(where, name), 0


def dying(self, *given):
    global calls
    original(self, *given)
    calls += 1
    if calls == at:
        os.kill(os.getpid(), signal.SIGKILL)


setattr(where, name, dying)
main()
"""
"""The command line, killed when it logged the nth group: before that is committed, or once it is
durable and reported. The moment does not depend on speed."""


def _import_killed(path: Path, moment: str, at: int, group: int, commit_bytes: int) -> None:
    """Import into the bank ``b`` until the process kills itself."""
    how = [moment, str(at), str(group), str(commit_bytes)]
    command = [
        sys.executable,
        "-c",
        _KILLED_IMPORT,
        *how,
        "import",
        str(path),
        "--bank",
        "b",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def _comparable(imported: Any) -> Any:
    """Return a receipt's account without time, bank, source and attempts."""
    (account,) = imported["accounts"]
    assert account["counts"]["semantic"]["read_back"] == account["input"]["records"]
    apart = ("began", "ended", "source", "resumed", "output")
    return {name: part for name, part in account.items() if name not in apart}


_SIZES = [
    pytest.param(700, 40, id="700"),
    pytest.param(
        100_000,
        import_stage.GROUP,
        id="100000",
        marks=[pytest.mark.prove, pytest.mark.timeout(1200)],
    ),
]
"""How many memories, and how many at most are one group."""


def _texts(bank: str) -> list[str | None]:
    with open_bank(load_settings(), bank) as there, there.ledger.reading() as view:
        return [one.model.text for one in view.scan() if isinstance(one.model, Entry)]


@pytest.mark.parametrize(("count", "group"), _SIZES)
def test_an_import_killed_between_commits_resumes_with_the_same_memories(
    satchel: Run, tmp_path: Path, count: int, group: int
) -> None:
    """Each once, in file order, with the IDs of the first attempt.

    Durable records stay; the receipt equals that of an uninterrupted import.
    """
    path = _large(tmp_path / "a.json", count)
    first, durable = list[str](), 0
    for point in range(10):
        moment = ("commit", "durable")[point % 2]
        _import_killed(path, moment, 2, group, 1)
        durable += {"commit": 1, "durable": 2}[moment]
        with open_bank(load_settings(), "b") as there, there.ledger.reading() as view:
            (one,) = view.imports()
            pending = [logged.record.id for logged in view.pending(one.source)]
        assert _texts("b") == []
        assert len(pending) == durable * group
        assert pending[: len(first)] == first
        first = pending
    (job,) = satchel("job", "list", "--json").json["jobs"]
    assert (job["state"], job["parts"][0]["total"]) == ("waiting", count)
    resumed = satchel("job", "resume", job["id"], "--json")
    assert resumed.status == 0
    whole = satchel("import", path, "--bank", "whole", "--json").json
    assert _comparable(resumed.json) == _comparable(whole)
    assert _ids("b")[: len(first)] == first
    assert _texts("b") == [f"memory {n}" for n in range(count)]


@pytest.mark.prove
@pytest.mark.parametrize(("count", "group"), _SIZES)
def test_an_import_killed_before_its_only_commit_stores_nothing(
    satchel: Run, tmp_path: Path, count: int, group: int
) -> None:
    """Neither memories nor a job; a second run imports everything."""
    path = _large(tmp_path / "a.json", count)
    groups = count // group
    for point in range(10):
        _import_killed(
            path, "commit", 1 + point * (groups - 1) // 9, group, import_stage.COMMIT_BYTES
        )
        banks = satchel("bank", "list", "--json").json["banks"]
        assert [texts for one in banks for texts in _texts(one["name"])] == []
        assert satchel("job", "list", "--json").json["jobs"] == []
    assert satchel("import", path, "--bank", "b", "--json").status == 0
    assert _texts("b") == [f"memory {n}" for n in range(count)]
