"""``python -m benchmarks.first_contact``: what new users and contributors meet first.

Places where the parameters of an operation are written, tokens of the core tools of MCP, processor
time of starting, and how many commands of the guides fail when all are read in one home. With
``--before FOLDER``, the sources of an older version are counted beside the present ones:

    git worktree add ../before COMMIT
    python -m benchmarks.first_contact --before ../before --guides
"""

import argparse
import ast
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.measure import ROOT, Table, run

OPERATIONS = {
    "remember": (
        *("data", "tags", "kind", "metadata", "occurred_at", "valid_from", "valid_until"),
        *("expires_at", "salience", "actor"),
    ),
    "recall": (
        *("budget", "any_tags", "provider", "source", "trust", "as_of", "rerank", "explain"),
        *("any_time", "with_expired", "include_expired"),
    ),
    "import": (
        *("on_conflict", "mirror", "include_deleted", "near_duplicates", "near", "re_embed"),
        *("re_extract_entities", "re_extract", "skip_bad", "text_member", "ignore_sidecar"),
    ),
    "backup run": (
        *("banks", "agents", "files", "prune", "full", "recipients", "encrypt_to"),
        *("unencrypted", "plain"),
    ),
    "token issue": (
        *("permissions", "entries", "components", "types", "any_of", "any_tags", "none_of"),
        *("no_tags", "everything", "artifact", "not_before"),
    ),
}
"""Names of parameters that tell an operation from others, those that it had before too."""

LEAST = 5
"""So many of them make a place."""

INTERFACES = ("api", "cli", "http", "mcp")

STARTS = {
    "python -c pass": ("-c", "pass"),
    "satchel --version": ("-m", "satchel", "--version"),
    "satchel --help": ("-m", "satchel", "--help"),
    "completion of `satchel re`": ("-c", ""),
    "satchel recall, bank of one": ("-m", "satchel", "recall", "tea"),
    "import satchel": ("-c", "import satchel"),
    "from satchel import Satchel": ("-c", "from satchel import Satchel"),
    "Satchel.open().bank().recall(...)": (
        "-c",
        "from satchel import Satchel; Satchel.open().bank().recall('tea')",
    ),
    "satchel mcp, to the list of tools": ("-c", ""),
    "import of the MCP SDK alone": ("-c", "import mcp.server.mcpserver, mcp.server.stdio"),
}
ROUNDS = 7


def places(sources: Path, names: Sequence[str]) -> list[str]:
    """Return where the parameters of an operation are written out.

    In the interfaces a class with such fields, a signature, a call or a dictionary with such keys;
    elsewhere a class whose fields are options. A place within another one does not count.
    """
    lines = list[str]()
    for path in sorted(sources.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        where = path.relative_to(sources).as_posix()
        of_interface = path.relative_to(sources).parts[0] in INTERFACES
        lines += [
            f"{where}:{node.lineno}"  # type: ignore[attr-defined]  # all that spell names have one
            for node in _within(tree, set(names))
            if of_interface or _declares(node)
        ]
    return lines


def _within(node: ast.AST, names: set[str]) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if len(_spelled(child) & names) >= LEAST:
            yield child
        else:
            yield from _within(child, names)


def _declares(node: ast.AST) -> bool:
    """Return whether a node is an options class, whose fields interfaces are derived from."""
    is_class = isinstance(node, ast.ClassDef)
    return is_class and any(
        isinstance(each, ast.Call) and getattr(each.func, "id", "") == "Option"
        for each in ast.walk(node)
    )


def _spelled(node: ast.AST) -> set[str]:
    match node:
        case ast.ClassDef():
            fields = (each.target for each in node.body if isinstance(each, ast.AnnAssign))
            return {each.id for each in fields if isinstance(each, ast.Name)}
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            said = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            return {each.arg for each in said}
        case ast.Call():
            return {each.arg for each in node.keywords if each.arg}
        case ast.Dict():
            keys = (each.value for each in node.keys if isinstance(each, ast.Constant))
            return {key for key in keys if isinstance(key, str)}
        case _:
            return set()


def tool_tokens() -> int:
    """Return what names, descriptions and schemas of the core tools take, as o200k counts."""
    from satchel.mcp.server import server
    from satchel.rehydrate.frames import tokenizer_of

    tools = asyncio.run(server(None, ()).list_tools())
    described = [
        json.dumps(
            {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema},
            separators=(",", ":"),
        )
        for tool in tools
    ]
    return sum(map(tokenizer_of("gpt-4o").count, described))


_HELLO = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "benchmark", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
]


