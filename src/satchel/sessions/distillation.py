"""Distillation: messages of a conversation are summarized and stored as memories."""

from array import array
from collections.abc import Iterator

import msgspec

from satchel.bank.changes import contents
from satchel.bank.connections import writer_key
from satchel.bank.machine_keys import require_owner
from satchel.bank.memory import PROVIDER
from satchel.bank.open_bank import OpenBank
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import ChangedError, EmptyInputError, ValueRefusedError
from satchel.inference.models import distiller_of
from satchel.ledger.projection import Precondition, VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Edge, Receipt, Semantic, SessionEvent
from satchel.model.text import SessionChange, words_of
from satchel.model.values import Evidence, Origin, Scope, TrustClass, now
from satchel.ports.inference import (
    MOST_FINDINGS,
    MOST_SUMMARY,
    DialogueTurn,
    Distillate,
    DistilledFinding,
    Distiller,
)
from satchel.ports.operations import operation
from satchel.ports.rows import DERIVES_FROM
from satchel.receipts.receipt import signed_receipt
from satchel.screening.records import SecretScreener
from satchel.sessions.chains import elements_at, positions_of, tip_of
from satchel.sessions.drafts import LogHead, Recorder
from satchel.sessions.elements import count_in, event_of, key_of
from satchel.sessions.lookup import SessionPoint, checkpoints, find, point_at, state
from satchel.sessions.options import OWNER_ONLY, DistillOptions
from satchel.sessions.views import CheckpointInfo

_MOST_NUMBER = 2**31


class Turns:
    """The messages of a conversation since it was last distilled; each iteration reads them again.

    Args:
        view: The bank, which must stay open during the iteration.
        start: The session or the fork.
        point: The last message.
    """

    def __init__(self, view: View, start: VerifiedRecord, point: SessionPoint) -> None:
        before = [one for one in checkpoints(view, start) if one.distillation is not None]
        done = [one for one in before if one.number <= point.tip.number]
        self.number = 1 + max([len(done), *map(_number, done)])
        """Number of the next distillation."""

        self.after = done[-1].number if done else 0
        """Number of messages that were distilled before."""

        self._view = view
        self._positions: array[int] = positions_of(view, point.element, since=self.after)

    def __iter__(self) -> Iterator[DialogueTurn]:
        number = self.after
        for logged in elements_at(self._view, self._positions):
            model = logged.model
            if isinstance(model, SessionEvent) and event_of(model) == "message":
                counted = count_in(model, "number")
                number = counted if counted > 0 else number + 1
                text = words_of(model.content if model.text is None else model.text)
                yield DialogueTurn(logged.record.id, number, model.role or "", text)


def _number(done: CheckpointInfo) -> int:
    """Return the number of a distillation; the first ones may be missing."""
    number = (done.distillation or {}).get("number")
    return number if type(number) is int and number < _MOST_NUMBER else 0


def memory_of(finding: DistilledFinding, start: VerifiedRecord, at: str, provider: str) -> Semantic:
    """Return the memory of a finding, with its source messages.

    It has the trust of an agent's statement, whatever the role of the speaker.
    """
    model = start.model
    stated = model.scope if isinstance(model, SessionEvent) else None
    owner = stated or Scope()
    return Semantic(
        text=finding.text,
        kind=finding.kind,
        created_at=at,
        scope=Scope(user=owner.user, agent=owner.agent, app=owner.app, run=key_of(start)),
        sources=tuple(Evidence(kind="message", id=turn) for turn in finding.turns),
        origin=Origin(provider=provider, trust=TrustClass.AGENT),
    )


def edges_of(identity: str, finding: DistilledFinding) -> list[Edge]:
    """Return the links from a memory to its source messages."""
    return [Edge(source=identity, target=turn, kind=DERIVES_FROM) for turn in finding.turns]


ACTION = "distillation"
"""ID of the receipt."""

_MOST_TRIES = 5


class DistilledMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A distilled memory."""

    kind: str
    text: str
    messages: list[str]
    """IDs of its source messages."""

    id: str | None = None
    """Its ID; None in a dry run."""


class DistillResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of a distillation."""

    session: str
    number: int
    """Number of the distillation in its conversation, from 1."""

    after: int
    """Number of messages that were distilled before."""

    up_to: int
    """Number of messages up to which it was distilled."""

    model: str
    summary: str
    memories: list[DistilledMemory] = []
    checkpoint: str | None = None
    """ID of the checkpoint; None in a dry run."""

    receipt: str | None = None
    left_out: int = 0
    """Number of invalid findings of a model: of an unknown kind, too long, too many, or about
    messages that were not in its input."""

    secrets: dict[str, int] = {}
    secrets_kept: int = 0
    dry_run: bool = False


@operation(
    DistillOptions,
    name="session distill",
    example="satchel session distill trip",
    absent=OWNER_ONLY,
)
def distill(bank: OpenBank, options: DistillOptions) -> DistillResult:
    """Distill a conversation: store a summary and memories of the messages since the last time.

    The messages are not removed. Each memory cites those that it comes from, and a checkpoint marks
    the end of the distilled part. By default no model is called: sentences are selected, none is
    written. With `--distiller openai`, a server with OpenAI's API distills; its answer is data, and
    its memories have the trust class `agent`.

    Raises:
        UnknownSessionError: If there is no such conversation.
        EmptyInputError: If all of its messages were distilled before.
        ValueRefusedError: If the distiller returned what cannot be stored.
        InferenceError: If a model does not answer.
    """
    require_owner(bank.settings, "sessions")
    distiller = options.distiller
    if distiller is None or isinstance(distiller, str):
        distiller = distiller_of(
            bank.settings, distiller, model=options.model, endpoint=options.endpoint
        )
    for turn in range(_MOST_TRIES):
        try:
            return _Distillation(bank, distiller, options.name).run(
                options.session, dry_run=options.dry_run
            )
        except ChangedError:
            if turn == _MOST_TRIES - 1:
                raise
    raise AssertionError("unreachable")


