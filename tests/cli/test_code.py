"""``satchel code``, and code symbols in recall."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from code_kit import SAMPLES, written

from satchel.bank.connections import configured_store
from satchel.config.settings import load_settings

if TYPE_CHECKING:
    from tests.cli.conftest import Run

APP = {
    "app/rates.py": (
        "class Rates:\n"
        '    """Exchange rates."""\n\n'
        "    def fetch_rates(self, day: str, *, retries: int = 3) -> dict[str, float]:\n"
        '        """Ask the bank for the rates of a day."""\n'
        "        return {}\n"
    ),
    "app/main.py": (
        "from app.rates import Rates\n\n\n"
        "def report() -> None:\n    rates = Rates()\n    rates.fetch_rates('today')\n"
    ),
}


@pytest.fixture
def app(satchel: Run, tmp_path: Path) -> Path:
    """A bank with memories of code, and the source tree they refer to."""
    for text in (
        "fetch_rates must be retried: the bank answers slowly",
        "Ada prefers tea",
        "app/rates.py is generated, do not edit it",
    ):
        assert satchel("remember", text).status == 0
    return written(tmp_path / "app-src", APP)


def test_recall_shows_signature_and_callers_of_a_named_function(satchel: Run, app: Path) -> None:
    """For a memory that is older than the code index."""
    assert "def fetch_rates" not in satchel("recall", "slowly").out
    assert satchel("code", "index", app).status == 0
    ran = satchel("recall", "slowly")
    assert "def fetch_rates(self, day: str, *, retries: int=3) -> dict[str, float]" in ran.out
    assert "called by report (app/main.py:6)" in ran.out
    assert "Ask the bank for the rates of a day." in ran.out
    (memory,) = satchel("recall", "slowly", "--json").json["memories"]
    (code,) = memory["code"]
    assert code["id"] == "app-src/app/rates.py#Rates.fetch_rates:method"
    assert code["callers"] == ["report (app/main.py:6)"]


def test_a_memory_newer_than_the_code_index_is_linked_to_code(satchel: Run, app: Path) -> None:
    """The link is created by whichever comes last."""
    assert satchel("code", "index", app).status == 0
    assert satchel("remember", "report() is run at noon").status == 0
    assert "def report() -> None" in satchel("recall", "noon").out


def test_a_link_to_missing_code_is_dropped(satchel: Run, app: Path) -> None:
    """On the next index run; a changed signature is updated."""
    assert satchel("code", "index", app).status == 0
    changed = APP["app/rates.py"].replace("retries: int = 3", "timeout: float")
    written(app, {"app/rates.py": changed})
    assert satchel("code", "index", app).status == 0
    assert "timeout: float" in satchel("recall", "slowly").out
    written(app, {"app/rates.py": "class Rates: ...\n"})
    assert satchel("code", "index", app).status == 0
    assert "fetch_rates(" not in satchel("recall", "slowly").out


def test_recall_shows_symbols_of_a_named_file(satchel: Run, app: Path) -> None:
    """By the end of its path."""
    assert satchel("code", "index", app).status == 0
    assert "class Rates" in satchel("recall", "generated").out


def test_recall_without_code_is_unchanged(satchel: Run, app: Path) -> None:
    """With ``--no-code``, and for memories that name no code."""
    before = satchel("recall", "tea", "--json").json["memories"]
    assert satchel("code", "index", app).status == 0
    assert satchel("recall", "tea", "--json").json["memories"] == before
    assert "def " not in satchel("recall", "slowly", "--no-code").out


def test_code_uses_the_budget_that_memories_leave(satchel: Run, app: Path) -> None:
    """Symbols that do not fit are omitted as a whole, and counted."""
    assert satchel("code", "index", app).status == 0
    alone = satchel("recall", "slowly", "--no-code", "--json").json["tokens"]
    small = satchel("recall", "slowly", "--budget", str(alone + 5), "--json").json
    assert (len(small["memories"]), small["code_over_budget"]) == (1, 1)
    assert small["tokens"] <= alone + 5
    whole = satchel("recall", "slowly", "--json").json["tokens"]
    enough = satchel("recall", "slowly", "--budget", str(whole), "--json").json
    assert (enough["tokens"], enough["code_over_budget"]) == (whole, 0)
    assert "code omitted" in satchel("recall", "slowly", "--budget", str(alone + 5)).err


def test_recall_works_with_a_damaged_code_index(satchel: Run, app: Path) -> None:
    """A note names the repair."""
    assert satchel("code", "index", app).status == 0
    with configured_store(load_settings()) as store, store.writing() as writing:
        (bank,) = writing.banks()
        kept = writing.side(bank, "code/names/")
        writing.put_side(bank, dict.fromkeys(kept, b"\xc1"))
    ran = satchel("recall", "slowly")
    assert (ran.status, "fetch_rates must be retried" in ran.out) == (0, True)
    assert "--rebuild" in ran.err
    assert satchel("code", "index", app, "--rebuild").status == 0
    assert "called by report" in satchel("recall", "slowly").out


def test_code_query_returns_edges(satchel: Run, app: Path) -> None:
    """CALLS, INHERITS, IMPORTS and METHOD_OF, each with how it was resolved."""
    assert satchel("code", "index", app, "--name", "app").status == 0
    assert satchel("code", "index", SAMPLES / "java", "--name", "java").status == 0

    def edges(*words: str) -> list[tuple[str, str, list[str]]]:
        found = satchel("code", "query", *words, "--json").json["edges"]
        return [(one["kind"], one["source"], one.get("targets", [])) for one in found]

    fetch = "app/app/rates.py#Rates.fetch_rates:method"
    report = "app/app/main.py#report:function"
    assert edges("--callers-of", "fetch_rates") == [("CALLS", report, [fetch])]
    assert ("CALLS", report, [fetch]) in edges("--callees-of", "report")
    rates = "app/app/rates.py#Rates:class"
    assert edges("--methods-of", "Rates") == [("METHOD_OF", fetch, [rates])]
    assert edges("--imports", "app.rates") == [
        ("IMPORTS", "app/app/main.py", ["app/app/rates.py"]),
    ]
    assert edges("--imports", "app/rates.py") == edges("--imports", "app.rates")
    cart, basket = "java/shop/Cart.java#Cart:class", "java/shop/Basket.java#Basket:class"
    assert edges("--inherits", "Basket") == [("INHERITS", cart, [basket])]
    shown = satchel("code", "show", "Rates.fetch_rates", "--json").json["symbols"]
    kinds = [edge["kind"] for edge in shown[0]["edges"]]
    assert kinds == ["DEFINED_IN", "METHOD_OF"]
    assert [one["text"][:11] for one in shown[0]["memories"]] == ["fetch_rates"]


def test_code_query_filters_symbols_by_name_file_and_kind(satchel: Run, app: Path) -> None:
    """Filters are combined."""
    assert satchel("code", "index", app).status == 0

    def names(*words: str) -> list[str]:
        found = satchel("code", "query", *words, "--json").json
        return [one["name"] for one in found.get("symbols", [])]

    assert names("--name", "fetch_*") == ["Rates.fetch_rates"]
    assert names("--name", "report") == ["report"]
    assert names("--file", "rates.py") == ["Rates", "Rates.fetch_rates"]
    assert names("--file", "app/*.py", "--kind", "class") == ["Rates"]
    assert names("--file", "rates.py", "--name", "fetch_rates") == ["Rates.fetch_rates"]
    assert sorted(names("--kind", "function")) == ["report"]
    assert names("--name", "nothing") == []


def test_ambiguous_calls_are_listed_with_candidates(satchel: Run, tmp_path: Path) -> None:
    """An unresolved call keeps its name."""
    folder = written(
        tmp_path / "t",
        {
            "a.py": "class A:\n    def go(self): ...\n\n\nclass B:\n    def go(self): ...\n",
            "b.py": "def f(x):\n    x.go()\n    x.unheard_of()\n",
        },
    )
    assert satchel("init").status == 0
    assert satchel("code", "index", folder).status == 0
    edges = satchel("code", "query", "--callees-of", "f", "--json").json["edges"]
    found = {edge["name"]: (edge.get("candidates"), edge.get("how")) for edge in edges}
    assert found == {
        "x.go": (["t/a.py#A.go:method", "t/a.py#B.go:method"], "name"),
        "x.unheard_of": (None, None),
    }
    ran = satchel("code", "query", "--callers-of", "A.go")
    assert "perhaps: 2 of that name" in ran.out


@pytest.mark.in_check(6)
@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (["index", "missing"], 4, "input.unreadable"),
        (["index", "file.py"], 4, "path.refused"),
        (["index", "missing.scip"], 4, "input.unreadable"),
        (["index", "bad.scip"], 4, "input.malformed"),
        (["index", "empty"], 4, "input.empty"),
        (["index", ".", "--name", "a/b"], 2, "usage"),
        (["index", "other/app-src"], 2, "usage"),
        (["query"], 2, "usage"),
        (["query", "--kind", "verb"], 2, "usage"),
        (["query", "--name", "x", "--limit", "0"], 2, "usage"),
        (["query", "--callers-of", "a", "--callees-of", "b"], 2, "usage"),
        (["query", "--callers-of", "nobody"], 2, "code.unknown"),
        (["query", "--methods-of", "report"], 2, "code.unknown"),
        (["query", "--imports", "missing.py"], 2, "code.unknown"),
        (["show", "nobody"], 2, "code.unknown"),
        (["drop", "nothing"], 2, "code.unknown"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_invalid_code_commands_are_refused_with_a_code(
    satchel: Run,
    app: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    status: int,
    code: str,
) -> None:
    """Nothing changes."""
    here = written(app.parent, {"file.py": "", "bad.scip": "no", "empty/a.txt": ""})
    written(here / "other" / "app-src", {"x.py": ""})
    monkeypatch.chdir(here)
    assert satchel("code", "index", app).status == 0
    before = satchel("code", "trees", "--json").json
    ran = satchel("code", *words, "--json")
    assert (ran.status, ran.error["code"]) == (status, code)
    assert satchel("code", "trees", "--json").json == before


def test_code_query_on_a_bank_without_code_names_code_index(satchel: Run) -> None:
    """An error, not an empty result."""
    assert satchel("init").status == 0
    ran = satchel("code", "query", "--name", "x", "--json")
    assert (ran.status, ran.error["code"]) == (2, "code.unknown")
    assert "satchel code index" in ran.error["hint"]
    assert satchel("code", "trees", "--json").json["trees"] == []


def test_a_moved_source_tree_is_indexed_under_its_name(
    satchel: Run, app: Path, tmp_path: Path
) -> None:
    """With the same ``--name`` it is the same tree."""
    assert satchel("code", "index", app, "--name", "rates").status == 0
    moved = app.rename(tmp_path / "elsewhere")
    done = satchel("code", "index", moved, "--name", "rates", "--json").json
    assert (done["tree"]["name"], done["tree"]["root"]) == ("rates", str(moved))
    assert len(satchel("code", "trees", "--json").json["trees"]) == 1


def test_code_drop_removes_everything_of_a_tree(satchel: Run, app: Path) -> None:
    """A dry run only reports it."""
    assert satchel("code", "index", app).status == 0
    assert satchel("code", "drop", "app-src", "--dry-run").status == 0
    assert len(satchel("code", "trees", "--json").json["trees"]) == 1
    assert satchel("code", "drop", "app-src").status == 0
    with configured_store(load_settings()) as store, store.reading() as reader:
        (bank,) = reader.banks()
        assert reader.side(bank, "code/") == {}


def test_code_index_reads_a_scip_index(satchel: Run, tmp_path: Path) -> None:
    """Recognized by its suffix, and named after its project."""

    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    symbol = b"s . . . m/Tool#use()."
    occurrence = field(2, field(1, b"\x04\x04\x07") + field(2, symbol) + b"\x18\x01")
    document = field(2, field(1, b"m.cc") + occurrence)
    path = tmp_path / "index.scip"
    path.write_bytes(field(1, field(3, b"file:///x/tools")) + document)
    assert satchel("init").status == 0
    done = satchel("code", "index", path, "--json").json
    assert (done["tree"]["name"], done["tree"]["kind"]) == ("tools", "scip")
    found = satchel("code", "query", "--name", "use", "--json").json["symbols"]
    assert [(one["name"], one["path"], one["line"]) for one in found] == [("Tool.use", "m.cc", 5)]


def test_escapes_in_source_code_do_not_reach_the_terminal(satchel: Run, tmp_path: Path) -> None:
    """Attack: escape sequences in a docstring and in a file name."""
    nasty = "\x1b]0;owned\x07\x1b[2J"
    folder = written(
        tmp_path / "t", {f"a{nasty}.py": f'def show_it():\n    """{nasty}"""\n', "b.py": ""}
    )
    assert satchel("remember", "show_it is odd").status == 0
    runs = [
        satchel("code", "index", folder),
        satchel("code", "show", "show_it"),
        satchel("code", "query", "--name", "show_it"),
        satchel("code", "query", "--name", "show_it", "--json"),
        satchel("recall", "odd"),
    ]
    assert [ran.status for ran in runs] == [0] * len(runs)
    assert not any("\x1b" in ran.out + ran.err for ran in runs)
    assert json.loads(runs[3].out)["symbols"][0]["doc"] == nasty
