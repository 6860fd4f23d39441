"""Shapes that no record of a memory has: marks of prompts, of chat templates, and disguises.

They are looked for in the text as it is and as somebody would take it, folded. Whoever notes such a
mark for a reason releases the memory once: ``satchel quarantine release``.
"""
# ruff: noqa: RUF001 - both bars

import re

from satchel.rehydrate.framing.folding import looked_through

_TEMPLATE = re.compile(
    r"<\s*[|｜]\s*/?[\w▁ -]{1,40}[|｜]\s*>"
    r"|\[\s*/?\s*inst\s*\]|<<\s*/?\s*sys\s*>>|<\s*(?:start|end)_of_turn\s*>|<\s*/\s*s\s*>"
    r"|<\s*/?\s*(?:system|assistant|developer)(?:[_ -]?(?:prompt|message|instructions?))?\s*>"
)
_CLOSING = re.compile(
    r"<\s*/\s*(?:user|human|untrusted|document|context|instructions?|memory|data|tool_result"
    r"|retrieved|search_results?|information)\s*>"
)
_BOUNDARY = re.compile(
    r"[\[<]\s*/?\s*pam\s*:|[\[<]\s*/?\s*(?:memory|semantic|episodic|procedural|working|identity)"
    r"(?:\s+\w+)?[\s-]+\d{9}\s*[\]>]"
)
_HEADER = re.compile(
    r"(?:^|\n|[\"'`>\]])[\s>*_#`~|/\-=\[({<!+.]*"
    r"(?:system|assistant|developer)(?:[ _-]?(?:note|prompt|message|override|instructions?|alert))?"
    r"[\s*_`~\])}>]*[:\uff1a]"
)
_TITLE = re.compile(
    r"(?:^|\n)\s*#{2,}\s*(?:(?:new|updated|system)\s+)?(?:instructions?|system|prompt)\s*(?::|#|\n|$)"
    r"|(?:^|\n)\W{3,40}(?:end|begin|start)\s+(?:of\s+)?(?:the\s+)?(?:user|system|document|context|prompt|"
    r"input|instructions?)\b[^\n]{0,40}"
    r"|\[\s*(?:system|admin|developer|override)(?:\s+(?:note|message|prompt|override))?\s*\]"
    r"|\bsystem\s+(?:note|override|prompt\s+update)\s*[:\uff1a]"
)
_TAGS = re.compile("[\U000e0001-\U000e007f]")
_EMOJI_TAGS = re.compile("\U0001f3f4[\U000e0061-\U000e007a\U000e0030-\U000e0039]{2,6}\U000e007f")
_OVERRIDES = re.compile("[\u202d\u202e]")
_SPLIT = re.compile(r"[^\W\d_][\u200b\u2060\ufeff\u00ad\u180e]+[^\W\d_]")
_SPLITS = 3
_LONGEST = 1 << 16

_TELLING = ("system", "assistant", "developer", "<", "[", "#")
_EDGES = ("end", "begin", "start")
_EDGE = re.compile(r"\W{3}\s*(?:end|begin|start)")


def may_have_shape(body: str) -> bool:
    """Tell whether a record's JSON is worth a closer look; most of it is not, and this is cheap."""
    text = body.replace("\\n", "\n")
    return not text.isascii() or _may_have_shape(text.casefold())


def _may_have_shape(seen: str) -> bool:
    """Tell whether a folded text is worth a closer look."""
    if any(map(seen.__contains__, _TELLING)):
        return True
    return any(map(seen.__contains__, _EDGES)) and _EDGE.search(seen) is not None


def shapes_in(text: str) -> list[str]:
    """Return what marks a text has that no memory has; empty for none."""
    found = [] if text.isascii() else _unseen_in(text)
    seen = looked_through(text)
    if not _may_have_shape(seen):
        return found
    for name, pattern in (
        ("a token of a chat template", _TEMPLATE),
        ("a tag that ends a part of a prompt", _CLOSING),
        ("a boundary of recalled memory", _BOUNDARY),
        ("a line that speaks as the system or the assistant", _HEADER),
        ("a heading of a prompt", _TITLE),
    ):
        if pattern.search(seen):
            found.append(name)
    return found


def _unseen_in(text: str) -> list[str]:
    """Return the marks that are made of what cannot be seen."""
    found = list[str]()
    if _TAGS.search(_EMOJI_TAGS.sub("", text)):
        found.append("invisible tags")
    if _OVERRIDES.search(text):
        found.append("text that is written backwards")
    if len(_SPLIT.findall(text[:_LONGEST])) >= _SPLITS:
        found.append("words split by what cannot be seen")
    return found
