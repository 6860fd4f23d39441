"""Sets of questions: LoCoMo's file, BEAM's folders, QMSum's meetings, and a plain form.

The plain form is ``{"conversations": [{"name", "turns": [{"id", "session", "speaker", "text",
"at"}], "questions": [{"question", "kind", "evidence": [ids]}]}]}``.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from satchel.errors import EmptyInputError, LimitError, MalformedError, UnknownFormatError
from satchel.model.values import format_time, read_time
from satchel.runtime.files import open_input


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetTurn:
    """A turn of a conversation."""

    name: str
    """Its name in evidence, unique in the conversation."""

    session: str
    speaker: str
    text: str
    at: str | None = None
    """Its time, as canonical text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetQuestion:
    """A question, with its evidence."""

    text: str
    kind: str
    evidence: frozenset[str]
    """Names of turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetConversation:
    """The turns of a conversation, in order, and the questions about it."""

    name: str
    turns: tuple[DatasetTurn, ...]
    questions: tuple[DatasetQuestion, ...]
    left_out: int = 0
    """Questions without evidence in the conversation, such as those without an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSet:
    """The contents of a file or folder."""

    format: str
    conversations: tuple[DatasetConversation, ...]
    aside: frozenset[str] = frozenset()
    """Kinds of questions that are excluded from the main figures."""


MOST_BYTES = 512 * 2**20
"""Maximum bytes of a file."""

_LOCOMO_KINDS = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_LOCOMO_TURN = re.compile(r"D:?(\d+):0*(\d+)")
_LOCOMO_TIME = "%I:%M %p on %d %B, %Y"
_BEAM_MARK = re.compile(r"\s*->->\s*[\d,]+\s*$")
_BEAM_TIME = "%B-%d-%Y"
_BEAM_CHAT, _BEAM_ASKED = "chat.json", "probing_questions.json"
_QMSUM = ".jsonl"
_LONGEST_MEETING = 1 << 20
"""Maximum turns of a meeting."""

_MOST_FOLDERS = 10_000


def read_set(path: Path) -> QuestionSet:
    """Return the conversations and questions of a file or folder.

    Raises:
        UnreadableError: If it cannot be read.
        MalformedError: If it is invalid in its format.
        UnknownFormatError: If the format is unknown.
        EmptyInputError: If no question has evidence.
        LimitError: If a file is too large.
    """
    if path.is_dir():
        meetings = sorted(path.glob(f"*{_QMSUM}"))[:_MOST_FOLDERS]
        if meetings:
            whole = tuple(map(_qmsum, meetings))
            question_set = QuestionSet(format="qmsum", conversations=whole)
        else:
            question_set = QuestionSet(format="beam", conversations=tuple(_beams(path)))
    elif path.suffix == _QMSUM:
        question_set = QuestionSet(format="qmsum", conversations=(_qmsum(path),))
    else:
        question_set = _from_file(path)
    if not any(conversation.questions for conversation in question_set.conversations):
        raise EmptyInputError("no question names an existing turn", file=str(path))
    return question_set


def _from_file(path: Path) -> QuestionSet:
    value = _json(path)
    try:
        if _is_locomo(value):
            aside = frozenset({"adversarial"})
            whole = tuple(_locomo(each, at) for at, each in enumerate(value))
            return QuestionSet(format="locomo", conversations=whole, aside=aside)
        if isinstance(value, dict) and isinstance(value.get("conversations"), list):
            whole = tuple(_plain(each, at) for at, each in enumerate(value["conversations"]))
            return QuestionSet(format="plain", conversations=whole)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MalformedError(f"a conversation is incomplete: {error!r}", file=str(path)) from error
    raise UnknownFormatError(
        "unknown question set format",
        file=str(path),
        hint="Known: LoCoMo's JSON, a folder with BEAM's chat.json, QMSum's JSON lines (.jsonl),"
        " and the plain form.",
    )


def _bytes(path: Path) -> bytes:
    with open_input(path) as source:
        raw = source.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise LimitError(f"a question set can have at most {MOST_BYTES:,} bytes", file=str(path))
    return raw


def _json(path: Path) -> Any:
    raw = _bytes(path)
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedError(f"not JSON: {error}", file=str(path)) from error


def _conversation(
    name: str, turns: Sequence[DatasetTurn], rows: Iterator[tuple[str, str, Sequence[str]]]
) -> DatasetConversation:
    """Return a conversation with the questions that name existing turns."""
    names, questions, left_out = {turn.name for turn in turns}, list[DatasetQuestion](), 0
    if len(names) != len(turns):
        raise ValueError("two turns have the same name")
    for text, kind, named in rows:
        evidence = frozenset(named) & names
        if evidence and text.strip():
            questions.append(DatasetQuestion(text=text, kind=kind, evidence=evidence))
        else:
            left_out += 1
    return DatasetConversation(
        name=name, turns=tuple(turns), questions=tuple(questions), left_out=left_out
    )


def _plain(value: dict[str, Any], at: int) -> DatasetConversation:
    turns = [
        DatasetTurn(
            name=str(turn["id"]),
            session=str(turn.get("session", "")),
            speaker=str(turn.get("speaker") or ""),
            text=str(turn["text"]),
            at=read_time(str(turn["at"])) if turn.get("at") else None,
        )
        for turn in value["turns"]
    ]
    rows = (
        (
            str(question["question"]),
            str(question.get("kind") or "any"),
            [*map(str, question["evidence"])],
        )
        for question in value["questions"]
    )
    return _conversation(str(value.get("name") or at), turns, rows)


