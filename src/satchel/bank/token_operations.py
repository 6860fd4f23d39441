"""Operations on capability tokens: issue, attenuate, list and revoke."""

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import msgspec

from satchel.bank.machine_keys import read_public_key, require_owner, signer_of, stated_key
from satchel.bank.open_bank import OpenBank
from satchel.bank.permissions import holder_key, read_chain
from satchel.bank.tokens import (
    HOLDER,
    NOT_FOR_MODELS,
    GrantOptions,
    TokenAttenuateOptions,
    TokenChain,
    TokenIssueOptions,
    TokenLine,
    TokenListOptions,
    TokenRevocationsOptions,
    TokenRevokeOptions,
    describe_chain,
    line_of,
)
from satchel.config.settings import Settings
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import seal
from satchel.crypto.token_chain import Chain, attenuate, link_tokens, signed_list
from satchel.crypto.tokens import (
    Clause,
    Components,
    Grant,
    Permission,
    SignedToken,
    Tags,
    Wildcard,
    entries_clause,
    is_signed,
    issue,
    parse_token,
    payload_value,
    shift_time,
)
from satchel.errors import LimitError, MalformedError, SigningKeyError, UsageError
from satchel.ledger.authority import token_revocation_record
from satchel.ledger.view import View
from satchel.model.records import Token
from satchel.model.values import (
    ID_PREFIX,
    Component,
    id_digits,
    is_id,
    now,
    read_time,
    require_one,
)
from satchel.ports.operations import operation, path_text, texts
from satchel.ports.rows import Filter
from satchel.runtime.files import PRIVATE_FILE, atomic_write

MOST_LIST_BYTES = 16 * 2**20
"""Maximum size of a file with IDs."""

_AGE = re.compile(r"(\d{1,5})(m|h|d|w)")
_MINUTES = {"m": 1, "h": 60, "d": 24 * 60, "w": 7 * 24 * 60}
_LIFETIME, _BEARER_LIFETIME = timedelta(days=7), timedelta(hours=1)


@operation(
    TokenIssueOptions,
    name="token issue",
    example="satchel token issue --audience specialist --type procedural --allow read",
    absent=NOT_FOR_MODELS,
)
def issue_token(
    bank: OpenBank,
    options: TokenIssueOptions,
    *,
    owner: Callable[[], SigningKey] | None = None,
) -> TokenChain:
    """Issue a capability token: what its holder may do with which memories, and until when.

    The token is signed by an owner of the bank and recorded in its log, where it can be revoked.
    All restrictions apply together. Its holder presents it with `--token` or SATCHEL_TOKEN, and
    signs with its key to show that it is the audience.

    Args:
        bank: The bank, open for writing.
        options: What it allows.
        owner: Returns the owner's key.

    Raises:
        UsageError: If the options are not valid for a token.
        SigningKeyError: If the key is not that of an owner.
        UnknownMemoryError: If there is no such memory.
        TargetError: If the file cannot be written; the token is in the log then.
    """
    require_owner(bank.settings, "tokens")
    if options.bearer is (options.audience is not None):
        raise UsageError(
            "a token needs an audience", field="audience", hint="Add --audience KEY, or --bearer."
        )
    key = signer_of(bank.settings, options, owner)
    with bank.ledger.reading() as view:
        require_owner_key(view, key)
        scope, lists = _scope(options, view)
    chain = link_tokens((issue(bank.id, key, _grant(bank.settings, options, scope)),), lists)
    value = chain.leaf.value()
    record = Token(
        payload=payload_value(chain.leaf.payload),
        signatures=tuple(value["signatures"]),
        at=chain.leaf.payload.issued_at,
    )
    bank.ledger.append([seal(record)])
    return _write_token(chain, options)


