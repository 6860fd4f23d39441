"""Verification of a sealed file, in numbered steps.

1 limits and strict parse of the statement; 2 signatures; 3 trust; 4 body hash; 5 freshness; and
with ``deep``, or unless steps 2 to 4 found a complete body of a trusted signer: 6 each record, its
ID, root hash and counts; 7 provenance; 8 the log head and proofs. Source:
docs/spec/4-verification.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from satchel.artifact.body import Progress, statement_digest
from satchel.artifact.contents import BankKeys, BodyContents
from satchel.artifact.encodings import Artifact, SdkFileError, open_artifact
from satchel.artifact.pam_sdk.verifier import verify_sdk_file
from satchel.artifact.verification import (
    STEPS,
    ChainLink,
    IdReport,
    Lineage,
    Outcome,
    Signer,
    TrustPolicy,
    Verification,
    VerificationFinding,
    VerificationRun,
)
from satchel.crypto.canonical import DEFAULT_LIMITS, Limits
from satchel.crypto.key_files import KnownStatement
from satchel.crypto.keys import PayloadType, check
from satchel.crypto.log import SignedHead, check_head, parse_head
from satchel.crypto.sealed_records import Sealed, decode_record, has_valid_id
from satchel.errors import LimitError, MalformedError, SatchelError, TargetError, UsageError
from satchel.model.records import Bank, Config
from satchel.model.values import (
    ID_PREFIX,
    LEAST_DIGITS,
    id_digits,
    now,
    require_one,
)
from satchel.runtime.files import InputPath


def succession_notes(
    heirs: Mapping[str, str], signers: Sequence[Signer], policy: TrustPolicy, bank: str
) -> Iterator[str]:
    """Yield how to trust signers that replaced a key that is trusted here.

    A succession is in force if it is in the log of the bank, and a file is not the log, so the
    reader decides.

    Args:
        heirs: Successors according to the file, and the key that each replaced.
        signers: The signers of the file.
        policy: The policy that decides which signatures count.
        bank: The bank of the file.
    """
    for signer in signers:
        old = heirs.get(signer.key)
        if old is None or not signer.valid or signer.trust != "unknown":
            continue
        if policy.standing(old, bank) in ("trusted", "retired"):
            yield (
                f"{signer.key} replaces {old}, which is trusted here. If its owner confirms that:"
                f" satchel key trust {signer.key} --replaces {old}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationRequest:
    """How much to verify."""

    deep: bool = False
    """Verify every record, even if the whole body is signed by a trusted key."""

    require_fresh: bool = False
    """Count an older copy as a failure."""

    entry: str | None = None
    """Follow this entry's chain back to the roots: its ID, or a prefix of it."""

    limits: Limits = DEFAULT_LIMITS
    on_progress: Progress | None = None


def verify_artifact(
    path: InputPath, policy: TrustPolicy, request: VerificationRequest | None = None
) -> Verification:
    """Verify a sealed file; problems are in the result, not raised.

    Args:
        path: The file, in any encoding, plain or gzip.
        policy: The policy that decides which signatures count.
        request: How much to verify.

    Raises:
        UnreadableError: If the file cannot be read.
        EmptyInputError: If it is empty.
        UnknownFormatError: If it is not a sealed file.
        UsageError: If the requested entry is not in it.
        SdkFileError: If the published SDK wrote it; verify it by its own profile.
    """
    run = _ArtifactRun(str(path), policy, request=request or VerificationRequest())
    try:
        with open_artifact(path, run.request.limits) as artifact:
            run.verify(artifact)
    except (MalformedError, LimitError) as error:
        run.broken(error)
    return run.result()


