"""A store with every kind of record, and all values of its views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ledger_kit import WRITER, memories

from satchel.bank.banks import create_bank
from satchel.bank.connections import configured_store, open_ledger
from satchel.bank.machine_keys import signing_key
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import seal
from satchel.ledger.ledger import Ledger
from satchel.ledger.transaction import closing_receipt
from satchel.model.records import Edge, Erasure, FileVersion, Semantic, SessionEvent, Source, Status
from satchel.model.values import Origin, Scope, now
from satchel.ports.rows import Filter
from satchel.ports.vectors import Generation

if TYPE_CHECKING:
    from satchel.config.settings import Settings
    from satchel.ports.store import Reader, Store

ALL = Filter(retired=True, held=True)
ONE, OTHER = Generation("a model", 3), Generation("a model", 3, 1)
SIDE = {"import/none": b"{}", "é\0'": b"\0", "damaged/3": b"x", "empty": b""}


def filled(settings: Settings, *, entries: int = 120, edges: int = 60) -> tuple[str, str]:
    """Create an own bank with every kind of record, and an untrusted one.

    Args:
        settings: The settings with the store.
        entries: The least number of memories of the first.
        edges: The number of edges among them.

    Returns:
        The ids of both.
    """
    bank = create_bank(settings, "assistant", signing_key(settings, None)[0]).id
    with configured_store(settings) as store:
        ledger = open_ledger(settings, store, bank, writes=True)
        own = memories(entries)
        ledger.append(own)
        _say(ledger, own)
        many = len(own)
        ledger.append(
            [
                seal(
                    Edge(
                        source=own[number * 7 % many].id,
                        target=own[number * 13 % many].id if number % 5 else f"place {number}",
                        kind=("similar_to", "knows", "derives_from")[number % 3],
                    )
                )
                for number in range(edges)
            ]
        )
        _import(ledger)
        blob = _beside(store, bank, [record.id for record in own])
        ledger.append([seal(FileVersion(path="a.md", blob=blob))])
        foreign = Ledger.create(store, owner=SigningKey.generate(), writer=WRITER, name="foreign")
        foreign.append(memories(3))
    return bank, foreign.bank


def _say(ledger: Ledger, own: list[Any]) -> None:
    """Supersede, delete, restore, quarantine, release and erase memories."""

    def status(state: Any, number: int, **more: Any) -> Any:
        return seal(Status(target=own[number].id, state=state, at=now(), **more))

    new = seal(
        Semantic(
            text="memory 1, corrected",
            kind="note",
            scope=Scope(user="ada", run="r1"),
            origin=Origin(provider="test", id="1"),
            parent_ids=(own[1].id, "blake3:" + "7" * 64),
        )
    )
    ledger.append([new, status("superseded", 1, by=new.id)])
    ledger.append([status("deleted", 2), status("deleted", 3), status("quarantined", 4)])
    ledger.append([status("restored", 3), status("quarantined", 5), status("released", 5)])
    ledger.append([seal(Erasure(entry=own[2].id, at=now(), reason="asked"))])
    ledger.append(
        [
            seal(SessionEvent(event="message", session="s", role="user", text="and then?")),
            seal(SessionEvent(event="message", session="s", role="assistant", text="tea")),
        ]
    )


def _import(ledger: Ledger) -> None:
    """Complete one import, and leave one open."""
    for place, whole in enumerate((True, False)):
        source = seal(Source(provider="mem0", format="mem0", container={"number": place}))
        ledger.append([source])
        ledger.append(
            [seal(Semantic(text=f"imported {place} {n}")) for n in range(9)], batch=source.id
        )
        if whole:
            ledger.append([closing_receipt(source.id, now())])


def _beside(store: Store, bank: str, ids: list[str]) -> str:
    with store.writing() as writing:
        for number, generation in enumerate((ONE, OTHER)):
            some = ids[number::2]
            vectors = {one: (0.5, 0.1 * place, float(number)) for place, one in enumerate(some)}
            writing.vectors.put(bank, generation, vectors)
        writing.blobs.put(bank, [b"nobody names it"])
        writing.blobs.put(bank, [])
        writing.put_side(bank, SIDE)
        return writing.blobs.put(bank, [b"x" * 1_100_000, b"the end"])


def everything(reader: Reader, banks: list[str] | None = None) -> dict[str, Any]:
    """Return all values of a view of a store, which are equal for equal stores."""
    return {bank: _bank(reader, bank) for bank in (reader.banks() if banks is None else banks)}


def _bank(reader: Reader, bank: str) -> dict[str, Any]:
    rows = list(reader.scan(bank, ALL))
    ids = [row.id for row in rows]
    return {
        "head": reader.head(bank),
        "rows": [row.columns() for row in rows],
        "current": [row.id for row in reader.scan(bank, Filter())],
        "nodes": reader.nodes(bank, range(2 * len(rows))),
        "counts": reader.counts(bank),
        "side": reader.side(bank),
        "words": sorted(place for place, _ in reader.candidates(bank, "memory tea", limit=999)),
        "links": {
            one: sorted(row.id for row in reader.neighbors(bank, one, incoming=True))
            for one in ids[:200]
        },
        "vectors": {
            generation: (number, reader.vectors.get(bank, generation, ids))
            for generation, number in reader.vectors.generations(bank).items()
        },
        "blobs": {
            digest: (size, b"".join(reader.blobs.get(bank, digest)))
            for digest, size in reader.blobs.listed(bank)
        },
    }
