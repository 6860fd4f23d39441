"""The installed package: all of its files, ten commands, an agent host, a web application."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2 as httpx
import pytest
from hatchling.builders.wheel import WheelBuilder
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import TextContent

if TYPE_CHECKING:
    from collections.abc import Iterator


ROOT = Path(__file__).parents[1]
_TIMEOUT = 60
APPLICATION = '''
"""A web application that remembers."""

from contextlib import asynccontextmanager

from fastapi import FastAPI
from satchel.aio import Satchel


@asynccontextmanager
async def lifespan(app):
    async with Satchel.open() as store:
        app.state.bank = await store.bank("web", create=True)
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/notes")
async def write(text: str, user: str):
    stored = await app.state.bank.remember(text, user=user)
    return {"id": stored.id, "text": stored.text}


@app.get("/notes")
async def read(words: str, user: str):
    answer = await app.state.bank.recall(words, user=user)
    return [memory.text for memory in answer]
'''


class Machine:
    """A new environment with the installed wheel.

    Args:
        folder: The folder of the environment.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "venv" / "bin"
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
        self.environment = {**kept, "HOME": str(folder)}

    def with_home(self, folder: Path) -> Machine:
        """Return the same installation for another user, with the sample export."""
        other = Machine(self.folder)
        other.environment["HOME"] = str(folder)
        other.folder = folder
        shutil.copy(ROOT / "examples" / "mem0_export.json", folder)
        return other

    def run(self, *words: str, status: int = 0) -> str:
        """Run a command of the package; return its output."""
        done = subprocess.run(
            [self.bin / "satchel", *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=_TIMEOUT,
        )
        assert done.returncode == status, (words, done.stderr)
        return done.stdout

    @contextmanager
    def serving(self, *words: str, prefix: str) -> Iterator[httpx.Client]:
        """Yield a client of a program that prints its address after a given text."""
        with subprocess.Popen(
            [self.bin / words[0], *words[1:]],
            cwd=self.folder,
            env={**self.environment, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                assert process.stdout is not None
                lines = (re.search(prefix + r"(http://\S+)", line) for line in process.stdout)
                address = next(found[1] for found in lines if found)
                with httpx.Client(base_url=address, timeout=_TIMEOUT) as client:
                    yield client
            finally:
                process.terminate()


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """Build the wheel, and install it without access to the sources.

    Dependencies are those of this environment, so that no network is needed.
    """
    made = Machine(tmp_path_factory.mktemp("newcomer"))
    build: list[str | Path] = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    build += ["-d", made.folder]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = made.folder.glob("satchel-*.whl")
    venv = made.folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", venv / "bin" / "python"]
    subprocess.run(
        [*pip, "install", "-q", "--no-index", "--no-deps", wheel], check=True, capture_output=True
    )
    (site,) = venv.glob("lib/python3*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    shutil.copy(ROOT / "examples" / "mem0_export.json", made.folder)
    where = subprocess.run(
        [made.bin / "python", "-c", "import satchel; print(satchel.__file__)"],
        cwd=made.folder,
        env=made.environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert Path(where.stdout.strip()).is_relative_to(venv)
    return made


@pytest.mark.prove
def test_ten_commands_work_as_the_help_suggests(machine: Machine) -> None:
    """Each follows from the help or the output of the one before."""
    screen = machine.run("--help")
    for command in ("remember", "recall", "import", "export", "verify", "backup", "doctor"):
        assert command in screen
    machine.run("remember", "Ada drinks tea without sugar", "--tag", "tea")
    assert "Ada drinks tea" in machine.run("recall", "what does Ada drink?")
    machine.run("import", "mem0_export.json", "--bank", "assistant")
    assert "assistant" in machine.run("bank", "list")
    assert "Ada drinks tea" in machine.run("list")
    assert machine.run("export", "-o", "-").startswith("{")
    machine.run("export", "--output", "memory.pam")
    assert "good" in machine.run("verify", "memory.pam")
    machine.run("backup", "run", "--destination", "backups")
    assert "restorable" in machine.run("backup", "drill", "--destination", "backups")
    machine.run("doctor")
    machine.run("search", "tea", status=2)


@pytest.mark.prove
def test_the_quick_start_works_with_the_installed_wheel(machine: Machine, tmp_path: Path) -> None:
    """Its commands, in an empty home."""
    machine = machine.with_home(tmp_path)
    block = (ROOT / "README.md").read_text().partition("```console\n")[2].partition("```")[0]
    commands = [shlex.split(line.removeprefix("$ satchel ")) for line in block.splitlines()]
    printed = [machine.run(*words) for words in commands]
    assert "The deployment runs on Friday" in printed[2]


@pytest.mark.prove
def test_an_agent_host_remembers_and_recalls(machine: Machine) -> None:
    """With the official client, over standard streams of the installed command."""
    command = StdioServerParameters(
        command=str(machine.bin / "satchel"), args=["mcp"], env=machine.environment
    )

    async def work() -> str:
        async with Client(stdio_client(command)) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == ["remember", "recall", "list", "show", "update", "forget"]
            await client.call_tool("remember", {"text": "The staging server is called heron"})
            answer = await client.call_tool("recall", {"query": "name of the staging server"})
            return "".join(each.text for each in answer.content if isinstance(each, TextContent))

    assert "heron" in asyncio.run(work())


@pytest.mark.prove
def test_a_web_application_separates_notes_by_user(machine: Machine) -> None:
    """FastAPI with ``satchel.aio``, served by uvicorn."""
    (machine.folder / "application.py").write_text(APPLICATION)
    words = ("python", "-m", "uvicorn", "application:app", "--port", "0")
    with machine.serving(*words, prefix="running on ") as client:
        for user, text in (("ada", "Ada likes Darjeeling"), ("bob", "Bob likes espresso")):
            made = client.post("/notes", params={"text": text, "user": user})
            assert made.json()["text"] == text
        found = client.get("/notes", params={"words": "who likes what?", "user": "ada"})
        assert found.json() == ["Ada likes Darjeeling"]


@pytest.mark.prove
def test_the_installed_server_serves_the_page(machine: Machine) -> None:
    """With its scripts; memories require authentication."""
    with machine.serving("satchel", "serve", "--port", "0", prefix="") as client:
        page = client.get("/")
        assert page.status_code == 200
        assert "<title>Satchel" in page.text
        assert client.get("/v1/banks").status_code in (200, 401)


SOURCES = ROOT / "src"
NEEDED = (
    "py.typed",
    "web/index.html",
    "web/page.js",
    "web/page.css",
    "web/mark.svg",
    "inference/data/pieces.txt",
    *(
        f"setup/plugin/{name}"
        for name in (
            ".mcp.json",
            ".claude-plugin/plugin.json",
            ".codex-plugin/plugin.json",
            ".cursor-plugin/plugin.json",
            "skills/satchel/SKILL.md",
        )
    ),
)


def _package_files() -> set[str]:
    """Return the files of the package."""
    files = (path for path in (SOURCES / "satchel").rglob("*") if path.is_file())
    found = {path.relative_to(SOURCES).as_posix() for path in files if path.suffix != ".pyc"}
    assert {f"satchel/{name}" for name in NEEDED} <= found
    return found


def test_the_build_includes_every_file_of_the_package() -> None:
    """Files that git ignores are omitted from wheels, so no file may have such a name."""
    included = WheelBuilder(str(ROOT)).recurse_included_files()
    assert {one.distribution_path for one in included} == _package_files()


@pytest.mark.prove
def test_the_wheel_has_every_file_and_works(tmp_path: Path) -> None:
    """Built, unpacked elsewhere and run there, without the sources."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("satchel-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        assert names == _package_files()
        for name in names:
            assert archive.read(name) == (SOURCES / name).read_bytes(), name
        archive.extractall(tmp_path / "installed")
    where = {"PYTHONPATH": str(tmp_path / "installed"), "SATCHEL_HOME": str(tmp_path / "home")}

    def run(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env={**os.environ, **where},
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    run("-m", "satchel", "remember", "Ada drinks tea")
    assert "Ada drinks tea" in run("-m", "satchel", "recall", "tea")
    assert "ama" in run("-m", "satchel", "formats")
    assert run("-c", "import satchel; print(satchel.__file__)").startswith(str(tmp_path))
