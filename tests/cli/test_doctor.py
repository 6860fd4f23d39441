"""``satchel doctor``: keys, trust, stores, banks and permissions of files."""

from __future__ import annotations

import io
import shutil
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest
from ledger_kit import created, memories

from satchel.bank import checks
from satchel.bank.checks import secret_files
from satchel.bank.connections import configured_store, open_ledger, witness_of, writer_key
from satchel.bank.machine_keys import signing_key
from satchel.config.settings import load_settings
from satchel.crypto import encryption
from satchel.ledger.ledger import Ledger
from satchel.runtime.private_files import exposure

if TYPE_CHECKING:
    from tests.cli.conftest import Run


def states(satchel: Run) -> tuple[dict[str, str], int]:
    """Return the state of each check of ``doctor``, and its exit status."""
    ran = satchel("doctor", "--json")
    return {found["name"]: found["state"] for found in ran.json["checks"]}, ran.status


def test_doctor_reports_no_problem_for_a_valid_installation(satchel: Run, sealed: Path) -> None:
    """Exit status 0, before and after keys exist."""
    assert sealed.exists()
    found, status = states(satchel)
    assert "problem" not in found.values()
    assert status == 0
    assert satchel("doctor").status == 0


@pytest.mark.parametrize(
    ("inside", "mode", "name"),
    [
        ("keys/default.key", 0o644, "key default"),
        ("keys/default.key", 0o640, "key default"),
        (".", 0o755, "home"),
        ("keys", 0o777, "key folder"),
    ],
)
def test_doctor_reports_files_that_other_users_can_open(
    satchel: Run, sealed: Path, own_home: Path, inside: str, mode: int, name: str
) -> None:
    """Attack: other users of the machine read or replace keys."""
    assert sealed.exists()
    (own_home / inside).chmod(mode)
    found, status = states(satchel)
    assert (found.get(name), status) == ("problem", 1)
    assert "chmod" in satchel("doctor").err
    assert (own_home / inside).stat().st_mode & 0o777 == mode, "doctor changes nothing"


def test_a_key_that_other_users_can_read_does_not_sign(
    satchel: Run, sealed: Path, own_home: Path
) -> None:
    """It is refused until its mode is 0600."""
    (own_home / "keys" / "default.key").chmod(0o644)
    target = sealed.with_name("b.pam")
    ran = satchel("convert", sealed.with_name("mem0.json"), target)
    assert (ran.status, target.exists()) == (3, False)
    assert "chmod 600" in ran.err


@pytest.mark.parametrize(
    ("inside", "content", "name"),
    [
        ("keys/default.key", b"{}", "key default"),
        ("keys/default.key", b"", "key default"),
        ("trust.json", b"{}", "trust"),
        ("trust.json", b"\xff", "trust"),
    ],
)
def test_doctor_reports_damaged_key_and_trust_files(
    satchel: Run, sealed: Path, own_home: Path, inside: str, content: bytes, name: str
) -> None:
    """Every command reports the file; none treats it as empty or overwrites it."""
    (own_home / inside).write_bytes(content)
    found, status = states(satchel)
    assert (found[name], status) == ("problem", 1)
    ran = satchel("convert", sealed.with_name("mem0.json"), sealed.with_name("b.pam"))
    assert ran.status in (3, 4)
    assert (own_home / inside).read_bytes() == content


def test_doctor_reports_a_home_that_is_a_link(satchel: Run, sealed: Path, own_home: Path) -> None:
    """Attack: the home directory links to another folder."""
    elsewhere = sealed.with_name("elsewhere")
    own_home.rename(elsewhere)
    own_home.symlink_to(elsewhere)
    found, status = states(satchel)
    assert (found["home"], status) == ("problem", 1)


