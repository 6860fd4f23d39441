"""Capability tokens on the command line: from the owner to the holder, and back."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from satchel.config.settings import load_settings
from satchel.crypto.token_chain import open_chain

if TYPE_CHECKING:
    from tests.cli.conftest import Run


TEAM = Path(__file__).parent.parent.parent / "examples" / "team.py"
SPECIALIST = ("token", "issue", "--audience", "specialist", "--type", "procedural")


@pytest.fixture
def specialist_token(satchel: Run, tmp_path: Path) -> Path:
    """A bank with three memories, two keys of holders, and the specialist's token."""
    for text, more in (
        ("ship on Friday", ["--type", "working"]),
        ("run make check", ["--type", "procedural", "--tag", "build"]),
        ("Ada pays by invoice", ["--tag", "customer"]),
    ):
        assert satchel("remember", text, *more).status == 0
    for name in ("specialist", "helper"):
        assert satchel("key", "create", name).status == 0
    path = tmp_path / "specialist.token"
    assert satchel(*SPECIALIST, "--allow", "read,derive", "--output", path).status == 0
    return path


def listed(satchel: Run, *options: Any) -> list[str]:
    """Return the texts that a listing shows."""
    found = satchel(*options, "list", "--json")
    assert found.status == 0, found.err
    return [memory["text"] for memory in found.json["memories"]]


def test_a_holder_reads_only_the_memories_of_its_token(
    satchel: Run, specialist_token: Path
) -> None:
    """D42: a token with an audience is usable, by its audience."""
    assert listed(satchel) != ["run make check"]
    assert listed(satchel, "--token", specialist_token) == ["run make check"]
    assert (
        satchel("--token", specialist_token, "recall", "invoice", "--json").json["memories"] == []
    )
    asked = satchel("--token", specialist_token, "recall", "check", "--json").json
    assert [memory["text"] for memory in asked["memories"]] == ["run make check"]
    assert "score" not in asked["memories"][0]
    assert satchel("--token", specialist_token, "stats", "--json").json["records"] == 1


