"""The operation ``rehydrate``: memories of a bank or a file as context for a model."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from blake3 import blake3

from satchel.artifact.verification import Outcome, Verification
from satchel.bank.connections import known_owners, temporary_store
from satchel.bank.jobs import new_journal
from satchel.bank.memory import notes_of
from satchel.bank.open_bank import OpenBank
from satchel.bank.permissions import load_bearer, revoked_keys
from satchel.config.options import FEW_FOR_MODELS
from satchel.config.settings import Settings
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import seeded_nonces
from satchel.crypto.token_chain import Chain, TokenContext
from satchel.crypto.tokens import Permission
from satchel.errors import EmptyInputError, SatchelError, TokenError, VerificationError
from satchel.inference.models import summarizer_of
from satchel.ledger.ledger import Ledger
from satchel.ledger.scope import ScopedView
from satchel.ledger.transaction import closing_receipt
from satchel.ledger.view import View
from satchel.model.values import now
from satchel.ports.operations import operation, texts
from satchel.recall.models import query_embedders, reranker_of
from satchel.rehydrate.options import PipelineOptions, RehydrateOptions, request_of
from satchel.rehydrate.pipeline import rehydrate
from satchel.rehydrate.request import RehydrateContext, RehydrateResult
from satchel.runtime.files import PRIVATE_FILE, OpenFile, atomic_write, open_input
from satchel.runtime.private_files import private_folder
from satchel.runtime.scratch import SpoolStreams
from satchel.transfer.import_batches import ImportBatch
from satchel.transfer.import_plan import ImportPlan
from satchel.transfer.import_results import ConflictPolicy, ImportRules
from satchel.transfer.import_source import ImportSource, open_rereadable

MOST = 256
"""Maximum verified files that are remembered; the oldest is dropped first."""

_MOST_BYTES = 1 << 16


def was_verified(settings: Settings, digest: str) -> bool:
    """Return whether a file was fully verified before, by this version and with these limits."""
    return _cache_entry(settings, digest) in _verified_files(settings)


def remember_verified(settings: Settings, digest: str) -> None:
    """Remember that a file was fully verified; errors are ignored."""
    name = _cache_entry(settings, digest)
    remembered = [other for other in _verified_files(settings) if other != name][1 - MOST :]
    with suppress(SatchelError):
        private_folder(settings.state)
        with atomic_write(settings.state / _FILE, mode=PRIVATE_FILE) as stream:
            stream.write(msgspec.json.encode([*remembered, name]))


_FILE = "looked-at.json"


def _cache_entry(settings: Settings, digest: str) -> str:
    limits = msgspec.json.encode(settings.options.limits, order="deterministic")
    return f"{digest} {version('satchel')} {blake3(limits).hexdigest(length=8)}"


def _verified_files(settings: Settings) -> list[str]:
    """Return the remembered files, oldest first; none if the list is damaged."""
    with suppress(SatchelError, msgspec.MsgspecError), open_input(settings.state / _FILE) as stream:
        return msgspec.json.decode(stream.read(_MOST_BYTES), type=list[str])[-MOST:]
    return []


_TOGETHER = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReadRequest:
    """How to read a file."""

    format: str | None = None
    """Format; None to detect it."""

    accepted: frozenset[Outcome] = frozenset()
    """Outcomes of verification that are accepted although they are not good."""

    keys: tuple[str, ...] = field(default_factory=tuple)
    """Keys to trust for this call."""


@contextmanager
def view_of_file(
    settings: Settings, file: Path | OpenFile, source: FileReadRequest
) -> Iterator[tuple[View, RehydrateContext]]:
    """Yield a view of the memories in a file, and the context with notes about it.

    Args:
        settings: Settings with trusted keys, limits and the presented token.
        file: The file, of any format.
        source: How to read it.

    Raises:
        VerificationError: If it does not verify, or no trusted key signed it and that is not
            accepted.
        InputError: If it cannot be read.
        TokenError, PermissionRefusedError: If the token is not valid for it.
    """
    with ExitStack() as held:
        opened = held.enter_context(open_rereadable(settings, file))
        name = str(opened.path)
        arriving = ImportSource(settings, opened, name, source.format, None)
        is_known = was_verified(settings, arriving.digest)
        arriving.verify(source.keys, source.accepted, deep=not is_known)
        if arriving.verdict is None and Outcome.UNSIGNED not in source.accepted:
            raise VerificationError(
                "the file is not signed",
                file=name,
                hint="Import it to review it first, or accept it: --unsafe-accept unsigned",
            )
        chain = _chain(settings, arriving.verdict)
        store = held.enter_context(temporary_store())
        verdict = arriving.verdict
        ledger = _read_into(Ledger.create(store, owner=_KEY(), writer=_KEY()), arriving)
        if not is_known and verdict is not None and verdict.outcome is Outcome.GOOD:
            remember_verified(settings, arriving.digest)
        view = held.enter_context(ledger.reading())
        context = RehydrateContext(
            verified=_verification_note(arriving, again=is_known),
            allowed=f"what a token for {chain.audience or 'anybody'} covers" if chain else "",
            origin=opened.path.name,
        )
        yield (view if chain is None else ScopedView(view, chain.covers)), context


_KEY = SigningKey.generate


def _chain(settings: Settings, verdict: Verification | None) -> Chain | None:
    """Return the presented token, if it is valid for the file; None without a token.

    Its issuers may be the trusted signers of the file, and the known owners of its bank.
    """
    if settings.token is None:
        return None
    statement = verdict.statement if verdict is not None else None
    bank = statement.get("bank") if statement is not None else None
    if verdict is None or statement is None or not isinstance(bank, str):
        raise TokenError("a token is for a bank, and the file names no bank")
    signers = {
        signer.key for signer in verdict.signers if signer.valid and signer.trust == "trusted"
    }
    chain = load_bearer(settings).chain
    context = TokenContext(
        bank=bank,
        owners=signers | known_owners(settings, bank),
        moment=now(),
        revoked_keys=revoked_keys(settings),
        artifact=statement.get("root_hash"),
    )
    chain.require(frozenset({Permission.REHYDRATE}), context)
    return chain


def _read_into(ledger: Ledger, arriving: ImportSource) -> Ledger:
    """Import a source into a bank.

    Raises:
        EmptyInputError: If it contains no memories.
    """
    journal = new_journal("rehydrate")
    rows = arriving.rows(seeded_nonces(journal.seed))
    rules = ImportRules(on_conflict=ConflictPolicy.SKIP, mirror=False, keeps_ids=arriving.keeps_ids)
    nonces = seeded_nonces(journal.seed + b"plan")
    with ExitStack() as held:
        strands = SpoolStreams()
        held.callback(strands.close)
        with ledger.reading() as view:
            plan = ImportPlan(view, rules, strands, nonces=nonces, at=journal.at)
            while group := list(islice(rows, _TOGETHER)):
                plan.take(group, arriving.endings)
            plan.finish()
        if plan.is_empty:
            raise EmptyInputError("the file contains no memories", file=arriving.name)
        arriving.require_unchanged()
        batch = ImportBatch(ledger, plan, journal, ConflictPolicy.SKIP)
        batch.log(arriving.source(journal.at))
        ledger.append([closing_receipt(batch.source, now())])
    return ledger


def _verification_note(arriving: ImportSource, *, again: bool) -> str:
    verdict = arriving.verdict
    if verdict is None:
        return f"{arriving.name} has no signature, which was accepted"
    signers = [signer.name or signer.key for signer in verdict.signers if signer.valid]
    when = " before, and no byte has changed since" if again else ""
    by = f", signed by {', '.join(signers)}" if signers else ""
    return f"{arriving.name} is {verdict.outcome}{by}; every record of it was verified{when}"


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A file whose memories are provided without an import.

    Args:
        settings: Settings with trusted keys and limits.
        file: The file.
        source: How to read it.
    """

    settings: Settings
    file: Path | OpenFile
    source: FileReadRequest = field(default_factory=FileReadRequest)


