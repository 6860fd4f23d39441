"""Options of the operations on capability tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

from satchel.actions.options import (
    SERVER,
    OutputFile,
    OutputOptions,
    Overwrite,
    Reason,
    SigningOptions,
    Texts,
    Type,
)
from satchel.ports.operations import Absent, Option, Options, PathText
from satchel.seal.encoding.jcs import canonical

NOT_FOR_MODELS = {"mcp": "A person decides who may use a memory, not a model."}
HOLDER = "The holder does this with the token and its key, without the store."
MOST_LISTED = 10_000
_MOST_TEXT = 1_000_000


def _words(values: Sequence[str]) -> tuple[str, ...]:
    """Return words that may be joined by commas."""
    return tuple(word.strip() for each in values for word in each.split(",") if word.strip())


def _text(value: Any) -> str:
    """Return a token's text, or the name of its file."""
    return canonical(dict(value)).decode() if isinstance(value, Mapping) else str(value)


TokenText = Annotated[
    PathText | Mapping[str, Any],
    Option(
        "Token: its JSON, or a file.",
        argument=True,
        metavar="TOKEN",
        values="file",
        max_length=_MOST_TEXT,
        parse=_text,
        is_text_or_object=True,
        examples=[{"format": "satchel-token/1", "tokens": []}],
    ),
]
_AUDIENCE = "Holder: a did:key, the name of a key known here, or a file."


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantOptions(OutputOptions):
    """What a token allows, where, and until when."""

    permissions: Annotated[
        Texts,
        Option(
            "Permission: read, write, derive, redact, export or rehydrate; several joined by"
            " commas. Repeatable.",
            flag="--allow",
            parse=_words,
            examples=[["read", "write"]],
        ),
    ] = ("read",)
    entries: Annotated[
        Texts,
        Option("Only this memory, by ID or ID prefix. Repeatable.", flag="--entry"),
    ] = ()
    types: Annotated[
        Type | Sequence[Type],
        Option("Only memories of this type. Repeatable.", flag="--type"),
    ] = ()
    any_tags: Annotated[
        Texts,
        Option(
            "Only memories with at least one of these tags. Repeatable.",
            flag="--any-tag",
            examples=[["tea"]],
        ),
    ] = ()
    tags: Annotated[
        Texts, Option("Only memories with all of these tags. Repeatable.", flag="--tag")
    ] = ()
    no_tags: Annotated[
        Texts, Option("Only memories without any of these tags. Repeatable.", flag="--no-tag")
    ] = ()
    everything: Annotated[
        bool,
        Option("All memories of the bank; of an attenuated token: all that the token covers."),
    ] = False
    expires: Annotated[
        str | None,
        Option(
            "Expiry: a time, or 30m, 12h, 7d, 2w from now. Default: 7d; 1h for a bearer token; "
            "at most that of the parent token.",
            metavar="TIME",
            examples=["7d"],
        ),
    ] = None
    not_before: Annotated[
        str | None,
        Option("Start of validity: a time or duration. Default: now.", metavar="TIME"),
    ] = None
    artifact: Annotated[
        str | None,
        Option(
            "Root hash of the artifact the token is for, instead of the bank.",
            http=Absent(why="A token for an artifact is issued where the artifact is."),
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenIssueOptions(GrantOptions, SigningOptions):
    """What a token allows, and for whom."""

    audience: Annotated[str | None, Option(_AUDIENCE, values="key")] = None
    bearer: Annotated[
        bool,
        Option(
            "Issue a bearer token, which anyone who has it may present. Valid for at most one day."
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class TokenAttenuateOptions(GrantOptions):
    """Which part of a token is handed on, and to whom."""

    token: TokenText
    _: KW_ONLY
    audience: Annotated[str, Option(_AUDIENCE, values="key")]


@dataclass(frozen=True, slots=True)
class TokenInspectOptions(Options):
    """Which token to show."""

    token: TokenText


@dataclass(frozen=True, slots=True)
class TokenVerifyOptions(Options):
    """Which token to verify, and for what."""

    token: TokenText
    _: KW_ONLY
    permissions: Annotated[
        Texts,
        Option(
            "Require this permission; several joined by commas. Repeatable.",
            flag="--may",
            parse=_words,
        ),
    ] = ()
    entry: Annotated[str | None, Option("Require that it covers this memory: its ID.")] = None
    revocations: Annotated[
        PathText | None,
        Option(
            "Signed list of revoked tokens, if the bank is elsewhere.",
            values="file",
            http=SERVER,
        ),
    ] = None
    artifact: Annotated[str | None, Option("Root hash of the artifact it is presented for.")] = None


@dataclass(frozen=True, slots=True)
class TokenRevokeOptions(SigningOptions):
    """Which token to revoke."""

    token: Annotated[
        PathText,
        Option(
            "Token: its ID, an ID prefix, or its file.",
            argument=True,
            metavar="TOKEN",
            max_length=_MOST_TEXT,
        ),
    ]
    _: KW_ONLY
    reason: Reason = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenListOptions(Options):
    """Which tokens to list."""

    all: Annotated[bool, Option("Include expired and revoked tokens.")] = False
    limit: Annotated[int, Option("Maximum number of tokens.", minimum=1, maximum=MOST_LISTED)] = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRevocationsOptions(SigningOptions):
    """Where to write the revoked tokens, and how long the list is valid."""

    output: OutputFile
    expires: Annotated[
        str,
        Option("Expiry: a time, or 12h, 7d, 2w from now; at most 90 days.", metavar="TIME"),
    ] = "7d"
    overwrite: Overwrite = False
