"""The result of verifying a file, and its provenance: unique IDs, existing parents, no cycles."""

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from operator import itemgetter
from typing import Any, ClassVar, Final, Literal

import msgspec

from satchel.crypto.key_files import Profile, StatementHistory, TrustRegistry
from satchel.runtime.scratch import Scratch, Spool


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


_PARTITIONS = 64
_ROW = 41  # 32 bytes of ID, 1 of role, 8 of position
_EXAMPLES = 20
_pack_tail = struct.Struct(">BQ").pack
_ids_of = struct.Struct("32s9x").iter_unpack


class Role(IntEnum):
    """The role of an ID in a file."""

    OTHER = 0
    """A record that cannot be a parent."""

    ENTRY = 1
    """An entry, full, redacted or withheld: it can be a parent."""

    TOMBSTONE = 2
    """The ID of an erased entry, named by its erasure record."""

    NEEDED = 3
    """A parent, named by a child."""

    MENTIONED = 4
    """An entry that another refers to without descending from it."""


@dataclass(slots=True)
class IdReport:
    """The result of ``IdIndex``: exact numbers, and at most twenty examples each."""

    duplicates: int = 0
    missing: int = 0
    dangling: int = 0
    """References that are not parents and have no target; reported, not fatal."""

    duplicate_examples: list[tuple[str, int]] = field(default_factory=list)
    """Duplicate IDs, with the position of the second."""

    missing_examples: list[tuple[str, int]] = field(default_factory=list)
    """Parents that are not in the file, with the position of a child."""


class IdIndex:
    """Collects ids and parents of a file in any order, then compares them.

    Args:
        held_rows: Rows in memory before they are written to disk.
    """

    def __init__(self, held_rows: int = 50_000) -> None:
        self._held_bytes: Final = held_rows * _ROW
        self._held = bytearray()
        self._segments: list[list[tuple[int, int]]] = [[] for _ in range(_PARTITIONS)]
        self._file = Spool()
        self._needed = False

    def add(self, identity: str, role: Role, position: int) -> None:
        """Add an ID at ``position`` (a line number or a count).

        Args:
            identity: A well-formed content address.
            role: Its role.
            position: Shown in the report.
        """
        self.add_raw(bytes.fromhex(identity[7:]), role, position)

    def add_raw(self, raw: bytes, role: Role, position: int) -> None:
        """As ``add``, for the 32 bytes of an ID."""
        self._held += raw + _pack_tail(role, position)
        self._needed = self._needed or role >= Role.NEEDED
        if len(self._held) >= self._held_bytes:
            self._spill()

    def add_rows(self, rows: bytes, *, refers: bool) -> None:
        """Add many rows: 32 bytes of an ID, one of role and eight of position each.

        Args:
            rows: The rows, next to each other.
            refers: Whether one of the roles is ``NEEDED`` or ``MENTIONED``.
        """
        self._held += rows
        self._needed = self._needed or refers
        if len(self._held) >= self._held_bytes:
            self._spill()

    def finish(self) -> IdReport:
        """Compare all IDs."""
        report = IdReport()
        if not any(self._segments):
            self._compare(bytes(self._held), report)
        else:
            self._spill()
            for segments in self._segments:
                self._compare(self._load(segments), report)
        for examples in (report.duplicate_examples, report.missing_examples):
            examples.sort(key=itemgetter(1, 0))
        return report

    def close(self) -> None:
        """Release the space on disk."""
        self._file.close()

    def _spill(self) -> None:
        """Move the rows in memory to disk, in partitions that can be compared one by one."""
        buffers = [bytearray() for _ in range(_PARTITIONS)]
        with memoryview(self._held) as rows:
            for start in range(0, len(rows), _ROW):
                buffers[rows[start] % _PARTITIONS] += rows[start : start + _ROW]
        for segments, buffer in zip(self._segments, buffers, strict=True):
            segments.append((self._file.size, len(buffer)))
            self._file.write(bytes(buffer))
        self._held.clear()

    def _load(self, segments: list[tuple[int, int]]) -> bytes:
        parts, spilled = [], self._file.handle()
        for offset, length in segments:
            spilled.seek(offset)
            parts.append(spilled.read(length))
        return b"".join(parts)

    def _compare(self, rows: bytes, report: IdReport) -> None:
        if not self._needed and len({raw for (raw,) in _ids_of(rows)}) * _ROW == len(rows):
            return  # unique, and not referred to
        present: dict[bytes, int] = {}
        needed: list[int] = []
        for start in range(0, len(rows), _ROW):
            role = rows[start + 32]
            if role >= Role.NEEDED:
                needed.append(start)
                continue
            raw = rows[start : start + 32]
            if raw in present and Role.TOMBSTONE not in (role, present[raw]):
                report.duplicates += 1
                _example(report.duplicate_examples, rows, start)
            present[raw] = max(role, present.get(raw, 0))
        for start in needed:
            if present.get(rows[start : start + 32]):
                continue
            if rows[start + 32] == Role.MENTIONED:
                report.dangling += 1
            else:
                report.missing += 1
                _example(report.missing_examples, rows, start)


