"""The public package: what an import loads, what it lists, and what type checkers see."""

import inspect
import json
import pydoc
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import satchel
from satchel import Bank, Satchel
from satchel.errors import BankExistsError, UnknownBankError

HEAVY = (
    *("msgspec", "blake3", "nacl", "cbor2", "apsw", "rich", "click", "numpy", "sqlite3"),
    *("asyncio", "satchel.bank.open_bank", "satchel.formats", "satchel.ledger", "satchel.artifact"),
    *("satchel.stores", "satchel.ports", "satchel.recall", "satchel.transfer"),
)


def _loaded_modules(code: str) -> set[str]:
    """Return the modules that a new process has loaded after a statement."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport json, sys; print(json.dumps(list(sys.modules)))"],
        check=True,
        capture_output=True,
        text=True,
    )
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("code", ["import satchel", "from satchel import Satchel"])
def test_importing_the_class_loads_neither_engines_nor_libraries(code: str) -> None:
    """A program pays only for what it uses."""
    assert _loaded_modules(code).isdisjoint(HEAVY)


def test_every_public_class_and_function_is_listed() -> None:
    """By ``dir`` and ``help``, without helpers."""
    shown = {name for name in dir(satchel) if not name.startswith("__")}
    assert shown == set(satchel.__all__)
    text = pydoc.plain(pydoc.render_doc(satchel))
    for name in satchel.__all__:
        assert name in text.partition("CLASSES")[2]


def test_methods_show_their_real_parameters() -> None:
    """In ``help``, in a notebook and in signatures."""
    parameters = inspect.signature(Bank.recall).parameters
    assert {"text", "limit", "tags", "since", "user"} <= parameters.keys()
    assert Bank.recall.__qualname__ == "Bank.recall"
    with Satchel.open() as store:
        bank = store.bank()
        assert "limit" in inspect.signature(bank.recall).parameters
        assert "self" not in inspect.signature(bank.recall).parameters
        assert "Maximum number of memories" in pydoc.render_doc(bank.recall)


def test_a_bank_is_opened_or_created_by_one_call() -> None:
    """Without ``create`` the bank has to exist."""
    with Satchel.open() as store:
        store.bank()
        first = store.bank("web", create=True)
        assert store.bank("web", create=True).id == first.id == store.bank("web").id
        with pytest.raises(BankExistsError) as exists:
            store.create_bank("web")
        assert exists.value.field == "name"
        with pytest.raises(UnknownBankError):
            store.bank("blog")


def test_errors_in_python_suggest_calls_and_not_commands() -> None:
    """The other interfaces suggest commands."""
    with Satchel.open() as store:
        store.bank()
        with pytest.raises(UnknownBankError) as raised:
            store.bank("blog")
    assert "satchel bank" not in str(raised.value)
    assert "store.bank" in str(raised.value)
    assert "satchel bank list" in str(raised.value.problem()["hint"])


# -- type checkers -----------------------------------------------------------------------


CONSUMER = Path(__file__).parents[1] / "consumer"


@pytest.fixture
def consumer(tmp_path: Path) -> Path:
    """A copy of the project."""
    return Path(shutil.copytree(CONSUMER, tmp_path / "consumer"))


def _pyright(project: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pyright", "--outputjson"),
            *("-p", project, "--pythonpath", sys.executable),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == 3, done.stderr
    errors: list[dict[str, Any]] = found["generalDiagnostics"]
    return errors


def test_pyright_sees_every_keyword_and_every_attribute(consumer: Path) -> None:
    """In strict mode; it reports each deliberate mistake of the program."""
    assert _pyright(consumer) == []


@pytest.mark.prove
def test_pyright_reports_a_wrong_keyword(consumer: Path) -> None:
    """Without the comments that expect the errors."""
    for name in ("plain.py", "awaited.py"):
        path = consumer / "diary" / name
        text = path.read_text().replace("# pyright: ignore[reportCallIssue]", "")
        path.write_text(text)
    assert {(Path(each["file"]).name, each["rule"]) for each in _pyright(consumer)} == {
        ("plain.py", "reportCallIssue"),
        ("awaited.py", "reportCallIssue"),
    }


@pytest.mark.prove
def test_mypy_sees_every_keyword_and_every_attribute(consumer: Path) -> None:
    """In strict mode, without the settings of this repository."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", consumer / "cache", "diary"],
        cwd=consumer,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