@operation(
    TokenAttenuateOptions,
    name="token attenuate",
    example="satchel token attenuate my.token --audience helper --any-tag build -o helper.token",
    absent={**NOT_FOR_MODELS, "http": HOLDER},
)
def attenuate_token(settings: Settings, options: TokenAttenuateOptions) -> TokenChain:
    """Attenuate a token: issue a narrower token from it, as its holder.

    The new token allows at most what the token allows, and expires no later. Only the holder's key
    is needed: no store, and no permission of the owner.

    Args:
        settings: Settings with the holder's key.
        options: What the new token allows.

    Raises:
        UsageError: If it would allow more, or the options are not valid for a token.
        SigningKeyError: If the holder's key is not on this machine.
        TokenError: If the token itself is not valid.
    """
    chain = read_chain(str(options.token))
    if chain.audience is None:
        raise UsageError("a bearer token cannot be attenuated", field="token")
    scope, lists = _scope(options, None)
    grant = _grant(settings, options, scope or chain.leaf.payload.scope, chain)
    key = holder_key(settings, chain.audience)
    return _write_token(attenuate(chain, key, grant, lists), options)


def ids_in(data: bytes) -> list[str]:
    """Return the IDs in a file, one per line; text after a space and empty lines are ignored.

    Raises:
        LimitError: If it is too large.
        MalformedError: If it is not ASCII text.
    """
    if len(data) > MOST_LIST_BYTES:
        raise LimitError(
            f"a list of IDs can have at most {MOST_LIST_BYTES:,} bytes", field="entries"
        )
    try:
        lines = data.decode("ascii").splitlines()
    except UnicodeDecodeError:
        raise MalformedError("not a list of IDs", field="entries") from None
    return [text.split()[0] for text in lines if text.strip()]


def require_owner_key(view: View, owner: SigningKey) -> None:
    """Require that a key belongs to an owner of the bank.

    Raises:
        SigningKeyError: If it does not.
    """
    if owner.did not in view.authority.owners:
        raise SigningKeyError(
            "this key does not belong to an owner of the bank",
            field="key",
            hint=f"Its owners: {', '.join(sorted(view.authority.owners))}. Add --signing-key NAME.",
        )


def _grant(
    settings: Settings,
    options: GrantOptions,
    scope: tuple[Clause, ...],
    parent: Chain | None = None,
) -> Grant:
    named = getattr(options, "audience", None)
    audience = None if named is None else audience_of(settings, named)
    at = now()
    expiry = shift_time(at, _BEARER_LIFETIME if audience is None else _LIFETIME)
    if parent is not None:
        expiry = min(expiry, *(token.payload.expires_at for token in parent.tokens))
    unknown = sorted(set(options.permissions) - set(Permission))
    if unknown:
        raise UsageError(
            f"unknown permission {unknown[0]!r}",
            field="permissions",
            hint=f"Choose from: {', '.join(Permission)}.",
        )
    start = None
    if options.not_before is not None:
        start = time_after(options.not_before, at, "not_before")
    if options.expires is not None:
        expiry = time_after(options.expires, at, "expires")
    return Grant(
        scope=scope,
        permissions=texts(options.permissions),
        issued_at=at,
        not_before=start,
        expires_at=expiry,
        audience=audience,
        root_hash=options.artifact,
    )


def audience_of(settings: Settings, text: str) -> str:
    """Return the did:key of a did:key, the name of a known key, or a file with a key.

    Raises:
        MalformedError, UnreadableError: If it is none of them.
    """
    return _named_key(settings, text) or read_public_key(text)


def audience_from_elsewhere(settings: Settings, text: str) -> str:
    """Return the did:key that a remote caller gives: a did:key, hex digits, or the name of a key.

    A remote caller cannot name a file of this machine.

    Raises:
        MalformedError: If it is none of them.
    """
    key = _named_key(settings, text) or stated_key(text)
    if key is None:
        raise MalformedError(
            "neither a public key nor the name of a known key",
            field="audience",
            hint="Give a did:key or 64 hex digits.",
        )
    return key


def _named_key(settings: Settings, text: str) -> str | None:
    if text in settings.keyring.names():
        return settings.keyring.read(text).key
    known = [key.key for key in settings.registry.listed() if key.name == text]
    return known[0] if len(known) == 1 else None


def time_after(text: str, at: str, field: str) -> str:
    """Return the time of a date, a time, or a duration after ``at``.

    Raises:
        UsageError: If it is none of them.
    """
    duration = _AGE.fullmatch(text.strip())
    if duration is not None:
        return shift_time(at, timedelta(minutes=int(duration[1]) * _MINUTES[duration[2]]))
    exact = read_time(text.strip())
    if exact is None:
        raise UsageError(
            f"not a time or a duration: {text!r}",
            field=field,
            hint="Write 2026-01-31, 2026-01-31T12:00:00Z, 30m, 12h, 7d or 2w.",
        )
    return exact


