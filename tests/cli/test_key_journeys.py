"""Keys of banks on the command line: replaced, retired, revoked, and what goes on afterwards."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from satchel.bank import keys
from satchel.config.settings import load_settings

if TYPE_CHECKING:
    from tests.cli.conftest import Run


def did(satchel: "Run", name: str = "default") -> str:
    """Return a key's public form."""
    return str(satchel("key", "export", name).json["key"])


@pytest.fixture
def kept(satchel: "Run") -> str:
    """A bank with a memory; returns its id."""
    assert satchel("remember", "likes tea").status == 0
    assert satchel("key", "create", "holder").status == 0
    return str(satchel("bank", "list", "--json").json["banks"][0]["id"])


def texts(satchel: "Run", *options: str | Path) -> list[str]:
    """Return what a listing shows."""
    found = satchel(*options, "list", "--json")
    assert found.status == 0, found.err
    return sorted(memory["text"] for memory in found.json["memories"])


@pytest.mark.usefixtures("kept")
def test_a_new_key_owns_what_the_old_one_owned(satchel: "Run", tmp_path: Path) -> None:
    """It names, admits and issues tokens; what the old one issued stays good, and it ends there."""
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


@pytest.mark.usefixtures("kept")
def test_tokens_of_a_stolen_key_end_with_it(satchel: "Run", tmp_path: Path) -> None:
    """First a new key, then the old one is revoked: in the log, so every copy of the bank knows."""
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


def test_the_only_owner_is_replaced_before_it_is_let_go(satchel: "Run", kept: str) -> None:
    """The sentence says how; a retirement that a bank cannot do without does not happen."""
    ran = satchel("key", "retire", "default")
    assert ran.status == 1
    assert "key rotate" in ran.err
    assert satchel("key", "list", "--json").json["keys"][0]["state"] == "trusted"
    assert satchel("bank", "rename", kept, "still mine").status == 0
    ran = satchel("key", "revoke", "default")
    assert ran.status == 1
    assert "but not in these banks" in ran.err


@pytest.mark.usefixtures("kept")
def test_a_machines_key_is_replaced_by_the_owner(satchel: "Run") -> None:
    """The new one is admitted, the old one retired, and the bank goes on."""
    old = did(satchel, "writer")
    assert satchel("key", "rotate", "writer").status == 0
    assert did(satchel, "writer") != old
    assert satchel("remember", "likes milk").status == 0
    assert texts(satchel) == ["likes milk", "likes tea"]
    assert satchel("doctor", "--deep").status == 0


@pytest.mark.usefixtures("kept")
def test_a_machines_stolen_key_is_revoked_and_replaced(satchel: "Run") -> None:
    """In the wrong order as well: the owner's key signs the head meanwhile."""
    assert satchel("key", "revoke", "writer", "--reason", "stolen").status == 0
    ran = satchel("remember", "likes milk")
    assert ran.status != 0
    assert "key rotate writer" in ran.err
    assert texts(satchel) == ["likes tea"]


@pytest.mark.usefixtures("kept")
def test_another_store_learns_of_it_later(satchel: "Run", tmp_path: Path) -> None:
    """A store that was away when the key was replaced, twice: both are noted."""
    other = tmp_path / "other.db"
    assert satchel("--store", other, "bank", "create", "away").status == 0
    for _ in range(2):
        assert satchel("key", "rotate").status == 0
    ran = satchel("--store", other, "bank", "rename", "away", "x")
    assert ran.status == 3
    done = satchel("--store", other, "key", "hand-over", "--json")
    assert (done.status, done.json["banks"][0]["noted"]) == (0, True)
    again = satchel("--store", other, "key", "hand-over", "--json")
    assert (again.status, again.json["banks"][0].get("noted")) == (0, None)
    assert satchel("--store", other, "bank", "rename", "away", "x").status == 0


