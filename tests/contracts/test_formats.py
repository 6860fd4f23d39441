"""The conformance suite of formats, for every installed format."""

import tomllib
from pathlib import Path

import msgspec
import pytest
from amplihack_kit import graph_in, tables_in
from chats_kit import activities_in, values_in
from frameworks_kit import collections_in, rows_in
from graphs_kit import files_in as archived_in
from hypothesis import is_hypothesis_test, settings
from notes_kit import files_in, lines_in

from satchel.conformance.formats import *  # noqa: F403
from satchel.conformance.formats import Subject
from satchel.conformance.strategies import simplest
from satchel.conformance.subject import parsed, sealed
from satchel.model.records import Entry, Identity, Semantic
from satchel.model.values import Component, Scope
from satchel.ports.format import formats

_SAMPLES = Path(__file__).parent.parent / "data" / "formats"
_PROJECT = Path(__file__).parents[2] / "pyproject.toml"
_PARSERS = {
    "agents_md": files_in,
    "amplihack_db": tables_in,
    "amplihack_flat": tables_in,
    "amplihack_graph": graph_in,
    "chatgpt": values_in,
    "chroma": collections_in,
    "claude": values_in,
    "claude_code": values_in,
    "claude_text": lines_in,
    "cursor_rules": files_in,
    "markdown_memory": files_in,
    "cognee": archived_in,
    "codex": values_in,
    "gemini": activities_in,
    "langgraph": rows_in,
    "langgraph_checkpoints": rows_in,
    "openmemory": values_in,
}
_SLOW = {"amplihack_graph": 8, "claude_text": 20, "cursor_rules": 20, "markdown_memory": 50}
"""The number of examples for formats that start a process or share their reader with another."""


@pytest.fixture(scope="session", params=list(formats))
def subject(request: pytest.FixtureRequest) -> Subject:
    """Each installed format with its samples."""
    name: str = request.param
    return Subject(name, formats[name], _SAMPLES / name, _PARSERS.get(name, parsed))


def test_every_format_has_a_sample_folder() -> None:
    """And every folder a format."""
    assert {folder.name for folder in _SAMPLES.iterdir() if folder.is_dir()} == set(formats)


def test_the_import_contract_of_formats_lists_every_format() -> None:
    """``lint-imports`` checks the listed modules only."""
    contracts = tomllib.loads(_PROJECT.read_text())["tool"]["importlinter"]["contracts"]
    (independence,) = (
        each["modules"] for each in contracts if each["name"] == "Formats do not know each other"
    )

    assert independence == [f"satchel.formats.{name}" for name in formats]


@pytest.fixture(autouse=True)
def fewer_examples(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run fewer examples of a property for slow formats."""
    parameters = getattr(request.node, "callspec", None)
    most = _SLOW.get(parameters.params.get("subject", "")) if parameters else None
    if most and is_hypothesis_test(request.function):
        own = "_hypothesis_internal_use_settings"  # the only access to it after ``@given``
        whole = getattr(request.function, own)
        monkeypatch.setattr(request.function, own, settings(whole, max_examples=most))


# -- empty owners ------------------------------------------------------------------------


_WRITABLE = [name for name in formats if formats[name].info.traits.writes]


@pytest.mark.parametrize("name", _WRITABLE)
@pytest.mark.parametrize("member", ["user", "agent", "run", "app"])
def test_an_empty_owner_is_written_or_counted_as_lost(name: str, member: str) -> None:
    """In every format that writes."""
    held = formats[name].info.traits.components
    kind: type[Entry] = Semantic if Component.SEMANTIC in held else Identity
    subject = Subject(name, formats[name], _SAMPLES / name)
    entry = kind(text="there", scope=msgspec.convert({member: ""}, Scope))
    with sealed([entry]) as records, subject.written(records) as (path, report):
        back = [found.get("scope") for found in subject.take(path).contents if "text" in found]
    told = any("scope" in loss.name for loss in report.losses.values())
    assert back == [{member: ""}] or told


# -- interleaved sections ----------------------------------------------------------------


def test_two_sections_can_be_read_alternately() -> None:
    """As by a writer that interleaves two sections."""
    kinds = ("procedural", "semantic")
    with sealed([simplest(kind) for kind in kinds for _ in range(5)]) as records:
        apart = [[record.id for record in records.of(kind)] for kind in kinds]
        in_turns = list(zip(*(records.of(kind) for kind in kinds), strict=True))

    assert [[pair[side].id for pair in in_turns] for side in (0, 1)] == apart
