"""A bank's log in the hands of somebody who presented a capability token.

Each view and each append asks again whether the token holds: a handle that stays open sees a
revocation with the next head, and ends when the token does.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NoReturn

from satchel.errors import PermissionRefusedError
from satchel.ledger.ledger import Clock, Ledger
from satchel.ledger.logged import Unchanged
from satchel.ledger.scoped.issuers import issuers
from satchel.ledger.scoped.view import ScopedView, ends_of
from satchel.ledger.view import View
from satchel.memory.entries import Entry
from satchel.memory.parts import Component, Origin, TrustClass
from satchel.memory.records import Edge, Model, Redaction, Status
from satchel.memory.times import now
from satchel.ports.rows import slot_of
from satchel.seal.records import Sealed
from satchel.seal.tokens.chain import Chain, Surroundings
from satchel.seal.tokens.scope import Components, Covers
from satchel.seal.tokens.token import Permission

ADDING = frozenset({Permission.WRITE, Permission.DERIVE, Permission.REDACT})
"""What lets something be added to a bank."""

_OUTSIDE = "the token does not allow adding this"


@dataclass(frozen=True)
class Held:
    """A chain of tokens whose holder proved to be its audience."""

    chain: Chain
    revoked_keys: Callable[[], frozenset[str]] = frozenset
    """Gives the keys whose word does not count any more on this machine."""

    clock: Clock = now
    covers: Covers = field(init=False)
    types: frozenset[str] | None = field(init=False)
    """Types that entries in its scope can have; None for any."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "covers", self.chain.covers)
        object.__setattr__(self, "types", _types_of(self.chain))

    def require(self, needed: frozenset[Permission], view: View) -> None:
        """Require that it holds now, under the head of a view, and allows something; see ``Chain``.

        Raises:
            TokenError, TokenTimeError, TokenRevokedError, PermissionRefusedError: If not.
        """
        around = Surroundings(
            bank=view.head.bank,
            owners=issuers(view, self.chain),
            moment=self.clock(),
            revoked=view.authority.revoked,
            revoked_keys=self.revoked_keys() | view.authority.revoked_keys,
        )
        self.chain.require(needed, around)


class ScopedLedger(Ledger):
    """One bank, for one action of a holder.

    Args:
        inner: The bank.
        held: What the holder presented.
        needed: What the action asks for; None while no action has asked, when nothing is given.
    """

    def __init__(self, inner: Ledger, held: Held, needed: frozenset[Permission] | None) -> None:
        self.bank = inner.bank
        self.inner = inner
        """The bank as its owner has it."""
        self._held = held
        self._needed = needed

    @contextmanager
    def reading(self, *, fresh: bool = False) -> Iterator[View]:
        """Give one consistent, verified view of what the token covers.

        Raises:
            TokenError, PermissionRefusedError: If the token does not hold, or allow it.
            SatchelError: As ``Ledger.reading``.
        """
        if self._needed is None:
            raise PermissionRefusedError("this is not covered by any token permission")
        with self.inner.reading(fresh=fresh) as view:
            self._held.require(self._needed, view)
            yield view if self._held.chain.is_wildcard else self._part(view)

    def append(
        self,
        records: Sequence[Sealed],
        *,
        batch: str | None = None,
        side: Mapping[str, bytes | None] | None = None,
        given: Unchanged | None = None,
        forms: Mapping[str, bytes] | None = None,
    ) -> list[int]:
        """Add records, each of which has to be in the scope; see ``Ledger.append``.

        Raises:
            TokenError, PermissionRefusedError: If the token does not hold, or allow one of them.
        """
        if not ADDING & (self._needed or frozenset()) or batch is not None or side:
            raise PermissionRefusedError(_OUTSIDE)
        with self.inner.reading() as view:
            self._held.require(self._needed or frozenset(), view)
            redacts = Permission.REDACT in (self._needed or ())
            _Adding(self._held, self._part(view), records, redacts=redacts).require()
        return self.inner.append(records, given=given, forms=forms)

    def append_rows(self, *_: object, **__: object) -> NoReturn:
        """Refuse: an import is its owner's."""
        raise PermissionRefusedError(_OUTSIDE)

    def transaction(self, *_: object, **__: object) -> NoReturn:
        """Refuse: an import is its owner's."""
        raise PermissionRefusedError(_OUTSIDE)

    def decide(self, *_: object, **__: object) -> NoReturn:
        """Refuse: what concerns the bank as a whole is its owner's to decide."""
        raise PermissionRefusedError(_OUTSIDE)

    def _part(self, view: View) -> ScopedView:
        return ScopedView(view, self._held.covers, self._held.types)


