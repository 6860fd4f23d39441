"""The texts of the web page use the vocabulary of the documentation, and existing commands."""

import json
import re
from importlib.resources import files
from typing import Any

import pytest

PAGE = files("satchel.web")
SOURCES = sorted(one.name for one in PAGE.iterdir() if one.name.endswith((".js", ".html")))
WORDS_TO_AVOID = re.compile(
    r"\bthe past\b|put away|of which user|to be remembered|if the format can be|those that ended"
    r"|one of them|\ball of it\b|may be left out|all the same|stranger|\bproved?\b|\bproves\b"
    r"|(?<!URI)component|would do"
    r"|what is wrong|\bdoor\b|whoever has|look at every|\banew\b|goes along",
    re.IGNORECASE,
)
COMMANDS = re.compile(r"\bsatchel ([a-z]+(?: [a-z-]+)*)((?: --?[a-z-]+(?: [A-Z]+)?)*)")
STORED = {"look", "operator"}
"""Keys of the browser's storage: ``satchel look`` and ``satchel operator``."""

TEXTS = re.compile(r'"(?:[^"\\\\\n]|\\\\.)*"|`(?:[^`\\\\]|\\\\.)*`|>[^<>]+<')


@pytest.mark.parametrize("name", SOURCES)
def test_texts_of_the_page_are_in_the_vocabulary(name: str) -> None:
    """Quoted strings with a space are user-visible; names of members are the server's."""
    texts = TEXTS.findall(PAGE.joinpath(name).read_text())
    assert texts
    assert [text for text in texts if " " in text and WORDS_TO_AVOID.search(text)] == []


def test_commands_that_the_page_names_exist_with_their_options() -> None:
    """A command with the options that follow it, or a group of commands."""
    known = json.loads(files("satchel.cli").joinpath("commands.json").read_text())
    named = set[str]()
    for name in SOURCES:
        for words, options in COMMANDS.findall(PAGE.joinpath(name).read_text()):
            if words in STORED:
                continue
            command = _command(words, known)
            assert command is not None, words
            named.add(command)
            flags = {
                part
                for each in known[command].get("parameters", [])
                for flag in each.get("flags", [])
                for part in flag.split("/")
            }
            assert set(re.findall(r"--[a-z-]+", options)) <= flags | {"--help"}, (words, options)
    assert {"store encrypt", "bank owner", "serve", "erase"} <= named


def _command(words: str, known: dict[str, Any]) -> str | None:
    """Return the command, or the group, that a text starts with; None for neither."""
    parts = words.split()
    for length in range(len(parts), 0, -1):
        command = " ".join(parts[:length])
        is_group = any(other.startswith(f"{command} ") for other in known)
        if command in known and (not is_group or length == len(parts)):
            return command
    return None


def test_the_vocabulary_check_finds_words_in_any_quotes() -> None:
    """Double quotes, backticks and HTML."""
    for text in ('"the past too"', "`Put away ${name}`", "<p>proved by the head</p>"):
        (found,) = TEXTS.findall(text)
        assert WORDS_TO_AVOID.search(found)
