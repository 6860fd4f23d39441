"""The commands that show a memory say that it is redacted."""

import json
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.mark.parametrize("command", ["show", "history", "list"])
def test_show_history_and_list_mark_a_redacted_memory(command: str, satchel: Any) -> None:
    """With signer and time, as text and as JSON."""
    name = satchel("remember", "write to ada@example.com", "--json").json["id"]
    assert satchel("redact", name).status == 0
    arguments = [command, *([] if command == "list" else [name])]
    said = satchel(*arguments).out
    assert "redacted" in said
    redacted = next(_redactions(satchel(*arguments, "--json").json))
    assert redacted["fields"] == ["/text"]
    assert redacted["by"].startswith("did:key:")
    assert command == "list" or redacted["by"] in said.replace("\n", "").replace(" ", "")


def _redactions(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        if "redacted" in value:
            yield value["redacted"]
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _redactions(part)


def test_the_json_of_an_unredacted_memory_has_no_such_member(satchel: Any) -> None:
    """Only redacted memories have it."""
    name = satchel("remember", "whole", "--json").json["id"]
    assert "redacted" not in json.dumps(satchel("show", name, "--json").json)
