"""Capability tokens: their options, their contents, and verification."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from satchel.bank.connections import configured_store, has_store, known_owners
from satchel.bank.machine_keys import require_owner
from satchel.bank.memory import find_memory
from satchel.bank.open_bank import OpenBank, bank_exists, open_bank_in
from satchel.bank.permissions import read_chain, revoked_keys
from satchel.config.options import (
    SERVER,
    OutputFile,
    OutputOptions,
    Overwrite,
    Reason,
    SigningOptions,
    Texts,
    Type,
)
from satchel.config.settings import Settings
from satchel.crypto.canonical import canonical, decode_canonical
from satchel.crypto.token_chain import MOST_BYTES, Chain, TokenContext, open_revocation_list
from satchel.crypto.tokens import Clause, Components, Entries, Permission, SignedToken, Tags
from satchel.errors import (
    InputError,
    MalformedError,
    PermissionRefusedError,
    RefusedError,
    UsageError,
)
from satchel.ledger.scope import issuers
from satchel.ledger.view import View
from satchel.model.records import Entry
from satchel.model.values import now, resolved
from satchel.ports.operations import Absent, Option, Options, PathText, operation, path_text, texts
from satchel.runtime.files import PRIVATE_FILE, atomic_write, open_input
from satchel.runtime.private_files import private_folder


class TokenLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The contents of a token."""

    id: str
    bank: str
    issuer: str
    audience: str | None = None
    """Key of its holder; None for a bearer token."""

    permissions: list[str]
    scope: list[str]
    """The clauses of its scope in words; all apply together."""

    issued_at: str
    not_before: str
    expires_at: str
    parent: str | None = None
    root_hash: str | None = None
    state: str | None = None
    """``active``, ``not yet valid``, ``expired`` or ``revoked``; None if it is not known."""


