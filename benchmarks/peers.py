"""Other tools, each in an environment of its own, made once from its lock."""

import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import platformdirs

LOCKS = Path(__file__).parent / "peers"


def environment(name: str) -> Path:
    """Return the folder of programs of a peer's environment, which is made when it is not there.

    Raises:
        RuntimeError: If it cannot be installed; the message is what pip said.
    """
    lock = LOCKS / f"{name}.txt"
    key = sha256(lock.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = platformdirs.user_cache_path("satchel-benchmarks") / f"{name}-{key}"
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip: list[str | Path] = [folder / "bin" / "pip", "install", "--quiet", "--no-deps"]
        done = subprocess.run([*pip, "-r", lock], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{name} could not be installed: {done.stderr[-1000:]}")
        (folder / "complete").touch()
    return folder / "bin"
