"""Keys of banks: rotated, retired, revoked, lost; stores rolled back, forked or missing."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from missing_store_kit import delete_store

from satchel.bank import keys
from satchel.config.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import Run


def did(satchel: Run, name: str = "default") -> str:
    """Return a key's public form."""
    return str(satchel("key", "export", name).json["key"])


@pytest.fixture
def bank_id(satchel: Run) -> str:
    """A bank with a memory, and a second key; returns the bank's ID."""
    assert satchel("remember", "likes tea").status == 0
    assert satchel("key", "create", "holder").status == 0
    return str(satchel("bank", "list", "--json").json["banks"][0]["id"])


def texts(satchel: Run, *options: str | Path) -> list[str]:
    """Return the texts of a listing, sorted."""
    found = satchel(*options, "list", "--json")
    assert found.status == 0, found.err
    return sorted(memory["text"] for memory in found.json["memories"])


@pytest.mark.usefixtures("bank_id")
def test_key_rotate_transfers_ownership_to_the_new_key(satchel: Run, tmp_path: Path) -> None:
    """It issues tokens and renames; tokens of the old key stay valid, but it issues no more."""
    issue = ("token", "issue", "--audience", "holder", "--everything", "--output")
    before, after = tmp_path / "before.token", tmp_path / "after.token"
    assert satchel(*issue, before).status == 0
    ran = satchel("key", "rotate")
    assert ran.status == 0
    assert "recorded in its log" in ran.err
    assert satchel(*issue, after).status == 0
    assert satchel("bank", "rename", "default", "mine").status == 0
    for token in (before, after):
        assert texts(satchel, "--token", token) == ["likes tea"]
        assert satchel("token", "verify", token).status == 0
    retired = next(name for name in load_settings().keyring.names() if "retired" in name)
    ran = satchel(*issue, tmp_path / "late.token", "--signing-key", retired)
    assert ran.status == 3
    assert "retired" in ran.err
    assert {line["state"] for line in satchel("token", "list", "--json").json["tokens"]} == {
        "active"
    }
    assert satchel("doctor", "--deep").status == 0


@pytest.mark.usefixtures("bank_id")
def test_revoking_a_key_invalidates_its_tokens(satchel: Run, tmp_path: Path) -> None:
    """After a rotation; the revocation is in the log, so copies of the bank know it."""
    token = tmp_path / "t.token"
    assert (
        satchel(
            *("token", "issue", "--audience", "holder", "--everything", "--output", token)
        ).status
        == 0
    )
    old = did(satchel)
    assert satchel("key", "rotate").status == 0
    ran = satchel("key", "revoke", old, "--reason", "stolen")
    assert (ran.status, "recorded in its log" in ran.err) == (0, True)
    assert satchel("--token", token, "list").status == 3
    assert satchel("token", "verify", token).status == 3
    assert texts(satchel) == ["likes tea"]
    assert satchel("remember", "likes milk").status == 0


def test_the_only_owner_key_cannot_be_retired_or_revoked(satchel: Run, bank_id: str) -> None:
    """The hint names ``key rotate``, and nothing changes."""
    ran = satchel("key", "retire", "default")
    assert ran.status == 1
    assert "key rotate" in ran.err
    assert satchel("key", "list", "--json").json["keys"][0]["state"] == "trusted"
    assert satchel("bank", "rename", bank_id, "still mine").status == 0
    ran = satchel("key", "revoke", "default")
    assert ran.status == 1
    assert "but not in these banks" in ran.err


@pytest.mark.usefixtures("bank_id")
def test_the_owner_rotates_a_writer_key(satchel: Run) -> None:
    """The new key is admitted, the old one retired."""
    old = did(satchel, "writer")
    assert satchel("key", "rotate", "writer").status == 0
    assert did(satchel, "writer") != old
    assert satchel("remember", "likes milk").status == 0
    assert texts(satchel) == ["likes milk", "likes tea"]
    assert satchel("doctor", "--deep").status == 0


