"""Waking up, from Python: memory in front of a model, and the judgement of what may get there."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypedDict, Unpack, cast

from satchel.actions.config import load_settings
from satchel.actions.memories.changing import Moved
from satchel.actions.opened import OpenBank
from satchel.actions.paths.permission import file_to_read
from satchel.actions.waking import promoting, quarantining, rehydrating
from satchel.actions.waking.of_files import FromFile
from satchel.actions.waking.promoting import Promoted
from satchel.actions.waking.quarantining import Held, Screened
from satchel.actions.waking.quarantining import Quarantine as Listed
from satchel.actions.waking.wanted import Wanted
from satchel.api.arguments import FilePath
from satchel.api.asked import known
from satchel.api.lifetime import Lifetime
from satchel.ports.inference.summariser import Summariser
from satchel.ports.inference.tokenizer import Tokenizer
from satchel.ports.operations import texts
from satchel.rehydrate.asked import Judge
from satchel.rehydrate.rehydrated import Rehydrated
from satchel.seal.verify.verification import Outcome

__all__ = ["Held", "Promoted", "Quarantine", "Rehydrated", "Waking", "pipeline"]


class RehydrateArguments(TypedDict, total=False):
    """What ``Bank.rehydrate`` asks for besides the task; settings say what is left open."""

    budget: int | None
    """Tokens of the whole text."""

    model: str | None
    """The model it is for, such as ``gpt-4o`` or ``claude``."""

    style: Literal["structured", "narrative"] | None
    framing: Literal["encoded", "pam-1.0"] | None
    enforce: Literal["outside", "all", "shapes", "nothing"] | None
    """Whose imperatives are held back."""

    similarity: Literal["recall", "cosine"]
    """What is compared with the task: words and meaning, or cosines of vectors alone."""

    relevance: float | None
    """Relevance from 0 to 1 below which a memory is left out."""

    type: str | Sequence[str] | None
    """Components; all when None."""

    trust: str | None
    user: str | None
    agent: str | None
    run: str | None
    app: str | None
    any_time: bool
    """Whether memories of a time that the task names rank no higher."""

    system: str | None
    """The system prompt that messages begin with."""

    judge: Judge | None
    """Gives the relevance of a memory, 0 to 1, in place of the weighed mean of the parts."""

    summariser: Summariser | Literal["sentences", "openai"] | None
    """What shortens memories: one's own, or one by its name."""

    tokenizer: Tokenizer | None
    """What counts tokens; that of the model when None."""


class PipelineArguments(RehydrateArguments, total=False):
    """What ``pipeline`` asks for besides; of files only."""

    format: str | None
    """When it is not to be recognised."""

    unsafe_accept: Sequence[Literal["unsigned", "stranger", "entries-only", "incomplete"]]
    trusted_keys: Sequence[str]


class Quarantine:
    """What is neither recalled nor provided until it is reviewed; ``Bank.quarantine`` gives it."""

    def __init__(self, opened: OpenBank, lifetime: Lifetime) -> None:
        self._opened = opened
        self._lifetime = lifetime

    def list(self, *, limit: int = 100) -> Listed:
        """Return what is in quarantine, the last that was put there first."""
        with self._lifetime.use():
            return quarantining.list_quarantine(self._opened, limit=limit)

    def show(self, memory: str) -> Held:
        """Return a memory, why it is there, and what is found in it.

        Raises:
            UnknownMemoryError: If there is none.
            UsageError: If it is not in quarantine.
        """
        with self._lifetime.use():
            return quarantining.show_held(self._opened, memory)

    def scan(self, *, enforce: str | None = None, dry_run: bool = False) -> Screened:
        """Look through all memories for what reads like a prompt; quarantine what is from outside.

        Args:
            enforce: What is looked for: ``outside``, ``all``, ``shapes``; the setting otherwise.
            dry_run: List only.

        Raises:
            UsageError: If there is no such enforcement.
        """
        with self._lifetime.use():
            return quarantining.screen_bank(self._opened, enforce=enforce, dry_run=dry_run)

    def add(
        self, *memories: str, reason: str | None = None, actor: str | None = None
    ) -> Sequence[Moved]:
        """Put memories there: not recalled, listed or provided until they are released.

        Raises:
            UnknownMemoryError: If there is none.
        """
        with self._lifetime.use():
            return quarantining.quarantine(self._opened, memories, reason=reason, actor=actor)

    def release(
        self,
        *memories: str,
        own: bool = False,
        reason: str | None = None,
        actor: str | None = None,
    ) -> Sequence[Moved]:
        """Let memories be provided, out of quarantine where they are in it; they stay released.

        Args:
            *memories: Ids, or prefixes of them.
            own: Also everything of your own that an earlier version quarantined while it read.
            reason: Why, for the history.
            actor: Who does it.

        Raises:
            UnknownMemoryError: If there is none.
            UsageError: If nothing is named.
        """
        with self._lifetime.use():
            return quarantining.release(self._opened, memories, own=own, reason=reason, actor=actor)

    def reject(
        self, *memories: str, reason: str | None = None, actor: str | None = None
    ) -> Sequence[Moved]:
        """Say that memories are not to be believed, whether they are in quarantine or not.

        Raises:
            UnknownMemoryError: If there is none.
        """
        with self._lifetime.use():
            return quarantining.reject(self._opened, memories, reason=reason, actor=actor)


