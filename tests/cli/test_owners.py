"""``satchel bank owner``: several owners of a bank, on one machine, on two, and on every store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Run


def _key(satchel: Run, name: str, *elsewhere: str) -> str:
    return str(satchel(*elsewhere, "key", "export", name).json["key"])


@pytest.mark.in_check(2)
@pytest.mark.usefixtures("any_store")
def test_two_of_three_owners_decide_on_any_store(satchel: Run) -> None:
    """One owner alone is refused with a hint; two keys of this machine suffice."""
    assert satchel("remember", "likes tea").status == 0
    for name in ("ben", "cat"):
        assert satchel("key", "create", name).status == 0
        assert satchel("bank", "owner", "add", "default", name).status == 0
    assert satchel("bank", "owner", "threshold", "default", "2").status == 0
    ran = satchel("bank", "rename", "default", "ours", "--json")
    assert (ran.status, ran.error["code"]) == (3, "key.threshold")
    assert "--co-signer" in ran.error["hint"]
    assert satchel("bank", "rename", "default", "ours", "--co-signer", "cat").status == 0
    ran = satchel("bank", "owner", "threshold", "ours", "1", "--signing-key", "ben")
    assert ran.status == 3
    ran = satchel("key", "revoke", "cat", "--signing-key", "ben", "--json")
    assert (ran.status, len(ran.json["banks"][0]["to_sign"])) == (1, 1)
    assert (
        satchel("key", "revoke", "cat", "--signing-key", "ben", "--co-signer", "default").status
        == 0
    )
    found = satchel("bank", "owner", "list", "ours", "--json").json
    assert (found["threshold"], len(found["owners"])) == (2, 2)
    assert satchel("remember", "likes milk").status == 0  # no decision
    assert satchel("doctor", "--deep").status == 0


def test_an_owner_on_another_machine_signs_a_proposal(satchel: Run, tmp_path: Path) -> None:
    """A new owner agrees there; later decisions pass between them as a file."""
    there = ("--home", str(tmp_path / "there"))
    assert satchel("remember", "likes tea").status == 0
    assert satchel(*there, "key", "create", "ben").status == 0
    ben, file = _key(satchel, "ben", *there), tmp_path / "proposal.json"
    ran = satchel("bank", "owner", "add", "default", ben)
    assert (ran.status, "must agree" in ran.err) == (3, True)
    ran = satchel("bank", "owner", "add", "default", ben, "--propose", file, "--json")
    assert (ran.status, ran.json) == (0, {"proposed": str(file)})
    assert satchel("bank", "owner", "enact", file).status == 3
    shown = satchel(*there, "bank", "owner", "sign", file, "--dry-run")
    assert "Add an owner" in shown.out
    assert ben in shown.out
    assert satchel(*there, "bank", "owner", "sign", file, "--signing-key", "ben").status == 0
    assert "recorded in its log" in satchel("bank", "owner", "enact", file).err
    assert "already in its log" in satchel("bank", "owner", "enact", file).err
    both = tmp_path / "both.json"
    assert satchel("bank", "owner", "threshold", "default", "2").status == 0
    assert satchel("bank", "rename", "default", "ours", "--propose", both).status == 0
    assert satchel(*there, "bank", "owner", "sign", both, "--signing-key", "ben").status == 0
    assert satchel("bank", "owner", "enact", both).status == 0
    assert satchel("bank", "list", "--json").json["banks"][0]["name"] == "ours"
    again = satchel("bank", "rename", "ours", "x", "--propose", both, "--json")
    assert again.error["code"] == "target.exists"


def test_a_tampered_proposal_is_refused(satchel: Run, tmp_path: Path) -> None:
    """Neither key nor bank can be replaced in transit."""
    assert satchel("remember", "likes tea").status == 0
    for name in ("ben", "cat", "eve"):
        assert satchel("key", "create", name).status == 0
    file = tmp_path / "proposal.json"
    cat, eve = _key(satchel, "cat"), _key(satchel, "eve")
    assert satchel("bank", "owner", "add", "default", "ben").status == 0
    assert satchel("bank", "owner", "threshold", "default", "2").status == 0
    assert satchel("bank", "admit", "default", "--writer", cat, "--propose", file).status == 0
    file.write_text(file.read_text().replace(cat, eve))
    for verb in ("sign", "enact"):
        assert satchel("bank", "owner", verb, file).status == 4
    file.write_text(json.dumps({"format": "satchel-proposal/1", "records": []}))
    assert satchel("bank", "owner", "enact", file).status == 4


def test_a_rotation_with_several_owners_is_proposed_to_the_others(
    satchel: Run, tmp_path: Path
) -> None:
    """The keyring has the new key at once, the bank after enough signatures."""
    assert satchel("remember", "likes tea").status == 0
    assert satchel("key", "create", "ben").status == 0
    assert satchel("bank", "owner", "add", "default", "ben").status == 0
    assert satchel("bank", "owner", "threshold", "default", "2").status == 0
    file = tmp_path / "heir.json"
    ran = satchel("key", "rotate", "--propose", file)
    assert (ran.status, "key hand-over" in ran.err) == (1, True)
    assert satchel("bank", "owner", "sign", file, "--signing-key", "ben").status == 0
    assert satchel("bank", "owner", "enact", file).status == 0
    assert satchel("bank", "rename", "default", "ours", "--co-signer", "ben").status == 0


def test_an_export_includes_the_admission_of_the_heads_key(satchel: Run, tmp_path: Path) -> None:
    """So that the file verifies offline."""
    sealed = tmp_path / "a.pam"
    assert satchel("remember", "likes tea").status == 0
    assert satchel("key", "create", "ben").status == 0
    assert satchel("bank", "owner", "add", "default", "ben").status == 0
    assert satchel("key", "rotate", "writer", "--signing-key", "ben").status == 0
    assert satchel("export", "--output", sealed).status == 0
    ran = satchel("verify", sealed, "--deep", "--json")
    assert (ran.status, ran.json["outcome"]) == (0, "good")
    assert not [note for note in ran.json["notes"] if "head's key" in note]


@pytest.fixture
def backups(satchel: Run, tmp_path: Path) -> Path:
    """Backups of a bank of two owners with threshold 2, which then got another memory."""
    backups = tmp_path / "backups"
    assert satchel("remember", "likes tea").status == 0
    assert satchel("key", "create", "ben").status == 0
    assert satchel("bank", "owner", "add", "default", "ben").status == 0
    assert satchel("bank", "owner", "threshold", "default", "2").status == 0
    assert satchel("backup", "run", "--destination", backups).status == 0
    assert satchel("remember", "likes milk").status == 0
    return backups


def test_accepting_a_loss_at_restore_requires_the_owner_threshold(
    satchel: Run, backups: Path
) -> None:
    """One owner is refused before anything is written; two together restore."""
    words = ("backup", "restore", "--destination", backups, "--overwrite")
    ran = satchel(*words, "--accept-loss", "--json")
    assert (ran.status, ran.error["code"]) == (3, "key.threshold")
    assert "--co-signer" in ran.error["hint"]
    assert len(satchel("list", "--json").json["memories"]) == 2
    assert satchel(*words, "--accept-loss", "--co-signer", "ben", "--json").status == 0
    (memory,) = satchel("list", "--json").json["memories"]
    assert memory["text"] == "likes tea"
    assert satchel("doctor", "--deep").status == 0


def test_accepting_a_loss_at_restore_is_proposed_to_another_owner(
    satchel: Run, backups: Path, tmp_path: Path
) -> None:
    """Until the other owner signs, the restored bank is not readable."""
    file = tmp_path / "proposal.json"
    words = (
        "backup",
        "restore",
        "--destination",
        backups,
        "--overwrite",
        "--propose",
        file,
        "--json",
    )
    assert satchel(*words).json == {"proposed": str(file)}
    assert satchel("list").status == 3
    assert (
        "Resume from a backup" in satchel("bank", "owner", "sign", file, "--signing-key", "ben").out
    )
    assert satchel("bank", "owner", "enact", file).status == 0
    (memory,) = satchel("list", "--json").json["memories"]
    assert memory["text"] == "likes tea"
