"""``satchel recall``: what is found, printed and refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from satchel.bank.connections import configured_store, open_ledger
from satchel.config.settings import load_settings
from satchel.crypto.sealed_records import seal
from satchel.model.records import Model, Semantic, Status
from satchel.model.values import Origin, Scope, TrustClass

if TYPE_CHECKING:
    from tests.cli.conftest import Run

NASTY = "\x1b]0;owned\x07\x1b[2J\u202egnp\u2066 tea"


def add(bank: str, *drafts: Model) -> list[str]:
    """Add records to a bank on this machine, and return their ids."""
    config = load_settings()
    records = [seal(draft) for draft in drafts]
    with configured_store(config) as store:
        open_ledger(config, store, bank, writes=True).append(records)
    return [record.id for record in records]


@pytest.fixture
def bank(satchel: Run) -> str:
    """A bank of this machine's own, with some memories."""
    made: str = satchel("bank", "create", "assistant").out.strip()
    add(
        made,
        Semantic(
            text="Ada eats no peanuts", tags=("diet",), created_at="2026-03-01T09:30:00.000000Z"
        ),
        Semantic(text="次の金曜日に会議があります", scope=Scope(user="emi")),
        Semantic(text="ผมชอบกาแฟร้อน", origin=Origin(trust=TrustClass.TOOL)),
        Semantic(text="我喜欢喝咖啡和茶", expires_at="2026-01-01T00:00:00.000000Z"),
    )
    return made


@pytest.mark.usefixtures("bank")
def test_a_memory_is_shown_with_what_matters(satchel: Run) -> None:
    """Text, type, day, trust, the start of the id and the score."""
    ran = satchel("recall", "what does Ada eat")
    (identity,) = (found["id"] for found in satchel("recall", "Ada", "--json").json["memories"])
    about, text = ran.out.splitlines()
    assert (ran.status, ran.err) == (0, "")
    assert about.split()[:4] == ["semantic", "2026-03-01", "user", identity[:15]]
    assert float(about.split()[4]) > 0
    assert text == "  Ada eats no peanuts"


def test_the_json_holds_memories_and_the_head_that_verifies_them(satchel: Run, bank: str) -> None:
    """With the head's size, so that a program can compare."""
    found = satchel("recall", "peanuts", "--json").json
    (memory,) = found["memories"]
    assert memory["text"] == "Ada eats no peanuts"
    assert satchel("show", memory["id"], "--json").json["record"]["text"] == memory["text"]
    assert memory["terms"] == ["peanuts"]
    assert (found["proved_by"]["bank"], found["proved_by"]["size"]) == (bank, 6)
    assert (found["size"], found["complete"], found["over_budget"]) == (6, True, 0)
    assert found["tokens"] == memory["tokens"]


@pytest.mark.usefixtures("bank")
@pytest.mark.parametrize(
    ("typed", "more", "text"),
    [
        ("金曜日", [], "次の金曜日に会議があります"),
        ("กาแฟ", [], "ผมชอบกาแฟร้อน"),
        ("咖啡", ["--include-expired"], "我喜欢喝咖啡和茶"),
        ("", ["--tag", "diet"], "Ada eats no peanuts"),
        ("", ["--user", "emi"], "次の金曜日に会議があります"),
        ("", ["--since", "2026-03-01", "--until", "2026-03-02"], "Ada eats no peanuts"),
        ("", ["--as-of", "3"], "Ada eats no peanuts"),
    ],
)
def test_scripts_and_filters_work_through_the_command(
    satchel: Run, typed: str, more: list[str], text: str
) -> None:
    """As a person types them."""
    found = satchel("recall", typed, *more, "--json").json["memories"]
    assert [memory["text"] for memory in found] == [text]


@pytest.mark.usefixtures("bank")
def test_invalid_and_untrusted_memories_are_omitted(satchel: Run) -> None:
    """Unless it is asked for."""
    assert satchel("recall", "咖啡").out == ""
    assert "nothing found" in satchel("recall", "咖啡").err
    assert satchel("recall", "กาแฟ", "--trust", "agent").out == ""
    assert satchel("recall", "กาแฟ", "--trust", "tool").out != ""


