"""What arrives from outside: a file or the standard input, verified where it is sealed."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from satchel.actions.config import Settings
from satchel.actions.converting import require_trust
from satchel.actions.verifying import VerifyOptions, refusal, verify
from satchel.errors import EmptyInputError, TargetError, UnreadableError, UsageError
from satchel.memory.parts import TrustClass
from satchel.memory.records import Source
from satchel.ports.format import Reading
from satchel.ports.place import Place
from satchel.ports.records import opened_records
from satchel.ports.registry import formats
from satchel.ports.report import Report
from satchel.ports.taking import taken
from satchel.seal.artifact.body import Progress
from satchel.seal.records import Sealed
from satchel.seal.sealing import Nonces
from satchel.seal.verify.verification import Outcome, Verification
from satchel.transfer.screening import Screening
from satchel.transfer.writing import NEVER, digest_of

_SDK = "pam_sdk"


class Arriving:
    """An input: how it is read, and what is known of it.

    Args:
        settings: Whose keys count, and the limits.
        path: The file.
        name: What to call it.
        format_: The name of its format; None to recognise it.
        on_progress: Called with bytes done and bytes there are.
        scrub: Whether secrets are replaced by tokens.

    Raises:
        UsageError: If secrets are to be replaced in a sealed file.
        InputError: If it cannot be read or is empty.
        UnknownFormatError: If no format recognises it.
    """

    def __init__(
        self,
        settings: Settings,
        path: Path,
        name: str,
        format_: str | None,
        on_progress: Progress | None,
        *,
        scrub: bool = False,
    ) -> None:
        self.name = name
        self.digest, self.size = digest_of(path)
        if self.size == 0:
            raise EmptyInputError("the file is empty", file=name)
        self.report = Report()
        self.reading = Reading(limits=settings.options.limits, report=self.report)
        self.verdict: Verification | None = None
        """The verdict on a sealed input."""

        self._place = Place(path, on_progress)
        self.format = format_ or formats.recognise(self._place)
        self.is_sealed = formats[self.format].info.traits.sealed
        if scrub and self.is_sealed:
            raise UsageError(
                "what was sealed cannot be changed on its way in",
                file=name,
                hint="Import it as it is, or scrub it where it comes from.",
            )
        self._scrub = scrub
        self.screening = Screening(scrub=scrub)
        """What was found out about secrets in it."""

        self._settings = settings
        self._trust: TrustClass = TrustClass.IMPORTED
        self._signer: str | None = None

    @property
    def scrubs(self) -> bool:
        """Whether secrets are replaced."""
        return self._scrub

    def scrub_if_it_can_be(self) -> None:
        """Have secrets replaced, unless the input is sealed and comes as it is."""
        self._scrub = self._scrub or not self.is_sealed

    def verify(self, keys: tuple[str, ...], accepted: frozenset[Outcome]) -> None:
        """Verify a sealed input, all of it.

        Args:
            keys: Keys to believe this once.
            accepted: Verdicts that are put up with.

        Raises:
            VerificationError: If it does not verify.
            MalformedError: If it cannot be read.
        """
        if not self.is_sealed:
            return
        options = VerifyOptions(deep=True, keys=keys, on_progress=self._place.on_progress)
        self.verdict = verify(self._place.path, self._settings, options)
        if self.verdict.outcome in NEVER:
            raise refusal(self.verdict, self.name)
        require_trust(self.verdict, accepted, self.name)
        for one in self.verdict.signers:
            if one.valid and one.standing == "trusted" and self._signer is None:
                self._signer = one.key
                self._trust = TrustClass.USER if self._is_own(one.key) else TrustClass.EXTERNAL

    def records(self, nonces: Nonces) -> Iterator[Sealed]:
        """Yield what arrives, in its order.

        Raises:
            InputError: If a record cannot be taken in, naming file, line and record.
        """
        self.screening = Screening(scrub=self._scrub)
        if self.is_sealed and self.format != _SDK:
            with opened_records(self._place.path, self.reading.limits) as found:
                for record in found:
                    self.screening(record.model)
                    yield record
        else:
            adapter, through = formats[self.format], self.screening
            yield from taken(adapter, self._place, self.reading, nonces=nonces, through=through)

    def require_unchanged(self) -> None:
        """Refuse what changed while it was read.

        Raises:
            UnreadableError: If it did.
        """
        if digest_of(self._place.path)[0] != self.digest:
            raise UnreadableError(
                "the file changed while it was read",
                file=self.name,
                hint="Nothing was imported. Run it again when nothing writes to it.",
            )

    def source(self, at: str) -> Source:
        """Return the record of its import."""
        return Source(
            at=at,
            provider=self.format,
            format=self.format,
            digest=self.digest,
            container=self.reading.container,
            signer=self._signer,
            trust=self._trust,
        )

    def _is_own(self, key: str) -> bool:
        return any(one.key == key and one.own for one in self._settings.registry.listed())


@contextmanager
def spooled(source: Path | None) -> Iterator[Path]:
    """Give a file that can be read more than once; the standard input is kept in a private one.

    Raises:
        TargetError: If the temporary folder is full.
        EmptyInputError: If the standard input is a terminal.
    """
    if source is not None:
        yield source
        return
    if sys.stdin.isatty():
        raise EmptyInputError("nothing comes from the standard input", hint="Name a file.")
    with tempfile.NamedTemporaryFile() as kept:
        try:
            shutil.copyfileobj(sys.stdin.buffer, kept)
            kept.flush()
        except OSError as error:
            raise TargetError(
                f"cannot keep the standard input: {error.strerror or error}",
                file=tempfile.gettempdir(),
                hint="Free some space there, or set TMPDIR to a larger folder.",
            ) from error
        yield Path(kept.name)
