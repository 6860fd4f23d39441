"""Finding near-duplicates among many texts, with some hundred bytes of memory for each.

Texts whose numbers or negations differ are never compared. Of all other pairs, few are compared in
full: the first quarter of two vectors, with the lengths of their rests, gives an upper bound of the
cosine, and only pairs that may reach the limit are compared. The result is exact; the bound takes
65 products for each pair instead of 256.
"""

import re
import tempfile
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple

from blake3 import blake3

from satchel.ports.inference import Embedder
from satchel.runtime.arrays import numpy
from satchel.runtime.files import Closable
from satchel.runtime.scratch import SpoolStreams

_NEGATIONS = (
    "no not nor never none nobody nothing nowhere neither without cannot cant dont doesnt "
    "didnt wont isnt arent wasnt werent hasnt havent hadnt wouldnt couldnt shouldnt mustnt "
    "hardly barely nicht nie niemals nichts niemand kein keine keinen keinem keiner keines "
    "ohne weder noch ne pas jamais rien personne aucun aucune sans ni nunca jamás nada nadie "
    "ningún ninguno ninguna sin tampoco non mai niente nulla nessuno nessuna senza né não nem "
    "ninguém nenhum nenhuma sem niet nooit niets geen zonder nigdy nic nikt bez ani не нет ни "
    "никогда ничего никто без inte aldrig ingen inget inga utan ikke aldri uten ei"
)
NEGATIONS = frozenset(_NEGATIONS.split())
"""Negations of several languages; some mean something else in another."""

_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy "
    "eighty ninety hundred thousand million billion dozen half quarter double triple once "
    "twice thrice first second third fourth fifth sixth seventh eighth ninth tenth last null "
    "eins ein eine einen zwei drei vier fünf sechs sieben acht neun zehn elf zwölf hundert "
    "tausend halb erste zweite dritte un une deux trois quatre cinq sept huit neuf dix onze "
    "douze vingt cent mille premier uno una dos tres cuatro cinco seis siete ocho nueve diez "
    "cien mil primero segundo tercero due tre quattro cinque sei sette otto nove dieci cento"
)
NUMBERS = frozenset(_NUMBERS.split())
"""Numbers in letters."""

_OPPOSITES = (
    "like likes liked love loves loved adore adores enjoy enjoys enjoyed hate hates hated "
    "dislike dislikes disliked avoid avoids avoided prefer prefers preferred refuse refuses "
    "refused more less most least before after until since above below over under up down in "
    "out on off left right north south east west true false yes always rarely often seldom "
    "sometimes allow allows allowed deny denies denied forbid forbids forbidden enable enabled "
    "enables disable disabled disables accept accepts accepted reject rejects rejected start "
    "starts started stop stops stopped begin begins began quit quits open opens opened close "
    "closes closed win wins won lose loses lost buy buys bought sell sells sold lend lends "
    "borrow borrows increase increased increases decrease decreased decreases add added remove "
    "removed alive dead married divorced single pass passed fail failed failing monday tuesday "
    "wednesday thursday friday saturday sunday january february march april june july august "
    "september october november december today tomorrow yesterday morning noon afternoon "
    "evening night week month year weekly monthly yearly daily hourly next mother father "
    "sister brother son daughter wife husband aunt uncle"
)
OPPOSITES = frozenset(_OPPOSITES.split())
"""Words whose replacement changes the meaning: likings, directions, days, relations."""

_PERSONS = (
    "i me my mine myself we us our ours you your yours he him his she her hers it its they "
    "them their theirs who whom whose ich mich mir mein du dich dein er ihn sein sie ihr wir "
    "uns je tu il elle nous vous ils elles yo tú él ella nosotros"
)
PERSONS = frozenset(_PERSONS.split())
"""Pronouns for persons."""

_BEGINNINGS = (
    "the a an this that these those there here and but or so if when while because as at by "
    "for from of to with about user users is are was were be been being do does did has have "
    "had can could will would should may might must please also some any all each every both "
    "what where why how der die das ein eine und aber le la les un une et el los las il lo gli"
)
BEGINNINGS = frozenset(_BEGINNINGS.split())
"""Words that start sentences, with a capital, and are not names."""


