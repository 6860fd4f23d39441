"""``satchel watch``: what hosts delete is captured before."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import random
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from import_kit import KilledError, killing, owner
from secrets_kit import Maker

from satchel import aio
from satchel.api.store import Satchel
from satchel.config.settings import load_settings
from satchel.errors import ContainmentError, ReadOnlyStoreError, UnreadableError, UsageError
from satchel.setup import watch
from satchel.setup.watch import (
    WatchOptions,
    WatchResult,
    check_watching,
    keep_watching,
    schedule_of,
)
from satchel.transfer import import_stage
from satchel.transfer.imports import import_file

if TYPE_CHECKING:
    from tests.cli.conftest import Run

_SAMPLES = Path(__file__).parent.parent / "data" / "formats"
_TALK = (_SAMPLES / "claude_code" / "good-talk.jsonl").read_bytes().splitlines(keepends=True)
_ROLLOUT = (_SAMPLES / "codex" / "good-rollout.jsonl").read_bytes()
_LONG_AGO = 1_700_000_000


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a transcript of Claude Code and a rollout of Codex, both settled."""
    home = tmp_path / "home"
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    _put(_transcript(home), b"".join(_TALK[:5]))
    _put(home / ".codex" / "sessions" / "2026" / "03" / "01" / "rollout-1.jsonl", _ROLLOUT)
    return home


def _transcript(home: Path) -> Path:
    return home / ".claude" / "projects" / "-shop" / "s-1.jsonl"


def _put(path: Path, data: bytes, *, at: int = _LONG_AGO) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (at, at))


def _messages(satchel: Run) -> list[int]:
    listed = satchel("session", "list", "--bank", "transcripts", "--json").json["sessions"]
    return sorted(one["messages"] for one in listed)


def test_only_what_is_new_is_added_and_what_vanishes_stays(satchel: Run, hosts: Path) -> None:
    """Of a transcript that has grown, its new messages; of one that did not change, nothing."""
    first = satchel("watch", "--once", "--json")
    assert first.status == 0
    assert sorted(one["format"] for one in first.json["captured"]) == ["claude_code", "codex"]
    assert _messages(satchel) == [4, 8, 9]

    again = satchel("watch", "--once", "--json").json
    assert (again["unchanged"], again.get("captured", [])) == (2, [])

    _put(_transcript(hosts), b"".join(_TALK), at=_LONG_AGO + 60)
    grown = satchel("watch", "--once", "--json").json["captured"]
    assert [(one["format"], one["added"]) for one in grown] == [("claude_code", 4)]
    assert _messages(satchel) == [2, 6, 8, 9]

    _transcript(hosts).unlink()
    ran = satchel("watch", "--once")
    assert "1 deleted by the host, still stored here" in ran.out
    assert _messages(satchel) == [2, 6, 8, 9]


def test_a_secret_in_a_transcript_does_not_get_into_the_bank(
    satchel: Run, hosts: Path, tmp_path: Path
) -> None:
    """Also in what a tool gave back; that it was replaced is told."""
    text, secret = Maker().make("github-token")
    line = json.loads(_TALK[3])
    line["message"]["content"][0]["content"] = text
    line["toolUseResult"] = {"stdout": text}
    _put(_transcript(hosts), b"".join([*_TALK[:3], json.dumps(line).encode() + b"\n"]))
    ran = satchel("watch", "claude-code", "--once", "--json").json

    assert sum(ran["secrets"].values()) == 2
    out = tmp_path / "out.pam.jsonl"
    assert satchel("export", "--bank", "transcripts", "--output", out).status == 0
    assert secret not in out.read_text()