def test_memories_over_the_budget_are_counted(satchel: Run, bank: str) -> None:
    """Nothing is cut; the message goes to stderr."""
    add(bank, Semantic(text="tea " * 300), Semantic(text="tea, briefly"))
    ran = satchel("recall", "tea", "--budget", "50")
    assert [line for line in ran.out.splitlines() if line.startswith("  ")] == ["  tea, briefly"]
    assert "1 memory omitted: over the token budget" in ran.err


def test_as_of_shows_what_was_deleted_since(satchel: Run, bank: str) -> None:
    """With the place of the log, and not for now."""
    (tea,) = add(bank, Semantic(text="tea"))
    add(bank, Status(target=tea, state="deleted"))
    assert satchel("recall", "tea").out == ""
    assert "tea" in satchel("recall", "tea", "--as-of", "7").out
    assert satchel("recall", "tea", "--as-of", "2020-01-01").out == ""


@pytest.mark.usefixtures("bank")
@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--since", "yesterday"], "since"),
        (["--until", "2026-13-01"], "until"),
        (["--as-of", "soon"], "as_of"),
        (["--as-of", "99"], "as_of"),
        (["--trust", "boss"], "trust"),
        (["--type", "dreams"], "type"),
        (["--limit", "0"], "limit"),
        (["--budget", "0"], "budget"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(
    satchel: Run, arguments: list[str], field: str
) -> None:
    """With the option, and what would do."""
    ran = satchel("recall", "tea", *arguments, "--json")
    assert (ran.status, ran.out, ran.error["field"]) == (2, "", field)


@pytest.mark.usefixtures("bank")
@pytest.mark.parametrize(
    "arguments",
    [["--limit", "many"], ["--limit"], ["--nope"], ["a", "b"], ["--limit", "-1"]],
)
def test_a_wrong_command_line_is_explained_as_elsewhere(satchel: Run, arguments: list[str]) -> None:
    """A usage error, with where the help is."""
    ran = satchel("recall", *arguments, "--json")
    assert (ran.status, ran.out, ran.error["code"]) == (2, "", "usage")


def test_hostile_memories_do_not_drive_the_terminal(satchel: Run, bank: str) -> None:
    """Attack: a memory, and a question, that clear the screen or reverse the line."""
    add(bank, Semantic(text=NASTY, kind=NASTY, tags=(NASTY,), scope=Scope(user=NASTY)))
    for more in ([], ["--json"]):
        for ran in (
            satchel("recall", "tea", *more),
            satchel("recall", NASTY, *more),
            satchel("recall", "tea", "--since", NASTY, *more),
        ):
            assert not any(char in ran.out + ran.err for char in "\x1b\x07\u202e\u2066")
    assert satchel("recall", "tea", "--json").json["memories"][0]["text"] == NASTY


@pytest.mark.usefixtures("bank")
def test_global_options_count_before_and_after_the_command(satchel: Run, tmp_path: Path) -> None:
    """Another store is another store."""
    assert satchel("recall", "Ada", "--store", tmp_path / "none.db").status == 2
    assert satchel("--store", tmp_path / "none.db", "recall", "Ada").status == 2
    assert satchel("--home", tmp_path / "elsewhere", "recall", "Ada").status == 2
    assert satchel("recall", "Ada").status == 0


@pytest.mark.usefixtures("bank")
def test_nothing_is_imported_that_recalling_does_not_need() -> None:
    """A cold start pays for what it uses: no colors, no other command."""
    program = (
        "import sys, json; from satchel.cli.main import run;"
        "run(['recall', 'Ada', '--json']);"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    modules = json.loads(done.stderr)
    heavy = {
        *(
            "asyncio",
            "cbor2",
            "email",
            "importlib.metadata",
            "pydantic",
            "rich",
            "socket",
            "sqlite3",
        ),
        *("satchel.ports.format", "satchel.files.memory_store", "satchel.screening.secrets"),
    }
    assert heavy & set(modules) == set()
    assert "satchel.recall.engine" in modules


def test_memories_that_a_filter_excluded_are_counted(satchel: Run) -> None:
    """The words match them, so the answer says which filter is the reason."""
    satchel("remember", "Ada drinks tea", "--tag", "diet")
    satchel("remember", "Bob drinks tea", "--valid-until", "2020-01-01T00:00Z")

    assert "excluded: 2 by tags" in satchel("recall", "tea", "--tag", "food").err
    assert "excluded: 1 by validity" in satchel("recall", "tea", "--explain").err
    plan = satchel("recall", "tea", "--json").json["plan"]
    assert plan["excluded"] == {"validity": 1}
