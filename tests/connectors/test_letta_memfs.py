"""Letta's memory folder, read with its Git history and written; also hostile ones."""

import json
import os
import random
import subprocess
import zlib
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from import_kit import bring, opened, texts

from satchel.api.store import Satchel
from satchel.connectors import _git
from satchel.connectors.letta_memfs import LettaMemfs, MemfsAddress
from satchel.crypto.sealed_records import seal
from satchel.errors import InputError, PathRefusedError, UnreadableError
from satchel.model.records import Entry, Identity, Procedural, Semantic
from satchel.model.values import Origin, Scope
from satchel.ports.format import ConnectorOptions, Page
from satchel.ports.record_set import Report
from satchel.transfer.folders import LETTA_MEMFS, connector_for

_PERSONA = "---\ndescription: Who I am\nread_only: true\n---\nI am Rosa's helper.\n"
_TEA = "---\ndescription: What Rosa drinks\nlimit: 5000\n---\n\nGreen tea."
_SKILL = "---\nname: brew\ndescription: How to brew\n---\n\n# Brew\n\nThree minutes.\n"
_WHEN = 1_772_355_600


def _write_files(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as Letta writes it, without Git."""
    return _write_files(
        tmp_path / "memory", system__persona=_PERSONA, notes__tea=_TEA, skills__brew__SKILL=_SKILL
    )


def _run_git(folder: Path, *words: str, when: int = _WHEN) -> str:
    moment = f"{when} +0200"
    own = {
        "GIT_AUTHOR_DATE": moment,
        "GIT_COMMITTER_DATE": moment,
        "GIT_CONFIG_GLOBAL": "/dev/null",
    }
    said = ["-c", "user.name=Rosa", "-c", "user.email=rosa@example.org"]
    done = subprocess.run(
        ["git", *said, *words],
        cwd=folder,
        env={**os.environ, **own},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def _commit(folder: Path, when: int) -> None:
    _run_git(folder, "add", "-A", when=when)
    _run_git(folder, "commit", "-q", "--no-verify", "-m", "memory", when=when)


@pytest.fixture
def repository(folder: Path) -> Path:
    """The same folder with three commits: the tea changed twice, a note was added and deleted."""
    _run_git(folder, "init", "-q", "-b", "main")
    _write_files(folder, notes__tea="Black tea.\n", old="Gone soon.\n")
    _commit(folder, _WHEN)
    _write_files(folder, notes__tea="Any tea.\n")
    (folder / "old.md").unlink()
    _commit(folder, _WHEN + 60)
    _write_files(folder, notes__tea=_TEA)
    _commit(folder, _WHEN + 120)
    return folder


def _page(folder: Path, **how: Any) -> tuple[Page, Report]:
    report = Report()
    with closing(LettaMemfs(MemfsAddress.read(str(folder)), ConnectorOptions(**how))) as connector:
        return connector.page(None, report), report


def _read(folder: Path, **how: Any) -> dict[str, Entry]:
    page, _ = _page(folder, **how)
    return {str(one.origin.id): one for one in page.items if isinstance(one, Entry) and one.origin}


def _loss_counts(report: Report) -> dict[str, int]:
    return {one.name: one.count for one in report.losses.values()}


# -- reading -------------------------------------------------------------------------------


def test_each_file_is_read_with_its_front_matter(folder: Path) -> None:
    """As identity, semantic or procedural memory. The folder is recognized by its files."""
    found = _read(folder)

    assert connector_for(str(folder), None) == LETTA_MEMFS
    assert connector_for(f"memfs://{folder}", None) == LETTA_MEMFS
    assert {name: (type(one), one.text) for name, one in found.items()} == {
        "system/persona.md": (Identity, "I am Rosa's helper."),
        "notes/tea.md": (Semantic, "Green tea."),
        "skills/brew/SKILL.md": (Procedural, "# Brew\n\nThree minutes."),
    }
    kept = found["notes/tea.md"].origin
    assert kept is not None
    assert {"description": "What Rosa drinks", "limit": 5000}.items() <= kept.as_written.items()


def test_a_folder_round_trips_byte_for_byte(folder: Path, tmp_path: Path) -> None:
    """Through a bank into another folder; a second export writes nothing."""
    assert bring(folder).unaccepted == 0
    there = tmp_path / "copy"
    with Satchel.open() as here:
        done = here.bank("b").export(f"memfs://{there}")
        again = here.bank("b").export(f"memfs://{there}")
    assert (done.lost, done.written, again.written, again.known) == (0, 3, 0, 3)
    for path in folder.rglob("*.md"):
        assert (there / path.relative_to(folder)).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("packed", [False, True])
def test_older_versions_of_a_file_are_read_from_git(repository: Path, *, packed: bool) -> None:
    """With the times of the commits; the same from loose objects and from a pack."""
    if packed:
        _run_git(repository, "gc", "-q", "--aggressive", "--prune=now")
        assert not list((repository / ".git" / "objects").glob("??"))
    page, report = _page(repository)
    past = [(one.item.text, one.state, one.at) for one in page.past if isinstance(one.item, Entry)]

    assert report.total == 0
    assert past == [
        ("Black tea.", "superseded", "2026-03-01T09:01:00.000000Z"),
        ("Any tea.", "superseded", "2026-03-01T09:02:00.000000Z"),
    ]
    tea = _read(repository)["notes/tea.md"]
    assert (tea.created_at, tea.updated_at) == (
        "2026-03-01T09:00:00.000000Z",
        "2026-03-01T09:02:00.000000Z",
    )


def test_versions_become_the_history_of_a_memory(repository: Path) -> None:
    """Deleted files are imported as deleted on request."""
    bring(repository, include_deleted=True)
    with Satchel.open() as here:
        bank = here.bank("b")
        (tea,) = [one for one in bank.list().memories if "Green" in str(one.text)]
        versions = bank.history(tea.id).versions
    said = ("Black tea.", "Any tea.", "Green tea.")
    assert len(versions) == len(said)
    assert all(words in repr(one) for words, one in zip(said, versions, strict=True))
    assert "Gone soon." not in texts()
    assert "Gone soon." in texts(retired=True)


def test_an_uncommitted_text_is_the_current_version(repository: Path) -> None:
    """The committed one is an older version."""
    _write_files(repository, notes__tea="No tea.\n")
    page, _ = _page(repository)

    assert _read(repository)["notes/tea.md"].text == "No tea."
    assert [one.item.text for one in page.past if isinstance(one.item, Entry)][-1] == "Green tea."


def test_versions_are_read_from_delta_chains(tmp_path: Path) -> None:
    """As in a pack that Git wrote."""
    folder, chance = _write_files(tmp_path / "m", system__persona=_PERSONA), random.Random(3)  # noqa: S311
    _run_git(folder, "init", "-q", "-b", "main")
    lines, said = [f"fact {chance.random()}" for _ in range(400)], list[str]()
    for number in range(8):
        lines[chance.randrange(400)] = f"new {number}"
        said.append("\n".join(lines))
        _write_files(folder, long=said[-1] + "\n")
        _commit(folder, _WHEN + number)
    _run_git(folder, "gc", "-q", "--aggressive", "--prune=now")
    page, report = _page(folder)

    assert report.total == 0
    past = [one.item.text for one in page.past if isinstance(one.item, Entry)]
    assert [*past, _read(folder)["long.md"].text] == said


# -- attacks --------------------------------------------------------------------------


def test_attack_hooks_and_settings_of_a_repository_are_not_used(
    repository: Path, tmp_path: Path
) -> None:
    """Hooks, file monitors, filters and pagers are not run."""
    mark = tmp_path / "mark"
    program = f"#!/bin/sh\ntouch '{mark}'\n"
    for name in ("pre-commit", "post-checkout", "post-index-change", "reference-transaction"):
        hook = repository / ".git" / "hooks" / name
        hook.write_text(program)
        hook.chmod(0o755)
    command = f"touch '{mark}'"
    with (repository / ".git" / "config").open("a") as config:
        config.write(
            f'[core]\n\tfsmonitor = "{command}"\n\tpager = "{command}"\n'
            f'\tsshCommand = "{command}"\n'
            f'[filter "x"]\n\tsmudge = "{command}"\n\tclean = "{command}"\n'
        )
    (repository / ".gitattributes").write_text("*.md filter=x diff=x\n")
    bring(repository)
    with Satchel.open() as here:
        here.bank("b").export(repository, to=LETTA_MEMFS)
    assert not mark.exists()


def test_attack_a_repository_outside_the_folder_is_not_read(
    repository: Path, tmp_path: Path
) -> None:
    """A file or link instead of ``.git``, alternates, a branch with a path: no history is read."""
    other = tmp_path / "other"
    _write_files(other, system__persona=_PERSONA)
    git = other / ".git"
    git.write_text(f"gitdir: {repository}/.git\n")
    page, report = _page(other)
    assert (list(page.past), _loss_counts(report)) == ([], {"history": 1})
    git.unlink()
    git.symlink_to(repository / ".git")
    assert _loss_counts(_page(other)[1]) == {"history": 1}
    git.unlink()
    _run_git(other, "init", "-q", "-b", "main")
    head = _run_git(repository, "rev-parse", "HEAD")
    (git / "refs" / "heads" / "main").write_text(head)
    (git / "objects" / "info").mkdir(exist_ok=True)
    (git / "objects" / "info" / "alternates").write_text(f"{repository}/.git/objects\n")
    assert _loss_counts(_page(other)[1]) == {"history": 1}
    (git / "HEAD").write_text("ref: refs/heads/../../../memory/.git/HEAD\n")
    page, report = _page(other)
    assert (list(page.past), _loss_counts(report)) == ([], {"history": 1})
    assert [one.text for one in page.items if isinstance(one, Entry)] == ["I am Rosa's helper."]


def test_attack_a_changed_object_is_detected(repository: Path) -> None:
    """Its name is the hash of its bytes. The current files are read."""
    blob = _run_git(repository, "rev-parse", "HEAD~1:notes/tea.md")
    path = repository / ".git" / "objects" / blob[:2] / blob[2:]
    path.chmod(0o644)
    path.write_bytes(zlib.compress(b"blob 10\0Other tea."))
    page, report = _page(repository)

    assert _loss_counts(report) == {"history": 1}
    assert [one.item.text for one in page.past if isinstance(one.item, Entry)] == ["Black tea."]
    assert len(page.items) == 3


@pytest.mark.parametrize("ending", [".pack", ".idx"])
def test_attack_a_damaged_pack_skips_the_history_only(repository: Path, ending: str) -> None:
    """Truncated anywhere, or with any changed bit."""
    _run_git(repository, "gc", "-q", "--aggressive", "--prune=now")
    (path,) = (repository / ".git" / "objects" / "pack").glob(f"*{ending}")
    path.chmod(0o644)
    whole, chance = path.read_bytes(), random.Random(7)  # noqa: S311 - nothing here is secret
    for _ in range(60):
        data = bytearray(whole[: chance.randrange(len(whole))])
        if chance.random() < 0.7:
            data = bytearray(whole)
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        assert len(_page(repository)[0].items) == 3


def test_attack_a_decompression_bomb_in_git_is_bounded(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one object or in many, the history is skipped."""
    monkeypatch.setattr(_git, "_MOST_BYTES", 600)
    assert _loss_counts(_page(repository)[1]) == {"history": 1}
    monkeypatch.undo()
    head = _run_git(repository, "rev-parse", "HEAD")
    path = repository / ".git" / "objects" / head[:2] / head[2:]
    path.chmod(0o644)
    path.write_bytes(zlib.compress(bytes(64 << 20)))
    assert _loss_counts(_page(repository)[1]) == {"history": 1}


def test_attack_a_symbolic_link_among_the_files_is_not_followed(
    folder: Path, tmp_path: Path
) -> None:
    """It is counted like other files; in place of the folder it is refused."""
    (tmp_path / "secret.md").write_text("A secret.")
    (folder / "system" / "more.md").symlink_to(tmp_path / "secret.md")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    _, report = _page(folder)
    assert _loss_counts(report) == {"file": 2}
    assert len(_read(folder)) == 3
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(PathRefusedError):
        _page(tmp_path / "link")


def test_a_file_that_is_not_text_is_refused_or_skipped(folder: Path) -> None:
    """By its path."""
    (folder / "bad.md").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError) as caught:
        _page(folder)
    assert caught.value.field == "bad.md"
    page, report = _page(folder, skip_bad=True)
    assert (len(page.items), report.left_out) == (3, 1)


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    """An ordinary folder is not recognized."""
    with pytest.raises(UnreadableError):
        _page(tmp_path / "none")
    _write_files(tmp_path / "a", system__notes="No front matter.\n")
    assert connector_for(str(tmp_path / "a"), None) is None