class _Distillation:
    """One attempt."""

    def __init__(self, bank: OpenBank, distiller: Distiller, name: str | None) -> None:
        self._bank = bank
        self._distiller = distiller
        self._name = name
        self._at = now()
        self._screening = SecretScreener()

    def run(self, session: str, *, dry_run: bool) -> DistillResult:
        with self._bank.ledger.reading() as view:
            start = find(view, session)
            point = point_at(view, start, None)
            turns = Turns(view, start, point)
            if point.tip.number <= turns.after:
                raise EmptyInputError(
                    "all messages of the conversation are already distilled",
                    field="session",
                    hint="See: satchel session checkpoint list SESSION.",
                )
            before = state(view, point.element).thread_summary
            distillate = _validated(self._distiller.distill(turns, before), turns)
            self._screening.scrub = bool(self._bank.settled(view).scrub_secrets)
            result = DistillResult(
                session=start.record.id,
                number=turns.number,
                after=turns.after,
                up_to=point.tip.number,
                model=self._distiller.model,
                summary=distillate.summary,
                memories=[_distilled_memory(finding) for finding in distillate.findings],
                left_out=distillate.left_out,
                dry_run=dry_run,
            )
            if dry_run:
                return result
            recorder = Recorder(tip_of(view, start), screen=self._screening)
            memories = [self._memory(finding, start) for finding in distillate.findings]
            head = LogHead(size=view.head.size, root=view.head.root)
            records, done = self._records(recorder, result, memories, head)
            unchanged = Precondition(view.head.size, [], (point.tip.session,))
        self._bank.ledger.append(records, precondition=unchanged)
        ids = [memory.id for memory in done.memories if memory.id is not None]
        if ids:
            counts = {"memories": len(ids)}
            self._bank.tell("on_remember", ids, counts, lambda: contents(self._bank, ids))
        return done

    def _memory(
        self, finding: DistilledFinding, start: VerifiedRecord
    ) -> tuple[Sealed, DistilledMemory, list[Sealed]]:
        """Return a memory, its entry in the result, and the links to its messages."""
        model = self._screening(memory_of(finding, start, self._at, PROVIDER))
        memory = seal(model, limits=self._bank.settings.options.limits)
        drawn = msgspec.structs.replace(
            _distilled_memory(finding), id=memory.id, text=memory.value["text"]
        )
        return memory, drawn, [seal(edge) for edge in edges_of(memory.id, finding)]

    def _records(
        self,
        recorder: Recorder,
        outcome: DistillResult,
        memories: list[tuple[Sealed, DistilledMemory, list[Sealed]]],
        head: LogHead,
    ) -> tuple[list[Sealed], DistillResult]:
        """Return all records to log in one commit, each after those that it refers to.

        The checkpoint comes after the memories, so that a fork from it includes them.
        """
        drawn = [memory for _, memory, _ in memories]
        change = recorder.change(SessionChange(thread_summary=outcome.summary), created_at=self._at)
        summary = change.value["state"]["thread_summary"]
        details = {
            "number": outcome.number,
            "after": outcome.after,
            "up_to": outcome.up_to,
            "model": outcome.model,
            "memories": [memory.id for memory in drawn],
        }
        checkpoint = recorder.checkpoint(
            head, name=self._name, created_at=self._at, distillation=details
        )
        kinds = {kind: sum(memory.kind == kind for memory in drawn) for kind in MOST_FINDINGS}
        counts = {kind: number for kind, number in kinds.items() if number}
        result = {
            "session": outcome.session,
            "checkpoint": checkpoint.id,
            "found": counts,
            **details,
        }
        draft = Receipt(action=ACTION, result=result, at=self._at)
        receipt = signed_receipt(draft, writer_key(self._bank.settings))
        sealed = [record for record, _, _ in memories]
        links = [link for _, _, edges in memories for link in edges]
        done = msgspec.structs.replace(
            outcome,
            summary=summary,
            memories=drawn,
            checkpoint=checkpoint.id,
            receipt=receipt.id,
            secrets=self._screening.found,
            secrets_kept=self._screening.kept,
        )
        return [*sealed, *links, change, checkpoint, receipt], done


def _distilled_memory(finding: DistilledFinding) -> DistilledMemory:
    return DistilledMemory(kind=finding.kind, text=finding.text, messages=list(finding.turns))


def _validated(distillate: Distillate, turns: Turns) -> Distillate:
    """Return the output of a distiller, validated.

    A model may return anything: the messages that it names must be in its input.

    Raises:
        ValueRefusedError: If the output is not valid.
    """
    summary, findings = distillate.summary, distillate.findings
    if not summary.strip() or len(summary) > MOST_SUMMARY:
        problem = f"a summary must have 1 to {MOST_SUMMARY:,} characters"
        raise ValueRefusedError(problem, field="summary")
    named = {turn for finding in findings for turn in finding.turns}
    missing = named - {turn.id for turn in turns if turn.id in named}
    for finding in findings:
        if finding.kind not in MOST_FINDINGS or not finding.text.strip():
            raise ValueRefusedError("a finding must have a kind and a text", field="findings")
        if not finding.turns or missing.intersection(finding.turns):
            problem = "a finding must name the messages it derives from"
            raise ValueRefusedError(problem, field="findings")
    return distillate
