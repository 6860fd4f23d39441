"""``satchel key``: create, list, export, rotate, trust and revoke, and verdicts of ``verify``."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Run

SECRET = "correct horse battery staple"  # noqa: S105 - a test value


def outcome(satchel: Run, path: Path, *more: str) -> tuple[str, int]:
    """Return the verdict on a file and the exit status."""
    ran = satchel("verify", path, *more, "--json")
    return ran.json["outcome"], ran.status


def did(satchel: Run, name: str = "default") -> str:
    """Return a key's public form."""
    return str(satchel("key", "export", name).json["key"])


def sealed_file(satchel: Run, mem0: Path, name: str, *more: str) -> Path:
    """Return a new file, sealed now."""
    path = mem0.with_name(name)
    assert satchel("convert", mem0, path, *more).status == 0
    return path


def test_the_first_signature_creates_a_key_and_reports_it(
    satchel: Run, mem0: Path, own_home: Path
) -> None:
    """No set-up is needed; the message names the key and the command that copies it."""
    ran = satchel("convert", mem0, mem0.with_name("a.pam"))
    assert "satchel key export default --secret" in ran.err
    assert (own_home / "keys" / "default.key").stat().st_mode & 0o777 == 0o600
    assert (own_home / "keys").stat().st_mode & 0o777 == 0o700
    assert outcome(satchel, mem0.with_name("a.pam")) == ("good", 0)


def test_a_key_is_created_listed_and_exported(satchel: Run) -> None:
    """The public part is printed, without the secret."""
    made = satchel("key", "create", "laptop", "--role", "owner")
    assert made.out.strip() == did(satchel, "laptop")
    [line] = satchel("key", "list", "--json").json["keys"]
    assert (line["name"], line["state"], line["own"], line["signs"]) == (
        "laptop",
        "trusted",
        True,
        True,
    )
    assert "seed" not in satchel("key", "export", "laptop").out
    assert satchel("key", "create", "laptop").status == 5


