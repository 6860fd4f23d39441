"""Sealed artifact as one JSON document, ``.pam`` (application/pam+json)."""

import re
from typing import ClassVar

from satchel.artifact.encodings import Encoding
from satchel.formats._pam import CHECKED, SPEC, TRAITS, PamFormat
from satchel.ports.format import Info, Location, Signs

_ARTIFACT_START = re.compile(rb'\s*\{\s*"(?:statement|signatures|components)"\s*:')


class Pam(PamFormat):
    """The five components, further sections, statement and signatures in one object."""

    encoding = Encoding.JSON
    info: ClassVar[Info] = Info(
        title="Sealed artifact, JSON",
        suffixes=(".pam",),
        signs=Signs(texts=((b'"statement"',), (b'"signatures"',), (b'"components"',))),
        spec=SPEC,
        checked=CHECKED,
        traits=TRAITS,
    )

    def recognizes(self, location: Location) -> bool:
        return _ARTIFACT_START.match(location.unpacked_head) is not None


FORMAT = Pam()
