"""Files and settings of agents in backups."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest
from backup_kit import backed, cataloged, files_in, restored
from msgspec.structs import replace
from whole_agents_kit import settings, syn, workspace

from satchel.agents.agents import show_agent
from satchel.agents.staged_files import Staging
from satchel.backup.contents import (
    AgentContents,
    PackedFile,
    files_of,
    read_agent_contents,
    verify_contents,
    write_agent,
)
from satchel.backup.drill import drill_backup
from satchel.backup.inventory import list_backups, verify_backups
from satchel.backup.manifests import AgentBackup, AgentIndex, Manifest, read_index
from satchel.backup.prune import prune_backups
from satchel.backup.run import run_backup
from satchel.backup.storage import FolderStorage, Packs
from satchel.bank.machine_keys import create_identity
from satchel.bank.open_bank import open_bank
from satchel.crypto.encryption import Unlocker, new_identity
from satchel.errors import (
    EncryptionError,
    TargetError,
    TargetExistsError,
    UnknownAgentError,
    UsageError,
    VerificationError,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The workspace of an agent with text, a binary file, a secret and a link."""
    files = syn(tmp_path)
    workspace(files, pixel_bin=b"\x00\x01", _satchelignore="*.log\n")
    (files / ".env").write_text("TOKEN=abc")
    (files / "link").symlink_to("/etc/hostname")
    return files


def test_an_agent_is_restored_on_a_new_machine(home: Path, where: str) -> None:
    """Memory, files and settings; omitted files are reported."""
    before = files_in(home)
    made = backed(settings(), where)
    assert (made.agents, made.banks) == (1, 1)
    assert any("its name suggests a secret" in note for note in made.notes)
    lost = settings()
    said = show_agent(lost, "syn")
    lost.file.unlink()
    Path(lost.store).unlink()
    shutil.rmtree(home)
    found = restored(settings(), where, accept_loss=True)
    (agent,) = found.agents
    assert agent.configured
    assert any(".env" in note for note in agent.notes)
    assert any("link" in note for note in agent.notes)
    back = show_agent(settings(), "syn")
    assert back.folder is not None
    del before[".env"], before["link"]
    assert files_in(back.folder) == before
    assert replace(back, workspace=None) == replace(said, workspace=None)
    with open_bank(settings(), "syn") as bank, bank.ledger.reading() as view:
        assert view.head.size > 0


def test_existing_files_are_overwritten_only_on_request_and_kept(home: Path, where: str) -> None:
    """Different files are refused before anything is written; identical ones are skipped."""
    backed(settings(), where)
    (same,) = restored(settings(), where).agents
    assert (same.same, same.aside) == (True, None)
    (home / "SOUL.md").write_text("Be cruel.\n")
    with pytest.raises(TargetExistsError, match="files of the agent syn differ"):
        restored(settings(), where)
    assert restored(settings(), where, files=False).agents == []
    (done,) = restored(settings(), where, overwrite=True).agents
    assert (home / "SOUL.md").read_text() == "Be kind.\n"
    assert done.aside is not None
    assert Path(done.aside, "SOUL.md").read_text() == "Be cruel.\n"
    assert Path(done.aside, ".env").exists()


def test_an_agent_is_restored_to_another_folder_and_store(
    home: Path, where: str, tmp_path: Path
) -> None:
    """For inspection; nothing else changes."""
    backed(settings(), where)
    was = files_in(home), settings().file.read_bytes()
    asked = {"agents": ("syn",), "workspace": tmp_path / "look"}
    planned = restored(settings(), where, str(tmp_path / "a.db"), dry_run=True, **asked)
    assert planned.agents[0].files == 4
    assert not (tmp_path / "look").exists()
    found = restored(settings(), where, str(tmp_path / "a.db"), **asked)
    assert [one.name for one in found.banks] == ["syn"]
    assert (tmp_path / "look" / "notes" / "tea.md").read_text() == "Grünes für Gäste\n"
    assert (files_in(home), settings().file.read_bytes()) == was
    with pytest.raises(UnknownAgentError, match="It has: syn"):
        restored(settings(), where, agents=("nobody",))
    with pytest.raises(UsageError, match="one agent"):
        restored(settings(), where, workspace=tmp_path / "other", banks=("syn",))


