"""Putting a bank's memory, or a file's, in front of a model."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from satchel.actions.config import Settings
from satchel.actions.inferring.models import asking, reranker_of, summariser_of
from satchel.actions.memories.values import notes_of
from satchel.actions.opened import OpenBank, opened_bank
from satchel.actions.waking.of_files import FromFile, view_of_file
from satchel.actions.waking.wanted import Wanted, asked_of
from satchel.disk.reading import OpenFile
from satchel.ledger.view import View
from satchel.ports.inference.summariser import Summariser
from satchel.ports.inference.tokenizer import Tokenizer
from satchel.rehydrate.asked import Around, Judge
from satchel.rehydrate.pipeline import rehydrate
from satchel.rehydrate.rehydrated import Rehydrated

__all__ = ["Parts", "Wanted", "rehydrate_bank", "rehydrate_file", "rehydrate_memories"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Parts of the pipeline that a program brings itself."""

    judge: Judge | None = None
    """Gives the relevance of a memory in place of the weighed mean."""

    summariser: Summariser | None = None
    tokenizer: Tokenizer | None = None


def rehydrate_memories(bank: OpenBank, wanted: Wanted, parts: Parts | None = None) -> Rehydrated:
    """Return a bank's memory as text and messages for a model; see ``satchel.rehydrate``.

    Nothing is written. What does not match its block is withheld from the text and named in the
    answer; in the bank it stays as it is.

    Args:
        bank: The bank.
        wanted: What is asked for.
        parts: What is used in place of the pipeline's own.

    Raises:
        UsageError: If something cannot be meant, or the budget does not hold the frame.
        VerificationError: If the bank is not what was signed.
        PermissionRefusedError: If a token was presented that does not allow it.
    """
    asked = bank.asked("rehydrate")
    with asked.ledger.reading() as view:
        result = _rehydrated(bank.settings, view, wanted, parts or Parts(), _told(bank))
        result = msgspec.structs.replace(result, notes=[*notes_of(view), *result.notes])
    ids = [entry.id for entry in result.entries]
    bank.tell("on_recall", ids, {"memories": len(ids)})
    return result


def rehydrate_bank(
    settings: Settings, bank: str | None, wanted: Wanted, parts: Parts | None = None
) -> Rehydrated:
    """Open a bank for reading and return its memory for a model; as ``rehydrate_memories``.

    Args:
        settings: Where the store and the keys are.
        bank: The bank, as ``opened_bank`` takes it.
        wanted: What is asked for.
        parts: What is used in place of the pipeline's own.
    """
    with opened_bank(settings, bank) as opened:
        return rehydrate_memories(opened, wanted, parts)


def rehydrate_file(
    settings: Settings,
    file: Path | OpenFile,
    wanted: Wanted,
    source: FromFile | None = None,
    parts: Parts | None = None,
) -> Rehydrated:
    """Return a file's memory as text and messages for a model, without importing it.

    All of the file is verified first. What would need a promotion is not shown.

    Args:
        settings: Whose keys count, and the limits.
        file: The file.
        wanted: What is asked for.
        source: What is put up with, and whom to believe.
        parts: What is used in place of the pipeline's own.

    Raises:
        VerificationError: If it is not signed by somebody trusted, and that is not put up with.
        MalformedError: If it cannot be read.
        TokenError, PermissionRefusedError: If the token that is presented does not allow it.
    """
    with view_of_file(settings, file, source or FromFile()) as (view, around):
        return _rehydrated(settings, view, wanted, parts or Parts(), around)


def _rehydrated(
    settings: Settings, view: View, wanted: Wanted, parts: Parts, around: Around
) -> Rehydrated:
    asked = asked_of(wanted, settings.options.rehydrate)
    summariser = parts.summariser or summariser_of(settings, wanted.summariser)
    return rehydrate(
        view,
        asked,
        Around(
            tokenizer=parts.tokenizer,
            summariser=summariser,
            judge=parts.judge,
            embedders=asking(settings),
            reranker=reranker_of(settings),
            verified=around.verified,
            allowed=around.allowed,
            origin=around.origin,
        ),
    )


def _told(bank: OpenBank) -> Around:
    if bank.bearer is None:
        return Around()
    chain = bank.bearer.chain
    covered = "all of the bank" if chain.is_wildcard else "a part of the bank"
    return Around(allowed=f"{covered}, by a token for {bank.bearer.name}")
