"""The result of verifying a file."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Literal

import msgspec

from satchel.crypto.key_files import Profile, StatementHistory, TrustRegistry


class Outcome(StrEnum):
    """The verdicts, worst first."""

    MALFORMED = "malformed"
    """Not a readable artifact."""

    TAMPERED = "tampered"
    """Something differs from what was signed, or contradicts itself."""

    FORK = "fork"
    """Two different histories of one bank, or two successors of one key."""

    INCOMPLETE = "incomplete"
    """Parents, the proof of a redaction, or the record of the bank's owners are missing."""

    ENTRIES_ONLY = "entries-only"
    """The signature covers the IDs of the entries and nothing else."""

    UNSIGNED = "unsigned"
    """It has no signature."""

    UNTRUSTED = "untrusted"
    """Validly signed, but not by a key that is trusted here."""

    OLDER = "older"
    """Good, but this machine verified a newer copy."""

    GOOD = "good"
    """Signed by a trusted key and unchanged, as far as it was verified."""

    @property
    def severity(self) -> int:
        """Higher is worse; ``good`` is 0."""
        return len(Outcome) - 1 - list(Outcome).index(self)


_EXIT = {Outcome.GOOD: 0, Outcome.OLDER: 0, Outcome.MALFORMED: 4}
_REFUSED = 3

KeyTrust = Literal["trusted", "retired", "revoked", "other bank", "other role", "unknown"]
"""How far a key is trusted for artifacts of a bank.

``other bank``: for other banks only. ``other role``: as a writer only, which signs no artifacts.
"""

KEY_TRUST_TEXTS: dict[KeyTrust, str] = {
    "trusted": "a trusted key",
    "retired": "a retired key",
    "revoked": "a revoked key",
    "other bank": "a key trusted for other banks only",
    "other role": "a key trusted as a writer only",
    "unknown": "an unknown key",
}
"""Descriptions of signers."""

StepState = Literal["passed", "failed", "not run"]

STEPS = {
    1: "limits and strict parse",
    2: "signatures",
    3: "trust",
    4: "body hash",
    5: "freshness",
    6: "records, root hash, counts",
    7: "provenance",
    8: "log head and proofs",
}
"""The numbered steps, by number."""