class _Adding:
    """Judges what a holder is going to add, all of it together."""

    def __init__(
        self, held: Held, view: ScopedView, records: Sequence[Sealed], *, redacts: bool
    ) -> None:
        self._view = view
        self._redacts = redacts
        self._allowed = held.chain.permissions
        self._models: list[Model] = [record.model for record in records]
        self._new = {each.id for each in self._models if isinstance(each, Entry)}

    def require(self) -> None:
        """Require that all of it is in the scope.

        Raises:
            PermissionRefusedError: If something is not; nothing is said of what is there.
        """
        if not all(map(self._fits, self._models)):
            raise PermissionRefusedError(_OUTSIDE)

    def _fits(self, model: Model) -> bool:
        if self._redacts or isinstance(model, Redaction):  # the one thing that it lets be done
            return (
                self._redacts
                and isinstance(model, Redaction)
                and self._has(frozenset({model.entry}))
            )
        if isinstance(model, Entry):
            return self._fits_entry(model)
        if isinstance(model, Status):
            return self._fits_status(model)
        return isinstance(model, Edge) and self._has(ends_of(model))

    def _fits_entry(self, entry: Entry) -> bool:
        origin: Origin | None = entry.origin
        trust = origin.trust if origin is not None else None
        if trust is None or trust is TrustClass.USER or not self._view.covers(entry):
            return False  # what a holder says is not what the user said
        if not self._is_free(slot_of(entry)):
            return False
        drawn = set(entry.parent_ids) - self._of_predecessors(entry)
        if not drawn:
            return True
        needed = {Permission.DERIVE, Permission.READ}
        return needed <= self._allowed and self._has(frozenset(drawn))

    def _of_predecessors(self, entry: Entry) -> set[str]:
        """Return the parents that an entry has because the version before it has them."""
        before = [
            model.target
            for model in self._models
            if isinstance(model, Status) and model.by == entry.id
        ]
        found = self._view.get(sorted(self._view.has(before)))
        models = (logged.model for logged in found.values())
        return {one for each in models if isinstance(each, Entry) for one in each.parent_ids}

    def _fits_status(self, status: Status) -> bool:
        if Permission.WRITE not in self._allowed or not self._has(ends_of(status)):
            return False
        if status.state == "restored":  # not beside a version that the holder does not see
            every = self._view.whole.versions(status.target)
            target = self._view.get([status.target])[status.target]
            return every == self._view.has(every) and self._is_free(target.row.slot)
        return status.state in ("superseded", "deleted")

    def _is_free(self, slot: str | None) -> bool:
        """Tell whether nothing that the holder does not see speaks of the same thing."""
        there = None if slot is None else self._view.whole.current(slot)
        return there is None or self._has(frozenset({there.record.id}))

    def _has(self, ids: frozenset[str]) -> bool:
        named = ids - self._new
        return bool(ids) and named == self._view.has(named)


def _types_of(chain: Chain) -> frozenset[str] | None:
    found = frozenset(map(str, Component))
    for token in chain.tokens:
        for clause in token.payload.scope:
            if isinstance(clause, Components):
                found &= {part.value for part in clause.components}
    return None if len(found) == len(Component) else found