# -- writing -------------------------------------------------------------------------------


def _write(folder: Path, *entries: Entry, **how: Any) -> tuple[list[Any], Report]:
    report = Report()
    with closing(
        LettaMemfs(MemfsAddress(folder), ConnectorOptions(writes=True, **how))
    ) as connector:
        return list(connector.take([seal(entry) for entry in entries], report)), report


def test_blocks_of_an_agent_file_become_files_and_are_restored(tmp_path: Path) -> None:
    """Below ``system``, with description, limit and the read-only flag."""
    sample = Path(__file__).parents[1] / "data" / "formats" / "letta" / "good-whole.af"
    blocks = _blocks(sample)
    bring(sample)
    with Satchel.open() as here:
        here.bank("b").export(f"memfs://{tmp_path / 'm'}")
    found = _read(tmp_path / "m")
    assert {one.text for one in found.values()} == {one["value"] for one in blocks}
    labels = Counter(one["label"] for one in blocks)
    alone = {one["label"]: one for one in blocks if labels[one["label"]] == 1}
    assert alone
    for label, block in alone.items():
        assert found[f"system/{label}.md"].text == block["value"]
    bring(tmp_path / "m", "c")
    with Satchel.open() as here:
        here.bank("c").export(tmp_path / "again.af")
    again = _blocks(tmp_path / "again.af")
    assert len({one["label"] for one in again}) == len(blocks)
    for block in again:
        assert block["limit"] >= len(block["value"])
        if block["label"] in alone:
            same = alone[block["label"]]
            members = ("value", "read_only", "label")
            assert [block[name] for name in members] == [same[name] for name in members]


