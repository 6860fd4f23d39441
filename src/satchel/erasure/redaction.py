"""Redact memories: replace personal data with typed placeholders, keeping position and lineage.

The redacted form replaces the entry in the commit that logs the redaction; current memories stay
current. All versions of a memory are redacted. Source: docs/decisions/0041.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from satchel.bank.connections import writer_key
from satchel.bank.machine_keys import lock_for, require_owner, signer_of
from satchel.bank.memory import find_memory, versions_of
from satchel.bank.open_bank import OpenBank
from satchel.bank.token_operations import audience_of
from satchel.config.options import NOT_FOR_MODELS, SECRETS, file_to_write
from satchel.crypto.canonical import canonical_checked
from satchel.crypto.keys import SigningKey
from satchel.crypto.redaction import (
    age_file,
    open_original,
    open_original_with,
    seal_original,
    signed_redaction,
)
from satchel.crypto.sealed_records import Sealed, as_model, digest, open_record
from satchel.erasure.selection import EraseSelection, RecoverOptions, RedactOptions
from satchel.errors import (
    LimitError,
    PermissionRefusedError,
    SigningKeyError,
    StoreBusyError,
    UsageError,
    VerificationError,
)
from satchel.inference.models import detector_of, extractor
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.transaction import SEALED, finish_erasure
from satchel.ledger.view import View
from satchel.model.records import Entry, Redaction
from satchel.model.values import Component, JsonObject, now
from satchel.ports.operations import operation, path_text, texts
from satchel.ports.rows import Filter
from satchel.screening.redaction import MOST_FIELDS, Redactor, Replacement

_TOGETHER = 200
_MOST_ENTRIES = 100
_ENTRIES = Filter(types=frozenset(Component), retired=True, held=True)
_LEFT = "the owner has to remove the bytes from the store: satchel prune"

Progress = Callable[[int, int], None]
"""Called with the number of memories read, and the maximum."""


class RedactedEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result for one memory."""

    id: str
    replaced: dict[str, int]
    """Number of replaced values by kind."""

    fields: list[str]
    kept: list[str] = []
    """Pointers to remaining values that identify the record or its owner."""


class RedactionResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of a redaction, or of a dry run."""

    bank: str
    looked_at: int
    redacted: int
    """Number of memories, including old versions."""

    kinds: dict[str, int] = {}
    """Number of replaced values by kind."""

    kept: int = 0
    """Number of remaining values that identify a record or its owner."""

    entries: list[RedactedEntry] = []
    """The first hundred."""

    recoverable_by: list[str] = []
    notes: list[str] = []
    finished: bool = True
    """Whether the old bytes were removed from the store."""

    dry_run: bool = False

    @property
    def exit_status(self) -> int:
        """1 if the store may still hold the old bytes, otherwise 0."""
        return int(not self.finished)


class _Form(NamedTuple):
    """A memory and its redacted form."""

    logged: VerifiedRecord
    body: bytes
    record: Sealed
    replaced: list[Replacement]


@operation(
    RedactOptions,
    name="redact",
    example="satchel redact --where user=ada --dry-run",
    absent=NOT_FOR_MODELS,
)
def redact(bank: OpenBank, options: RedactOptions) -> RedactionResult:
    """Redact personal data and secrets in memories: replace them with typed placeholders.

    A placeholder looks like `[REDACTED:email:1]`. IDs, parents and times are kept, and the log
    still verifies. All versions of a memory are redacted. The owner of a memory is kept, unless
    `--field` names it.

    Args:
        bank: The bank, open for writing; or for reading, for a dry run.
        options: What to redact, and how.

    Raises:
        UsageError: If nothing is selected, a kind is unknown, or a pointer is invalid.
        UnknownMemoryError: If there is no such memory.
        PermissionRefusedError: If conditions are used with a token that does not allow reading.
        RedactionRefusedError: If one of them was erased during the call.
        MissingExtraError: If the detector is not installed.
        SigningKeyError: If a recipient of the originals has no key.
        ReadOnlyStoreError: If no key here may append to the bank.
        StoreError: If it cannot be written; groups that were redacted before stay redacted.
    """
    permitted = bank.asked("redact")
    if options.where and not bank.shows("read"):
        raise PermissionRefusedError("without the permission read, memories must be given by ID")
    if (options.recover_for or options.recover_to) and bank.bearer is not None:
        raise PermissionRefusedError("only the owner can store originals")
    detector = None if options.detector is None else detector_of(options.detector)
    more = () if detector is None else (detector,)
    kinds = Redactor(
        texts(options.kinds), texts(options.texts), texts(options.fields), _people, more
    )
    keys = [audience_of(bank.settings, name) for name in texts(options.recover_for)]
    age = list(lock_for(bank.settings, texts(options.recover_to)).recipients)
    report = _RedactionReport(bank.id, options.dry_run)
    if detector is not None:
        report.notes.append(detector.note)
    position: int | None = -1
    while position is not None:
        with permitted.ledger.reading() as view:
            chosen, after = _group(view, options, position)
            forms = [form for logged in chosen for form in _forms(logged, kinds, bank)]
            size = view.head.size
        if forms and not options.dry_run:
            _log(permitted, forms, keys, age)
        report.add(len(chosen), forms)
        if options.progress is not None:
            options.progress(size if after is None else after + 1, size)
        position = after
    return report.done(bank, [*keys, *age])


class _RedactionReport:
    """Counts and notes of a redaction."""

    def __init__(self, bank: str, dry_run: bool) -> None:  # noqa: FBT001 - as its option
        self._bank, self._dry_run = bank, dry_run
        self.notes = list[str]()
        self._looked_at = self._redacted = self._unchanged_count = 0
        self._kinds = Counter[str]()
        self._entries = list[RedactedEntry]()

    def add(self, looked_at: int, forms: Sequence[_Form]) -> None:
        self._looked_at += looked_at
        for form in forms:
            removed = [replacement for replacement in form.replaced if not replacement.kept]
            kept_fields = [replacement.field for replacement in form.replaced if replacement.kept]
            kinds = Counter(replacement.kind for replacement in removed)
            self._redacted += 1
            self._kinds.update(kinds)
            self._unchanged_count += len(kept_fields)
            if len(self._entries) < _MOST_ENTRIES:
                self._entries.append(
                    RedactedEntry(
                        id=form.logged.record.id,
                        replaced=dict(sorted(kinds.items())),
                        fields=list(dict.fromkeys(replacement.field for replacement in removed)),
                        kept=list(dict.fromkeys(kept_fields)),
                    )
                )

    def done(self, bank: OpenBank, keys: Sequence[str]) -> RedactionResult:
        """Remove the old bytes from the store, and return the result."""
        notes, finished = self.notes, True
        if self._redacted and not self._dry_run:
            try:
                if bank.bearer is None:
                    finish_erasure(bank.store, bank.id)
                else:
                    notes.append(_LEFT)
            except StoreBusyError as error:
                finished = False
                notes.append(f"the bytes could not be removed from the store yet: {error.message}")
        return RedactionResult(
            bank=self._bank,
            looked_at=self._looked_at,
            redacted=self._redacted,
            kinds=dict(sorted(self._kinds.items())),
            kept=self._unchanged_count,
            entries=self._entries,
            recoverable_by=list(keys),
            notes=notes,
            finished=finished,
            dry_run=self._dry_run,
        )


def _group(
    view: View, options: RedactOptions, after: int
) -> tuple[list[VerifiedRecord], int | None]:
    """Return the next selected memories, and the position to continue from; None at the end."""
    if not options.where:
        if not options.ids:
            raise UsageError(
                "no memories to redact were named",
                field="ids",
                hint="Pass IDs, or add --where user=NAME.",
            )
        named = [find_memory(view, memory) for memory in texts(options.ids)]
        versions = {
            version.seq: version
            for memory in named
            for version in (memory, *versions_of(view, memory))
        }
        return [versions[seq] for seq in sorted(versions)], None
    choice = EraseSelection(view, texts(options.ids), options.where)
    rows = list(islice(view.scan(_ENTRIES, after=after), _TOGETHER))
    end = rows[-1].seq if len(rows) == _TOGETHER else None
    return [logged for logged in rows if choice.takes(logged)], end


def _forms(logged: VerifiedRecord, kinds: Redactor, bank: OpenBank) -> Iterator[_Form]:
    """Yield the redacted form of a memory, if something is replaced."""
    if not isinstance(logged.model, Entry):
        return
    value, replaced = kinds.form(logged.record.value)
    removed = [replacement for replacement in replaced if not replacement.kept]
    if not removed:
        return
    body = canonical_checked(value)
    as_model(value)
    fields = tuple(dict.fromkeys(replacement.field for replacement in removed))
    if len(fields) > MOST_FIELDS:
        raise LimitError(f"more than {MOST_FIELDS:,} values of one memory", field=logged.record.id)
    key = writer_key(bank.settings)
    by = None if bank.bearer is not None else key.did
    counts = Counter(replacement.kind for replacement in removed)
    record = Redaction(
        entry=logged.record.id,
        result=digest(body),
        fields=fields,
        by=by or (bank.bearer.chain.audience if bank.bearer is not None else None),
        at=now(),
        metadata={"kinds": dict(sorted(counts.items()))},
    )
    yield _Form(logged, body, signed_redaction(record, key), replaced)


def _log(bank: OpenBank, forms: Sequence[_Form], keys: Sequence[str], age: Sequence[str]) -> None:
    """Replace memories with redacted forms, and seal the originals for their recipients."""
    originals = dict[str, bytes | None]()
    if bank.bearer is None:
        with bank.ledger.reading() as view:
            for form in forms:
                name = f"{SEALED}{form.logged.seq}"
                before = view.side(name).get(name)
                if before is not None:  # it has more than the redacted form that is redacted again
                    originals[name] = before
                elif keys or age:
                    originals[name] = seal_original(form.logged.record.body, keys, age)
    bodies = {form.logged.record.id: form.body for form in forms}
    bank.ledger.append([form.record for form in forms], side=originals, forms=bodies)


def _people(texts: Sequence[str]) -> list[str]:
    """Return the names of people in texts."""
    entities = extractor().extract(list(texts))
    return [entity.name for mentions in entities for entity in mentions if entity.type == "person"]


class RecoveredMemory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The original of a redacted memory. The bank still has the redacted form."""

    id: str
    record: JsonObject = {}
    """The record, unless it was written to a file; its ID is the hash of the rest."""

    output: str | None = None
    """The written file."""


