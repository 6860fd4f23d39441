"""Options that operations of several features share, and where their paths may lead.

A person at this machine may name any path; callers from elsewhere are limited to roots, or to
nothing.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from satchel.config.settings import Settings
from satchel.crypto.encryption import plain_file
from satchel.errors import ContainmentError, UsageError
from satchel.ports import absent_options
from satchel.ports.operations import Absent, Option, Options, PathText, texts
from satchel.runtime.contained_folder import ContainedFolder
from satchel.runtime.files import OpenFile, target_error
from satchel.runtime.output import Outlet
from satchel.runtime.private_files import make_folders
from satchel.runtime.roots import PathInput, Roots, absolute_root, refuse_control


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPermission:
    """The paths that a call may use."""

    allowed_roots: Iterable[PathInput] | None = None
    """Folders that the path must be in, within the roots of the operator; none if empty."""

    allow_uncontained: bool = False
    """Whether the path may be anywhere if the operator has set no roots."""


OWN = PathPermission(allow_uncontained=True)
"""For a person who types the path at this machine."""


@contextmanager
def file_to_read(
    settings: Settings, path: PathInput | OpenFile, permission: PathPermission = OWN
) -> Iterator[OpenFile]:
    """Open an input file, decrypted if it is encrypted.

    Raises:
        ContainmentError: If no folder is allowed, or it is not in an allowed one.
        PathRefusedError: If roots are set, and there is a link on the way or the file has a second
            name.
        UnreadableError: If it cannot be opened.
        EncryptionError: If no identity or passphrase decrypts it.
    """
    with (
        stored_file(settings, path, permission) as file,
        plain_file(file, settings.unlocking) as plain,
    ):
        yield plain


@contextmanager
def stored_file(
    settings: Settings, path: PathInput | OpenFile, permission: PathPermission = OWN
) -> Iterator[OpenFile]:
    """Open an input file without decrypting it; an open file is returned as it is.

    Raises:
        SatchelError: As ``file_to_read``, except for encryption.
    """
    if isinstance(path, OpenFile):
        yield path
        return
    roots = _roots(settings, path, permission)
    with OpenFile.named(Path(path)) if roots is None else roots.open_file(path) as file:
        yield file


_PASSWORD = re.compile(r"(?:^|\s)password\s*=\s*\S")


@contextmanager
def file_to_write(
    settings: Settings,
    path: PathInput | Outlet,
    permission: PathPermission = OWN,
    *,
    makes: bool = False,
) -> Iterator[Outlet]:
    """Open the folder of an output file; an open outlet is returned as it is.

    With ``makes``, a missing folder below a root is created with mode 0700.

    Raises:
        ContainmentError: If no folder is allowed, or it is not in an allowed one.
        PathRefusedError: If roots are set, and there is a link on the way.
        TargetError: If the folder does not exist.
    """
    if isinstance(path, Outlet):
        yield path
        return
    if _PASSWORD.search(str(path)):
        raise UsageError(
            "not a file name, but a connection string with a password",
            field="output",
            hint="Name the file to write.",
        )
    roots = _roots(settings, path, permission)
    if roots is None and makes:
        try:
            make_folders(Path(path).parent)
        except OSError as error:
            raise target_error(Path(path).parent, error) from error
    with (
        Outlet.named(Path(path)) if roots is None else roots.open_outlet(path, makes=makes)
    ) as outlet:
        yield outlet


@contextmanager
def folder_to_read(
    settings: Settings, path: PathInput, permission: PathPermission = OWN
) -> Iterator[ContainedFolder]:
    """Open an input folder.

    Raises:
        ContainmentError: If no folder is allowed, or it is not in an allowed one.
        PathRefusedError: If it is a link or not a folder; if roots are set, also if there is a link
            on the way.
        UnreadableError: If it cannot be opened.
    """
    roots = _roots(settings, path, permission)
    folder = ContainedFolder(Path(path).resolve()) if roots is None else roots.open_folder(path)
    with folder:
        yield folder


def is_contained(settings: Settings, permission: PathPermission = OWN) -> bool:
    """Return whether paths are limited to folders."""
    limits = (settings.options.portability.roots, settings.roots, permission.allowed_roots)
    return any(roots is not None for roots in limits)


def require_uncontained(
    settings: Settings, location: str, permission: PathPermission = OWN
) -> None:
    """Refuse the location of a live product if paths are limited to folders.

    The product's library opens files by name, so they cannot be contained.

    Raises:
        ContainmentError: If no folder is allowed, or roots are set.
    """
    if _roots(settings, location, permission) is not None:
        raise ContainmentError(
            "a live product cannot be restricted to folders, so it is not opened when roots "
            "are set",
            file=repr(location),
            hint="Export from it into a root, or do this without roots.",
        )


def _roots(settings: Settings, path: PathInput, permission: PathPermission) -> Roots | None:
    """Return the folders that a path may be in; None for any."""
    lists: list[Iterable[PathInput]] = []
    if settings.options.portability.roots is not None:
        lists.append(settings.options.portability.roots)
    if settings.roots is not None:
        lists.append([absolute_root(root) for root in settings.roots])
    if permission.allowed_roots is not None:
        allowed = permission.allowed_roots
        roots = [allowed] if isinstance(allowed, str | os.PathLike) else allowed
        lists.append([absolute_root(root) for root in roots])
    if lists:
        return Roots(*lists)
    if permission.allow_uncontained:
        if permission is not OWN:
            refuse_control(path)
        return None
    raise ContainmentError(
        "no allowed folders are set for this path",
        file=repr(path),
        hint="Portability path containment is required. Provide one of: allowed_roots=[...],"
        " SATCHEL_PORTABILITY_ROOTS (or ASTROCYTE_PORTABILITY_ROOTS) env var, or, for a path that"
        " comes from no model and no request, allow_uncontained=True.",
    )


Type = Literal["episodic", "identity", "procedural", "semantic", "working"]
Texts = str | Sequence[str]
Time = str | datetime | date
"""``2026-03-01T09:30:00+01:00``, a day, or a ``datetime`` with its zone; without one, UTC."""

Verdict = Literal["unsigned", "untrusted", "entries-only", "incomplete"]
"""Verdicts on a sealed file that may be accepted."""


BAR = Absent(why="The command line shows a progress bar.")
ONE_ANSWER = Absent(why="A request has one answer; long work is a job, which reports progress.")
TYPED = Absent(why="A path typed on this machine may be anywhere.")
OPERATOR = Absent(why="The server's operator decides which folders files may be in.")
ONE_FILE = Absent(why="The answer is one file.")
THIS_MACHINE = "It names files, folders or addresses of this machine."
SERVER = Absent(why="The server's operator decides which files, addresses and keys it uses.")
SERVER_KEYS = Absent(why="The server signs with its own keys.")
RESPONSE = Absent(why="The response has it.")
PROMPT = Absent(why="The command line asks for passphrases.")
FEW_FOR_MODELS = (
    "A model gets few options: each costs tokens in every request. People and programs have all."
)
NO_FILES_FOR_MODELS = (
    "A model has no files or keys here, and a person decides what is replaced or lost."
)
NOT_FOR_MODELS = {"mcp": "A person decides it, not the agent whose memory it is."}
SECRETS = "It creates or shows secrets, or sets trust: only on the machine that has the keys."

BankName = Annotated[
    str,
    Option("Bank name, ID or unique ID prefix.", argument=True, metavar="BANK", values="bank"),
]
SigningKey = Annotated[
    str | None,
    Option(
        "Name of the signing key. Default: the configured one, created on first use.",
        values="key",
        http=SERVER_KEYS,
    ),
]
CoSigners = Annotated[
    str | Sequence[str],
    Option(
        "Name of another owner's key that signs too. Repeatable.",
        flag="--co-signer",
        values="key",
        http=SERVER_KEYS,
    ),
]
Passphrase = Annotated[
    str | None, Option("Passphrase of the signing keys.", cli=PROMPT, http=SERVER_KEYS)
]
Propose = Annotated[
    PathText | None,
    Option(
        "If more owners must sign, write the proposal to this file instead of failing.",
        values="file",
        http=SERVER,
        python=Absent(why="ThresholdError has the proposal; Bank.owners.propose writes it."),
    ),
]
Reason = Annotated[
    str | None,
    Option("Reason, for the log.", max_length=1000, examples=["the work is done"]),
]
DryRun = Annotated[bool, Option("Report what would be done, and change nothing.")]
Overwrite = Annotated[bool, Option("Replace the file if it exists.", http=SERVER)]
OutputFile = Annotated[
    PathText,
    Option("File to write; - for standard output.", short="-o", values="file", http=RESPONSE),
]
OptionalOutputFile = Annotated[
    PathText | None,
    Option("File to write; - for standard output.", short="-o", values="file", http=RESPONSE),
]
EncryptTo = Annotated[
    Texts,
    Option(
        "Encrypt to this recipient: age1..., a file of recipients, or an identity stored here."
        " Repeatable.",
        http=SERVER,
    ),
]
FailOnLoss = Annotated[bool, Option("Write nothing if something would be lost.")]
AcceptLoss = Annotated[
    Texts,
    Option(
        "Field whose loss is accepted (exit status 0), or all. Repeatable.",
        metavar="FIELD",
        max_items=1000,
    ),
]
WithSidecar = Annotated[
    bool,
    Option(
        "Write what the format cannot hold into a file beside it, FILE.satchel.jsonl.",
        http=ONE_FILE,
    ),
]
IgnoreSidecar = Annotated[bool, Option("Read the file without its sidecar, if it has one.")]
Receipt = Annotated[
    PathText | None,
    Option(
        "Write a copy of the receipt to this file; it is stored in any case.",
        metavar="FILE",
        http=SERVER,
    ),
]
ScrubSecrets = Annotated[
    bool, Option("Replace keys, tokens, passwords and card numbers. They are counted anyway.")
]
SkipBad = Annotated[
    bool, Option("Skip records that are malformed or too large, and name them; exit status 1.")
]
TextMember = Annotated[
    str | None,
    Option(
        "Member of a row that contains its text, if it has an unusual name.",
        metavar="NAME",
        max_length=200,
    ),
]
UnsafeAccept = Annotated[
    Verdict | Sequence[Verdict],
    Option("Accept this verdict on a sealed file. Repeatable.", http=SERVER),
]
TrustedKeys = Annotated[
    Texts,
    Option(
        "Key to trust for this command: did:key, hex or a file. Repeatable.",
        flag="--trust-key",
        http=SERVER,
    ),
]
Unsigned = Annotated[bool, Option("Do not sign a new artifact.")]
FilePassphrase = Annotated[
    str | None,
    Option(
        "Passphrase that opens the file.",
        cli=Absent(why="--encrypt-passphrase asks for it."),
        http=SERVER,
    ),
]
AgentName = Annotated[
    str | None, Option("Name of the agent whose memory it is, for the artifact.", max_length=500)
]
OnProgress = Annotated[
    Callable[[int, int], None] | None,
    Option("Called with the number of records done and the total.", cli=BAR, http=ONE_ANSWER),
]
RecordProgress = Annotated[
    Callable[[int, int, str | None], Any] | None,
    Option(
        "Called with the number of records done, their total, and the ID of the last one; may be"
        " async. An exception that it raises ends the transfer.",
        cli=BAR,
        http=ONE_ANSWER,
    ),
]


@dataclass(frozen=True, kw_only=True)
class SigningOptions(Options):
    """The signing key."""

    are_last: ClassVar[bool] = True
    signing_key: SigningKey = None
    passphrase: Passphrase = None


@dataclass(frozen=True, kw_only=True)
class CoSigningOptions(SigningOptions):
    """The keys of owners that sign together."""

    are_last: ClassVar[bool] = True
    co_signers: CoSigners = ()


@dataclass(frozen=True, kw_only=True)
class OwnerOptions(CoSigningOptions):
    """The owners that sign a decision about a bank, or a proposal to the others."""

    are_last: ClassVar[bool] = True
    propose: Propose = absent_options.field(default=None, init=False)


@dataclass(frozen=True, kw_only=True)
class EncryptionOptions(Options):
    """The recipients of an encrypted file."""

    are_last: ClassVar[bool] = True
    encrypt_to: EncryptTo = ()
    file_passphrase: FilePassphrase = None


@dataclass(frozen=True, kw_only=True)
class LossOptions(Options):
    """The losses that a transfer accepts, and a copy of its receipt."""

    are_last: ClassVar[bool] = True
    accept_loss: AcceptLoss = ()
    receipt: Receipt = None


@dataclass(frozen=True, kw_only=True)
class TrustOptions(Options):
    """The signers and verdicts of sealed files that are accepted."""

    are_last: ClassVar[bool] = True
    unsafe_accept: UnsafeAccept = ()
    trusted_keys: TrustedKeys = ()


@dataclass(frozen=True, kw_only=True)
class OutputOptions(Options):
    """The output file, if any."""

    are_last: ClassVar[bool] = True
    output: OptionalOutputFile = None
    overwrite: Overwrite = False


@dataclass(frozen=True, kw_only=True)
class ScopeOptions(Options):
    """A filter by type and owner."""

    type: Annotated[
        Type | Sequence[Type] | None, Option("Only of this type. Repeatable.", mcp=True)
    ] = ()
    user: Annotated[str | None, Option("Only of this user.")] = None
    agent: Annotated[str | None, Option("Only of this agent.")] = None
    run: Annotated[str | None, Option("Only of this run or conversation.")] = None
    app: Annotated[str | None, Option("Only of this application.")] = None


@dataclass(frozen=True, kw_only=True)
class PathOptions(Options):
    """Paths of a call that may lead anywhere by default.

    Use it if paths are part of the program or typed. Paths from elsewhere (a request, a model) come
    with roots, or with a permission of the interface.
    """

    roots: Annotated[
        PathText | Sequence[PathText] | None,
        Option(
            "Folders that the path must be in, within those that the operator allows. Default:"
            " anywhere.",
            cli=TYPED,
            http=OPERATOR,
        ),
    ] = None

    @property
    def permission(self) -> PathPermission:
        """The permission for paths."""
        roots = None if self.roots is None else texts(self.roots)
        return PathPermission(allowed_roots=roots, allow_uncontained=roots is None)


@dataclass(frozen=True, kw_only=True)
class ContainedOptions(Options):
    """Paths of a call by others, which may lead nowhere by default."""

    allowed_roots: Annotated[
        PathText | Sequence[PathText] | None,
        Option(
            "Folders that the path must be in, within those that the operator allows.",
            cli=TYPED,
            http=OPERATOR,
        ),
    ] = None
    allow_uncontained: Annotated[
        bool,
        Option(
            "The path is the caller's own choice and may be anywhere, unless roots are set.",
            cli=TYPED,
            http=OPERATOR,
        ),
    ] = False

    @property
    def permission(self) -> PathPermission:
        """The permission for paths."""
        roots = None if self.allowed_roots is None else texts(self.allowed_roots)
        return PathPermission(allowed_roots=roots, allow_uncontained=self.allow_uncontained)


@dataclass(frozen=True, kw_only=True)
class SelectionOptions(Options):
    """A selection of memories."""

    type: Annotated[
        Type | Sequence[Type], Option("Only of this type. Repeatable.", mcp="components")
    ] = ()
    tags: Annotated[
        Texts,
        Option("Only with this tag; repeated: with one of them.", flag="--tag", mcp=True),
    ] = ()
    since: Annotated[
        Time | None,
        Option(
            "From this date or time: when it happened, or was stored.", metavar="TIME", mcp=True
        ),
    ] = None
    until: Annotated[Time | None, Option("Before this date or time.", metavar="TIME", mcp=True)] = (
        None
    )
    owner: Annotated[str | None, Option("Only of this user or agent.", max_length=1000)] = None
    as_of: Annotated[
        int | None, Option("Show the bank as of this many log records.", minimum=1)
    ] = None
    ids: Annotated[
        Texts,
        Option(
            "Only this memory: ID or unique ID prefix. Repeatable.",
            flag="--id",
            metavar="ID",
            max_items=1000,
        ),
    ] = ()
