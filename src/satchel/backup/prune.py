"""Remove backups that no retention rule keeps, but never the newest verified one."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

from satchel.backup.catalog import Catalog, ErasedRecord, StoredBackup, held_records
from satchel.backup.destinations import (
    backup_lock,
    destinations,
    open_catalog,
    selected_agents,
    series_of,
)
from satchel.backup.manifests import refs_of
from satchel.backup.options import PruneOptions
from satchel.bank.connections import configured_store, store_exists
from satchel.bank.machine_keys import require_owner
from satchel.config.options import NOT_FOR_MODELS
from satchel.config.settings import Settings
from satchel.errors import SatchelError, UsageError, VerificationError, shown_address
from satchel.ports.operations import operation, texts


class RetentionPolicy(NamedTuple):
    """Retention rules; a rule of 0 keeps nothing, and without any rule everything is kept."""

    days: int = 0
    """Keep backups of the last days."""

    last: int = 0
    """Number of newest backups to keep."""

    daily: int = 0
    """Keep the newest of each of the last days with a backup; in UTC, like all of these."""

    weekly: int = 0
    monthly: int = 0
    yearly: int = 0

    @property
    def keep_all(self) -> bool:
        """Whether everything is kept."""
        return not any(self)


class Candidate(NamedTuple):
    """A backup to decide on."""

    id: str
    at: datetime
    verified: bool
    holds: frozenset[str] = frozenset()
    """Names of its contents."""


MOST_UNVERIFIED = 7
"""Number of newest unverified backups that are always kept."""

_PERIODS: dict[str, Callable[[datetime], object]] = {
    "daily": lambda at: at.date(),
    "weekly": lambda at: tuple(at.isocalendar())[:2],
    "monthly": lambda at: (at.year, at.month),
    "yearly": lambda at: at.year,
}


def select_expired(
    candidates: Iterable[Candidate],
    rules: RetentionPolicy,
    now: datetime,
    needed: Iterable[str] = (),
) -> list[str]:
    """Return the names of the backups that no rule keeps, oldest first.

    Only verified backups can represent a period; others are kept by ``days`` and as one of the
    newest few.

    Args:
        candidates: The backups of one series.
        rules: The retention rules.
        now: Time from which days are counted.
        needed: Contents in use: the newest verified backup with each of them is kept.

    Raises:
        UsageError: If a rule is negative.
    """
    if any(rule < 0 for rule in rules):
        raise UsageError("a retention rule must be 0 or more", field="backup")
    newest_first = sorted(
        candidates, key=lambda candidate: (candidate.at, candidate.id), reverse=True
    )
    sound = [candidate for candidate in newest_first if candidate.verified]
    if rules.keep_all or not sound:
        return []
    others = [candidate for candidate in newest_first if not candidate.verified]
    keep = {sound[0].id} | {candidate.id for candidate in others[:MOST_UNVERIFIED]}
    for name in needed:
        keep |= {next((candidate.id for candidate in sound if name in candidate.holds), "")}
    keep |= _retained(newest_first, sound, rules, now)
    return [candidate.id for candidate in reversed(newest_first) if candidate.id not in keep]


def _retained(
    newest_first: Sequence[Candidate],
    sound: Sequence[Candidate],
    rules: RetentionPolicy,
    now: datetime,
) -> set[str]:
    keep = {candidate.id for candidate in sound[: rules.last]}
    if rules.days:
        since = now.astimezone(UTC) - timedelta(days=rules.days)
        keep |= {candidate.id for candidate in newest_first if candidate.at >= since}
    for name, period in _PERIODS.items():
        number, seen = getattr(rules, name), set[object]()
        for candidate in sound:
            current_period = period(candidate.at.astimezone(UTC))
            if current_period not in seen and len(seen) < number:
                seen.add(current_period)
                keep.add(candidate.id)
    return keep


class BackupPruneResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of pruning one destination, or of a dry run."""

    destination: str
    dropped: list[str] = []
    """Removed backups, oldest first."""

    kept: int = 0
    packs: int = 0
    """Number of unused packs that were removed."""

    bytes: int = 0
    notes: list[str] = []
    dry_run: bool = False


def rules_of(settings: Settings) -> RetentionPolicy:
    """Return the configured retention rules."""
    configured = settings.options.backup
    return RetentionPolicy(
        days=configured.retention,
        last=configured.keep_last,
        daily=configured.keep_daily,
        weekly=configured.keep_weekly,
        monthly=configured.keep_monthly,
        yearly=configured.keep_yearly,
    )


@operation(
    PruneOptions,
    name="backup prune",
    example="satchel backup prune --days 30 --keep-last 3 --dry-run",
    items="backups",
    absent=NOT_FOR_MODELS,
)
def prune_backups(
    settings: Settings, options: PruneOptions, *, moment: datetime | None = None
) -> list[BackupPruneResult]:
    """Remove the backups of this store that no retention rule keeps.

    The newest verified backup is always kept.

    Args:
        settings: Settings of the machine.
        options: What to keep.
        moment: The current time; by default that of the clock.

    Raises:
        ConfigError: If there is no destination.
        VerificationError: If the newest backup is damaged; nothing is removed then.
        TargetError: If a destination does not answer.
    """
    require_owner(settings, "backup")
    rules, result = rules_of(settings), list[BackupPruneResult]()
    rules = rules._replace(
        days=rules.days if options.days is None else options.days,
        last=rules.last if options.keep_last is None else options.keep_last,
    )
    for destination in destinations(settings, texts(options.destinations)):
        with (
            backup_lock(settings, destination, "backup prune"),
            open_catalog(settings, destination) as catalog,
        ):
            work = _PruneTask(settings, catalog, rules, options.dry_run)
            if options.remove_erased is not None:
                work.erased = options.remove_erased
            result.append(work.done(moment or datetime.now(UTC)))
    return result


