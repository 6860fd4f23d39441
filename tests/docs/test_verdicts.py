"""The verdicts are the same in code, specification, guide, help and options."""

import re
from pathlib import Path
from typing import get_args

import pytest

from satchel.artifact.verification import Outcome, Verification, VerificationFinding
from satchel.config.options import Verdict
from satchel.transfer.verification import verify_file

_ROOT = Path(__file__).parent.parent.parent
_SPEC = (_ROOT / "docs" / "spec" / "4-verification.md").read_text("utf-8")
_GUIDE = (_ROOT / "docs" / "guides" / "checking-a-file.md").read_text("utf-8")
_ROW = re.compile(r"^\| `([a-z-]+)` \|.*\| (\d)[^|]*\|$", re.MULTILINE)


def _statuses() -> dict[str, int]:
    return {outcome.value: _of(outcome).exit_status for outcome in Outcome}


def _of(outcome: Outcome) -> Verification:
    return Verification(
        file="x",
        encoding=None,
        steps=[],
        findings=[]
        if outcome is Outcome.GOOD
        else [VerificationFinding(outcome=outcome, message="")],
        signers=[],
        statement=None,
        statement_digest=None,
        records={},
    )


@pytest.mark.parametrize("text", [_SPEC, _GUIDE], ids=["specification", "guide"])
def test_each_verdict_is_documented_with_its_exit_status(text: str) -> None:
    """A verdict that is renamed in one place only is noticed."""
    assert {name: int(status) for name, status in _ROW.findall(text)} == _statuses()


def test_the_specification_lists_the_verdicts_in_order_of_severity() -> None:
    """If several apply, the first of the table is the outcome."""
    assert [name for name, _ in _ROW.findall(_SPEC)] == [outcome.value for outcome in Outcome]


def test_the_help_of_verify_names_each_verdict() -> None:
    """Scripts branch on them and on the exit status."""
    text = verify_file.help
    assert [outcome for outcome in Outcome if not re.search(rf"\b{outcome}\b", text)] == []


def test_the_verdicts_that_can_be_accepted_are_those_of_the_specification() -> None:
    """SEAL-4.15: these and no others, each by a flag called unsafe."""
    rule = _SPEC.split("**SEAL-4.15**")[1].split("- **SEAL")[0]
    assert set(re.findall(r"`([a-z-]+)`", rule)) - {"unsafe"} == set(get_args(Verdict))
    assert set(get_args(Verdict)) <= {outcome.value for outcome in Outcome}
