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
from satchel.bank.machine_keys import signer_of
from satchel.bank.open_bank import find_bank
from satchel.bank.owner_rights import require_owner
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
from satchel.ports.losses import Loss
from satchel.ports.operations import Absent, Option, PathText, operation, texts
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


def found_for(hosts: Sequence[Host], folders: Sequence[Path]) -> Iterator[WatchedFile]:
    """Yield the transcripts of hosts and folders; by default of all supported hosts.

    Links are not followed.

    Raises:
        UsageError: If a host has no known transcripts.
        UnreadableError: If there is no such folder.
    """
    for host in hosts or (() if folders else tuple(KEPT)):
        yield from _of_host(host)
    for folder in folders:
        if not folder.is_dir():
            raise UnreadableError("no such folder", file=str(folder))
        yield from _files_in(folder.absolute(), _ENDINGS, None)


def _of_host(host: Host) -> Iterator[WatchedFile]:
    if host not in KEPT:
        known = ", ".join(KEPT)
        raise UsageError(
            f"the conversation folder of {host} is not known",
            field="host",
            hint=f"Add --folder FOLDER. Known: {known}.",
        )
    kept = KEPT[host]
    said = os.environ.get(kept.variable)
    root = (Path(said) if said else Path.home() / kept.folder).absolute()
    for name in kept.transcripts:
        yield from _files_in(root / name, (_TRANSCRIPT,), kept.form)
    for folder in sorted(root.glob(kept.memories)):
        if folder.is_dir() and not folder.is_symlink():
            yield from _memory_in(folder)


def _memory_in(folder: Path) -> Iterator[WatchedFile]:
    """Yield a folder of memory files, with a stamp of its contents."""
    found = sorted(_files_in(folder, (".md",), None))
    if found:
        said = repr([(str(one.path), one.mark) for one in found]).encode("utf-8", "replace")
        mark = int.from_bytes(blake3(said).digest(_WORD)) >> 1
        yield WatchedFile(max(one.time for one in found), folder, mark, None, is_folder=True)


def _files_in(folder: Path, endings: tuple[str, ...], form: str | None) -> Iterator[WatchedFile]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in names:
            if not name.endswith(endings):
                continue
            path = Path(place, name)
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


def read_status(settings: Settings, name: str) -> CaptureState:
    """Return the state for a bank."""
    found = _read(_path(settings, name))
    return found or CaptureState(store=shown_address(settings.store), name=name)


def keep_standing(settings: Settings, found: CaptureState) -> None:
    """Store the state."""
    path = _path(settings, found.name)
    with suppress(SatchelError, OSError):  # a full disk: the next run captures everything again
        private_folder(settings.state)
        private_folder(path.parent)
        with atomic_write(path, mode=PRIVATE_FILE) as stream:
            stream.write(msgspec.json.encode(found))


def check_watching(settings: Settings, moment: datetime | None = None) -> Iterator[Check]:
    """Check for each bank with captured transcripts whether the capture is recent.

    Args:
        settings: The settings.
        moment: The time; by default the present one.
    """
    require_owner(settings, "doctor")
    for path in sorted((settings.state / "watch").glob("*.json")):
        found = _read(path)
        if found is None or found.store != shown_address(settings.store) or found.at is None:
            continue
        age = (moment or datetime.now(UTC)) - datetime.fromisoformat(found.at)
        looked = found.at[:16].replace("T", " ")
        detail = f"last captured {looked}, files known: {len(found.files):,}"
        if found.missed:
            detail += f", {len(found.missed):,} could not be captured"
        is_old = age > _STALE
        hint = (
            "Hosts delete conversations after about a month; capture them: satchel watch --once"
            if is_old
            else None
        )
        state: State = "problem" if is_old else "note" if found.missed else "ok"
        yield Check(name=f"watch into {found.name}", state=state, detail=detail, hint=hint)


