"""Memory of a bank or a file, provided as context for a model."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from satchel.actions.config import Settings
from satchel.actions.inferring.models import asking, reranker_of
from satchel.actions.inferring.text_models import summariser_of
from satchel.actions.memories.values import notes_of
from satchel.actions.opened import OpenBank
from satchel.actions.options import FEW_FOR_MODELS
from satchel.actions.waking.of_files import FromFile, view_of_file
from satchel.actions.waking.options import PipelineOptions, RehydrateOptions
from satchel.actions.waking.wanted import asked_of
from satchel.disk.reading import OpenFile
from satchel.ledger.view import View
from satchel.ports.operations import operation, texts
from satchel.rehydrate.asked import Around
from satchel.rehydrate.pipeline import rehydrate
from satchel.rehydrate.rehydrated import Rehydrated
from satchel.seal.verify.verification import Outcome


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A file whose memory is provided without an import.

    Args:
        settings: Whose keys count, and the limits.
        file: The file.
        source: How it is read, and whose keys are trusted.
    """

    settings: Settings
    file: Path | OpenFile
    source: FromFile = field(default_factory=FromFile)


@operation(
    RehydrateOptions,
    name="rehydrate",
    example='satchel rehydrate --task "answer Ada\'s mail" --model gpt-4o --budget 2000',
    for_models=FEW_FOR_MODELS,
)
def rehydrate_memories(source: OpenBank | MemoryFile, options: RehydrateOptions) -> Rehydrated:
    """Provide the memory of a bank or a file as context for a model, within a token budget.

    Everything is verified first, and nothing is written. Memories are delimited and cannot break
    out. One that reads like a prompt is withheld and named: `satchel quarantine release ID` lets it
    be provided. Procedures and identity from outside need a promotion: `satchel promote`.

    Raises:
        UsageError: If an option is out of range, or the budget is too small for the frame.
        VerificationError: If the bank or the file does not verify, or nobody trusted signed it.
        PermissionRefusedError: If a token was presented that does not allow it.
        InputError: If the file cannot be read.
    """
    if isinstance(source, MemoryFile):
        with view_of_file(source.settings, source.file, source.source) as (view, around):
            return _rehydrated(source.settings, view, options, around)
    asked = source.asked("rehydrate")
    with asked.ledger.reading() as view:
        result = _rehydrated(source.settings, view, options, _told(source))
        result = msgspec.structs.replace(result, notes=[*notes_of(view), *result.notes])
    ids = [entry.id for entry in result.entries]
    source.tell("on_recall", ids, {"memories": len(ids)})
    return result


@operation(
    PipelineOptions,
    name="pipeline",
    absent={
        "cli": "`satchel rehydrate FILE` does it.",
        "http": "`POST /v1/banks/{bank}/rehydrate` does it for a bank; the server reads no files.",
        "mcp": "`rehydrate` does it for a bank.",
    },
)
def rehydrate_any(source: OpenBank | MemoryFile, options: PipelineOptions) -> Rehydrated:
    """Provide the memory of a bank or a file as context for a model, within a token budget.

    The seven stages: verify, filter, rank, compress, format, frame, inject.

    Raises:
        VerificationError: If it does not verify, or nobody trusted signed the file.
        UsageError: If an option is out of range, or the budget is too small for the frame.
        InputError: If a file cannot be read.
    """
    if isinstance(source, MemoryFile):
        source = replace(source, source=from_file(options))
    return rehydrate_memories.run(source, options)


def from_file(options: Any) -> FromFile:
    """Return how options have a file read."""
    return FromFile(
        format=options.format,
        accepted=frozenset(map(Outcome, texts(options.unsafe_accept))),
        keys=texts(options.trusted_keys),
    )


def rehydrate_file(
    settings: Settings,
    file: Path | OpenFile,
    options: RehydrateOptions,
    source: FromFile | None = None,
) -> Rehydrated:
    """Provide a file's memory as context without importing it; as ``rehydrate_memories``."""
    return rehydrate_memories.run(MemoryFile(settings, file, source or FromFile()), options)


def _rehydrated(
    settings: Settings, view: View, options: RehydrateOptions, around: Around
) -> Rehydrated:
    given = options.summariser
    summariser = (
        summariser_of(settings, given) if given is None or isinstance(given, str) else given
    )
    return rehydrate(
        view,
        asked_of(options, settings.options.rehydrate),
        Around(
            tokenizer=options.tokenizer,
            summariser=summariser,
            judge=options.judge,
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
