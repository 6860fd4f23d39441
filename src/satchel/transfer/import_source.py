"""Input of an import: a file, standard input or a live source, verified if it is sealed."""

import pickle
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from satchel.artifact.body import Progress
from satchel.artifact.verification import Outcome, Verification
from satchel.config.settings import Settings
from satchel.crypto.json_reader import float_spellings
from satchel.crypto.sealed_records import Nonces, Sealed
from satchel.errors import EmptyInputError, TargetError, UnreadableError, UsageError
from satchel.inference.models import extractor
from satchel.model.records import Entry, Model, Source
from satchel.model.values import Entity, TrustClass, now, resolved
from satchel.ports.drafts import read_with_drafts
from satchel.ports.format import Format, Location, ReadContext, formats
from satchel.ports.record_set import Report, open_record_set
from satchel.ports.rows import Row, entry_texts, unplaced_row
from satchel.receipts.receipt import EmptyTexts, TransferEnd, receipt_text
from satchel.runtime.files import OpenFile, file_digest
from satchel.runtime.processes import UnfinishedError, may_fork, run_in_fork
from satchel.screening.records import SecretScreener
from satchel.transfer.folders import ListedSource, ListReading, input_to_read
from satchel.transfer.import_plan import BANK
from satchel.transfer.import_stage import SourceEnd, SourceVectors
from satchel.transfer.sidecars import SidecarFormat
from satchel.transfer.verification import NEVER, VerifyOptions, refusal, require_trust, verify

OF_AMA = {
    "person": "PERSON",
    "organisation": "ORG",
    "place": "LOCATION",
    "product": "PRODUCT",
    "date": "DATE",
}
"""Names of entity types in archives of Astrocyte."""


class Extraction:
    """Replaces the entities of memories with those extracted from their texts.

    Args:
        types: Names of types, where they differ from the extractor's.
    """

    def __init__(self, types: Mapping[str, str] | None = None) -> None:
        self._types = types or {}
        self._extractor = extractor()
        self.model = self._extractor.model
        """Name of the extractor."""

        self.memories = 0
        """Number of memories with entities."""

        self.entities = 0

    def __call__(self, draft: Model) -> Model:
        """Return a memory with its entities; other records unchanged."""
        if not isinstance(draft, Entry):
            return draft
        [mentions] = self._extractor.extract([entry_texts(draft)])
        by_name = dict[str, Entity]()
        for mention in mentions:
            by_name.setdefault(
                mention.name.casefold(),
                Entity(name=mention.name, entity_type=self._types.get(mention.type, mention.type)),
            )
        entities = tuple(by_name.values())
        self.memories += bool(entities)
        self.entities += len(entities)
        return msgspec.structs.replace(draft, entities=entities)


_SDK = "pam_sdk"

WORTH_A_PROCESS = 4 << 20
"""Size in bytes from which a separate process for reading is worth its cost."""

_ROWS, _STATE = b"r", b"s"
_TOLD_BY_READING = (
    *("report", "container", "missing", "by_line", "linked", "chained", "only_ours"),
    *("agent", "any_version", "text_member", "requires_content"),
)
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(resolved(tuple[bool, int, int, list[Row]])).decode

SIDECAR = "sidecar"
"""Field of the loss if a file comes without its sidecar; it can be accepted."""