@dataclass(slots=True)
class _ArtifactRun(VerificationRun):
    """The verification of one artifact."""

    request: VerificationRequest = field(default_factory=VerificationRequest)
    chain: list[ChainLink] = field(default_factory=list)
    counting: list[str] = field(default_factory=list)
    """Keys whose valid signatures count."""

    unproved_forms: list[str] = field(default_factory=list)
    artifact: Artifact | None = None
    digest: str | None = None

    def verify(self, artifact: Artifact) -> None:
        """Run the steps."""
        self.artifact = artifact
        self.records = dict(artifact.statement.counts)
        artifact.body.on_progress = self.request.on_progress
        self.digest = statement_digest(artifact.statement_value)
        signed_head = artifact.statement.head
        head = None if signed_head is None else parse_head(signed_head)
        self.end_step(1, "passed", f"{artifact.encoding}, {artifact.statement.format}")
        self._signatures(artifact)
        trusted = self._trust()
        whole = self._body(artifact)
        if trusted:
            self._freshness(artifact, head)
        # A changed body is read completely, to find the record that differs.
        redacted = "redactions" in artifact.statement.counts  # a signature says less than the log
        if self.request.deep or self.request.entry or not trusted or not whole or redacted:
            self._contents(artifact, head)
        elif head is not None:
            self._whose_log(artifact, head)
        if trusted and not any(found.outcome.severity > 1 for found in self.findings):
            self._remember(artifact, head)

    def broken(self, error: MalformedError | LimitError) -> None:
        """Add the finding that the structure is malformed."""
        finding = VerificationFinding(
            outcome=self._blame(Outcome.MALFORMED),
            message=error.message,
            line=error.line,
            byte=error.byte,
            field=error.field,
        )
        self.findings.append(finding)
        # Steps 3 and 5 may have been skipped; after 4 the records are being read.
        last = max(self.steps, default=0)
        reached = 6 if last in (4, 5) else last + 1
        self.end_step(reached, "failed", error.message)
        if error.hint:
            self.notes.append(error.hint)

    def result(self) -> Verification:
        """Return the result."""
        for number in STEPS:
            if number not in self.steps:
                self.end_step(number, "not run", self._why_not(number))
        artifact = self.artifact
        return Verification(
            file=self.file,
            encoding=artifact.encoding.value if artifact else None,
            steps=[self.steps[number] for number in STEPS],
            findings=self.findings,
            signers=self.signers,
            statement=artifact.statement_value if artifact else None,
            statement_digest=self.digest,
            records=self.records,
            notes=self.notes,
            chain=self.chain,
            unproved_forms=self.unproved_forms,
            require_fresh=self.request.require_fresh,
        )

    # -- the steps -------------------------------------------------------------------------

    def _signatures(self, artifact: Artifact) -> None:
        bank = artifact.statement.bank
        for result in check(PayloadType.ARTIFACT, artifact.statement_value, artifact.signatures):
            self.signers.append(
                Signer(
                    key=result.key,
                    valid=result.valid,
                    trust=self.policy.standing(result.key, bank) if result.valid else "unknown",
                    name=self.policy.name(result.key),
                    problem=result.problem,
                )
            )
        valid = sum(signer.valid for signer in self.signers)
        if not self.signers:
            self.add_finding(Outcome.UNSIGNED, "the file is not signed")
            self.end_step(2, "failed", "no signature")
        elif not valid:
            self.add_finding(Outcome.TAMPERED, "no signature matches the statement")
            self.end_step(2, "failed", f"0 of {len(self.signers)} valid")
        else:
            self.end_step(2, "passed", f"{valid} of {len(self.signers)} valid")

    def _trust(self) -> bool:
        counting = [signer for signer in self.signers if signer.valid and self._counts(signer)]
        self.counting = [signer.key for signer in counting]
        return self.verify_trust(counting)

    def _counts(self, signer: Signer) -> bool:
        if signer.trust == "revoked":
            seen = self.policy.seen
            if seen is not None and self.digest and seen.has(self.digest, signer.key):
                self.notes.append(
                    f"{signer.key} is revoked; its signature counts, since this machine verified"
                    " the file before"
                )
                return True
            return False
        return signer.trust in ("trusted", "retired")

    def _seen_before(self) -> bool:
        seen, digest = self.policy.seen, self.digest
        return (
            seen is not None
            and digest is not None
            and any(seen.has(digest, k) for k in self.counting)
        )

    def _body(self, artifact: Artifact) -> bool:
        digest = artifact.body.hash()
        if digest == artifact.statement.body_hash:
            self.end_step(4, "passed", digest)
            return True
        self.add_finding(Outcome.TAMPERED, "the body differs from the signed one")
        self.end_step(4, "failed", f"found {digest}")
        return False

    def _freshness(self, artifact: Artifact, head: SignedHead | None) -> None:
        if head is None or self.policy.seen is None:
            return
        mine = (head.signed.epoch, head.signed.size)
        newest = mine
        for seen in self.policy.seen.all():
            if seen.bank != artifact.statement.bank or seen.epoch is None or seen.size is None:
                continue
            theirs = (seen.epoch, seen.size)
            if theirs == mine and seen.root != head.signed.root:
                self.add_finding(
                    Outcome.FORK,
                    f"a different history of the same length was verified at {seen.at}",
                )
                self.end_step(5, "failed", "same size, different root")
                return
            if seen.key in self.counting:
                newest = max(newest, theirs)
        if newest > mine:
            self.add_finding(
                Outcome.OLDER,
                f"a newer copy was verified here: {_state_text(newest)};"
                f" this one is {_state_text(mine)}",
            )
            self.end_step(
                5, "failed", f"{_state_text(mine)}; newest verified here: {_state_text(newest)}"
            )
        else:
            self.end_step(5, "passed", _state_text(mine))

    def _contents(self, artifact: Artifact, head: SignedHead | None) -> None:
        counts = artifact.statement.counts
        needs_lineage = self.request.entry is not None or "redactions" in counts
        lineage = Lineage() if needs_lineage else None
        contents = BodyContents(
            artifact, self.request.limits, head.signed if head else None, lineage
        )
        try:
            try:
                contents.read(artifact.body)
                contents.verify_redactions()
            finally:
                self._add_findings(contents)
            self.unproved_forms = contents.unproved_forms
            self._records(artifact, contents)
            self._provenance(artifact, contents, lineage)
            self._log(artifact, contents, head)
            if self.request.entry and lineage is not None:
                self._chain(lineage, self.request.entry)
        finally:
            contents.close()
            if lineage is not None:
                lineage.close()

    def _add_findings(self, contents: BodyContents) -> None:
        for finding in contents.findings:
            outcome = self._blame(finding.outcome)
            self.findings.append(msgspec.structs.replace(finding, outcome=outcome))
        if contents.more_findings:
            self.notes.append(f"{contents.more_findings} more problems of this kind")
        if contents.falsely_signed:
            self.notes.append(
                f"records with an invalid signature: {contents.falsely_signed}, such as"
                f" {'; '.join(contents.falsely_signed_examples)}"
            )

    def _records(self, artifact: Artifact, contents: BodyContents) -> None:
        wrong = len(contents.findings) + contents.more_findings
        if contents.root_hash != artifact.statement.root_hash:
            self.add_finding(Outcome.TAMPERED, "the root hash does not match the entries")
            wrong += 1
        if contents.counts != artifact.statement.counts:
            self.add_finding(Outcome.TAMPERED, "the counts do not match the sections")
            wrong += 1
        self.records = contents.counts
        total = sum(contents.counts.values())
        self.end_step(6, "failed" if wrong else "passed", f"{total} records, {wrong} problems")

    def _provenance(
        self, artifact: Artifact, contents: BodyContents, lineage: Lineage | None
    ) -> None:
        report = contents.provenance()
        self._duplicates(artifact, report)
        if report.missing:
            examples = ", ".join(identity for identity, _ in report.missing_examples[:3])
            self.add_finding(
                Outcome.INCOMPLETE, f"{report.missing} parents are missing: {examples}"
            )
        if report.dangling:
            self.notes.append(f"{report.dangling} source events are not in this file")
        cycle = None
        if contents.cycle_possible and lineage is not None:
            cycle = lineage.cycle()
        if cycle:
            self.add_finding(Outcome.TAMPERED, "an entry is its own ancestor", identity=cycle)
        wrong = report.duplicates or report.missing or cycle
        self.end_step(
            7,
            "failed" if wrong else "passed",
            f"{contents.roots} roots, {report.missing} missing, {report.duplicates} duplicates",
        )

    def _duplicates(self, artifact: Artifact, report: IdReport) -> None:
        for identity, number in report.duplicate_examples:
            self.findings.append(
                VerificationFinding(
                    outcome=Outcome.TAMPERED,
                    message="duplicate ID",
                    line=artifact.body.line_of(number),
                    id=identity,
                )
            )

    def _log(self, artifact: Artifact, contents: BodyContents, head: SignedHead | None) -> None:
        if head is None or artifact.statement.head is None:
            return
        wrong = self._head(artifact, head, contents.keys)
        if artifact.statement.scope.kind == "disclosure" and (
            missing := contents.unproved().missing
        ):
            wrong.append(f"{missing} disclosed entries have no inclusion proof")
        if unmatched := contents.unmatched().missing:
            wrong.append(f"{unmatched} proofs match no record of their type in the file")
        if repeated := contents.unproved().duplicates:
            wrong.append(f"{repeated} duplicate proofs")
        for message in wrong:
            self.add_finding(Outcome.TAMPERED, message)
        names_owner = self._names_owner(head, contents.keys)
        self.notes += succession_notes(
            contents.keys.heirs, self.signers, self.policy, head.signed.bank
        )
        self.end_step(
            8,
            "failed" if wrong or not names_owner else "passed",
            f"size {head.signed.size}, {contents.proofs} proofs",
        )

    def _whose_log(self, artifact: Artifact, head: SignedHead) -> None:
        """Verify who owns the log, if nothing else of the contents is verified."""
        keys = BankKeys(artifact.statement.bank, self.request.limits)
        try:
            for line in artifact.body.section("keys"):
                model = decode_record(line)
                if isinstance(model, Bank) and has_valid_id(Sealed(model.id or "", "bank", line)):
                    keys.read_bank(model)
            for line in artifact.body.section("config"):
                model = decode_record(line)
                if isinstance(model, Config):
                    keys.read_config(model, line)
        except SatchelError:
            return  # a trusted key signed the bytes; ``deep`` verifies the records
        wrong = self._head(artifact, head, keys)
        for message in wrong:
            self.add_finding(Outcome.TAMPERED, message)
        if not self._names_owner(head, keys) or wrong:
            self.end_step(8, "failed", f"size {head.signed.size}, proofs not verified")

    def _head(self, artifact: Artifact, head: SignedHead, keys: BankKeys) -> list[str]:
        """Return the problems of the signed head itself."""
        wrong = []
        check = check_head(artifact.statement.head or {}, head)
        if not check.valid:
            wrong.append(f"the log head: {check.problem}")
        if head.signed.bank != artifact.statement.bank:
            wrong.append("the log head belongs to another bank")
        if keys.is_founded and not keys.admits(head.signed.key):
            wrong.append(f"the bank never admitted the key of the log head, {head.signed.key}")
        return wrong

    def _names_owner(self, head: SignedHead, keys: BankKeys) -> bool:
        """Require that the file shows the head to be the bank's; add a finding if it does not."""
        signed = head.signed
        if not keys.is_founded:
            self.add_finding(Outcome.INCOMPLETE, "no bank record shows who owns the log")
            return False
        if keys.adopter is not None and not self.policy.adopts(keys.adopter, signed.bank):
            self.add_finding(
                Outcome.UNTRUSTED,
                f"{keys.adopter} adopted the bank, and is not trusted as an owner of it",
            )
            self.notes.append(
                "If you confirmed the adoption with them: satchel key trust"
                f" {keys.adopter} --bank {signed.bank}"
            )
            return False
        if self.policy.standing(signed.key, signed.bank) == "revoked" and not self._seen_before():
            self.add_finding(
                Outcome.UNTRUSTED, f"the log head is signed by a revoked key: {signed.key}"
            )
            return False
        return True

    def _chain(self, lineage: Lineage, prefix: str) -> None:
        digits = id_digits(prefix)
        matches = [] if digits is None else lineage.matching(ID_PREFIX + digits)
        require_one(matches, prefix, "entry")
        if not matches:
            raise UsageError(
                f"the artifact has no memory {prefix[:80]!r}",
                file=self.file,
                field="entry",
                hint=f"Pass an ID, or a prefix of at least {LEAST_DIGITS} digits.",
            )
        for identity, parents, note in lineage.chain(matches[0]):
            state = note if parents is not None else "missing"
            self.chain.append(ChainLink(id=identity, state=state, parents=parents or []))

    def _remember(self, artifact: Artifact, head: SignedHead | None) -> None:
        if self.policy.seen is None or self.digest is None or not self.policy.remembers:
            return
        signed = head.signed if head else None
        try:
            # Each signer that counts: the order and number of signatures are not signed.
            for key in self.counting:
                self.policy.seen.remember(
                    KnownStatement(
                        at=now(),
                        statement=self.digest,
                        key=key,
                        bank=artifact.statement.bank,
                        epoch=signed.epoch if signed else None,
                        size=signed.size if signed else None,
                        root=signed.root if signed else None,
                    )
                )
        except TargetError as error:
            self.notes.append(f"this verification could not be recorded: {error.message}")

    # -- helpers ---------------------------------------------------------------------------

    def _blame(self, outcome: Outcome) -> Outcome:
        """Return the verdict of a problem in the body: ``tampered`` if the body was changed."""
        body = self.steps.get(4)
        changed = body is not None and body.state == "failed"
        return Outcome.TAMPERED if changed and outcome is Outcome.MALFORMED else outcome

    def _why_not(self, number: int) -> str:
        if self.artifact is None:
            return "the file could not be parsed"
        if number == 3 and 2 in self.steps:  # noqa: PLR2004
            return "no valid signature"
        if number in (5, 8) and self.artifact.statement.head is None:
            return "the file is not from a bank"
        if number == 5:  # noqa: PLR2004
            return "no trusted signer, or no earlier verification is recorded"
        if any(finding.outcome is Outcome.MALFORMED for finding in self.findings):
            return "an earlier step failed"
        return "a trusted key signed the whole body; --deep verifies every record"


def _state_text(state: tuple[int, int]) -> str:
    return f"epoch {state[0]}, size {state[1]}"


def verify_file(
    path: InputPath, policy: TrustPolicy, request: VerificationRequest | None = None
) -> Verification:
    """Verify a sealed file or a file of the published SDK; problems are in the result, not raised.

    Args:
        path: The file, in any encoding, plain or gzip; or a file of the published SDK.
        policy: The policy that decides which signatures count.
        request: How much to verify.

    Raises:
        UnreadableError: If the file cannot be read.
        EmptyInputError: If it is empty.
        UnknownFormatError: If it is not a sealed file.
        UsageError: If the requested entry is not in it.
    """
    request = request or VerificationRequest()
    try:
        return verify_artifact(path, policy, request)
    except SdkFileError:
        if request.entry is not None:
            raise UsageError(
                "chains can be followed in artifacts only, and this is an SDK file",
                file=str(path),
                hint="Convert it first: satchel convert.",
            ) from None
        return verify_sdk_file(path, policy, request.limits)
