"""The words of the web page: those of the field, as the rest of the documentation has them."""

import re
from importlib.resources import files

import pytest

PAGE = files("satchel.surfaces.web")
SOURCES = sorted(one.name for one in PAGE.iterdir() if one.name.endswith((".js", ".html")))
NOT_OURS = re.compile(
    r"\bthe past\b|put away|of which user|to be remembered|if the format can be|those that ended"
    r"|one of them|\ball of it\b|may be left out|all the same|stranger|\bproved?\b|\bproves\b"
    r"|(?<!URI)component|would do"
    r"|what is wrong|\bdoor\b|whoever has|look at every|\banew\b|goes along",
    re.IGNORECASE,
)
TEXTS = re.compile(r'"(?:[^"\\\\\n]|\\\\.)*"|`(?:[^`\\\\]|\\\\.)*`|>[^<>]+<')


@pytest.mark.parametrize("name", SOURCES)
def test_texts_of_the_page_are_in_the_vocabulary(name: str) -> None:
    """What is in quotes and has a space is read by people; names of members are the server's."""
    texts = TEXTS.findall(PAGE.joinpath(name).read_text())
    assert texts
    assert [text for text in texts if " " in text and NOT_OURS.search(text)] == []


def test_the_check_of_the_vocabulary_finds_what_it_looks_for() -> None:
    """In every kind of quotes."""
    for text in ('"the past too"', "`Put away ${name}`", "<p>proved by the head</p>"):
        (found,) = TEXTS.findall(text)
        assert NOT_OURS.search(found)
