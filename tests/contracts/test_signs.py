"""Recognition asks only formats with a sign in the place, and decides as if it asked all."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.errors import InputError
from satchel.ports.format import HEAD_BYTES, Place, formats

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
"""How many formats may be asked about a JSON file of Mem0."""


def claims(place: Place, names: list[str]) -> list[str]:
    """Return which of some formats recognize a place, or have an error for it."""
    claimed = []
    for name in names:
        try:
            if formats[name].recognizes(place):
                claimed.append(name)
        except InputError as error:
            claimed.append(f"{name}: {error.code}")
    return claimed


def require_equal(place: Place) -> None:
    """Compare what the candidates say with what all formats say; of errors, the first counts."""
    asked, everything = (claims(place, names) for names in (formats.candidates(place), [*formats]))
    assert [each for each in asked if ":" not in each] == [
        each for each in everything if ":" not in each
    ]
    errors = [[each for each in some if ":" in each] for some in (asked, everything)]
    assert errors[0][:1] == errors[1][:1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DATA)))
def test_nothing_is_recognized_otherwise_than_by_asking_all_formats(path: Path) -> None:
    """Every sample, good or hostile, of this repository, also compressed and cut."""
    require_equal(Place(path))


@pytest.mark.parametrize("end", [64, 700])
def test_cut_and_compressed_samples_are_recognized_as_by_all_formats(
    tmp_path: Path, end: int
) -> None:
    """A file that stops early, and the same one as gzip."""
    for path in (each for each in FILES if each.name.startswith("good-")):
        data = path.read_bytes()[:HEAD_BYTES]
        for name, text in (("cut", data[:end]), ("packed.gz", gzip.compress(data))):
            file = tmp_path / name
            file.write_bytes(text)
            require_equal(Place(file))


@given(
    members=st.lists(st.tuples(st.sampled_from(WORDS), st.integers(0, 3)), max_size=6),
    start=st.sampled_from(["", "\ufeff", " \n", '"']),
    quote=st.sampled_from(['"', ""]),
)
def test_no_order_of_members_escapes_the_signs(
    tmp_path_factory: pytest.TempPathFactory,
    members: list[tuple[str, int]],
    start: str,
    quote: str,
) -> None:
    """Documents of any members that formats know, also with names that are not quoted."""
    values = ('"passage-1"', "[]", "{}", '[{"id": 1, "uuid": 2, "key": 3, "content": "x"}]')
    body = ", ".join(f"{quote}{name}{quote}: {values[kind]}" for name, kind in members)
    path = tmp_path_factory.mktemp("signs") / "document.json"
    for text in (
        f"{start}{{{body}}}",
        f"{start}[{{{body}}}]",
        f'{start}{{"points": [{{{body}}}]}}',
    ):
        path.write_text(text, "utf-8")
        require_equal(Place(path))


def test_a_json_file_of_mem0_imports_few_formats() -> None:
    """The index answers for those that cannot fit, so their modules are not imported."""
    path = DATA / "formats" / "mem0" / "good-get-all.json"
    program = (
        "import json, sys; from pathlib import Path; from satchel.ports.format import Place;"
        "from satchel.ports.format import formats;"
        f"name = formats.recognize(Place(Path({str(path)!r})));"
        "own = [each for each in formats if f'satchel.formats.{each}' in sys.modules];"
        "print(json.dumps([name, own]))"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout
    name, imported = json.loads(output)
    assert name == "mem0"
    assert len(imported) <= MOST_ASKED, imported


def test_a_format_that_is_not_in_the_index_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new module or another package's format needs no generated file to be found."""
    (tmp_path / "index.json").write_text("{}")
    monkeypatch.setattr(type(formats), "index", tmp_path / "index.json")
    monkeypatch.setattr(formats, "_listings", None)
    sample = DATA / "formats" / "mem0" / "good-get-all.json"
    assert formats.recognize(Place(sample)) == "mem0"
