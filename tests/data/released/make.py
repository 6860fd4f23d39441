"""Makes the store that this version of the tables is released with.

``PYTHONPATH=tests/kit python tests/data/released/make.py``: once for each version, before the
release that brings it, and never again, since what was released is what people have.
``test_migrations.py`` reads every one of them.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from ledger_kit import OWNER, WRITER, memories

from satchel.crypto.sealed_records import seal
from satchel.ledger.ledger import Ledger
from satchel.ledger.transaction import closing_receipt
from satchel.model.records import (
    Edge,
    Episodic,
    FileVersion,
    Identity,
    Procedural,
    Semantic,
    SessionEvent,
    Source,
    Status,
    Working,
)
from satchel.model.values import Origin, Scope
from satchel.ports.rows import Filter
from satchel.ports.vectors import Generation
from satchel.stores.sqlite import SqliteStore
from satchel.stores.sqlite.statements import VERSION

HERE = Path(__file__).parent
AT = "2026-01-01T00:00:00.000000Z"
GENERATION = Generation("model", 3)


def fill(ledger: Ledger) -> None:
    """Log something of most kinds: retired, held, linked, in slots, in several scripts."""
    notes = memories(5)
    ledger.append(notes)
    parent = seal(
        Episodic(text="The user moved to Accra.", occurred_at="2026-02-01T08:00:00.000000Z")
    )
    child = seal(
        Semantic(
            text="El usuario vive en Accra: 金曜日に更新します 🏠",
            subject="user",
            predicate="lives in",
            object="Accra",
            scope=Scope(user="ada", agent="guide", app="app", run="r1"),
            tags=("home",),
            parent_ids=(parent.id,),
            expires_at="2099-01-01T00:00:00.000000Z",
        )
    )
    source = seal(Source(provider="test", format="test"))
    ledger.append([source])
    ledger.append([parent, child], batch=source.id)
    ledger.append([closing_receipt(source.id, AT)])
    ledger.append(
        [
            seal(Procedural(name="greet", body="print('hello')", language="python")),
            seal(Working(goals=("find a flat",), scope=Scope(user="ada"))),
            seal(Identity(persona="A guide.", preferences={"tone": "plain"})),
            seal(SessionEvent(event="message", session="s1", text="Which harbour?")),
            seal(SessionEvent(event="message", session="s1", text="The one in Accra.")),
            seal(FileVersion(path="notes/home.md", text="# Home", action="created")),
            seal(Edge(source=child.id, target=parent.id, kind="about", weight=0.5)),
        ]
    )
    newer = seal(
        Semantic(
            text="memory 0, corrected",
            kind="note",
            origin=Origin(provider="test", id="0"),
            scope=Scope(user="ada", run="r0"),
        )
    )
    ledger.append(
        [
            seal(Status(target=notes[0].id, state="superseded", by=newer.id)),
            newer,
            seal(Status(target=notes[1].id, state="deleted", reason="asked to")),
            seal(Status(target=notes[2].id, state="quarantined")),
        ]
    )


def main() -> None:
    """Make the file, and what must be found in it."""
    path = HERE / f"store-{VERSION}.db"
    if path.exists():
        sys.exit(f"{path.name} is there; what was released stays as it is")
    with TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / path.name)
        ledger = Ledger.create(store, owner=OWNER, writer=WRITER, name="released")
        fill(ledger)
        with store.writing() as writing:
            places = writing.at(ledger.bank, range(2, 7))
            vectors = {row.id: [1, row.seq, 0.5] for row in places}
            writing.vectors.put(ledger.bank, GENERATION, vectors)
            blob = writing.blobs.put(ledger.bank, [b"a blob"])
        with ledger.reading() as view:
            told = {
                "bank": ledger.bank,
                "size": view.head.size,
                "root": view.head.root,
                "all": [logged.record.id for logged in view.scan()],
                "current": [logged.record.id for logged in view.scan(Filter())],
                "near": [logged.record.id for logged, _ in view.nearest(GENERATION, [1, 0, 0])],
                "blob": blob,
                "friday": [logged.record.id for logged, _ in view.candidates("金曜日")],
            }
        store.copy_to(path)
        store.close()
    path.with_suffix(".json").write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
