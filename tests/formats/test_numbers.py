"""Numbers are exported in the notation of their source, in every format with free values.

Canonical bytes write ``1.0`` as ``1`` and exclude numbers beyond a double; the original notation
is stored next to them, and written again.
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
"""For formats without lists and numbers beyond a double."""

_ANY = frozenset(Outcome)


def _value_at(*path: str | int) -> Callable[[Any], None]:
    def put(value: Any) -> None:
        for step in path[:-1]:
            value = value[step]
        value[path[-1]] = "ODD"

    return put


PLACES = [
    ("mem0", "mem0/good-platform.json", _value_at("results", 0, "metadata"), ODD),
    ("qdrant_points", "qdrant_points/good-list.json", _value_at(0, "payload", "odd"), ODD),
    ("langgraph_items", "langgraph_items/good-search.json", _value_at(1, "value", "odd"), ODD),
    ("graphiti", "graphiti/good-whole.json", _value_at("nodes", 0, "attributes", "odd"), ODD),
    ("letta", "letta/good-small.af", _value_at("agents", 0, "llm_config"), ODD),
    ("letta", "letta/good-small.af", _value_at("blocks", 0, "metadata", "odd"), ODD),
    ("letta_passages", "letta_passages/good-list.json", _value_at(0, "metadata"), ODD),
    ("chroma_get", "chroma_get/good-get.json", _value_at("metadatas", 0), FLAT),
    ("aletheia", "aletheia/good-whole.agent.json", _value_at("nous", "odd"), ODD),
    (
        "aletheia",
        "aletheia/good-whole.agent.json",
        _value_at("memory", "graph", "nodes", 0, "properties", "odd"),
        ODD,
    ),
    (
        "aletheia",
        "aletheia/good-whole.agent.json",
        _value_at("memory", "vectors", 0, "metadata", "odd"),
        ODD,
    ),
    ("mcp_memory", "mcp_memory/good-graph.json", _value_at("entities", 0, "odd"), ODD),
]


_WITHOUT_TEXT: dict[str, Callable[[Any], None]] = {
    "qdrant_points": lambda rows: rows.__delitem__(slice(1, None)),
    "langgraph_items": lambda rows: rows[1]["value"].update(text="x"),
    "chroma_get": lambda found: found.update(documents=["x"] * len(found["documents"])),
}
"""Samples with rows without text, which other tests cover."""

NUMBERED = [str(number) for number in range(len(PLACES))]


def _sample_path(folder: str, name: str) -> Path:
    there = SAMPLES / folder / name
    return there if there.exists() else min((SAMPLES / folder).glob("good-*.json"))


def numbers_as_text(text: str) -> Any:
    """Return JSON with each number as its text."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_int=str, parse_float=str, parse_constant=refuse)


def _contains(value: Any, wanted: Any) -> bool:
    if value == wanted:
        return True
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(_contains(part, wanted) for part in parts)


@pytest.mark.parametrize(("name", "sample", "edit", "odd"), PLACES, ids=NUMBERED)
def test_numbers_keep_their_notation(
    name: str, sample: str, edit: Callable[[Any], None], odd: str, tmp_path: Path
) -> None:
    """Through a sealed file: no number changes, and none becomes invalid JSON."""
    suffix = "".join(Path(sample).suffixes)
    source, sealed, out = (tmp_path / f"{one}{suffix}" for one in ("in", "sealed", "out"))
    sealed = sealed.with_name("sealed.pam.jsonl")
    value = json.loads(_sample_path(*sample.split("/")).read_text())
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
    assert _contains(numbers_as_text(out.read_text()), numbers_as_text(odd))


def test_mem0_metadata_beyond_a_double_is_json_in_an_export(tmp_path: Path) -> None:
    """It used to become ``Infinity`` and ``0``."""
    source, out = tmp_path / "in.mem0.json", tmp_path / "out.mem0.json"
    source.write_text('{"results":[{"id":"1","memory":"x","metadata":{"a":1e999,"t":1e-400}}]}')
    convert(source, out, load_settings())
    assert numbers_as_text(out.read_text())["results"][0]["metadata"] == {
        "a": "1e999",
        "t": "1e-400",
    }


def test_numbers_outside_json_are_reported(tmp_path: Path) -> None:
    """NaN is written back to a format that had it, with a note."""
    source, out = tmp_path / "in.mem0.json", tmp_path / "out.mem0.json"
    source.write_text('{"results":[{"id":"1","memory":"x","metadata":{"a":NaN,"b":-Infinity}}]}')
    done = convert(source, out, load_settings())
    assert any("NaN" in note for note in done.notes)


def test_a_changed_number_is_written_without_the_old_notation() -> None:
    """The stored notation applies to the same number only."""
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
def test_malformed_notation_records_are_ignored(numbers: Any) -> None:
    """They come from files of others."""
    assert with_numbers({"a": 1, "l": [1]}, numbers) == {"a": 1, "l": [1]}


def test_canonical_bytes_do_not_contain_the_notation() -> None:
    """RFC 8785: the notation is not a part of a value."""
    assert canonical({"a": 1.0, "b": -0.0}) == b'{"a":1,"b":0}'


FREE = '{"c":1.0,"d":-0.0,"e":1,"i":100.0,"j":0.5,"deep":{"l":[1.0,{"k":2.0},1]},"m":0}'
"""Free values of a source record, without numbers beyond a double."""

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
def test_numbers_keep_their_notation_in_another_format(
    source: str, target: str, through: str, tmp_path: Path
) -> None:
    """Python reads ``1`` as an int, and ``1.0`` as a float."""
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
