"""``satchel key import``: moving a key to another machine, and hostile key files."""

from __future__ import annotations

import io
import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from satchel.crypto.canonical import canonical

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import CommandResult, Run

PASSPHRASE = "correct horse battery staple"  # noqa: S105 - a test value


@pytest.fixture
def exported(satchel: Run, tmp_path: Path) -> Path:
    """Return the file of a secret key that ``key export`` wrote."""
    satchel("key", "create", "laptop")
    file = tmp_path / "laptop.key.json"
    assert satchel("key", "export", "laptop", "--secret", "-o", file).status == 0
    return file


@pytest.fixture
def second(tmp_path: Path) -> Path:
    """Return the home of another machine."""
    return tmp_path / "second"


def edit_members(file: Path, **members: object) -> None:
    """Replace members of a key file; None removes one."""
    content = json.loads(file.read_bytes()) | members
    file.write_bytes(canonical({name: part for name, part in content.items() if part is not None}))


def import_refused(satchel: Run, home: Path, file: Path | str, *more: str) -> CommandResult:
    """Import a file that is refused; nothing is stored, and no secret is printed."""
    ran = satchel("--home", home, "key", "import", file, *more, "--json")
    assert ran.status not in (0, 1)
    assert not (home / "keys").exists() or not list((home / "keys").iterdir())
    assert not (home / "trust.json").exists()
    return ran


