"""Per-bank settings, profiles, the provider and event hooks, as typed values."""

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

EVENTS = (
    "on_remember",
    "on_update",
    "on_forget",
    "on_restore",
    "on_recall",
    "on_import",
    "on_undo",
    "on_export",
    "on_migrate",
    "on_backup",
    "on_backup_failed",
)
"""The events that hooks can listen to."""

LONGEST_WAIT = 300.0
"""Seconds that a hook may take at most."""

MOST_RETRIES = 10

Tier = Literal["", "storage", "engine"]
"""``storage``: Satchel keeps the memory there; ``engine``: a product that is talked to."""


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds for banks of a sort; an absent member says nothing."""

    description: str | None = None
    """For people."""

    scrub_secrets: bool | None = None
    """Whether keys, tokens, passwords and cards are replaced when something is remembered,
    imported, or exported to what is not sealed."""

    on_conflict: Literal["skip", "overwrite", "rename", "error"] | None = None
    """What an import does with another version of what the bank has, when it is not told."""

    recall_limit: Annotated[int, Meta(ge=1, le=1000)] | None = None
    """How many memories are recalled at most, when nobody says."""

    recall_budget: Annotated[int, Meta(ge=1)] | None = None
    """How many tokens they may take together, when nobody says."""

    recall_trust: Literal["user", "agent", "tool", "external", "imported"] | None = None
    """The lowest trust that is recalled, when nobody says."""

    metadata: dict[str, Any] = {}
    """The operator's own."""


class BankSettings(Profile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds for one bank; it wins over its profile."""

    profile: str | None = None
    """Name of the profile that says the rest."""


class HookSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One listener: a function, a command or a webhook."""

    function: Annotated[str, Meta(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")] | None = None
    """``module:name`` of a Python function that takes the event."""

    command: Annotated[tuple[str, ...], Meta(min_length=1)] | None = None
    """A program and its arguments, run without a shell; the event is JSON on its input."""

    webhook: str | None = None
    """An address that the event is sent to, as JSON in a POST."""

    timeout: Annotated[float, Meta(gt=0, le=LONGEST_WAIT)] = 10.0
    """Seconds that it may take."""

    retries: Annotated[int, Meta(ge=0, le=MOST_RETRIES)] = 2
    """How often a webhook that failed is tried again."""

    secret_env: str | None = None
    """The environment variable with the secret that signs what a webhook gets."""

    include_content: bool = False
    """Whether memories themselves go along; otherwise only ids and counts."""

    def __post_init__(self) -> None:
        given = [name for name in ("function", "command", "webhook") if getattr(self, name)]
        if len(given) != 1:
            raise ValueError("a hook is one of `function`, `command` and `webhook`")
        if self.webhook and urlsplit(self.webhook).scheme not in ("http", "https"):
            raise ValueError("`webhook` is not an address that starts with https:// or http://")


Listeners = tuple[HookSettings, ...]


class HookTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[hooks]``: who is told of what."""

    on_remember: Listeners = ()
    on_update: Listeners = ()
    """Also of corrections."""

    on_forget: Listeners = ()
    on_restore: Listeners = ()
    on_recall: Listeners = ()
    on_import: Listeners = ()
    on_undo: Listeners = ()
    """An import was taken back."""

    on_export: Listeners = ()
    on_migrate: Listeners = ()
    """A bank was brought to another store."""

    on_backup: Listeners = ()
    """A backup was made, and read again."""

    on_backup_failed: Listeners = ()
    """One could not be made, or does not hold."""


class Declared(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a configuration file may hold besides plain settings."""

    provider: str = ""
    """Where memory is, when it is not in ``store.address``: ``sqlite``, ``mem0``, ..."""

    provider_tier: Tier = ""
    """Checked when it is given."""

    provider_config: dict[str, Any] = {}
    """What the provider needs to be reached, such as ``path``."""

    profile: str = ""
    """The profile of banks that name none."""

    banks: dict[str, BankSettings] = {}
    """By name or id."""

    profiles: dict[str, Profile] = {}
    hooks: HookTable = HookTable()
