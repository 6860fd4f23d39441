"""``satchel session``: record, show, list, fork, checkpoint, distill and diff."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Run

TALK = [
    {"role": "user", "content": "I live in Oslo."},
    {"role": "assistant", "content": "We decided to go by train.", "model": "m-1"},
    {"working_state": {"task": "book"}},
    {"note": {"content": "window seat", "category": "preference"}},
    {"role": "user", "content": "Thanks."},
]


@pytest.fixture
def trip(satchel: Run, tmp_path: Path) -> str:
    """The ID of a recorded session named trip."""
    path = tmp_path / "talk.jsonl"
    path.write_text("\n".join(map(json.dumps, TALK)) + "\n\n")
    done = satchel("session", "record", path, "--name", "trip", "--agent", "helper")
    assert done.status == 0
    return done.out.strip()


@pytest.mark.usefixtures("trip")
def test_a_session_is_forked_at_an_earlier_point(satchel: Run, tmp_path: Path) -> None:
    """Recorded, distilled, forked at a checkpoint and at a message, compared, listed as a tree."""
    receipt = satchel("session", "distill", "trip", "--json").json["receipt"]
    assert "RECEIPT OF A DISTILLATION" in satchel("receipt", "show", receipt).out
    assert satchel("receipt", "verify", receipt).status == 0
    assert (
        satchel("session", "checkpoint", "create", "trip", "--name", "start", "--at", "1").status
        == 0
    )
    done = satchel("session", "fork", "trip", "--at", "start", "--name", "by plane")
    assert "by plane: 1 message of" in done.err
    assert "memories made later: 2, recalled by it" in done.err
    more = tmp_path / "more.jsonl"
    more.write_text('{"role": "user", "content": "By plane."}')
    assert satchel("session", "record", more, "--session", "by plane").status == 0
    found = satchel("session", "diff", "trip", "by plane", "--json")
    assert found.status == 1
    assert (found.json["common"], found.json["one"]["messages"]) == (1, 2)
    assert satchel("session", "diff", "trip", "trip").status == 0
    tree = satchel("session", "list").out.splitlines()
    assert "└ " in tree[2]
    assert "1 (checkpoint)" in tree[2]
    listed = satchel("session", "list", "--json").json["sessions"]
    assert [(one["name"], one.get("depth", 0)) for one in listed] == [("trip", 0), ("by plane", 1)]
    assert listed[1]["origin"]["session"] == listed[0]["id"]
    shown = satchel("session", "show", "by plane", "--json").json
    assert [one["content"] for one in shown["messages"]] == ["I live in Oslo.", "By plane."]
    assert "working_state" not in shown.get("state", {})
    again = satchel(
        "session", "fork", "trip", "--at", "distillation:1", "--memories", "as-of", "--json"
    ).json
    assert again["memories"] == "as-of"
    shown = satchel("session", "show", again["id"], "--json").json
    assert shown["state"]["working_state"] == {"task": "book"}
    assert [note["category"] for note in shown["state"]["notes"]] == ["preference"]


def test_the_branch_tree_fits_into_80_columns(
    satchel: Run, trip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a terminal and without color; names are shortened, IDs and fork points are not."""
    monkeypatch.setenv("NO_COLOR", "1")
    long = "a name that goes on and on, 咖啡 and all, further than any line is wide, and on"
    source = trip
    for number in range(9):
        done = satchel(
            "session", "fork", source, "--at", "1", "--name", f"{long} {number}", "--json"
        ).json
        source = done["id"]
    assert satchel("session", "checkpoint", "create", source, "--name", "here").status == 0
    as_of = ["--at", "here", "--memories", "as-of", "--name", long]
    assert satchel("session", "fork", source, *as_of).status == 0
    tree = satchel("session", "list").out
    assert "\x1b" not in tree
    lines = tree.splitlines()
    assert len(lines) == 12
    assert max(cell_len(line) for line in lines) <= 80
    assert all("a name t" in line for line in lines[2:])
    assert source.removeprefix("blake3:")[:12] in tree
    assert lines[11].split()[-3:] == ["1", "(checkpoint)", "as-of"]
    monkeypatch.setenv("COLUMNS", "200")
    assert long in satchel("session", "list").out


