"""``python -m benchmarks.trace``: files and functions that six operations run.

Each operation is a command in its own process, on a small SQLite bank. A function counts if it is
called; code that runs only during an import does not.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType

PACKAGE = "satchel"
_MEM0 = {
    "results": [
        {"id": f"00000000-0000-4000-8000-00000000000{number}", "user_id": "ada", "memory": text}
        for number, text in enumerate(["Ada likes tea", "Ada lives in Oslo", "Ada has a cat"])
    ]
}
_FIRST = (["init"], ["remember", "I like tea"])
OPERATIONS = {
    "remember": ["remember", "Tea is green"],
    "recall": ["recall", "tea"],
    "import": ["import", "mem0.json", "--bank", "imported"],
    "export": ["export", "--output", "out.pam.jsonl"],
    "backup run": ["backup", "run", "--destination", "backups"],
    "file write": ["file", "write", "notes.md", "likes tea"],
}
"""The commands, by what the table calls them."""


class Trace:
    """A profile function that collects the functions that are called."""

    def __init__(self) -> None:
        import satchel

        self._root = f"{Path(satchel.__file__).parent}{os.sep}"
        self._importing = 0
        self.functions = set[tuple[str, str]]()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Record a call, unless a module is being imported."""
        code = frame.f_code
        if code.co_name == "<module>":
            self._importing += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not self._importing and code.co_filename.startswith(self._root):
            self.functions.add((code.co_filename[len(self._root) :], code.co_qualname))


def _run(arguments: list[str]) -> None:
    """Run one command in this process, and write what it called to the file descriptor 3."""
    from satchel.cli.main import main as command

    trace = Trace()
    sys.argv = [PACKAGE, *arguments]
    status: object = 0
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        command()
    except SystemExit as ended:
        status = ended.code
    finally:
        sys.setprofile(None)
    if status:
        raise SystemExit(f"{' '.join(arguments)}: exit status {status}")
    Path(os.environ["TRACE"]).write_text(json.dumps(sorted(trace.functions)))


def traced(folder: Path) -> dict[str, list[tuple[str, str]]]:
    """Return the functions that each operation calls, as pairs of file and name.

    Args:
        folder: An empty folder for the home and the files.
    """
    environment = os.environ | {
        "SATCHEL_HOME": str(folder / "home"),
        "SATCHEL_WITNESS": str(folder / "witness"),
        "TRACE": str(folder / "trace.json"),
    }
    (folder / "mem0.json").write_text(json.dumps(_MEM0))
    (folder / "backups").mkdir()
    command = [sys.executable, "-m"]
    for arguments in _FIRST:
        subprocess.run(
            [*command, PACKAGE, *arguments],
            cwd=folder,
            env=environment,
            check=True,
            capture_output=True,
        )
    environment["PYTHONPATH"] = str(Path(__file__).parent.parent)
    calls = dict[str, list[tuple[str, str]]]()
    for name, arguments in OPERATIONS.items():
        subprocess.run(
            [*command, "benchmarks.trace", *arguments],
            cwd=folder,
            env=environment,
            check=True,
            capture_output=True,
        )
        calls[name] = [tuple(each) for each in json.loads((folder / "trace.json").read_text())]
    return calls


def main() -> None:
    """Print the table."""
    if sys.argv[1:]:
        _run(sys.argv[1:])
        return
    with tempfile.TemporaryDirectory() as folder:
        found = traced(Path(folder))
    print(f"{'operation':<12}{'files':>7}{'functions':>11}")
    for name, functions in found.items():
        print(f"{name:<12}{len({file for file, _ in functions}):>7}{len(functions):>11}")


if __name__ == "__main__":
    main()