@pytest.mark.usefixtures("bank_id")
def test_the_owner_revokes_a_writer_key(satchel: Run) -> None:
    """Writes are refused with a hint to rotate it; reads work."""
    assert satchel("key", "revoke", "writer", "--reason", "stolen").status == 0
    ran = satchel("remember", "likes milk")
    assert ran.status != 0
    assert "key rotate writer" in ran.err
    assert texts(satchel) == ["likes tea"]


@pytest.mark.usefixtures("bank_id")
def test_hand_over_records_earlier_rotations_in_another_store(satchel: Run, tmp_path: Path) -> None:
    """Two rotations while the store was away; a second hand-over records nothing."""
    other_store = tmp_path / "other.db"
    assert satchel("--store", other_store, "bank", "create", "away").status == 0
    for _ in range(2):
        assert satchel("key", "rotate").status == 0
    ran = satchel("--store", other_store, "bank", "rename", "away", "x")
    assert ran.status == 3
    done = satchel("--store", other_store, "key", "hand-over", "--json")
    assert (done.status, done.json["banks"][0]["noted"]) == (0, True)
    again = satchel("--store", other_store, "key", "hand-over", "--json")
    assert (again.status, again.json["banks"][0].get("noted")) == (0, None)
    assert satchel("--store", other_store, "bank", "rename", "away", "x").status == 0