_DIGITS = re.compile(r"\d+")
_AROUND = " \t\n.,;:!?\"'()[]{}<>*_`~…„“”‚‘’«»‹›—–-。、！？「」『』（）"  # noqa: RUF001 - quotes of all languages
_ENDS = ".!?:;…\"'“”«»„。！？\n"  # noqa: RUF001 - idem
_APOSTROPHES = str.maketrans({"’": "'", "ʼ": "'", "`": "'"})  # noqa: RUF001 - idem

_LONG, _REMEMBERED = 1000, 64
"""Digits from which a number is compared as text; length from which a word is not cached."""


class TextFeatures(NamedTuple):
    """The features that distinguish a text from others with similar vectors."""

    numbers: tuple[str, ...]
    """In order."""

    negations: int
    names: tuple[str, ...]
    """Capitalized words within sentences, in order."""

    words: tuple[str, ...]
    """All words, case-folded, in order."""

    odd: frozenset[str]
    """Words that both texts must have: possible names, opposites, and words in scripts without
    spaces or capitals."""

    persons: frozenset[str]
    """Pronouns such as "she", which must not be replaced by others."""

    @property
    def key(self) -> tuple[object, ...]:
        """Features that must be equal; texts with different keys are not compared."""
        return self.numbers, self.negations


class _Word(NamedTuple):
    """The features of a word, independent of its position."""

    folded: str
    numbers: tuple[str, ...]
    negates: bool
    odd: bool
    """Whether both texts must have it, for other reasons than an initial capital."""

    capital: bool
    person: bool
    ends: bool
    """Whether it ends a sentence."""


def text_features(text: str) -> TextFeatures:
    """Return the features of a text."""
    words = [_word(raw) for raw in text.translate(_APOSTROPHES).split()]
    names, odd = list[str](), set[str]()
    fresh = True
    for word in words:
        if word.odd:
            odd.add(word.folded)
        if word.capital:
            if not fresh:
                names.append(word.folded)
            if not fresh or word.folded not in BEGINNINGS:
                odd.add(word.folded)
        fresh = word.ends or (fresh and not word.folded)
    return TextFeatures(
        numbers=tuple(number for word in words for number in word.numbers),
        negations=sum(word.negates for word in words),
        names=tuple(names),
        words=tuple(word.folded for word in words if word.folded),
        odd=frozenset(odd),
        persons=frozenset(word.folded for word in words if word.person),
    )


def may_be_same(text: TextFeatures, other: TextFeatures) -> bool:
    """Return whether the features of two texts allow them to be near-duplicates."""
    if text.key != other.key:
        return False
    if Counter(text.words) == Counter(other.words):
        return text.words == other.words  # a mean vector ignores the order: who paid whom
    words, other_words = set(text.words), set(other.words)
    if (text.odd - other_words) or (other.odd - words):
        return False
    if (text.persons - other_words) and (other.persons - words):
        return False
    names = frozenset(text.names) | frozenset(other.names)
    return _in_order(text.words, names) == _in_order(other.words, names)


def _in_order(words: tuple[str, ...], names: frozenset[str]) -> list[str]:
    return [word for word in words if word in names]


@lru_cache(1 << 16)
def _known(raw: str) -> _Word:
    word = raw.strip(_AROUND)
    folded = word.casefold().removesuffix("'s")
    numbers = [str(int(each)) if len(each) < _LONG else each for each in _DIGITS.findall(raw)]
    negates = folded in NEGATIONS or folded.endswith("n't")
    person = folded in PERSONS
    return _Word(
        folded=folded,
        numbers=(*numbers, folded) if folded in NUMBERS else tuple(numbers),
        negates=negates,
        odd=bool(folded) and not negates and _is_odd(word, folded),
        capital=word[:1].isupper() and not person,
        person=person,
        ends=raw[-1] in _ENDS,
    )


def _word(raw: str) -> _Word:
    """Return the features of a word; those of very long words are not cached."""
    return _known(raw) if len(raw) <= _REMEMBERED else _known.__wrapped__(raw)


def _is_odd(word: str, folded: str) -> bool:
    if folded in OPPOSITES:
        return True
    if any(map(str.isupper, word[1:])):
        return True
    if folded in PERSONS:
        return False
    plain = word.replace("'", "").replace("-", "")
    if not plain.isalpha():
        return True  # an address, a path, a version, a symbol
    return not plain.isascii() and any(letter.lower() == letter.upper() for letter in plain)


LEAST = 0.92
"""Lowest cosine of near-duplicates."""

