"""``satchel store encrypt`` and ``decrypt``, as a person uses them, and whoever wants it always."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from nacl.pwhash import argon2id

import satchel as satchel_api
from satchel import aio
from satchel.config.settings import load_settings
from satchel.crypto import encryption, key_files
from satchel.errors import EncryptionError, StoreBusyError, UsageError

if TYPE_CHECKING:
    from tests.cli.conftest import Run

WORD = b"meadowsweet"
PHRASE = "correct horse"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a passphrase cost little here, and nothing be known from the test before."""
    monkeypatch.setattr(key_files, "_OPS", 1)
    monkeypatch.setattr(key_files, "_MEMORY", 2**16)
    encryption._opened.clear()


@pytest.fixture
def store(satchel: "Run") -> Path:
    """A store in plain with a memory, and an identity."""
    assert satchel("remember", f"{WORD.decode()} grows by the river").status == 0
    assert satchel("key", "identity", "create", "mine").status == 0
    return Path(load_settings().store)


def in_plain(home: Path) -> list[str]:
    """Return the names of files below a folder that say what is remembered."""
    return [one.name for one in home.rglob("*") if one.is_file() and WORD in one.read_bytes()]


def test_a_store_is_encrypted_works_as_before_and_is_put_in_plain_again(
    satchel: "Run", store: Path
) -> None:
    """What is said names the key and what may be left; nothing in the home says it in plain."""
    ids = satchel("list", "--json").json
    before = satchel("stats", "--json").json
    ran = satchel("store", "encrypt", "--encrypt-to", "mine")
    assert ran.status == 0
    assert ran.out == f"{store}: encrypted\n"
    assert "for age1" in ran.err
    assert f"keep a copy of {store}.key" in ran.err
    assert "free disk blocks" in ran.err
    assert in_plain(store.parent) == []
    assert satchel("list", "--json").json == ids
    assert satchel("stats", "--json").json == before
    assert "meadowsweet" in satchel("recall", "river").out
    assert satchel("remember", "so does alder").status == 0
    assert satchel("doctor").status == 0
    assert f"its key is {store}.key" in satchel("doctor").out
    done = satchel("store", "decrypt", "--json")
    assert done.json == {"store": str(store), "encrypted": False}
    assert in_plain(store.parent) == [store.name]
    assert not Path(f"{store}.key").exists()
    assert len(satchel("list", "--json").json["memories"]) == 2
    assert "the store is not encrypted" in satchel("doctor").out


def test_a_store_is_begun_encrypted(satchel: "Run", tmp_path: Path) -> None:
    """Nothing was ever on the disk in plain; JSON says all there is to know."""
    other = tmp_path / "other" / "begun.db"
    recipient = satchel("key", "identity", "create", "mine").out.strip()
    other.parent.mkdir()
    ran = satchel("--store", other, "store", "encrypt", "--encrypt-to", "mine", "--json")
    assert ran.json == {
        "store": str(other),
        "encrypted": True,
        "begun": True,
        "key": f"{other}.key",
        "recipients": [recipient],
    }
    assert satchel("--store", other, "remember", WORD.decode()).status == 0
    assert WORD.decode() in satchel("--store", other, "list").out
    assert in_plain(tmp_path) == []


