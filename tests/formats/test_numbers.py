"""Numbers go through a bank as they were written, in whatever place a format holds free values.

Canonical bytes write ``1.0`` as ``1`` and hold no number beyond a double; what a source wrote is
kept beside them, and written again.
"""

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from satchel.artifact.verification import Outcome
from satchel.config.settings import load_settings
from satchel.crypto.canonical import canonical
from satchel.crypto.json_reader import float_spellings, with_numbers
from satchel.transfer.conversion import ConvertOptions, convert

SAMPLES = Path(__file__).parent.parent / "data" / "formats"
ODD = (
    '{"a":1e999,"b":1e-400,"c":1.0,"d":-0.0,"e":1,"f":123456789012345678901234567890,"g":-1E400,'
    '"h":[1.0,{"k":2.0},1],"i":100.0,"j":0.5,"k":[0.0,1.0],"l":12345678901234567890.0,"m":0}'
)
FLAT = '{"c":1.0,"d":-0.0,"e":1,"i":100.0,"j":0.5,"m":0}'
"""For what holds no lists, and no number beyond a double."""

_ANY = frozenset(Outcome)


def _at(*path: str | int) -> Callable[[Any], None]:
    def put(value: Any) -> None:
        for step in path[:-1]:
            value = value[step]
        value[path[-1]] = "ODD"

    return put


PLACES = [
    ("mem0", "mem0/good-platform.json", _at("results", 0, "metadata"), ODD),
    ("qdrant_points", "qdrant_points/good-list.json", _at(0, "payload", "odd"), ODD),
    ("langgraph_items", "langgraph_items/good-search.json", _at(1, "value", "odd"), ODD),
    ("graphiti", "graphiti/good-whole.json", _at("nodes", 0, "attributes", "odd"), ODD),
    ("letta", "letta/good-small.af", _at("agents", 0, "llm_config"), ODD),
    ("letta", "letta/good-small.af", _at("blocks", 0, "metadata", "odd"), ODD),
    ("letta_passages", "letta_passages/good-list.json", _at(0, "metadata"), ODD),
    ("chroma_get", "chroma_get/good-get.json", _at("metadatas", 0), FLAT),
    ("aletheia", "aletheia/good-whole.agent.json", _at("nous", "odd"), ODD),
    (
        "aletheia",
        "aletheia/good-whole.agent.json",
        _at("memory", "graph", "nodes", 0, "properties", "odd"),
        ODD,
    ),
    (
        "aletheia",
        "aletheia/good-whole.agent.json",
        _at("memory", "vectors", 0, "metadata", "odd"),
        ODD,
    ),
    ("mcp_memory", "mcp_memory/good-graph.json", _at("entities", 0, "odd"), ODD),
]


_WITHOUT_TEXT: dict[str, Callable[[Any], None]] = {
    "qdrant_points": lambda rows: rows.__delitem__(slice(1, None)),
    "langgraph_items": lambda rows: rows[1]["value"].update(text="x"),
    "chroma_get": lambda found: found.update(documents=["x"] * len(found["documents"])),
}
"""Samples with rows without text, which are judged when they become memories: not here."""

NUMBERED = [str(number) for number in range(len(PLACES))]


def _first(folder: str, name: str) -> Path:
    there = SAMPLES / folder / name
    return there if there.exists() else min((SAMPLES / folder).glob("good-*.json"))


