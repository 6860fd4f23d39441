"""The part of a bank that a capability token covers.

Everything that a view returns is verified first and filtered here by its verified bytes, so an
edited column or index reveals nothing. Source: docs/spec/6-keys-and-tokens.md, 6.7.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NoReturn

from satchel.crypto.canonical import canonical
from satchel.crypto.sealed_records import Sealed, digest
from satchel.crypto.token_chain import Chain, TokenContext
from satchel.crypto.tokens import Components, Covers, Permission, SignedToken
from satchel.errors import PermissionRefusedError, UnknownBlobError
from satchel.ledger.authority import ADMISSION, DECISIONS
from satchel.ledger.ledger import Clock, Ledger
from satchel.ledger.projection import LogImport, Precondition, StatusEvent, VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Bank, Config, Edge, Entry, Model, Redaction, Status, Token
from satchel.model.values import ENTRY_TYPES, Component, Origin, TrustClass, is_id, now
from satchel.ports.links import Kinds, LoggedLink
from satchel.ports.rows import Filter, Row, slot_of
from satchel.ports.vectors import Generation, VectorValues

_CURRENT = Filter()


class ScopedView(View):
    """A verified view of the part of a bank that a token covers.

    It contains the entries that the token covers; a status if its target is covered, without the ID
    of a replacement that is not; an edge if both its ends are covered. Of the log itself, it
    contains the owners and the keys that may sign its head. Nodes, conversations, files, sources,
    receipts and tokens belong to the bank as a whole and are not in it. Neither are vectors and
    side values: they were computed from the whole bank.

    Args:
        whole: A view of the whole bank at the same size.
        covers: Returns whether an entry is in the scope.
        types: Types that entries in the scope can have; None for any.
    """

    def __init__(
        self, whole: View, covers: Covers, types: frozenset[str] | None = None
    ) -> None:  # the state of ``whole`` is shared, nothing of it is read again
        vars(self).update(vars(whole))
        self._all = whole
        self._covers = covers
        self._types = types
        self._known: dict[str, bool] = {}

    @property
    def whole(self) -> View:
        """The whole bank, for decisions that are not shown: settings, trust, standing."""
        return self._all

    def covers(self, entry: Entry) -> bool:
        """Return whether an entry is in the scope, or would be."""
        return self._covers(entry)

    def has(self, ids: Iterable[str]) -> set[str]:
        """Return the given IDs of visible entries."""
        requested = list(dict.fromkeys(ids))
        unknown = [
            identity for identity in requested if identity not in self._known and is_id(identity)
        ]
        if unknown:
            records = self._all.get(unknown)
            for identity in unknown:
                model = records[identity].model if identity in records else None
                self._known[identity] = isinstance(model, Entry) and self._covers(model)
        return {identity for identity in requested if self._known.get(identity, False)}

    def _verify_rows(self, rows: list[Row], *, pending: bool = False) -> list[VerifiedRecord]:
        found = super()._verify_rows(rows, pending=pending)
        ends = {end for logged in found for end in ends_of(logged.model)}
        there = self.has(ends) if ends else set()
        return [logged for logged in found if self._shows(logged.model, there)]

    def _shows(self, model: Model, present: set[str]) -> bool:
        if isinstance(model, Entry):
            return self._covers(model)
        if isinstance(model, Status | Edge):
            ends = ends_of(model)
            return bool(ends) and ends <= present
        if isinstance(model, Config):
            return model.action == ADMISSION or model.action in DECISIONS
        return isinstance(model, Bank)

    def status_events(
        self, logged: VerifiedRecord, *, as_of: int | None = None
    ) -> list[StatusEvent]:
        """As ``View.status_events``, without the IDs of invisible records."""
        found = super().status_events(logged, as_of=as_of)
        there = self.has(one.by for one in found if one.by is not None)
        return [one if one.by in there else one._replace(by=None) for one in found]

    def retirement(self, row: Row, as_of: int | None = None) -> StatusEvent | None:
        """As ``View.retirement``, without the ID of an invisible record."""
        found = super().retirement(row, as_of)
        if found is None or found.by is None or self.has([found.by]):
            return found
        return found._replace(by=None)

    def versions(self, identity: str) -> set[str]:
        """As ``View.versions``, visible ones only."""
        return self.has(super().versions(identity))

    def links(
        self, ends: Sequence[str], *, incoming: bool, kinds: Kinds = None, limit: int
    ) -> list[LoggedLink]:
        """As ``View.links``, of visible records."""
        found = self._all.links(ends, incoming=incoming, kinds=kinds, limit=limit)
        there = {logged.seq for logged in self.at([linked.place for linked in found])}
        return [linked for linked in found if linked.place in there]

    def nominees(self, text: str, *, limit: int, where: Filter | None = None) -> dict[int, float]:
        """As ``View.nominees``, of the types that can be in the scope."""
        if self._types is None:
            return super().nominees(text, limit=limit, where=where)
        filtering = where or _CURRENT
        types = self._types if filtering.types is None else self._types & filtering.types
        if not types:
            return {}
        return super().nominees(text, limit=limit, where=replace(filtering, types=types))

    def nominal(self, places: Sequence[int]) -> dict[int, Row]:
        """As ``View.nominal``, of visible records, so that a rank does not reveal others."""
        found = super().nominal(places)
        there = self.has(row.id for row in found.values())
        return {place: row for place, row in found.items() if row.id in there}

    def near(
        self, generation: Generation, vector: VectorValues, *, limit: int
    ) -> list[tuple[str, float]]:
        """Return nothing; see ``vectors``."""
        del generation, vector, limit
        return []

    def source_at(self, batch: int) -> VerifiedRecord | None:
        """As ``View.source_at``: the trust in an import applies to everybody."""
        return self._all.source_at(batch)

    def places(self, ids: Sequence[str]) -> dict[str, int]:
        """As ``View.places``, of visible records."""
        return super().places(sorted(self.has(ids)))

    def rows(self, places: Sequence[int]) -> list[Row]:
        """As ``View.rows``, of visible records."""
        found = super().rows(places)
        there = self.has(row.id for row in found)
        return [row for row in found if row.id in there]

    def pending_rows(self, source: str) -> Iterator[Row]:
        """Yield nothing: an unfinished import is visible to the owner only."""
        del source
        return iter(())

    def returned(self) -> list[tuple[int, str]]:
        """Return nothing: erased records are known to the owner only."""
        return []

    def imports(self) -> list[LogImport]:
        """Return nothing: imports belong to the bank as a whole."""
        return []

    def side(self, prefix: str) -> dict[str, bytes]:
        """Return nothing: side values belong to the bank as a whole."""
        del prefix
        return {}

    def nearest(
        self, generation: Generation, vector: VectorValues, *, limit: int = 100
    ) -> list[tuple[VerifiedRecord, float]]:
        """Return nothing; see ``vectors``."""
        del generation, vector, limit
        return []

    def generations(self) -> dict[Generation, int]:
        """Return nothing; see ``vectors``."""
        return {}

    def vectors(self, generation: Generation, ids: Sequence[str]) -> dict[str, tuple[float, ...]]:
        """Return nothing: vectors are computed with data of the whole bank."""
        del generation, ids
        return {}

    def blob(self, digest: str) -> NoReturn:
        """Refuse: blobs belong to the bank as a whole.

        Raises:
            UnknownBlobError: Always.
        """
        raise UnknownBlobError("no such blob", field=digest)


def ends_of(model: Model) -> frozenset[str]:
    """Return the IDs that a status or an edge names; none for other records.

    An end of an edge that is no ID is a name and represents itself.
    """
    if isinstance(model, Status):
        return frozenset({model.target} if model.by is None else {model.target, model.by})
    if isinstance(model, Edge):
        return frozenset(end for end in (model.source, model.target) if is_id(end))
    return frozenset()


_TOKENS = Filter(types=frozenset({"token"}), retired=True, held=True)


def issuers(view: View, chain: Chain) -> frozenset[str]:
    """Return the keys that may have issued the first token of a chain.

    A key that was replaced or retired issues no more tokens. Tokens that it had issued stay valid:
    the log position of the token decides, since the times in a token can be made up.
    """
    return view.authority.owners | _former(view, chain.tokens[0])


def _former(view: View, root: SignedToken) -> frozenset[str]:
    issuer = root.payload.issuer
    until = view.authority.unrevoked_end(issuer)
    if until is None or issuer in view.authority.owners:
        return frozenset()
    for logged in view.newest(_TOKENS):
        model = logged.model
        if logged.seq < until and isinstance(model, Token) and _id_of(model) == root.id:
            return frozenset({issuer})
    return frozenset()


def _id_of(record: Token) -> str:
    return digest(canonical(dict(record.payload)))


ADDING = frozenset({Permission.WRITE, Permission.DERIVE, Permission.REDACT})
"""Permissions to add records to a bank."""

_OUTSIDE = "the token does not allow adding this"


@dataclass(frozen=True)
class VerifiedChain:
    """A chain of tokens with a verified proof of possession by its holder."""

    chain: Chain
    revoked_keys: Callable[[], frozenset[str]] = frozenset
    """Returns the keys that are revoked on this machine."""

    clock: Clock = now
    covers: Covers = field(init=False)
    types: frozenset[str] | None = field(init=False)
    """Types that entries in its scope can have; None for any."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "covers", self.chain.covers)
        object.__setattr__(self, "types", _types_of(self.chain))

    def require(self, needed: frozenset[Permission], view: View) -> None:
        """Require that the chain is valid under a view's head and grants permissions.

        Raises:
            TokenError, TokenTimeError, TokenRevokedError, PermissionRefusedError: If not.
        """
        around = TokenContext(
            bank=view.head.bank,
            owners=issuers(view, self.chain),
            moment=self.clock(),
            revoked=view.authority.revoked,
            revoked_keys=self.revoked_keys() | view.authority.revoked_keys,
        )
        self.chain.require(needed, around)


