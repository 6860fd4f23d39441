"""Handing memory to a live product, in batches, each with what it said before."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice

from satchel.actions.config import Settings
from satchel.actions.memories.naming import versions_of
from satchel.actions.moving.connecting import Asked, opened_connector
from satchel.ledger.view import View
from satchel.memory.entries import Entry
from satchel.ports.connector import Connector, Historian, Taken
from satchel.ports.records import RecordSet
from satchel.ports.report import Report
from satchel.seal.artifact.sections import TYPED_SECTIONS
from satchel.seal.records import Sealed
from satchel.transfer.receipts.handed import Handed

_TOGETHER = 256
_OF_THE_TRANSFER = frozenset({"source", "receipt"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A live product that memory is handed to."""

    name: str
    """Of the connector."""

    address: str
    how: Asked


@dataclass(slots=True)
class Delivered:
    """What became of it."""

    written: int = 0
    known: int = 0
    """There already, saying the same."""

    older: int = 0
    """What the memories said before, handed along; reading a product back does not show it."""


def deliver(
    settings: Settings,
    product: Product,
    records: RecordSet,
    view: View | None,
    report: Report,
    handed: Handed | None = None,
) -> Delivered:
    """Hand records to a live product; what it did not take is counted in the report.

    A batch is durable there before the next one begins; what is there already is left as it is,
    so whoever was stopped runs it again.

    Args:
        settings: The limits.
        product: Where to.
        records: What to hand on.
        view: Of the bank, for what memories said before; None to keep that back.
        report: Where losses and refusals go.
        handed: Is told what the product has, and by which ids; to read that again.

    Raises:
        TargetError: If it cannot be written; the batches before are there.
        LockedError: If another process has it.
    """
    done = Delivered()
    opened = opened_connector(product.name, product.address, settings, product.how)
    with closing(opened) as connector:
        if handed is not None:
            handed.is_to(connector)
        found = _worth_handing(records, report)
        while batch := list(islice(found, _TOGETHER)):
            results, older = _taken(connector, batch, view, report)
            done.older += older
            for record, result in zip(batch, results, strict=True):
                if result.problem is not None:
                    report.lost(record.type, result.problem, example=record.id)
                    continue
                done.known += result.known
                done.written += not result.known
                if handed is not None and result.there is not None:
                    handed.add(result.there, record)
    return done


def _worth_handing(records: RecordSet, report: Report) -> Iterator[Sealed]:
    """Yield everything but what is about the transfer itself."""
    for section, count in records.counts.items():
        kind = TYPED_SECTIONS.get(section)
        if kind is None:
            report.lost(section, "a live product has no such section", count=count)
        elif kind not in _OF_THE_TRANSFER:
            yield from records.of(kind)


def _taken(
    connector: Connector, batch: list[Sealed], view: View | None, report: Report
) -> tuple[list[Taken], int]:
    """Hand a batch over; return what became of it, and how many older versions went along."""
    if view is None or not isinstance(connector, Historian):
        return list(connector.take(batch, report)), 0
    there = view.get([record.id for record in batch])
    older = dict[str, list[Sealed]]()
    for name, logged in there.items():
        if isinstance(logged.model, Entry):
            versions = [one for one in versions_of(view, logged) if one.seq < logged.seq]
            older[name] = [one.record for one in versions if isinstance(one.model, Entry)]
    return list(connector.take_versions(batch, older, report)), sum(map(len, older.values()))
