"""Sealed artifact as deterministic CBOR, ``.pam.cbor`` (application/pam+cbor)."""

from typing import ClassVar

from satchel.artifact.encodings import MAGIC, Encoding
from satchel.formats._pam import CHECKED, SPEC, TRAITS, PamFormat
from satchel.ports.format import Info, Location, Signs


class PamCbor(PamFormat):
    """The same value as ``.pam``, compact and binary."""

    encoding = Encoding.CBOR
    info: ClassVar[Info] = Info(
        title="Sealed artifact, CBOR",
        suffixes=(".pam.cbor",),
        signs=Signs(starts=(MAGIC,)),
        spec=SPEC,
        checked=CHECKED,
        traits=TRAITS,
    )

    def recognizes(self, location: Location) -> bool:
        return location.unpacked_head.startswith(MAGIC)


FORMAT = PamCbor()
