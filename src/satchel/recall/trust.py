"""Trust classes of memories: the claim of a memory, the trust of its import, and promotions.

From high to low: ``user``, ``agent``, ``tool``, ``external``, ``imported``. The lower of the claim
and the import's class counts; only a promotion raises it. Source: docs/spec/2-records.md,
SEAL-2.15.
"""

from satchel.ledger.projection import Promotion, VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Source
from satchel.model.values import Origin, TrustClass

FROM_HIGH_TO_LOW = (
    TrustClass.USER,
    TrustClass.AGENT,
    TrustClass.TOOL,
    TrustClass.EXTERNAL,
    TrustClass.IMPORTED,
)
"""The trust classes in order."""

_RANK = {trust: rank for rank, trust in enumerate(FROM_HIGH_TO_LOW)}


def effective_trust(view: View, logged: VerifiedRecord) -> TrustClass:
    """Return the trust class of a record.

    A record without a claim has the class of its import, or ``user`` if it was written in this
    bank. An import without a class has ``imported``. A promotion raises a record to the class in
    its ``metadata.trust``, or to ``user``; an imported promotion raises it at most to the class of
    that import, so that no file promotes itself.
    """
    source = view.source_of(logged)
    if source is None and logged.row.batch:
        earned = TrustClass.IMPORTED  # its record was erased
    else:
        earned = TrustClass.USER if source is None else _earned(view, source)
    origin: Origin | None = getattr(logged.model, "origin", None)
    claimed = origin.trust if origin is not None and origin.trust is not None else earned
    return _raised(view, lower(claimed, earned), logged.record.id)


def lower(one: TrustClass, other: TrustClass) -> TrustClass:
    """Return the lower of two trust classes."""
    return max(one, other, key=_RANK.__getitem__)


def is_trusted(trust: TrustClass, least: TrustClass) -> bool:
    """Return whether a trust class is at least another."""
    return _RANK[trust] <= _RANK[least]


def _earned(view: View, source: VerifiedRecord) -> TrustClass:
    said = source.model.trust if isinstance(source.model, Source) else None
    return _raised(view, said or TrustClass.IMPORTED, source.record.id)


def _raised(view: View, trust: TrustClass, identity: str) -> TrustClass:
    promoted = [_promoted(view, promotion) for promotion in view.promotions(identity)]
    return min([trust, *promoted], key=_RANK.__getitem__)


def _promoted(view: View, promotion: Promotion) -> TrustClass:
    named = promotion.trust
    trust = TrustClass(named) if named in set(TrustClass) else TrustClass.USER
    if not promotion.batch:
        return trust
    source = view.source_at(promotion.batch)
    said = source.model.trust if source and isinstance(source.model, Source) else None
    return lower(trust, said or TrustClass.IMPORTED)
