"""Options that operations of several features share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any, ClassVar, Literal

from satchel.config.path_permissions import PathPermission
from satchel.ports import absent_options
from satchel.ports.operations import Absent, Option, Options, PathText, texts

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
        "Called with the number of records done, of all, and the ID of the last; may be async."
        " What it raises ends the transfer.",
        cli=BAR,
        http=ONE_ANSWER,
    ),
]


@dataclass(frozen=True, kw_only=True)
class SigningOptions(Options):
    """Which key signs."""

    are_last: ClassVar[bool] = True
    signing_key: SigningKey = None
    passphrase: Passphrase = None


@dataclass(frozen=True, kw_only=True)
class CoSigningOptions(SigningOptions):
    """Which keys of owners sign together."""

    are_last: ClassVar[bool] = True
    co_signers: CoSigners = ()


@dataclass(frozen=True, kw_only=True)
class OwnerOptions(CoSigningOptions):
    """Which owners sign a decision about a bank, and where it is proposed to more of them."""

    are_last: ClassVar[bool] = True
    propose: Propose = absent_options.field(default=None, init=False)


@dataclass(frozen=True, kw_only=True)
class EncryptionOptions(Options):
    """Whom a file is encrypted for."""

    are_last: ClassVar[bool] = True
    encrypt_to: EncryptTo = ()
    file_passphrase: FilePassphrase = None


@dataclass(frozen=True, kw_only=True)
class LossOptions(Options):
    """Which losses a transfer may have, and where its receipt is copied to."""

    are_last: ClassVar[bool] = True
    accept_loss: AcceptLoss = ()
    receipt: Receipt = None


@dataclass(frozen=True, kw_only=True)
class TrustOptions(Options):
    """Whose sealed files are read, and which of other verdicts."""

    are_last: ClassVar[bool] = True
    unsafe_accept: UnsafeAccept = ()
    trusted_keys: TrustedKeys = ()


@dataclass(frozen=True, kw_only=True)
class OutputOptions(Options):
    """Which file is written, if one is."""

    are_last: ClassVar[bool] = True
    output: OptionalOutputFile = None
    overwrite: Overwrite = False


@dataclass(frozen=True, kw_only=True)
class ScopeOptions(Options):
    """Only memories of a type, or of an owner."""

    type: Annotated[
        Type | Sequence[Type] | None, Option("Only of this type. Repeatable.", mcp=True)
    ] = ()
    user: Annotated[str | None, Option("Only of this user.")] = None
    agent: Annotated[str | None, Option("Only of this agent.")] = None
    run: Annotated[str | None, Option("Only of this run or conversation.")] = None
    app: Annotated[str | None, Option("Only of this application.")] = None


@dataclass(frozen=True, kw_only=True)
class PathOptions(Options):
    """Where the paths of a call may lead: anywhere, unless somebody says otherwise.

    They are written in the program, or typed. Paths from elsewhere (a request, a model) come with
    roots, or with a permission of the interface's own.
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
        """Where paths may lead."""
        roots = None if self.roots is None else texts(self.roots)
        return PathPermission(allowed_roots=roots, allow_uncontained=roots is None)


@dataclass(frozen=True, kw_only=True)
class ContainedOptions(Options):
    """Where the paths of a call may lead that serves others: nowhere, unless somebody says so."""

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
        """Where paths may lead."""
        roots = None if self.allowed_roots is None else texts(self.allowed_roots)
        return PathPermission(allowed_roots=roots, allow_uncontained=self.allow_uncontained)


@dataclass(frozen=True, kw_only=True)
class SelectionOptions(Options):
    """Which memories."""

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
