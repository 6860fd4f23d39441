"""Encrypted files and encrypted stores on the command line."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pyrage
import pytest
from nacl.pwhash import argon2id

import satchel as satchel_api
from satchel import aio
from satchel.config.settings import load_settings
from satchel.crypto import encryption, key_files
from satchel.errors import EncryptionError, StoreBusyError, UsageError

if TYPE_CHECKING:
    from tests.cli.conftest import Run


SECRET = "correct horse battery staple"  # noqa: S105 - a test value


@pytest.fixture
def recipient(satchel: "Run") -> str:
    """A bank with a memory, and an identity; returns the recipient."""
    assert satchel("remember", "likes tea").status == 0
    return satchel("key", "identity", "create", "laptop").out.strip()


@pytest.mark.parametrize("name", ["a.pam.age", "a.pam.jsonl.gz.age", "a.pam.cbor.age", "a.ama.age"])
def test_commands_read_an_encrypted_export(
    satchel: "Run", recipient: str, tmp_path: Path, name: str
) -> None:
    """Verify, inspect, diff and import; the reported size is that of the file."""
    path = tmp_path / name
    more = ["--to", "ama", "--accept-loss", "all"] if "ama" in name else []
    done = satchel("export", "-o", path, "--encrypt-to", recipient, *more, "--json")
    assert done.status == 0, done.err
    assert path.read_bytes().startswith(b"age-encryption.org/v1\n")
    assert b"likes tea" not in path.read_bytes()
    assert done.json["output_bytes"] == path.stat().st_size
    if not more:
        assert satchel("verify", path, "--deep", "--json").json["outcome"] == "good"
    assert satchel("inspect", path).status == 0
    assert satchel("diff", "default", path).status == 0
    assert satchel("--store", tmp_path / "new.db", "import", path, "--bank", "new").status == 0
    found = satchel("--store", tmp_path / "new.db", "list", "--json").json
    assert [memory["text"] for memory in found["memories"]] == ["likes tea"]


def test_only_recipients_can_read_an_encrypted_export(
    satchel: "Run", recipient: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another home needs the identity, by option or environment variable."""
    path, other = tmp_path / "a.pam.age", ("--home", str(tmp_path / "other-home"))
    assert satchel("export", "-o", path, "--encrypt-to", recipient).status == 0
    ran = satchel(*other, "inspect", path, "--json")
    assert (ran.status, ran.error["code"]) == (3, "encryption.refused")
    assert "--identity" in ran.error["hint"]
    identity = load_settings().home / "identities" / "laptop.identity"
    assert satchel(*other, "--identity", identity, "inspect", path).status == 0
    monkeypatch.setenv("SATCHEL_IDENTITY", str(identity))
    assert satchel(*other, "inspect", path).status == 0


