"""Issuing a capability token as an owner, and handing a part of one on as its holder."""

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

from satchel.actions.config import Settings
from satchel.actions.opened import OpenBank
from satchel.actions.permitted.bearer import holder_key, read_chain
from satchel.actions.permitted.owning import require_owner
from satchel.actions.signing import read_public_key, signer_of, stated_key
from satchel.actions.tokens.options import (
    HOLDER,
    NOT_FOR_MODELS,
    GrantOptions,
    TokenAttenuateOptions,
    TokenIssueOptions,
)
from satchel.actions.tokens.told import TokenChain, chain_told
from satchel.disk.writing import PRIVATE_FILE, writing
from satchel.errors import LimitError, MalformedError, SigningKeyError, UsageError
from satchel.ledger.view import View
from satchel.memory.parts import Component
from satchel.memory.records import Token
from satchel.memory.times import now, read_time
from satchel.ports.operations import operation, path_text, texts
from satchel.seal.sealing import seal
from satchel.seal.signing.key import SigningKey
from satchel.seal.tokens.chain import Chain, attenuated, linked
from satchel.seal.tokens.scope import (
    Clause,
    Components,
    Tags,
    Wildcard,
    entries_clause,
)
from satchel.seal.tokens.token import Grant, Permission, issue, payload_value, shifted

MOST_LIST_BYTES = 16 * 2**20
"""Of a file with ids."""

_AGE = re.compile(r"(\d{1,5})(m|h|d|w)")
_MINUTES = {"m": 1, "h": 60, "d": 24 * 60, "w": 7 * 24 * 60}
_USUAL, _USUAL_BEARER = timedelta(days=7), timedelta(hours=1)


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
    """Issue a capability token: who may do what with which memories of a bank, until when.

    The token is signed by an owner of the bank and recorded in its log, where it can be revoked.
    All restrictions apply together. Its holder presents it with `--token` or SATCHEL_TOKEN, and
    proves by its key to be the audience.

    Args:
        bank: The bank, open for writing.
        options: What it allows.
        owner: Returns the owner's key.

    Raises:
        UsageError: If no token can say that.
        SigningKeyError: If the key is not that of an owner.
        UnknownMemoryError: If there is no such entry.
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
    chain = linked((issue(bank.id, key, _grant(bank.settings, options, scope)),), lists)
    value = chain.leaf.value()
    record = Token(
        payload=payload_value(chain.leaf.payload),
        signatures=tuple(value["signatures"]),
        at=chain.leaf.payload.issued_at,
    )
    bank.ledger.append([seal(record)])
    return _written(chain, options)


@operation(
    TokenAttenuateOptions,
    name="token attenuate",
    example="satchel token attenuate my.token --audience helper --any-tag build -o helper.token",
    absent={**NOT_FOR_MODELS, "http": HOLDER},
)
def attenuate_token(settings: Settings, options: TokenAttenuateOptions) -> TokenChain:
    """Attenuate a token: hand a part of it on, as its holder.

    The new token allows at most what the token allows, and expires no later. Only the holder's key
    is needed: no store, and no permission of the owner.

    Args:
        settings: Where the holder's key is.
        options: Which part.

    Raises:
        UsageError: If it would allow more, or no token can say that.
        SigningKeyError: If the holder's key is not here.
        TokenError: If the token itself is not valid.
    """
    chain = read_chain(str(options.token))
    if chain.audience is None:
        raise UsageError("a bearer token cannot be attenuated", field="token")
    scope, lists = _scope(options, None)
    grant = _grant(settings, options, scope or chain.leaf.payload.scope, chain)
    key = holder_key(settings, chain.audience)
    return _written(attenuated(chain, key, grant, lists), options)


def ids_in(data: bytes) -> list[str]:
    """Return the ids of a file that has one a line; empty lines and a rest after a space are left.

    Raises:
        LimitError: If it is too large.
        MalformedError: If it is no text.
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
    """Require that a key is that of an owner of a bank.

    Raises:
        SigningKeyError: If it is not.
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
    usual = shifted(at, _USUAL_BEARER if audience is None else _USUAL)
    if parent is not None:
        usual = min(usual, *(token.payload.expires_at for token in parent.tokens))
    unknown = sorted(set(options.permissions) - set(Permission))
    if unknown:
        raise UsageError(
            f"unknown permission {unknown[0]!r}",
            field="permissions",
            hint=f"Choose from: {', '.join(Permission)}.",
        )
    return Grant(
        scope=scope,
        permissions=texts(options.permissions),
        issued_at=at,
        not_before=None
        if options.not_before is None
        else moment(options.not_before, at, "not_before"),
        expires_at=usual if options.expires is None else moment(options.expires, at, "expires"),
        audience=audience,
        root_hash=options.artifact,
    )


def audience_of(settings: Settings, text: str) -> str:
    """Return the did:key that a person means: itself, the name of a key here, or a file with one.

    Raises:
        MalformedError, UnreadableError: If it is none of them.
    """
    return _named_key(settings, text) or read_public_key(text)


def audience_from_elsewhere(settings: Settings, text: str) -> str:
    """Return the did:key that somebody elsewhere means: itself, in hex, or the name of a key here.

    A name of theirs names no file of this machine's.

    Raises:
        MalformedError: If it is none of them.
    """
    found = _named_key(settings, text) or stated_key(text)
    if found is None:
        raise MalformedError(
            "neither a public key nor the name of a known key",
            field="audience",
            hint="Give a did:key or 64 hex digits.",
        )
    return found


def _named_key(settings: Settings, text: str) -> str | None:
    if text in settings.keyring.names():
        return settings.keyring.read(text).key
    known = [key.key for key in settings.registry.listed() if key.name == text]
    return known[0] if len(known) == 1 else None


def moment(text: str, at: str, field: str) -> str:
    """Return the moment that a date, a time, or a while from now names.

    Raises:
        UsageError: If it names none.
    """
    found = _AGE.fullmatch(text.strip())
    if found is not None:
        return shifted(at, timedelta(minutes=int(found[1]) * _MINUTES[found[2]]))
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
    """Return the clauses of a scope, and the lists beside them; none means the same scope."""
    clauses, lists = list[Clause](), dict[str, list[str]]()
    entries = texts(options.entries)
    if entries:
        clause, lists = entries_clause(list(entries) if view is None else _found(view, entries))
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


def _found(view: View, wanted: Sequence[str]) -> list[str]:
    from satchel.actions.memories.naming import find_memory

    return [find_memory(view, each, "entries").record.id for each in wanted]


def _written(chain: Chain, options: GrantOptions) -> TokenChain:
    output = path_text(options.output)
    if output is not None:
        with writing(Path(output), overwrite=options.overwrite, mode=PRIVATE_FILE) as stream:
            stream.write(chain.encoded())
    return chain_told(chain, output)