class VerificationStep(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one step."""

    number: int
    name: str
    state: StepState
    detail: str


class VerificationFinding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One problem."""

    outcome: Outcome
    message: str
    line: int | None = None
    byte: int | None = None
    field: str | None = None
    id: str | None = None


class Signer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One signature, and how far its key is trusted."""

    key: str
    valid: bool
    trust: KeyTrust = "unknown"
    name: str | None = None
    problem: str | None = None


class ChainLink(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of a chain back to the roots."""

    id: str
    state: str
    parents: list[str] = []


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The result of verifying one file; truthy when the outcome is ``good``."""

    file: str
    encoding: str | None
    steps: list[VerificationStep]
    findings: list[VerificationFinding]
    signers: list[Signer]
    statement: dict[str, Any] | None
    statement_digest: str | None
    records: dict[str, int]
    """Records in each section: as counted, or as signed if they were not counted."""

    notes: list[str] = []
    """Remarks that are no problems, such as claims that no signature covers."""

    chain: list[ChainLink] = []
    """For one entry, if requested."""

    unproved_forms: list[str] = []
    """IDs of redacted memories without a proof that their bank redacted them."""

    require_fresh: bool = False

    @property
    def outcome(self) -> Outcome:
        """The worst verdict."""
        return max(
            (finding.outcome for finding in self.findings),
            key=lambda outcome: outcome.severity,
            default=Outcome.GOOD,
        )

    @property
    def outcomes(self) -> list[Outcome]:
        """Every verdict that applies, worst first."""
        held = {finding.outcome for finding in self.findings} or {Outcome.GOOD}
        return sorted(held, key=lambda outcome: -outcome.severity)

    @property
    def exit_status(self) -> int:
        """0 for good (and older, unless freshness was required), 3 or 4 otherwise."""
        if self.outcome is Outcome.OLDER and self.require_fresh:
            return _REFUSED
        return _EXIT.get(self.outcome, _REFUSED)

    @property
    def exhaustive(self) -> bool:
        """Whether every record was verified."""
        return any(step.number == 6 and step.state != "not run" for step in self.steps)  # noqa: PLR2004

    def __bool__(self) -> bool:
        return self.outcome is Outcome.GOOD

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON, the derived verdicts included."""
        return {
            "outcome": self.outcome.value,
            "outcomes": [outcome.value for outcome in self.outcomes],
            "exit_status": self.exit_status,
            **msgspec.to_builtins(self),
        }


def shortfall(signers: Iterable[Signer], trusted: int, needed: int) -> str:
    """Return why the valid signatures of a file are not enough.

    Args:
        signers: The signatures of the file.
        trusted: Number of trusted ones.
        needed: Number of required ones.
    """
    keys = " and ".join(
        sorted({KEY_TRUST_TEXTS[signer.trust] for signer in signers if signer.valid})
    )
    return f"signed by {keys}; {trusted} of {needed} required trusted signatures"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustPolicy:
    """The keys that count, and how many are needed."""

    registry: TrustRegistry | None = None
    """The keys that this machine trusts; None trusts no key but ``keys``."""

    keys: frozenset[str] = field(default_factory=frozenset)
    """Further keys to trust for this call, as did:key."""

    seen: StatementHistory | None = None
    """Earlier verifications; None records nothing."""

    remembers: bool = True
    """Whether this verification is recorded; otherwise it is only compared."""

    threshold: int = 1
    """Number of distinct trusted keys that must have signed."""

    def standing(self, key: str, bank: str | None, profile: Profile = "satchel") -> KeyTrust:
        """Return how far a key is trusted for files of a bank; None is a file without one."""
        known = self.registry.find(key) if self.registry else None
        if known is not None and known.state == "revoked":
            return "revoked"
        if key in self.keys:
            return "trusted"
        if known is None or known.profile != profile:
            return "unknown"
        if known.role != "owner":
            return "other role"
        if known.banks and bank not in known.banks:
            return "other bank"
        return known.state

    def adopts(self, key: str, bank: str | None) -> bool:
        """Return whether a key is trusted as the adopter of this bank."""
        known = self.registry.find(key) if self.registry else None
        if known is not None and known.state == "revoked":
            return False
        return key in self.keys or (known is not None and (known.own or bank in known.banks))

    def name(self, key: str) -> str | None:
        """Return the name a key has in the registry."""
        known = self.registry.find(key) if self.registry else None
        return None if known is None else known.name


@dataclass(slots=True)
class VerificationRun:
    """One verification in progress."""

    file: str
    policy: TrustPolicy
    steps: dict[int, VerificationStep] = field(default_factory=dict)
    findings: list[VerificationFinding] = field(default_factory=list)
    signers: list[Signer] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    records: dict[str, int] = field(default_factory=dict)
    step_names: ClassVar[Mapping[int, str]] = STEPS

    def add_finding(
        self,
        outcome: Outcome,
        message: str,
        *,
        name: str | None = None,
        identity: str | None = None,
    ) -> None:
        """Add a problem.

        Args:
            outcome: Its verdict.
            message: What is wrong.
            name: The member of the file with the problem.
            identity: ID of the record with the problem.
        """
        self.findings.append(
            VerificationFinding(outcome=outcome, message=message, field=name, id=identity)
        )

    def end_step(self, number: int, state: StepState, detail: str) -> None:
        """Set the result of a step."""
        self.steps[number] = VerificationStep(
            number=number, name=self.step_names[number], state=state, detail=detail
        )

    def verify_trust(self, counting: Iterable[Signer]) -> bool:
        """Run step 3 and return whether enough of the signatures count."""
        trusted, needed = list(counting), self.policy.threshold
        if len(trusted) >= needed:
            names = ", ".join(signer.name or signer.key for signer in trusted)
            self.end_step(3, "passed", f"trusted: {names}")
            return True
        if any(signer.valid for signer in self.signers):
            why = shortfall(self.signers, len(trusted), needed)
            self.add_finding(Outcome.UNTRUSTED, why)
            self.end_step(3, "failed", why)
        return False
