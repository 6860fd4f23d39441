"""``satchel recall``: results, output and errors."""

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


def append_records(bank: str, *drafts: Model) -> list[str]:
    """Add records to a bank on this machine, and return their ids."""
    config = load_settings()
    records = [seal(draft) for draft in drafts]
    with configured_store(config) as store:
        open_ledger(config, store, bank, writes=True).append(records)
    return [record.id for record in records]


@pytest.fixture
def bank(satchel: Run) -> str:
    """A bank that this machine owns, with some memories."""
    made: str = satchel("bank", "create", "assistant").out.strip()
    append_records(
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
def test_recall_prints_text_type_day_trust_id_and_score(satchel: Run) -> None:
    """The ID is shortened."""
    ran = satchel("recall", "what does Ada eat")
    (identity,) = (found["id"] for found in satchel("recall", "Ada", "--json").json["memories"])
    about, text = ran.out.splitlines()
    assert (ran.status, ran.err) == (0, "")
    assert about.split()[:4] == ["semantic", "2026-03-01", "user", identity[:15]]
    assert float(about.split()[4]) > 0
    assert text == "  Ada eats no peanuts"


def test_recall_json_has_memories_and_the_verifying_head(satchel: Run, bank: str) -> None:
    """With the head's size."""
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
def test_recall_finds_memories_in_any_script_and_by_filter(
    satchel: Run, typed: str, more: list[str], text: str
) -> None:
    """As typed on a command line."""
    found = satchel("recall", typed, *more, "--json").json["memories"]
    assert [memory["text"] for memory in found] == [text]


@pytest.mark.usefixtures("bank")
def test_recall_omits_expired_and_untrusted_memories(satchel: Run) -> None:
    """Unless an option includes them."""
    assert satchel("recall", "咖啡").out == ""
    assert "nothing found" in satchel("recall", "咖啡").err
    assert satchel("recall", "กาแฟ", "--trust", "agent").out == ""
    assert satchel("recall", "กาแฟ", "--trust", "tool").out != ""


def test_recall_in_an_empty_bank_says_that_it_is_empty(satchel: Run) -> None:
    """It does not advise computing vectors."""
    assert satchel("bank", "create", "empty").status == 0
    printed = satchel("recall", "tea", "--bank", "empty").err
    assert "vectors: the bank has no memories" in printed
    assert "satchel embed" not in printed


@pytest.mark.usefixtures("bank")
def test_recall_that_finds_nothing_prints_how_it_searched(satchel: Run) -> None:
    """Without an option: the terms, whether vectors were compared, and what was excluded."""
    printed = satchel("recall", "咖啡").err
    assert "searched for: 咖啡" in printed
    assert "vectors: " in printed
    assert "candidates: " in printed
    assert "excluded: 1 by validity" in printed
    listed = satchel("recall", "--tag", "nowhere").err
    assert "searched for: the newest" in listed
    assert "by tags" in listed
    assert "vectors" not in listed


def test_memories_over_the_budget_are_counted(satchel: Run, bank: str) -> None:
    """They are omitted as a whole; the message goes to stderr."""
    append_records(bank, Semantic(text="tea " * 300), Semantic(text="tea, briefly"))
    ran = satchel("recall", "tea", "--budget", "50")
    assert [line for line in ran.out.splitlines() if line.startswith("  ")] == ["  tea, briefly"]
    assert "1 memory omitted: over the token budget" in ran.err


def test_as_of_returns_memories_deleted_later(satchel: Run, bank: str) -> None:
    """With a log position, or a time."""
    (tea,) = append_records(bank, Semantic(text="tea"))
    append_records(bank, Status(target=tea, state="deleted"))
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
def test_invalid_filters_of_recall_are_refused_by_name(
    satchel: Run, arguments: list[str], field: str
) -> None:
    """The error names the option."""
    ran = satchel("recall", "tea", *arguments, "--json")
    assert (ran.status, ran.out, ran.error["field"]) == (2, "", field)


@pytest.mark.usefixtures("bank")
@pytest.mark.parametrize(
    "arguments",
    [["--limit", "many"], ["--limit"], ["--nope"], ["a", "b"], ["--limit", "-1"]],
)
def test_usage_errors_of_recall_are_like_those_of_other_commands(
    satchel: Run, arguments: list[str]
) -> None:
    """Although ``recall`` has its own parser."""
    ran = satchel("recall", *arguments, "--json")
    assert (ran.status, ran.out, ran.error["code"]) == (2, "", "usage")


def test_escapes_in_recalled_memories_do_not_reach_the_terminal(satchel: Run, bank: str) -> None:
    """Attack: a memory, and a query, that clear the screen or reverse the line."""
    append_records(bank, Semantic(text=NASTY, kind=NASTY, tags=(NASTY,), scope=Scope(user=NASTY)))
    for more in ([], ["--json"]):
        for ran in (
            satchel("recall", "tea", *more),
            satchel("recall", NASTY, *more),
            satchel("recall", "tea", "--since", NASTY, *more),
        ):
            assert not any(char in ran.out + ran.err for char in "\x1b\x07\u202e\u2066")
    assert satchel("recall", "tea", "--json").json["memories"][0]["text"] == NASTY


@pytest.mark.usefixtures("bank")
def test_global_options_are_accepted_before_and_after_recall(satchel: Run, tmp_path: Path) -> None:
    """Another store has other banks."""
    assert satchel("recall", "Ada", "--store", tmp_path / "none.db").status == 2
    assert satchel("--store", tmp_path / "none.db", "recall", "Ada").status == 2
    assert satchel("--home", tmp_path / "elsewhere", "recall", "Ada").status == 2
    assert satchel("recall", "Ada").status == 0


UNUSED = {
    *(
        "asyncio",
        "cbor2",
        "email",
        "importlib.metadata",
        "pydantic",
        "socket",
        "sqlite3",
        "zipfile",
    ),
    *("satchel.ports.format", "satchel.files.memory_store"),
}
"""Modules that these commands do not use, and that take long to import."""


@pytest.mark.in_check(2)
@pytest.mark.usefixtures("bank")
@pytest.mark.parametrize(
    ("words", "unused"),
    [
        (["recall", "Ada"], UNUSED | {"rich", "satchel.screening.secrets"}),
        (["list"], UNUSED),
        (["remember", "Grace drinks tea"], UNUSED),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_commands_import_only_the_modules_they_need(words: list[str], unused: set[str]) -> None:
    """The import time is most of the time of a short command."""
    program = (
        "import sys, json; from satchel.cli.main import run;"
        f"run([*{words!r}, '--json']);"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    modules = json.loads(done.stderr.splitlines()[-1])
    assert "satchel.bank.open_bank" in modules
    assert unused & set(modules) == set()


def test_recall_counts_memories_excluded_by_a_filter(satchel: Run) -> None:
    """Their words match; the message names the filter."""
    satchel("remember", "Ada drinks tea", "--tag", "diet")
    satchel("remember", "Bob drinks tea", "--valid-until", "2020-01-01T00:00Z")

    assert "excluded: 2 by tags" in satchel("recall", "tea", "--tag", "food").err
    assert "excluded: 1 by validity" in satchel("recall", "tea", "--explain").err
    plan = satchel("recall", "tea", "--json").json["plan"]
    assert plan["excluded"] == {"validity": 1}
