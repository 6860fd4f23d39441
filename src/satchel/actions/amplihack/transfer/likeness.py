"""Links of likeness, which are kept beside the log, in what goes out."""

from itertools import chain, groupby
from operator import attrgetter

from satchel.actions.moving.exported import ExportOptions
from satchel.actions.moving.exporting import Part
from satchel.ledger.columns import LINKS
from satchel.ledger.view import View
from satchel.memory.entries import Entry
from satchel.memory.records import Edge
from satchel.seal.sealing import seal
from satchel.tiers.similar import SIMILAR_TO, Alike, similar_links
from satchel.transfer.exporting import Outgoing, Taken, scope_of, take_out
from satchel.transfer.selecting import WHOLE

_COMPUTED = {"computed_by": "satchel"}
"""The metadata of a link that no log has."""


def whole(asked: ExportOptions) -> Part:
    """Return everything there is of a bank, with the links of likeness kept beside its log.

    A fact that came in a file has the links that the file stated, and no others.
    """

    def take(view: View, outgoing: Outgoing) -> Taken:
        taken = take_out(view, WHOLE, outgoing, asked.progress)
        for source, found in groupby(similar_links(view), attrgetter("source")):
            if _came_from(view, source):
                continue
            stated = _linked_with(view, source)
            for one in found:
                if one.target not in stated:
                    outgoing.builder.add(seal(_as_edge(one)))
        return taken

    return Part(take, scope_of(WHOLE))


def _came_from(view: View, identity: str) -> str | None:
    entry = view.get([identity])[identity].model
    origin = entry.origin if isinstance(entry, Entry) else None
    return None if origin is None else origin.provider


def _linked_with(view: View, identity: str) -> set[str]:
    """Return what somebody said to be like a fact."""
    view.require_columns(LINKS)
    ways = (view.neighbours(identity), view.neighbours(identity, incoming=True))
    edges = [one.model for one in chain(*ways) if isinstance(one.model, Edge)]
    return {end for edge in edges if edge.kind == SIMILAR_TO for end in (edge.source, edge.target)}


def _as_edge(link: Alike) -> Edge:
    return Edge(
        source=link.source,
        target=link.target,
        kind=SIMILAR_TO,
        weight=link.weight,
        metadata={"contradiction": True, **_COMPUTED} if link.contradicts else _COMPUTED,
    )
