"""Every example in the docs is run."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
TUTORIALS = [
    ROOT / "docs" / "tutorials" / name
    for name in re.findall(
        r"^\d\. \[.*\]\((.+\.md)\)", (ROOT / "docs/tutorials/index.md").read_text(), re.MULTILINE
    )
]
PAGES = [
    ROOT / "README.md",
    *TUTORIALS,
    *sorted((ROOT / "docs" / "guides").glob("*.md")),
    *sorted((ROOT / "docs" / "python").glob("*.md")),
]
IN_PROVE = {
    *TUTORIALS,  # all in one home is a test of `make check`
    *(ROOT / "docs" / "guides" / name for name in ("measuring.md", "moving-a-store.md")),
    *(ROOT / "docs" / "python" / name for name in ("fastapi.md", "testing.md")),
}
BLOCK = re.compile(
    r"^( *)```(?:(console|python)|([a-z]+) title=\"([^\"]+)\")\n(.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
"""A block to be run; one with a title is a file, which commands after it use, or output."""

OUTPUT = "Output"
"""The title of lines that the command before it prints, but for IDs, times and scores."""


FORK_SERVER = """
import atexit, gc, json, os, sys, threading, traceback
from importlib import import_module
from satchel.cli.main import main
from satchel.cli.main import MODULES

def run_child(words, folder, environment, out, err):
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for name, stream in ((os.devnull, 0), (out, 1), (err, 2)):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), stream)
    status = 0
    try:
        if words[0] == "satchel":
            sys.argv = words
            main()
        else:
            sys.argv = ["-c"]
            exec(compile(words[1], "example", "exec"), {"__name__": "__main__"})
    except SystemExit as error:
        status = error.code or 0
    except BaseException:
        traceback.print_exc()
        status = 1
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # freeing all modules would take as long as the command

for module in MODULES:
    import_module(f"satchel.cli.{module}")
gc.freeze()
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        run_child(*json.loads(line))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Runs each command in a process of its own, forked with all modules imported."""


@pytest.fixture(scope="module")
def fork_server() -> Iterator["subprocess.Popen[str]"]:
    """Give the server that all pages use."""
    words = [sys.executable, "-c", FORK_SERVER]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.prove] if page in IN_PROVE else []) for page in PAGES],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_the_examples_of_a_page_work_in_the_order_they_stand(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fork_server: "subprocess.Popen[str]",
) -> None:
    """A reader who types the examples of one page gets no error."""
    supply(tmp_path, monkeypatch)
    read(fork_server, page, tmp_path)


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_all_pages_work_one_after_another_in_one_home_and_one_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fork_server: "subprocess.Popen[str]"
) -> None:
    """A reader who goes on from page to page gets no error, whatever earlier pages left."""
    supply(tmp_path, monkeypatch)
    for page in PAGES:
        read(fork_server, page, tmp_path, compare=False)  # earlier pages left memories


def test_the_tutorials_work_in_their_order_in_one_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fork_server: "subprocess.Popen[str]"
) -> None:
    """And each command prints what the page shows."""
    assert len(TUTORIALS) == len(list((ROOT / "docs" / "tutorials").glob("*.md"))) - 1
    supply(tmp_path, monkeypatch)
    for page in TUTORIALS:
        read(fork_server, page, tmp_path)


def test_the_quick_start_of_the_readme_recalls_a_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fork_server: "subprocess.Popen[str]"
) -> None:
    """Each command as it stands there, in an empty home; the third one finds the second memory."""
    supply(tmp_path, monkeypatch)
    page = PAGES[0].read_text("utf-8")
    commands = next(text for _, language, *_, text in BLOCK.findall(page) if language == "console")
    printed = [shell(fork_server, line, tmp_path).decode() for line in commands.splitlines()]

    assert len(printed) == 10
    assert "The deployment runs on Friday" in printed[2]
    assert "good  ada.pam.jsonl" in printed[8]


def supply(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the sample files that pages name where the reader is."""
    shutil.copy(ROOT / "examples" / "mem0_export.json", folder)
    samples = ROOT / "tests" / "data" / "formats"
    shutil.copy(samples / "chatgpt" / "good-shards.zip", folder / "chatgpt-export.zip")
    shutil.copy(samples / "claude_code" / "good-talk.jsonl", folder / "talk.jsonl")
    shutil.copy(samples / "codex" / "good-rollout.jsonl", folder / "rollout.jsonl")
    shutil.copy(samples / "gemini" / "good-activity.json", folder / "gemini-activity.json")
    kept = folder.with_name(f"{folder.name}-home") / ".claude" / "projects" / "shop"
    kept.mkdir(parents=True)
    shutil.copy(samples / "claude_code" / "good-talk.jsonl", kept)
    monkeypatch.setenv("HOME", str(kept.parent.parent.parent))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    shutil.copy(samples / "langgraph" / "good-store.db", folder / "langgraph-store.db")
    threads = samples / "langgraph_checkpoints" / "good-threads.db"
    shutil.copy(threads, folder / "langgraph-threads.db")
    shutil.copy(samples / "qdrant_points" / "good-points.json", folder / "qdrant-points.json")
    shutil.copytree(ROOT / "tests" / "data" / "chroma-folder", folder / "chroma-folder")