def test_the_line_that_is_being_written_is_left_for_the_next_time(
    satchel: Run, hosts: Path
) -> None:
    """Half a line is no bad line: it is whole later."""
    path, now = _transcript(hosts), int(datetime.now(UTC).timestamp())
    _put(path, b"".join(_TALK[:3]) + _TALK[3][:20], at=now)
    ran = satchel("watch", "claude-code", "--once", "--json").json
    assert [loss["name"] for loss in ran.get("losses", [])] == []
    assert _messages(satchel) == [2]

    _put(path, b"".join(_TALK[:4]), at=now + 1)
    assert satchel("watch", "claude-code", "--once").status == 0
    assert _messages(satchel) == [3]


def test_a_capture_that_was_killed_leaves_no_doubles_also_when_its_file_has_grown(
    satchel: Run, hosts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nobody saw is taken back, and the file is taken as it is now."""
    whole = import_file

    def dying(settings: Any, source: Any, bank: Any, key: Any, options: Any) -> Any:
        asked = dataclasses.replace(options, on_logging=killing(0))
        return whole(settings, source, bank, key, asked)

    with monkeypatch.context() as patch, suppress(KilledError):
        patch.setattr(watch, "import_file", dying)
        patch.setattr(import_stage, "COMMIT_BYTES", 1)  # a small import leaves nothing
        satchel("watch", "claude-code", "--once")
    assert len(satchel("job", "list", "--json").json["jobs"]) == 1
    _put(_transcript(hosts), b"".join(_TALK), at=_LONG_AGO + 60)
    assert satchel("watch", "claude-code", "--once").status == 0

    assert satchel("job", "list", "--json").json["jobs"] == []
    assert _messages(satchel) == [2, 6]


def test_unreadable_files_are_reported_and_stop_nothing_else(satchel: Run, hosts: Path) -> None:
    """It is tried again the next time, and doctor knows of it."""
    broken = _transcript(hosts).with_name("broken.jsonl")
    _put(broken, b"x" * (17 * 2**20), at=_LONG_AGO - 60)
    for _ in range(2):
        ran = satchel("watch", "--once", "--json")
        assert ran.status == 4
        assert [one["file"] for one in ran.json["missed"]] == [str(broken)]
    assert _messages(satchel) == [4, 8, 9]
    (check,) = check_watching(load_settings())
    assert (check.state, "1 could not be captured" in check.detail) == ("note", True)

    broken.unlink()
    assert satchel("watch", "--once").status == 0


def test_malformed_lines_are_skipped_and_counted(satchel: Run, hosts: Path) -> None:
    """One of them never loses a transcript."""
    _put(_transcript(hosts), b"".join([*_TALK[:3], b"{]\n", *_TALK[3:5]]))
    ran = satchel("watch", "claude-code", "--once")

    assert ran.status == 0
    assert "skipped: record, 1: malformed" in ran.err
    assert _messages(satchel) == [4]


@pytest.mark.usefixtures("hosts")
def test_another_bank_of_that_name_gets_all_of_it(satchel: Run) -> None:
    """How far it is counts for the bank that it was captured into, and for no other."""
    assert satchel("watch", "--once").status == 0
    assert satchel("bank", "delete", "transcripts", "--yes").status == 0
    assert satchel("watch", "--once", "--json").json.get("unchanged", 0) == 0
    assert _messages(satchel) == [4, 8, 9]


def test_any_folder_can_be_watched(satchel: Run, hosts: Path, tmp_path: Path) -> None:
    """Its files are recognized by their contents; what is none of ours is named, not refused."""
    folder = tmp_path / "exports"
    _put(folder / "a" / "talk.json", (_SAMPLES / "gemini" / "good-activity.json").read_bytes())
    _put(folder / "other.json", b'{"scripts": {}}')
    _put(folder / ".git" / "x.json", b"{}")
    (folder / "link.json").symlink_to(_transcript(hosts))
    ran = satchel("watch", "--folder", folder, "--bank", "b", "--once", "--json")

    assert ran.status == 0
    assert [one["format"] for one in ran.json["captured"]] == ["gemini"]
    assert ran.json["unknown"] == [str(folder / "other.json")]


@pytest.mark.usefixtures("hosts")
def test_a_program_watches_with_one_call(satchel: Run, tmp_path: Path) -> None:
    """The same as the command, into the same bank; what it brought is said as values."""
    with Satchel.open() as here:
        first = here.watch("claude-code")
        again = here.watch("claude-code")
    awaited = asyncio.run(_awaited(tmp_path))

    assert [one.added for one in first.captured] == [5]
    assert (first.bank, again.captured, again.unchanged) == ("transcripts", [], 1)
    assert [one.added for one in awaited.captured] == [5]
    assert _messages(satchel) == [4]
    assert satchel("watch", "claude-code", "--once", "--json").json["unchanged"] == 1


async def _awaited(tmp_path: Path) -> WatchResult:
    exports = tmp_path / "exports"
    _put(exports / "talk.jsonl", b"".join(_TALK[:5]))
    async with await aio.Satchel.open() as here:
        return await here.watch(folders=[exports], bank="other")


@pytest.mark.usefixtures("hosts")
def test_hosts_are_not_watched_where_roots_are_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the program or by the operator: nothing is looked at."""
    with Satchel.open() as here, pytest.raises(UsageError, match="unknown host"):
        here.watch("emacs")
    with Satchel.open(roots=tmp_path) as here:
        for folders in ([], [tmp_path]):
            with pytest.raises(ContainmentError):
                here.watch(folders=folders)
    monkeypatch.setenv("SATCHEL_PORTABILITY_ROOTS", str(tmp_path))
    with Satchel.open() as here, pytest.raises(ContainmentError):
        here.watch(folders=[tmp_path])


@pytest.mark.usefixtures("hosts")
def test_a_store_opened_for_reading_watches_nothing(satchel: Run) -> None:
    """A dry run may."""
    satchel("watch", "--once")
    with Satchel.open(read_only=True) as here:
        with pytest.raises(ReadOnlyStoreError):
            here.watch()
        assert here.watch(dry_run=True).unchanged == 2


def test_a_dry_run_takes_nothing(satchel: Run, hosts: Path) -> None:
    """It says what would be looked at."""
    ran = satchel("watch", "--dry-run")
    assert "would read 2 files" in ran.out
    assert str(_transcript(hosts)) in ran.out
    assert satchel("bank", "list", "--json").json["banks"] == []


@pytest.mark.usefixtures("hosts")
def test_nothing_to_watch_is_an_error(satchel: Run, tmp_path: Path) -> None:
    """So that a timer that captures nothing is noticed."""
    (tmp_path / "empty").mkdir()
    assert satchel("watch", "--folder", tmp_path / "empty", "--once", "--json").status == 4
    assert satchel("watch", "--folder", tmp_path / "none", "--once", "--json").status == 4
    ran = satchel("watch", "cursor", "--once", "--json")
    assert (ran.status, "--folder" in ran.error["hint"]) == (2, True)


@pytest.mark.usefixtures("hosts")
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("systemd", "OnCalendar=*-*-* *:17:00"),
        ("cron", "17 * * * * "),
        ("launchd", "<string>satchel.watch</string>"),
    ],
)
def test_a_timer_is_printed(satchel: Run, kind: str, said: str) -> None:
    """With the options that were given, and --once."""
    ran = satchel("watch", "codex", "--bank", "b", "--print", kind)
    assert ran.status == 0
    assert said in ran.out
    words = ran.out.replace("</string>\n\t\t<string>", " ")
    assert "watch codex --once --bank b" in words