def _is_locomo(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, dict) and {"conversation", "qa"} <= item.keys() for item in value)
    )


def _locomo(value: dict[str, Any], at: int) -> DatasetConversation:
    turns, sessions = list[DatasetTurn](), value["conversation"]
    numbers = sorted(
        int(name.removeprefix("session_"))
        for name, turns_of in sessions.items()
        if re.fullmatch(r"session_\d+", name) and isinstance(turns_of, list)
    )
    for number in numbers:
        when = _moment(sessions.get(f"session_{number}_date_time"), _LOCOMO_TIME)
        for turn in sessions[f"session_{number}"]:
            seen = turn.get("blip_caption")
            turns.append(
                DatasetTurn(
                    name=_first_name(turn["dia_id"]),
                    session=str(number),
                    speaker=turn["speaker"],
                    text=turn["text"] + (f" [shared {seen}]" if seen else ""),
                    at=when,
                )
            )
    rows = (
        (
            question["question"],
            _LOCOMO_KINDS.get(question["category"], str(question["category"])),
            [name for each in question.get("evidence") or () for name in _names(each)],
        )
        for question in value["qa"]
    )
    return _conversation(str(value.get("sample_id") or at), turns, rows)


def _names(evidence: str) -> Iterator[str]:
    """Yield the turns in a reference such as ``D8:6; D9:17`` or ``D30:05``."""
    for session, turn in _LOCOMO_TURN.findall(evidence):
        yield f"D{int(session)}:{int(turn)}"


def _first_name(name: str) -> str:
    return next(_names(name), name)


def _beams(folder: Path) -> Iterator[DatasetConversation]:
    """Yield the conversations in a folder, or in the folders in it."""
    folders = [folder] if (folder / _BEAM_CHAT).is_file() else sorted(folder.iterdir())
    for chat_folder in folders[:_MOST_FOLDERS]:
        chat = chat_folder / _BEAM_CHAT
        candidates = (
            chat_folder / "probing_questions" / _BEAM_ASKED,
            chat_folder / _BEAM_ASKED,
        )
        questions = next((path for path in candidates if path.is_file()), None)
        if chat.is_file() and questions is not None:
            try:
                yield _beam(chat_folder.name, _json(chat), _json(questions))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                problem = f"a conversation is incomplete: {error!r}"
                raise MalformedError(problem, file=str(chat)) from error


def _beam(name: str, chat: list[Any], by_kind: dict[str, Any]) -> DatasetConversation:
    turns, when = list[DatasetTurn](), None
    for batch in chat:
        for message in chain.from_iterable(batch["turns"]):
            when = _moment(message.get("time_anchor"), _BEAM_TIME) or when
            turns.append(
                DatasetTurn(
                    name=str(message["id"]),
                    session=str(batch["batch_number"]),
                    speaker=message["role"],
                    text=_BEAM_MARK.sub("", message["content"]),
                    at=when,
                )
            )
    questions = (
        (question["question"], kind, [*_numbers(question.get("source_chat_ids"))])
        for kind, questions_of_kind in by_kind.items()
        for question in questions_of_kind
    )
    return _conversation(name, turns, questions)


def _qmsum(path: Path) -> DatasetConversation:
    """Return the meetings of a file as one conversation, each meeting a session of it.

    The evidence of a question is the turns in its spans, inclusive. Questions about a whole meeting
    have no spans and are skipped.
    """
    turns, rows = list[DatasetTurn](), list[tuple[str, str, list[str]]]()
    for number, line in enumerate(_bytes(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            meeting = msgspec.json.decode(line)
            turns += (
                DatasetTurn(
                    name=f"{number}:{at}",
                    session=str(number),
                    speaker=turn["speaker"],
                    text=turn["content"],
                )
                for at, turn in enumerate(meeting["meeting_transcripts"])
            )
            rows += (
                (
                    question["query"],
                    "specific",
                    [
                        f"{number}:{at}"
                        for span in question["relevant_text_span"]
                        for at in _span(span)
                    ],
                )
                for question in meeting["specific_query_list"]
            )
        except (msgspec.DecodeError, RecursionError) as error:
            raise MalformedError(f"not JSON: {error}", file=str(path), line=number) from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MalformedError(
                f"a meeting is incomplete: {error!r}", file=str(path), line=number
            ) from error
    return _conversation(path.stem, turns, iter(rows))


def _span(ends: Sequence[str]) -> range:
    first, last = map(int, ends)
    if not 0 <= first <= last <= _LONGEST_MEETING:
        raise ValueError(f"not a valid span of turns: {first} to {last}")
    return range(first, last + 1)


def _numbers(value: Any) -> Iterator[str]:
    """Yield the ids in a list, or in the lists of an object."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _numbers(item)
    elif value is not None:
        yield str(value)


def _moment(text: Any, pattern: str) -> str | None:
    try:
        return format_time(datetime.strptime(str(text), pattern).replace(tzinfo=UTC))
    except ValueError:
        return None
