"""Finding people, organisations, places, dates and products by rules.

A word with a capital is looked at with what stands around it: lists of names first, then words
that only stand in such names (University, Street), then what is said of it (works at, lives in).
What none of this speaks of is left out. Made for English; of languages that capitalise every noun
it finds what is in its lists. How well: docs/guides/embeddings.md.
"""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from satchel.inference.entities import _cues as cues
from satchel.inference.entities.dates import dates_in
from satchel.ports.inference.extractor import EntityType, Mention

MODEL = "satchel-rules/1"

_DATA = Path(__file__).parent / "data"
_LONGEST = 1 << 16
"""Characters of a text that are looked at, from its start."""

_TOKEN = re.compile(r"[^\W_](?:[\w&+#/]|['’.-](?=\w))*(?:[+#]+|(?<=\b[A-Z])\.)?", re.UNICODE)  # noqa: RUF001 - an apostrophe
_POSSESSIVE = re.compile(r"['’]s$")  # noqa: RUF001 - idem
_ENDS = re.compile(r"[.!?:;\n\"“”„•|]|\s-\s")
_ROMAN_OR_NUMBER = re.compile(r"\d[\w.]*|[IVX]{1,4}|[A-Z]?\d+[A-Za-z]?")
_MOST_WORDS = 6
_GERMAN_FROM = 0.3


class _Token(NamedTuple):
    text: str
    """Without the ``'s`` of a possessive."""

    start: int
    end: int
    begins: bool
    """Whether a sentence begins with it."""

    joined: bool
    """Whether only a space is between it and the one before."""

    owns: bool
    """Whether it had a possessive."""

    @property
    def capital(self) -> bool:
        return self.text[0].isupper()

    @property
    def folded(self) -> str:
        return self.text.casefold()


class _Lists(NamedTuple):
    first_names: frozenset[str]
    named: dict[tuple[str, ...], EntityType]
    """Names of more than people, by their words."""


class RuleExtractor:
    """Finds entities; the same in the same text, always."""

    model = MODEL

    def extract(self, texts: Sequence[str]) -> list[list[Mention]]:
        """Return for each text its mentions; see ``Extractor``."""
        return [_mentions(text[:_LONGEST]) for text in texts]


def _mentions(text: str) -> list[Mention]:
    taken = list(dates_in(text))
    found = [Mention(text[start:end], "date", start, end) for start, end in taken]
    found += _Reading(text, list(_tokens(text, taken))).mentions()
    return sorted(found, key=lambda one: one.start)


def _tokens(text: str, taken: list[tuple[int, int]]) -> Iterator[_Token]:
    """Yield the words of a text that are in no date."""
    dates, last, before, cut = deque(taken), 0, "", False
    for found in _TOKEN.finditer(text):
        start, end = found.span()
        while dates and dates[0][1] <= start:
            dates.popleft()
        if dates and dates[0][0] < end:
            last, before, cut = end, "", True
            continue
        between, word = text[last:start], found.group()
        short = between.startswith(".") and f"{before.casefold()}." in cues.TITLES
        begins = last == 0 or (not short and _ENDS.search(between) is not None)
        joined = not cut and (between == " " or (short and between == ". "))
        own = _POSSESSIVE.sub("", word)
        yield _Token(own, start, start + len(own), begins, joined, own != word)
        last, before, cut = end, word, False