@pytest.mark.parametrize(
    ("seconds", "schedule"),
    [
        (60, "* * * * *"),
        (900, "*/15 * * * *"),
        (3600, "17 * * * *"),
        (21_600, "17 */6 * * *"),
        (86_400, "17 3 * * *"),
        (420, None),
        (90, None),
        (25_200, None),
        (172_800, None),
    ],
)
def test_an_interval_is_converted_exactly_for_a_timer_or_refused(
    seconds: int, schedule: str | None
) -> None:
    """Seven minutes are no part of an hour: cron would start anew each hour."""
    if schedule is None:
        with pytest.raises(UsageError):
            schedule_of(timedelta(seconds=seconds))
    else:
        assert schedule_of(timedelta(seconds=seconds)) == schedule


class _Told:
    """A clock that stands still until it is waited for."""

    def __init__(self) -> None:
        self.at = datetime(2026, 3, 1, tzinfo=UTC)
        self.waited = list[datetime]()

    def now(self) -> datetime:
        return self.at

    def wait(self, until: datetime) -> None:
        self.waited.append(until)
        self.at = until


def test_it_looks_again_and_again(hosts: Path) -> None:
    """At once, and then each time that it is due; a look that fails does not end it."""
    clock, seen, hour = _Told(), list[WatchResult](), timedelta(hours=1)

    def told(found: WatchResult) -> None:
        seen.append(found)
        if len(seen) == 1:
            for path in (*hosts.glob(".c*/*/*/*.jsonl"), *hosts.glob(".codex/*/*/*/*/*.jsonl")):
                path.unlink()

    status = keep_watching(
        load_settings(), WatchOptions(), owner, hour, clock=clock, runs=2, on_capture=told
    )
    assert [len(found.captured) for found in seen] == [2, 0]
    assert clock.waited == [datetime(2026, 3, 1, 1, tzinfo=UTC)]
    assert (status, seen[1].missed[0].code) == (4, UnreadableError.code)


