"""Recognition of formats by signs: equal to a check by all formats, with few imports."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.conformance.subject import Subject, sealed
from satchel.errors import InputError
from satchel.model.records import Identity, Semantic
from satchel.model.values import Component, Scope
from satchel.ports.format import HEAD_BYTES, Location, formats

DATA = Path(__file__).parent.parent / "data"
FILES = sorted(
    path
    for path in DATA.rglob("*")
    if (path.is_file() and path.suffix != ".py") or (path / "chroma.sqlite3").exists()
)
WORDS = sorted(
    {
        part.decode("latin-1")
        for name in formats
        for group in (formats[name].info.signs or pytest.fail(name)).texts
        for part in group
    }
    | {"role", "items", "points", "result", "nodes", "type", "state", "mapping", "key", "id"}
)
MOST_ASKED = 2
"""The maximum number of formats imported for a JSON file of Mem0."""


def claims(place: Location, names: list[str]) -> list[str]:
    """Return the formats that recognize a file, or raise an error for it."""
    claimed = []
    for name in names:
        try:
            if formats[name].recognizes(place):
                claimed.append(name)
        except InputError as error:
            claimed.append(f"{name}: {error.code}")
    return claimed


def require_equal(place: Location) -> None:
    """Require the same result from the candidates and from all formats, up to the first error."""
    asked, everything = (claims(place, names) for names in (formats.candidates(place), [*formats]))
    assert [each for each in asked if ":" not in each] == [
        each for each in everything if ":" not in each
    ]
    errors = [[each for each in some if ":" in each] for some in (asked, everything)]
    assert errors[0][:1] == errors[1][:1]


@pytest.mark.parametrize(
    "folder",
    sorted({path.parent for path in FILES}),
    ids=lambda folder: str(folder.relative_to(DATA)),
)
def test_samples_are_recognized_as_by_all_formats(folder: Path) -> None:
    """Every sample of this repository, valid or hostile."""
    for path in (each for each in FILES if each.parent == folder):
        require_equal(Location(path))


@pytest.mark.parametrize("end", [64, 700])
def test_truncated_and_compressed_samples_are_recognized_as_by_all_formats(
    tmp_path: Path, end: int
) -> None:
    """With gzip."""
    for path in (each for each in FILES if each.name.startswith("good-")):
        data = path.read_bytes()[:HEAD_BYTES]
        for name, text in (("cut", data[:end]), ("packed.gz", gzip.compress(data))):
            file = tmp_path / name
            file.write_bytes(text)
            require_equal(Location(file))


@given(
    members=st.lists(st.tuples(st.sampled_from(WORDS), st.integers(0, 3)), max_size=6),
    start=st.sampled_from(["", "\ufeff", " \n", '"']),
    quote=st.sampled_from(['"', ""]),
)
def test_any_order_of_members_is_recognized_as_by_all_formats(
    tmp_path_factory: pytest.TempPathFactory,
    members: list[tuple[str, int]],
    start: str,
    quote: str,
) -> None:
    """Also with unquoted names."""
    values = ('"passage-1"', "[]", "{}", '[{"id": 1, "uuid": 2, "key": 3, "content": "x"}]')
    body = ", ".join(f"{quote}{name}{quote}: {values[kind]}" for name, kind in members)
    path = tmp_path_factory.mktemp("signs") / "document.json"
    for text in (
        f"{start}{{{body}}}",
        f"{start}[{{{body}}}]",
        f'{start}{{"points": [{{{body}}}]}}',
    ):
        path.write_text(text, "utf-8")
        require_equal(Location(path))


def test_a_json_file_of_mem0_imports_few_formats() -> None:
    """The index excludes the others."""
    path = DATA / "formats" / "mem0" / "good-get-all.json"
    program = (
        "import json, sys; from pathlib import Path; from satchel.ports.format import Location;"
        "from satchel.ports.format import formats;"
        f"name = formats.recognize(Location(Path({str(path)!r})));"
        "own = [each for each in formats if f'satchel.formats.{each}' in sys.modules];"
        "print(json.dumps([name, own]))"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout
    name, imported = json.loads(output)
    assert name == "mem0"
    assert len(imported) <= MOST_ASKED, imported


def test_a_format_missing_from_the_index_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new module or a format of another package."""
    (tmp_path / "index.json").write_text("{}")
    monkeypatch.setattr(type(formats), "index", tmp_path / "index.json")
    monkeypatch.setattr(formats, "_listings", None)
    sample = DATA / "formats" / "mem0" / "good-get-all.json"
    assert formats.recognize(Location(sample)) == "mem0"


# -- outputs -----------------------------------------------------------------------------


SAMPLES = Path(__file__).parent.parent / "data" / "formats"
WRITABLE = [name for name in formats if formats[name].info.traits.writes]


@pytest.mark.parametrize("name", WRITABLE)
@pytest.mark.parametrize("scope", [None, Scope(user="ada")])
def test_an_output_is_recognized_by_its_format_only(name: str, scope: Scope | None) -> None:
    """So a later import needs no ``--from``."""
    held = formats[name].info.traits.components
    kind = Semantic if Component.SEMANTIC in held else Identity
    subject = Subject(name, formats[name], SAMPLES / name)
    with (
        sealed([kind(text="there", scope=scope)]) as records,
        subject.written(records) as (path, _),
    ):
        found = [each for each in formats if formats[each].recognizes(Location(path))]
    assert found == [name]
