"""Containment and quarantine, corpus by corpus: what gets out of its record, what is held back."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from satchel.actions.config import Settings
from satchel.actions.evaluating.containment.attacks import disguises, halves
from satchel.actions.evaluating.containment.framing import Judged, judged
from satchel.actions.evaluating.containment.judge import Escape
from satchel.actions.permitted.owning import require_owner
from satchel.disk.reading import reading
from satchel.errors import EmptyInputError, LimitError, MalformedError, UsageError
from satchel.type_info import resolved

MUTATED = 150
"""Texts of a corpus that are disguised and halved, when nothing else is said."""

MOST_BYTES = 1 << 28
"""Of one corpus."""

_SHOWN = 20
_SEED = 5
_TOGETHER = 500

Progress = Callable[[int, int], None]
"""Is told how many texts were judged, and of how many."""


class Corpus(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the texts of one corpus, each taken as memory from outside."""

    name: str
    ordinary: int
    ordinary_held: int
    """Ordinary texts that are put into quarantine."""

    attacks: int
    attacks_held: int
    mutated: int
    """Disguises and halves that were made of some of its texts."""

    unshown: int
    """Texts that are not in the framed text; then nothing was judged of them."""

    escapes: int
    """Signs that something got out of its record, quarantine switched off."""


class Contained(msgspec.Struct, frozen=True, kw_only=True):
    """What became of all corpora."""

    data: str
    corpora: list[Corpus]
    whole: Corpus
    escapes: list[Escape]
    """The first of them."""


class _Row(msgspec.Struct):
    text: str
    label: int = 0


def evaluate_containment(
    settings: Settings, path: Path, *, mutated: int = MUTATED, progress: Progress | None = None
) -> Contained:
    """Judge what memory can do to the text that it stands in, and what is held back of it.

    Nothing of it touches the banks that are there.

    Args:
        settings: Whose they are.
        path: A corpus, or a folder of them: files of JSON lines with ``text``, and ``label``, which
            is 0 for an ordinary text, as it is without one, and 1 for an attack.
        mutated: Texts of each corpus that are disguised and halved as well.
        progress: Told how far it is.

    Raises:
        UnreadableError: If a file cannot be read.
        MalformedError: If a line of it is no such text.
        EmptyInputError: If there is no text.
        LimitError: If a file is too large.
        UsageError: If a number is below 0.
    """
    require_owner(settings, "evaluate")
    if mutated < 0:
        raise UsageError("must not be negative", field="mutated")
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    found = {file.stem: _read(file) for file in files}
    if not any(found.values()):
        raise EmptyInputError("it contains no text", file=str(path))
    made = {name: _mutations([*texts], mutated) for name, texts in found.items()}
    judging = _Judging(sum(map(len, (*found.values(), *made.values()))), progress)
    corpora = [judging.corpus(name, texts, made[name]) for name, texts in found.items() if texts]
    return Contained(
        data=path.name, corpora=corpora, whole=_together(corpora), escapes=judging.escapes[:_SHOWN]
    )


class _Judging:
    """Judges texts some at a time, and tells how far it is."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total, self._progress, self._done = total, progress, 0
        self.escapes = list[Escape]()

    def corpus(self, name: str, texts: dict[str, bool], made: list[str]) -> Corpus:
        """Judge a corpus and what was made of it."""
        ordinary = self._judge([text for text, bad in texts.items() if not bad])
        attacks = self._judge([text for text, bad in texts.items() if bad])
        mutated = self._judge(made)
        each = (ordinary, attacks, mutated)
        return Corpus(
            name=name,
            ordinary=ordinary.texts,
            ordinary_held=ordinary.held_back,
            attacks=attacks.texts,
            attacks_held=attacks.held_back,
            mutated=mutated.texts,
            unshown=sum(one.unshown for one in each),
            escapes=sum(len(one.escapes) for one in each),
        )

    def _judge(self, texts: list[str]) -> Judged:
        found = list[Judged]()
        for start in range(0, len(texts), _TOGETHER):
            found.append(judged(texts[start : start + _TOGETHER]))
            self._done += found[-1].texts
            if self._progress is not None:
                self._progress(self._done, self._total)
        escapes = [escape for one in found for escape in one.escapes]
        self.escapes += escapes
        return Judged(
            texts=len(texts),
            held_back=sum(one.held_back for one in found),
            framed=sum(one.framed for one in found),
            unshown=sum(one.unshown for one in found),
            escapes=escapes,
        )


def _mutations(texts: list[str], count: int) -> list[str]:
    """Return some texts in disguise and in halves; the same in every run."""
    chance = random.Random(_SEED)  # noqa: S311 - the same in every run is the point
    some = chance.sample(texts, min(count, len(texts)))
    made = {one for text in some for one in (*disguises(text), *halves(text))}
    return sorted(one for one in made if one.strip())


def _together(corpora: list[Corpus]) -> Corpus:
    names = [name for name in Corpus.__struct_fields__ if name != "name"]
    sums = {name: sum(getattr(one, name) for one in corpora) for name in names}
    return Corpus(name="all", **sums)


def _read(file: Path) -> dict[str, bool]:
    """Return the texts of a corpus, each once, with whether it is an attack."""
    return {row.text: bool(row.label) for row in _rows(file) if row.text.strip()}


def _rows(file: Path) -> Iterator[_Row]:
    decoder = msgspec.json.Decoder(resolved(_Row))
    with reading(file) as source:
        raw = source.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise LimitError(f"a corpus can have at most {MOST_BYTES:,} bytes", file=str(file))
    for number, line in enumerate(raw.split(b"\n"), 1):
        if line.strip():
            try:
                yield decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise MalformedError(
                    f"invalid corpus line: {error}",
                    file=str(file),
                    line=number,
                    hint='A line is {"text": "...", "label": 0}, or 1 for an attack.',
                ) from error