def _path(settings: Settings, name: str) -> Path:
    said = blake3(f"{shown_address(settings.store)}\0{name}".encode()).hexdigest()
    return settings.state / "watch" / f"{said[:_ID_DIGITS]}.json"


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
            f"Agent hosts: {', '.join(Host)}. Default: all that are here.",
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
    told: OnCapture | None = None,
    require_writable: Callable[[], None] | None = None,
) -> WatchResult:
    """Capture the conversations that agent hosts store, before they delete them.

    Only what changed is read, only what is new is added, and what a host deletes stays here.
    Secrets are replaced. On the command line it runs until it is interrupted, unless `--once` or
    `--print` is given. A file that cannot be read is not an error: it is reported, and tried again.

    Args:
        settings: Where the store and the keys are.
        options: What to capture.
        owner: Returns the key that owns the bank, if it is created.
        told: Called with the result of each capture; without it, it captures once.
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
    for place in [*texts(options.folders), *texts(options.hosts)] or ["the hosts that are here"]:
        require_uncontained(settings, place, OWN)
    if require_writable is not None and not options.dry_run:
        require_writable()
    key = partial(signer_of, settings, options, owner)
    if options.once or options.dry_run or told is None:
        return watch_once(settings, options, key)
    status = keep_watching(settings, options, key, options.interval, told=told)
    return WatchResult(bank=options.bank or "", at=now(), status=status)


def watch_once(settings: Settings, asked: WatchOptions, owner: Owners) -> WatchResult:
    """Capture transcripts that changed since the last run.

    Files that cannot be captured are reported, and tried again by the next run. After an
    interruption, nothing is stored twice.

    Args:
        settings: The store and keys.
        asked: What to capture.
        owner: Returns the key of the owner, if the bank is created.

    Raises:
        UnreadableError: If there is nothing to watch.
        LockedError: If another capture is running.
    """
    require_owner(settings, "watch")
    seen = sorted(
        found_for(tuple(map(Host, texts(asked.hosts))), tuple(map(Path, texts(asked.folders))))
    )
    if not seen:
        raise UnreadableError(
            "no transcripts were found",
            hint="Give a host or a folder: satchel watch --folder FOLDER",
        )
    name = asked.bank or settings.options.store.bank or BANK
    lock = ProcessLock(settings.state / "watch.lock", purpose="watch")
    with lock.exclusive():
        return _Look(settings, name, seen).capture(owner, dry_run=asked.dry_run)


def keep_watching(  # noqa: PLR0913 - what is captured, how often, and who is told
    settings: Settings,
    asked: WatchOptions,
    owner: Owners,
    every: timedelta,
    *,
    clock: Clock | None = None,
    runs: int | None = None,
    told: OnCapture | None = None,
) -> int:
    """Capture repeatedly, until the program is ended.

    Args:
        settings: The store and keys.
        asked: What to capture.
        owner: As for ``watch_once``.
        every: Time between two captures.
        clock: The clock; that of the machine by default.
        runs: Number of captures; None for no limit.
        told: Receives each result.

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
            found = watch_once(settings, asked, owner)
        except SatchelError as error:
            if is_first:
                raise
            found = WatchResult(bank=asked.bank or "", at=now(), missed=[_missed("", error)])
        status, is_first = found.exit_status, False
        if told is not None:
            told(found)
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
        often = {1: "*", 24: str(_NIGHT)}.get(hours, f"*/{hours}")
        return f"{_PAST} {often} * * *"
    raise UsageError(
        "no timer can express this interval", field="every", hint="Such as 15m, 1h, 6h or 1d."
    )


def _wait(clock: Clock, due: datetime) -> None:
    while clock.now() < due:
        clock.wait(due)