def test_a_passphrase_opens_it_and_a_wrong_one_does_not(
    satchel: "Run", store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Argon2id is computed once, however often a command opens the store."""
    monkeypatch.setenv("SATCHEL_FILE_PASSPHRASE", PHRASE)
    assert "anyone with" in satchel("store", "encrypt", "--encrypt-passphrase").err
    encryption._opened.clear()
    asked, real = list[str](), argon2id.kdf

    def counted(*given: Any) -> bytes:
        asked.append("")
        return bytes(real(*given))

    monkeypatch.setattr(argon2id, "kdf", counted)
    assert "meadowsweet" in satchel("recall", "river").out
    assert "meadowsweet" in satchel("list").out
    assert len(asked) == 1
    encryption._opened.clear()
    monkeypatch.setenv("SATCHEL_FILE_PASSPHRASE", "wrong horse")
    ran = satchel("recall", "river")
    assert ran.status == 3
    assert "the passphrase is wrong" in ran.err
    assert f"{store}.key" in ran.err
    assert "horse" not in ran.err
    monkeypatch.delenv("SATCHEL_FILE_PASSPHRASE")
    ran = satchel("recall", "river", "--json")
    assert ran.error["code"] == "encryption.refused"
    assert "SATCHEL_FILE_PASSPHRASE" in ran.error["hint"]


def test_another_machine_opens_a_copy_with_the_identity_and_not_without(
    satchel: "Run", store: Path, tmp_path: Path, own_home: Path
) -> None:
    """Store and key are moved; the identity is named; without it nobody reads a word."""
    assert satchel("store", "encrypt", "--encrypt-to", "mine").status == 0
    away = tmp_path / "away"
    away.mkdir()
    for ending in ("", ".key"):
        (away / f"satchel.db{ending}").write_bytes(Path(f"{store}{ending}").read_bytes())
        (away / f"satchel.db{ending}").chmod(0o600)
    identity = own_home / "identities" / "mine.identity"
    kept = identity.rename(tmp_path / "kept.identity")
    encryption._opened.clear()
    copy = ("--store", away / "satchel.db")
    refused = satchel(*copy, "recall", "river")
    assert refused.status == 3
    assert "no identity here decrypts the key of the store" in refused.err
    assert "meadowsweet" in satchel("--identity", kept, *copy, "recall", "river").out
    encryption._opened.clear()
    (away / "satchel.db.key").unlink()
    lost = satchel("--identity", kept, *copy, "recall", "river")
    assert lost.status == 3
    assert "its key file is missing" in lost.err
    assert "satchel.db.key" in lost.err


@pytest.mark.usefixtures("store")
def test_with_encryption_required_a_plain_store_is_refused(satchel: "Run", tmp_path: Path) -> None:
    """A configuration that says so writes nothing in plain by mistake; nothing is made."""
    config = tmp_path / "always.toml"
    config.write_text("[store]\nencrypted = true\n")
    for verb in (
        ("recall", "river"),
        ("remember", "x"),
        ("backup", "run", "--destination", tmp_path / "b"),
    ):
        refused = satchel("--config", config, *verb)
        assert refused.status == 2
        assert "store.encrypted" in refused.err
    new = ("--config", config, "--store", tmp_path / "new.db")
    assert satchel(*new, "remember", "x").status == 2
    assert not (tmp_path / "new.db").exists()
    assert satchel("--config", config, "store", "encrypt", "--encrypt-to", "mine").status == 0
    assert "meadowsweet" in satchel("--config", config, "recall", "river").out
    graph = ("--config", config, "--store", f"ladybug:///{tmp_path}/graph")
    assert "store.encrypted" in satchel(*graph, "remember", "x").err


@pytest.mark.parametrize(
    ("arguments", "status", "problem"),
    [
        (("encrypt",), 2, "no recipient given"),
        (("encrypt", "--encrypt-to", "nobody"), 4, "nobody"),
        (("decrypt",), 2, "the store is not encrypted"),
        (("--store", "ladybug:///g", "encrypt", "--encrypt-to", "mine"), 2, "only an SQLite store"),
        (("--store", "postgresql://x@localhost/x", "decrypt"), 2, "only an SQLite store"),
    ],
    ids=["nobody", "unknown", "plain", "graph", "server"],
)
@pytest.mark.usefixtures("store")
def test_what_cannot_be_is_refused_before_anything_is_done(
    satchel: "Run", arguments: tuple[str, ...], status: int, problem: str
) -> None:
    """Each with what to do."""
    before = Path(load_settings().store).read_bytes()
    (
        *options,
        verb,
    ) = [one for one in arguments if one in {"encrypt", "decrypt"}]
    place = arguments.index(verb)
    assert options == []
    ran = satchel(*arguments[:place], "store", *arguments[place:])
    assert ran.status == status
    assert problem in ran.err
    assert Path(load_settings().store).read_bytes() == before


def test_a_token_holder_may_not(satchel: "Run", store: Path, tmp_path: Path) -> None:
    """The key of a store is its owner's."""
    token = tmp_path / "token.json"
    issued = ("--bearer", "--everything", "--output", token)
    ran = satchel("token", "issue", *issued)
    if ran.status:  # written to standard output
        token.write_text(satchel("token", "issue", "--bearer", "--everything").out)
    for verb in (("encrypt", "--encrypt-to", "mine"), ("decrypt",)):
        refused = satchel("--token", token, "store", *verb)
        assert refused.status != 0
        assert "only the owner" in refused.err
    assert in_plain(store.parent) == [store.name]


def test_a_backup_and_all_that_is_made_of_it_need_no_key_of_the_store(
    satchel: "Run", store: Path, tmp_path: Path
) -> None:
    """A backup has its own recipients; put back it is in plain, or in a store that was begun."""
    assert satchel("store", "encrypt", "--encrypt-to", "mine").status == 0
    assert (
        satchel("backup", "run", "--destination", tmp_path / "b", "--encrypt-to", "mine").status
        == 0
    )
    assert in_plain(tmp_path) == []
    source = ("backup", "restore", "--destination", tmp_path / "b", "--into")
    begun = tmp_path / "begun.db"
    assert satchel("--store", begun, "store", "encrypt", "--encrypt-to", "mine").status == 0
    assert satchel(*source, begun).status == 0
    assert in_plain(tmp_path) == []
    assert "meadowsweet" in satchel("--store", begun, "recall", "river").out
    assert satchel("store", "copy", store, tmp_path / "open.db").status == 0
    assert in_plain(tmp_path) == ["open.db"]


def test_erasing_looks_into_an_encrypted_store(satchel: "Run", store: Path) -> None:
    """Its pages are looked through in plain: found before, gone after, also from a copy beside."""
    assert satchel("store", "encrypt", "--encrypt-to", "mine").status == 0
    (identity,) = [one["id"] for one in satchel("list", "--json").json["memories"]]
    with satchel_api.Satchel.open() as opened:
        opened._store.copy_to(Path(f"{store}.v0.then.bak"))  # type: ignore[attr-defined]
    erased = satchel("erase", identity, "--yes", "--json")
    found = {Path(one["name"]).name: one.get("found", 0) for one in erased.json["scanned"]}
    assert found[store.name] == 0
    assert found[f"{store.name}.v0.then.bak"] > 0
    assert erased.status == 1, "a copy beside it still says it"


def test_programs_do_the_same(store: Path, tmp_path: Path) -> None:
    """From Python, awaited or not; the identity may be named."""
    done = satchel_api.encrypt_store(encrypt_to=["mine"])
    assert done.encrypted
    assert in_plain(store.parent) == []
    with satchel_api.Satchel.open() as opened:
        assert len(opened.bank().list()) == 1
        with pytest.raises(StoreBusyError):
            satchel_api.decrypt_store()
    told = list[int]()
    assert not asyncio.run(aio.decrypt_store(progress=lambda done, _: told.append(done))).encrypted
    assert told
    with pytest.raises(UsageError):
        satchel_api.decrypt_store()
    asyncio.run(aio.encrypt_store(passphrase=PHRASE))
    encryption._opened.clear()
    with pytest.raises(EncryptionError):
        satchel_api.Satchel.open(read_only=True)
    with satchel_api.Satchel.open(file_passphrase=PHRASE) as opened:
        assert len(opened.bank().list()) == 1
    encryption._opened.clear()
    with pytest.raises(EncryptionError):
        satchel_api.decrypt_store(file_passphrase="wrong")  # noqa: S106 - nobody's
    assert satchel_api.encrypt_store(encrypt_to=["mine"], file_passphrase=PHRASE).recipients
    mine = load_settings().home / "identities" / "mine.identity"
    kept = mine.rename(tmp_path / "kept.identity")
    encryption._opened.clear()
    with pytest.raises(EncryptionError):
        satchel_api.Satchel.open(read_only=True)
    with satchel_api.Satchel.open(identities=[kept]) as opened:
        assert len(opened.bank().list()) == 1
    begun = satchel_api.encrypt_store(tmp_path / "b.db", passphrase=PHRASE)
    assert begun.begun


def test_with_the_other_apsw_package_the_error_prints_the_fix(
    satchel: "Run", store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pip install apsw` over it: what is in plain goes on, the rest is told, `doctor` too."""
    encrypted = Path(f"{store}.copy")
    monkeypatch.setenv("SATCHEL_STORE", str(encrypted))
    assert satchel("store", "encrypt", "--encrypt-to", "mine").status == 0
    monkeypatch.delattr(apsw, "mc_version")
    refused = satchel("recall", "river")
    assert "apsw-sqlite3mc" in refused.err
    assert "apsw-sqlite3mc" in satchel("doctor").out
    monkeypatch.setenv("SATCHEL_STORE", str(store))
    assert "meadowsweet" in satchel("recall", "river").out
    assert "apsw-sqlite3mc" in satchel("store", "encrypt", "--encrypt-to", "mine").err


KILLED_IN_A_ROLLBACK_JOURNAL = """
import os, sys
from pathlib import Path
import apsw
from satchel.stores.sqlite.connection import open_for_writing

class Killed(apsw.VFS):
    def __init__(self):
        super().__init__("killed", "")
    def xDelete(self, name, sync):
        os._exit(9) if name.endswith("-journal") else super().xDelete(name, sync)

system = Killed()
connection = open_for_writing(Path(sys.argv[1]), busy_ms=1000, vfs="killed")
connection.pragma("journal_mode", "delete")
"""


def test_a_store_whose_key_change_was_killed_while_it_left_the_log_is_recovered(
    satchel: "Run", store: Path
) -> None:
    """Fault: a rollback journal is left. Reading names the cure, and the next writer recovers."""
    program = [sys.executable, "-c", KILLED_IN_A_ROLLBACK_JOURNAL, str(store)]
    assert subprocess.run(program, check=False).returncode == 9
    journal = store.with_name(f"{store.name}-journal")
    left = journal.read_bytes()
    assert left
    refused = satchel("list", "--json")
    assert refused.status == 5
    assert "changing its key" in refused.error["message"]
    assert "satchel init" in refused.error["hint"]
    assert journal.read_bytes() == left
    assert satchel("init").status == 0
    assert not journal.exists()
    assert WORD.decode() in satchel("list").out
    assert subprocess.run(program, check=False).returncode == 9
    assert satchel("store", "encrypt", "--encrypt-to", "mine").status == 0
    assert WORD.decode() in satchel("list").out
    assert in_plain(store.parent) == []


@pytest.mark.parametrize("suffix", ["", "-journal", "-wal", "-shm"])
def test_files_of_a_killed_key_change_are_removed(satchel: "Run", store: Path, suffix: str) -> None:
    """SQLite has files beside the copy that it writes, which can contain memories in plain text."""
    leftover = store.with_name(f".{store.name}.0123456789abcdef.tmp{suffix}")
    leftover.write_bytes(WORD)
    assert satchel("store", "encrypt", "--encrypt-to", "mine").status == 0
    assert not leftover.exists()
    assert in_plain(store.parent) == []


@pytest.mark.prove
def test_killed_at_any_moment_the_store_is_intact(satchel: "Run", store: Path) -> None:
    """Fault: forty commands that change the key, each killed; the store opens after every one."""
    with satchel_api.Satchel.open() as opened:
        bank = opened.bank()
        for number in range(300):
            bank.remember(f"{WORD.decode()} of place {number}")
    chance = random.Random(7)  # noqa: S311 - the same moments each time
    verbs = [["store", "encrypt", "--encrypt-to", "mine"], ["store", "decrypt"]]
    killed = 0
    for turn in range(40):
        command = [sys.executable, "-m", "satchel.cli.main", *verbs[turn % 3 == 2]]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.15 + chance.random() * 0.25)
        os.kill(process.pid, signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        ran = satchel("list", "--json", "--limit", "1000")
        if ran.status and "store decrypt" in ran.err:
            assert satchel("store", "decrypt").status == 0
            ran = satchel("list", "--json", "--limit", "1000")
        if ran.status and "Recover it: satchel init" in ran.err:
            assert satchel("init").status == 0
            ran = satchel("list", "--json", "--limit", "1000")
        assert ran.status == 0, (turn, ran.err)
        assert len(ran.json["memories"]) == 301, turn
    assert killed > 10
    assert satchel("store", "encrypt", "--encrypt-to", "mine").status == 0
    assert in_plain(store.parent) == []
    there = sorted(one.name for one in store.parent.iterdir() if "satchel.db" in one.name)
    assert there == ["satchel.db", "satchel.db.key"]
