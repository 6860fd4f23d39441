"""One collection of a Chroma folder that has several."""

from pathlib import Path

import pytest
from import_kit import bring, texts

from satchel.errors import UnreadableError, UsageError
from satchel.formats.chroma import FORMAT
from satchel.model.records import Entry
from satchel.ports.format import Location, ReadContext

_FOLDER = Path(__file__).parent.parent / "data" / "chroma-folder"


def _by_collection() -> dict[str, list[str | None]]:
    found = dict[str, list[str | None]]()
    for one in FORMAT.read(Location(_FOLDER), ReadContext()):
        if isinstance(one, Entry) and one.origin is not None:
            found.setdefault(one.origin.source or "", []).append(one.text)
    return found


def test_each_collection_goes_into_a_bank_of_its_own() -> None:
    """Whole, and nothing of the others."""
    expected = _by_collection()
    assert len(expected) > 1
    for name, said in expected.items():
        bring(f"chroma://{_FOLDER}?collection={name}", name, skip_bad=True)
        assert texts(name) == [one for one in said if one is not None]


def test_several_collections_are_named_and_one_has_to_be_chosen() -> None:
    """Nothing is guessed, and nothing is written to it."""
    with pytest.raises(UsageError, match="several collections"):
        bring(f"chroma://{_FOLDER}")
    with pytest.raises(UnreadableError, match="no collection"):
        bring(f"chroma://{_FOLDER}?collection=none")
    with pytest.raises(UsageError, match="no such member"):
        bring(f"chroma://{_FOLDER}?table=none")


def test_a_folder_by_its_path_says_how_to_read_one_of_them() -> None:
    """All of them are read, with a note."""
    done = bring(_FOLDER, skip_bad=True)
    assert any("?collection=NAME" in note for note in done.notes)
