"""``satchel watch``: capture the transcripts of agent hosts before they are deleted.

Each changed transcript is copied and imported: existing memories are kept, new ones are added, and
those that the host deleted are not deleted here. Secrets are replaced.
"""

import os
import shutil
import stat
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, BinaryIO, NamedTuple, cast

import msgspec
from blake3 import blake3

from satchel.backup.schedule import Clock, Kind, SystemClock, Unit, timer_for
from satchel.bank.checks import Check, State
from satchel.bank.connections import configured_store, has_store, shown_address
from satchel.bank.machine_keys import require_owner, signer_of
from satchel.bank.open_bank import find_bank
from satchel.config.options import OWN, DryRun, SigningOptions, require_uncontained
from satchel.config.settings import Settings, Timer, invocation, secret_variables
from satchel.errors import (
    EmptyInputError,
    SatchelError,
    TargetError,
    UnknownBankError,
    UnknownFormatError,
    UnreadableError,
    UsageError,
)
from satchel.model.values import now, resolved
from satchel.ports import absent_options
from satchel.ports.operations import Absent, Option, PathText, operation, texts
from satchel.ports.record_set import Loss
from satchel.runtime.files import PRIVATE_FILE, OpenFile, atomic_write, open_input
from satchel.runtime.locks import ProcessLock
from satchel.runtime.private_files import private_folder
from satchel.setup.hosts import KEPT, Host
from satchel.transfer.import_results import ConflictPolicy, ImportOptions, ImportSummary, Owners
from satchel.transfer.imports import cancel_job, import_file, list_jobs

_ENDINGS = (".jsonl", ".json", ".zip", ".html")
_TRANSCRIPT = ".jsonl"
_WORD = 8


class WatchedFile(NamedTuple):
    """A file or folder to capture."""

    time: int
    """Time of its last change in nanoseconds; the oldest is deleted first by the host."""

    path: Path
    size: int
    form: str | None
    """Its format; None to detect it."""

    is_folder: bool = False

    @property
    def mark(self) -> tuple[int, int]:
        """Size and time, which differ after a change."""
        return self.size, self.time

    @property
    def is_memory(self) -> bool:
        """Whether its contents change, and are not only appended to."""
        return self.is_folder


def files_to_watch(hosts: Sequence[Host], folders: Sequence[Path]) -> Iterator[WatchedFile]:
    """Yield the transcripts of hosts and folders; by default of all supported hosts.

    Links are not followed.

    Raises:
        UsageError: If a host has no known transcripts.
        UnreadableError: If there is no such folder.
    """
    for host in hosts or (() if folders else tuple(KEPT)):
        yield from _host_files(host)
    for folder in folders:
        if not folder.is_dir():
            raise UnreadableError("no such folder", file=str(folder))
        yield from _files_in(folder.absolute(), _ENDINGS, None)


def _host_files(host: Host) -> Iterator[WatchedFile]:
    if host not in KEPT:
        known = ", ".join(KEPT)
        raise UsageError(
            f"the conversation folder of {host} is not known",
            field="host",
            hint=f"Add --folder FOLDER. Known: {known}.",
        )
    transcripts = KEPT[host]
    configured = os.environ.get(transcripts.variable)
    root = (Path(configured) if configured else Path.home() / transcripts.folder).absolute()
    for name in transcripts.transcripts:
        yield from _files_in(root / name, (_TRANSCRIPT,), transcripts.form)
    for folder in sorted(root.glob(transcripts.memories)):
        if folder.is_dir() and not folder.is_symlink():
            yield from _memory_folder(folder)


def _memory_folder(folder: Path) -> Iterator[WatchedFile]:
    """Yield a folder of memory files, with a stamp of its contents."""
    files = sorted(_files_in(folder, (".md",), None))
    if files:
        listing = repr([(str(file.path), file.mark) for file in files]).encode("utf-8", "replace")
        mark = int.from_bytes(blake3(listing).digest(_WORD)) >> 1
        yield WatchedFile(max(file.time for file in files), folder, mark, None, is_folder=True)


def _files_in(folder: Path, endings: tuple[str, ...], form: str | None) -> Iterator[WatchedFile]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in names:
            if not name.endswith(endings):
                continue
            path = Path(parent, name)
            try:
                status = path.lstat()
            except OSError:  # deleted during the run
                continue
            if stat.S_ISREG(status.st_mode) and status.st_size:
                yield WatchedFile(status.st_mtime_ns, path, status.st_size, form)


