"""Issuing a capability token as an owner, and handing a part of one on as its holder."""

import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import msgspec

from satchel.actions.config import Settings
from satchel.actions.opened import OpenBank
from satchel.actions.permitted.bearer import holder_key, read_chain
from satchel.actions.permitted.owning import require_owner
from satchel.actions.signing import read_public_key, stated_key
from satchel.actions.tokens.told import ChainTold, chain_told
from satchel.disk.writing import PRIVATE_FILE, writing
from satchel.errors import LimitError, MalformedError, SigningKeyError, UsageError
from satchel.ledger.view import View
from satchel.memory.parts import Component
from satchel.memory.records import Token
from satchel.memory.times import now, read_time
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


class TokenAsked(msgspec.Struct, frozen=True, kw_only=True):
    """What a token is to say."""

    audience: str | None = None
    """Whose it is to be: a did:key, a file with one, or the name of a key here. None for whoever
    has it: such a token lasts a day at most, and cannot be handed on in part."""

    permissions: Sequence[str] = ("read",)
    """Of read, write, derive, redact, export, rehydrate."""

    entries: Sequence[str] = ()
    """Only these entries."""

    components: Sequence[str] = ()
    """Only entries of these components."""

    any_of: Sequence[str] = ()
    """Only entries with one of these tags."""

    all_of: Sequence[str] = ()
    """Only entries with all of these tags."""

    none_of: Sequence[str] = ()
    """Only entries with none of these tags."""

    everything: bool = False
    """All of the bank. Of a part that is handed on: whatever the token itself allows."""

    expires: str | None = None
    """A moment, or from now on ``30m``, ``12h``, ``7d``, ``2w``; 7 days when not given, an hour
    without an audience, and never longer than the token that it is made from."""

    not_before: str | None = None
    """From when on; at once when not given. As ``expires``."""

    root_hash: str | None = None
    """The one artifact that it counts for; then it opens no bank."""


def issue_token(
    bank: OpenBank,
    asked: TokenAsked,
    owner: SigningKey,
    *,
    output: Path | None = None,
    overwrite: bool = False,
) -> ChainTold:
    """Sign a token as an owner of a bank, and note it in the bank's log.

    Args:
        bank: The bank, open for writing.
        asked: What it is to say.
        owner: The owner's key.
        output: A file for it, which only its owner may read.
        overwrite: Whether a file that is there is replaced.

    Raises:
        UsageError: If it cannot say that.
        SigningKeyError: If the key is not that of an owner.
        UnknownMemoryError: If an entry that is named is not there.
        TargetError: If the file cannot be written; the token is noted in the log then.
    """
    require_owner(bank.settings, "tokens")
    with bank.ledger.reading() as view:
        require_owner_key(view, owner)
        scope, lists = _scope(asked, view)
    chain = linked((issue(bank.id, owner, _grant(bank.settings, asked, scope)),), lists)
    value = chain.leaf.value()
    record = Token(
        payload=payload_value(chain.leaf.payload),
        signatures=tuple(value["signatures"]),
        at=chain.leaf.payload.issued_at,
    )
    bank.ledger.append([seal(record)])
    return _written(chain, output, overwrite=overwrite)


def attenuate_token(
    settings: Settings,
    token: str,
    asked: TokenAsked,
    *,
    output: Path | None = None,
    overwrite: bool = False,
) -> ChainTold:
    """Hand a part of a token on, as its holder. Nothing but its key is needed for that.

    What the new token says counts together with what those before it say, so it can only narrow.

    Args:
        settings: Where the holder's key is.
        token: The file, or its JSON.
        asked: What the part is.
        output: A file for it, which only its owner may read.
        overwrite: Whether a file that is there is replaced.

    Raises:
        UsageError: If it would say more, or cannot say that.
        SigningKeyError: If the holder's key is not here.
        TokenError: If the token itself does not hold.
    """
    chain = read_chain(token)
    if chain.audience is None:
        raise UsageError("a bearer token cannot be handed on in part", field="audience")
    scope, lists = _scope(asked, None)
    grant = _grant(settings, asked, scope or chain.leaf.payload.scope, chain)
    key = holder_key(settings, chain.audience)
    made = attenuated(chain, key, grant, lists)
    return _written(made, output, overwrite=overwrite)


