"""Promoting: raising how far a memory, or all that came with an import, is trusted."""

import msgspec

from satchel.actions.memories.naming import find_record
from satchel.actions.memories.remembering import MOST_TRIES
from satchel.actions.opened import OpenBank
from satchel.actions.options import NOT_FOR_MODELS
from satchel.actions.permitted.owning import require_owner
from satchel.actions.recalling import trust_from
from satchel.actions.waking.options import PromoteOptions
from satchel.errors import ChangedError, UnknownMemoryError, UsageError
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.entries import Entry
from satchel.memory.parts import TrustClass
from satchel.memory.records import Source, Status
from satchel.memory.times import now
from satchel.ports.operations import operation, texts
from satchel.recall.trust import effective_trust, is_trusted
from satchel.seal.records import Sealed
from satchel.seal.sealing import seal


class Promoted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one record."""

    id: str
    type: str
    before: str
    """How far it was trusted."""

    after: str
    is_changed: bool
    dry_run: bool = False


@operation(
    PromoteOptions,
    name="promote",
    example='satchel promote 0f3c12 --trust agent --reason "read it"',
    items="memories",
    absent=NOT_FOR_MODELS,
)
def promote(bank: OpenBank, options: PromoteOptions) -> list[Promoted]:
    """Raise the trust of memories from outside, or of all that an import brought. All, or none.

    Procedures and identity from outside are provided as context only once they are promoted. The
    trust of no memory is lowered.

    Raises:
        UnknownMemoryError: If there is no such memory, or it is a record of another type.
        UsageError: If no memory is named.
    """
    require_owner(bank.settings, "promote")
    wished = trust_from(options.trust, "trust") or TrustClass.USER
    wanted, reason, actor = texts(options.memories), options.reason, options.actor
    if not wanted:
        raise UsageError("no memory given", field="id")
    told = list[Promoted]()
    for attempt in range(MOST_TRIES):
        with bank.ledger.reading() as view:
            found = {one.record.id: one for one in (_found(view, name) for name in wanted)}
            told = [_promoted(view, one, wished, dry_run=options.dry_run) for one in found.values()]
            given = view.unchanged(found.values())
        records = [_said(one.id, wished, reason, actor) for one in told if one.is_changed]
        if not records or options.dry_run:
            break
        try:
            bank.ledger.append(records, given=given)
            break
        except ChangedError:
            if attempt == MOST_TRIES - 1:
                raise
    return told


def _found(view: View, name: str) -> Logged:
    found = find_record(view, name)
    if not isinstance(found.model, Entry | Source):
        raise UnknownMemoryError(
            f"this is the id of a {found.record.type} record",
            field="id",
            hint=(
                "Only memories and source records of imports can be promoted. See: satchel receipt "
                "list."
            ),
        )
    return found


def _promoted(view: View, one: Logged, wished: TrustClass, *, dry_run: bool) -> Promoted:
    before = _trust(view, one)
    return Promoted(
        id=one.record.id,
        type=one.record.type,
        before=before.value,
        after=(before if is_trusted(before, wished) else wished).value,
        is_changed=not is_trusted(before, wished),
        dry_run=dry_run,
    )


def _trust(view: View, one: Logged) -> TrustClass:
    if not isinstance(one.model, Source):
        return effective_trust(view, one)
    earned = one.model.trust or TrustClass.IMPORTED
    raised = [TrustClass(said.trust) for said in view.promotions(one.record.id) if said.trust]
    return min([earned, *raised], key=list(TrustClass).index)


def _said(identity: str, trust: TrustClass, reason: str | None, actor: str | None) -> Sealed:
    metadata = {"trust": trust.value}
    return seal(
        Status(
            target=identity,
            state="promoted",
            reason=reason,
            actor=actor,
            at=now(),
            metadata=metadata,
        )
    )
