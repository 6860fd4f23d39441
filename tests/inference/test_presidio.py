"""Presidio as an additional detector: real, without a network; or missing."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bank_kit import filled, keep

from benchmarks import peers
from satchel.erasure.redaction import redact
from satchel.erasure.selection import RedactOptions
from satchel.errors import MissingExtraError, UsageError

WALLET = "16Yeky6GMjeNkAiNcBY7ZhrLoMSgg1BoyZ"
_SCRIPT = peers.LOCKS / "presidio_redact.py"
_ROOT = Path(__file__).parents[2]


def test_missing_presidio_is_reported_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before anything is redacted."""
    monkeypatch.setitem(sys.modules, "spacy", None)
    with filled() as bank:
        identity = keep(bank, "mail ada@example.com")
        with pytest.raises(MissingExtraError) as caught:
            redact.run(bank, RedactOptions(ids=(identity,), detector="presidio"))
        assert "satchel[presidio]" in str(caught.value.hint)
        assert redact.run(bank, RedactOptions(ids=(identity,))).redacted == 1


def test_an_unknown_detector_is_refused() -> None:
    """With a usage error."""
    with filled() as bank:
        identity = keep(bank, "tea")
        with pytest.raises(UsageError, match="unknown detector 'magic'"):
            redact.run(bank, RedactOptions(ids=(identity,), detector="magic"))


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_presidio_finds_data_that_the_built_in_rules_do_not(tmp_path: Path) -> None:
    """By its own patterns, without model and network; mail addresses are still found."""
    python = peers.environment("presidio-analyzer") / "python"
    behind = [str(_ROOT / "src"), *(path for path in sys.path if path.endswith("site-packages"))]
    said = (f"pay {WALLET} now", "NHS 943 476 5919", "mail ada@example.com", "order 12345678")
    ran = subprocess.run(
        [python, "-W", "ignore", _SCRIPT, tmp_path / "home", *said],
        env={**os.environ, "PYTHONPATH": ":".join(behind)},
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, Any] = json.loads(ran.stdout)
    assert found["left"] == [
        "pay [REDACTED:id-number:1] now",
        "NHS [REDACTED:id-number:1]",
        "mail [REDACTED:email:1]",
        "order 12345678",
    ]
    assert "patterns only" in found["notes"][0]
