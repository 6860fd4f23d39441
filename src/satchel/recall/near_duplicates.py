"""Finding near-duplicates among many texts, in little memory: some hundred bytes for each.

Texts whose numbers or negations differ are never compared. For the rest every pair counts, but
few are looked at whole: the first quarter of two vectors, with the lengths of what is left of
them, bounds their cosine from above, and only what may reach the limit goes on. What is found is
exact; the bound takes 65 products for each pair instead of 256.
"""

import re
import tempfile
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Self

from blake3 import blake3

from satchel.ports.inference import Embedder
from satchel.runtime.arrays import numpy
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
"""Turn what is said into its opposite, or mean something else in another of the languages."""

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
"""Words that stand where another one would change all: likings, directions, days, relations."""

_PERSONS = (
    "i me my mine myself we us our ours you your yours he him his she her hers it its they "
    "them their theirs who whom whose ich mich mir mein du dich dein er ihn sein sie ihr wir "
    "uns je tu il elle nous vous ils elles yo tú él ella nosotros"
)
PERSONS = frozenset(_PERSONS.split())
"""Words that stand for somebody."""

_BEGINNINGS = (
    "the a an this that these those there here and but or so if when while because as at by "
    "for from of to with about user users is are was were be been being do does did has have "
    "had can could will would should may might must please also some any all each every both "
    "what where why how der die das ein eine und aber le la les un une et el los las il lo gli"
)
BEGINNINGS = frozenset(_BEGINNINGS.split())
"""Words that begin sentences, with a capital, and are no names."""


_DIGITS = re.compile(r"\d+")
_AROUND = " \t\n.,;:!?\"'()[]{}<>*_`~…„“”‚‘’«»‹›—–-。、！？「」『』（）"  # noqa: RUF001 - quotes of all languages
_ENDS = ".!?:;…\"'“”«»„。！？\n"  # noqa: RUF001 - idem
_APOSTROPHES = str.maketrans({"’": "'", "ʼ": "'", "`": "'"})  # noqa: RUF001 - idem

_LONG, _REMEMBERED = 1000, 64
"""Digits of a number that is not read as one; characters of a word that is looked at each time."""


class TextFeatures(NamedTuple):
    """What tells a text apart from others that sound like it."""

    numbers: tuple[str, ...]
    """In their order."""

    negations: int
    names: tuple[str, ...]
    """Names that stand where only names are capitalised, in their order."""

    words: tuple[str, ...]
    """All words, folded, in their order."""

    odd: frozenset[str]
    """Words that must be in both texts: perhaps names, opposites, and those in scripts that show
    neither where words end nor what is a name."""

    persons: frozenset[str]
    """Words such as "she"; no other may stand in their place."""

    @property
    def key(self) -> tuple[object, ...]:
        """What two texts must have in common; those with different ones need no comparison."""
        return self.numbers, self.negations


class _Word(NamedTuple):
    """What one word says, wherever it stands."""

    folded: str
    numbers: tuple[str, ...]
    negates: bool
    odd: bool
    """For other reasons than a capital at its start."""

    capital: bool
    person: bool
    ends: bool
    """Whether a sentence ends with it."""


def telling(text: str) -> TextFeatures:
    """Return what tells a text apart."""
    found = [_word(raw) for raw in text.translate(_APOSTROPHES).split()]
    names, odd = list[str](), set[str]()
    fresh = True
    for word in found:
        if word.odd:
            odd.add(word.folded)
        if word.capital:
            if not fresh:
                names.append(word.folded)
            if not fresh or word.folded not in BEGINNINGS:
                odd.add(word.folded)
        fresh = word.ends or (fresh and not word.folded)
    return TextFeatures(
        numbers=tuple(number for word in found for number in word.numbers),
        negations=sum(word.negates for word in found),
        names=tuple(names),
        words=tuple(word.folded for word in found if word.folded),
        odd=frozenset(odd),
        persons=frozenset(word.folded for word in found if word.person),
    )