def _scope(
    options: GrantOptions, view: View | None
) -> tuple[tuple[Clause, ...], dict[str, list[str]]]:
    """Return the clauses of a scope and their lists; no clauses means the scope of the parent."""
    clauses, lists = list[Clause](), dict[str, list[str]]()
    entries = texts(options.entries)
    if entries:
        clause, lists = entries_clause(
            list(entries) if view is None else _memory_ids(view, entries)
        )
        clauses.append(clause)
    if options.types:
        types = map(Component, set(texts(options.types)))
        clauses.append(Components(components=tuple(sorted(types))))
    wanted = (options.any_tags, options.tags, options.no_tags)
    tags = [tuple(sorted(set(texts(each)))) for each in wanted]
    if any(tags):
        clauses.append(Tags(any_of=tags[0], all_of=tags[1], none_of=tags[2]))
    if options.everything and clauses:
        raise UsageError(
            "--everything cannot be combined with other restrictions", field="everything"
        )
    if not clauses and not options.everything:
        raise UsageError(
            "a token needs a scope",
            field="scope",
            hint="Restrict it by --type, --tag, --any-tag or --entry; or add --everything.",
        )
    if options.everything and view is not None:
        clauses.append(Wildcard())
    return tuple(clauses), lists


def _memory_ids(view: View, references: Sequence[str]) -> list[str]:
    from satchel.bank.memory import find_memory

    return [find_memory(view, each, "entries").record.id for each in references]


def _write_token(chain: Chain, options: GrantOptions) -> TokenChain:
    output = path_text(options.output)
    if output is not None:
        with atomic_write(Path(output), overwrite=options.overwrite, mode=PRIVATE_FILE) as stream:
            stream.write(chain.encoded())
    return describe_chain(chain, output)


_TOKENS = Filter(types=frozenset({"token"}))


