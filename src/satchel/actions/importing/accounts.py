"""What an import is going to do to its banks, or did, as values that can be kept."""

from collections import Counter
from typing import Any, Protocol

import msgspec

from satchel.actions.importing.arriving import Arriving
from satchel.actions.importing.imported import BankImported, ImportOptions
from satchel.actions.inferring.duplicates import Arrivals
from satchel.actions.receipts.keeping import tool
from satchel.memory.times import now
from satchel.transfer.incoming.plan import Plan
from satchel.transfer.incoming.planned import Planned
from satchel.transfer.incoming.tenants import Tenants
from satchel.transfer.receipts.account import (
    VERSION,
    Account,
    End,
    counted,
    lost_in,
    notes_in,
    refusals_in,
    told,
)
from satchel.transfer.receipts.census import Census
from satchel.transfer.receipts.plans import NearDuplicate, Target, Tenant, TransferPlan
from satchel.transfer.receipts.tally import Tally

_MOST_TENANTS, _MOST_NEAR = 1000, 100
_PASSES = 2.5
"""How often reading takes as long as all of it: reading, logging, reading back."""


class Work(Protocol):
    """An import, as far as it is told of."""

    arriving: Arriving
    asked: ImportOptions
    census: Census
    tenants: Tenants
    banks: dict[str, BankImported]
    plans: dict[str, Plan]
    near: Arrivals


def account_of_import(
    work: Work, bank: BankImported, read: Counter[str], tally: Tally | None
) -> Account:
    """Return what was done to one bank.

    Args:
        work: The import.
        bank: The bank.
        read: What arrived for it, by type.
        tally: What was logged, as read back; None where there was nothing to log.
    """
    arriving = work.arriving
    there = tally.records if tally is not None else Counter[str]()
    done = {
        name: number
        for name, number in msgspec.to_builtins(bank.done).items()
        if name not in ("left", "read")
    }
    return Account(
        version=VERSION,
        kind="import",
        tool=tool(),
        began=work.arriving.began,
        ended=now(),
        input=_input(work),
        output=End(
            name=told(bank.name or ""),
            bank=bank.bank,
            records=there.total() if tally is not None else None,
        ),
        counts=counted(read, there, there, there),
        source=bank.source,
        unchanged=tally is None,
        done=done,
        left=bank.done.left,
        resumed=bank.resumed,
        verdict=arriving.verdict.outcome.value if arriving.verdict else None,
        read_back="equal" if tally is not None else None,
        kept=tally.kept if tally is not None else {},
        **_told_of(work),
    )


def _input(work: Work) -> End:
    arriving = work.arriving
    return End(
        name=told(arriving.name),
        format=arriving.format,
        digest=arriving.digest,
        bytes=arriving.size,
        records=work.census.types.total(),
    )


def _told_of(work: Work) -> dict[str, Any]:
    """Return what is said of the input as a whole."""
    report, screening = work.arriving.report, work.arriving.screening
    return {
        "sidecar": work.arriving.sidecar,
        "lost": lost_in(report, work.asked.accept_loss),
        "refused": report.left_out,
        "refusals": refusals_in(report),
        "accepted": [told(one) for one in work.asked.accept_loss],
        "secrets": screening.found,
        "secrets_kept": screening.kept,
        "notes": notes_in(report),
    }


def plan_of_import(work: Work) -> TransferPlan:
    """Return what an import would do."""
    report, census, size = work.arriving.report, work.census, work.arriving.size
    near = work.near
    targets = [_target(bank, work.plans[name]) for name, bank in work.banks.items()]
    owners = work.tenants.owners.most_common(_MOST_TENANTS)
    only = targets[0].name if len(targets) == 1 else f"{len(targets)} banks"
    return TransferPlan(
        version=VERSION,
        kind="import",
        tool=tool(),
        input=_input(work),
        output=End(name=only),
        read=dict(sorted(census.types.items())),
        targets=targets,
        embedding=census.embedding,
        seconds=census.seconds_for(_PASSES),
        bytes_per_second=census.rate(size),
        tenants=[
            Tenant(
                sort=owner[0] or "nobody",
                name=told(owner[1]),
                records=number,
                bank=work.tenants.bank_of(owner),
                mapped=work.tenants.is_mapped(owner),
            )
            for owner, number in owners
        ],
        tenants_left=max(0, len(work.tenants.owners) - _MOST_TENANTS),
        cannot_hold=lost_in(report, work.asked.accept_loss),
        refused=report.left_out,
        refusals=refusals_in(report),
        near_duplicates=near.found if near.looked else None,
        near_examples=[
            NearDuplicate(one=pair.id, other=pair.like, similarity=round(pair.similarity, 4))
            for pair in near.pairs[:_MOST_NEAR]
        ],
        secrets=work.arriving.screening.found,
        notes=[*notes_in(report), *map(told, near.notes)],
    )


def _target(bank: BankImported, plan: Plan) -> Target:
    done: Planned = bank.done
    return Target(
        name=told(bank.name or bank.bank or ""),
        bank=bank.bank,
        makes=bank.bank is None,
        created=done.added + done.others,
        changed=done.overwritten + done.vanished + done.restored + done.others_changed,
        left_alone=done.known + done.forgotten + done.twice + done.skipped + done.others_left,
        conflicts=done.skipped + done.overwritten + done.renamed + done.others_in_conflict,
        conflict_examples=[told(one) for one in plan.conflicts],
    )