def may_be_same(one: TextFeatures, other: TextFeatures) -> bool:
    """Tell whether nothing speaks against two texts being near-duplicates."""
    if one.key != other.key:
        return False
    if Counter(one.words) == Counter(other.words):
        return one.words == other.words  # a mean does not know who paid whom
    mine, theirs = set(one.words), set(other.words)
    if (one.odd - theirs) or (other.odd - mine):
        return False
    if (one.persons - theirs) and (other.persons - mine):
        return False
    both = frozenset(one.names) | frozenset(other.names)
    return _in_order(one.words, both) == _in_order(other.words, both)


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
    """Return what a word says; of very long ones nothing is remembered."""
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
        return True  # an address, a path, a version, a sign
    return not plain.isascii() and any(letter.lower() == letter.upper() for letter in plain)


LEAST = 0.92
"""The cosine from which on two texts are near-duplicates."""

_TOGETHER = 512
_FIRST, _SECOND = 4096, 1024
"""Rows of a block: those before, and those that are compared with them."""

_HIT = 64
_PREFIX = 64
_SLACK = 1e-4
_CANDIDATES, _MOST = 32, 8
"""Texts that one is compared with word by word, and that are told of."""

Progress = Callable[[int, int], None]
"""Is told how many pairs were compared, and of how many."""


class SimilarText(NamedTuple):
    """An earlier text that one is like."""

    name: str
    similarity: float