def lines_of(text: str) -> list[str]:
    """Return the lines of an output without what differs from run to run."""
    for pattern in (
        r"\d{8}T\d+Z-\w+",
        r"\d{4}-\d\d-\d\d(?: \d\d:\d\d(?::\d\d)?)?",
        r"[0-9a-f]{8,}",
        r"\d\.\d+\b",
    ):
        text = re.sub(pattern, "*", text)
    return [" ".join(re.sub(r"^\d+\|", "*|", line).split()) for line in text.splitlines()]


def read(
    fork_server: "subprocess.Popen[str]", page: Path, folder: Path, *, compare: bool = True
) -> None:
    """Run the examples of a page, in their order; compare the output that it shows."""
    blocks = BLOCK.findall(page.read_text("utf-8"))

    assert blocks
    printed = b""
    for _, language, _, title, text in blocks:
        if title == OUTPUT:
            missing = set(lines_of(text)) - set(lines_of(printed.decode()))
            assert not compare or not missing, (page.name, missing, printed.decode())
        elif title:
            (folder / title).write_text(text, "utf-8")
        elif language == "python":
            run(fork_server, ["python", text], folder)
        else:
            for line in text.splitlines():
                printed = shell(fork_server, line.strip(), folder)


def shell(fork_server: "subprocess.Popen[str]", line: str, folder: Path) -> bytes:
    """Run one ``$ satchel ...`` or ``$ pytest ...`` line; return what it prints.

    It may redirect that into a file.
    """
    if line.startswith("$ pytest "):
        program = f"import pytest, sys; sys.exit(pytest.main({shlex.split(line)[2:]!r}))"
        return run(fork_server, ["python", program], folder)
    assert line.startswith("$ satchel "), line
    command, _, target = line[2:].partition(" > ")
    done = run(fork_server, shlex.split(command), folder)
    if target:
        (folder / target).write_bytes(done)
    return done


def run(fork_server: "subprocess.Popen[str]", words: list[str], folder: Path) -> bytes:
    """Run a command, or Python statements; return what it prints."""
    assert fork_server.stdin is not None
    assert fork_server.stdout is not None
    out, err = folder.parent / "stdout", folder.parent / "stderr"
    asked = [words, str(folder), dict(os.environ), str(out), str(err)]
    fork_server.stdin.write(json.dumps(asked) + "\n")
    fork_server.stdin.flush()
    assert fork_server.stdout.readline() == "0\n", f"{words}: {err.read_text('utf-8')}"
    return out.read_bytes()


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/**/*.md")) + PAGES[:1], ids=str)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """A relative link in the docs names a file that exists."""
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8"))

    assert [link for link in links if not (page.parent / link).exists()] == []