_MOST_BYTES = 1 << 28
_ID_DIGITS = 24
_STALE = timedelta(days=7)
"""Hosts delete transcripts after a month."""


class CaptureState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """State of the capture into one bank."""

    store: str
    name: str
    """Name of the bank."""

    bank: str | None = None
    """ID of the bank."""

    at: str | None = None
    """Time of the last run."""

    files: dict[str, tuple[int, int]] = {}
    """Size and time of the captured files, by path."""

    missed: dict[str, str] = {}
    """Errors of the last run, by path."""


def load_state(settings: Settings, name: str) -> CaptureState:
    """Return the state for a bank."""
    state = _read(_path(settings, name))
    return state or CaptureState(store=shown_address(settings.store), name=name)


def store_state(settings: Settings, state: CaptureState) -> None:
    """Store the state."""
    path = _path(settings, state.name)
    with suppress(SatchelError, OSError):  # a full disk: the next run captures everything again
        private_folder(settings.state)
        private_folder(path.parent)
        with atomic_write(path, mode=PRIVATE_FILE) as stream:
            stream.write(msgspec.json.encode(state))


def check_watching(settings: Settings, moment: datetime | None = None) -> Iterator[Check]:
    """Check for each bank with captured transcripts whether the capture is recent.

    Args:
        settings: The settings.
        moment: The time; by default the present one.
    """
    require_owner(settings, "doctor")
    for path in sorted((settings.state / "watch").glob("*.json")):
        capture = _read(path)
        if capture is None or capture.store != shown_address(settings.store) or capture.at is None:
            continue
        age = (moment or datetime.now(UTC)) - datetime.fromisoformat(capture.at)
        captured = capture.at[:16].replace("T", " ")
        detail = f"last captured {captured}, files known: {len(capture.files):,}"
        if capture.missed:
            detail += f", {len(capture.missed):,} could not be captured"
        is_old = age > _STALE
        hint = (
            "Hosts delete conversations after about a month; capture them: satchel watch --once"
            if is_old
            else None
        )
        state: State = "problem" if is_old else "note" if capture.missed else "ok"
        yield Check(name=f"watch into {capture.name}", state=state, detail=detail, hint=hint)


def _path(settings: Settings, name: str) -> Path:
    digest = blake3(f"{shown_address(settings.store)}\0{name}".encode()).hexdigest()
    return settings.state / "watch" / f"{digest[:_ID_DIGITS]}.json"


def _read(path: Path) -> CaptureState | None:
    with suppress(SatchelError, msgspec.MsgspecError), open_input(path) as stream:
        return msgspec.json.decode(stream.read(_MOST_BYTES), type=resolved(CaptureState))
    return None


BANK = "transcripts"
"""Default bank."""

UNIT = Unit(
    "satchel-watch",
    "Capture of agent conversations by Satchel",
    "Scheduled capture of agent conversations",
)

_SETTLED = 60.0
"""Seconds without a write after which the last line of a file is captured."""

_CHUNK = 1 << 20
_HOUR, _MINUTE = 3600, 60
_NIGHT = 3
_PAST = 17
"""Minute of a run that is due each hour or less often."""


def _known_hosts(values: Sequence[str]) -> tuple[str, ...]:
    unknown = sorted(set(values) - set(Host))
    if unknown:
        known = ", ".join(Host)
        raise UsageError(
            f"unknown host {unknown[0]!r}", field="hosts", hint=f"Choose from: {known}."
        )
    return tuple(values)


def _interval(text: str) -> str:
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdigit() and len(number) <= _DIGITS and unit in _SECONDS):
        raise UsageError(f"not an interval: {text!r}", field="every", hint="Such as 15m, 1h or 1d.")
    if not 0 < int(number) * _SECONDS[unit] <= _LONGEST:
        raise UsageError("an interval must be between a second and a year", field="every")
    return text


_AGAIN = Absent(why="A call captures once; the program decides when to call again.")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST = 366 * 86400
_DIGITS = 8