def test_doctor_notes_a_missing_extra_with_its_install_command(
    satchel: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra is optional, so the exit status is 0."""
    there = metadata.version

    def version(package: str) -> str:
        if package == "onnxruntime":
            raise metadata.PackageNotFoundError(package)
        return there(package)

    monkeypatch.setattr(checks, "version", version)
    ran = satchel("doctor", "--json")
    found = {one["name"]: one for one in ran.json["checks"]}
    assert ran.status == 0
    assert found["onnxruntime"]["state"] == "note"
    assert "satchel[models]" in found["onnxruntime"]["hint"]


@pytest.fixture
def machine_bank() -> str:
    """A bank in the configured store."""
    settings = load_settings()
    owner, _ = signing_key(settings)
    with configured_store(settings) as store:
        ledger = Ledger.create(
            store, owner=owner, writer=writer_key(settings), witness=witness_of(settings)
        )
        ledger.append(memories(30))
        return ledger.bank


def edit(sql: str) -> None:
    """Edit the database directly."""
    connection = apsw.Connection(load_settings().store)
    connection.execute(sql)
    assert connection.total_changes()
    connection.close()


def state_of(satchel: Run, name: str, *options: str) -> tuple[str, str, int]:
    """Return state and detail of one check of ``doctor``, and the exit status."""
    ran = satchel("doctor", *options, "--json")
    found = [check for check in ran.json["checks"] if check["name"] == name][-1]
    return found["state"], found["detail"], ran.status


def test_doctor_notes_a_missing_store_and_does_not_create_it(satchel: Run) -> None:
    """A note, with exit status 0."""
    state, detail, status = state_of(satchel, "store", "--deep", "--repair")
    assert (state, status) == ("note", 0)
    assert "created on first use" in detail
    assert not Path(load_settings().store).exists()


def test_doctor_reports_a_valid_bank_as_ok(satchel: Run, machine_bank: str) -> None:
    """With the quick check and with ``--deep``."""
    sound = ("ok", "32 records, each verified with its columns and indexes", 0)
    assert state_of(satchel, machine_bank) == sound
    assert state_of(satchel, machine_bank, "--deep") == sound
    assert state_of(satchel, "witness of banks")[0] == "ok"


def test_doctor_prints_the_name_of_each_bank(satchel: Run) -> None:
    """The check is named by the ID, which does not change."""
    satchel("init", "notes")
    [bank] = satchel("bank", "list", "--json").json["banks"]
    state, detail, _ = state_of(satchel, bank["id"])
    assert state == "ok"
    assert detail.startswith("'notes': ")


def test_doctor_finds_and_repairs_a_changed_column(satchel: Run, machine_bank: str) -> None:
    """Exit status 1 until it is repaired; the hint names ``--repair``."""
    edit("UPDATE record SET user = 'eve' WHERE place & 1023 = 20")
    assert state_of(satchel, machine_bank)[2] == 1
    state, detail, status = state_of(satchel, machine_bank, "--deep")
    assert (state, status) == ("problem", 1)
    assert detail == "1 column; first: a column differs from the log (record 20)"
    assert "--repair" in satchel("doctor", "--deep").err
    assert satchel("doctor", "--repair").status == 0
    assert state_of(satchel, machine_bank, "--deep")[2] == 0


def test_repair_sets_a_damaged_record_aside_and_counts_it(satchel: Run, machine_bank: str) -> None:
    """The rest of the bank is readable afterwards."""
    edit("UPDATE record SET body = zeroblob(100) WHERE place & 1023 = 20")
    ran = satchel("doctor", "--repair")
    assert (ran.status, "damaged and set aside: 1" in ran.out) == (0, True)
    settings = load_settings()
    with (
        configured_store(settings) as store,
        open_ledger(settings, store, machine_bank).reading() as view,
    ):
        assert len(list(view.scan())) == 32


def test_doctor_reports_missing_and_rolled_back_banks(satchel: Run, machine_bank: str) -> None:
    """Attack: an older or an empty store replaces the current one."""
    path = Path(load_settings().store)
    older = path.read_bytes()
    with configured_store(load_settings()) as store:
        open_ledger(load_settings(), store, machine_bank, writes=True).append(memories(1, start=50))
    path.write_bytes(older)
    state, detail, status = state_of(satchel, machine_bank)
    assert (state, status) == ("problem", 1)
    assert "32 records" in detail
    path.unlink()
    with configured_store(load_settings(), lost=True):
        pass
    assert state_of(satchel, machine_bank)[::2] == ("problem", 1)


def test_doctor_reports_a_bank_of_unknown_owners_as_untrusted(satchel: Run) -> None:
    """A note: the records verify, but anyone can create keys."""
    with configured_store(load_settings()) as store:
        machine_bank = created(store).bank
    state, detail, status = state_of(satchel, machine_bank, "--deep")
    assert (state, status) == ("note", 0)
    assert "untrusted" in detail


def test_doctor_prints_the_command_that_trusts_the_owner_of_an_untrusted_bank(
    satchel: Run,
) -> None:
    """The printed command works as it is, and the bank is trusted afterwards."""
    with configured_store(load_settings()) as store:
        machine_bank = created(store).bank
    (check,) = (
        one for one in satchel("doctor", "--json").json["checks"] if one["name"] == machine_bank
    )
    command = check["hint"].removeprefix("If you know the owner: ").split()
    assert satchel(*command[1:]).status == 0
    assert state_of(satchel, machine_bank)[0] == "ok"


def test_doctor_checks_the_store_of_the_flag_or_the_environment(
    satchel: Run, machine_bank: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flag over environment over file; an unknown scheme is a usage error."""
    other = tmp_path / "other.db"
    assert machine_bank not in satchel("--store", str(other), "doctor").out
    monkeypatch.setenv("SATCHEL_STORE", f"sqlite:///{other}")
    assert str(other) in satchel("doctor").out
    for wrong in ("postgres://somewhere/x", "sqlite://host/x.db", "sqlite:///x.db?mode=rw"):
        assert satchel("--store", wrong, "doctor").status == 2


def mode(path: Path) -> int:
    """Return the permission bits of a file or folder."""
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize(
    "command",
    [
        ("list",),
        ("recall", "tea"),
        ("remember", "more tea"),
        ("stats",),
        ("amplihack", "tree"),
        ("hook", "session-start", "--agent", "default"),
        ("export", "--output", "out.pam"),
        ("bank", "list"),
    ],
    ids=" ".join,
)
def test_commands_that_open_the_store_correct_its_modes(
    satchel: Run,
    own_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
) -> None:
    """Home, database and SQLite's files beside it, without a change of content."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"session_id": "s"}')))
    assert satchel("remember", "likes tea").status == 0
    own_home.chmod(0o755)
    store = own_home / "satchel.db"
    for path in own_home.glob("satchel.db*"):
        path.chmod(0o644)
    satchel(*command)
    assert mode(own_home) == 0o700
    assert {path.name: mode(path) for path in own_home.glob("satchel.db*")} == {
        path.name: 0o600 for path in own_home.glob("satchel.db*")
    }
    assert store.exists()


def test_secret_files_that_other_users_can_read_are_refused(satchel: Run, own_home: Path) -> None:
    """Signing key, identity, store key: ``doctor`` prints the command that corrects it."""
    assert satchel("key", "identity", "create", "mine").status == 0
    assert satchel("remember", "likes tea").status == 0
    assert satchel("store", "encrypt", "--encrypt-to", "mine").status == 0
    files = secret_files(load_settings())
    assert {path.suffix for path in files} == {".key", ".identity"}
    assert own_home / "satchel.db.key" in files
    for path in (own_home / "identities" / "mine.identity", own_home / "satchel.db.key"):
        path.chmod(0o644)
        encryption._opened.clear()  # as another process
        ran = satchel("list")
        assert ran.status != 0
        assert "chmod 600" in ran.err
        told = satchel("doctor")
        assert told.status == 1
        assert f"chmod 600 {path}" in told.out + told.err
        path.chmod(0o600)
        assert satchel("list").status == 0


def test_a_secret_in_a_folder_that_other_users_can_write_is_refused(tmp_path: Path) -> None:
    """They could replace it. A folder with the sticky bit is accepted."""
    folder = tmp_path / "open"
    folder.mkdir(mode=0o700)
    file = folder / "a.identity"
    file.write_text("x")
    file.chmod(0o600)
    assert exposure(file) is None
    folder.chmod(0o777)
    found = exposure(file)
    assert found is not None
    assert found.command == f"chmod 700 {folder}"
    folder.chmod(0o1777)
    assert exposure(file) is None
    shutil.rmtree(folder)