@operation(
    RecoverOptions,
    name="recover",
    example="satchel recover 3f9a2c --output original.json",
    absent={**NOT_FOR_MODELS, "http": SECRETS},
)
def recover(
    bank: OpenBank, options: RecoverOptions, *, owner: Callable[[], SigningKey] | None = None
) -> RecoveredMemory:
    """Show the original of a redacted memory. Requires a key that it was encrypted for.

    Nothing is restored: the bank keeps the redacted form. The original is verified by its ID. An
    age file is decrypted with an identity that is stored here, or named before the command:
    `satchel --identity FILE recover`.

    Args:
        bank: The bank.
        options: The memory.
        owner: Returns the key that it was sealed for, if no identity decrypts it.

    Raises:
        UnknownMemoryError: If there is no such memory.
        SigningKeyError: If it is not redacted, or its original was not sealed for this key.
        VerificationError: If the sealed record is not the original.
    """
    output = path_text(options.output)
    if options.sealed:
        if output is None:
            raise UsageError(
                "an age file must be written to a file", field="sealed", hint="Add --output."
            )
        identity, content = sealed_age_file(bank, options.memory)
        return _written(bank, identity, content, output, options)
    recovered = (
        None if options.signing_key is not None else recover_by_identity(bank, options.memory)
    )
    if recovered is None:
        recovered = recover_by_key(bank, options.memory, signer_of(bank.settings, options, owner))
    if output is None:
        return recovered
    return _written(
        bank, recovered.id, canonical_checked(recovered.record) + b"\n", output, options
    )


def _written(
    bank: OpenBank, identity: str, content: bytes, output: str, options: RecoverOptions
) -> RecoveredMemory:
    with (
        file_to_write(bank.settings, output) as outlet,
        outlet.writing(overwrite=options.overwrite) as stream,
    ):
        stream.write(content)
    return RecoveredMemory(id=identity, output=output)


def recover_by_key(bank: OpenBank, memory: str, key: SigningKey) -> RecoveredMemory:
    """Return the original of a redacted memory. Nothing is restored.

    Args:
        bank: The bank.
        memory: ID of the memory, or a prefix.
        key: A key for which it was sealed.

    Raises:
        UnknownMemoryError: If there is no such memory.
        SigningKeyError: If it is not redacted, or its original was not sealed for this key.
        VerificationError: If the sealed record is not the original.
    """
    require_owner(bank.settings, "recover")
    identity, sealed = _read_original(bank, memory)
    return _recovered(identity, open_original(sealed, key))


def recover_by_identity(bank: OpenBank, memory: str) -> RecoveredMemory | None:
    """Return the original of a redacted memory with an age identity that is stored or named.

    None if it is not an age file, or no identity decrypts it.

    Raises:
        UnknownMemoryError: If there is no such memory.
        SigningKeyError: If it is not redacted, or its original was not sealed.
        EncryptionError: If the sealed record was altered.
        VerificationError: If it is not the original.
    """
    require_owner(bank.settings, "recover")
    identity, sealed = _read_original(bank, memory)
    if age_file(sealed) is None:
        return None
    body = open_original_with(sealed, list(bank.settings.unlocking.identities()))
    return None if body is None else _recovered(identity, body)


def sealed_age_file(bank: OpenBank, memory: str) -> tuple[str, bytes]:
    """Return the ID of a redacted memory, and its sealed original as an age file.

    Raises:
        UnknownMemoryError: If there is no such memory.
        SigningKeyError: If it is not redacted, or its original was not sealed with age.
    """
    require_owner(bank.settings, "recover")
    identity, sealed = _read_original(bank, memory)
    encrypted = age_file(sealed)
    if encrypted is None:
        raise SigningKeyError(
            "the original is stored for signing keys only",
            field="id",
            hint="Only memories redacted with --recover-to are stored as an age file.",
        )
    return identity, encrypted


def _read_original(bank: OpenBank, memory: str) -> tuple[str, bytes]:
    """Return the ID of a redacted memory, and its sealed original."""
    with bank.ledger.reading() as view:
        logged = find_memory(view, memory)
        identity, name = logged.record.id, f"{SEALED}{logged.seq}"
        if view.redaction(identity) is None:
            raise SigningKeyError("the memory is not redacted", field="id")
        sealed = view.side(name).get(name)
    if sealed is None:
        raise SigningKeyError(
            "the original of this memory was not stored",
            field="id",
            hint="Only memories redacted with --recover-for or --recover-to can be recovered.",
        )
    return identity, sealed


def _recovered(identity: str, body: bytes) -> RecoveredMemory:
    record, _ = open_record(body)
    if record.id != identity:
        raise VerificationError("the stored original is that of another memory")
    return RecoveredMemory(id=identity, record=record.value)