def test_extra_members_of_a_message_round_trip(satchel: Run, trip: str) -> None:
    """Members of other programs."""
    shown = satchel("session", "show", trip, "--last", "1000", "--json").json
    assert shown["messages"][1]["more"] == {"model": "m-1"}
    assert shown["session"]["agent"] == "helper"


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ('{"content": "x"}', "role"),
        ('{"role": 3}', "role"),
        ("[1]", "message"),
        ('{"role": "user", "created_at": "yesterday"}', "created_at"),
        ('{"note": {"category": "x"}}', "note"),
        ('{"thread_summary": 5}', "thread_summary"),
        ('{"working_state": 1, "mood": 2}', "mood"),
        ('{"role": "user"', None),
        ('{"role": "user", "content": "' + "[" * 3, None),
        ("[" * 5_000, None),
        ("\xff", None),
    ],
    ids=[
        "no role",
        "role",
        "list",
        "time",
        "note",
        "summary",
        "unknown member",
        "cut",
        "open",
        "deep",
        "bytes",
    ],
)
def test_a_malformed_message_is_refused_and_nothing_is_recorded(
    satchel: Run, tmp_path: Path, trip: str, line: str, field: str | None
) -> None:
    """The error names file, line and member."""
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'{"role": "user", "content": "good"}\n\n' + line.encode("latin-1") + b"\n")
    for more in ([], ["--session", trip]):
        done = satchel("session", "record", path, *more, "--json")
        assert done.status == 4
        assert (done.error["file"], done.error["line"]) == (str(path), 3)
        assert done.error.get("field") == field
    assert len(satchel("session", "list", "--json").json["sessions"]) == 1
    assert satchel("session", "list", "--json").json["sessions"][0]["messages"] == 3


def test_session_record_reads_standard_input(satchel: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty input is an error."""
    said = b'{"role": "user", "content": "piped"}\n'
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(said)))
    assert satchel("session", "record", "-", "--name", "p").status == 0
    assert satchel("session", "show", "p", "--json").json["messages"][0]["content"] == "piped"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\n")))
    assert satchel("session", "record", "-").status == 4


@pytest.mark.usefixtures("trip")
def test_session_fork_prompts_only_at_a_terminal(
    satchel: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a session, then for a point; without a terminal a session must be named."""
    assert satchel("session", "fork").status == 2
    assert satchel("session", "checkpoint", "create", "trip", "--name", "here").status == 0

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for answers, messages in (("1\n1\n", 3), ("1\nm2\n", 2), ("1\ne\n", 3)):
        monkeypatch.setattr("sys.stdin", Terminal(answers))
        monkeypatch.setattr("sys.stderr", Terminal())
        assert satchel("session", "fork", "--name", f"f{messages}{answers[2]}").status == 0
    found = {
        one["name"]: one["messages"]
        for one in satchel("session", "list", "--json").json["sessions"]
    }
    assert found == {"trip": 3, "f31": 3, "f2m": 2, "f3e": 2}  # the newest is first
    monkeypatch.setattr("sys.stdin", Terminal("\n"))
    assert satchel("session", "fork").status == 130


@pytest.mark.usefixtures("trip")
def test_invalid_session_arguments_are_usage_errors(satchel: Run) -> None:
    """Each with exit status 2."""
    for words in (
        ("session", "show", "nobody"),
        ("session", "show", "trip", "--at", "99"),
        ("session", "set", "trip"),
        ("session", "rename", "trip", " "),
        ("session", "show", "trip", "--last", "-1"),
        ("fork", "trip", "--at", "checkpoint:nope"),
    ):
        assert satchel(*words, "--json").status == 2, words
    assert satchel("session", "set", "trip", "--working-state", "{").status == 4


def test_attack_a_token_for_all_memories_opens_sessions(
    satchel: Run, trip: str, tmp_path: Path
) -> None:
    """Every session command is refused."""
    token = tmp_path / "x.token"
    issue = ["token", "issue", "--audience", "default", "--everything", "--output", token]
    assert satchel(*issue, "--allow", "read,write,derive,export").status == 0
    for words in (
        ("session", "list"),
        ("session", "show", trip),
        ("session", "checkpoint", "list", trip),
        ("session", "fork", trip),
        ("session", "distill", trip),
        ("session", "rename", trip, "mine"),
    ):
        assert satchel("--token", token, *words).status == 3, words