def test_selected_agents_are_backed_up_or_all_active_ones(home: Path, where: str) -> None:
    """A selection of banks excludes agents; archived agents are not active."""
    file = settings().file
    file.write_text(file.read_text() + '\n[agents.old]\nbank = "syn"\narchived = true\n')
    assert backed(settings(), where).agents == 1
    assert backed(settings(), where, banks=("syn",)).agents == 0
    assert backed(settings(), where, agents=("old", "syn")).agents == 2
    assert backed(settings(), where, files=False).agents == 0
    listed = list_backups(settings(), destinations=where).backups
    assert [one.agents for one in listed] == [["syn"], [], ["old", "syn"], []]
    del home


def test_a_changed_file_rewrites_only_its_pack(home: Path, where: str) -> None:
    """Other packs are not written again."""
    many = {f"notes__n{number}_md": f"note {number}\n" * 50 for number in range(200)}
    workspace(home, **many)
    first = backed(settings(), where, files=True)
    assert backed(settings(), where).written == 0
    (home / "notes" / "n7.md").write_text("another\n")
    (home / "notes" / "n0001.md").write_text("a new one\n")
    more = backed(settings(), where)
    assert 2 <= more.written <= 5  # the packs of both, the names, the index
    assert first.written > 8


def test_stores_and_backups_in_a_workspace_are_not_backed_up_as_files(home: Path) -> None:
    """A store in the workspace is backed up as a store, so erasures reach it."""
    place = home / "here.db"
    shutil.copy(settings().store, place)
    file = settings().file
    inside = home / "backups"
    file.write_text(f'{file.read_text()}\n[backup]\ndestination = "{inside}"\n')
    here = settings()
    options = replace(here.options, store=replace(here.options.store, address=str(place)))
    here = replace(here, options=options)
    run = run_backup(here)
    assert run.exit_status == 0, run.made[0].error
    again = run_backup(here).made[0]
    assert again.written == 0


def test_a_missing_workspace_is_a_failure_and_prunes_nothing(home: Path, where: str) -> None:
    """A missing disk must not replace backups by empty ones."""
    old = backed(settings(), where)
    home.rename(home.with_name("elsewhere"))
    run = run_backup(settings(), destinations=(where,))
    assert run.exit_status != 0
    assert "the files of the agent syn" in (run.made[0].error or "")
    backed(settings(), where, files=False)
    prune_backups(settings(), destinations=where, days=0, keep_last=1)
    assert old.id in [one.id for one in cataloged(where)]


def test_verify_and_drill_detect_a_damaged_file(home: Path, where: str) -> None:
    """A drill also counts files that differ from the workspace."""
    backed(settings(), where)
    (home / "SOUL.md").write_text("Be.\n")
    drill = drill_backup(settings(), destination=where)
    assert drill.is_good
    assert [(one.files, one.changed) for one in drill.agents] == [(4, 1)]
    (found,) = cataloged(where)
    shelf = FolderStorage(Path(where))
    packs = Packs(shelf, found.manifest.series)
    (part,) = found.manifest.agents
    ref = read_index(packs, part.index, AgentIndex).packs[0]
    shelf.close()
    (path,) = Path(where).rglob(ref.digest)
    data = path.read_bytes()
    path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    assert verify_backups(settings(), destinations=where)[0].error is not None
    assert not drill_backup(settings(), destination=where).is_good
    with pytest.raises(VerificationError) as refused:
        restored(settings(), where, overwrite=True)
    assert "backup list" in (refused.value.hint or "")
    assert (home / "SOUL.md").read_text() == "Be.\n"
    assert not [one for one in home.parent.iterdir() if ".satchel-" in one.name]


def test_names_files_and_settings_of_agents_are_encrypted(home: Path, where: str) -> None:
    """Nothing of them can be read without the identity."""
    create_identity(settings(), "mine")
    made = backed(settings(), where, encrypt_to=("mine",))
    assert made.agents == 1
    every = b"".join(files_in(where).values())
    for word in (b"SOUL.md", b'"syn"', b"Be kind", b"small-1"):
        assert word not in every
    (home / "SOUL.md").unlink()
    restored(settings(), where, overwrite=True)
    assert (home / "SOUL.md").read_text() == "Be kind.\n"