class _Reading:
    """One text, read from its first word to its last."""

    def __init__(self, text: str, tokens: list[_Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._lists = _lists()
        middle = [one for one in tokens if not one.begins and one.text.isalpha()]
        capitals = sum(one.capital for one in middle)
        german = sum(one.folded in cues.GERMAN for one in tokens)
        self._lists_only = german > 1 and capitals > _GERMAN_FROM * len(middle)
        self._known = {one.text for one in middle if one.capital}

    def mentions(self) -> Iterator[Mention]:
        """Yield what is named, in its order."""
        at = 0
        while at < len(self._tokens):
            if self._only_opens(at):
                at += 1
                continue
            if self._is_title(at):
                end = self._cut(at + 1, self._run(at + 1))
                yield self._mention(at + 1, end, "person")
                at = end
                continue
            end, kind = self._named_at(at)
            if kind is not None:
                yield self._mention(at, end, kind)
            at = max(end, at + 1)

    def _mention(self, at: int, end: int, kind: EntityType) -> Mention:
        first, last = self._tokens[at], self._tokens[end - 1]
        return Mention(self._text[first.start : last.end], kind, first.start, last.end)

    def _is_title(self, at: int) -> bool:
        """Tell whether a short title stands before somebody's name."""
        if self._tokens[at].folded not in cues.SHORT_TITLES or at + 1 == len(self._tokens):
            return False
        after = self._tokens[at + 1]
        return after.capital and after.joined

    def _only_opens(self, at: int) -> bool:
        """Tell whether a word is no part of the name that comes after it."""
        token = self._tokens[at]
        opens = token.begins and token.folded in cues.ORDINARY - cues.TITLES_BARE
        return opens and self._run(at) > at + 1 and self._listed(at)[1] is None

    def _named_at(self, at: int) -> tuple[int, EntityType | None]:
        """Return what begins with a token, and the token after it."""
        token = self._tokens[at]
        listed, kind = self._listed(at)
        if kind is None and not token.capital:
            return at + 1, None
        end = max(self._run(at), listed)
        whole = self._by_form(at, end)
        if whole is not None:
            return end, whole
        if kind is not None:
            if token.begins and listed == at + 1 and token.folded in cues.ORDINARY:
                return at + 1, None
            return self._extended(at, listed, kind)
        return self._person_or_context(at, end)

    def _listed(self, at: int) -> tuple[int, EntityType | None]:
        words = tuple(one.text for one in self._tokens[at : at + 4])
        for count in range(len(words), 0, -1):
            kind = self._lists.named.get(words[:count])
            if kind is not None:
                return at + count, kind
        return at, None

    def _extended(self, at: int, end: int, kind: EntityType) -> tuple[int, EntityType]:
        """Take in the number of a model, and the maker before it."""
        after, there = end, end
        while after < len(self._tokens) and after - at < _MOST_WORDS and self._tokens[after].joined:
            token = self._tokens[after]
            numbered = _ROMAN_OR_NUMBER.fullmatch(token.text) is not None and not token.begins
            if numbered or token.text in cues.MODELS:
                there = after + 1
            elif not (kind == "organisation" and token.capital and after == end):
                break
            after += 1
        if there > end and kind in ("product", "organisation"):
            return there, "product"
        listed, next_kind = self._listed(end) if end < len(self._tokens) else (end, None)
        if kind == "organisation" and next_kind == "product" and self._tokens[end].joined:
            return self._extended(at, listed, "product")
        return end, kind

    def _run(self, at: int) -> int:
        """Return where a run of words with capitals ends."""
        end = at + 1
        while end < len(self._tokens) and end - at < _MOST_WORDS:
            token, before = self._tokens[end], self._tokens[end - 1]
            follows = token.joined or self._is_titled(before, token)
            if not follows or before.owns:
                break
            if token.capital and not token.begins:
                end += 1
            elif (
                token.text in cues.LINKS
                and end + 1 < len(self._tokens)
                and self._tokens[end + 1].capital
                and self._tokens[end + 1].joined
            ):
                end += 2
            else:
                break
        return end

    def _is_titled(self, before: _Token, token: _Token) -> bool:
        """Tell whether a title stands right before a name; a date may have stood in between."""
        between = self._text[before.end : token.start]
        return before.folded in cues.TITLES_BARE and not token.begins and not between.strip(". ")

    def _by_form(self, at: int, end: int) -> EntityType | None:
        """Tell what a run is by the words in it."""
        words = [one.text for one in self._tokens[at:end]]
        if len(words) == 1 or self._lists_only:
            return None
        linked = any(word in cues.LINKS for word in words)
        if words[-1] in cues.ORGANISATIONS or (linked and words[0] in cues.ORGANISATIONS):
            return "organisation"
        if words[-1] in cues.PLACES or words[0] in cues.PLACES_BEFORE:
            return "place"
        return None

    def _person_or_context(self, at: int, end: int) -> tuple[int, EntityType | None]:
        token = self._tokens[at]
        if token.folded in cues.TITLES_BARE and end > at + 1:
            return self._cut(at, end), "person"
        if token.folded in self._lists.first_names and not self._is_plain(at, end):
            return self._cut(at, min(end, at + 3)), "person"
        if self._lists_only:
            return at + 1, None
        if token.begins and (end == at + 1 or token.folded in cues.ORDINARY):
            if end > at + 1:
                return self._named_at(at + 1)
            return self._beginning(at)
        if token.folded in cues.ORDINARY and end == at + 1:
            return end, None
        end = self._cut(at, end)
        return end, self._by_context(at, end)

    def _is_plain(self, at: int, end: int) -> bool:
        """Tell whether what could be a first name is an ordinary word that begins a sentence."""
        token = self._tokens[at]
        return token.begins and token.folded in cues.ORDINARY and end == at + 1

    def _beginning(self, at: int) -> tuple[int, EntityType | None]:
        """Judge a lone word that begins a sentence: a name if it is one further on, or acts."""
        token = self._tokens[at]
        if token.folded in cues.ORDINARY:
            return at + 1, None
        after = self._tokens[at + 1] if at + 1 < len(self._tokens) else None
        acts = after is not None and after.joined and after.folded in cues.ACTS
        if token.text in self._known or acts or (token.owns and not token.folded.endswith("s")):
            return at + 1, self._by_context(at, at + 1) or "person"
        return at + 1, None

    def _cut(self, at: int, end: int) -> int:
        """Leave out what is in a list of its own at the end of a run, such as a place."""
        for place in range(at + 1, end):
            if self._listed(place)[1] is not None and self._tokens[place - 1].text in cues.LINKS:
                return place - 1
        return end

    def _by_context(self, at: int, end: int) -> EntityType | None:
        """Tell what a run is by what is said around it."""
        before = [one.folded for one in self._tokens[max(0, at - 5) : at]]
        after = self._tokens[end].folded if end < len(self._tokens) else ""
        if before and before[-1] == "the":
            before.pop()
        token, last = self._tokens[at], before[-1] if before else ""
        kind: EntityType | None = None
        if end - at == 1 and token.text.isupper() and len(token.text) > 1:
            kind = "organisation" if last in ("at", "for", "by", "joined") else None
        elif _is_model(token.text) or any(c.isdigit() for c in self._tokens[end - 1].text):
            kind = "product"
        elif cues.WORKS & set(before) and last in ("at", "for", "with", "joined", "of", "by", "to"):
            kind = "organisation"
        elif last in cues.INSIDE or (last in ("to", "from", "for") and cues.MOVES & set(before)):
            kind = "place"
        elif last in cues.USES or after in cues.THINGS:
            kind = "product"
        elif token.owns or end - at > 1 or after in cues.ACTS or last in cues.BESIDE_PEOPLE:
            kind = "person"
        return kind


def _is_model(word: str) -> bool:
    """Tell whether a word has a capital or a digit inside, as PostgreSQL and S23 have."""
    rest = word[1:]
    if word.startswith(("Mc", "Mac", "O'", "D'")) or "-" in word:
        return False
    return any(c.isdigit() for c in rest) or (any(c.isupper() for c in rest) and not word.isupper())


@cache
def _lists() -> _Lists:
    named = dict[tuple[str, ...], EntityType]()
    for kind, name in cues.FILES:
        for line in (_DATA / name).read_text("utf-8").splitlines():
            words = tuple(_TOKEN.findall(line))
            named.setdefault(words, kind)
    names = (_DATA / "first_names.txt").read_text("utf-8").split()
    return _Lists(frozenset(names), named)