class TokenList(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tokens of a bank, newest first."""

    tokens: list[TokenLine]
    revoked: list[str] = []
    """IDs of revoked tokens that are not listed, such as those that holders issued."""


class TokenRevocation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A revoked token."""

    id: str
    bank: str
    is_new: bool
    """False if it was already revoked."""


class RevocationFile(msgspec.Struct, frozen=True, kw_only=True):
    """A signed list of revoked tokens."""

    bank: str
    output: str
    number: int
    """Higher in each later list."""

    tokens: int
    expires_at: str


@operation(
    TokenListOptions,
    name="token list",
    example="satchel token list --all",
    absent=NOT_FOR_MODELS,
)
def list_tokens(bank: OpenBank, options: TokenListOptions) -> TokenList:
    """List the tokens that were issued for a bank, newest first.

    Args:
        bank: The bank.
        options: Which tokens to list.
    """
    require_owner(bank.settings, "tokens")
    lines, listed, moment = list[TokenLine](), set[str](), now()
    with bank.ledger.reading() as view:
        for token, seq in _issued(view):
            state = _state(token, seq, view, moment)
            if options.all or state in ("active", "not yet valid"):
                lines.append(line_of(token, state))
                listed.add(token.id)
                if len(lines) == options.limit:
                    break
        revoked = view.authority.revoked
    return TokenList(tokens=lines, revoked=sorted(revoked - listed) if options.all else [])


@operation(
    TokenRevokeOptions,
    name="token revoke",
    example='satchel token revoke specialist.token --reason "the work is done"',
    absent=NOT_FOR_MODELS,
)
def revoke_token(
    bank: OpenBank,
    options: TokenRevokeOptions,
    *,
    owner: Callable[[], SigningKey] | None = None,
) -> TokenRevocation:
    """Revoke a token, and every token that was attenuated from it.

    Args:
        bank: The bank, open for writing.
        options: The token; in a file, the last one of the chain.
        owner: Returns the owner's key.

    Raises:
        UsageError: If there is no such token.
        SigningKeyError: If the key is not that of an owner.
        UsageError: If the token is for another bank.
    """
    require_owner(bank.settings, "tokens")
    key = signer_of(bank.settings, options, owner)
    with bank.ledger.reading() as view:
        require_owner_key(view, key)
        token = _resolve_token(view, str(options.token))
        if token in view.authority.revoked:
            return TokenRevocation(id=token, bank=bank.id, is_new=False)
    bank.ledger.append([token_revocation_record(bank.id, token, key, now(), options.reason)])
    return TokenRevocation(id=token, bank=bank.id, is_new=True)


@operation(
    TokenRevocationsOptions,
    name="token revocations",
    example="satchel token revocations --output revoked.json --expires 7d",
    absent={**NOT_FOR_MODELS, "http": "It writes a file."},
)
def write_revocations(
    bank: OpenBank,
    options: TokenRevocationsOptions,
    *,
    owner: Callable[[], SigningKey] | None = None,
) -> RevocationFile:
    """Write a signed list of a bank's revoked tokens, for verifiers without its log.

    Each list has a higher number than those before; a verifier that has seen a newer one refuses an
    older one.

    Args:
        bank: The bank.
        options: The file, and how long the list is valid.
        owner: Returns the owner's key.

    Raises:
        SigningKeyError: If the key is not that of an owner.
        UsageError: If it would be valid for too long.
        TargetError: If the file cannot be written.
    """
    require_owner(bank.settings, "tokens")
    key = signer_of(bank.settings, options, owner)
    with bank.ledger.reading() as view:
        require_owner_key(view, key)
        number, tokens = view.head.size, view.authority.revoked | _by_revoked_issuers(view)
    at, output = now(), Path(options.output)
    until = time_after(options.expires, at, "expires")
    data = signed_list(bank.id, key, number, tokens, (at, until))
    with atomic_write(output, overwrite=options.overwrite) as stream:
        stream.write(data)
    return RevocationFile(
        bank=bank.id, output=str(output), number=number, tokens=len(tokens), expires_at=until
    )


def _issued(view: View) -> list[tuple[SignedToken, int]]:
    """Return the valid tokens in the log with their positions, newest first."""
    tokens = list[tuple[SignedToken, int]]()
    for logged in view.newest(_TOKENS):
        model = logged.model
        if isinstance(model, Token):
            value = {"payload": model.payload, "signatures": [dict(s) for s in model.signatures]}
            try:
                token = parse_token(value)
            except MalformedError:  # written by a later version
                continue
            if token.payload.bank == view.head.bank and is_signed(token):
                tokens.append((token, logged.seq))
    return tokens


def _by_revoked_issuers(view: View) -> set[str]:
    """Return the tokens that are not valid because the key of their issuer was revoked."""
    revoked = view.authority.revoked_keys
    return {token.id for token, _ in _issued(view) if token.payload.issuer in revoked}


def _state(token: SignedToken, seq: int, view: View, at: str) -> str:
    authority, issuer = view.authority, token.payload.issuer
    until = authority.unrevoked_end(issuer)
    is_issued = issuer in authority.owners or (until is not None and seq < until)
    if token.id in authority.revoked or not is_issued:
        return "revoked"
    if token.payload.expires_at <= at:
        return "expired"
    return "not yet valid" if token.payload.not_before > at else "active"


def _resolve_token(view: View, reference: str) -> str:
    """Return the ID of a token by ID, ID prefix, file or JSON."""
    if is_id(reference):
        return reference
    digits = id_digits(reference)
    if digits is not None:
        start = ID_PREFIX + digits
        matches = [token.id for token, _ in _issued(view) if token.id.startswith(start)]
        require_one(matches, reference, "token", noun="tokens")
        if matches:
            return matches[0]
    is_file = not reference.startswith(ID_PREFIX) and Path(reference).is_file()
    if not reference.lstrip().startswith("{") and not is_file:
        raise UsageError(
            "no token of this bank has this ID, and no such file exists",
            field="token",
            hint="See: satchel token list --all.",
        )
    chain = read_chain(reference)
    if chain.bank != view.head.bank:
        raise UsageError("the token is for another bank", field="token")
    return chain.leaf.id
