"""Our suite on the real flyte package: what it keeps, and where it is known to differ."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from benchmarks import peers

KNOWN = {
    "test_36_each_write_leaves_a_sidecar_and_where_wanted_a_version": (
        "versions of one second have no order: their names hold whole seconds, then the sha"
    ),
}
"""What flyte 2.12.1 does not keep, with the reason; anything else that fails is news."""

_FAILED = re.compile(r"^(?:FAILED|ERROR) \S+::(test_\w+)", re.MULTILINE)


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_flyte_keeps_all_behaviours_but_those_that_are_known(tmp_path: Path) -> None:
    """So the suite asks for what the page's own implementation does."""
    contract = Path(__file__).with_name("flyte_contract.py")
    root = contract.parent.parent.parent
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [
            *(peers.environment("flyte") / "python", "-m", "pytest", "-q", "-rA", contract),
            *("-c", tmp_path / "pytest.ini", "--rootdir", tmp_path),
            *("-p", "no:cacheprovider", "--import-mode=importlib", "--noconftest"),
        ],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert " passed" in done.stdout, done.stdout[-3_000:] + done.stderr[-3_000:]
    assert set(_FAILED.findall(done.stdout)) == set(KNOWN), done.stdout[-6_000:]
