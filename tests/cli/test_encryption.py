"""Encrypted files and encrypted stores on the command line."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyrage
import pytest

import satchel as satchel_api
from satchel.config.settings import load_settings
from satchel.crypto import key_files

if TYPE_CHECKING:
    from tests.cli.conftest import Run

SECRET = "correct horse battery staple"  # noqa: S105 - a test value


@pytest.fixture(autouse=True)
def fast_passphrases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make key derivation from passphrases cheap."""
    monkeypatch.setattr(key_files, "_OPS", 1)
    monkeypatch.setattr(key_files, "_MEMORY", 2**16)


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
