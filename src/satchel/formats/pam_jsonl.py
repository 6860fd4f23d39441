"""Sealed artifact as lines, ``.pam.jsonl``: streamed both ways, verified at hash speed."""

from typing import ClassVar

from satchel.artifact.encodings import PREAMBLE, Encoding
from satchel.formats._pam import CHECKED, SPEC, TRAITS, PamFormat
from satchel.ports.format import Info, Location, Signs


class PamJsonl(PamFormat):
    """One record per line between a preamble and the signed statement."""

    encoding = Encoding.JSONL
    info: ClassVar[Info] = Info(
        title="Sealed artifact, lines",
        suffixes=(".pam.jsonl",),
        signs=Signs(starts=(PREAMBLE,)),
        spec=SPEC,
        checked=CHECKED,
        traits=TRAITS,
    )

    def recognizes(self, location: Location) -> bool:
        return location.unpacked_head.startswith(PREAMBLE)


FORMAT = PamJsonl()