@pytest.mark.usefixtures("kept")
def test_an_interrupted_rotation_is_resumed(
    satchel: "Run", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the key files and the log: there is a key of that name at every moment."""

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


@pytest.mark.usefixtures("kept")
def test_a_copy_of_the_bank_learns_its_current_owner(satchel: "Run", tmp_path: Path) -> None:
    """By push and by store copy, whose rules are those of reading."""
    copy, whole = tmp_path / "copy.db", tmp_path / "whole.db"
    assert satchel("push", copy).status == 0
    assert satchel("key", "rotate").status == 0
    assert satchel("push", copy).status == 0
    assert satchel("store", "copy", load_settings().store, whole).status == 0
    for store in (copy, whole):
        assert texts(satchel, "--store", store) == ["likes tea"]
    assert satchel("--store", whole, "bank", "rename", "default", "mine").status == 0


@pytest.mark.usefixtures("kept")
def test_copies_that_went_apart_are_not_merged_over_a_replaced_key(
    satchel: "Run", tmp_path: Path
) -> None:
    """It is noted in the other copy first; then they merge as ever."""
    copy = tmp_path / "copy.db"
    assert satchel("push", copy).status == 0
    elsewhere = ("--store", copy)
    assert satchel("key", "rotate").status == 0
    with pytest.MonkeyPatch.context() as other:
        other.setenv("SATCHEL_WITNESS", str(tmp_path / "other-witness"))
        assert satchel(*elsewhere, "remember", "likes milk").status == 0
    ran = satchel("pull", copy, "--merge")
    assert ran.status == 3
    assert "key hand-over" in ran.err
    with pytest.MonkeyPatch.context() as other:
        other.setenv("SATCHEL_WITNESS", str(tmp_path / "other-witness"))
        assert satchel(*elsewhere, "key", "hand-over").status == 0
    assert satchel("pull", copy, "--merge").status == 0
    assert texts(satchel) == ["likes milk", "likes tea"]


def test_an_export_by_a_successor_names_its_predecessor(
    satchel: "Run", kept: str, tmp_path: Path
) -> None:
    """Who trusts the old key is told; who has the statement need not check by hand."""
    old, sealed = did(satchel), tmp_path / "a.pam"
    assert satchel("key", "rotate").status == 0
    assert satchel("export", "--output", sealed).status == 0
    statement = next((load_settings().home / "keys").glob("*.succession.json"))
    other = ("--home", str(tmp_path / "other-home"))
    assert satchel(*other, "key", "trust", old, "--bank", kept).status == 0
    ran = satchel(*other, "verify", sealed, "--json")
    assert (ran.json["outcome"], ran.status) == ("untrusted", 3)
    assert any(f"--replaces {old}" in note for note in ran.json["notes"])
    trusted = satchel(*other, "key", "trust", statement, "--name", "ada", "--json")
    assert (trusted.json["replaces"], trusted.json["banks"]) == (old, [kept])
    assert satchel(*other, "verify", sealed).status == 0


@pytest.mark.usefixtures("kept")
def test_a_forged_statement_of_succession_is_refused(satchel: "Run", tmp_path: Path) -> None:
    """Whoever could name itself an heir would be believed wherever the old key is."""
    assert satchel("key", "rotate").status == 0
    statement = next((load_settings().home / "keys").glob("*.succession.json"))
    forged = tmp_path / "forged.json"
    thief = did(satchel, "holder")
    forged.write_text(statement.read_text().replace(did(satchel), thief))
    ran = satchel("key", "trust", forged)
    assert ran.status == 4
    assert "both" in ran.err


# -- lost and put back ------------------------------------------------------------------------


def test_a_bank_with_lost_keys_is_read_and_adopted(
    satchel: "Run", kept: str, own_home: Path
) -> None:
    """Losing the keys never loses the memory; the refusal says what to do, and doing it works."""
    shutil.rmtree(own_home / "keys")
    (own_home / "trust.json").unlink()
    assert texts(satchel) == ["likes tea"]
    ran = satchel("remember", "likes milk")
    assert ran.status != 0
    assert "bank admit" in ran.err or "bank adopt" in ran.err
    ran = satchel("bank", "admit", kept)
    assert ran.status == 3
    assert "not an owner" in ran.err
    assert satchel("bank", "adopt", kept, "--reason", "the laptop is gone").status == 0
    assert satchel("remember", "likes milk").status == 0
    assert texts(satchel) == ["likes milk", "likes tea"]


def _files(store: Path) -> dict[Path, bytes]:
    return {
        path: path.read_bytes() for path in store.parent.glob(f"{store.name}*") if path.is_file()
    }


def _put_back(store: Path, files: dict[Path, bytes]) -> None:
    for path in store.parent.glob(f"{store.name}*"):
        path.unlink()
    for path, content in files.items():
        path.write_bytes(content)


@pytest.fixture
def store(own_home: Path) -> Path:
    """The file of the store."""
    return own_home / "satchel.db"


def _refused(satchel: "Run", code: str, *said: str) -> None:
    """Require that nothing reads or adds, and that the sentence names what accepts it."""
    for words in (("list",), ("remember", "x"), ("recall", "tea"), ("export", "-o", "left.pam")):
        ran = satchel(*words, "--json")
        assert ran.status == 3, (words, ran.err)
        assert ran.error["code"] == code
        assert all(part in ran.error["hint"] for part in said), ran.error


@pytest.mark.usefixtures("kept")
def test_a_rolled_back_store_is_refused_until_an_owner_accepts(satchel: "Run", store: Path) -> None:
    """The rollback is accepted on purpose, with a reason, and is in the log for good."""
    old = _files(store)
    assert satchel("remember", "likes milk").status == 0
    _put_back(store, old)
    _refused(satchel, "verify.rolled_back", "satchel bank accept-loss")
    assert satchel("bank", "accept-loss", "default", "--reason", "the disk died").status == 0
    assert texts(satchel) == ["likes tea"]
    [bank] = satchel("bank", "list", "--json").json["banks"]
    assert bank["epoch"] == 1


@pytest.mark.usefixtures("kept")
def test_a_store_that_went_another_way_is_refused_until_an_owner_accepts(
    satchel: "Run", store: Path, tmp_path: Path
) -> None:
    """The fork is accepted on purpose."""
    old = _files(store)
    assert satchel("remember", "likes milk").status == 0
    _put_back(store, old)
    with pytest.MonkeyPatch.context() as other:
        other.setenv("SATCHEL_WITNESS", str(tmp_path / "other-witness"))
        for text in ("likes rum", "likes gin"):
            assert satchel("remember", text).status == 0
    _refused(satchel, "verify.forked", "satchel bank accept-loss")
    assert satchel("bank", "accept-loss", "default").status == 0
    assert texts(satchel) == ["likes gin", "likes rum", "likes tea"]


def test_a_missing_bank_is_reported_until_its_loss_is_accepted(
    satchel: "Run", kept: str, store: Path
) -> None:
    """An emptied store is not a fresh start; the error names the command that accepts it."""
    for path in store.parent.glob(f"{store.name}*"):
        path.unlink()
    ran = satchel("bank", "create", "another", "--json")
    assert (ran.status, ran.error["code"]) == (3, "verify.rolled_back")
    assert "satchel bank accept-gone" in ran.error["hint"]
    with pytest.MonkeyPatch.context() as elsewhere:  # a store of another machine in its place
        elsewhere.setenv("SATCHEL_WITNESS", str(store.parent / "other-witness"))
        assert satchel("bank", "create", "another").status == 0
    found = satchel("doctor", "--json").json["checks"]
    [gone] = [check for check in found if check["name"] == kept]
    assert gone["state"] == "problem"
    assert f"satchel bank accept-gone {kept}" in gone["hint"]
    ran = satchel("list", "--bank", kept, "--json")
    assert ran.status == 3
    assert "satchel bank accept-gone" in ran.error["hint"]
    assert satchel("list", "--bank", "another").status == 0
    assert satchel("bank", "accept-gone", kept).status == 0
    found = satchel("doctor", "--json").json["checks"]
    assert not [check for check in found if check["name"] == kept]
    assert satchel("bank", "create", "one-more").status == 0