class ImportSource:
    """An input: how it is read, and its properties.

    Args:
        settings: Settings with the trusted keys and the limits.
        file: The file, or the listing of a live source.
        name: Display name.
        format_: Name of its format; None to recognize it.
        on_progress: Called with the number of bytes read and the total.
        scrub: Replace secrets with placeholders.

    Raises:
        UsageError: If secrets are to be replaced in a sealed file.
        InputError: If it cannot be read or is empty.
        UnknownFormatError: If no format recognizes it.
    """

    without: frozenset[str] = frozenset()
    """Types of records to omit."""

    agent: str | None = None
    """Agent of the memories in a file of one agent."""

    any_version: bool = False
    """Whether to read an unknown version of the format."""

    text_member: str | None = None
    """Member of a row that is its text, as named by the user."""

    sidecar: TransferEnd | None = None
    """The file next to the input with what its format cannot hold."""

    lacks_sidecar: bool = False
    """Whether it is known to have been written with a sidecar, which is missing."""

    _restoring: SidecarFormat | None = None
    _alone = False
    """Whether it is read in this process, since another one failed."""
    _unproved: frozenset[str] = frozenset()
    """IDs of redacted memories without a proof that their bank redacted them."""

    def __init__(
        self,
        settings: Settings,
        file: OpenFile | ListedSource,
        name: str,
        format_: str | None,
        on_progress: Progress | None,
        *,
        scrub: bool = False,
    ) -> None:
        self.name = name
        self.began = now()
        self._listed = file if isinstance(file, ListedSource) else None
        held = None if isinstance(file, ListedSource) else file
        self.digest, self.size = file_digest(file.path if held is None else held)
        if self.size == 0:
            raise EmptyInputError("the file is empty", file=name)
        self.skip_bad = False
        """Whether malformed records are skipped and counted."""

        self.reading = ReadContext()
        """Context of the last pass over the records."""

        self.verdict: Verification | None = None
        """Verification of a sealed input."""

        self._place = Location(file.path, on_progress, held)
        self.format = format_ or formats.recognize(self._place)
        self._adapter: Format = formats[self.format] if self._listed is None else self._listed
        self.read_bytes = 0
        """Number of bytes that another process has read."""

        self.endings = dict[str, SourceEnd]()
        """Endings of yielded records that are not current at the source, by ID."""

        self.is_sealed = self._adapter.info.traits.sealed
        if scrub and self.is_sealed:
            raise UsageError(
                "sealed records cannot be changed during import",
                file=name,
                hint="Import it without --scrub-secrets, or scrub it at its source.",
            )
        self._scrub = scrub
        self.screening = SecretScreener(scrub=scrub)
        """Counts of secrets in it."""

        self.extraction: Extraction | None = None
        """Extracts entities of its memories; None to keep those in the file."""

        self.brought = SourceVectors()
        """Vectors in the file."""

        self._empty = EmptyTexts(Report())
        """Counts memories without text at their source."""

        self._settings = settings
        self._trust: TrustClass = TrustClass.IMPORTED
        self._signer: str | None = None

    def restore_from(self, sidecar: OpenFile) -> None:
        """Read the input together with its sidecar.

        An unsigned sidecar of a signed file is trusted no more than any import.

        Raises:
            MalformedError: If it is not a sidecar, or is of a file in another format.
            UsageError: If secrets are to be replaced: restored records keep their IDs.
        """
        if self._scrub:
            raise UsageError(
                "records restored from a sidecar cannot be changed during import",
                file=self.name,
                hint="Import it with --ignore-sidecar, or scrub it at its source.",
            )
        digest, size = file_digest(sidecar)
        name = receipt_text(str(sidecar.path))
        self.sidecar = TransferEnd(name=name, digest=digest, bytes=size)
        self._restoring = SidecarFormat(self._adapter, self.format, sidecar, name, self.digest)
        self._adapter = self._restoring

    def close(self) -> None:
        """Free the space that the sidecar uses."""
        if self._restoring is not None:
            self._restoring.close()

    @property
    def bank(self) -> str:
        """ID of the bank of a verified file; empty if no trusted key signed it."""
        verdict = self.verdict
        if verdict is None or verdict.statement is None or self.sidecar is not None:
            return ""
        trusted = verdict.outcome in (Outcome.GOOD, Outcome.OLDER)
        return str(verdict.statement.get("bank", "")) if trusted else ""

    def _is_unproved(self, record: Sealed) -> bool:
        """Return whether a record is a redacted form without proof, or the redaction of one."""
        if not self._unproved:
            return False
        if record.type == "redaction":
            return record.value["entry"] in self._unproved
        if record.id not in self._unproved:
            return False
        self.report.lost(
            "redacted memory",
            "the file has no proof that its bank redacted it",
            example=record.id,
        )
        return True

    @property
    def replaces(self) -> Mapping[str, str]:
        """IDs of records that were edited in the file, with the IDs of the originals."""
        return {} if self._restoring is None else self._restoring.replaces

    @property
    def scrubs(self) -> bool:
        """Whether secrets are replaced."""
        return self._scrub

    def scrub_if_possible(self) -> None:
        """Replace secrets, unless the records keep their IDs."""
        self._scrub = self._scrub or not (self.is_sealed or self.sidecar)

    def verify(
        self,
        keys: tuple[str, ...],
        accepted: frozenset[Outcome],
        *,
        deep: bool = True,
        remember: bool = True,
    ) -> None:
        """Verify a sealed input completely.

        Args:
            keys: Keys to trust for this call.
            accepted: Outcomes that are accepted.
            deep: Verify each record even if a trusted key signed the whole.
            remember: Record its head in the witness.

        Raises:
            VerificationError: If it does not verify.
            MalformedError: If it cannot be read.
        """
        if not self.is_sealed:
            return
        options = VerifyOptions(
            deep=deep, keys=keys, remember=remember, on_progress=self._place.on_progress
        )
        self.verdict = verify(self._place.file, self._settings, options)
        if self.verdict.outcome in NEVER:
            raise refusal(self.verdict, self.name)
        self._unproved = frozenset(self.verdict.unproved_forms)
        require_trust(self.verdict, accepted, self.name)
        if self.sidecar is not None:
            return
        for one in self.verdict.signers:
            if one.valid and one.trust == "trusted" and self._signer is None:
                self._signer = one.key
                self._trust = TrustClass.USER if self._is_own(one.key) else TrustClass.EXTERNAL

    def rows(self, nonces: Nonces) -> Iterator[Row]:
        """Yield the records in order, as rows.

        Raises:
            InputError: If a record is invalid; the error names file, line and record.
        """
        self.screening = SecretScreener(scrub=self._scrub)
        limits = self._settings.options.limits
        self.brought.reset()  # so that nothing is counted twice
        self.reading = (
            ReadContext(
                limits=limits,
                skip_bad=self.skip_bad,
                vectors=self.brought,
                agent=self.agent,
                any_version=self.any_version,
            )
            if self._listed is None
            else ListReading(limits=limits, skip_bad=self.skip_bad, endings=self._listed.endings)
        )
        self.reading.text_member, self.reading.requires_content = self.text_member, True
        self._empty = EmptyTexts(self.report)
        if self.extraction is not None:
            self.extraction = self._new_extraction()
        sealed = self.is_sealed and self.format != _SDK
        yield from self._sealed_rows() if sealed else self._drawn_rows(nonces)
        self._empty.end()

    def parts(self, nonces: Nonces, most: int) -> Iterator[tuple[bool, Sequence[Row]]]:
        """Yield ``rows`` in batches, each with whether records refer to each other.

        A large file is read, sealed and screened by a separate process, if a fork is safe.

        Args:
            nonces: Nonces for the records.
            most: Maximum number of records in a batch.

        Raises:
            UnfinishedError: If that process failed or was killed; call this again to read the file
                in this process.
            InputError: As ``rows``.
        """
        if not self.is_read_apart:
            arriving = self.rows(nonces)
            while some := list(islice(arriving, most)):
                yield self.reading.linked, some
            return
        tell = self._place.on_progress
        try:
            with run_in_fork(partial(self._frames, nonces, most)) as frames:
                for frame in frames:
                    if frame[:1] == _STATE:
                        self._take_state(pickle.loads(frame[1:]))  # noqa: S301 - of our own child
                        return
                    linked, done, size, some = _unpack(frame[1:])
                    self.read_bytes = done
                    if tell is not None:
                        tell(done, size)
                    yield linked, some
        except UnfinishedError:
            self._alone = True
            raise
        raise UnfinishedError("its text was cut")

    @property
    def is_personal(self) -> bool:
        """Whether it is the export of a personal account."""
        return self._listed is None and self._adapter.info.traits.personal

    @property
    def is_read_apart(self) -> bool:
        """Whether a separate process reads it."""
        is_file = self._listed is None and not self._place.is_folder
        is_worth_it = is_file and self._restoring is None and self.size >= WORTH_A_PROCESS
        return is_worth_it and not self._alone and may_fork()

    def _frames(self, nonces: Nonces, most: int) -> Iterator[bytes]:
        """Yield the rows as bytes in the other process, then its state."""
        at = (0, self.size)

        def note(done: int, size: int) -> None:
            nonlocal at
            at = done, size

        self._place = replace(self._place, on_progress=note)
        arriving = self.rows(nonces)
        while some := list(islice(arriving, most)):
            if self.brought.maker is not None:
                return  # vectors are stored in the process that uses them: it reads the file again
            yield _ROWS + _pack((self.reading.linked, *at, some))
        if self.brought.maker is None:
            yield _STATE + pickle.dumps(self._state())

    def _state(self) -> dict[str, Any]:
        """Return the results of reading other than the records."""
        reading, extraction = self.reading, self.extraction
        told_by = {name: getattr(reading, name) for name in _TOLD_BY_READING}
        return {
            "reading": told_by,
            "screening": self.screening,
            "unusable": self.brought.unusable,
            "entities": None if extraction is None else (extraction.memories, extraction.entities),
        }

    def _take_state(self, state: dict[str, Any]) -> None:
        self.reading = ReadContext(limits=self._settings.options.limits, skip_bad=self.skip_bad)
        for name, value in state["reading"].items():
            setattr(self.reading, name, value)
        self.screening = state["screening"]
        self.brought.reset()
        self.brought.unusable = state["unusable"]
        if self.extraction is not None:
            self.extraction.memories, self.extraction.entities = state["entities"]

    def _sealed_rows(self) -> Iterator[Row]:
        with open_record_set(self._place.file, self.reading.limits) as found:
            for record in found.with_forms():
                if record.type in self.without or self._is_unproved(record):
                    continue
                self.screening(record.model)
                self._empty.see(record.id, record.model)
                yield unplaced_row(record.model, record.id, record.body)

    def _drawn_rows(self, nonces: Nonces) -> Iterator[Row]:
        adapter, place = self._adapter, self._place
        pairs = read_with_drafts(adapter, place, self.reading, nonces=nonces, through=self._through)
        for record, draft in pairs:
            if self._listed is not None:
                self._note_ending(record)
            if self._restoring is not None:
                self.screening(draft)
            if record.type in self.without:
                continue
            self._empty.see(record.id, draft)
            yield unplaced_row(draft, record.id, record.body)
        if self._restoring is not None:
            self.reading.report.note(self._restoring.note)
        elif self.lacks_sidecar:
            self.reading.report.lost(SIDECAR, "the file was written with one that is not here")

    def extract_entities(self) -> None:
        """Extract the entities of its memories again.

        Raises:
            UsageError: If it is sealed.
        """
        if self.is_sealed or self.sidecar:
            raise UsageError(
                "records that keep their IDs cannot be changed during import",
                file=self.name,
                hint="Import it without --re-extract-entities.",
            )
        self.extraction = self._new_extraction()

    def _new_extraction(self) -> Extraction:
        return Extraction(OF_AMA if self.format == "ama" else None)

    @property
    def kept_at(self) -> str | None:
        """Absolute path of the file, with which a killed import is resumed.

        None for standard input, or if the path is not valid UTF-8.
        """
        path = str(self._place.path.absolute())
        is_text = path == path.encode("utf-8", "replace").decode()
        return path if self.name == str(self._place.path) and is_text else None

    def _through(self, drafts: Sequence[Model]) -> Sequence[Model]:
        found = self.screening.many(drafts)
        return found if self.extraction is None else [self.extraction(one) for one in found]

    def _note_ending(self, record: Sealed) -> None:
        ended = None if self._listed is None else self._listed.endings.popleft()
        if ended is not None:
            self.endings[record.id] = ended

    def require_unchanged(self) -> None:
        """Require that the file did not change while it was read.

        Raises:
            UnreadableError: If it did.
        """
        if file_digest(self._place.file)[0] != self.digest:
            raise UnreadableError(
                "the file changed while it was being read",
                file=self.name,
                hint="Nothing was imported. Run again when no other program writes to it.",
            )

    def source(self, at: str) -> Source:
        """Return the source record of its import."""
        extraction = self.extraction
        return Source(
            at=at,
            metadata={} if extraction is None else {"entities": extraction.model},
            provider=self.format,
            format=self.format,
            digest=self.digest,
            container={
                **self.reading.container,
                **float_spellings(self.reading.container),
                **({BANK: self.bank} if self.bank else {}),
            },
            signer=self._signer,
            trust=self._trust,
        )

    @property
    def report(self) -> Report:
        """Report of the last pass over the records."""
        return self.reading.report

    @property
    def keeps_ids(self) -> bool:
        """Whether its records keep their IDs, so that a bank may already have them."""
        traits = self._adapter.info.traits
        return traits.sealed or traits.keeps_ids

    def _is_own(self, key: str) -> bool:
        return any(one.key == key and one.own for one in self._settings.registry.listed())


@contextmanager
def open_rereadable(settings: Settings, source: Path | OpenFile | None) -> Iterator[OpenFile]:
    """Provide a file that can be read more than once; standard input is copied to a private one.

    Raises:
        PathRefusedError: If roots are set, and the file is not in them.
        UnreadableError: If it cannot be opened.
        TargetError: If the temporary folder is full.
        EmptyInputError: If the standard input is a terminal.
    """
    if source is not None:
        with input_to_read(settings, source) as file:
            yield file
        return
    if sys.stdin.isatty():
        raise EmptyInputError("no standard input", hint="Give a file.")
    with tempfile.NamedTemporaryFile() as copy:
        try:
            shutil.copyfileobj(sys.stdin.buffer, copy)
            copy.flush()
        except OSError as error:
            raise TargetError(
                f"cannot buffer standard input: {error.strerror or error}",
                file=tempfile.gettempdir(),
                hint="Free disk space there, or set TMPDIR to a larger folder.",
            ) from error
        with OpenFile.named(Path(copy.name)) as file:
            yield file
