"""Looking at a capability token: what it says, and whether it holds."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from satchel.actions.config import Settings
from satchel.actions.memories.naming import find_memory
from satchel.actions.opened import OpenBank, is_here, open_bank_in
from satchel.actions.permitted.bearer import read_chain, revoked_keys
from satchel.actions.permitted.owning import require_owner
from satchel.actions.tokens.options import (
    HOLDER,
    NOT_FOR_MODELS,
    TokenInspectOptions,
    TokenVerifyOptions,
)
from satchel.actions.tokens.told import TokenChain, chain_told
from satchel.actions.wiring import has_store, known_owners, opened_store
from satchel.disk.private import private_folder
from satchel.disk.reading import reading
from satchel.disk.writing import PRIVATE_FILE, writing
from satchel.errors import (
    InputError,
    MalformedError,
    PermissionRefusedError,
    RefusedError,
    UsageError,
)
from satchel.ledger.scoped.issuers import issuers
from satchel.ledger.view import View
from satchel.memory.entries import Entry
from satchel.memory.times import now
from satchel.ports.operations import operation, path_text, texts
from satchel.seal.encoding.jcs import canonical, decode_canonical
from satchel.seal.tokens.chain import Chain, Surroundings
from satchel.seal.tokens.revocations import MOST_BYTES, opened_list
from satchel.seal.tokens.token import Permission
from satchel.type_info import resolved

_Numbers = dict[str, Annotated[int, Meta(ge=1)]]
_MOST_SEEN = 2**20


class TokenVerdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether a token is valid; truthy when it is."""

    valid: bool
    code: str | None = None
    problem: str | None = None
    """Why it is not."""

    chain: TokenChain
    checked: list[str]
    """Where revocations were looked up: ``log``, ``list``; empty for nowhere."""

    notes: list[str] = []

    def __bool__(self) -> bool:
        return self.valid

    @property
    def exit_status(self) -> int:
        """0 when it is valid; 3 otherwise."""
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
        options: Which token.

    Raises:
        MalformedError: If it is no token.
        TokenError: If a signature or a link is not valid.
    """
    return chain_told(read_chain(str(options.token)))


@operation(
    TokenVerifyOptions,
    name="token verify",
    example="satchel token verify specialist.token --may read",
    absent=NOT_FOR_MODELS,
)
def verify_token(context: Settings | OpenBank, options: TokenVerifyOptions) -> TokenVerdict:
    """Verify a token: its signatures, its issuer, its times, and that it is not revoked.

    Owners and revocations are those of the bank's log where the bank is here; elsewhere the keys
    that are trusted for this very bank, and a signed list. Exit status: 0 valid, 3 not valid.

    Args:
        context: Where banks and trust are.
        options: Which token, and for what.

    Raises:
        MalformedError: If it is no token.
        TokenError: If a signature or a link is not valid, or the list of revocations is not.
        UsageError: If an entry is asked about and the bank is not here.
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
            revoked |= _listed(settings, Path(revocations), chain, owners)
            checked.append("list")
        if not checked:
            notes.append("revocations are unknown: the bank is not in this store")
        around = Surroundings(
            bank=chain.bank,
            owners=owners if view is None else issuers(view, chain),
            moment=now(),
            revoked=revoked,
            revoked_keys=ended,
            artifact=options.artifact,
        )
        problem = _problem(chain, options, around, view)
    return TokenVerdict(
        valid=problem is None,
        code=None if problem is None else problem.code,
        problem=None if problem is None else problem.message,
        chain=chain_told(chain),
        checked=checked,
        notes=notes,
    )


def _problem(
    chain: Chain, options: TokenVerifyOptions, around: Surroundings, view: View | None
) -> RefusedError | None:
    try:
        chain.require([Permission(each) for each in texts(options.permissions)], around)
        if options.entry is not None:
            if view is None:
                raise UsageError("the bank of the token is not in this store", field="entry")
            found = find_memory(view, options.entry, "entry").model
            if not isinstance(found, Entry) or not chain.covers(found):
                raise PermissionRefusedError("the token does not cover this entry", field="entry")
    except RefusedError as error:
        return error
    return None


@contextmanager
def _bank_here(settings: Settings, bank: str) -> Iterator[View | None]:
    """Give a view of a bank; None where it is not in the store."""
    if not has_store(settings):
        yield None
        return
    with opened_store(settings, read_only=True) as store:
        with store.reading() as reader:
            is_there = is_here(reader, bank)
        if not is_there:
            yield None
            return
        with open_bank_in(settings, store, bank).ledger.reading() as view:
            yield view


def _listed(
    settings: Settings, path: Path, chain: Chain, owners: Collection[str]
) -> frozenset[str]:
    """Return the revoked tokens of a list, and remember that it was seen."""
    with reading(path) as stream:
        data = stream.read(MOST_BYTES + 1)
        seen = _seen(settings)
        least = seen.get(chain.bank, 0)
        found = opened_list(data, chain.bank, owners, moment=now(), least=least)
    if found.number > least:
        private_folder(settings.state)
        with writing(_path(settings), mode=PRIVATE_FILE) as stream:
            stream.write(canonical({**seen, chain.bank: found.number}) + b"\n")
    return frozenset(found.tokens)


def _seen(settings: Settings) -> dict[str, int]:
    """Return the number of the newest list that was seen of each bank."""
    path = _path(settings)
    if not path.exists():
        return {}
    with suppress(InputError, msgspec.ValidationError), reading(path) as stream:
        return msgspec.convert(
            decode_canonical(stream.read(_MOST_SEEN).strip()), resolved(_Numbers)
        )
    raise MalformedError("the stored revocation lists are damaged", file=str(path))


def _path(settings: Settings) -> Path:
    return settings.state / "revocations.json"