_TOGETHER = 512
_FIRST, _SECOND = 4096, 1024
"""Rows of a block: earlier texts, and the texts that are compared with them."""

_HIT = 64
_PREFIX = 64
_SLACK = 1e-4
_CANDIDATES, _MOST = 32, 8
"""Maximum texts that a text is compared with word by word, and that are returned for it."""

Progress = Callable[[int, int], None]
"""Called with the number of pairs compared, and the number of all."""


class SimilarText(NamedTuple):
    """An earlier text that is a near-duplicate."""

    name: str
    similarity: float


class DuplicateIndex(Closable):
    """Finds near-duplicates among texts. A context manager that deletes its temporary files.

    Args:
        embedder: Computes the vectors.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._np = numpy()
        self._embedder = embedder
        self._waiting: list[tuple[str, str, str]] = []
        self._names: list[str] = []
        self._extents = array("Q")
        self._texts = SpoolStreams()
        self._vectors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the context
        self._bounds = tempfile.TemporaryFile()  # noqa: SIM115 - idem
        self._width = min(_PREFIX, embedder.dimensions) + 1
        self._groups: dict[bytes, array[int]] = {}
        self._same = dict[bytes, int]()
        self._equal = dict[int, int]()
        self._at = dict[str, int]()
        self._first_fresh = 0
        self.characters = 0
        """Characters of all texts."""

    def close(self) -> None:
        """Free the space."""
        self._texts.close()
        self._vectors.close()
        self._bounds.close()

    def add(self, name: str, text: str, group: str = "") -> None:
        """Add a text; a blank one has no duplicates.

        Args:
            name: Its name; a name that is used twice keeps the first text.
            text: The text.
            group: Only texts of the same group are compared.
        """
        if text.strip():
            self._waiting.append((name, text, group))
            self.characters += len(text)
            if len(self._waiting) == _TOGETHER:
                self._embed()

    def begin(self) -> None:
        """Search only for duplicates of the texts added from here on."""
        self._embed()
        self._first_fresh = len(self._names)

    @property
    def count(self) -> int:
        """Number of texts."""
        return len(self._names) + len(self._waiting)

    @property
    def pairs(self) -> int:
        """Number of pairs to compare, on which the time depends."""
        self._embed()
        return sum(
            len(group) * self._fresh(group) - self._fresh(group) * (self._fresh(group) + 1) // 2
            for group in self._groups.values()
        )

    def twins(
        self, least: float = LEAST, progress: Progress | None = None
    ) -> dict[str, list[SimilarText]]:
        """Return the earlier near-duplicates of texts that have some.

        Args:
            least: The lowest cosine, above 0.
            progress: Called as pairs are compared.

        Returns:
            Near-duplicates by name, in the order in which texts were added; at most eight, the most
            similar first.
        """
        self._embed()
        self._vectors.flush()
        self._bounds.flush()
        twins = {
            later: [SimilarText(self._names[first], 1.0)]
            for later, first in self._equal.items()
            if later >= self._first_fresh
        }
        done, total = 0, self.pairs
        for group in self._groups.values():
            for start in range(len(group) - self._fresh(group), len(group), _SECOND):
                block = group[start : start + _SECOND]
                twins |= self._twins_of(group, start, block, least)
                done += len(block) * start + len(block) * (len(block) - 1) // 2
                if progress is not None:
                    progress(done, total)
        return {self._names[later]: twins[later] for later in sorted(twins)}

    def text(self, name: str) -> str:
        """Return the text that was added under a name."""
        return self._text(self._at[name])

    def _text(self, index: int) -> str:
        start, end = self._extents[2 * index], self._extents[2 * index + 1]
        return b"".join(self._texts.read_range(start, end)).decode()

    def _fresh(self, group: Sequence[int]) -> int:
        """Return the number of texts at the end of a group whose duplicates are searched."""
        if not self._first_fresh:
            return len(group)
        return int(self._np.count_nonzero(self._np.array(group) >= self._first_fresh))

    def _embed(self) -> None:
        """Compute the vectors of the texts that wait for it."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        vectors = self._embedder.embed([text for _, text, _ in waiting])
        self._write_bounds(vectors)
        for (name, text, group), vector in zip(waiting, vectors, strict=True):
            index = len(self._names)
            self._names.append(name)
            self._at.setdefault(name, index)
            raw = text.encode()
            self._extents.extend(self._texts.append(raw))
            self._vectors.write(vector)
            same = blake3(repr((group, text)).encode()).digest(length=16)
            first = self._same.setdefault(same, index)
            if first != index:
                self._equal[index] = first
            elif any(vector):
                key = blake3(repr((group, text_features(text).key)).encode()).digest(length=16)
                self._groups.setdefault(key, array("Q")).append(index)

    def _write_bounds(self, vectors: list[bytes]) -> None:
        """Write the start of each unit vector, and the length of its rest."""
        np = self._np
        rows = self._unit(np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), -1))
        start = rows[:, :_PREFIX]
        rest = np.sqrt(np.maximum(0, 1 - np.square(start).sum(axis=1, keepdims=True)))
        self._bounds.write(np.concatenate([start, rest], axis=1).tobytes())

    def _unit(self, rows: Any) -> Any:
        np = self._np
        lengths = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
        return np.divide(rows, lengths, out=np.zeros(rows.shape, "<f4"), where=lengths > 0)

    def _rows(self, file: BinaryIO, width: int, indices: Sequence[int]) -> Any:
        np = self._np
        table = np.memmap(file, "<f4", "r", shape=(len(self._names), width))
        return table[np.array(indices, dtype=np.intp)]

    def _twins_of(
        self, group: Sequence[int], start: int, block: Sequence[int], least: float
    ) -> dict[int, list[SimilarText]]:
        """Return the near-duplicates of a block of a group, which starts at an index of it."""
        np, dimensions = self._np, self._embedder.dimensions
        rows = self._unit(self._rows(self._vectors, dimensions, block))
        bounds = self._rows(self._bounds, self._width, block)
        near: list[list[tuple[float, int]]] = [[] for _ in block]
        end = start + len(block)
        for at in range(0, end, _FIRST):
            earlier = group[at : min(at + _FIRST, end)]
            high = bounds @ self._rows(self._bounds, self._width, earlier).T
            if at + len(earlier) > start:  # within a block, only earlier texts
                high[np.arange(at, at + len(earlier)) >= np.arange(start, end)[:, None]] = 0
            touched = set[int]()
            for own, theirs in self._likely(high, least - _SLACK):
                others = [earlier[other] for other in theirs.tolist()]
                other_rows = self._unit(self._rows(self._vectors, dimensions, others))
                cosines = np.einsum("ij,ij->i", rows[own], other_rows)
                for row, other, cosine in zip(own.tolist(), others, cosines.tolist(), strict=True):
                    if cosine >= least:
                        near[row].append((cosine, other))
                        touched.add(row)
            for row in touched:
                near[row] = sorted(near[row], key=_best_first)[:_CANDIDATES]
        checked = ((index, self._check(index, near[row])) for row, index in enumerate(block))
        return {index: twins for index, twins in checked if twins}

    def _likely(self, high: Any, least: float) -> Iterator[tuple[Any, Any]]:
        """Yield the rows and columns that may reach the limit; of very many, the highest."""
        np, most = self._np, 8 * _CANDIDATES
        hit = np.flatnonzero(high.max(axis=1) >= least)
        for at in range(0, len(hit), _HIT):
            rows = hit[at : at + _HIT]
            mask = high[rows] >= least
            for row in np.flatnonzero(np.count_nonzero(mask, axis=1) > most):
                best = np.argpartition(-high[rows[row]], most)[:most]
                mask[row] = False
                mask[row, best] = True
            own, theirs = np.nonzero(mask)
            for begin in range(0, len(own), _FIRST):
                yield rows[own[begin : begin + _FIRST]], theirs[begin : begin + _FIRST]

    def _check(self, index: int, near: list[tuple[float, int]]) -> list[SimilarText]:
        if not near:
            return []
        own = text_features(self._text(index))
        return [
            SimilarText(self._names[other], round(min(cosine, 1.0), 4))
            for cosine, other in near
            if may_be_same(own, text_features(self._text(other)))
        ][:_MOST]


def names_of(twins: Mapping[str, Sequence[SimilarText]]) -> dict[str, list[str]]:
    """Return the names of near-duplicates, by name, the most similar first."""
    return {name: [twin.name for twin in similar] for name, similar in twins.items()}


def _best_first(pair: tuple[float, int]) -> tuple[float, int]:
    return -pair[0], pair[1]