def as_written(text: str) -> Any:
    """Return JSON with each number as its text."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_int=str, parse_float=str, parse_constant=refuse)


def _holding(value: Any, wanted: Any) -> bool:
    if value == wanted:
        return True
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(_holding(part, wanted) for part in parts)


@pytest.mark.parametrize(("name", "sample", "edit", "odd"), PLACES, ids=NUMBERED)
def test_numbers_are_written_as_they_came(
    name: str, sample: str, edit: Callable[[Any], None], odd: str, tmp_path: Path
) -> None:
    """Through a sealed file: none becomes another number, none becomes what is no JSON."""
    suffix = "".join(Path(sample).suffixes)
    source, sealed, out = (tmp_path / f"{one}{suffix}" for one in ("in", "sealed", "out"))
    sealed = sealed.with_name("sealed.pam.jsonl")
    value = json.loads(_first(*sample.split("/")).read_text())
    if name == "mem0":
        value = {"results": [{"id": "1", "memory": "x", "metadata": {}}]}
    elif name in _WITHOUT_TEXT:
        _WITHOUT_TEXT[name](value)
    edit(value)
    source.write_text(json.dumps(value).replace('"ODD"', odd))
    settings = load_settings()
    there = convert(source, sealed, settings, ConvertOptions(source_format=name))
    back = convert(sealed, out, settings, ConvertOptions(target_format=name, unsafe_accept=_ANY))
    assert [loss.name for loss in (*there.losses, *back.losses)] == []
    assert _holding(as_written(out.read_text()), as_written(odd))


def test_mem0_metadata_beyond_a_double_is_json_in_an_export(tmp_path: Path) -> None:
    """It was ``Infinity`` and ``0``."""
    source, out = tmp_path / "in.mem0.json", tmp_path / "out.mem0.json"
    source.write_text('{"results":[{"id":"1","memory":"x","metadata":{"a":1e999,"t":1e-400}}]}')
    convert(source, out, load_settings())
    assert as_written(out.read_text())["results"][0]["metadata"] == {"a": "1e999", "t": "1e-400"}


def test_what_is_no_number_in_json_is_named(tmp_path: Path) -> None:
    """NaN came from a file that was no JSON either; it goes back, and is mentioned."""
    source, out = tmp_path / "in.mem0.json", tmp_path / "out.mem0.json"
    source.write_text('{"results":[{"id":"1","memory":"x","metadata":{"a":NaN,"b":-Infinity}}]}')
    done = convert(source, out, load_settings())
    assert any("NaN" in note for note in done.notes)


def test_a_number_that_was_changed_since_is_written_as_it_is() -> None:
    """What was kept of the notation counts for the same number only."""
    kept = float_spellings({"a": 1.0, "b": {"c": 2.0}, "v": [1.0, 0.5], "gone": 3.0})["$numbers"]
    row = {"a": 1, "b": {"c": 5}, "v": [1, 0.5], "x": 3}
    shared = row["b"]
    assert (
        json.dumps(with_numbers(row, kept)) == '{"a": 1.0, "b": {"c": 5}, "v": [1.0, 0.5], "x": 3}'
    )
    assert shared == {"c": 5}


@pytest.mark.parametrize(
    "numbers", [None, [], {"/a": 5}, {"a": "1.0"}, {"/a/b/c": "1.0"}, {"/l/9": "1.0"}, {"/a": "x"}]
)
def test_odd_notes_of_numbers_change_nothing(numbers: Any) -> None:
    """They come from files of others."""
    assert with_numbers({"a": 1, "l": [1]}, numbers) == {"a": 1, "l": [1]}


def test_canonical_bytes_are_what_they_were() -> None:
    """RFC 8785: the notation is no part of a value."""
    assert canonical({"a": 1.0, "b": -0.0}) == b'{"a":1,"b":0}'


FREE = '{"c":1.0,"d":-0.0,"e":1,"i":100.0,"j":0.5,"deep":{"l":[1.0,{"k":2.0},1]},"m":0}'
"""What is free in a record of a source, without what no double holds."""

SOURCES = {
    "mem0": '{"results":[{"id":"1","memory":"likes tea","score":1.0,"metadata":FREE}]}',
    "qdrant_points": '{"points":[{"id":1,"payload":{"text":"likes tea",FLAT}}]}',
    "langgraph_items": '[{"namespace":["a"],"key":"k","value":{"text":"likes tea",FLAT},'
    '"created_at":"2026-01-01T00:00:00+00:00","updated_at":"2026-01-01T00:00:00+00:00"}]',
}
TARGETS = ("mem0", "qdrant_points", "langgraph_items", "graphiti", "ama", "letta_passages")


@pytest.mark.parametrize("through", ["one step", "a sealed file"])
@pytest.mark.parametrize("target", [*TARGETS, "aletheia", "cognee"])
@pytest.mark.parametrize("source", SOURCES)
def test_numbers_keep_their_notation_in_a_format_other_than_their_own(
    source: str, target: str, through: str, tmp_path: Path
) -> None:
    """A reader in Python takes ``1`` for an int, and ``1.0`` for a float."""
    settings, out = load_settings(), tmp_path / "out"
    one, two = tmp_path / "in.json", tmp_path / "sealed.pam.jsonl"
    one.write_text(SOURCES[source].replace("FREE", FREE).replace("FLAT", FREE[1:-1]))
    reading = ConvertOptions(source_format=source, target_format=target)
    if through == "a sealed file":
        convert(one, two, settings, ConvertOptions(source_format=source))
        one, reading = two, ConvertOptions(target_format=target, unsafe_accept=_ANY)
    convert(one, out, settings, reading)
    text = out.read_bytes()
    if target == "cognee":
        with tarfile.open(out) as archive:
            members = [archive.extractfile(one) for one in archive if one.isfile()]
            text = b"\n".join(one.read() for one in members if one is not None)
    written = text.replace(b'": ', b'":').decode()
    for said in ('"c":1.0', '"d":-0.0', '"e":1,', '"i":100.0', '"j":0.5', '"k":2.0', '"m":0'):
        assert said in written, said