def test_the_export_command_printed_by_key_create_works(
    satchel: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is printed."""
    monkeypatch.chdir(tmp_path)
    advised = satchel("key", "create", "laptop").err.partition("elsewhere: ")[2]
    program, *words = shlex.split(advised)
    assert program == "satchel"
    assert satchel(*words).status == 0
    assert "seed" in json.loads((tmp_path / "laptop.key.json").read_text())


def test_a_secret_key_is_exported_only_to_a_private_file(satchel: Run, tmp_path: Path) -> None:
    """Never to a terminal; mode 0600; overwritten only on request."""
    satchel("key", "create")
    output = tmp_path / "copy.key"
    assert satchel("key", "export", "--secret").status == 2
    ran = satchel("key", "export", "--secret", "--output", output)
    seed = json.loads(output.read_text())["seed"]
    assert output.stat().st_mode & 0o777 == 0o600
    assert seed not in ran.out + ran.err
    assert satchel("key", "export", "--secret", "--output", output).status == 5
    assert satchel("key", "export", "--secret", "--output", output, "--overwrite").status == 0


def test_an_untrusted_file_is_good_once_its_key_is_trusted(
    satchel: Run, sealed: Path, tmp_path: Path
) -> None:
    """In another home; ``--trust-key`` trusts it for one call."""
    key = did(satchel)
    other = ("--home", str(tmp_path / "other-home"))
    assert satchel(*other, "verify", sealed).status == 3
    assert satchel(*other, "verify", sealed, "--trust-key", key).status == 0
    assert satchel(*other, "verify", sealed).status == 3
    assert satchel(*other, "key", "trust", key, "--name", "ada").status == 0
    ran = satchel(*other, "verify", sealed)
    assert ran.status == 0
    assert "ada" in ran.out


@pytest.mark.parametrize("how", ["did", "hex", "json", "raw"])
def test_a_key_is_trusted_in_any_of_its_forms(
    satchel: Run, sealed: Path, tmp_path: Path, how: str
) -> None:
    """As did:key, hex, the file of ``key export``, and 32 raw bytes."""
    from satchel.crypto.keys import public_key

    key = did(satchel)
    file = tmp_path / "ada.public"
    file.write_bytes(
        {"json": satchel("key", "export").out.encode(), "raw": public_key(key)}.get(how, b"")
    )
    given = {"did": key, "hex": public_key(key).hex()}.get(how, str(file))
    other = ("--home", str(tmp_path / "other-home"))
    assert satchel(*other, "key", "trust", given, "--json").json["key"] == key
    assert satchel(*other, "verify", sealed).status == 0


def test_after_a_rotation_old_files_verify_and_the_new_key_signs(
    satchel: Run, sealed: Path, mem0: Path
) -> None:
    """The old key is retired and signs no more."""
    old = did(satchel)
    rotated = satchel("key", "rotate", "--json").json
    statement, new = rotated["statement"], did(satchel)
    assert (rotated["key"], rotated["replaces"]) == (new, old)
    assert statement["signed"]["payload"] == {"old": old, "new": new}
    assert {found["key"] for found in statement["signatures"]} == {old, new}
    assert outcome(satchel, sealed) == ("good", 0)
    again = sealed_file(satchel, mem0, "b.pam")
    signers = satchel("verify", again, "--json").json["signers"]
    assert [found["key"] for found in signers] == [new]
    states = {
        found["key"]: found["state"] for found in satchel("key", "list", "--json").json["keys"]
    }
    assert states == {old: "retired", new: "trusted"}


def test_a_second_successor_of_a_key_is_refused_as_a_fork(
    satchel: Run, sealed: Path, tmp_path: Path
) -> None:
    """``--replaces`` retires the old key."""
    old = did(satchel)
    satchel("key", "rotate")
    new = did(satchel)
    other = ("--home", str(tmp_path / "other-home"))
    assert satchel(*other, "key", "trust", new, "--replaces", old).status == 2
    satchel(*other, "key", "trust", old, "--name", "ada")
    assert satchel(*other, "key", "trust", new, "--replaces", old, "--name", "ada2").status == 0
    satchel("key", "create", "third")
    third = did(satchel, "third")
    fork = satchel(*other, "key", "trust", third, "--replaces", old)
    assert fork.status == 2
    assert "fork" in fork.err
    assert satchel(*other, "verify", sealed).status == 0


def test_a_revoked_key_is_accepted_only_for_files_seen_before(
    satchel: Run,
    sealed: Path,
    mem0: Path,
    tmp_path: Path,
    own_home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thief's file is untrusted, also with ``--trust-key``."""
    thief = tmp_path / "thief"
    shutil.copytree(own_home, thief)
    satchel("key", "revoke", "default", "--reason", "stolen")
    found = satchel("verify", sealed, "--json")
    assert (found.json["outcome"], found.status) == ("good", 0)
    assert any("revoked" in note for note in found.json["notes"])
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("SATCHEL_HOME", str(thief))
        elsewhere.setenv("SATCHEL_WITNESS", str(tmp_path / "thief-witness"))
        forged = sealed_file(satchel, mem0, "forged.pam")
    assert outcome(satchel, forged) == ("untrusted", 3)
    assert outcome(satchel, forged, "--trust-key", did(satchel)) == ("untrusted", 3)
    assert satchel("key", "trust", did(satchel)).status == 2


@pytest.mark.usefixtures("sealed")
def test_a_revoked_key_does_not_sign(satchel: Run, mem0: Path) -> None:
    """And no output is written."""
    satchel("key", "revoke", did(satchel))
    ran = satchel("convert", mem0, mem0.with_name("b.pam"))
    assert ran.status == 3
    assert "revoked" in ran.err
    assert not mem0.with_name("b.pam").exists()


@pytest.mark.usefixtures("sealed")
def test_a_revocation_statement_is_signed_by_another_key(satchel: Run) -> None:
    """It names the keys and the reason."""
    satchel("key", "create", "second")
    ran = satchel(
        "key", "revoke", "default", "--statement-key", "second", "--reason", "lost", "--json"
    )
    assert ran.status == 0
    payload = ran.json["statement"]["signed"]["payload"]
    assert payload["reason"] == "lost"
    assert [found["key"] for found in ran.json["statement"]["signatures"]] == [
        did(satchel, "second")
    ]


def test_a_threshold_requires_that_many_trusted_signers(satchel: Run, sealed: Path) -> None:
    """One signature is not enough for two."""
    assert outcome(satchel, sealed, "--threshold", "1") == ("good", 0)
    assert outcome(satchel, sealed, "--threshold", "2") == ("untrusted", 3)


def test_a_passphrase_protects_a_key_and_is_never_printed(
    satchel: Run, mem0: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes from the environment; it is in no output and no file."""
    monkeypatch.setenv("SATCHEL_PASSPHRASE", SECRET)
    made = satchel("key", "create", "safe", "--passphrase")
    assert made.status == 0
    good = satchel("convert", mem0, mem0.with_name("a.pam"), "--signing-key", "safe")
    assert good.status == 0
    monkeypatch.setenv("SATCHEL_PASSPHRASE", "wrong")
    wrong = satchel("convert", mem0, mem0.with_name("b.pam"), "--signing-key", "safe")
    assert (wrong.status, mem0.with_name("b.pam").exists()) == (3, False)
    monkeypatch.delenv("SATCHEL_PASSPHRASE")
    missing = satchel("convert", mem0, mem0.with_name("b.pam"), "--signing-key", "safe")
    assert missing.status == 3
    assert "SATCHEL_PASSPHRASE" in missing.err
    printed = "".join(ran.out + ran.err for ran in (made, good, wrong, missing))
    assert SECRET not in printed
    assert "wrong" not in wrong.err.replace("is wrong", "")
    held = (own_home / "keys" / "safe.key").read_text()
    assert SECRET not in held
    assert "seed" not in json.loads(held)


def test_a_passphrase_on_the_command_line_is_refused(satchel: Run) -> None:
    """Other users of the machine can read command lines."""
    ran = satchel("key", "create", "safe", f"--passphrase={SECRET}")
    assert ran.status == 2
    assert SECRET not in ran.err
    assert satchel("key", "create", "safe", "--passphrase").status == 2  # no terminal


def test_a_key_from_the_environment_signs_and_leaves_no_file(
    satchel: Run, mem0: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For containers; an invalid value is refused without printing it."""
    monkeypatch.setenv("SATCHEL_SIGNING_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
    path = sealed_file(satchel, mem0, "a.pam")
    assert outcome(satchel, path) == ("good", 0)
    assert not (own_home / "keys").exists()
    monkeypatch.setenv("SATCHEL_SIGNING_KEY", "hunter2")
    ran = satchel("convert", mem0, mem0.with_name("b.pam"))
    assert ran.status == 3
    assert "hunter2" not in ran.err


def test_a_writer_key_does_not_sign_files(satchel: Run, mem0: Path) -> None:
    """Writer keys sign log heads only."""
    satchel("key", "create", "w", "--role", "writer")
    ran = satchel("convert", mem0, mem0.with_name("a.pam"), "--signing-key", "w")
    assert ran.status == 3
    assert "writer" in ran.err