def test_a_token_is_read_from_the_environment(
    satchel: Run, specialist_token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file name or the JSON; ``config show`` prints its origin, not its value."""
    for value in (str(specialist_token), specialist_token.read_text()):
        monkeypatch.setenv("SATCHEL_TOKEN", value)
        assert listed(satchel) == ["run make check"]
        shown = satchel("config", "show", "--json")
        (found,) = [one for one in shown.json["values"] if one["name"] == "token"]
        assert found["origin"] == "SATCHEL_TOKEN"
        assert '"sig"' not in shown.out


@pytest.mark.in_check(8)
@pytest.mark.parametrize(
    "words",
    [
        ("export", "--output", "out.pam"),
        ("remember", "x", "--type", "procedural"),
        ("init",),
        ("import", "in.json"),
        ("undo",),
        ("bank", "list"),
        ("bank", "create", "x"),
        ("bank", "config", "show", "default"),
        ("token", "issue", "--bearer", "--everything"),
        ("token", "list"),
        ("token", "revoke", "blake3:" + "0" * 64),
        ("token", "revocations", "--output", "x.json"),
        ("key", "export", "--secret", "--output", "x.key"),
        ("key", "revoke", "default"),
        ("key", "rotate"),
        ("prune", "--superseded-before", "90d"),
        ("everything", "--about", "ada"),
        ("push", "copy.db"),
        ("pull", "copy.db"),
        ("sink", "run", "sqlite:///sink.db"),
        ("embed",),
        ("job", "list"),
        ("receipt", "list"),
        ("doctor",),
    ],
    ids=" ".join,
)
def test_operations_without_permission_are_refused(
    satchel: Run,
    specialist_token: Path,
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Status 3, one error, and nothing written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.json").write_text('[{"memory": "x"}]')
    before = sorted(tmp_path.iterdir())
    ran = satchel("--token", specialist_token, *words, "--json")
    assert (ran.status, ran.error["code"]) == (3, "permission.refused"), ran.err
    assert ran.out == ""
    assert sorted(tmp_path.iterdir()) == before
    assert len(listed(satchel)) == 3


def test_attack_a_stolen_token_is_used_without_its_key(
    satchel: Run, specialist_token: Path
) -> None:
    """The holder's key is missing."""
    (load_settings().home / "keys" / "specialist.key").unlink()
    ran = satchel("--token", specialist_token, "list", "--json")
    assert (ran.status, ran.error["code"]) == (3, "key.refused")
    assert "make check" not in ran.err


def test_a_bearer_token_works_for_every_holder(satchel: Run, specialist_token: Path) -> None:
    """Without a key; it cannot be attenuated, and must expire soon."""
    text = satchel("token", "issue", "--bearer", "--type", "working").out
    assert listed(satchel, "--token", text.strip()) == ["ship on Friday"]
    ran = satchel("token", "attenuate", text.strip(), "--audience", "helper", "--everything")
    assert ran.status == 2
    long = satchel("token", "issue", "--bearer", "--everything", "--expires", "2d", "--json")
    assert (long.status, long.error["code"]) == (2, "usage")
    assert specialist_token.exists()


def test_a_holder_attenuates_its_token_without_the_owner(
    satchel: Run, specialist_token: Path, tmp_path: Path
) -> None:
    """The new token allows less, and is revoked together with its parent."""
    part = tmp_path / "helper.token"
    words = ["token", "attenuate", specialist_token, "--audience", "helper", "--any-tag", "other"]
    assert satchel(*words, "--output", part).status == 0
    assert listed(satchel, "--token", part) == []
    more = satchel(
        "token",
        "attenuate",
        specialist_token,
        "--audience",
        "helper",
        "--allow",
        "export",
        "--everything",
        "--json",
    )
    assert (more.status, more.error["code"]) == (2, "usage")
    same = tmp_path / "same.token"
    words = [
        "token",
        "attenuate",
        specialist_token,
        "--audience",
        "helper",
        "--everything",
        "-o",
        same,
    ]
    assert satchel(*words).status == 0
    assert listed(satchel, "--token", same) == ["run make check"]
    assert [
        len(open_chain(path.read_bytes()).tokens) for path in (specialist_token, part, same)
    ] == [1, 2, 2]
    shown = satchel("token", "inspect", same, "--json").json
    assert shown["permissions"] == ["read"]
    assert satchel("token", "revoke", specialist_token, "--reason", "done").status == 0
    for path in (specialist_token, part, same):
        ran = satchel("--token", path, "list", "--json")
        assert (ran.status, ran.error["code"]) == (3, "token.revoked")
        verdict = satchel("token", "verify", path, "--json")
        assert (verdict.status, verdict.json["code"]) == (3, "token.revoked")


def test_token_list_shows_active_tokens(satchel: Run, specialist_token: Path) -> None:
    """From the log; expired and revoked ones with ``--all``."""
    (one,) = satchel("token", "list", "--json").json["tokens"]
    assert (one["state"], one["scope"]) == ("active", ["type procedural"])
    assert satchel("token", "revoke", one["id"][7:15], "--json").json["is_new"] is True
    assert satchel("token", "revoke", one["id"], "--json").json["is_new"] is False
    assert satchel("token", "list", "--json").json["tokens"] == []
    (past,) = satchel("token", "list", "--all", "--json").json["tokens"]
    assert past["state"] == "revoked"
    unknown = satchel("token", "revoke", "nothing", "--json")
    assert (unknown.status, unknown.error["code"]) == (2, "usage")
    assert specialist_token.exists()


def test_token_verify_checks_permissions_and_entries(satchel: Run, specialist_token: Path) -> None:
    """The exit status is the verdict."""
    memories = satchel("list", "--json").json["memories"]
    ids = {memory["text"]: memory["id"] for memory in memories}
    good = satchel("token", "verify", specialist_token, "--may", "read,derive", "--json")
    assert (good.status, good.json["valid"], good.json["checked"]) == (0, True, ["log"])
    assert (
        satchel("token", "verify", specialist_token, "--entry", ids["run make check"]).status == 0
    )
    hidden = satchel(
        "token", "verify", specialist_token, "--entry", ids["ship on Friday"], "--json"
    )
    assert (hidden.status, hidden.json["code"]) == (3, "permission.refused")
    assert satchel("token", "verify", specialist_token, "--may", "export").status == 3
    assert satchel("token", "verify", specialist_token, "--may", "own").status == 2


def test_attack_an_older_revocation_list_is_presented(
    satchel: Run, specialist_token: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A verifier without the bank accepts a signed list, but none older than one it has seen."""
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    assert satchel("token", "revocations", "--output", before).status == 0
    assert satchel("token", "revoke", specialist_token).status == 0
    assert satchel("token", "revocations", "--output", after).status == 0
    owner = satchel("key", "export", "default").json["key"]
    bank = json.loads(specialist_token.read_text())["tokens"][0]["payload"]["bank"]
    monkeypatch.setenv("SATCHEL_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("SATCHEL_WITNESS", str(tmp_path / "elsewhere-state"))
    verify = ["token", "verify", specialist_token, "--json"]
    assert satchel(*verify).json["problem"].startswith("the token was not issued by an owner")
    assert satchel("key", "trust", owner, "--bank", bank).status == 0
    assert satchel(*verify).json["notes"] != []
    assert satchel(*verify, "--revocations", before).status == 0
    assert satchel(*verify, "--revocations", after).json["code"] == "token.revoked"
    again = satchel(*verify, "--revocations", before)
    assert (again.status, again.error["code"]) == (3, "token.refused")


def test_a_token_is_valid_for_one_bank_and_reveals_no_other(
    satchel: Run, specialist_token: Path
) -> None:
    """The error is the same for existing and missing banks."""
    assert satchel("bank", "create", "private").status == 0
    said = [
        satchel("--token", specialist_token, "list", "--bank", name, "--json").error
        for name in ("private", "nowhere")
    ]
    assert said[0] == said[1]
    assert said[0]["code"] == "token.refused"
    assert listed(satchel, "--token", specialist_token) == ["run make check"]


def test_a_token_is_issued_for_a_list_of_entries(satchel: Run, tmp_path: Path) -> None:
    """From a file with one ID a line; the token has the hash of the list."""
    made = [satchel("remember", f"fact {n}", "--type", "working").out.split()[0] for n in range(2)]
    ids = tmp_path / "ids.txt"
    ids.write_text("".join(f"{one}\n" for one in made[:1]))
    path = tmp_path / "x.token"
    words = ["token", "issue", "--audience", "default", "--entries-from", ids, "-o", path]
    assert satchel(*words).status == 0
    assert listed(satchel, "--token", path) == ["fact 0"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert satchel(*words, "--json").error["code"] == "target.exists"


def test_the_team_example_runs(tmp_path: Path) -> None:
    """Each agent sees its memories only, and cannot export them."""
    ran = subprocess.run(
        [sys.executable, str(TEAM), str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines() == [
        "manager:",
        "  sees: Ship the import on Friday",
        "  knows about Ada: 0",
        "  cannot export: the token does not allow: export",
        "specialist:",
        "  sees: Run make check before each commit",
        "  knows about Ada: 0",
        "  cannot export: the token does not allow: export",
    ]
    assert list(tmp_path.glob("out*")) == []


@pytest.mark.in_check(2)
@pytest.mark.usefixtures("any_store")
def test_a_token_has_the_same_scope_on_any_store(satchel: Run, tmp_path: Path) -> None:
    """List, recall, remember, stats, export and revocation."""
    for text, type_, tag in (
        ("run make check", "procedural", "build"),
        ("the secret recipe", "procedural", "secret"),
        ("ship on Friday", "working", "build"),
    ):
        assert satchel("remember", text, "--type", type_, "--tag", tag).status == 0
    token, out = tmp_path / "x.token", tmp_path / "out.pam.jsonl"
    scope = ["--type", "procedural", "--no-tag", "secret", "--allow", "read,write,export"]
    words = ["token", "issue", "--audience", "default", *scope, "--output", token]
    assert satchel(*words).status == 0
    held = ["--token", token]
    found = satchel(*held, "list", "--json").json["memories"]
    assert [memory["text"] for memory in found] == ["run make check"]
    assert satchel(*held, "recall", "recipe", "--json").json["memories"] == []
    assert satchel(*held, "remember", "run it twice", "--type", "procedural").status == 0
    assert satchel(*held, "remember", "x", "--type", "working").status == 3
    assert satchel(*held, "stats", "--json").json["records"] == 2
    assert satchel(*held, "export", "--output", out).status == 0
    assert b"run it twice" in out.read_bytes()
    assert b"recipe" not in out.read_bytes()
    assert satchel("token", "revoke", token).status == 0
    assert satchel(*held, "list").status == 3
    assert len(satchel("list", "--json").json["memories"]) == 4


def test_attack_an_edited_type_column_extends_a_token(satchel: Run, tmp_path: Path) -> None:
    """The type column of another memory is changed to the type in the token's scope."""
    assert satchel("remember", "run make check", "--type", "procedural").status == 0
    assert satchel("remember", "ship on Friday", "--type", "working").status == 0
    token = tmp_path / "x.token"
    words = ["token", "issue", "--audience", "default", "--type", "procedural", "-o", token]
    assert satchel(*words).status == 0
    database = tmp_path / "satchel-home" / "satchel.db"
    with closing(sqlite3.connect(database)) as found, found:
        assert found.execute(
            "UPDATE record SET type = 'procedural' WHERE type = 'working'"
        ).rowcount
    for verb in (["list"], ["recall", "Friday"], ["stats"]):
        ran = satchel("--token", token, *verb, "--json")
        assert "Friday" not in ran.out + ran.err
        assert ran.status == 3
