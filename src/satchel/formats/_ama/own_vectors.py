"""A bank's own vectors in an archive: what made them is in the header, each in its memory's line.

They stand where Astrocyte has embeddings. ``_satchel`` of the line has a mark of the text that the
vector was made of; without it an embedding is one that came with the memory, and belongs to that.
"""

from typing import Any

import msgspec

from satchel.formats._ama.rows import SATCHEL
from satchel.ports.carried import Maker
from satchel.type_info import resolved

MODEL = "embedding_model"
"""In ``_satchel`` of the header: the model of all embeddings, also where others wrote them."""

_VECTORS, _BEFORE = "vectors", "model_before"


def maker_in(extra: dict[str, Any]) -> Maker | None:
    """Return what made the bank's own vectors in a file, where its header says it."""
    ours = extra.get(SATCHEL)
    try:
        return msgspec.convert(ours[_VECTORS], resolved(Maker)) if isinstance(ours, dict) else None
    except (KeyError, msgspec.ValidationError):
        return None


def header_member(found: Any, maker: Maker | None) -> Any:
    """Return ``_satchel`` of a header that is written.

    Args:
        found: As it was in the archive that memories came from; None for nothing.
        maker: What made the bank's own vectors, where these go along.
    """
    if not isinstance(found, dict):
        found = {} if found is None or maker is not None else found
    if not isinstance(found, dict):
        return found
    ours = {name: part for name, part in found.items() if name != _VECTORS}
    there = found.get(_VECTORS)
    if isinstance(there, dict):  # it spoke of the vectors of another file
        ours.pop(MODEL, None)
        if _BEFORE in there:
            ours[MODEL] = there[_BEFORE]
    if maker is None:
        return ours
    before = {_BEFORE: ours[MODEL]} if MODEL in ours else {}
    return {**ours, MODEL: maker.model, _VECTORS: {**msgspec.to_builtins(maker), **before}}