def _example(examples: list[tuple[str, int]], rows: bytes, start: int) -> None:
    if len(examples) < _EXAMPLES:
        position = int.from_bytes(rows[start + 33 : start + _ROW], "big")
        examples.append((f"blake3:{rows[start : start + 32].hex()}", position))


class Lineage(Scratch):
    """The parents of entries, on disk if there are many; for cycles and for an entry's chain.

    SQLite's temporary database keeps small graphs in memory and spills large ones.
    """

    def __init__(self) -> None:
        super().__init__(
            "CREATE TABLE node(id TEXT PRIMARY KEY, parents TEXT, note TEXT) WITHOUT ROWID;"
            "CREATE TABLE done(id TEXT PRIMARY KEY) WITHOUT ROWID;",
            cache_kib=8192,
        )

    def add(self, identity: str, parents: Iterable[str], note: str = "") -> None:
        """Add an entry with its parents and a note."""
        self._db.execute(
            "INSERT OR IGNORE INTO node VALUES (?, ?, ?)",
            (identity, json.dumps(list(parents)), note),
        )

    def find(self, identity: str) -> tuple[list[str], str] | None:
        """Return an entry's parents and note, or None."""
        row = self._db.execute(
            "SELECT parents, note FROM node WHERE id = ?", (identity,)
        ).fetchone()
        return None if row is None else (json.loads(row[0]), row[1])

    def matching(self, prefix: str) -> list[str]:
        """Return up to three ids that start with ``prefix``."""
        rows = self._db.execute(
            "SELECT id FROM node WHERE id >= ? AND id < ? ORDER BY id LIMIT 3",
            (prefix, prefix + "g"),
        )
        return [row[0] for row in rows]

    def chain(self, identity: str) -> Iterator[tuple[str, list[str] | None, str]]:
        """Yield an entry and all its ancestors once: (ID, parents or None if absent, note)."""
        waiting, seen = [identity], {identity}
        while waiting:
            current = waiting.pop()
            link = self.find(current)
            yield (current, *(link or (None, "")))
            for parent in link[0] if link else ():
                if parent not in seen:
                    seen.add(parent)
                    waiting.append(parent)

    def cycle(self) -> str | None:
        """Return an entry that is its own ancestor, or None; iterative, follows each edge once."""
        self._db.execute("DELETE FROM done")
        for (start,) in self._db.execute("SELECT id FROM node ORDER BY id").fetchall():
            if not self._is_done(start) and (found := self._walk(start)):
                return found
        return None

    def _walk(self, start: str) -> str | None:
        path: list[tuple[str, list[str]]] = [(start, self._parents(start))]
        on_path = {start}
        while path:
            current, left = path[-1]
            if not left:
                path.pop()
                on_path.discard(current)
                self._db.execute("INSERT OR IGNORE INTO done VALUES (?)", (current,))
                continue
            parent = left.pop()
            if parent in on_path:
                return parent
            if not self._is_done(parent):
                on_path.add(parent)
                path.append((parent, self._parents(parent)))
        return None

    def _parents(self, identity: str) -> list[str]:
        found = self.find(identity)
        return found[0] if found else []

    def _is_done(self, identity: str) -> bool:
        row = self._db.execute("SELECT 1 FROM done WHERE id = ?", (identity,)).fetchone()
        return row is not None
