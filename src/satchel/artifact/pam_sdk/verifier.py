"""Profile ``pam-sdk-1.0``: verification of files of the published SDK.

Their signature covers the set of entry IDs and nothing else, so their best verdict is
``entries-only``. They are never repaired. Source: docs/spec/4-verification.md, 4.6.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError
from typing import ClassVar, Final

from satchel.artifact.pam_sdk.layout import (
    CAPS,
    COMPONENTS,
    PROFILE,
    entry_id,
    is_signed_by,
    parents_first,
    root_hash,
)
from satchel.artifact.pam_sdk.reader import SdkDocument, SdkEntry, open_sdk_file
from satchel.artifact.verification import (
    STEPS,
    Outcome,
    Signer,
    StepState,
    TrustPolicy,
    Verification,
    VerificationFinding,
    VerificationRun,
)
from satchel.crypto.canonical import Limits
from satchel.crypto.keys import public_key
from satchel.errors import LimitError, MalformedError
from satchel.runtime.files import InputPath

NOT_COVERED: Final = (
    "source_agent",
    "created_at",
    "pam_version",
    "schema_version",
    "metadata",
    "capability_tokens",
    "order of entries",
)
"""What the signature of such a file does not cover; the same for every file."""

CLAIM: Final = "not covered by the signature: "
"""Prefix of the note about each of them."""

_STEPS = {**STEPS, 1: "limits and strict parse", 4: "root hash", 6: "records"}
_NO_BANK = "files of the PAM SDK name no bank"
_MAX_FINDINGS = 100


def verify_sdk_file(path: InputPath, policy: TrustPolicy, limits: Limits) -> Verification:
    """Verify a file of the published SDK; problems are in the result, not raised.

    Every entry is always verified. The file names no key, so the signature is tried with each key
    of the registry that is marked for this profile, and with ``policy.keys``.

    Args:
        path: The file: JSON, or CBOR without magic bytes.
        policy: The policy that decides which signatures count.
        limits: The bounds.

    Raises:
        UnreadableError: If the file cannot be read.
    """
    run = _SdkFileRun(str(path), policy)
    try:
        with open_sdk_file(path, limits) as document:
            run.read(document)
    except (MalformedError, LimitError) as error:
        run.broken(error)
    else:
        run.decide(document)
    return run.result()


@dataclass(slots=True)
class _SdkFileRun(VerificationRun):
    """The verification of one file of the SDK."""

    encoding: str | None = None
    parents: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The parents that each entry of the file claims."""

    events: list[str] = field(default_factory=list)
    wrong_ids: list[VerificationFinding] = field(default_factory=list)
    wrong: int = 0
    step_names: ClassVar[Mapping[int, str]] = _STEPS

    def read(self, document: SdkDocument) -> None:
        """Read every entry once and collect what the steps need."""
        self.encoding = f"{PROFILE} {document.encoding}"
        for entry in document.entries():
            self.parents[entry.id] = tuple(entry.value["parent_ids"])
            self.events.extend(entry.value.get("source_event_ids", ()))
            if entry_id(entry.value) != entry.id:
                self._wrong_id(entry)

    def decide(self, document: SdkDocument) -> None:
        """Run the steps."""
        self.records = {name: count for name, count in document.counts.items() if count}
        self.end_step(1, "passed", f"{document.encoding}, {PROFILE}")
        self._signature(document)
        self._root(document)
        self._records()
        self._provenance()
        self.notes.extend(f"{CLAIM}{name}" for name in NOT_COVERED)
        for component in COMPONENTS:
            count, cap = document.counts[component], CAPS[component]
            if count > cap:
                self.notes.append(f"the SDK loads no more than {cap} {component} entries")

    def broken(self, error: MalformedError | LimitError) -> None:
        """Add the finding that the file is malformed; nothing read from it counts."""
        self.findings = [
            VerificationFinding(
                outcome=Outcome.MALFORMED,
                message=error.message,
                line=error.line,
                byte=error.byte,
                field=error.field,
            )
        ]
        self.end_step(1, "failed", str(error))

    def result(self) -> Verification:
        """Return the result."""
        for number in _STEPS:
            if number not in self.steps:
                self.end_step(number, "not run", self._why_not(number))
        return Verification(
            file=self.file,
            encoding=self.encoding,
            steps=[self.steps[number] for number in _STEPS],
            findings=self.findings,
            signers=self.signers,
            statement=None,
            statement_digest=None,
            records=self.records,
            notes=self.notes,
        )

    # -- the steps -------------------------------------------------------------------------

    def _signature(self, document: SdkDocument) -> None:
        signature, root = document.envelope["signature"], document.envelope["root_hash"]
        if not signature:
            self.add_finding(Outcome.UNSIGNED, "the file is not signed")
            self.end_step(2, "failed", "no signature")
            return
        tried = self._keys()
        self.signers.extend(
            signer for key in tried if (signer := self._signer(key, root, signature)) is not None
        )
        self.add_finding(
            Outcome.ENTRIES_ONLY, "signatures of the PAM SDK cover the IDs of entries only"
        )
        if any(signer.valid for signer in self.signers):
            self.end_step(2, "passed", "1 of 1 valid")
            self.verify_trust(
                signer
                for signer in self.signers
                if signer.valid and signer.trust in ("trusted", "retired")
            )
        else:
            self.add_finding(
                Outcome.UNTRUSTED,
                "signed by an unknown key; files of the PAM SDK do not name it",
            )
            self.end_step(2, "failed", f"valid for none of {len(tried)} keys of profile {PROFILE}")

    def _keys(self) -> list[str]:
        """Return the keys to try, those of the policy first, each once."""
        registry = self.policy.registry
        known = registry.listed() if registry else []
        marked = [key.key for key in known if key.profile == PROFILE]
        return list(dict.fromkeys([*sorted(self.policy.keys), *marked]))

    def _signer(self, key: str, root: str, signature: str) -> Signer | None:
        name = self.policy.name(key)
        try:
            valid = is_signed_by(root, signature, public_key(key))
        except MalformedError as error:
            return Signer(key=key, valid=False, name=name, problem=error.message)
        if not valid:
            return None  # the key of another file
        return Signer(
            key=key, valid=True, trust=self.policy.standing(key, None, PROFILE), name=name
        )

    def _root(self, document: SdkDocument) -> None:
        root = root_hash(self.parents)
        if root == document.envelope["root_hash"]:
            self.end_step(4, "passed", root)
            return
        self.add_finding(Outcome.TAMPERED, "the root hash does not match the IDs", name="root_hash")
        self.end_step(4, "failed", f"found {root}")

    def _records(self) -> None:
        self.findings.extend(self.wrong_ids)
        if self.wrong > len(self.wrong_ids):
            self.notes.append(f"{self.wrong - len(self.wrong_ids)} more problems of this kind")
        total = len(self.parents)
        state: StepState = "failed" if self.wrong else "passed"
        self.end_step(6, state, f"{total} records, {self.wrong} problems")

    def _provenance(self) -> None:
        missing = dict.fromkeys(
            parent
            for parents in self.parents.values()
            for parent in parents
            if parent not in self.parents
        )
        if missing:
            examples = ", ".join(parent[:80] for parent in list(missing)[:3])
            self.add_finding(Outcome.INCOMPLETE, f"{len(missing)} parents are missing: {examples}")
        dangling = len({event for event in self.events if event not in self.parents})
        if dangling:
            self.notes.append(f"{dangling} source events are not in this file")
        cycle = self._cycle()
        if cycle is not None:
            self.add_finding(Outcome.TAMPERED, "an entry is its own ancestor", identity=cycle)
        roots = sum(not parents for parents in self.parents.values())
        wrong = bool(missing) or cycle is not None
        self.end_step(7, "failed" if wrong else "passed", f"{roots} roots, {len(missing)} missing")

    def _cycle(self) -> str | None:
        try:
            for _ in parents_first(self.parents):
                pass
        except CycleError as error:
            return str(error.args[1])
        return None

    # -- helpers ---------------------------------------------------------------------------

    def _wrong_id(self, entry: SdkEntry) -> None:
        self.wrong += 1
        if len(self.wrong_ids) < _MAX_FINDINGS:
            self.wrong_ids.append(
                VerificationFinding(
                    outcome=Outcome.TAMPERED,
                    message=f"{entry.component}: the ID does not match the content",
                    **entry.place,
                    field=entry.pointer,
                    id=entry.id,
                )
            )

    def _why_not(self, number: int) -> str:
        if number in (5, 8):
            return _NO_BANK
        if self.steps[1].state == "failed":
            return "the file could not be parsed"
        return "no signature by a trusted key"