@operation(
    RehydrateOptions,
    name="rehydrate",
    example='satchel rehydrate --task "answer Ada\'s mail" --model gpt-4o --budget 2000',
    for_models=FEW_FOR_MODELS,
)
def rehydrate_memories(source: OpenBank | MemoryFile, options: RehydrateOptions) -> RehydrateResult:
    """Provide the memory of a bank or a file as context for a model, within a token budget.

    Everything is verified first, and nothing is written. Memories are delimited and cannot break
    out. One that reads like a prompt is withheld and named: `satchel quarantine release ID` lets it
    be provided. Procedures and identity from outside need a promotion: `satchel promote`.

    Raises:
        UsageError: If an option is out of range, or the budget is too small for the frame.
        VerificationError: If the bank or the file does not verify, or no trusted key signed it.
        PermissionRefusedError: If a token was presented that does not allow it.
        InputError: If the file cannot be read.
    """
    if isinstance(source, MemoryFile):
        with view_of_file(source.settings, source.file, source.source) as (view, context):
            return _rehydrated(source.settings, view, options, context)
    permitted = source.asked("rehydrate")
    with permitted.ledger.reading() as view:
        result = _rehydrated(source.settings, view, options, _token_context(source))
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
def rehydrate_any(source: OpenBank | MemoryFile, options: PipelineOptions) -> RehydrateResult:
    """Provide the memory of a bank or a file as context for a model, within a token budget.

    The seven stages: verify, filter, rank, compress, format, frame, inject.

    Raises:
        VerificationError: If it does not verify, or no trusted key signed the file.
        UsageError: If an option is out of range, or the budget is too small for the frame.
        InputError: If a file cannot be read.
    """
    if isinstance(source, MemoryFile):
        source = replace(source, source=from_file(options))
    return rehydrate_memories.run(source, options)


def from_file(options: Any) -> FileReadRequest:
    """Return the options for reading a file."""
    return FileReadRequest(
        format=options.format,
        accepted=frozenset(map(Outcome, texts(options.unsafe_accept))),
        keys=texts(options.trusted_keys),
    )


def rehydrate_file(
    settings: Settings,
    file: Path | OpenFile,
    options: RehydrateOptions,
    source: FileReadRequest | None = None,
) -> RehydrateResult:
    """Provide the memories of a file as context without importing it."""
    return rehydrate_memories.run(MemoryFile(settings, file, source or FileReadRequest()), options)


def _rehydrated(
    settings: Settings, view: View, options: RehydrateOptions, context: RehydrateContext
) -> RehydrateResult:
    choice = options.summarizer
    summarizer = (
        summarizer_of(settings, choice) if choice is None or isinstance(choice, str) else choice
    )
    return rehydrate(
        view,
        request_of(options, settings.options.rehydrate),
        RehydrateContext(
            tokenizer=options.tokenizer,
            summarizer=summarizer,
            judge=options.judge,
            embedders=query_embedders(settings),
            reranker=reranker_of(settings),
            verified=context.verified,
            allowed=context.allowed,
            origin=context.origin,
        ),
    )


def _token_context(bank: OpenBank) -> RehydrateContext:
    if bank.bearer is None:
        return RehydrateContext()
    chain = bank.bearer.chain
    covered = "all of the bank" if chain.is_wildcard else "a part of the bank"
    return RehydrateContext(allowed=f"{covered}, by a token for {bank.bearer.name}")
