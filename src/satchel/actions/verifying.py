"""Verification of a file by the keys that this machine trusts."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from satchel.actions.config import Settings
from satchel.actions.paths.permission import file_to_read
from satchel.actions.signing import read_public_key
from satchel.disk.reading import OpenFile
from satchel.errors import MalformedError, VerificationError
from satchel.seal.artifact.body import Progress
from satchel.seal.judging import verify_file
from satchel.seal.verify.policy import TrustPolicy
from satchel.seal.verify.verification import Outcome, Verification
from satchel.seal.verify.verifying import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """How much to verify, and which keys to trust."""

    deep: bool = False
    require_fresh: bool = False
    entry: str | None = None
    keys: tuple[str, ...] = field(default_factory=tuple)
    """Keys to trust for this call: did:key, hex, or files."""

    threshold: int | None = None
    remember: bool = True
    """Whether the witness records how new the file is, to recognise an older one later."""

    on_progress: Progress | None = None


def verify(
    path: Path | OpenFile, settings: Settings, options: VerifyOptions | None = None
) -> Verification:
    """Verify a sealed file; problems are in the result.

    Raises:
        PathRefusedError: If roots are set, and the file is not in them.
        UnreadableError: If it cannot be read.
        UnknownFormatError: If it is no sealed file.
        UsageError: If the entry asked for is not in it.
    """
    asked = options or VerifyOptions()
    with file_to_read(settings, path) as file:
        return verify_file(file, policy_of(settings, asked), request_of(settings, asked))


def policy_of(settings: Settings, options: VerifyOptions) -> TrustPolicy:
    """Return which signatures are trusted."""
    keys = frozenset(read_public_key(key) for key in options.keys)
    policy = settings.policy(keys, options.threshold)
    return policy if options.remember else replace(policy, remembers=False)


def request_of(settings: Settings, options: VerifyOptions) -> Request:
    """Return how much to verify."""
    return Request(
        deep=options.deep,
        require_fresh=options.require_fresh or settings.options.verify.require_fresh,
        entry=options.entry,
        limits=settings.options.limits,
        on_progress=options.on_progress,
    )


def refusal(verdict: Verification, name: str) -> MalformedError | VerificationError:
    """Return the error for a file whose verdict cannot be accepted."""
    worst = next(found for found in verdict.findings if found.outcome is verdict.outcome)
    kind = MalformedError if verdict.outcome is Outcome.MALFORMED else VerificationError
    return kind(
        f"the file is {verdict.outcome}: {worst.message}",
        file=name,
        line=worst.line,
        byte=worst.byte,
        field=worst.field,
        hint="See: satchel verify --deep.",
    )


def trust_hint(verdict: Verification) -> str | None:
    """Return how to trust the signer of a file; None if no unknown key signed it."""
    if Outcome.UNTRUSTED not in verdict.outcomes:
        return None
    valid = [signer for signer in verdict.signers if signer.valid]
    unknown = [signer.key for signer in valid if signer.standing == "unknown"]
    if Outcome.ENTRIES_ONLY in verdict.outcomes and not valid:  # such a file names no key
        return how_to_trust("KEY --profile pam-sdk-1.0")
    return how_to_trust(unknown[0]) if unknown else None


def how_to_trust(key: str) -> str:
    """Return how to trust a key that signed something."""
    return f"To trust the signer, once its owner confirms the key: satchel key trust {key}"
