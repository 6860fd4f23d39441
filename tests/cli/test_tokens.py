"""Capability tokens on the command line: from the owner to the holder, and back."""

import json
import subprocess
import sys
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
def shared(satchel: "Run", tmp_path: Path) -> Path:
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


def listed(satchel: "Run", *options: Any) -> list[str]:
    """Return the texts that a listing shows."""
    found = satchel(*options, "list", "--json")
    assert found.status == 0, found.err
    return [memory["text"] for memory in found.json["memories"]]


def test_a_holder_works_with_its_part_and_with_nothing_else(satchel: "Run", shared: Path) -> None:
    """D42: a token with an audience is usable, by its audience."""
    assert listed(satchel) != ["run make check"]
    assert listed(satchel, "--token", shared) == ["run make check"]
    assert satchel("--token", shared, "recall", "invoice", "--json").json["memories"] == []
    asked = satchel("--token", shared, "recall", "check", "--json").json
    assert [memory["text"] for memory in asked["memories"]] == ["run make check"]
    assert "score" not in asked["memories"][0]
    assert satchel("--token", shared, "stats", "--json").json["records"] == 1


def test_a_token_comes_from_the_environment_too(
    satchel: "Run", shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a file, and as the JSON itself; `config show` says where it came from, not what it is."""
    for value in (str(shared), shared.read_text()):
        monkeypatch.setenv("SATCHEL_TOKEN", value)
        assert listed(satchel) == ["run make check"]
        shown = satchel("config", "show", "--json")
        (found,) = [one for one in shown.json["values"] if one["name"] == "token"]
        assert found["origin"] == "SATCHEL_TOKEN"
        assert '"sig"' not in shown.out


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
def test_what_a_token_does_not_allow_is_refused_and_does_nothing(
    satchel: "Run",
    shared: Path,
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Whichever door is tried: status 3, one error, and nothing written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.json").write_text('[{"memory": "x"}]')
    before = sorted(tmp_path.iterdir())
    ran = satchel("--token", shared, *words, "--json")
    assert (ran.status, ran.error["code"]) == (3, "permission.refused"), ran.err
    assert ran.out == ""
    assert sorted(tmp_path.iterdir()) == before
    assert len(listed(satchel)) == 3


def test_a_token_without_its_key_opens_nothing(satchel: "Run", shared: Path) -> None:
    """Attack: the file of a token is stolen; its key is not."""
    (load_settings().home / "keys" / "specialist.key").unlink()
    ran = satchel("--token", shared, "list", "--json")
    assert (ran.status, ran.error["code"]) == (3, "key.refused")
    assert "make check" not in ran.err


def test_a_bearer_token_works_for_every_holder(satchel: "Run", shared: Path) -> None:
    """Without a key; and it cannot be handed on in part."""
    text = satchel("token", "issue", "--bearer", "--type", "working").out
    assert listed(satchel, "--token", text.strip()) == ["ship on Friday"]
    ran = satchel("token", "attenuate", text.strip(), "--audience", "helper", "--everything")
    assert ran.status == 2
    long = satchel("token", "issue", "--bearer", "--everything", "--expires", "2d", "--json")
    assert (long.status, long.error["code"]) == (2, "usage")
    assert shared.exists()


def test_a_part_is_handed_on_without_the_owner(
    satchel: "Run", shared: Path, tmp_path: Path
) -> None:
    """It says less, whatever it says; and it ends with the token that it was made of."""
    part = tmp_path / "helper.token"
    words = ["token", "attenuate", shared, "--audience", "helper", "--any-tag", "other"]
    assert satchel(*words, "--output", part).status == 0
    assert listed(satchel, "--token", part) == []
    more = satchel(
        "token",
        "attenuate",
        shared,
        "--audience",
        "helper",
        "--allow",
        "export",
        "--everything",
        "--json",
    )
    assert (more.status, more.error["code"]) == (2, "usage")
    same = tmp_path / "same.token"
    words = ["token", "attenuate", shared, "--audience", "helper", "--everything", "-o", same]
    assert satchel(*words).status == 0
    assert listed(satchel, "--token", same) == ["run make check"]
    assert [len(open_chain(path.read_bytes()).tokens) for path in (shared, part, same)] == [1, 2, 2]
    shown = satchel("token", "inspect", same, "--json").json
    assert shown["permissions"] == ["read"]
    assert satchel("token", "revoke", shared, "--reason", "done").status == 0
    for path in (shared, part, same):
        ran = satchel("--token", path, "list", "--json")
        assert (ran.status, ran.error["code"]) == (3, "token.revoked")
        verdict = satchel("token", "verify", path, "--json")
        assert (verdict.status, verdict.json["code"]) == (3, "token.revoked")


def test_tokens_are_listed_while_they_count(satchel: "Run", shared: Path) -> None:
    """The log has what was issued; those of the past are shown when asked for."""
    (one,) = satchel("token", "list", "--json").json["tokens"]
    assert (one["state"], one["scope"]) == ("active", ["type procedural"])
    assert satchel("token", "revoke", one["id"][7:15], "--json").json["is_new"] is True
    assert satchel("token", "revoke", one["id"], "--json").json["is_new"] is False
    assert satchel("token", "list", "--json").json["tokens"] == []
    (past,) = satchel("token", "list", "--all", "--json").json["tokens"]
    assert past["state"] == "revoked"
    unknown = satchel("token", "revoke", "nothing", "--json")
    assert (unknown.status, unknown.error["code"]) == (2, "usage")
    assert shared.exists()


def test_a_token_is_verified_against_what_is_asked(satchel: "Run", shared: Path) -> None:
    """Permissions, one entry, and an artifact; the exit status says it."""
    memories = satchel("list", "--json").json["memories"]
    ids = {memory["text"]: memory["id"] for memory in memories}
    good = satchel("token", "verify", shared, "--may", "read,derive", "--json")
    assert (good.status, good.json["valid"], good.json["checked"]) == (0, True, ["log"])
    assert satchel("token", "verify", shared, "--entry", ids["run make check"]).status == 0
    hidden = satchel("token", "verify", shared, "--entry", ids["ship on Friday"], "--json")
    assert (hidden.status, hidden.json["code"]) == (3, "permission.refused")
    assert satchel("token", "verify", shared, "--may", "export").status == 3
    assert satchel("token", "verify", shared, "--may", "own").status == 2


def test_a_verifier_elsewhere_believes_a_list_and_never_an_older_one(
    satchel: "Run", shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: the list from before the revocation is shown again to who has seen a later one."""
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    assert satchel("token", "revocations", "--output", before).status == 0
    assert satchel("token", "revoke", shared).status == 0
    assert satchel("token", "revocations", "--output", after).status == 0
    owner = satchel("key", "export", "default").json["key"]
    bank = json.loads(shared.read_text())["tokens"][0]["payload"]["bank"]
    monkeypatch.setenv("SATCHEL_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("SATCHEL_WITNESS", str(tmp_path / "elsewhere-state"))
    verify = ["token", "verify", shared, "--json"]
    assert satchel(*verify).json["problem"].startswith("the token was not issued by an owner")
    assert satchel("key", "trust", owner, "--bank", bank).status == 0
    assert satchel(*verify).json["notes"] != []
    assert satchel(*verify, "--revocations", before).status == 0
    assert satchel(*verify, "--revocations", after).json["code"] == "token.revoked"
    again = satchel(*verify, "--revocations", before)
    assert (again.status, again.error["code"]) == (3, "token.refused")


def test_a_token_is_for_one_bank_and_says_nothing_of_others(satchel: "Run", shared: Path) -> None:
    """Naming another bank is refused alike, whether it is there or not."""
    assert satchel("bank", "create", "private").status == 0
    said = [
        satchel("--token", shared, "list", "--bank", name, "--json").error
        for name in ("private", "nowhere")
    ]
    assert said[0] == said[1]
    assert said[0]["code"] == "token.refused"
    assert listed(satchel, "--token", shared) == ["run make check"]


def test_a_long_list_of_entries_goes_beside_the_token(satchel: "Run", tmp_path: Path) -> None:
    """A file of ids, one a line; its hash is in the token, and the list in the file."""
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
    """Each sees its part, nobody knows of the customer, and nobody takes anything along."""
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
