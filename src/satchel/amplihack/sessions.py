"""Sessions of an agent, and what they taught it: stored once, recognized when learned again."""

import heapq
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

import msgspec
from blake3 import blake3

from satchel.amplihack.facts import fact_of, jaccard
from satchel.bank.changes import MOST_TRIES, contents
from satchel.bank.memory import PROVIDER, gist_of, has_expired
from satchel.bank.open_bank import OpenBank
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import SlotTakenError, UsageError
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Entry, Semantic, SessionEvent
from satchel.model.values import Component, Origin, Scope, TrustClass, now
from satchel.ports.rows import Filter, slot_of
from satchel.recall.near_duplicates import may_be_same, text_features
from satchel.screening.records import SecretScreener

MEMORY_TYPES = ("conversation", "decision", "pattern", "context", "learning", "artifact")
"""Types of a flat memory."""

MOST_IMPORTANT = 10
_TITLE = 50
_SHOWN = frozenset({*Component, "session_event"})


class MemoryRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory of a session."""

    memory_id: str
    session_id: str
    agent_id: str
    memory_type: str
    """One of ``MEMORY_TYPES``, its source's own word, or the type of the entry."""

    title: str
    content: str
    importance: int | None = None
    """From 0 to 10; None if not stated."""

    confidence: float | None = None
    created_at: str | None = None
    metadata: dict[str, Any] = {}


class SessionSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session."""

    session_id: str
    agent_ids: list[str] = []
    created_at: str | None = None
    last_accessed: str | None = None
    """When its newest memory was created."""

    memory_count: int = 0


SessionRows = list[tuple[SessionSummary, list[MemoryRecord]]]


class SessionCollector:
    """Collects sessions from the views of banks."""

    def __init__(self) -> None:
        self._records: dict[str, list[MemoryRecord]] = {}
        self._agents: dict[str, set[str]] = {}
        self._moments: dict[str, list[str]] = {}

    def take(self, view: View, bank: str, session: str | None = None) -> None:
        """Add the current memories of a bank.

        Args:
            view: The bank.
            bank: Its name.
            session: Only this session.
        """
        for logged in of_sessions(view, session):
            name = session_of(logged)
            self._records.setdefault(name, [])
            agents = self._agents.setdefault(name, set())
            if isinstance(logged.model, Entry):
                record = record_of(logged, bank)
                self._records[name].append(record)
                agents.add(record.agent_id)
            elif logged.row.agent:
                agents.add(logged.row.agent)
            if logged.row.moment:
                self._moments.setdefault(name, []).append(logged.row.moment)

    def rows(
        self, memory_type: str | None = None
    ) -> list[tuple[SessionSummary, list[MemoryRecord]]]:
        """Return sessions with their memories; the session with the newest memory first.

        Args:
            memory_type: Only memories of this type, and sessions that have some.
        """
        rows = []
        for name, records in self._records.items():
            selected = [record for record in records if memory_type in (None, record.memory_type)]
            if selected or memory_type is None:
                rows.append((self._summary(name, len(records)), selected))
        rows.sort(key=lambda row: row[0].session_id)
        return sorted(rows, key=lambda row: row[0].last_accessed or "", reverse=True)

    def _summary(self, name: str, count: int) -> SessionSummary:
        moments = self._moments.get(name, [])
        return SessionSummary(
            session_id=name,
            agent_ids=sorted(self._agents[name]),
            created_at=min(moments, default=None),
            last_accessed=max(moments, default=None),
            memory_count=count,
        )


def of_sessions(view: View, session: str | None = None) -> Iterator[VerifiedRecord]:
    """Yield the current memories and events of a session, or of all sessions."""
    moment = now()
    for logged in view.scan(Filter(types=_SHOWN, run=session)):
        if session_of(logged) and _counts(logged) and not has_expired(logged, moment):
            yield logged


def session_of(logged: VerifiedRecord) -> str:
    """Return the session of a record; empty for none."""
    return logged.row.run or ""


def record_of(logged: VerifiedRecord, bank: str) -> MemoryRecord:
    """Return a memory as a record of a session.

    Args:
        logged: The memory.
        bank: The name of its bank, the agent of a memory that names none.
    """
    entry = logged.model
    assert isinstance(entry, Entry)  # noqa: S101 - callers check
    written = entry.origin.as_written if entry.origin is not None else {}
    content = gist_of(logged.record.value)
    title = entry.metadata.get("title", written.get("title"))
    return MemoryRecord(
        memory_id=logged.record.id,
        session_id=session_of(logged),
        agent_id=logged.row.agent or bank,
        memory_type=entry.kind or logged.row.type,
        title=title if isinstance(title, str) and title else " ".join(content.split())[:_TITLE],
        content=content,
        importance=_importance(entry, written),
        confidence=entry.confidence if isinstance(entry, Semantic) else None,
        created_at=entry.created_at,
        metadata=entry.metadata,
    )


def _importance(entry: Entry, written: dict[str, Any]) -> int | None:
    stated = written.get("importance")
    if type(stated) is int and 0 <= stated <= MOST_IMPORTANT:
        return stated
    return None if entry.salience is None else round(entry.salience * MOST_IMPORTANT)


def _counts(logged: VerifiedRecord) -> bool:
    model = logged.model
    return isinstance(model, Entry) or (
        isinstance(model, SessionEvent) and model.event == "session"
    )


LEAST_BYTES = 10
"""Least length of a learning in bytes."""

ALIKE = 0.9
"""Least share of common words of two learnings that are the same."""

_COMPARED = 16
_LENGTHS = (100, 200)
"""Least characters of a learning whose default importance is 6, and 7, of 10."""


class SessionLearning(msgspec.Struct, frozen=True, kw_only=True):
    """A learning of a session, to store."""

    session_id: str
    agent_id: str
    """The agent; empty for a bank's own memory."""

    content: str
    memory_type: str = "learning"
    """One of ``MEMORY_TYPES``."""

    title: str | None = None
    importance: int | None = None
    """From 0 to 10; None to derive it from the length."""

    tags: Sequence[str] = ()
    metadata: Mapping[str, Any] = {}


class LearningResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of storing learnings."""

    stored: list[str] = []
    """IDs of the new ones."""

    known: int = 0
    """Number that the agent knew already, from any session."""

    short: int = 0
    """Number that were too short."""

    secrets: dict[str, int] = {}
    """Number of replaced secrets, by kind."""


def store_learnings(bank: OpenBank, learnings: Sequence[SessionLearning]) -> LearningResult:
    """Store new learnings in one commit; secrets in them are replaced.

    Raises:
        UsageError: If a type or an importance is not valid, or the session is missing.
    """
    for learning in learnings:
        _require(learning)
    for turn in range(MOST_TRIES):
        try:
            return _store(bank, learnings)
        except SlotTakenError:  # a concurrent session stores the same
            if turn == MOST_TRIES - 1:
                raise
    raise AssertionError("unreachable")


def _store(bank: OpenBank, learnings: Sequence[SessionLearning]) -> LearningResult:
    screening, short, known = SecretScreener(scrub=True), 0, 0
    new, records = list[Entry](), list[Sealed]()
    with bank.ledger.reading() as view:
        for learning in learnings:
            if len(learning.content.strip().encode(errors="replace")) < LEAST_BYTES:
                short += 1
                continue
            entry = _entry(learning, screening)
            if any(is_same(entry, each) for each in new) or _is_known(view, entry):
                known += 1
            else:
                new.append(entry)
                records.append(seal(entry, limits=bank.settings.options.limits))
    if records:
        bank.ledger.append(records)
        ids = [each.id for each in records]
        bank.tell("on_remember", ids, {"memories": len(ids)}, lambda: contents(bank, ids))
    return LearningResult(
        stored=[each.id for each in records], known=known, short=short, secrets=screening.found
    )


def is_same(learning: Entry, other: Entry) -> bool:
    """Return whether two learnings say the same in nearly the same words.

    Their numbers, names, denials and opposites have to be equal; see ``recall.near_duplicates``.
    """
    first, second = (" ".join((each.text or "").split()) for each in (learning, other))
    if first.casefold().rstrip(".!") == second.casefold().rstrip(".!"):
        return True
    facts = [
        fact_of("", Semantic(text=text), number) for number, text in enumerate((first, second))
    ]
    if jaccard(facts[0].words, facts[1].words) < ALIKE:
        return False
    return may_be_same(text_features(first), text_features(second))


def _is_known(view: View, entry: Entry) -> bool:
    slot = slot_of(entry)
    if slot is not None and view.current(slot) is not None:
        return True
    agent = entry.scope.agent if entry.scope is not None else None
    matching = Filter(agent=agent, kinds=frozenset({entry.kind or ""}))
    candidates = view.candidates(entry.text or "", limit=_COMPARED, where=matching)
    return any(
        isinstance(candidate.model, Entry) and is_same(entry, candidate.model)
        for candidate, _ in candidates
    )


def _entry(learning: SessionLearning, screening: SecretScreener) -> Entry:
    content = learning.content.strip()
    importance = learning.importance
    if importance is None:
        importance = 5 + sum(len(content) >= length for length in _LENGTHS)
    title = learning.title or " ".join(content.split())[:_TITLE]
    entry: Any = screening(
        Semantic(
            kind=learning.memory_type,
            text=content,
            tags=tuple(dict.fromkeys(learning.tags)),
            metadata={**learning.metadata, "title": title},
            salience=importance / MOST_IMPORTANT,
            scope=Scope(agent=learning.agent_id or None, run=learning.session_id),
            created_at=now(),
        )
    )
    words = " ".join((entry.text or "").casefold().split())
    key = f"{learning.memory_type}:{blake3(words.encode()).hexdigest(length=16)}"
    origin = Origin(provider=PROVIDER, id=key, trust=TrustClass.AGENT)
    identified: Entry = msgspec.structs.replace(entry, origin=origin)
    return identified


def _require(learning: SessionLearning) -> None:
    if learning.memory_type not in MEMORY_TYPES:
        hint = f"Choose from: {', '.join(MEMORY_TYPES)}."
        raise UsageError(f"unknown type {learning.memory_type!r}", field="type", hint=hint)
    if not learning.session_id.strip():
        raise UsageError("a learning must name its session", field="session_id")
    if learning.importance is not None and not 0 <= learning.importance <= MOST_IMPORTANT:
        raise UsageError(f"importance must be between 0 and {MOST_IMPORTANT}", field="importance")


_CUES: tuple[tuple[str, int, tuple[str, ...]], ...] = (
    (
        "learning",
        4,
        (
            r"\b(?:remember|note|important|lesson|takeaway|gotcha|caveat)\s*:",
            r"\b(?:root cause|turns out|turned out|(?:I|we) learned|discovered)\b",
            r"\bthe (?:problem|issue|bug|cause|fix|solution) (?:was|is)\b",
            r"\b(?:fixed (?:it )?by|solved by|resolved by|workaround)\b",
            # German
            r"\b(?:merke?|wichtig|achtung|hinweis|lehre)\s*:",
            r"\b(?:hat sich herausgestellt|stellte sich heraus|(?:ich habe|wir haben) gelernt)\b",
            r"\b(?:das problem|der fehler|die ursache|die lösung) (?:war|ist|lag)\b",
            # French
            r"\b(?:à retenir|important|attention|leçon|remarque)\s*:",
            r"\b(?:il s'avère|il s'est avéré|(?:j'ai|on a|nous avons) appris)\b",
            r"\b(?:le problème|l'erreur|la cause|la solution) (?:était|est|vient)\b",
            # Spanish and Portuguese
            r"\b(?:recuerda|recordar|lembre|lembrar|importante|ojo|atenção|lección|lição)\s*:",
            r"\b(?:resulta que|resultó que|hemos aprendido|aprendí que|acontece que|aprendemos)\b",
            r"\b(?:el|o) (?:problema|error|erro) (?:era|es|é|foi|fue)\b",
            r"\b(?:la|a) (?:causa|solución|solução) (?:era|es|é|foi|fue)\b",
            # Italian
            r"\b(?:ricorda|attenzione|nota|lezione)\s*:",
            r"\b(?:si è scoperto|è emerso|abbiamo imparato|ho imparato)\b",
            r"\b(?:il problema|l'errore|la causa|la soluzione) (?:era|è)\b",
            # Dutch
            r"\b(?:onthoud|let op|belangrijk)\s*:",
            r"\b(?:bleek dat|blijkt dat|(?:ik heb|we hebben) geleerd)\b",
            r"\b(?:het probleem|de fout|de oorzaak|de oplossing) (?:was|is)\b",
            # Russian
            r"\b(?:важно|запомни|урок|внимание)\s*:",
            r"\b(?:оказалось|выяснилось|мы узнали|я узнал)\b",
            r"\b(?:проблема|ошибка|причина) (?:была|был|в том)\b",
            # Chinese
            r"(?:记住|注意|重要|教训)[:\uff1a]",
            r"(?:原来是|事实证明|学到了|发现了?问题|根本原因)",
            r"(?:问题|原因|错误|解决办法|解决方法)(?:是|在于)",
            # Japanese
            r"(?:重要|注意|教訓|メモ)[:\uff1a]",
            r"(?:ことが(?:わか|分か)った|ことが(?:わか|分か)りました|根本原因|を学んだ|を学びました)",
            r"(?:問題|原因|解決策)は",
            # Korean
            r"(?:중요|주의|기억|교훈)\s*[:\uff1a]",
            r"(?:알고 보니|밝혀졌|배웠)",
            r"(?:문제는|원인은|해결책은)",
        ),
    ),
    (
        "learning",
        3,
        (
            r"\bbecause\b.*\b(?:fail|error|bug|wrong|broke|crash|slow|missing|need)",
            r"\bweil\b.*\b(?:fehl|falsch|langsam|abstürz|brauch)",
            r"\bparce qu['e].*\b(?:échou|erreur|lent|manqu|besoin)",
            r"\bporque\b.*\b(?:fall|falh|error|erro|lent|falta|necesit|precis)",
        ),
    ),
    (
        "decision",
        5,
        (
            r"\b(?:we|I|let's|they)\b.{0,20}\b(?:decided|agreed|chose|settled on)\b",
            r"\bdecision\s*:",
            r"\b(?:wir|ich)\b.{0,40}\b(?:beschlossen|entschieden|vereinbart|geeinigt)\b",
            r"\b(?:entscheidung|beschluss)\s*:",
            r"\b(?:on a|nous avons|j'ai) (?:décidé|choisi|convenu)\b",
            r"\bdécision\s*:",
            r"\b(?:hemos decidido|decidimos|acordamos|he decidido|concordamos)\b",
            r"\b(?:decisión|decisão|decisione|besluit)\s*:",
            r"\b(?:abbiamo deciso|ho deciso|abbiamo scelto)\b",
            r"\b(?:we hebben|ik heb)\b.{0,40}\b(?:besloten|gekozen|afgesproken)\b",
            r"\b(?:мы|я) (?:решили|решил|решила|договорились|выбрали)\b",
            r"(?:我们|我)?(?:已经)?决定(?:了|使用|用|采用)?",
            r"ことに(?:した|しました|決めた|決めました)|を採用(?:した|しました)",
            r"기로 (?:했|결정)",
        ),
    ),
    (
        "pattern",
        3,
        (
            r"\b(?:always|never|from now on|whenever|every time|must not|don't ever)\b",
            r"\b(?:prefers?|convention|should (?:always|never))\b",
            r"\b(?:immer|niemals|nie wieder|ab jetzt|von nun an|jedes mal)\b",
            r"\b(?:toujours|jamais|désormais|à partir de maintenant|chaque fois)\b",
            r"\b(?:siempre|nunca|a partir de ahora|cada vez|sempre|a partir de agora|toda vez)\b",
            r"\b(?:d'ora in poi|ogni volta)\b",
            r"\b(?:altijd|nooit|voortaan|vanaf nu)\b",
            r"\b(?:всегда|никогда|отныне|каждый раз)\b",
            r"(?:总是|永远不要|从现在起|以后都|每次|务必)",
            r"(?:必ず|決して|今後は|毎回)",
            r"(?:항상|절대|앞으로는|매번)",
        ),
    ),
    (
        "context",
        2,
        (
            r"\b(?:requires?|depends on|only works|is configured|lives in|default is)\b",
            r"\b(?:benötigt|hängt (?:von|davon) ab|funktioniert nur|ist konfiguriert)\b",
            r"\b(?:nécessite|dépend de|ne fonctionne qu|est configuré)",
            r"\b(?:requiere|depende de|solo funciona|está configurad|requer|só funciona)",
            r"\b(?:richiede|dipende da|funziona solo)\b",
            r"\b(?:vereist|hangt af van|werkt alleen)\b",
            r"\b(?:требует|зависит от|работает только)\b",
            r"(?:依赖于?|需要先|只能在|默认(?:值)?是)",
            r"(?:に依存|が必要|でのみ動|既定値は|デフォルトは)",
            r"(?:에 의존|필요하다|필요합니다|기본값은)",
        ),
    ),
)

_COMPILED = tuple(
    (re.compile("|".join(phrases), re.IGNORECASE), kind, worth) for kind, worth, phrases in _CUES
)


def kind_of(sentence: str) -> tuple[int, str] | None:
    """Return the importance and type of a sentence; None if it teaches nothing.

    Args:
        sentence: At most a few hundred characters, which bounds the time of matching.
    """
    cues = [(worth, kind) for cue, kind, worth in _COMPILED if cue.search(sentence)]
    return max(cues) if cues else None


LONGEST_LINE = 8 * 2**20
"""Largest size of a line in bytes; longer ones are skipped."""

MOST_LEARNINGS = 12
"""Largest number of learnings of a session; the most important are stored."""

_PEOPLE = frozenset({"user", "human"})
_SPOKEN = _PEOPLE | {"assistant", "ai", "model"}
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])|\n+")
_ASKS = ("?", "\uff1f")
_MARKS = re.compile(r"^\s*(?:[-*+>#]+|\d+[.)])\s*")
_SHORTEST, _LONGEST = 20, 400
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
"""Characters that carry as much as two or three letters."""
_MOST_CHARACTERS = 200_000
_MOST_SENTENCES = 4000
_START = 300

_TEXTS = ("text", "input_text", "output_text")
_GIVEN = re.compile(r"\s*(?:<[A-Za-z_ ]+>|# AGENTS\.md instructions\b)")
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)


class TranscriptTurn(NamedTuple):
    """A turn of a transcript."""

    role: str
    text: str


class Lesson(NamedTuple):
    """A lesson of a session."""

    worth: int
    text: str
    kind: str
    """One of ``MEMORY_TYPES``."""


class TranscriptSummary(msgspec.Struct, kw_only=True):
    """Counts and texts of a transcript that was read."""

    turns: int = 0
    passed_over: int = 0
    """Number of lines that are not JSON, or too long."""

    first: str = ""
    """The beginning of the first question."""

    last: str = ""
    """The beginning of the last answer."""


def turns(stream: BinaryIO, heard: TranscriptSummary) -> Iterator[TranscriptTurn]:
    """Yield the turns of a transcript, in order.

    Args:
        stream: The transcript.
        heard: Filled with its counts and texts.
    """
    decode = msgspec.json.Decoder().decode
    while line := stream.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            heard.passed_over += 1
            while line and not line.endswith(b"\n"):
                line = stream.readline(LONGEST_LINE)
            continue
        if not line.strip():
            continue
        try:
            value = decode(line)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            heard.passed_over += 1
            continue
        for turn in _turns_of(value):
            heard.turns += 1
            if turn.role in _PEOPLE:
                heard.first = heard.first or turn.text[:_START]
            else:
                heard.last = turn.text[:_START]
            yield turn


def lessons(spoken: Iterator[TranscriptTurn]) -> list[Lesson]:
    """Return the lessons, most important first; of equal ones, the latest first."""
    best = list[tuple[int, int, str, str]]()
    seen, number = set[str](), 0
    for turn in spoken:
        for sentence in _sentences(turn.text):
            number += 1
            judged = _judged(sentence, turn.role)
            key = " ".join(sentence.casefold().split())
            if judged is None or key in seen:
                continue
            heapq.heappush(best, (judged[0], number, sentence, judged[1]))
            seen.add(key)
            if len(best) > MOST_LEARNINGS:
                _, _, dropped, _ = heapq.heappop(best)
                seen.discard(" ".join(dropped.casefold().split()))
    return [Lesson(worth, text, kind) for worth, _, text, kind in sorted(best, reverse=True)]


def gist(heard: TranscriptSummary) -> str:
    """Return a short summary of a session, for one without lessons."""
    question, answered = (" ".join(text.split()) for text in (heard.first, heard.last))
    return " ".join(
        part
        for part in (question and f"Asked: {question}", answered and f"Answered: {answered}")
        if part
    )


def _judged(sentence: str, role: str) -> tuple[int, str] | None:
    """Return the importance and type of a sentence; None if it teaches nothing."""
    kind = None if sentence.endswith(_ASKS) else kind_of(sentence)
    return None if kind is None else (kind[0] + (role in _PEOPLE), kind[1])


def _sentences(text: str) -> Iterator[str]:
    plain = _CODE.sub("\n", text[:_MOST_CHARACTERS])
    for number, raw in enumerate(_SENTENCE.split(plain)):
        if number == _MOST_SENTENCES:
            return
        sentence = _MARKS.sub("", raw).strip()
        if len(sentence) <= _LONGEST and _width(sentence) >= _SHORTEST:
            yield sentence


def _width(sentence: str) -> int:
    return len(sentence) + len(_WIDE.findall(sentence))


def _turns_of(value: Any) -> Iterator[TranscriptTurn]:
    if not isinstance(value, dict):
        return
    of_codex = value.get("payload") if value.get("type") == "response_item" else None
    inner = of_codex if isinstance(of_codex, dict) else value.get("message")
    held = inner if isinstance(inner, dict) else value
    role = held.get("role") or value.get("role") or value.get("type")
    if role not in _SPOKEN or value.get("isMeta") is True:
        return
    content = held.get("content", inner if isinstance(inner, str) else None)
    parts = content if isinstance(content, list) else [content]
    for part in parts:
        text = part
        if isinstance(part, dict):
            text = part.get("text") if part.get("type") in _TEXTS else None
        if isinstance(text, str) and text.strip() and not (of_codex and _GIVEN.match(text)):
            yield TranscriptTurn(str(role), text)