@dataclass(frozen=True, slots=True)
class WatchOptions(SigningOptions):
    """What to capture, and into which bank."""

    hosts: Annotated[
        str | Sequence[str],
        Option(
            f"Agent hosts: {', '.join(Host)}. Default: all that are installed.",
            argument=True,
            metavar="HOST",
            parse=_known_hosts,
            values="|".join(Host),
        ),
    ] = ()
    _: KW_ONLY
    folders: Annotated[
        PathText | Sequence[PathText],
        Option("Folder with transcripts or exports. Repeatable.", flag="--folder", values="file"),
    ] = ()
    bank: Annotated[
        str | None,
        Option(
            f"Bank to add to, created if missing. Default: the configured one, or {BANK}.",
            values="bank",
        ),
    ] = None
    once: Annotated[bool, Option("Capture once and exit, as a timer does.", python=_AGAIN)] = (
        absent_options.field(default=False, init=False)
    )
    every: Annotated[
        str,
        Option(
            "Interval: 15m, 1h, 6h, 1d. The first capture is immediate.",
            parse=_interval,
            python=_AGAIN,
        ),
    ] = absent_options.field(default="1h", init=False)
    print: Annotated[
        Kind | None,
        Option("Print a timer for it, and exit.", python=_AGAIN),
    ] = absent_options.field(default=None, init=False)
    dry_run: DryRun = False

    @property
    def interval(self) -> timedelta:
        """Time between two captures."""
        return timedelta(seconds=int(self.every[:-1]) * _SECONDS[self.every[-1]])


class CapturedFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A captured file or folder."""

    file: str
    format: str | None = None
    """None in a dry run."""

    added: int = 0
    """Number of new records."""


class FailedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that could not be captured."""

    file: str
    code: str
    message: str
    exit_status: int


