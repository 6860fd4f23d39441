"""Other tools, each in its own environment, made once from its lock file."""

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


def node_packages(name: str) -> Path:
    """Return the folder of a peer that npm installs; it is made when it is not there.

    Raises:
        RuntimeError: If it cannot be installed; the message is what npm said.
    """
    lock = LOCKS / f"{name}.npm"
    key = sha256(lock.read_bytes()).hexdigest()[:12]
    folder = platformdirs.user_cache_path("satchel-benchmarks") / f"{name}-{key}"
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        npm = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
        wanted = lock.read_text().split()
        done = subprocess.run(
            [*npm, "--prefix", folder, *wanted], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{name} could not be installed: {done.stderr[-1000:]}")
        (folder / "complete").touch()
    return folder / "node_modules"