def test_an_exported_key_is_imported_on_a_second_machine_and_signs_there(
    satchel: Run,
    exported: Path,
    second: Path,
    own_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A copied store is untrusted without the key; with it, it is read, admitted and signed."""
    satchel("init", "notes", "--signing-key", "laptop")
    satchel("remember", "Ada takes tea")
    second.mkdir(mode=0o700)
    shutil.copy(own_home / "satchel.db", second)
    monkeypatch.setenv("SATCHEL_HOME", str(second))
    monkeypatch.setenv("SATCHEL_WITNESS", str(tmp_path / "second-witness"))
    assert satchel("list").err.startswith("untrusted bank")
    ran = satchel("key", "import", exported)
    assert ran.status == 0
    assert ran.out.strip() == json.loads(exported.read_bytes())["key"]
    assert "--signing-key laptop" in ran.err
    listed = satchel("list")
    assert "Ada takes tea" in listed.out
    assert listed.err == ""
    assert satchel("bank", "admit", "notes", "--signing-key", "laptop").status == 0
    assert satchel("remember", "Ben takes coffee").status == 0
    sealed = tmp_path / "notes.pam"
    assert satchel("export", "-o", sealed, "--signing-key", "laptop").status == 0
    signers = satchel("verify", sealed, "--json").json["signers"]
    assert [signer["key"] for signer in signers] == [ran.out.strip()]


def test_an_imported_key_restores_a_backup_on_a_second_machine(
    satchel: Run, second: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first machine signs the backup with its writer key; the owner admits the second one."""
    satchel("init", "notes")
    satchel("remember", "Ada takes tea")
    backups, file = tmp_path / "backups", tmp_path / "default.key.json"
    satchel("backup", "run", "--destination", backups)
    satchel("key", "export", "--secret", "-o", file)
    writer = satchel("key", "export", "writer").json["key"]
    monkeypatch.setenv("SATCHEL_HOME", str(second))
    monkeypatch.setenv("SATCHEL_WITNESS", str(tmp_path / "second-witness"))
    assert satchel("key", "import", file).status == 0
    restore = ("backup", "restore", "--destination", backups, "--trust-key", writer)
    assert satchel(*restore).status == 0
    assert satchel("remember", "Ben takes coffee").status == 3
    assert satchel("bank", "admit", "notes").status == 0
    assert satchel("remember", "Ben takes coffee").status == 0
    assert len(satchel("list", "--json").json["memories"]) == 2


def test_the_imported_file_is_private_and_equal_to_the_stored_one(
    satchel: Run, exported: Path, second: Path, own_home: Path
) -> None:
    """Mode 0600 in a folder of mode 0700, and trusted as an own key."""
    assert satchel("--home", second, "key", "import", exported).status == 0
    stored = second / "keys" / "laptop.key"
    assert stored.stat().st_mode & 0o777 == 0o600
    assert stored.parent.stat().st_mode & 0o777 == 0o700
    assert stored.read_bytes() == (own_home / "keys" / "laptop.key").read_bytes()
    [line] = satchel("--home", second, "key", "list", "--json").json["keys"]
    assert (line["name"], line["state"], line["own"]) == ("laptop", "trusted", True)


def test_a_key_is_imported_from_standard_input_under_another_name(
    satchel: Run, exported: Path, second: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after ``ssh laptop cat laptop.key.json |``."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(exported.read_bytes())))
    ran = satchel("--home", second, "key", "import", "-", "--name", "old-laptop", "--json")
    assert (ran.json["name"], ran.json["imported"], ran.json["protected"]) == (
        "old-laptop",
        True,
        False,
    )
    assert json.loads(exported.read_bytes())["seed"] not in ran.out + ran.err
    assert json.loads((second / "keys" / "old-laptop.key").read_bytes())["name"] == "old-laptop"


def test_the_same_key_imported_again_changes_nothing(
    satchel: Run, exported: Path, second: Path
) -> None:
    """Exit status 0; missing trust, as after an interrupted import, is added."""
    satchel("--home", second, "key", "import", exported)
    stored = second / "keys" / "laptop.key"
    before = (stored.read_bytes(), stored.stat().st_mtime_ns)
    (second / "trust.json").unlink()
    ran = satchel("--home", second, "key", "import", exported)
    assert (ran.status, "already here" in ran.err) == (0, True)
    assert (stored.read_bytes(), stored.stat().st_mtime_ns) == before
    assert satchel("--home", second, "key", "list", "--json").json["keys"][0]["own"] is True


def test_another_key_of_the_same_name_is_never_replaced(
    satchel: Run, exported: Path, second: Path
) -> None:
    """The error says how to import it under another name; a second name of one key is refused."""
    there = satchel("--home", second, "key", "create", "laptop").out.strip()
    ran = satchel("--home", second, "key", "import", exported, "--json")
    assert (ran.status, ran.error["code"]) == (5, "target.exists")
    assert "--name" in ran.error["hint"]
    assert satchel("--home", second, "key", "export", "laptop").json["key"] == there
    assert satchel("--home", second, "key", "import", exported, "--name", "b").status == 0
    ran = satchel("--home", second, "key", "import", exported, "--name", "c", "--json")
    assert (ran.error["code"], "'b'" in ran.error["message"]) == ("target.exists", True)


def test_a_protected_key_is_imported_only_with_its_passphrase(
    satchel: Run, second: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays protected."""
    file = tmp_path / "safe.key.json"
    with monkeypatch.context() as asked:
        asked.setenv("SATCHEL_PASSPHRASE", PASSPHRASE)
        satchel("key", "create", "safe", "--passphrase")
        satchel("key", "export", "safe", "--secret", "-o", file)
    assert import_refused(satchel, second, file).error["code"] == "key.refused"
    with monkeypatch.context() as asked:
        asked.setenv("SATCHEL_PASSPHRASE", "another")
        assert "wrong" in import_refused(satchel, second, file).error["message"]
    monkeypatch.setenv("SATCHEL_PASSPHRASE", PASSPHRASE)
    ran = satchel("--home", second, "key", "import", file, "--json")
    assert (ran.status, ran.json["protected"]) == (0, True)
    assert "wrapped" in json.loads((second / "keys" / "safe.key").read_bytes())


def test_a_public_key_is_refused_with_the_command_that_trusts_it(
    satchel: Run, exported: Path, second: Path
) -> None:
    """Also a did:key, and a statement of succession."""
    public = satchel("key", "export", "laptop").out
    statement = json.dumps(satchel("key", "rotate", "laptop", "--json").json["statement"])
    for text in (public, json.loads(public)["key"], statement):
        exported.write_text(text)
        exported.chmod(0o644)
        error = import_refused(satchel, second, exported).error
        assert (error["code"], "satchel key trust FILE" in error["hint"]) == (
            "input.malformed",
            True,
        )


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"seed": "AAAA"}, "key.refused"),
        ({"seed": "A" * 43 + "="}, "key.refused"),
        ({"seed": "!"}, "key.refused"),
        ({"seed": 7}, "input.malformed"),
        ({"seed": None}, "input.malformed"),
        ({"key": "did:key:z6Mk"}, "input.malformed"),
        ({"role": "admin"}, "input.malformed"),
        ({"format": "satchel-key/2"}, "input.malformed"),
        ({"created_at": "\x1b[2J"}, "input.malformed"),
        ({"more": True}, "input.malformed"),
        ({"name": "../laptop"}, "key.refused"),
        ({"name": "a/b"}, "key.refused"),
        ({"name": "/etc/laptop"}, "key.refused"),
        ({"name": "laptop\n"}, "key.refused"),
        ({"name": ""}, "key.refused"),
        ({"name": "a" * 65}, "key.refused"),
    ],
)
def test_a_key_file_with_a_wrong_member_is_refused(
    satchel: Run, exported: Path, second: Path, members: dict[str, object], code: str
) -> None:
    """Before anything is written; the secret is not in the error."""
    seed = json.loads(exported.read_bytes())["seed"]
    edit_members(exported, **members)
    ran = import_refused(satchel, second, exported)
    assert ran.error["code"] == code
    assert seed not in ran.err


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "input.empty"),
        (b"\0" * 100, "input.malformed"),
        (b"[]", "input.malformed"),
        (b"{}", "input.malformed"),
        (b"{" + b" " * 20_000 + b"}", "input.limit"),
    ],
)
def test_a_file_that_is_not_a_key_is_refused(
    satchel: Run, exported: Path, second: Path, content: bytes, code: str
) -> None:
    """With the specific error."""
    exported.write_bytes(content)
    assert import_refused(satchel, second, exported).error["code"] == code


@pytest.mark.parametrize(
    "content", [b"# Satchel\n", b"[]", b'{"results": []}', b'"seed"', b"\xff\xfe{\0"]
)
def test_another_kind_of_file_is_refused_for_its_content_not_its_mode(
    satchel: Run, exported: Path, second: Path, content: bytes
) -> None:
    """The mode of a README does not matter."""
    exported.write_bytes(content)
    exported.chmod(0o644)
    error = import_refused(satchel, second, exported).error
    assert (error["code"], "key export --secret" in error["hint"]) == ("input.malformed", True)
    assert "not a key file" in error["message"]


def test_a_damaged_key_file_that_others_may_read_is_refused_for_its_mode(
    satchel: Run, exported: Path, second: Path
) -> None:
    """It still holds a secret: with an unknown member, a wrong one, cut off, nested, not UTF-8."""
    whole = exported.read_bytes()
    nested = whole[:-2] + b',"x":' + b"[" * 5_000
    for content in (
        whole.replace(b"satchel-key/1", b"satchel-key/2"),
        whole[:-2] + b',"more":1}',
        whole[: len(whole) // 2],
        nested,
        whole.replace(b"laptop", b"lapt\xff"),
    ):
        exported.write_bytes(content)
        exported.chmod(0o644)
        error = import_refused(satchel, second, exported).error
        assert (error["code"], "chmod 600" in error["hint"]) == ("key.refused", True)
        exported.chmod(0o600)
        assert import_refused(satchel, second, exported).error["code"] == "input.malformed"


def test_a_truncated_key_file_is_refused(satchel: Run, exported: Path, second: Path) -> None:
    """At several positions; a missing final newline is accepted."""
    content = exported.read_bytes()
    seed = json.loads(content)["seed"]
    for size in (1, 20, len(content) // 2, len(content) - 2):
        exported.write_bytes(content[:size])
        assert seed not in import_refused(satchel, second, exported).err
    exported.write_bytes(content[:-1])
    assert satchel("--home", second, "key", "import", exported).status == 0


def test_oversized_standard_input_is_not_read_to_its_end(
    satchel: Run, second: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most one byte more than a key file may have."""
    source = io.BytesIO(b"{" * 10_000_000)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(source))
    ran = satchel("--home", second, "key", "import", "-", "--json")
    assert ran.error["code"] == "input.limit"
    assert source.tell() < 100_000


def test_a_directory_a_pipe_and_a_missing_file_are_refused(
    satchel: Run, exported: Path, second: Path, tmp_path: Path
) -> None:
    """Without waiting for a writer of the pipe."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, exported.with_name("missing")):
        assert import_refused(satchel, second, path).error["code"] == "input.unreadable"


def test_a_key_file_that_other_users_can_read_is_refused(
    satchel: Run, exported: Path, second: Path
) -> None:
    """The hint prints the ``chmod`` command."""
    exported.chmod(0o644)
    error = import_refused(satchel, second, exported).error
    assert (error["code"], "chmod 600" in error["hint"]) == ("key.refused", True)


def test_a_link_in_place_of_the_key_file_is_not_followed_for_writing(
    satchel: Run, exported: Path, second: Path, tmp_path: Path
) -> None:
    """Neither a dangling link, nor one to another file."""
    (second / "keys").mkdir(mode=0o700, parents=True)
    elsewhere = tmp_path / "elsewhere"
    (second / "keys" / "laptop.key").symlink_to(elsewhere)
    assert satchel("--home", second, "key", "import", exported).status != 0
    assert not elsewhere.exists()
    elsewhere.write_text("{}")
    elsewhere.chmod(0o600)
    assert satchel("--home", second, "key", "import", exported).status != 0
    assert elsewhere.read_text() == "{}"
    assert (second / "keys" / "laptop.key").is_symlink()


def test_a_revoked_key_is_not_imported_again(satchel: Run, exported: Path, own_home: Path) -> None:
    """Nor a retired one, on the machine where it was."""
    satchel("key", "revoke", "laptop", "--reason", "stolen")
    (own_home / "keys" / "laptop.key").unlink()
    ran = satchel("key", "import", exported, "--json")
    assert (ran.error["code"], "revoked" in ran.error["message"]) == ("key.refused", True)
    assert not (own_home / "keys" / "laptop.key").exists()


def test_a_key_that_was_trusted_before_becomes_an_own_key(
    satchel: Run, exported: Path, second: Path
) -> None:
    """With the banks it may sign for unchanged."""
    public = json.loads(exported.read_bytes())["key"]
    satchel("--home", second, "key", "trust", public, "--name", "ada")
    assert satchel("--home", second, "key", "import", exported).status == 0
    [line] = satchel("--home", second, "key", "list", "--json").json["keys"]
    assert (line["name"], line["own"], line["signs"]) == ("ada", True, True)