def _blocks(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(path.read_bytes())["blocks"])


def test_front_matter_has_only_the_members_that_letta_accepts(tmp_path: Path) -> None:
    """A description is always written; tags and metadata are counted as lost."""
    entry = Semantic(text="Drinks: tea\nand more", tags=("a",), metadata={"b": 1})
    (taken, _), report = _write(tmp_path / "m", entry, Procedural(text="Brew it."))
    said = (tmp_path / "m" / taken.there).read_text()

    assert said == '---\ndescription: "Drinks: tea"\n---\n\nDrinks: tea\nand more\n'
    (skill,) = (tmp_path / "m" / "skills").rglob("SKILL.md")
    assert skill.read_text().startswith(f"---\nname: {skill.parent.name}\ndescription: Brew it.\n")
    assert _loss_counts(report) == {"tags": 1, "metadata": 1}


def test_members_that_a_file_cannot_hold_are_counted(tmp_path: Path) -> None:
    """By name."""
    entry = Semantic(text="Tea.", tags=("a",), metadata={"b": 1}, scope=Scope(user="rosa"))
    _, report = _write(tmp_path / "m", entry)
    assert _loss_counts(report) == {"tags": 1, "metadata": 1, "scope": 1}


def test_a_different_text_is_replaced_only_with_overwrite(folder: Path) -> None:
    """A path outside the folder or to a hidden file is replaced by a safe name."""
    tea = _read(folder)["notes/tea.md"]
    (folder / "notes" / "tea.md").write_text("Mine.\n")
    ((left,), _), before = _write(folder, tea), (folder / "notes" / "tea.md").read_text()
    assert (left.problem is not None, before) == (True, "Mine.\n")
    _write(folder, tea, overwrite=True)
    assert (folder / "notes" / "tea.md").read_text() == _TEA
    for name in ("../out.md", ".git/hooks/a.md", "/etc/a.md", "a\\b.md", "notes/.hidden.md"):
        origin = Origin(provider="letta_memfs", id=name)
        ((taken,), _) = _write(folder, Semantic(text=f"At {name}", origin=origin))
        assert taken.there is not None
        assert taken.there.startswith("at-")
        assert (folder / taken.there).is_file()


def test_attack_a_symbolic_link_in_the_folder_is_not_written_through(
    folder: Path, tmp_path: Path
) -> None:
    """Neither a file nor a folder."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (folder / "linked").symlink_to(outside)
    origin = Origin(provider="letta_memfs", id="linked/a.md")
    ((refused,), _) = _write(folder, Semantic(text="x", origin=origin))
    assert refused.problem is not None
    assert list(outside.iterdir()) == []


def test_a_dry_run_creates_no_folder(tmp_path: Path) -> None:
    """The result is the expected one."""
    ((taken,), _) = _write(tmp_path / "m", Semantic(text="x"), dry_run=True)
    assert taken.there is not None
    assert not (tmp_path / "m").exists()


def test_a_folder_without_git_has_no_history_and_no_loss(folder: Path) -> None:
    """It needs no library."""
    page, report = _page(folder)
    assert (list(page.past), report.total) == ([], 0)
    bring(folder)
    with opened() as there, there.ledger.reading() as view:
        assert view.head.counts["semantic"] == 1