def seconds() -> dict[str, float]:
    """Return the processor time of starting this and that, the best of several."""
    best = dict.fromkeys(STARTS, float("inf"))
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        run([sys.executable, "-m", "satchel", "remember", "Ada drinks tea"], home)
        requests = home / "hello"
        requests.write_text("".join(json.dumps(each) + "\n" for each in _HELLO))
        completes = (
            "import os, sys; sys.argv = ['satchel'];"
            "os.environ.update(_SATCHEL_COMPLETE='bash_complete', COMP_WORDS='satchel re',"
            "COMP_CWORD='1'); from satchel.cli.main import main; main()"
        )
        serves = (
            f"import os, sys; sys.argv = ['satchel', 'mcp'];"
            f"os.dup2(os.open({str(requests)!r}, os.O_RDONLY), 0);"
            "from satchel.cli.main import main; main()"
        )
        for _ in range(ROUNDS):
            for name, arguments in STARTS.items():
                words = list(arguments)
                if not words[-1]:
                    words[-1] = completes if "completion" in name else serves
                ran = run([sys.executable, *words], home)
                best[name] = min(best[name], ran.seconds)
    return best


def failing_examples() -> tuple[int, int]:
    """Return how many commands of the guides fail, read one after another, and of how many."""
    sys.path.insert(0, str(ROOT / "tests" / "docs"))
    examples = import_module("test_examples")
    failed = total = 0
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        here = Path(folder) / "reader"
        here.mkdir()
        for name in [name for name in os.environ if name.startswith("SATCHEL_")]:
            patch.delenv(name)
        for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            patch.setenv(name, str(Path(folder) / name))
        examples.supply(here, patch)
        with subprocess.Popen(
            [sys.executable, "-c", examples.FORK_SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as fork_server:
            for page in examples.PAGES:
                for kind, text in _commands(examples, page):
                    total += 1
                    try:
                        if kind == "python":
                            examples.run(fork_server, ["python", text], here)
                        else:
                            examples.shell(fork_server, text, here)
                    except AssertionError as error:
                        failed += 1
                        print(f"{page.name}: {error}", file=sys.stderr)
            assert fork_server.stdin is not None
            fork_server.stdin.close()
    return failed, total


def _commands(examples: object, page: Path) -> Iterator[tuple[str, str]]:
    for _, kind, text in examples.BLOCK.findall(page.read_text("utf-8")):  # type: ignore[attr-defined]
        if kind == "python":
            yield kind, text
        else:
            yield from ((kind, line.strip()) for line in text.splitlines())


def main() -> None:
    """Print the counts."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.first_contact")
    arguments.add_argument("--before", type=Path, help="a checkout of an older version")
    arguments.add_argument("--guides", action="store_true", help="run all guides, too")
    arguments.add_argument("--where", action="store_true", help="print the places")
    options = arguments.parse_args()
    trees = {"now": ROOT}
    if options.before is not None:
        trees = {"before": options.before, **trees}
    rows = []
    for name, names in OPERATIONS.items():
        places_of_trees = {
            tree: places(folder / "src" / "satchel", names) for tree, folder in trees.items()
        }
        rows.append([name, *map(len, places_of_trees.values())])
        for tree, each in places_of_trees.items():
            if options.where:
                print(f"{name}, {tree}: {', '.join(each)}")
    print(Table("places where the parameters of an operation are written", ["", *trees], rows))
    starts = [[name, f"{least:.3f}"] for name, least in seconds().items()]
    print(f"\n{Table('processor time', ['', 'seconds'], starts)}\n")
    print(f"tokens of the core tools of MCP (o200k): {tool_tokens():,}")
    if options.guides:
        failed, total = failing_examples()
        print(f"commands of the guides that fail, read in order in one home: {failed} of {total}")


if __name__ == "__main__":
    main()