def ids_in(data: bytes) -> list[str]:
    """Return the ids of a file that has one a line; empty lines and a rest after a space are left.

    Raises:
        LimitError: If it is too large.
        MalformedError: If it is no text.
    """
    if len(data) > MOST_LIST_BYTES:
        raise LimitError(f"a list of ids has {MOST_LIST_BYTES:,} bytes at most", field="entries")
    try:
        lines = data.decode("ascii").splitlines()
    except UnicodeDecodeError:
        raise MalformedError("not a list of ids", field="entries") from None
    return [text.split()[0] for text in lines if text.strip()]


def require_owner_key(view: View, owner: SigningKey) -> None:
    """Require that a key is that of an owner of a bank.

    Raises:
        SigningKeyError: If it is not.
    """
    if owner.did not in view.authority.owners:
        raise SigningKeyError(
            "this key is not that of an owner of the bank",
            field="key",
            hint=f"Its owners: {', '.join(sorted(view.authority.owners))}. Say --key NAME.",
        )


def _grant(
    settings: Settings,
    asked: TokenAsked,
    scope: tuple[Clause, ...],
    parent: Chain | None = None,
) -> Grant:
    audience = None if asked.audience is None else audience_of(settings, asked.audience)
    at = now()
    usual = shifted(at, _USUAL_BEARER if audience is None else _USUAL)
    if parent is not None:
        usual = min(usual, *(token.payload.expires_at for token in parent.tokens))
    unknown = sorted(set(asked.permissions) - set(Permission))
    if unknown:
        raise UsageError(
            f"there is no permission {unknown[0]!r}",
            field="permissions",
            hint=f"There are: {', '.join(Permission)}.",
        )
    return Grant(
        scope=scope,
        permissions=asked.permissions,
        issued_at=at,
        not_before=None if asked.not_before is None else moment(asked.not_before, at, "not_before"),
        expires_at=usual if asked.expires is None else moment(asked.expires, at, "expires"),
        audience=audience,
        root_hash=asked.root_hash,
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
            "neither a public key nor the name of one that is known here",
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
            f"neither a moment nor a while: {text!r}",
            field=field,
            hint="Write 2026-01-31, 2026-01-31T12:00:00Z, 30m, 12h, 7d or 2w.",
        )
    return exact


def _scope(asked: TokenAsked, view: View | None) -> tuple[tuple[Clause, ...], dict[str, list[str]]]:
    """Return the clauses of a scope, and the lists that go beside them; none says: the same."""
    clauses, lists = list[Clause](), dict[str, list[str]]()
    if asked.entries:
        ids = list(asked.entries) if view is None else _found(view, asked.entries)
        clause, lists = entries_clause(ids)
        clauses.append(clause)
    if asked.components:
        unknown = sorted(set(asked.components) - set(Component))
        if unknown:
            raise UsageError(
                f"there is no component {unknown[0]!r}",
                field="components",
                hint=f"There are: {', '.join(Component)}.",
            )
        clauses.append(Components(components=tuple(sorted(map(Component, set(asked.components))))))
    tags = [tuple(sorted(set(each))) for each in (asked.any_of, asked.all_of, asked.none_of)]
    if any(tags):
        clauses.append(Tags(any_of=tags[0], all_of=tags[1], none_of=tags[2]))
    if asked.everything and clauses:
        raise UsageError("everything has no other bounds", field="everything")
    if not clauses and not asked.everything:
        raise UsageError(
            "say which memory it is for",
            field="scope",
            hint="By component, by tags or by entries; or all of it: --everything.",
        )
    if asked.everything and view is not None:
        clauses.append(Wildcard())
    return tuple(clauses), lists


def _found(view: View, wanted: Sequence[str]) -> list[str]:
    from satchel.actions.memories.naming import find_memory

    return [find_memory(view, each, "entries").record.id for each in wanted]


def _written(chain: Chain, output: Path | None, *, overwrite: bool) -> ChainTold:
    if output is not None:
        with writing(output, overwrite=overwrite, mode=PRIVATE_FILE) as stream:
            stream.write(chain.encoded())
    return chain_told(chain, None if output is None else str(output))