@pytest.mark.usefixtures("bank_id")
def test_an_interrupted_rotation_is_resumed(satchel: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between key files and log: a key of that name exists at every moment."""

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for where in ("_register", "hand_over"):
        with monkeypatch.context() as cut:
            cut.setattr(keys, where, killed)
            assert satchel("key", "rotate").status == 130
        assert "default" in load_settings().keyring.names()
    assert satchel("key", "hand-over").status == 0
    assert satchel("bank", "rename", "default", "mine").status == 0
    assert all(
        line["own"] and line["state"] in ("trusted", "retired")
        for line in satchel("key", "list", "--json").json["keys"]
    )


@pytest.mark.usefixtures("bank_id")
def test_push_and_store_copy_transfer_the_current_owner(satchel: Run, tmp_path: Path) -> None:
    """They follow the same rules as reads."""
    copy, whole = tmp_path / "copy.db", tmp_path / "whole.db"
    assert satchel("push", copy).status == 0
    assert satchel("key", "rotate").status == 0
    assert satchel("push", copy).status == 0
    assert satchel("store", "copy", load_settings().store, whole).status == 0
    for store in (copy, whole):
        assert texts(satchel, "--store", store) == ["likes tea"]
    assert satchel("--store", whole, "bank", "rename", "default", "mine").status == 0


@pytest.mark.usefixtures("bank_id")
def test_diverged_copies_are_merged_only_after_a_hand_over(satchel: Run, tmp_path: Path) -> None:
    """The rotation is recorded in the other copy first."""
    copy = tmp_path / "copy.db"
    assert satchel("push", copy).status == 0
    elsewhere = ("--store", copy)
    assert satchel("key", "rotate").status == 0
    with pytest.MonkeyPatch.context() as other_store:
        other_store.setenv("SATCHEL_WITNESS", str(tmp_path / "other-witness"))
        assert satchel(*elsewhere, "remember", "likes milk").status == 0
    ran = satchel("pull", copy, "--merge")
    assert ran.status == 3
    assert "key hand-over" in ran.err
    with pytest.MonkeyPatch.context() as other_store:
        other_store.setenv("SATCHEL_WITNESS", str(tmp_path / "other-witness"))
        assert satchel(*elsewhere, "key", "hand-over").status == 0
    assert satchel("pull", copy, "--merge").status == 0
    assert texts(satchel) == ["likes milk", "likes tea"]


def test_an_export_by_a_successor_names_its_predecessor(
    satchel: Run, bank_id: str, tmp_path: Path
) -> None:
    """A note names ``--replaces``; the statement of succession makes the key trusted."""
    old, sealed = did(satchel), tmp_path / "a.pam"
    assert satchel("key", "rotate").status == 0
    assert satchel("export", "--output", sealed).status == 0
    statement = next((load_settings().home / "keys").glob("*.succession.json"))
    other_store = ("--home", str(tmp_path / "other-home"))
    assert satchel(*other_store, "key", "trust", old, "--bank", bank_id).status == 0
    ran = satchel(*other_store, "verify", sealed, "--json")
    assert (ran.json["outcome"], ran.status) == ("untrusted", 3)
    assert any(f"--replaces {old}" in note for note in ran.json["notes"])
    trusted = satchel(*other_store, "key", "trust", statement, "--name", "ada", "--json")
    assert (trusted.json["replaces"], trusted.json["banks"]) == (old, [bank_id])
    assert satchel(*other_store, "verify", sealed).status == 0


@pytest.mark.usefixtures("bank_id")
def test_attack_a_statement_of_succession_is_forged(satchel: Run, tmp_path: Path) -> None:
    """Attack: another key claims to succeed a trusted one."""
    assert satchel("key", "rotate").status == 0
    statement = next((load_settings().home / "keys").glob("*.succession.json"))
    forged = tmp_path / "forged.json"
    thief = did(satchel, "holder")
    forged.write_text(statement.read_text().replace(did(satchel), thief))
    ran = satchel("key", "trust", forged)
    assert ran.status == 4
    assert "both" in ran.err


# -- lost, rolled back, missing --------------------------------------------------------------


def test_a_bank_with_lost_keys_is_read_and_adopted(
    satchel: Run, bank_id: str, own_home: Path
) -> None:
    """Memories stay readable; the error names the commands, and they work."""
    shutil.rmtree(own_home / "keys")
    (own_home / "trust.json").unlink()
    assert texts(satchel) == ["likes tea"]
    ran = satchel("remember", "likes milk")
    assert ran.status != 0
    assert "bank admit" in ran.err or "bank adopt" in ran.err
    ran = satchel("bank", "admit", bank_id)
    assert ran.status == 3
    assert "not an owner" in ran.err
    assert satchel("bank", "adopt", bank_id, "--reason", "the laptop is gone").status == 0
    assert satchel("remember", "likes milk").status == 0
    assert texts(satchel) == ["likes milk", "likes tea"]


def _files(store: Path) -> dict[Path, bytes]:
    return {
        path: path.read_bytes() for path in store.parent.glob(f"{store.name}*") if path.is_file()
    }


def _restore_files(store: Path, files: dict[Path, bytes]) -> None:
    for path in store.parent.glob(f"{store.name}*"):
        path.unlink()
    for path, content in files.items():
        path.write_bytes(content)


@pytest.fixture
def store(own_home: Path) -> Path:
    """The file of the store."""
    return own_home / "satchel.db"


def _assert_refused(satchel: Run, code: str, *said: str) -> None:
    """Assert that reads and writes are refused with a hint that has the given parts."""
    for words in (("list",), ("remember", "x"), ("recall", "tea"), ("export", "-o", "left.pam")):
        ran = satchel(*words, "--json")
        assert ran.status == 3, (words, ran.err)
        assert ran.error["code"] == code
        assert all(part in ran.error["hint"] for part in said), ran.error


@pytest.mark.usefixtures("bank_id")
def test_a_rolled_back_store_is_refused_until_an_owner_accepts(satchel: Run, store: Path) -> None:
    """The decision has a reason and is recorded in the log."""
    old = _files(store)
    assert satchel("remember", "likes milk").status == 0
    _restore_files(store, old)
    _assert_refused(satchel, "verify.rolled_back", "satchel bank accept-loss")
    assert satchel("bank", "accept-loss", "default", "--reason", "the disk died").status == 0
    assert texts(satchel) == ["likes tea"]
    [bank] = satchel("bank", "list", "--json").json["banks"]
    assert bank["epoch"] == 1


@pytest.mark.usefixtures("bank_id")
def test_a_forked_store_is_refused_until_an_owner_accepts(
    satchel: Run, store: Path, tmp_path: Path
) -> None:
    """With ``bank accept-loss``."""
    old = _files(store)
    assert satchel("remember", "likes milk").status == 0
    _restore_files(store, old)
    with pytest.MonkeyPatch.context() as other_store:
        other_store.setenv("SATCHEL_WITNESS", str(tmp_path / "other-witness"))
        for text in ("likes rum", "likes gin"):
            assert satchel("remember", text).status == 0
    _assert_refused(satchel, "verify.forked", "satchel bank accept-loss")
    assert satchel("bank", "accept-loss", "default").status == 0
    assert texts(satchel) == ["likes gin", "likes rum", "likes tea"]


def test_a_missing_bank_is_reported_until_its_loss_is_accepted(
    satchel: Run, bank_id: str, store: Path
) -> None:
    """An emptied store is not a new one; the error names the command."""
    for path in store.parent.glob(f"{store.name}*"):
        path.unlink()
    ran = satchel("bank", "create", "another", "--json")
    assert (ran.status, ran.error["code"]) == (3, "verify.rolled_back")
    assert "satchel bank accept-gone" in ran.error["hint"]
    with pytest.MonkeyPatch.context() as elsewhere:  # another machine's store replaces it
        elsewhere.setenv("SATCHEL_WITNESS", str(store.parent / "other-witness"))
        assert satchel("bank", "create", "another").status == 0
    found = satchel("doctor", "--json").json["checks"]
    [gone] = [check for check in found if check["name"] == bank_id]
    assert gone["state"] == "problem"
    assert f"satchel bank accept-gone {bank_id}" in gone["hint"]
    ran = satchel("list", "--bank", bank_id, "--json")
    assert ran.status == 3
    assert "satchel bank accept-gone" in ran.error["hint"]
    assert satchel("list", "--bank", "another").status == 0
    assert satchel("bank", "accept-gone", bank_id).status == 0
    found = satchel("doctor", "--json").json["checks"]
    assert not [check for check in found if check["name"] == bank_id]
    assert satchel("bank", "create", "one-more").status == 0


@pytest.fixture
def other_store(any_store: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of another, empty store of the same kind."""
    if any_store.startswith("ladybug"):
        yield f"ladybug:///{tmp_path}/other-graph"
    elif any_store.startswith("postgres"):
        from postgres_kit import in_schema, run_sql

        server, schema = request.getfixturevalue("postgres"), f"s_{uuid.uuid4().hex}"
        yield in_schema(server, schema)
        run_sql(server, f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    else:
        yield f"{tmp_path}/other.db"


@pytest.mark.in_check(2)
@pytest.mark.usefixtures("any_store")
def test_keys_are_rotated_retired_and_revoked_on_any_store(satchel: Run, tmp_path: Path) -> None:
    """Tokens of a rotated key stay valid, those of a revoked one do not."""
    token = tmp_path / "t.token"
    assert satchel("remember", "likes tea").status == 0
    assert satchel("key", "create", "holder").status == 0
    issue = ("token", "issue", "--audience", "holder", "--everything", "--output", token)
    assert satchel(*issue).status == 0
    old = satchel("key", "export", "default").json["key"]
    assert "recorded in its log" in satchel("key", "rotate").err
    assert texts(satchel, "--token", str(token)) == ["likes tea"]
    assert satchel("key", "rotate", "writer").status == 0  # which retires the old one
    assert satchel("remember", "likes milk").status == 0
    assert satchel("key", "revoke", old, "--reason", "stolen").status == 0
    assert satchel("--token", token, "list").status == 3
    assert texts(satchel) == ["likes milk", "likes tea"]
    assert satchel("doctor", "--deep").status == 0


def test_hand_over_records_a_rotation_on_any_store(satchel: Run, other_store: str) -> None:
    """Until then the new key cannot rename a bank there."""
    assert satchel("--store", other_store, "bank", "create", "away").status == 0
    assert satchel("key", "rotate").status == 0
    assert satchel("--store", other_store, "bank", "rename", "away", "x").status == 3
    assert satchel("--store", other_store, "key", "hand-over").status == 0
    assert satchel("--store", other_store, "bank", "rename", "away", "x").status == 0


@pytest.mark.in_check(2)
def test_rolled_back_and_forked_stores_are_refused_on_any_store(
    satchel: Run, any_store: str, other_store: str, tmp_path: Path
) -> None:
    """Each with a hint that names ``bank accept-loss``, which works."""
    assert satchel("remember", "likes tea").status == 0
    assert satchel("store", "copy", any_store, other_store).status == 0
    assert satchel("remember", "likes milk").status == 0
    elsewhere = ("--store", other_store)
    for words in (("list",), ("remember", "x")):
        ran = satchel(*elsewhere, *words, "--json")
        assert (ran.status, ran.error["code"]) == (3, "verify.rolled_back")
        assert "satchel bank accept-loss" in ran.error["hint"]
    with pytest.MonkeyPatch.context() as machine:
        machine.setenv("SATCHEL_WITNESS", str(tmp_path / "other-witness"))
        for text in ("likes rum", "likes gin"):
            assert satchel(*elsewhere, "remember", text).status == 0
    ran = satchel(*elsewhere, "list", "--json")
    assert (ran.status, ran.error["code"]) == (3, "verify.forked")
    assert "satchel bank accept-loss" in ran.error["hint"]
    assert satchel(*elsewhere, "bank", "accept-loss", "default", "--reason", "disk").status == 0
    assert texts(satchel, *elsewhere) == ["likes gin", "likes rum", "likes tea"]


def test_a_missing_bank_is_reported_on_any_store(
    satchel: Run, any_store: str, other_store: str, tmp_path: Path
) -> None:
    """After another store replaced it, until ``bank accept-gone``."""
    assert satchel("remember", "likes tea").status == 0
    bank = satchel("bank", "list", "--json").json["banks"][0]["id"]
    delete_store(any_store)
    with pytest.MonkeyPatch.context() as machine:
        machine.setenv("SATCHEL_WITNESS", str(tmp_path / "other-witness"))
        assert satchel("bank", "create", "another").status == 0
    ran = satchel("list", "--bank", bank, "--json")
    assert (ran.status, ran.error["code"]) == (3, "verify.rolled_back")
    assert "satchel bank accept-gone" in ran.error["hint"]
    assert satchel("bank", "accept-gone", bank).status == 0
    ran = satchel("list", "--bank", bank, "--json")
    assert (ran.status, ran.error["code"]) == (2, "bank.unknown")
    assert satchel("list").status == 0
    ran = satchel("--store", other_store, "list", "--bank", bank, "--json")
    assert ran.status == 2, "a store that never had it misses nothing"


@pytest.mark.usefixtures("any_store")
def test_a_bank_with_lost_keys_is_adopted_on_any_store(satchel: Run) -> None:
    """It is readable; writes are refused until it is adopted."""
    assert satchel("remember", "likes tea").status == 0
    home = load_settings().home
    shutil.rmtree(home / "keys")
    (home / "trust.json").unlink()
    assert texts(satchel) == ["likes tea"]
    ran = satchel("remember", "likes milk")
    assert ran.status != 0
    assert "bank admit" in ran.err or "bank adopt" in ran.err
    assert satchel("bank", "adopt", "default", "--reason", "the laptop is gone").status == 0
    assert satchel("remember", "likes milk").status == 0