class TokenChain(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a token file allows; its signatures and links are verified."""

    id: str
    """ID of the last token."""

    bank: str
    audience: str | None = None
    permissions: list[str]
    """Permissions that all its tokens allow."""

    expires_at: str
    """When the first of its tokens expires."""

    tokens: list[TokenLine]
    token: dict[str, Any]
    """The file as JSON, with its members in the order of the format."""

    output: str | None = None
    """File that was written."""

    @property
    def text(self) -> str:
        """Text of the file, which the holder presents. Only a bearer token is secret."""
        return canonical(self.token).decode()


def describe_chain(chain: Chain, output: str | None = None) -> TokenChain:
    """Return the contents of a token chain."""
    return TokenChain(
        id=chain.leaf.id,
        bank=chain.bank,
        audience=chain.audience,
        permissions=sorted(chain.permissions),
        expires_at=min(token.payload.expires_at for token in chain.tokens),
        tokens=[line_of(token) for token in chain.tokens],
        token=msgspec.json.decode(chain.encoded()),
        output=output,
    )


def line_of(token: SignedToken, state: str | None = None) -> TokenLine:
    """Return the contents of a token."""
    payload = token.payload
    return TokenLine(
        id=token.id,
        bank=payload.bank,
        issuer=payload.issuer,
        audience=payload.audience,
        permissions=[str(each) for each in payload.permissions],
        scope=[words_of(clause) for clause in payload.scope],
        issued_at=payload.issued_at,
        not_before=payload.not_before,
        expires_at=payload.expires_at,
        parent=payload.parent,
        root_hash=None if payload.binding is None else payload.binding.root_hash,
        state=state,
    )


def words_of(clause: Clause) -> str:
    """Return a clause of a scope in words."""
    if isinstance(clause, Components):
        return "type " + " or ".join(clause.components)
    if isinstance(clause, Entries):
        return f"{clause.count or len(clause.ids):,} listed entries"
    if isinstance(clause, Tags):
        parts = [("any", clause.any_of), ("all", clause.all_of), ("none", clause.none_of)]
        return "tags " + ", ".join(f"{word} of {'/'.join(tags)}" for word, tags in parts if tags)
    return "everything"


NOT_FOR_MODELS = {"mcp": "A person decides who may use a memory, not a model."}
HOLDER = "The holder does this with the token and its key, without the store."
MOST_LISTED = 10_000
_MOST_TEXT = 1_000_000


def _words(values: Sequence[str]) -> tuple[str, ...]:
    """Split values at commas."""
    return tuple(word.strip() for each in values for word in each.split(",") if word.strip())


def _text(value: Any) -> str:
    """Return the text of a token, or the name of its file."""
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
    """Permissions, scope and validity of a token."""

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
    """A token to issue, and its holder."""

    audience: Annotated[str | None, Option(_AUDIENCE, values="key")] = None
    bearer: Annotated[
        bool,
        Option(
            "Issue a bearer token, which anyone who has it may present. Valid for at most one day."
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class TokenAttenuateOptions(GrantOptions):
    """A part of a token to hand on, and its holder."""

    token: TokenText
    _: KW_ONLY
    audience: Annotated[str, Option(_AUDIENCE, values="key")]


@dataclass(frozen=True, slots=True)
class TokenInspectOptions(Options):
    """The token to show."""

    token: TokenText


@dataclass(frozen=True, slots=True)
class TokenVerifyOptions(Options):
    """The token to verify, and what it must allow."""

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
    """The token to revoke."""

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
    """The file to write, and how long the list is valid."""

    output: OutputFile
    expires: Annotated[
        str,
        Option("Expiry: a time, or 12h, 7d, 2w from now; at most 90 days.", metavar="TIME"),
    ] = "7d"
    overwrite: Overwrite = False


_Numbers = dict[str, Annotated[int, Meta(ge=1)]]
_MOST_SEEN = 2**20


class TokenVerdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether a token is valid; truthy when it is."""

    valid: bool
    code: str | None = None
    problem: str | None = None
    """Why it is not valid."""

    chain: TokenChain
    checked: list[str]
    """Where revocations were checked: ``log``, ``list``; empty for nowhere."""

    notes: list[str] = []

    def __bool__(self) -> bool:
        return self.valid

    @property
    def exit_status(self) -> int:
        """0 if it is valid, else 3."""
        return 0 if self.valid else RefusedError.exit_status


@operation(
    TokenInspectOptions,
    name="token inspect",
    example="satchel token inspect specialist.token",
    absent={**NOT_FOR_MODELS, "http": HOLDER},
)
def inspect_token(_: Settings | OpenBank, options: TokenInspectOptions) -> TokenChain:
    """Show what a token allows. Its signatures and links are verified, and nothing else.

    Whether its issuer owns a bank, and what was revoked: `satchel token verify`.

    Args:
        options: The token.

    Raises:
        MalformedError: If it is not a token.
        TokenError: If a signature or a link is not valid.
    """
    return describe_chain(read_chain(str(options.token)))


@operation(
    TokenVerifyOptions,
    name="token verify",
    example="satchel token verify specialist.token --may read",
    absent=NOT_FOR_MODELS,
)
def verify_token(context: Settings | OpenBank, options: TokenVerifyOptions) -> TokenVerdict:
    """Verify a token: its signatures, its issuer, its times, and that it is not revoked.

    Owners and revocations come from the bank's log if the bank is in the store; otherwise from the
    keys trusted for this bank, and a signed list. Exit status: 0 valid, 3 not valid.

    Args:
        context: Settings with the store and the trusted keys, or a bank.
        options: The token, and what it must allow.

    Raises:
        MalformedError: If it is not a token.
        TokenError: If a signature or a link is not valid, or the list of revocations is not.
        UsageError: If a memory is given and the bank is not in the store.
    """
    settings = context.settings if isinstance(context, OpenBank) else context
    require_owner(settings, "tokens")
    chain = read_chain(str(options.token))
    unknown = sorted(set(texts(options.permissions)) - set(Permission))
    if unknown:
        raise UsageError(f"unknown permission {unknown[0]!r}", field="permissions")
    ended = revoked_keys(settings)
    with _bank_here(settings, chain.bank) as view:
        if view is None:
            owners = known_owners(settings, chain.bank, retired=False)
            revoked = frozenset[str]()
        else:
            owners, revoked = view.authority.owners, view.authority.revoked
            ended |= view.authority.revoked_keys
        checked, notes = ([] if view is None else ["log"]), list[str]()
        revocations = path_text(options.revocations)
        if revocations is not None:
            revoked |= _read_revocations(settings, Path(revocations), chain, owners)
            checked.append("list")
        if not checked:
            notes.append("revocations are unknown: the bank is not in this store")
        verification = TokenContext(
            bank=chain.bank,
            owners=owners if view is None else issuers(view, chain),
            moment=now(),
            revoked=revoked,
            revoked_keys=ended,
            artifact=options.artifact,
        )
        problem = _problem(chain, options, verification, view)
    return TokenVerdict(
        valid=problem is None,
        code=None if problem is None else problem.code,
        problem=None if problem is None else problem.message,
        chain=describe_chain(chain),
        checked=checked,
        notes=notes,
    )


def _problem(
    chain: Chain, options: TokenVerifyOptions, verification: TokenContext, view: View | None
) -> RefusedError | None:
    try:
        chain.require([Permission(each) for each in texts(options.permissions)], verification)
        if options.entry is not None:
            if view is None:
                raise UsageError("the bank of the token is not in this store", field="entry")
            entry = find_memory(view, options.entry, "entry").model
            if not isinstance(entry, Entry) or not chain.covers(entry):
                raise PermissionRefusedError("the token does not cover this entry", field="entry")
    except RefusedError as error:
        return error
    return None


@contextmanager
def _bank_here(settings: Settings, bank: str) -> Iterator[View | None]:
    """Yield a view of a bank; None if it is not in the store."""
    if not has_store(settings):
        yield None
        return
    with configured_store(settings, read_only=True) as store:
        with store.reading() as reader:
            exists = bank_exists(reader, bank)
        if not exists:
            yield None
            return
        with open_bank_in(settings, store, bank).ledger.reading() as view:
            yield view


def _read_revocations(
    settings: Settings, path: Path, chain: Chain, owners: Collection[str]
) -> frozenset[str]:
    """Return the revoked tokens of a list, and record its number as seen."""
    with open_input(path) as stream:
        data = stream.read(MOST_BYTES + 1)
        seen = _seen_numbers(settings)
        least = seen.get(chain.bank, 0)
        revocations = open_revocation_list(data, chain.bank, owners, moment=now(), least=least)
    if revocations.number > least:
        private_folder(settings.state)
        with atomic_write(_path(settings), mode=PRIVATE_FILE) as stream:
            stream.write(canonical({**seen, chain.bank: revocations.number}) + b"\n")
    return frozenset(revocations.tokens)


def _seen_numbers(settings: Settings) -> dict[str, int]:
    """Return the number of the newest list seen of each bank."""
    path = _path(settings)
    if not path.exists():
        return {}
    with suppress(InputError, msgspec.ValidationError), open_input(path) as stream:
        return msgspec.convert(
            decode_canonical(stream.read(_MOST_SEEN).strip()), resolved(_Numbers)
        )
    raise MalformedError("the stored revocation lists are damaged", file=str(path))


def _path(settings: Settings) -> Path:
    return settings.state / "revocations.json"