class WatchResult(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Result of one capture."""

    bank: str
    at: str
    looked: int = 0
    """Number of existing files and folders."""

    captured: list[CapturedFile] = []
    unchanged: int = 0
    """Number of unchanged files."""

    empty: int = 0
    """Number of files without a message."""

    unknown: list[str] = []
    """Files of unknown formats."""

    gone: int = 0
    """Number of files that the host deleted since the last run; their memories stay."""

    missed: list[FailedFile] = []
    losses: list[Loss] = []
    """Skipped records of all captured files."""

    secrets: dict[str, int] = {}
    """Replaced secrets, by kind."""

    dry_run: bool = False
    status: int = 0
    """The exit status of the last capture, if there were several."""

    timer: Timer | None = None
    """The timer for the system, if it was requested."""

    @property
    def exit_status(self) -> int:
        """0, or the exit status of the first file that could not be captured."""
        return self.missed[0].exit_status if self.missed else self.status


OnCapture = Callable[[WatchResult], None]


@operation(
    WatchOptions,
    name="watch",
    example="satchel watch claude-code codex --once",
    absent={
        "http": "It reads the files of programs on this machine.",
        "mcp": "A person decides what is captured.",
    },
)
def watch(
    settings: Settings,
    options: WatchOptions,
    *,
    owner: Owners | None = None,
    on_capture: OnCapture | None = None,
    require_writable: Callable[[], None] | None = None,
) -> WatchResult:
    """Capture the conversations that agent hosts store, before they delete them.

    Only changed files are read and only new messages added; what a host deletes stays in the bank.
    Secrets are replaced. On the command line it runs until it is interrupted, unless `--once` or
    `--print` is given. A file that cannot be read is not an error: it is reported, and tried again.

    Args:
        settings: Where the store and the keys are.
        options: What to capture.
        owner: Returns the key that owns the bank, if it is created.
        on_capture: Called with the result of each capture; without it, it captures once.
        require_writable: Refuses what was opened for reading.

    Raises:
        ContainmentError: If roots are set.
        UnreadableError: If there is nothing to watch.
        LockedError: If another process captures.
    """
    if options.print is not None:
        words = [*texts(options.hosts), "--once"]
        for folder in texts(options.folders):
            words += ["--folder", str(Path(folder).absolute())]
        words += ["--bank", options.bank] if options.bank else []
        text = timer_to_watch(settings, options.print, ["watch", *words], options.interval)
        timer = Timer(kind=options.print, text=text, missing=secret_variables(settings))
        return WatchResult(bank=options.bank or "", at=now(), timer=timer)
    require_owner(settings, "watch")
    for source in [*texts(options.folders), *texts(options.hosts)] or ["the hosts that are here"]:
        require_uncontained(settings, source, OWN)
    if require_writable is not None and not options.dry_run:
        require_writable()
    key = partial(signer_of, settings, options, owner)
    if options.once or options.dry_run or on_capture is None:
        return watch_once(settings, options, key)
    status = keep_watching(settings, options, key, options.interval, on_capture=on_capture)
    return WatchResult(bank=options.bank or "", at=now(), status=status)


def watch_once(settings: Settings, options: WatchOptions, owner: Owners) -> WatchResult:
    """Capture transcripts that changed since the last run.

    Files that cannot be captured are reported, and tried again by the next run. After an
    interruption, nothing is stored twice.

    Args:
        settings: The store and keys.
        options: What to capture.
        owner: Returns the key of the owner, if the bank is created.

    Raises:
        UnreadableError: If there is nothing to watch.
        LockedError: If another capture is running.
    """
    require_owner(settings, "watch")
    files = sorted(
        files_to_watch(
            tuple(map(Host, texts(options.hosts))), tuple(map(Path, texts(options.folders)))
        )
    )
    if not files:
        raise UnreadableError(
            "no transcripts were found",
            hint="Give a host or a folder: satchel watch --folder FOLDER",
        )
    name = options.bank or settings.options.store.bank or BANK
    lock = ProcessLock(settings.state / "watch.lock", purpose="watch")
    with lock.exclusive():
        return _Capture(settings, name, files).capture(owner, dry_run=options.dry_run)


def keep_watching(  # noqa: PLR0913 - what to capture, how often, and the callback
    settings: Settings,
    options: WatchOptions,
    owner: Owners,
    every: timedelta,
    *,
    clock: Clock | None = None,
    runs: int | None = None,
    on_capture: OnCapture | None = None,
) -> int:
    """Capture repeatedly, until the program is ended.

    Args:
        settings: The store and keys.
        options: What to capture.
        owner: As for ``watch_once``.
        every: Time between two captures.
        clock: The clock; that of the machine by default.
        runs: Number of captures; None for no limit.
        on_capture: Receives each result.

    Returns:
        The exit status of the last capture.

    Raises:
        SatchelError: As ``watch_once``, in the first capture.
    """
    require_owner(settings, "watch")
    time_, status, is_first = clock or SystemClock(), 0, True
    while runs is None or runs > 0:
        due = time_.now() + every
        try:
            result = watch_once(settings, options, owner)
        except SatchelError as error:
            if is_first:
                raise
            result = WatchResult(bank=options.bank or "", at=now(), missed=[_missed("", error)])
        status, is_first = result.exit_status, False
        if on_capture is not None:
            on_capture(result)
        runs = None if runs is None else runs - 1
        if runs != 0:
            _wait(time_, due)
    return status


def timer_to_watch(
    settings: Settings, kind: Kind, arguments: Sequence[str], every: timedelta
) -> str:
    """Return a timer for the system: systemd's units, a cron line, launchd's plist.

    Raises:
        UsageError: If no timer can express the interval.
    """
    require_owner(settings, "watch")
    return timer_for(kind, schedule_of(every), invocation(settings, arguments), UNIT)


def schedule_of(every: timedelta) -> str:
    """Return an interval as cron's five fields.

    Raises:
        UsageError: If it does not divide an hour or a day.
    """
    seconds = int(every.total_seconds())
    minutes, hours = seconds // _MINUTE, seconds // _HOUR
    if seconds % _MINUTE == 0 and 0 < minutes < _MINUTE and _MINUTE % minutes == 0:
        return f"*/{minutes} * * * *" if minutes > 1 else "* * * * *"
    if seconds % _HOUR == 0 and 0 < hours <= 24 and 24 % hours == 0:  # noqa: PLR2004 - a day
        hour_field = {1: "*", 24: str(_NIGHT)}.get(hours, f"*/{hours}")
        return f"{_PAST} {hour_field} * * *"
    raise UsageError(
        "no timer can express this interval", field="every", hint="Such as 15m, 1h, 6h or 1d."
    )


def _wait(clock: Clock, due: datetime) -> None:
    while clock.now() < due:
        clock.wait(due)


class _Capture:
    """One capture."""

    def __init__(self, settings: Settings, name: str, files: list[WatchedFile]) -> None:
        self._settings = settings
        self._name = name
        self._files = files
        self._before = self._initial_state()
        self._losses = dict[tuple[str, str], Loss]()
        self._secrets = Counter[str]()
        self._result = WatchResult(bank=name, at=now(), looked=len(files))

    def capture(self, owner: Owners, *, dry_run: bool) -> WatchResult:
        result, before = self._result, self._before
        known = before.files
        changed = [file for file in self._files if known.get(str(file.path)) != file.mark]
        result.unchanged = len(self._files) - len(changed)
        if dry_run:
            result.dry_run = True
            result.captured = [CapturedFile(file=str(file.path)) for file in changed]
            return result
        present = {str(file.path) for file in self._files}
        # A folder that was not read in this run may exist.
        deleted = [path for path in known.keys() - present if not Path(path).exists()]
        result.gone = len(deleted)
        for path in deleted:
            del known[path]
        if changed:
            self._cancel_unfinished(changed)
        for file in changed:
            self._capture_file(file, owner)
        before.at, before.missed = (
            result.at,
            {failed.file: failed.message for failed in result.missed},
        )
        store_state(self._settings, before)
        result.losses, result.secrets = list(self._losses.values()), dict(self._secrets)
        return result

    def _initial_state(self) -> CaptureState:
        """Return the state; an empty one if the bank is another one."""
        settings, state = self._settings, load_state(self._settings, self._name)
        bank = None
        if has_store(settings):
            # For writing: a store whose creation was killed is completed.
            with configured_store(settings) as store, suppress(UnknownBankError):
                bank = find_bank(store, self._name)
        if state.bank != bank or bank is None:
            state.bank, state.files = bank, {}
        return state

    def _cancel_unfinished(self, changed: list[WatchedFile]) -> None:
        """Undo the unfinished import of a killed run; its file may be longer now."""
        if not has_store(self._settings):
            return
        paths = {str(file.path) for file in changed}
        for job in list_jobs(self._settings):
            if job.input in paths:
                cancel_job(self._settings, job.id, reason="captured again")

    def _capture_file(self, watched: WatchedFile, owner: Owners) -> None:
        result, file = self._result, str(watched.path)
        try:
            with _snapshot(watched) as source:
                options = ImportOptions(
                    source_format=watched.form,
                    on_conflict=ConflictPolicy.OVERWRITE
                    if watched.is_memory
                    else ConflictPolicy.SKIP,
                    scrub_secrets=True,
                    skip_bad=True,
                    keeps_receipt=False,
                )
                summary = import_file(self._settings, source, self._name, owner, options)
        except EmptyInputError:
            result.empty += 1
        except UnknownFormatError:
            result.unknown.append(file)
            return
        except SatchelError as error:
            result.missed.append(_missed(file, error))
            return
        else:
            self._count(file, summary)
        self._before.files[file] = watched.mark
        store_state(self._settings, self._before)

    def _count(self, file: str, summary: ImportSummary) -> None:
        added = 0
        for bank in summary.banks:
            self._before.bank = bank.bank or self._before.bank
            done = bank.done
            added += done.added + done.others
        if summary.changed:
            self._result.captured.append(
                CapturedFile(file=file, format=summary.source_format, added=added)
            )
        self._secrets.update(summary.secrets)
        for loss in summary.losses:
            total = self._losses.setdefault((loss.name, loss.reason), Loss(loss.name, loss.reason))
            total.count += loss.count


def _missed(file: str, error: SatchelError) -> FailedFile:
    return FailedFile(
        file=file, code=error.code, message=error.message, exit_status=error.exit_status
    )


@contextmanager
def _snapshot(watched: WatchedFile) -> Iterator[Path | OpenFile]:
    """Yield a copy of a transcript: a program may continue to write it, in the middle of a line.

    Folders are copied by their reader.
    """
    if watched.is_folder:
        yield watched.path
        return
    with tempfile.TemporaryFile() as copy:
        with OpenFile.named(watched.path) as file:
            is_settled = time.time() - file.status.st_mtime > _SETTLED
            try:
                shutil.copyfileobj(file.stream(), copy, _CHUNK)
                if not is_settled and watched.path.suffix == ".jsonl":
                    _cut_to_lines(cast("BinaryIO", copy))
                copy.flush()
            except OSError as error:
                raise TargetError(
                    f"cannot keep a copy: {error.strerror or error}", file=tempfile.gettempdir()
                ) from error
        with OpenFile(os.dup(copy.fileno()), watched.path) as opened:
            yield opened


def _cut_to_lines(copy: BinaryIO) -> None:
    """Truncate an unfinished last line, which the next run captures."""
    end = copy.seek(0, 2)
    while end > 0:
        start = max(0, end - _CHUNK)
        copy.seek(start)
        at = copy.read(end - start).rfind(b"\n")
        if at >= 0:
            copy.truncate(start + at + 1)
            return
        end = start
    copy.truncate(0)
