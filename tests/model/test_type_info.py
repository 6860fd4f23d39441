"""Types that several threads, or a forked child, use for the first time concurrently."""

from __future__ import annotations

import ast
import builtins
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_SRC = Path(__file__).parents[2] / "src"
_HARMLESS = {
    "UNSET",
    "UnsetType",
    "Meta",
    "Struct",
    "force_setattr",
    "fields",
    "inspect",
    "replace",
    "structs",
}
_ALLOWED = {"satchel/model/values.py: from msgspec.msgpack import Decoder"}
"""Import of ``resolved`` itself."""

_TAKES = {  # a type, as which argument
    "msgspec.convert": 1,
    "msgspec.json.Decoder": 0,
    "msgspec.json.decode": 1,
    "msgspec.json.schema": 0,
    "msgspec.json.schema_components": 0,
    "msgspec.msgpack.Decoder": 0,
    "msgspec.msgpack.decode": 1,
    "msgspec.toml.decode": 1,
    "msgspec.yaml.decode": 1,
    "inspect.type_info": 0,
    "inspect.multi_type_info": 0,
}
_TAKING = {name.rpartition(".")[2] for name in _TAKES}
_TYPES = """
import msgspec, os, sys, threading, time
from satchel.model.values import resolved

sys.setswitchinterval(1e-6)
begun = threading.Event()

def slow():
    begun.set()
    time.sleep(0.2)  # the others start during this
    return int

class Part(msgspec.Struct):
    number: "slow()"
    word: "str | None" = None

class Whole(msgspec.Struct):
    parts: "list[Part]"
    more: "dict[str, Part] | None" = None

value = {"parts": [{"number": 1}, {"number": 2, "word": "x"}], "more": {"y": {"number": 3}}}

def use():
    for _ in range(100):
        found = msgspec.convert(value, USED(Whole))
        assert [part.number for part in found.parts] == [1, 2]
        found = msgspec.json.decode(msgspec.json.encode(value), type=USED(Whole))
        assert found.more["y"].number == 3
"""
_THREADS = """
done = []
threads = [threading.Thread(target=lambda: done.append(use())) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(done) == 8
"""
_FORK = """
import warnings
warnings.simplefilter("ignore")  # newer Pythons warn of a fork beside threads
thread = threading.Thread(target=use)
thread.start()
begun.wait()
child = os.fork()
if not child:
    use()
    os._exit(0)
thread.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("then", [_THREADS, _FORK], ids=["threads", "fork"])
def test_a_type_first_used_by_several_threads_does_not_crash(then: str) -> None:
    """Neither another thread nor a child finds an incomplete type."""
    assert _run(_TYPES.replace("USED", "resolved") + then) == 0


def test_msgspec_alone_still_crashes() -> None:
    """When this fails with every supported release, ``values.resolved`` can be removed."""
    assert _run(_TYPES.replace("USED", "") + _THREADS) != 0


def test_settings_are_loaded_by_several_threads_concurrently() -> None:
    """As the first action of a program."""
    program = """
import sys, threading
sys.setswitchinterval(1e-6)
from satchel.config.settings import load_settings
barrier, done = threading.Barrier(8), []
def load():
    barrier.wait()
    done.append(load_settings())
threads = [threading.Thread(target=load) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(done) == 8
"""
    for _ in range(3):
        assert _run(program) == 0


def test_no_type_reaches_msgspec_unresolved() -> None:
    """Types are passed as ``resolved(type)``, except built-in ones."""
    unresolved = [
        f"{path.relative_to(_SRC)}: {ast.unparse(node)}"
        for path in _SRC.rglob("*.py")
        for node in _unresolved(ast.parse(path.read_text()))
    ]

    assert [line for line in unresolved if line not in _ALLOWED] == []


@pytest.mark.parametrize(
    "line",
    [
        "msgspec.convert(1, Kind)",
        "msgspec.convert(1, type=Kind)",
        "msgspec.convert(1, list[Kind])",
        "msgspec.json.decode(b'', type=Kind)",
        "form.decode(b'', type=Kind)",
        "msgspec.msgpack.Decoder(Kind)",
        "msgspec.json.schema_components([Kind])",
        "inspect.type_info(Kind)",
        "said = msgspec.convert",
        "from msgspec import convert",
        "from msgspec.json import decode",
        "import msgspec.json as fast",
    ],
)
def test_the_check_finds_each_way_to_pass_a_type(line: str) -> None:
    """So that the test above is complete."""
    assert list(_unresolved(ast.parse(line)))


def _unresolved(tree: ast.Module) -> Iterator[ast.stmt | ast.expr]:
    calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("msgspec"):
            if not {alias.name for alias in node.names} <= _HARMLESS:
                yield node
        elif isinstance(node, ast.Import):
            if any(one.name.startswith("msgspec") and one.asname for one in node.names):
                yield node
        elif isinstance(node, ast.Attribute):
            yield from _unresolved_in(node, calls.get(id(node)))


def _unresolved_in(function: ast.Attribute, call: ast.Call | None) -> Iterator[ast.expr]:
    if not (_decodes(function) or function.attr in _TAKING):
        return
    place = _TAKES.get(ast.unparse(function))
    given = {word.arg: word.value for word in call.keywords} if call else {}
    if call is None:
        if place is not None:
            yield function
        return
    kinds = [given["type"]] if "type" in given and (place is not None or _decodes(function)) else []
    if place is not None:
        kinds += call.args[place : place + 1]
    for kind in kinds:
        for one in kind.elts if isinstance(kind, ast.List) else [kind]:
            if not _is_resolved(one) and not _is_built_in(one):
                yield one


def _decodes(function: ast.Attribute) -> bool:
    return function.attr in {"decode", "convert", "Decoder"}


def _is_resolved(kind: ast.expr) -> bool:
    return isinstance(kind, ast.Call) and ast.unparse(kind.func) == "resolved"


def _is_built_in(kind: ast.expr) -> bool:
    """Return whether a type consists of built-in ones, for which no Python code runs."""
    for node in ast.walk(kind):
        if isinstance(node, ast.Attribute | ast.Call):
            return False
        if isinstance(node, ast.Name) and not hasattr(builtins, node.id):
            return False
    return True


def _run(program: str) -> int:
    return subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode
