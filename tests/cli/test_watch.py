"""``satchel watch``: transcripts of hosts are captured before the hosts delete them."""

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
def host_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a complete transcript of Claude Code, and one of Codex."""
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


def test_watch_adds_new_messages_and_keeps_deleted_transcripts(
    satchel: Run, host_home: Path
) -> None:
    """An extended transcript adds its new messages, an unchanged one nothing."""
    first = satchel("watch", "--once", "--json")
    assert first.status == 0
    assert sorted(one["format"] for one in first.json["captured"]) == ["claude_code", "codex"]
    assert _messages(satchel) == [4, 8, 9]

    again = satchel("watch", "--once", "--json").json
    assert (again["unchanged"], again.get("captured", [])) == (2, [])

    _put(_transcript(host_home), b"".join(_TALK), at=_LONG_AGO + 60)
    grown = satchel("watch", "--once", "--json").json["captured"]
    assert [(one["format"], one["added"]) for one in grown] == [("claude_code", 4)]
    assert _messages(satchel) == [2, 6, 8, 9]

    _transcript(host_home).unlink()
    ran = satchel("watch", "--once")
    assert "1 deleted by the host, still stored here" in ran.out
    assert _messages(satchel) == [2, 6, 8, 9]


def test_watch_scrubs_secrets(satchel: Run, host_home: Path, tmp_path: Path) -> None:
    """Also in tool results; replacements are counted."""
    text, secret = Maker().make("github-token")
    line = json.loads(_TALK[3])
    line["message"]["content"][0]["content"] = text
    line["toolUseResult"] = {"stdout": text}
    _put(_transcript(host_home), b"".join([*_TALK[:3], json.dumps(line).encode() + b"\n"]))
    ran = satchel("watch", "claude-code", "--once", "--json").json

    assert sum(ran["secrets"].values()) == 2
    out = tmp_path / "out.pam.jsonl"
    assert satchel("export", "--bank", "transcripts", "--output", out).status == 0
    assert secret not in out.read_text()


def test_an_incomplete_last_line_is_read_by_the_next_run(satchel: Run, host_home: Path) -> None:
    """It is not counted as malformed."""
    path, now = _transcript(host_home), int(datetime.now(UTC).timestamp())
    _put(path, b"".join(_TALK[:3]) + _TALK[3][:20], at=now)
    ran = satchel("watch", "claude-code", "--once", "--json").json
    assert [loss["name"] for loss in ran.get("losses", [])] == []
    assert _messages(satchel) == [2]

    _put(path, b"".join(_TALK[:4]), at=now + 1)
    assert satchel("watch", "claude-code", "--once").status == 0
    assert _messages(satchel) == [3]


def test_an_interrupted_capture_leaves_no_duplicates(
    satchel: Run, host_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its records are removed, and the extended file is captured."""
    whole = import_file

    def dying(settings: Any, source: Any, bank: Any, key: Any, options: Any) -> Any:
        asked = dataclasses.replace(options, on_logging=killing(0))
        return whole(settings, source, bank, key, asked)

    with monkeypatch.context() as patch, suppress(KilledError):
        patch.setattr(watch, "import_file", dying)
        patch.setattr(import_stage, "COMMIT_BYTES", 1)  # a small import leaves nothing
        satchel("watch", "claude-code", "--once")
    assert len(satchel("job", "list", "--json").json["jobs"]) == 1
    _put(_transcript(host_home), b"".join(_TALK), at=_LONG_AGO + 60)
    assert satchel("watch", "claude-code", "--once").status == 0

    assert satchel("job", "list", "--json").json["jobs"] == []
    assert _messages(satchel) == [2, 6]


def test_an_unreadable_transcript_does_not_stop_the_others(satchel: Run, host_home: Path) -> None:
    """It is retried by the next run, and reported by ``doctor``."""
    broken = _transcript(host_home).with_name("broken.jsonl")
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


def test_malformed_lines_are_skipped_and_counted(satchel: Run, host_home: Path) -> None:
    """The rest of the transcript is captured."""
    _put(_transcript(host_home), b"".join([*_TALK[:3], b"{]\n", *_TALK[3:5]]))
    ran = satchel("watch", "claude-code", "--once")

    assert ran.status == 0
    assert "skipped: record, 1: malformed" in ran.err
    assert _messages(satchel) == [4]


@pytest.mark.usefixtures("host_home")
def test_a_new_bank_of_the_same_name_gets_all_transcripts(satchel: Run) -> None:
    """Progress is recorded for the bank's ID."""
    assert satchel("watch", "--once").status == 0
    assert satchel("bank", "delete", "transcripts", "--yes").status == 0
    assert satchel("watch", "--once", "--json").json.get("unchanged", 0) == 0
    assert _messages(satchel) == [4, 8, 9]


def test_any_folder_can_be_watched(satchel: Run, host_home: Path, tmp_path: Path) -> None:
    """Formats are recognized by content; other files are reported."""
    folder = tmp_path / "exports"
    _put(folder / "a" / "talk.json", (_SAMPLES / "gemini" / "good-activity.json").read_bytes())
    _put(folder / "other.json", b'{"scripts": {}}')
    _put(folder / ".git" / "x.json", b"{}")
    (folder / "link.json").symlink_to(_transcript(host_home))
    ran = satchel("watch", "--folder", folder, "--bank", "b", "--once", "--json")

    assert ran.status == 0
    assert [one["format"] for one in ran.json["captured"]] == ["gemini"]
    assert ran.json["unknown"] == [str(folder / "other.json")]


