"""Owners that are empty texts: carried, or counted, in every format."""

from pathlib import Path

import msgspec
import pytest

from satchel.conformance.subject import Subject, sealed
from satchel.model.records import Entry, Identity, Semantic
from satchel.model.values import Component, Scope
from satchel.ports.format import formats

SAMPLES = Path(__file__).parent.parent / "data" / "formats"
WRITABLE = [name for name in formats if formats[name].info.traits.writes]


@pytest.mark.parametrize("name", WRITABLE)
@pytest.mark.parametrize("member", ["user", "agent", "run", "app"])
def test_an_empty_owner_is_not_lost_in_silence(name: str, member: str) -> None:
    """An empty text is none, and is easily taken for nothing."""
    held = formats[name].info.traits.components
    kind: type[Entry] = Semantic if Component.SEMANTIC in held else Identity
    subject = Subject(name, formats[name], SAMPLES / name)
    entry = kind(text="there", scope=msgspec.convert({member: ""}, Scope))
    with sealed([entry]) as records, subject.written(records) as (path, report):
        back = [found.get("scope") for found in subject.take(path).contents if "text" in found]
    told = any("scope" in loss.name for loss in report.losses.values())
    assert back == [{member: ""}] or told
