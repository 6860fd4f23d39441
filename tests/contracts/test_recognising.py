"""What is written is known again without a word about what it is."""

from pathlib import Path

import pytest

from satchel.conformance.subject import Subject, sealed
from satchel.model.records import Identity, Semantic
from satchel.model.values import Component, Scope
from satchel.ports.format import Place, formats

SAMPLES = Path(__file__).parent.parent / "data" / "formats"
WRITABLE = [name for name in formats if formats[name].info.traits.writes]


@pytest.mark.parametrize("name", WRITABLE)
@pytest.mark.parametrize("scope", [None, Scope(user="ada")])
def test_an_output_is_recognized_by_its_format_and_no_other(name: str, scope: Scope | None) -> None:
    """Who exports today imports it next year, by its name alone."""
    held = formats[name].info.traits.components
    kind = Semantic if Component.SEMANTIC in held else Identity
    subject = Subject(name, formats[name], SAMPLES / name)
    with (
        sealed([kind(text="there", scope=scope)]) as records,
        subject.written(records) as (path, _),
    ):
        found = [each for each in formats if formats[each].recognizes(Place(path))]
    assert found == [name]