@pytest.mark.usefixtures("hosts")
def test_doctor_says_when_nobody_looked_for_long(satchel: Run) -> None:
    """Before the host deletes what is a month old."""
    assert satchel("watch", "--once").status == 0
    assert "watch into transcripts" in satchel("doctor").out
    later = datetime.now(UTC) + timedelta(days=8)
    (check,) = check_watching(load_settings(), later)
    assert (check.state, "satchel watch --once" in (check.hint or "")) == ("problem", True)


def test_a_run_completes_a_store_whose_creation_was_killed(satchel: Run, hosts: Path) -> None:
    """Its first run was killed before anything was acknowledged; what is left is a journal."""
    _put(_transcript(hosts), b"".join(_TALK[1:3]), at=_LONG_AGO)
    path = load_settings().home / "satchel.db"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(0o600)
    path.with_name("satchel.db-journal").write_bytes(b"\xd9\xd5\x05\xf9 \xa1c\xd7")

    assert satchel("list").status == 5
    assert "satchel init" in satchel("list").err
    assert satchel("watch", "claude-code", "--once").status == 0
    assert _messages(satchel) == [2]


@pytest.mark.prove
def test_killed_at_any_moment_and_run_again_there_are_no_doubles(
    satchel: Run, hosts: Path, process: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """``kill -9`` twelve times, while transcripts grow; then each message is there once."""
    lines, chance = [json.loads(line) for line in _TALK[1:3]], random.Random(7)  # noqa: S311
    path, total = _transcript(hosts), 0
    data = bytearray()
    for step in range(12):
        for _ in range(40):
            total += 1
            row = {**lines[total % 2], "uuid": f"u{total}", "parentUuid": f"u{total - 1}"}
            row["parentUuid"] = None if total == 1 else row["parentUuid"]
            data += json.dumps(row).encode() + b"\n"
        _put(path, bytes(data), at=_LONG_AGO + step)
        running = process("watch", "claude-code", "--once")
        with suppress(subprocess.TimeoutExpired):
            running.wait(chance.uniform(0.3, 3.0))
        running.send_signal(signal.SIGKILL)
        running.communicate()
    assert satchel("watch", "claude-code", "--once").status == 0
    assert _messages(satchel) == [total]
    assert satchel("job", "list", "--json").json["jobs"] == []
    assert satchel("doctor", "--deep").status == 0
