"""Sealed artifact as lines, ``.pam.jsonl``: streamed both ways, verified at hash speed."""

from typing import ClassVar

from satchel.artifact.encodings import PREAMBLE, Encoding
from satchel.formats._files import decompressed_head
from satchel.formats._pam import CHECKED, SPEC, TRAITS, PamFormat
from satchel.ports.format import Info, Place


class PamJsonl(PamFormat):
    """One record a line between a preamble and the signed statement."""

    encoding = Encoding.JSONL
    info: ClassVar[Info] = Info(
        title="Sealed artifact, lines",
        suffixes=(".pam.jsonl",),
        spec=SPEC,
        checked=CHECKED,
        traits=TRAITS,
    )

    def recognises(self, place: Place) -> bool:
        return decompressed_head(place.head).startswith(PREAMBLE)


FORMAT = PamJsonl()