class Waking:
    """A bank as its memory is put in front of a model."""

    _opened: OpenBank
    _lifetime: Lifetime

    @property
    def quarantine(self) -> Quarantine:
        """What it holds back until somebody has looked at it."""
        return Quarantine(self._opened, self._lifetime)

    def rehydrate(self, task: str = "", **wanted: Unpack[RehydrateArguments]) -> Rehydrated:
        """Return its memory as text and messages for a model, within a budget.

        Args:
            task: What the model is going to do; without it, what is newest and matters most.
            **wanted: For which model, in how many tokens, how: see ``RehydrateArguments``.

        Raises:
            UsageError: If something cannot be meant, or the budget does not hold the frame.
            VerificationError: If the bank is not what was signed.
        """
        asked, parts = _asked(task, known("rehydrate", wanted, RehydrateArguments))
        with self._lifetime.use():
            return rehydrating.rehydrate_memories(self._opened, asked, parts)

    def promote(
        self,
        *memories: str,
        trust: str = "user",
        reason: str | None = None,
        actor: str | None = None,
    ) -> Sequence[Promoted]:
        """Trust memories further than they earned: ids of them, or of an import's source record.

        Raises:
            UnknownMemoryError: If there is none.
            UsageError: If there is no such trust class.
        """
        with self._lifetime.use():
            return promoting.promote(
                self._opened, memories, trust=trust, reason=reason, actor=actor
            )


def pipeline(
    source: Waking | FilePath, task: str = "", **wanted: Unpack[PipelineArguments]
) -> Rehydrated:
    """Return the memory of a bank or a file as text and messages for a model, within a budget.

    The seven stages: verify, filter, rank, compress, format, frame, inject.

    Args:
        source: An open bank; or a file of any format, which has to be signed by somebody trusted
            unless something else is put up with.
        task: What the model is going to do.
        **wanted: See ``PipelineArguments``.

    Raises:
        VerificationError: If it does not verify.
        UsageError: If something cannot be meant, or the budget does not hold the frame.
        InputError: If a file cannot be read.
    """
    options = known("pipeline", wanted, PipelineArguments)
    from_file = FromFile(
        format=options.pop("format", None),
        accepted=frozenset(map(Outcome, options.pop("unsafe_accept", ()))),
        keys=tuple(options.pop("trusted_keys", ())),
    )
    if isinstance(source, Waking):
        return source.rehydrate(task, **options)
    asked, parts = _asked(task, options)
    settings = load_settings()
    with file_to_read(settings, Path(str(source))) as file:
        return rehydrating.rehydrate_file(settings, file, asked, from_file, parts)


def _asked(task: str, options: dict[str, object]) -> tuple[Wanted, rehydrating.Parts]:
    said = options.pop("summariser", None)
    named = said if isinstance(said, str) else None
    parts = rehydrating.Parts(
        judge=options.pop("judge", None),  # type: ignore[arg-type]  # its name was looked at
        tokenizer=options.pop("tokenizer", None),  # type: ignore[arg-type]  # idem
        summariser=None if named is not None else said,  # type: ignore[arg-type]  # idem
    )
    types: object = options.pop("type", None)
    components = sorted(set(texts(cast("str | Sequence[str] | None", types))))
    return (
        Wanted(task=task, components=components, summariser=named, **options),  # type: ignore[arg-type]
        parts,
    )