def drop_old(settings: Settings, catalog: Catalog, moment: datetime) -> BackupPruneResult:
    """Prune after a run; a failure does not fail the run."""
    try:
        return _PruneTask(settings, catalog, rules_of(settings), dry_run=False).done(moment)
    except SatchelError as error:
        return BackupPruneResult(
            destination=shown_address(catalog.name), notes=[f"nothing was removed: {error}"]
        )


class _PruneTask:
    def __init__(
        self,
        settings: Settings,
        catalog: Catalog,
        rules: RetentionPolicy,
        dry_run: bool,  # noqa: FBT001
    ) -> None:
        self._settings, self._catalog, self._rules = settings, catalog, rules
        self._dry_run = dry_run
        self.erased = settings.options.backup.drop_erased

    def done(self, moment: datetime) -> BackupPruneResult:
        """Remove backups, then unused packs."""
        catalog, series = self._catalog, series_of(self._settings)
        backups = catalog.all(series)
        needed = self._needed()
        expired = select_expired(
            [_candidate(backup) for backup in backups], self._rules, moment, needed
        )
        if self.erased:
            expired += [
                name for name in self._holding_erased(backups, needed) if name not in expired
            ]
        retained = [backup for backup in backups if backup.id not in expired]
        result = BackupPruneResult(
            destination=shown_address(catalog.name),
            dropped=expired,
            kept=len(retained),
            notes=_undecrypted_note(catalog),
            dry_run=self._dry_run,
        )
        if self._dry_run:
            return result
        if expired:
            _require_intact(catalog, retained)
        for backup in backups:
            if backup.id in expired:
                catalog.drop(backup)
        packs, size = catalog.sweep(series)
        return msgspec.structs.replace(result, packs=packs, bytes=size)

    def _needed(self) -> list[str]:
        """Return the names of contents in use; the newest backup with each is kept."""
        settings = self._settings
        return [
            *self._banks(),
            *(f"agent {agent.id}" for agent in selected_agents(settings, (), ())),
        ]

    def _banks(self) -> list[str]:
        if not store_exists(self._settings.store):
            return [part.bank for backup in self._all() for part in backup.manifest.banks]
        try:
            with (
                configured_store(self._settings, read_only=True) as store,
                store.reading() as reader,
            ):
                return [*reader.banks(), *reader.begun()]
        except SatchelError:  # a broken store: all the more reason to keep its backups
            return [part.bank for backup in self._all() for part in backup.manifest.banks]

    def _all(self) -> list[StoredBackup]:
        return self._catalog.all(series_of(self._settings))

    def _holding_erased(self, backups: list[StoredBackup], needed: list[str]) -> list[str]:
        """Return backups that hold erased records, if a newer verified one does not."""
        records = dict[str, dict[str, ErasedRecord]]()
        holding = [backup for backup in backups if count_erased(self._catalog, backup, records)]
        clean = [backup for backup in backups if backup.verified and backup not in holding]
        clean_contents = {name for backup in clean for name in _contents(backup)}
        contents = {name for backup in backups for name in _contents(backup)}
        if not clean or not set(needed) & contents <= clean_contents:
            return []
        last = max(backup.manifest.at for backup in clean)
        return [backup.id for backup in holding if backup.manifest.at <= last]


def count_erased(
    catalog: Catalog, backup: StoredBackup, known: dict[str, dict[str, ErasedRecord]]
) -> int:
    """Return the number of records of a backup that were erased since.

    Args:
        catalog: Catalog of the destination.
        backup: The backup.
        known: Cache of erased records by bank.
    """
    number = 0
    for part in backup.manifest.banks:
        if part.bank not in known:
            known[part.bank] = {
                name: record
                for erased, key in catalog.lists.of(part.bank)
                if key == backup.key
                for name, record in erased.records.items()
            }
        number += len(held_records(part, known[part.bank]))
    return number


def _undecrypted_note(catalog: Catalog) -> list[str]:
    number = len(catalog.closed)
    note = (
        f"{number} encrypted backups were kept, since no identity here decrypts them: pass "
        "--identity"
    )
    return [note] if number else []


def _candidate(backup: StoredBackup) -> Candidate:
    return Candidate(
        id=backup.id,
        at=datetime.fromisoformat(backup.manifest.at),
        verified=backup.verified is not None,
        holds=frozenset(_contents(backup)),
    )


def _contents(backup: StoredBackup) -> Iterator[str]:
    """Yield the contents of a backup as unique names."""
    yield from (part.bank for part in backup.manifest.banks)
    yield from (f"agent {part.id}" for part in backup.manifest.agents)


def _require_intact(catalog: Catalog, retained: list[StoredBackup]) -> None:
    """Require that the packs of the newest verified backup exist before older ones are removed.

    Raises:
        VerificationError: If one is missing; the backup loses its mark.
    """
    sound = [backup for backup in retained if backup.verified]
    if not sound:
        raise VerificationError("no backup could be verified, so none is removed")
    packs = catalog.packs(sound[-1])
    try:
        for ref in set(refs_of(sound[-1].manifest, packs)):
            packs.require(ref)
    except VerificationError as error:
        catalog.unmark(sound[-1])
        raise VerificationError(
            f"the backup {sound[-1].id} no longer verifies, so no older one is removed:"
            f" {error.message}",
            hint="Create a new one: satchel backup run",
        ) from error
