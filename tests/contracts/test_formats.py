"""Every installed format keeps every format promise."""

from pathlib import Path

import pytest
from amplihack_kit import tables_in

from satchel.conformance.formats import *  # noqa: F403
from satchel.conformance.formats import Subject
from satchel.conformance.subject import parsed
from satchel.ports.registry import formats

_SAMPLES = Path(__file__).parent.parent / "data" / "formats"
_PARSERS = {"amplihack_db": tables_in, "amplihack_flat": tables_in}


@pytest.fixture(scope="session", params=list(formats))
def subject(request: pytest.FixtureRequest) -> Subject:
    """Each installed format with its samples."""
    name: str = request.param
    return Subject(name, formats[name], _SAMPLES / name, _PARSERS.get(name, parsed))


def test_every_format_has_a_sample_folder() -> None:
    """A format without samples, or samples without a format, is a mistake."""
    assert {folder.name for folder in _SAMPLES.iterdir() if folder.is_dir()} == set(formats)