class ScopedLedger(Ledger):
    """One bank, for one operation of a token holder.

    Args:
        inner: The bank.
        held: The chain that the holder presented.
        needed: The permissions that the operation needs; None, before they are known, refuses
            everything.
    """

    def __init__(
        self, inner: Ledger, chain: VerifiedChain, needed: frozenset[Permission] | None
    ) -> None:
        self.bank = inner.bank
        self.inner = inner
        """The bank with its owner's access."""
        self._held = chain
        self._needed = needed

    @contextmanager
    def reading(self, *, fresh: bool = False) -> Iterator[View]:
        """Yield a consistent, verified view of what the token covers.

        Raises:
            TokenError, PermissionRefusedError: If the token is invalid, or does not allow it.
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
        precondition: Precondition | None = None,
        forms: Mapping[str, bytes] | None = None,
    ) -> list[int]:
        """Append records, all of which must be in the scope; see ``Ledger.append``.

        Raises:
            TokenError, PermissionRefusedError: If the token is invalid, or does not allow a record.
        """
        if not ADDING & (self._needed or frozenset()) or batch is not None or side:
            raise PermissionRefusedError(_OUTSIDE)
        with self.inner.reading() as view:
            self._held.require(self._needed or frozenset(), view)
            redacts = Permission.REDACT in (self._needed or ())
            _AppendVerification(self._held, self._part(view), records, redacts=redacts).require()
        return self.inner.append(records, precondition=precondition, forms=forms)

    def append_rows(self, *_: object, **__: object) -> NoReturn:
        """Refuse: imports are reserved for the owner."""
        raise PermissionRefusedError(_OUTSIDE)

    def transaction(self, *_: object, **__: object) -> NoReturn:
        """Refuse: imports are reserved for the owner."""
        raise PermissionRefusedError(_OUTSIDE)

    def decide(self, *_: object, **__: object) -> NoReturn:
        """Refuse: decisions about the bank are reserved for its owners."""
        raise PermissionRefusedError(_OUTSIDE)

    def _part(self, view: View) -> ScopedView:
        return ScopedView(view, self._held.covers, self._held.types)


class _AppendVerification:
    """Verification of all records that a holder is about to append."""

    def __init__(
        self, chain: VerifiedChain, view: ScopedView, records: Sequence[Sealed], *, redacts: bool
    ) -> None:
        self._view = view
        self._redacts = redacts
        self._allowed = chain.chain.permissions
        self._models: list[Model] = [record.model for record in records]
        self._new = {each.id for each in self._models if isinstance(each, Entry)}

    def require(self) -> None:
        """Require that all of them are in the scope.

        Raises:
            PermissionRefusedError: If one is not; the error reveals nothing about existing records.
        """
        if not all(map(self._fits, self._models)):
            raise PermissionRefusedError(_OUTSIDE)

    def _fits(self, model: Model) -> bool:
        if self._redacts or isinstance(model, Redaction):  # the one operation that it allows
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
            return False  # a holder's record does not have the authority of the user
        if not self._is_free(slot_of(entry)):
            return False
        drawn = set(entry.parent_ids) - self._of_predecessors(entry)
        if not drawn:
            return True
        needed = {Permission.DERIVE, Permission.READ}
        return needed <= self._allowed and self._has(frozenset(drawn))

    def _of_predecessors(self, entry: Entry) -> set[str]:
        """Return the parents that an entry inherits from its previous version."""
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
        if status.state == "restored":  # not beside a version that the holder cannot see
            every = self._view.whole.versions(status.target)
            target = self._view.get([status.target])[status.target]
            return every == self._view.has(every) and self._is_free(target.row.slot)
        return status.state in ("superseded", "deleted")

    def _is_free(self, slot: str | None) -> bool:
        """Return whether no invisible record has this slot."""
        there = None if slot is None else self._view.whole.current(slot)
        return there is None or self._has(frozenset({there.record.id}))

    def _has(self, ids: frozenset[str]) -> bool:
        named = ids - self._new
        return bool(ids) and named == self._view.has(named)


def _types_of(chain: Chain) -> frozenset[str] | None:
    types = ENTRY_TYPES
    for token in chain.tokens:
        for clause in token.payload.scope:
            if isinstance(clause, Components):
                types &= {part.value for part in clause.components}
    return None if len(types) == len(Component) else types
