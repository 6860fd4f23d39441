"""numpy is loaded in a way that leaves the process as it was."""

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


def _loaded(folder: Path, **environment: str) -> str:
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


def test_threads_of_numpy_sleep_soon_and_the_environment_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is loaded, nothing looks for cycles; afterwards, all is as it was."""
    monkeypatch.delenv(NAME, raising=False)

    assert _loaded(tmp_path) == "4 False None True"


def test_what_the_environment_says_of_threads_is_left_as_it_is(tmp_path: Path) -> None:
    """Who sets it has measured something else."""
    assert _loaded(tmp_path, **{NAME: "20"}) == "20 False 20 True"
