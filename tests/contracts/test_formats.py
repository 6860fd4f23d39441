"""Every installed format keeps every format promise."""

import tomllib
from pathlib import Path

import pytest
from amplihack_kit import graph_in, tables_in
from chats_kit import activities_in, values_in
from frameworks_kit import collections_in, rows_in
from graphs_kit import files_in as archived_in
from hypothesis import is_hypothesis_test, settings
from notes_kit import files_in, lines_in

from satchel.conformance.formats import *  # noqa: F403
from satchel.conformance.formats import Subject
from satchel.conformance.subject import parsed
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
"""How many examples of a property are tried where reading a file starts a process, or where another
format, which is tried with all of them, does the same."""


@pytest.fixture(scope="session", params=list(formats))
def subject(request: pytest.FixtureRequest) -> Subject:
    """Each installed format with its samples."""
    name: str = request.param
    return Subject(name, formats[name], _SAMPLES / name, _PARSERS.get(name, parsed))


def test_every_format_has_a_sample_folder() -> None:
    """A format without samples, or samples without a format, is a mistake."""
    assert {folder.name for folder in _SAMPLES.iterdir() if folder.is_dir()} == set(formats)


def test_the_contract_that_formats_are_independent_lists_every_format() -> None:
    """``lint-imports`` checks only the modules that the contract names."""
    contracts = tomllib.loads(_PROJECT.read_text())["tool"]["importlinter"]["contracts"]
    (independence,) = (
        each["modules"] for each in contracts if each["name"] == "Formats do not know each other"
    )

    assert independence == [f"satchel.formats.{name}" for name in formats]


@pytest.fixture(autouse=True)
def fewer_examples(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take fewer examples of a property where a format is slow to read."""
    parameters = getattr(request.node, "callspec", None)
    most = _SLOW.get(parameters.params.get("subject", "")) if parameters else None
    if most and is_hypothesis_test(request.function):
        own = "_hypothesis_internal_use_settings"  # there is no other way to it after ``@given``
        whole = getattr(request.function, own)
        monkeypatch.setattr(request.function, own, settings(whole, max_examples=most))
