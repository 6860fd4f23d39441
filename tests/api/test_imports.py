"""What importing the package loads, and what it shows of itself."""

import inspect
import json
import pydoc
import subprocess
import sys

import pytest

import satchel
from satchel import Bank, Satchel
from satchel.errors import BankExistsError, UnknownBankError

HEAVY = (
    *("msgspec", "blake3", "nacl", "cbor2", "apsw", "rich", "click", "numpy", "sqlite3"),
    *("asyncio", "satchel.bank.open_bank", "satchel.formats", "satchel.ledger", "satchel.artifact"),
    *("satchel.stores", "satchel.ports", "satchel.recall", "satchel.transfer"),
)


def _loaded(code: str) -> set[str]:
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
    """What a program does not use yet costs it nothing."""
    assert _loaded(code).isdisjoint(HEAVY)


def test_every_public_class_and_function_is_listed() -> None:
    """A person who explores the package in a shell finds them, and no helpers."""
    shown = {name for name in dir(satchel) if not name.startswith("__")}
    assert shown == set(satchel.__all__)
    text = pydoc.plain(pydoc.render_doc(satchel))
    for name in satchel.__all__:
        assert name in text.partition("CLASSES")[2]


def test_methods_show_their_real_parameters() -> None:
    """In ``help``, in a notebook, and to whoever asks for a signature."""
    parameters = inspect.signature(Bank.recall).parameters
    assert {"text", "limit", "tags", "since", "user"} <= parameters.keys()
    assert Bank.recall.__qualname__ == "Bank.recall"
    with Satchel.open() as store:
        bank = store.bank()
        assert "limit" in inspect.signature(bank.recall).parameters
        assert "self" not in inspect.signature(bank.recall).parameters
        assert "Maximum number of memories" in pydoc.render_doc(bank.recall)


def test_a_bank_is_opened_or_created_by_one_call() -> None:
    """The second time it is there; without ``create`` it has to be."""
    with Satchel.open() as store:
        store.bank()
        first = store.bank("web", create=True)
        assert store.bank("web", create=True).id == first.id == store.bank("web").id
        with pytest.raises(BankExistsError) as exists:
            store.create_bank("web")
        assert exists.value.field == "name"
        with pytest.raises(UnknownBankError):
            store.bank("blog")


def test_errors_name_calls_and_not_commands() -> None:
    """What a Python program can do about it is a call; the other interfaces name commands."""
    with Satchel.open() as store:
        store.bank()
        with pytest.raises(UnknownBankError) as raised:
            store.bank("blog")
    assert "satchel bank" not in str(raised.value)
    assert "store.bank" in str(raised.value)
    assert "satchel bank list" in str(raised.value.problem()["hint"])
