"""Code that a memory mentions: symbols by name, files by path, and their context for a recall.

The text is cut into words, and each is looked up in the index of names: the work grows with the
text, not with the code. Links between memories and code are computed on every request, so none is
ever stale, whichever of the two was written last.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from satchel.code_graph.facts import CALLED, TYPES, CodeNode
from satchel.code_graph.index import SourceTree
from satchel.code_graph.languages.language import language_of_file
from satchel.code_graph.queries import CodeGraph, matches_name, parts_of_name
from satchel.ports.code_context import CodeContext

LONGEST_TEXT, MOST_WORDS = 50_000, 400
"""Maximum characters of a text, and different words in it."""

MOST_OF_PLAIN = 2
"""A plain word refers to a symbol only if at most so many have its name."""

MOST_OF_NAME = 5
"""Maximum symbols of one name in a text."""

_LEAST_PLAIN = 4
_WORD = re.compile(r"[A-Za-z0-9_$@.+/:#>-]+")
_OTHER_WORD = re.compile(r"[^\W\d]\w*")
_ALPHABETS_END = 0x530
"""Letters up to here (Latin, Greek, Cyrillic) continue a word; those of other scripts often follow
one without a space."""

_EDGES = "-.:/#>+@"
_LINE = re.compile(r"(?::\d+)+$")
_SYMBOL_KINDS = "function functions method methods class classes struct interface trait enum type"
_KIND_WORDS = frozenset(_SYMBOL_KINDS.split())
_CAMEL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]|[A-Za-z][0-9]")

FILE, QUALIFIED, CODE, PLAIN = "file", "qualified", "name", "word"
_ORDER = {FILE: 0, QUALIFIED: 0, CODE: 1, PLAIN: 2}


class Word(NamedTuple):
    """A word of a text that may refer to code."""

    text: str
    how: str
    """``file``; ``qualified``: with dots; ``name``: looks like code; ``word``: an ordinary word."""


class CodeMention(NamedTuple):
    """A symbol or file that a text mentions."""

    how: str
    node: CodeNode | None
    """The symbol; None for a file."""

    tree: SourceTree
    path: str

    @property
    def key(self) -> tuple[str, str]:
        """Its identity."""
        return (f"{self.tree.name}/{self.path}", "" if self.node is None else self.node.id)


def words_of(text: str) -> list[Word]:
    """Return the words of a text that may refer to code, each once, the clearest first."""
    words = dict[str, Word]()
    spoken = False
    text = text[:LONGEST_TEXT]
    for match in _WORD.finditer(text):
        if len(words) >= MOST_WORDS:
            break
        after, before = (
            text[match.end() : match.end() + 1],
            text[max(0, match.start() - 1) : match.start()],
        )
        if _is_foreign_letter(after) or _is_foreign_letter(before):
            continue
        marked = spoken or after == "(" or (before == "`" and after == "`")
        for word in _words(match[0], marked=marked):
            earlier = words.get(word.text)
            if earlier is None or _ORDER[word.how] < _ORDER[earlier.how]:
                words[word.text] = word
        was = words.get(match[0])
        if match[0].lower() in _KIND_WORDS:
            _mark(words, text, match.start())
        spoken = match[0].lower() in _KIND_WORDS and (was is None or was.how == PLAIN)
    if not text.isascii():
        for match in _OTHER_WORD.finditer(text):
            if len(words) < MOST_WORDS and not match[0].isascii():
                words.setdefault(match[0], Word(match[0], PLAIN))
    return sorted(words.values(), key=lambda word: _ORDER[word.how])


def _is_foreign_letter(char: str) -> bool:
    return not char.isascii() and char.isalpha() and ord(char) < _ALPHABETS_END


def _mark(words: dict[str, Word], text: str, at: int) -> None:
    """Mark the word before ``function`` and the like as a name: the ``retry`` function."""
    before = text[max(0, at - 80) : at].rstrip(" `\n").rpartition(" ")[2].strip("`'\"(")
    word = words.get(before)
    if word is not None and word.how == PLAIN:
        words[before] = Word(before, CODE)


def _words(run: str, *, marked: bool) -> Iterator[Word]:
    if "://" in run:
        return
    plain = _LINE.sub("", run.strip(_EDGES))
    if language_of_file(plain) is not None:
        yield Word(plain, FILE)
        return
    for piece in plain.split("/"):
        parts = parts_of_name(piece.strip(_EDGES))
        if len(parts) > 1:
            yield Word(".".join(parts), QUALIFIED)
        elif parts and parts[0].strip("_"):
            yield Word(parts[0], CODE if marked or _looks_like_code(parts[0]) else PLAIN)


def _looks_like_code(word: str) -> bool:
    return "_" in word or "$" in word or _CAMEL.search(word) is not None


def mentions(graph: CodeGraph, text: str, most: int) -> list[CodeMention]:
    """Return the code that a text mentions, the clearest first.

    Args:
        graph: The bank's code.
        text: The text of a memory.
        most: The maximum number.
    """
    by_key = dict[tuple[str, str], CodeMention]()
    for word in words_of(text):
        if len(by_key) >= most:
            break
        for mention in _mentions_of(graph, word):
            by_key.setdefault(mention.key, mention)
    return list(by_key.values())[:most]


def _mentions_of(graph: CodeGraph, word: Word) -> Iterator[CodeMention]:
    trees = {tree.name: tree for tree in graph.trees}
    if word.how == FILE:
        for _, (tree, path) in zip(range(MOST_OF_NAME), graph.files(word.text), strict=False):
            yield CodeMention(FILE, None, tree, path)
        return
    for node in _symbols(graph, word):
        yield CodeMention(word.how, node, trees[node.tree], node.path)


def _symbols(graph: CodeGraph, word: Word) -> list[CodeNode]:
    if word.how == PLAIN:
        if len(word.text) < _LEAST_PLAIN:
            return []
        candidates = [
            node for node in graph.symbols(word.text) if node.symbol.kind in CALLED | TYPES
        ]
        return candidates if len(candidates) <= MOST_OF_PLAIN else []
    parts = word.text.split(".")
    candidates = [node for tree in graph.trees for node in tree.defined(parts[-1])]
    matching = [node for node in candidates if matches_name(node, parts)]
    if not matching and len(parts) > 1 and _looks_like_code(parts[-1]):
        matching = candidates  # client.fetch_rows(): the type of a variable is unknown
    return matching[:MOST_OF_NAME]


MOST_SHOWN = 5
"""Maximum symbols and files of one memory."""

MOST_CALLERS, MOST_INSIDE = 5, 12
"""Maximum listed callers of a symbol, and members of a type or a file."""

MOST_COUNTED = 300
"""Maximum callers that are counted."""

_DOC = 160


def contexts(graph: CodeGraph, text: str, most: int = MOST_SHOWN) -> list[CodeContext]:
    """Return the context of the code that a text mentions, the clearest first."""
    return [
        _of_file(graph, mention)
        if mention.node is None
        else _of_symbol(graph, mention, mention.node)
        for mention in mentions(graph, text, most)
    ]


def _of_symbol(graph: CodeGraph, mention: CodeMention, node: CodeNode) -> CodeContext:
    symbol = node.symbol
    calls = list(islice(graph.callers(node), MOST_COUNTED))
    certain = sorted(
        (call.path, call.use.line, call.caller) for call in calls if call.meaning.is_certain
    )
    callers = [
        f"{path if caller is None else caller.symbol.qualified} ({path}:{line})"
        for path, line, caller in certain[:MOST_CALLERS]
    ]
    inside = [each.symbol for each in graph.methods(node)] if symbol.kind in TYPES else []
    return CodeContext(
        id=node.id,
        kind=symbol.kind,
        name=symbol.qualified,
        path=node.path,
        how=mention.how,
        line=symbol.first,
        language=node.facts.language,
        signature=symbol.signature,
        doc=_beginning(symbol.doc),
        complexity=symbol.complexity,
        callers=callers,
        more_callers=len(certain) - len(callers),
        may_call=len(calls) - len(certain) if symbol.kind in CALLED else 0,
        inside=[each.signature or each.name for each in inside[:MOST_INSIDE]],
        more_inside=max(0, len(inside) - MOST_INSIDE),
    )


def _of_file(graph: CodeGraph, mention: CodeMention) -> CodeContext:
    nodes = graph.in_file(mention.tree, mention.path)
    top = [node.symbol for node in nodes if "." not in node.symbol.qualified]
    return CodeContext(
        id=f"{mention.tree.name}/{mention.path}",
        kind="file",
        name=mention.path.rpartition("/")[2],
        path=mention.path,
        how=mention.how,
        language=nodes[0].facts.language if nodes else "",
        inside=[each.signature or each.name for each in top[:MOST_INSIDE]],
        more_inside=max(0, len(top) - MOST_INSIDE),
    )


def _beginning(doc: str) -> str:
    """Return the first sentence or so."""
    first = doc.partition("\n\n")[0].replace("\n", " ")
    return first if len(first) <= _DOC else first[: _DOC - 1].rstrip() + "…"
