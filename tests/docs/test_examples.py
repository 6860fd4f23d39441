"""Every example in the docs is run."""

import os
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_work_in_the_order_they_stand(page: Path, tmp_path: Path) -> None:
    """A reader who types the examples of one page gets no error."""
    shutil.copy(ROOT / "examples" / "mem0_export.json", tmp_path)
    samples = ROOT / "tests" / "data" / "formats"
    shutil.copy(samples / "chatgpt" / "good-shards.zip", tmp_path / "chatgpt-export.zip")
    shutil.copy(samples / "claude_code" / "good-talk.jsonl", tmp_path / "talk.jsonl")
    shutil.copy(samples / "langgraph" / "good-store.db", tmp_path / "langgraph-store.db")
    threads = samples / "langgraph_checkpoints" / "good-threads.db"
    shutil.copy(threads, tmp_path / "langgraph-threads.db")
    shutil.copy(samples / "qdrant_points" / "good-points.json", tmp_path / "qdrant-points.json")
    shutil.copytree(ROOT / "tests" / "data" / "chroma-folder", tmp_path / "chroma-folder")
    blocks = BLOCK.findall(page.read_text("utf-8"))

    assert blocks
    for _, language, text in blocks:
        if language == "python":
            _run([sys.executable, "-c", text], tmp_path)
        else:
            for line in text.splitlines():
                _shell(line.strip(), tmp_path)


def _shell(line: str, folder: Path) -> None:
    """Run one ``$ satchel ...`` line; a redirection into a file is the only other thing."""
    assert line.startswith("$ satchel "), line
    command, _, target = line[2:].partition(" > ")
    words = shlex.split(command)
    done = _run([sys.executable, "-m", *words], folder)
    if target:
        (folder / target).write_bytes(done)


def _run(words: list[str], folder: Path) -> bytes:
    done = subprocess.run(words, cwd=folder, env=dict(os.environ), capture_output=True, check=False)

    assert done.returncode == 0, f"{words}: {done.stderr.decode()}"
    return done.stdout


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
