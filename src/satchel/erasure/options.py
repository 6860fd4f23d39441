"""Options of the operations that remove memories, or personal data from them."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, Any

from satchel.config.options import SERVER, DryRun, OnProgress, SigningOptions, Texts
from satchel.erasure.selection import CONDITIONS, conditions_of
from satchel.errors import UsageError
from satchel.ports import absent_options
from satchel.ports.operations import Absent, Option, Options, PathText
from satchel.screening.redaction import KINDS

_MOST_IDS = 10_000
_MOST = 1000
_MOST_CONDITIONS = 20
_IN_MEMORY = Absent(why="The original is returned; nothing is written.")


def _conditions(value: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    """Return conditions by name, each with its values.

    Raises:
        UsageError: If a value is not a text or a list of texts, or a list is empty: a condition
            that is dropped would select more.
    """
    pairs = list[str]()
    for name, values in value.items():
        texts = [values] if isinstance(values, str) else values
        if (
            not isinstance(texts, list | tuple)
            or not texts
            or not all(isinstance(text, str) for text in texts)
        ):
            raise UsageError(
                f"the condition {name[:80]!r} needs a text or a list of texts",
                field="where",
                hint='Write {"user": "ada"} or {"user": ["ada", "bob"]}.',
            )
        pairs += [f"{name}={text}" for text in texts]
    return conditions_of(pairs)


Ids = Annotated[
    Texts, Option("IDs or ID prefixes.", argument=True, metavar="ID", max_items=_MOST_IDS)
]
Where = Annotated[
    Mapping[str, str | Sequence[str]],
    Option(
        f"Condition by {', '.join(CONDITIONS)} or import. Repeatable: every name must match; a"
        " name that is repeated, one of its values.",
        metavar="NAME=VALUE",
        max_length=_MOST_CONDITIONS,
        parse=_conditions,
        examples=[{"user": "ada"}],
    ),
]
LogReason = Annotated[
    str | None,
    Option("Reason, for the log. The reason itself is not erased.", max_length=1000),
]


@dataclass(frozen=True, slots=True)
class EraseOptions(Options):
    """What to erase."""

    ids: Ids = ()
    _: KW_ONLY
    where: Where = field(default_factory=dict)
    cascade: Annotated[
        bool, Option("Include everything that derives from it, or is part of it.")
    ] = False
    reason: LogReason = None
    scan: Annotated[
        bool,
        Option("Search all bytes for remnants afterwards.", flag="--scan/--no-scan"),
    ] = True
    receipt: Annotated[
        PathText | None,
        Option(
            "Write a copy of the signed report to this file; it is stored in any case.",
            metavar="FILE",
            values="file",
            http=SERVER,
        ),
    ] = None
    dry_run: DryRun = False
    progress: OnProgress = None


@dataclass(frozen=True, slots=True)
class RedactOptions(Options):
    """What to redact, and how."""

    ids: Ids = ()
    _: KW_ONLY
    where: Where = field(default_factory=dict)
    kinds: Annotated[
        Texts,
        Option(
            f"Only this kind of data: {', '.join(KINDS)}. Repeatable.",
            flag="--data-kind",
            max_items=_MOST,
        ),
    ] = ()
    texts: Annotated[
        Texts,
        Option("These words, wherever they occur. Repeatable.", flag="--text", max_items=_MOST),
    ] = ()
    fields: Annotated[
        Texts,
        Option(
            "This member as a whole: a JSON pointer such as /metadata/phone. Repeatable.",
            flag="--field",
            max_items=_MOST,
        ),
    ] = ()
    detector: Annotated[
        str | None,
        Option(
            "Also use this detector of personal data: presidio.",
            max_length=40,
            examples=["presidio"],
        ),
    ] = None
    recover_for: Annotated[
        Texts,
        Option(
            "Keep the original, sealed for this key: a name or did:key. Repeatable.",
            values="key",
            http=SERVER,
        ),
    ] = ()
    recover_to: Annotated[
        Texts,
        Option(
            "Keep the original as an age file for this recipient: age1..., a file of recipients, or"
            " an identity stored here. Repeatable.",
            http=SERVER,
        ),
    ] = ()
    dry_run: DryRun = False
    progress: OnProgress = None


@dataclass(frozen=True, slots=True)
class RecoverOptions(SigningOptions):
    """Which memory to recover, and where to."""

    memory: Annotated[
        str, Option("ID of the memory, or an ID prefix.", argument=True, metavar="ID")
    ]
    _: KW_ONLY
    output: Annotated[
        PathText | None,
        Option(
            "New private file to write; - for standard output, which is the default.",
            short="-o",
            values="file",
            python=_IN_MEMORY,
        ),
    ] = absent_options.field(default=None, init=False)
    overwrite: Annotated[bool, Option("Replace the file if it exists.", python=_IN_MEMORY)] = (
        absent_options.field(default=False, init=False)
    )
    sealed: Annotated[
        bool,
        Option("Write the age file itself, still encrypted.", python=_IN_MEMORY),
    ] = absent_options.field(default=False, init=False)
    signing_key: Annotated[
        str | None,
        Option(
            "Name of a key that it was sealed for. Default: an identity stored here, then the"
            " configured key.",
            values="key",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneMemoryOptions(Options):
    """Which old versions to erase."""

    superseded_before: Annotated[
        str,
        Option(
            "Time before which they were superseded: 2026-01-31, or an age: 12h, 90d, 8w, 2y.",
            metavar="TIME",
            max_length=64,
            examples=["90d"],
        ),
    ]
    include_deleted: Annotated[
        bool,
        Option("Include memories that were deleted, expired or rejected before then."),
    ] = False
    reason: LogReason = None
    dry_run: DryRun = False
    progress: OnProgress = None