class DuplicateIndex:
    """Texts, and which of them say the same. A context: temporary files go with it.

    Args:
        embedder: Makes their vectors.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._np = numpy()
        self._embedder = embedder
        self._held: list[tuple[str, str, str]] = []
        self._names: list[str] = []
        self._places = array("Q")
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
        """How many all texts have."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._texts.close()
        self._vectors.close()
        self._bounds.close()

    def add(self, name: str, text: str, group: str = "") -> None:
        """Add a text under a name; one that is blank is like no other.

        Args:
            name: Another one for each text; a name that is there already stays with its first text.
            text: The text.
            group: Only texts of one group are compared.
        """
        if text.strip():
            self._held.append((name, text, group))
            self.characters += len(text)
            if len(self._held) == _TOGETHER:
                self._take()

    def begin(self) -> None:
        """Only look for the twins of what is added from here on."""
        self._take()
        self._first_fresh = len(self._names)

    @property
    def count(self) -> int:
        """How many texts there are."""
        return len(self._names) + len(self._held)

    @property
    def pairs(self) -> int:
        """How many pairs there are to compare: what the time hangs on."""
        self._take()
        return sum(
            len(group) * self._fresh(group) - self._fresh(group) * (self._fresh(group) + 1) // 2
            for group in self._groups.values()
        )

    def twins(
        self, least: float = LEAST, told: Progress | None = None
    ) -> dict[str, list[SimilarText]]:
        """Return for each text that has some the earlier ones that say the same.

        Args:
            least: The lowest cosine, above 0.
            told: Told how far it is.

        Returns:
            By name, in the order in which they were added; the most alike first, at most eight.
        """
        self._take()
        self._vectors.flush()
        self._bounds.flush()
        found = {
            later: [SimilarText(self._names[first], 1.0)]
            for later, first in self._equal.items()
            if later >= self._first_fresh
        }
        done, total = 0, self.pairs
        for group in self._groups.values():
            for start in range(len(group) - self._fresh(group), len(group), _SECOND):
                some = group[start : start + _SECOND]
                found |= self._twins_of(group, start, some, least)
                done += len(some) * start + len(some) * (len(some) - 1) // 2
                if told is not None:
                    told(done, total)
        return {self._names[later]: found[later] for later in sorted(found)}

    def text(self, name: str) -> str:
        """Return the text that was added under a name."""
        return self._text(self._at[name])

    def _text(self, place: int) -> str:
        start, end = self._places[2 * place], self._places[2 * place + 1]
        return b"".join(self._texts.read_range(start, end)).decode()

    def _fresh(self, group: Sequence[int]) -> int:
        """Return how many of a group are to be looked for; they are its last ones."""
        if not self._first_fresh:
            return len(group)
        return int(self._np.count_nonzero(self._np.array(group) >= self._first_fresh))

    def _take(self) -> None:
        """Make the vectors of what waits."""
        held, self._held = self._held, []
        if not held:
            return
        vectors = self._embedder.embed([text for _, text, _ in held])
        self._bound(vectors)
        for (name, text, group), vector in zip(held, vectors, strict=True):
            place = len(self._names)
            self._names.append(name)
            self._at.setdefault(name, place)
            raw = text.encode()
            self._places.extend(self._texts.append(raw))
            self._vectors.write(vector)
            same = blake3(repr((group, text)).encode()).digest(length=16)
            first = self._same.setdefault(same, place)
            if first != place:
                self._equal[place] = first
            elif any(vector):
                key = blake3(repr((group, telling(text).key)).encode()).digest(length=16)
                self._groups.setdefault(key, array("Q")).append(place)

    def _bound(self, vectors: list[bytes]) -> None:
        """Keep the start of each vector, and how long the rest of it is, at length 1."""
        np = self._np
        rows = self._unit(np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), -1))
        start = rows[:, :_PREFIX]
        rest = np.sqrt(np.maximum(0, 1 - np.square(start).sum(axis=1, keepdims=True)))
        self._bounds.write(np.concatenate([start, rest], axis=1).tobytes())

    def _unit(self, rows: Any) -> Any:
        np = self._np
        lengths = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
        return np.divide(rows, lengths, out=np.zeros(rows.shape, "<f4"), where=lengths > 0)

    def _rows(self, file: BinaryIO, width: int, places: Sequence[int]) -> Any:
        np = self._np
        table = np.memmap(file, "<f4", "r", shape=(len(self._names), width))
        return table[np.array(places, dtype=np.intp)]

    def _twins_of(
        self, group: Sequence[int], start: int, some: Sequence[int], least: float
    ) -> dict[int, list[SimilarText]]:
        """Return the twins of some texts of a group, which begin at a place of it."""
        np, dimensions = self._np, self._embedder.dimensions
        rows = self._unit(self._rows(self._vectors, dimensions, some))
        bounds = self._rows(self._bounds, self._width, some)
        near: list[list[tuple[float, int]]] = [[] for _ in some]
        end = start + len(some)
        for at in range(0, end, _FIRST):
            earlier = group[at : min(at + _FIRST, end)]
            high = bounds @ self._rows(self._bounds, self._width, earlier).T
            if at + len(earlier) > start:  # of texts of one block only those before
                high[np.arange(at, at + len(earlier)) >= np.arange(start, end)[:, None]] = 0
            touched = set[int]()
            for mine, theirs in self._likely(high, least - _SLACK):
                others = [earlier[other] for other in theirs.tolist()]
                there = self._unit(self._rows(self._vectors, dimensions, others))
                cosines = np.einsum("ij,ij->i", rows[mine], there)
                for one, other, cosine in zip(mine.tolist(), others, cosines.tolist(), strict=True):
                    if cosine >= least:
                        near[one].append((cosine, other))
                        touched.add(one)
            for one in touched:
                near[one] = sorted(near[one], key=_best_first)[:_CANDIDATES]
        believed = ((place, self._believed(place, near[one])) for one, place in enumerate(some))
        return {place: twins for place, twins in believed if twins}

    def _likely(self, high: Any, least: float) -> Iterator[tuple[Any, Any]]:
        """Yield rows and columns that may reach the limit; of very many those that reach most."""
        np, most = self._np, 8 * _CANDIDATES
        hit = np.flatnonzero(high.max(axis=1) >= least)
        for at in range(0, len(hit), _HIT):
            some = hit[at : at + _HIT]
            mask = high[some] >= least
            for one in np.flatnonzero(np.count_nonzero(mask, axis=1) > most):
                best = np.argpartition(-high[some[one]], most)[:most]
                mask[one] = False
                mask[one, best] = True
            mine, theirs = np.nonzero(mask)
            for begin in range(0, len(mine), _FIRST):
                yield some[mine[begin : begin + _FIRST]], theirs[begin : begin + _FIRST]

    def _believed(self, place: int, near: list[tuple[float, int]]) -> list[SimilarText]:
        if not near:
            return []
        own = telling(self._text(place))
        return [
            SimilarText(self._names[other], round(min(cosine, 1.0), 4))
            for cosine, other in near
            if may_be_same(own, telling(self._text(other)))
        ][:_MOST]


def names_of(twins: Mapping[str, Sequence[SimilarText]]) -> dict[str, list[str]]:
    """Return what texts are like by name alone, the most alike first."""
    return {name: [twin.name for twin in found] for name, found in twins.items()}


def _best_first(pair: tuple[float, int]) -> tuple[float, int]:
    return -pair[0], pair[1]
