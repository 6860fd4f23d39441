"""The table ``[backup]``: what is backed up, when, where to, and what is kept of it."""

from typing import Literal

import msgspec

from satchel.errors import ConfigError


class BackupSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[backup]``."""

    enabled: bool = False
    """Whether backups are expected: ``backup schedule`` makes them, ``doctor`` misses them."""

    schedule: str = "0 4 * * *"
    """When, as cron has it: minute, hour, day of the month, month, day of the week; local time."""

    destination: str | tuple[str, ...] = ""
    """Where to: a folder, or the address of an object store such as ``s3://BUCKET/PREFIX``, or a
    list of these. In the environment a list is JSON."""

    retention: int = 30
    """Days for which backups are kept; 0 for no such rule."""

    keep_last: int = 0
    """So many of the newest are kept as well."""

    keep_daily: int = 0
    """Of each of the last so many days that have one the newest is kept as well."""

    keep_weekly: int = 0
    """Likewise, of weeks."""

    keep_monthly: int = 0
    """Likewise, of months."""

    keep_yearly: int = 0
    """Likewise, of years."""

    compress: Literal["gzip", "zstd", "none", "true", "false"] | bool = "gzip"
    """How what is written is compressed: ``gzip`` or ``true``, ``zstd``, ``none`` or ``false``."""

    encrypt_to: tuple[str, ...] | None = None
    """For whom what is written is encrypted: ``age1...``, files with recipients, or names of
    identities of this machine; nobody for plain. In the environment: joined by ``:``."""

    banks: tuple[str, ...] | None = None
    """Which banks, by name or id; all when not set. In the environment: joined by ``:``."""

    agents: tuple[str, ...] | None = None
    """Which agents, by the ids of ``[agents.<id>]``: their banks and files, besides ``banks``. All
    that are not archived when neither is set."""

    files: bool = True
    """Whether memory files and the files of agents are backed up as well."""

    stale_after: int = 48
    """Hours after which ``doctor`` misses a newer backup."""

    drop_erased: bool = False
    """Whether a backup that still holds what was erased since goes as soon as there is a newer
    one, whatever is kept otherwise."""

    @property
    def destinations(self) -> tuple[str, ...]:
        """Where to, as a list.

        Raises:
            ConfigError: If what the environment says is no list.
        """
        said = self.destination
        if isinstance(said, tuple):
            return said
        if not said.startswith("["):
            return (said,) if said else ()
        try:
            return msgspec.json.decode(said, type=tuple[str, ...])
        except msgspec.DecodeError:
            raise ConfigError("not a list of destinations", field="backup.destination") from None
