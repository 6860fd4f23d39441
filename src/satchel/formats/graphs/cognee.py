"""COGX, the archives of Cognee: as a tar, which it sends and takes, or as the folder it writes.

Memories, documents, core-memory blocks and facts are entries, entities and raw nodes are nodes,
episodes are conversations. What is written is a tar, ``NAME.cogx.tar.gz``; unpack it, and it is the
folder that Cognee's ``COGXArchiveSource`` reads. Who may read a dataset (``permissions.json``, with
the hashes of passwords) stays behind. Compared with cognee 1.6.5, COGX 0.1.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import BinaryIO, ClassVar

from satchel.formats._cognee.archive import is_archive
from satchel.formats._cognee.document import Document
from satchel.formats._cognee.leaving import Leaving
from satchel.formats._cognee.shape import NAME, Row
from satchel.memory.parts import Component
from satchel.memory.records import Model
from satchel.ports.format import Info, Reading, Traits, Writing
from satchel.ports.place import Place, Target
from satchel.ports.records import RecordSet
from satchel.seal.artifact.writing import compressing
from satchel.seal.records import Sealed


class Cognee:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Cognee archive (COGX)",
        suffixes=(".cogx.tar",),
        spec="COGX 0.1, cognee 1.6.5",
        checked="2026-11-22",
        traits=Traits(
            components=frozenset({Component.SEMANTIC, Component.IDENTITY}),
            exact=True,
            ordered=False,
        ),
        lost_on_writing=(
            "Procedural and working memory, salience, expiry, links that are not of a fact, tags of"
            " a fact, and of conversations all but the messages. Episodic memory becomes plain."
        ),
    )

    def recognises(self, place: Place) -> bool:
        return is_archive(place)

    def read(self, place: Place, reading: Reading) -> Iterator[Model | Sealed]:
        yield from Document(place, reading).records()

    def write(self, records: RecordSet, target: Target, writing: Writing) -> None:
        container = _container(records)
        with closing(Leaving(records, writing.report, container)) as leaving:
            leaving.gather()
            with target.open() as sink:
                if writing.compress:
                    with compressing(sink) as packed:
                        _put(packed, leaving, container, writing)
                else:
                    _put(sink, leaving, container, writing)


FORMAT = Cognee()
"""What the registry finds."""


def _put(sink: BinaryIO, leaving: Leaving, container: Row, writing: Writing) -> None:
    manifest = container.get("manifest", {})
    made = (writing.header.extra or {}).get("created_at")
    if made is not None and "exported_at" not in manifest:
        manifest = {**manifest, "exported_at": made}
    leaving.write(sink, manifest)


def _container(records: RecordSet) -> Row:
    """Return what was around the records, where all of them came from one archive."""
    found = [one.value for one in records.of("source") if one.value.get("format") == NAME]
    container = found[0].get("container", {}) if len(found) == 1 else {}
    return container if isinstance(container.get("manifest", {}), dict) else {}
