"""Every example in the docs is run."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]
BLOCK = re.compile(r"^( *)```(console|python)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


NURSERY = """
import json, os, sys
from importlib import import_module
from satchel.surfaces.cli.main import main
from satchel.surfaces.cli._app import MODULES

for module in MODULES:
    import_module(f"satchel.surfaces.cli.{module}")
for line in sys.stdin:
    words, folder, out, err = json.loads(line)
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        for name, stream in ((os.devnull, 0), (out, 1), (err, 2)):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), stream)
        if words[0] == "satchel":
            sys.argv = words
            main()
        sys.argv = ["-c"]
        exec(compile(words[1], "example", "exec"), {"__name__": "__main__"})
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Runs each command in a process of its own, which has what all of them import already."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_work_in_the_order_they_stand(page: Path, tmp_path: Path) -> None:
    """A reader who types the examples of one page gets no error."""
    shutil.copy(ROOT / "examples" / "mem0_export.json", tmp_path)
    samples = ROOT / "tests" / "data" / "formats"
    shutil.copy(samples / "chatgpt" / "good-shards.zip", tmp_path / "chatgpt-export.zip")
    shutil.copy(samples / "claude_code" / "good-talk.jsonl", tmp_path / "talk.jsonl")
    blocks = BLOCK.findall(page.read_text("utf-8"))

    assert blocks
    with subprocess.Popen(
        [sys.executable, "-c", NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as nursery:
        for _, language, text in blocks:
            if language == "python":
                _run(nursery, ["python", text], tmp_path)
            else:
                for line in text.splitlines():
                    _shell(nursery, line.strip(), tmp_path)


def _shell(nursery: "subprocess.Popen[str]", line: str, folder: Path) -> None:
    """Run one ``$ satchel ...`` line; a redirection into a file is the only other thing."""
    assert line.startswith("$ satchel "), line
    command, _, target = line[2:].partition(" > ")
    done = _run(nursery, shlex.split(command), folder)
    if target:
        (folder / target).write_bytes(done)


def _run(nursery: "subprocess.Popen[str]", words: list[str], folder: Path) -> bytes:
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    out, err = folder.parent / "stdout", folder.parent / "stderr"
    nursery.stdin.write(json.dumps([words, str(folder), str(out), str(err)]) + "\n")
    nursery.stdin.flush()

    assert nursery.stdout.readline() == "0\n", f"{words}: {err.read_text('utf-8')}"
    return out.read_bytes()


def test_the_reference_pages_are_current() -> None:
    """What the docs say of commands, formats, errors and limits is what the program has."""
    done = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, check=False
    )

    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/**/*.md")) + PAGES[:1], ids=str)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """A relative link in the docs names a file that exists."""
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8"))

    assert [link for link in links if not (page.parent / link).exists()] == []