class _Look:
    """One capture."""

    def __init__(self, settings: Settings, name: str, seen: list[WatchedFile]) -> None:
        self._settings = settings
        self._name = name
        self._seen = seen
        self._before = self._standing()
        self._losses = dict[tuple[str, str], Loss]()
        self._secrets = Counter[str]()
        self._told = WatchResult(bank=name, at=now(), looked=len(seen))

    def capture(self, owner: Owners, *, dry_run: bool) -> WatchResult:
        told, before = self._told, self._before
        known = before.files
        changed = [one for one in self._seen if known.get(str(one.path)) != one.mark]
        told.unchanged = len(self._seen) - len(changed)
        if dry_run:
            told.dry_run = True
            told.captured = [CapturedFile(file=str(one.path)) for one in changed]
            return told
        there = {str(one.path) for one in self._seen}
        # A folder that was not read in this run may exist.
        gone = [path for path in known.keys() - there if not Path(path).exists()]
        told.gone = len(gone)
        for path in gone:
            del known[path]
        if changed:
            self._take_back(changed)
        for one in changed:
            self._take(one, owner)
        before.at, before.missed = told.at, {one.file: one.message for one in told.missed}
        keep_standing(self._settings, before)
        told.losses, told.secrets = list(self._losses.values()), dict(self._secrets)
        return told

    def _standing(self) -> CaptureState:
        """Return the state; an empty one if the bank is another one."""
        settings, found = self._settings, read_status(self._settings, self._name)
        there = None
        if has_store(settings):
            # For writing: a store whose creation was killed is completed.
            with configured_store(settings) as store, suppress(UnknownBankError):
                there = find_bank(store, self._name)
        if found.bank != there or there is None:
            found.bank, found.files = there, {}
        return found

    def _take_back(self, changed: list[WatchedFile]) -> None:
        """Undo the unfinished import of a killed run; its file may be longer now."""
        if not has_store(self._settings):
            return
        paths = {str(one.path) for one in changed}
        for job in list_jobs(self._settings):
            if job.input in paths:
                cancel_job(self._settings, job.id, reason="captured again")

    def _take(self, one: WatchedFile, owner: Owners) -> None:
        told, file = self._told, str(one.path)
        try:
            with _as_it_is(one) as source:
                options = ImportOptions(
                    source_format=one.form,
                    on_conflict=ConflictPolicy.OVERWRITE if one.is_memory else ConflictPolicy.SKIP,
                    scrub_secrets=True,
                    skip_bad=True,
                    keeps_receipt=False,
                )
                found = import_file(self._settings, source, self._name, owner, options)
        except EmptyInputError:
            told.empty += 1
        except UnknownFormatError:
            told.unknown.append(file)
            return
        except SatchelError as error:
            told.missed.append(_missed(file, error))
            return
        else:
            self._count(file, found)
        self._before.files[file] = one.mark
        keep_standing(self._settings, self._before)

    def _count(self, file: str, found: ImportSummary) -> None:
        added = 0
        for bank in found.banks:
            self._before.bank = bank.bank or self._before.bank
            done = bank.done
            added += done.added + done.others
        if found.changed:
            self._told.captured.append(
                CapturedFile(file=file, format=found.source_format, added=added)
            )
        self._secrets.update(found.secrets)
        for loss in found.losses:
            kept = self._losses.setdefault((loss.name, loss.reason), Loss(loss.name, loss.reason))
            kept.count += loss.count


def _missed(file: str, error: SatchelError) -> FailedFile:
    return FailedFile(
        file=file, code=error.code, message=error.message, exit_status=error.exit_status
    )


@contextmanager
def _as_it_is(one: WatchedFile) -> Iterator[Path | OpenFile]:
    """Yield a copy of a transcript: a program may continue to write it, in the middle of a line.

    Folders are copied by their reader.
    """
    if one.is_folder:
        yield one.path
        return
    with tempfile.TemporaryFile() as kept:
        with OpenFile.named(one.path) as file:
            is_settled = time.time() - file.status.st_mtime > _SETTLED
            try:
                shutil.copyfileobj(file.stream(), kept, _CHUNK)
                if not is_settled and one.path.suffix == ".jsonl":
                    _cut_to_lines(cast("BinaryIO", kept))
                kept.flush()
            except OSError as error:
                raise TargetError(
                    f"cannot keep a copy: {error.strerror or error}", file=tempfile.gettempdir()
                ) from error
        with OpenFile(os.dup(kept.fileno()), one.path) as copied:
            yield copied


def _cut_to_lines(kept: BinaryIO) -> None:
    """Truncate an unfinished last line, which the next run captures."""
    end = kept.seek(0, 2)
    while end > 0:
        start = max(0, end - _CHUNK)
        kept.seek(start)
        at = kept.read(end - start).rfind(b"\n")
        if at >= 0:
            kept.truncate(start + at + 1)
            return
        end = start
    kept.truncate(0)
