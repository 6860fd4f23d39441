"""numpy is loaded without side effects on the process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

NAME = "OPENBLAS_THREAD_TIMEOUT"
_FAKE = f"""
import gc, os
seen = os.environ.get({NAME!r}), gc.isenabled()
"""
_CODE = f"""
import gc, os
from satchel.runtime.arrays import numpy
loaded = numpy()
assert numpy() is loaded
print(*loaded.seen, os.environ.get({NAME!r}), gc.isenabled())
"""


def _state_after_load(folder: Path, **environment: str) -> str:
    (folder / "numpy.py").write_text(_FAKE)
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", _CODE],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_loading_numpy_restores_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its threads sleep early; during the import, garbage collection is disabled."""
    monkeypatch.delenv(NAME, raising=False)

    assert _state_after_load(tmp_path) == "4 False None True"


def test_a_thread_timeout_of_the_environment_is_kept(tmp_path: Path) -> None:
    """The user's value has precedence."""
    assert _state_after_load(tmp_path, **{NAME: "20"}) == "20 False 20 True"