def test_backups_of_agents_without_the_identity_are_incremental(
    home: Path, where: str, tmp_path: Path
) -> None:
    """A restore needs the identity."""
    identity, recipient = new_identity()
    first = backed(settings(), where, encrypt_to=(recipient,))
    same = backed(settings(), where, encrypt_to=(recipient,))
    assert (first.agents, first.written, same.written) == (1, first.packs, 0)
    (home / "SOUL.md").write_text("Be cruel.\n")
    more = backed(settings(), where, encrypt_to=(recipient,))
    assert 0 < more.written <= 3
    assert more.unopened > 0
    assert verify_backups(settings(), destinations=where, all=True)[0].error is None
    with pytest.raises(EncryptionError):
        restored(settings(), where, backup=first.id, overwrite=True)
    assert (home / "SOUL.md").read_text() == "Be cruel.\n"
    (tmp_path / "safe.txt").write_text(identity + "\n")
    (tmp_path / "safe.txt").chmod(0o600)
    here = settings()
    unlocking = Unlocker(folder=here.home / "identities", files=(tmp_path / "safe.txt",))
    restored(replace(here, unlocking=unlocking), where, backup=first.id, overwrite=True)
    assert (home / "SOUL.md").read_text() == "Be kind.\n"


@pytest.mark.parametrize("act", ["lay", "rename"])
def test_a_failed_restore_of_files_keeps_the_existing_ones(
    home: Path, where: str, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    """At any step of a full disk; the next restore succeeds."""
    backed(settings(), where)
    (home / "SOUL.md").write_text("Be cruel.\n")
    place, done, fails_at = {"lay": Staging, "rename": Path}[act], 0, 0
    real = getattr(place, act)

    def failing(*said: object) -> object:
        nonlocal done
        done += 1
        if done == fails_at:
            raise OSError(errno.ENOSPC, "no space left")
        return real(*said)

    monkeypatch.setattr(place, act, failing)
    for number in (1, 2):
        done, fails_at = 0, number
        with pytest.raises((OSError, TargetError)):
            restored(settings(), where, overwrite=True, agents=("syn",))
        assert (home / "SOUL.md").read_text() == "Be cruel.\n"
        assert not list(home.parent.glob("syn.before-*"))
        assert not list(home.parent.glob(".syn.satchel-*"))
    fails_at = 0
    restored(settings(), where, overwrite=True, agents=("syn",))
    assert (home / "SOUL.md").read_text() == "Be kind.\n"


@pytest.mark.parametrize(
    "path",
    ["../out", "/etc/x", "a/../../b", "a\\b", "", "nul\0", "x" * 300],
)
def test_attack_a_path_outside_the_workspace_is_not_restored(tmp_path: Path, path: str) -> None:
    """Of any signer: verify and restore fail."""
    part, packs = _write_packs(tmp_path, [(path, b"out")])
    with pytest.raises(VerificationError):
        read_agent_contents(part, packs)
    with pytest.raises(VerificationError):
        verify_contents(_manifest_of(part), packs)


def test_attack_files_that_differ_from_their_index_are_refused(tmp_path: Path) -> None:
    """Missing, additional, duplicate, or of another size."""
    part, packs = _write_packs(tmp_path, [("a", b"one"), ("b", b""), ("c", b"three")])
    told = read_agent_contents(part, packs)
    assert list(files_of(part, told, packs)) == [("a", b"one"), ("b", b""), ("c", b"three")]
    for wrong in (
        replace(told, files=told.files[:1]),
        replace(told, files=[*told.files, PackedFile("d", 3, told.files[0].digest)]),
        replace(told, files=[told.files[2], *told.files[:2]]),
        replace(told, files=[replace(told.files[0], size=2), *told.files[1:]]),
    ):
        with pytest.raises(VerificationError):
            list(files_of(part, wrong, packs))
    with pytest.raises(VerificationError):
        read_agent_contents(replace(part, files=2), packs)
    twice, packs = _write_packs(tmp_path, [("a", b"one"), ("a", b"two")])
    with pytest.raises(VerificationError):
        read_agent_contents(twice, packs)


def _write_packs(tmp_path: Path, files: list[tuple[str, bytes]]) -> tuple[AgentBackup, Packs]:
    packs = Packs(FolderStorage(tmp_path / "shelf", create=True), "0" * 16)
    return write_agent(packs, "syn", None, files, AgentContents), packs


def _manifest_of(part: AgentBackup) -> Manifest:
    return Manifest(
        id="20260101T000000000000Z-00000000",
        series="0" * 16,
        at="2026-01-01T00:00:00.000000Z",
        tool="t",
        store="s",
        banks=[],
        agents=[part],
    )
