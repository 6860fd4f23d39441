"""The commands that show a memory say that it is redacted."""

import json
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.mark.parametrize("command", ["show", "history", "list"])
def test_a_redacted_memory_is_marked_as_redacted(command: str, satchel: Any) -> None:
    """By whom and when: in words, and as JSON."""
    name = satchel("remember", "write to ada@example.com", "--json").json["id"]
    assert satchel("redact", name).status == 0
    arguments = [command, *([] if command == "list" else [name])]
    said = satchel(*arguments).out
    assert "redacted" in said
    redacted = next(_redacted(satchel(*arguments, "--json").json))
    assert redacted["fields"] == ["/text"]
    assert redacted["by"].startswith("did:key:")
    assert command == "list" or redacted["by"] in said.replace("\n", "").replace(" ", "")


def _redacted(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        if "redacted" in value:
            yield value["redacted"]
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _redacted(part)


def test_the_json_of_a_whole_memory_says_nothing_of_it(satchel: Any) -> None:
    """The member is there for redacted ones only."""
    name = satchel("remember", "whole", "--json").json["id"]
    assert "redacted" not in json.dumps(satchel("show", name, "--json").json)