def test_a_passphrase_comes_from_a_file_a_descriptor_or_the_environment(
    satchel: "Run", recipient: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never from the command line; it is in no output and no file."""
    del recipient
    path, said = tmp_path / "a.pam.age", tmp_path / "pass"
    said.write_text(SECRET + "\n")
    words = ("export", "-o", path, "--encrypt-passphrase", "--overwrite")
    runs = [satchel("--passphrase-file", said, *words)]
    reader, writer = os.pipe()
    os.write(writer, SECRET.encode() + b"\n")
    os.close(writer)
    runs.append(satchel("--passphrase-file", f"/dev/fd/{reader}", "verify", path))
    os.close(reader)
    refused = satchel("verify", path)
    monkeypatch.setenv("SATCHEL_FILE_PASSPHRASE", SECRET)
    runs.append(satchel("verify", path))
    assert [ran.status for ran in runs] == [0, 0, 0]
    assert refused.status == 3
    monkeypatch.setenv("SATCHEL_FILE_PASSPHRASE", "wrong one")
    runs += [satchel("verify", path), refused]
    assert runs[-2].status == 3
    assert SECRET not in "".join(ran.out + ran.err for ran in runs)
    assert "wrong one" not in runs[-2].err
    for file in load_settings().home.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes()
    assert satchel("export", "-o", path, f"--encrypt-passphrase={SECRET}").status == 2


def test_plain_output_to_a_name_ending_in_age_is_refused(
    satchel: "Run", recipient: str, mem0: Path, tmp_path: Path
) -> None:
    """Otherwise a forgotten option would leave a plain file under the name of an encrypted one."""
    del recipient
    for words in (("export", "-o"), ("convert", mem0)):
        ran = satchel(*words, tmp_path / "a.pam.age")
        assert ran.status == 2
        assert "--encrypt-to" in ran.err
    assert not (tmp_path / "a.pam.age").exists()


def test_conversions_read_and_write_encrypted_files(
    satchel: "Run", recipient: str, mem0: Path, tmp_path: Path
) -> None:
    """The seal is preserved."""
    path, again = tmp_path / "a.pam.age", tmp_path / "b.pam.jsonl"
    assert satchel("convert", mem0, path, "--encrypt-to", recipient).status == 0
    done = satchel("convert", path, again, "--json")
    assert (done.status, done.json["same_seal"]) == (0, True)


def test_encrypt_and_decrypt_write_the_whole_file_or_nothing(
    satchel: "Run", recipient: str, mem0: Path, tmp_path: Path
) -> None:
    """Files of ``age`` itself are decrypted, too; a truncated file leaves no output."""
    made, back = tmp_path / "m.age", tmp_path / "m.json"
    done = satchel("encrypt", mem0, made, "--recipient", "laptop", "--json")
    assert (done.status, done.json["recipients"]) == (0, [recipient])
    assert satchel("decrypt", made, back).status == 0
    assert back.read_bytes() == mem0.read_bytes()
    assert back.stat().st_mode & 0o777 == 0o600
    assert satchel("decrypt", made, back).status == 5
    assert satchel("encrypt", made, tmp_path / "n.age", "--recipient", "laptop").status == 2
    assert satchel("decrypt", mem0, tmp_path / "n").status == 2
    theirs = tmp_path / "theirs.age"
    theirs.write_bytes(
        pyrage.encrypt(mem0.read_bytes(), [pyrage.x25519.Recipient.from_str(recipient)])
    )
    assert satchel("decrypt", theirs, tmp_path / "theirs.json").status == 0
    made.write_bytes(made.read_bytes()[:-1])
    ran = satchel("decrypt", made, tmp_path / "cut.json")
    assert ran.status == 3
    assert not (tmp_path / "cut.json").exists()


def test_identity_files_are_private(
    satchel: "Run", recipient: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mode 0600, listed without the secret; one with a passphrase is used when it is named."""
    folder = load_settings().home / "identities"
    file = folder / "laptop.identity"
    assert file.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    secret = json.loads(file.read_text())["identity"]
    listed = satchel("key", "identity", "list", "--json")
    assert [line["recipient"] for line in listed.json["identities"]] == [recipient]
    assert secret not in listed.out
    assert satchel("key", "identity", "create", "laptop").status == 5
    assert satchel("key", "identity", "create", "../x").status == 2
    monkeypatch.setenv("SATCHEL_FILE_PASSPHRASE", SECRET)
    assert satchel("key", "identity", "create", "safe", "--passphrase").status == 0
    assert "AGE-SECRET" not in (folder / "safe.identity").read_text()


def test_a_disclosure_is_encrypted(satchel: "Run", recipient: str, tmp_path: Path) -> None:
    """With its proofs."""
    [entry] = satchel("list", "--json").json["memories"]
    path = tmp_path / "d.pam.age"
    words = ("disclose", "--entry", entry["id"], "-o", path, "--encrypt-to", recipient)
    assert satchel(*words).status == 0
    assert satchel("verify", path, "--deep").status == 0


def test_python_encrypts_exports(recipient: str, tmp_path: Path) -> None:
    """One recipient may be given as a string."""
    path = tmp_path / "a.pam.age"
    with satchel_api.Satchel.open() as opened:
        bank = opened.bank("default")
        found = bank.export(path, encrypt_to=[recipient])
        assert found.read_back == "good"
        assert path.read_bytes().startswith(b"age-encryption.org/v1\n")
        bank.export(path, encrypt_to=recipient, overwrite=True)
        assert path.read_bytes().startswith(b"age-encryption.org/v1\n")
    assert satchel_api.verify(path)


WORD = b"meadowsweet"
PHRASE = "correct horse"


@pytest.fixture(autouse=True)
def fast_passphrases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make key derivation from passphrases cheap, and clear the cache of opened keys."""
    monkeypatch.setattr(key_files, "_OPS", 1)
    monkeypatch.setattr(key_files, "_MEMORY", 2**16)
    encryption._opened.clear()


@pytest.fixture
def plain_store(satchel: "Run") -> Path:
    """A plain store with a memory, and an identity."""
    assert satchel("remember", f"{WORD.decode()} grows by the river").status == 0
    assert satchel("key", "identity", "create", "mine").status == 0
    return Path(load_settings().store)


def plain_files(home: Path) -> list[str]:
    """Return the names of files below a folder that contain the plain text."""
    return [one.name for one in home.rglob("*") if one.is_file() and WORD in one.read_bytes()]


def test_a_store_is_encrypted_and_decrypted(satchel: "Run", plain_store: Path) -> None:
    """The message names key and remnants; no file has the plain text."""
    ids = satchel("list", "--json").json
    before = satchel("stats", "--json").json
    ran = satchel("store", "encrypt", "--encrypt-to", "mine")
    assert ran.status == 0
    assert ran.out == f"{plain_store}: encrypted\n"
    assert "for age1" in ran.err
    assert f"keep a copy of {plain_store}.key" in ran.err
    assert "free disk blocks" in ran.err
    assert plain_files(plain_store.parent) == []
    assert satchel("list", "--json").json == ids
    assert satchel("stats", "--json").json == before
    assert "meadowsweet" in satchel("recall", "river").out
    assert satchel("remember", "so does alder").status == 0
    assert satchel("doctor").status == 0
    assert f"its key is {plain_store}.key" in satchel("doctor").out
    done = satchel("store", "decrypt", "--json")
    assert done.json == {"store": str(plain_store), "encrypted": False}
    assert plain_files(plain_store.parent) == [plain_store.name]
    assert not Path(f"{plain_store}.key").exists()
    assert len(satchel("list", "--json").json["memories"]) == 2
    assert "the store is not encrypted" in satchel("doctor").out


def test_a_new_store_is_created_encrypted(satchel: "Run", tmp_path: Path) -> None:
    """The plain text was never on the disk."""
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
    assert plain_files(tmp_path) == []


def test_a_store_opens_with_its_passphrase_only(
    satchel: "Run", plain_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Argon2id runs once per process, however often the store is opened."""
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
    assert f"{plain_store}.key" in ran.err
    assert "horse" not in ran.err
    monkeypatch.delenv("SATCHEL_FILE_PASSPHRASE")
    ran = satchel("recall", "river", "--json")
    assert ran.error["code"] == "encryption.refused"
    assert "SATCHEL_FILE_PASSPHRASE" in ran.error["hint"]


def test_another_machine_opens_a_copied_store_with_the_identity_only(
    satchel: "Run", plain_store: Path, tmp_path: Path, own_home: Path
) -> None:
    """Without identity or key file it is refused."""
    assert satchel("store", "encrypt", "--encrypt-to", "mine").status == 0
    away = tmp_path / "away"
    away.mkdir()
    for ending in ("", ".key"):
        (away / f"satchel.db{ending}").write_bytes(Path(f"{plain_store}{ending}").read_bytes())
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


@pytest.mark.usefixtures("plain_store")
def test_with_encryption_required_a_plain_store_is_refused(satchel: "Run", tmp_path: Path) -> None:
    """``store.encrypted`` prevents plain stores; nothing is created."""
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
@pytest.mark.usefixtures("plain_store")
def test_invalid_store_encryption_is_refused(
    satchel: "Run", arguments: tuple[str, ...], status: int, problem: str
) -> None:
    """Before anything is written."""
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


def test_a_token_holder_cannot_encrypt_or_decrypt_the_store(
    satchel: "Run", plain_store: Path, tmp_path: Path
) -> None:
    """Only the owner may."""
    token = tmp_path / "token.json"
    issued = ("--bearer", "--everything", "--output", token)
    ran = satchel("token", "issue", *issued)
    if ran.status:  # written to standard output
        token.write_text(satchel("token", "issue", "--bearer", "--everything").out)
    for verb in (("encrypt", "--encrypt-to", "mine"), ("decrypt",)):
        refused = satchel("--token", token, "store", *verb)
        assert refused.status != 0
        assert "only the owner" in refused.err
    assert plain_files(plain_store.parent) == [plain_store.name]


def test_a_backup_of_an_encrypted_store_needs_no_store_key(
    satchel: "Run", plain_store: Path, tmp_path: Path
) -> None:
    """A backup has its own recipients; it is restored into a plain or an encrypted store."""
    assert satchel("store", "encrypt", "--encrypt-to", "mine").status == 0
    assert (
        satchel("backup", "run", "--destination", tmp_path / "b", "--encrypt-to", "mine").status
        == 0
    )
    assert plain_files(tmp_path) == []
    source = ("backup", "restore", "--destination", tmp_path / "b", "--into")
    begun = tmp_path / "begun.db"
    assert satchel("--store", begun, "store", "encrypt", "--encrypt-to", "mine").status == 0
    assert satchel(*source, begun).status == 0
    assert plain_files(tmp_path) == []
    assert "meadowsweet" in satchel("--store", begun, "recall", "river").out
    assert satchel("store", "copy", plain_store, tmp_path / "open.db").status == 0
    assert plain_files(tmp_path) == ["open.db"]


def test_erase_scans_an_encrypted_store(satchel: "Run", plain_store: Path) -> None:
    """Its decrypted pages are scanned, also those of a copy beside it."""
    assert satchel("store", "encrypt", "--encrypt-to", "mine").status == 0
    (identity,) = [one["id"] for one in satchel("list", "--json").json["memories"]]
    with satchel_api.Satchel.open() as opened:
        opened._store.copy_to(Path(f"{plain_store}.v0.then.bak"))  # type: ignore[attr-defined]
    erased = satchel("erase", identity, "--yes", "--json")
    found = {Path(one["name"]).name: one.get("found", 0) for one in erased.json["scanned"]}
    assert found[plain_store.name] == 0
    assert found[f"{plain_store.name}.v0.then.bak"] > 0
    assert erased.status == 1, "a copy beside it still says it"


def test_python_encrypts_and_decrypts_stores(plain_store: Path, tmp_path: Path) -> None:
    """Synchronous and asynchronous; the identity may be given."""
    done = satchel_api.encrypt_store(encrypt_to=["mine"])
    assert done.encrypted
    assert plain_files(plain_store.parent) == []
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
    satchel: "Run", plain_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After ``pip install apsw``: plain stores work; errors and ``doctor`` name the package."""
    encrypted = Path(f"{plain_store}.copy")
    monkeypatch.setenv("SATCHEL_STORE", str(encrypted))
    assert satchel("store", "encrypt", "--encrypt-to", "mine").status == 0
    monkeypatch.delattr(apsw, "mc_version")
    refused = satchel("recall", "river")
    assert "apsw-sqlite3mc" in refused.err
    assert "apsw-sqlite3mc" in satchel("doctor").out
    monkeypatch.setenv("SATCHEL_STORE", str(plain_store))
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


def test_a_store_is_recovered_after_a_killed_key_change(satchel: "Run", plain_store: Path) -> None:
    """Fault: a rollback journal remains. Reads name the recovery; the next write recovers."""
    program = [sys.executable, "-c", KILLED_IN_A_ROLLBACK_JOURNAL, str(plain_store)]
    assert subprocess.run(program, check=False).returncode == 9
    journal = plain_store.with_name(f"{plain_store.name}-journal")
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
    assert plain_files(plain_store.parent) == []


@pytest.mark.parametrize("suffix", ["", "-journal", "-wal", "-shm"])
def test_files_of_a_killed_key_change_are_removed(
    satchel: "Run", plain_store: Path, suffix: str
) -> None:
    """SQLite has files beside the copy that it writes, which can contain memories in plain text."""
    leftover = plain_store.with_name(f".{plain_store.name}.0123456789abcdef.tmp{suffix}")
    leftover.write_bytes(WORD)
    assert satchel("store", "encrypt", "--encrypt-to", "mine").status == 0
    assert not leftover.exists()
    assert plain_files(plain_store.parent) == []


@pytest.mark.prove
def test_a_key_change_killed_at_any_moment_leaves_an_intact_store(
    satchel: "Run", plain_store: Path
) -> None:
    """Fault: forty key changes are killed; the store opens after each."""
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
    assert plain_files(plain_store.parent) == []
    there = sorted(one.name for one in plain_store.parent.iterdir() if "satchel.db" in one.name)
    assert there == ["satchel.db", "satchel.db.key"]