@pytest.mark.usefixtures("host_home")
def test_python_watches_with_one_call(satchel: Run, tmp_path: Path) -> None:
    """Like the command, into the same bank."""
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


@pytest.mark.usefixtures("host_home")
def test_watch_is_refused_where_roots_are_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the program or by the operator; nothing is read."""
    with Satchel.open() as here, pytest.raises(UsageError, match="unknown host"):
        here.watch("emacs")
    with Satchel.open(roots=tmp_path) as here:
        for folders in ([], [tmp_path]):
            with pytest.raises(ContainmentError):
                here.watch(folders=folders)
    monkeypatch.setenv("SATCHEL_PORTABILITY_ROOTS", str(tmp_path))
    with Satchel.open() as here, pytest.raises(ContainmentError):
        here.watch(folders=[tmp_path])


@pytest.mark.usefixtures("host_home")
def test_watch_is_refused_in_a_read_only_store(satchel: Run) -> None:
    """A dry run is accepted."""
    satchel("watch", "--once")
    with Satchel.open(read_only=True) as here:
        with pytest.raises(ReadOnlyStoreError):
            here.watch()
        assert here.watch(dry_run=True).unchanged == 2


def test_a_dry_run_of_watch_captures_nothing(satchel: Run, host_home: Path) -> None:
    """It prints the files it would read."""
    ran = satchel("watch", "--dry-run")
    assert "would read 2 files" in ran.out
    assert str(_transcript(host_home)) in ran.out
    assert satchel("bank", "list", "--json").json["banks"] == []


@pytest.mark.usefixtures("host_home")
def test_watch_without_files_is_an_error(satchel: Run, tmp_path: Path) -> None:
    """So that a timer without effect is noticed."""
    (tmp_path / "empty").mkdir()
    assert satchel("watch", "--folder", tmp_path / "empty", "--once", "--json").status == 4
    assert satchel("watch", "--folder", tmp_path / "none", "--once", "--json").status == 4
    ran = satchel("watch", "cursor", "--once", "--json")
    assert (ran.status, "--folder" in ran.error["hint"]) == (2, True)


@pytest.mark.usefixtures("host_home")
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("systemd", "OnCalendar=*-*-* *:17:00"),
        ("cron", "17 * * * * "),
        ("launchd", "<string>satchel.watch</string>"),
    ],
)
def test_watch_prints_a_timer(satchel: Run, kind: str, said: str) -> None:
    """With the given options, and ``--once``."""
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
def test_an_interval_is_converted_to_cron_exactly_or_refused(
    seconds: int, schedule: str | None
) -> None:
    """Seven minutes do not divide an hour, and cron restarts each hour."""
    if schedule is None:
        with pytest.raises(UsageError):
            schedule_of(timedelta(seconds=seconds))
    else:
        assert schedule_of(timedelta(seconds=seconds)) == schedule


class _ManualClock:
    """A clock that advances only when it is waited for."""

    def __init__(self) -> None:
        self.at = datetime(2026, 3, 1, tzinfo=UTC)
        self.waited = list[datetime]()

    def now(self) -> datetime:
        return self.at

    def wait(self, until: datetime) -> None:
        self.waited.append(until)
        self.at = until


def test_keep_watching_runs_at_each_interval(host_home: Path) -> None:
    """The first run is immediate; a failing run does not stop it."""
    clock, seen, hour = _ManualClock(), list[WatchResult](), timedelta(hours=1)

    def told(found: WatchResult) -> None:
        seen.append(found)
        if len(seen) == 1:
            for path in (
                *host_home.glob(".c*/*/*/*.jsonl"),
                *host_home.glob(".codex/*/*/*/*/*.jsonl"),
            ):
                path.unlink()

    status = keep_watching(
        load_settings(), WatchOptions(), owner, hour, clock=clock, runs=2, on_capture=told
    )
    assert [len(found.captured) for found in seen] == [2, 0]
    assert clock.waited == [datetime(2026, 3, 1, 1, tzinfo=UTC)]
    assert (status, seen[1].missed[0].code) == (4, UnreadableError.code)


@pytest.mark.usefixtures("host_home")
def test_doctor_reports_when_watch_has_not_run_for_a_week(satchel: Run) -> None:
    """Before the host deletes transcripts of a month ago."""
    assert satchel("watch", "--once").status == 0
    assert "watch into transcripts" in satchel("doctor").out
    later = datetime.now(UTC) + timedelta(days=8)
    (check,) = check_watching(load_settings(), later)
    assert (check.state, "satchel watch --once" in (check.hint or "")) == ("problem", True)


def test_watch_completes_a_store_whose_creation_was_killed(satchel: Run, host_home: Path) -> None:
    """Only a journal of the first run remains."""
    _put(_transcript(host_home), b"".join(_TALK[1:3]), at=_LONG_AGO)
    path = load_settings().home / "satchel.db"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(0o600)
    path.with_name("satchel.db-journal").write_bytes(b"\xd9\xd5\x05\xf9 \xa1c\xd7")

    assert satchel("list").status == 5
    assert "satchel init" in satchel("list").err
    assert satchel("watch", "claude-code", "--once").status == 0
    assert _messages(satchel) == [2]


@pytest.mark.prove
def test_watch_killed_at_any_moment_leaves_no_duplicates(
    satchel: Run, host_home: Path, process: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """Twelve times ``kill -9`` while transcripts grow."""
    lines, chance = [json.loads(line) for line in _TALK[1:3]], random.Random(7)  # noqa: S311
    path, total = _transcript(host_home), 0
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
