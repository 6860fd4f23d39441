"""The optional arguments of the Python API."""

from collections.abc import Sequence
from datetime import date, datetime
from os import PathLike
from pathlib import Path
from typing import Literal, TypedDict

from satchel.jobs.callbacks import OnRecord
from satchel.seal.artifact.body import Progress

FilePath = str | PathLike[str]
Roots = Sequence[FilePath]
"""Folders that a path may lead into, each absolute; an empty list allows none."""


class VerifyArguments(TypedDict, total=False):
    """Optional arguments of ``satchel.verify``."""

    deep: bool
    """Look at every record even when a trusted signer vouches for the whole."""

    require_fresh: bool
    """Count an older copy as a failure."""

    entry: str | None
    """Follow this entry's chain back to the roots."""

    keys: tuple[str, ...]
    """Keys to believe this once: did:key, hex, or files."""

    threshold: int | None
    """How many distinct trusted keys must have signed."""

    on_progress: Progress | None
    """Called with bytes done and bytes there are."""


class ConvertArguments(TypedDict, total=False):
    """Optional arguments of ``satchel.convert``."""

    from_: str | None
    """Format of the input, when it is not to be recognised."""

    to: str | None
    """Format of the output, when its name does not say it."""

    profile: Literal["pam-sdk-1.0"] | None
    key_name: str | None
    """The signing key; the default one, made on first use, when not given."""

    passphrase: str | None
    sign: bool
    """False leaves a new artifact unsigned."""

    overwrite: bool
    skip_bad: bool
    """Leave out records that are malformed or too large, and count and name them."""

    text_member: str | None
    """The member of a row that is its text, where it is not one of the usual ones."""

    fail_on_loss: bool
    """Write nothing when something would be lost."""

    accept_loss: Sequence[str]
    """Fields that may be lost; ``all`` for whatever there is."""

    sidecar: bool
    """Write what the format cannot hold into a file beside the output."""

    ignore_sidecar: bool
    """Read the input without its sidecar, though it has one."""

    receipt: Path | None
    """Where a copy of the receipt goes; it is kept in any case."""

    dry_run: bool
    """Write nothing, and say what would be written and lost: ``Conversion.plan``."""

    unsafe_accept: Sequence[Literal["unsigned", "stranger", "entries-only", "incomplete"]]
    """Verdicts on a sealed input that are put up with."""

    trusted_keys: Sequence[str]
    on_progress: Progress | None
    """Called with bytes done and bytes there are, from the start again for each pass."""


Time = str | datetime | date
"""``2026-03-01T09:30:00+01:00``, a day, or a ``datetime`` with its zone; without one, UTC."""

ComponentName = Literal["episodic", "identity", "procedural", "semantic", "working"]


class CodeQueryArguments(TypedDict, total=False):
    """What ``Bank.code.query`` asks for: one relation at most, the others narrow."""

    name: str | None
    """Of symbols; may hold ``*``, ``?`` and ``[a-z]``."""

    file: str | None
    """The path of a file, or the end of one; likewise."""

    kind: str | None
    callers_of: str | None
    callees_of: str | None
    methods_of: str | None
    inherits: str | None
    """Types that inherit from this."""

    imports: str | None
    """Files that import this: a module, something in it, or a file."""

    limit: int
    """How many symbols or edges; 50 when not given."""


class ImportArguments(TypedDict, total=False):
    """Optional arguments of ``Bank.import_``."""

    from_: str | None
    """Format of the file, when it is not to be recognised."""

    on_conflict: Literal["skip", "overwrite", "rename", "error"]
    mirror: bool
    """Overwrite, and delete what the source has no longer."""

    include_deleted: bool
    """Bring what was deleted at a live source, as deleted memories."""

    embeddings: bool
    """Keep the vectors of a live source with its memories."""

    dry_run: bool
    """Change nothing, and say what would be done: ``Imported.plan``."""

    accept_loss: Sequence[str]
    """Fields that may be lost; ``all`` for whatever there is."""

    sidecar: Path | None
    """The file's sidecar, where it is not beside it."""

    ignore_sidecar: bool
    """Read the file without its sidecar, though it has one."""

    receipt: Path | None
    """Where a copy of the receipt goes; it is kept in any case."""

    progress: OnRecord | None
    """Is told how far it got."""

    scrub_secrets: bool
    skip_bad: bool
    """Leave out records that are malformed or too large, and count and name them."""

    text_member: str | None
    """The member of a row that is its text, where it is not one of the usual ones."""

    near_duplicates: Literal["off", "list", "skip", "merge"] | None
    """What to do with memories that say what another one says in other words."""

    re_embed: bool
    """Make vectors afterwards, as ``Bank.embed`` does."""

    re_extract_entities: bool
    """Find entities anew, in place of those in the file."""

    unsafe_accept: Sequence[Literal["unsigned", "stranger", "entries-only", "incomplete"]]
    trusted_keys: Sequence[str]


class ImportBankArguments(ImportArguments, total=False):
    """Optional arguments of ``Satchel.import_bank``."""

    allowed_roots: Roots | None
    """Folders that the path may be in; they narrow what the operator has set."""

    allow_uncontained: bool
    """That the path is the caller's own choice and may be anywhere, if no roots are set."""
