"""``Satchel`` and ``Bank``: the Python interface."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import satchel
from satchel import Bank, Satchel
from satchel.bank import changes, listings
from satchel.bank.lifetime import Lifetime
from satchel.errors import (
    ClosedError,
    ReadOnlyStoreError,
    RetiredMemoryError,
    SatchelError,
    UnknownBankError,
    UsageError,
    ValueRefusedError,
)
from satchel.model.records import Procedural
from satchel.model.values import Scope


def test_memories_persist_across_runs() -> None:
    """Without any setup."""
    with Satchel.open() as store:
        store.bank().remember("Ada takes her tea without sugar", tags=["tea"], user="ada")
    with Satchel.open() as store:
        bank = store.bank()
        assert [memory.text for memory in bank.list(tags="tea")] == [
            "Ada takes her tea without sugar"
        ]
        assert bank.name == "default"


def test_update_correct_forget_and_restore_change_a_memory() -> None:
    """And show, list, stats, history and raw return the result."""
    with Satchel.open() as store:
        bank = store.bank()
        first = bank.remember("one", metadata={"a": 1}, key="k", salience=0.5)
        second = bank.update(first.id, "two", metadata={"b": 2}, add_tags=["t"], reason="why")
        third = bank.correct(second.id, "three", actor="me")
        assert (third.replaces, bank.show(third.id).state) == (second.id, "current")
        (memory,) = bank.list()
        assert (memory.text, memory.metadata, memory.tags) == ("three", {"a": 1, "b": 2}, ["t"])
        assert (memory.salience, memory.key) == (0.5, "k")
        assert bank.forget(third.id[:20], reason="r")[0].is_changed
        assert len(bank.list()) == 0
        assert bank.restore(third.id)[0].is_changed
        assert bank.stats().memories == 1
        assert len(bank.history(first.id).versions) == 3
        assert b'"three"' in bank.raw(third.id)
        cleared = bank.update(third.id, tags=None, salience=None, metadata=None)
        assert cleared.fields == ["metadata", "salience", "tags"]


def test_remember_accepts_an_entry_or_its_members() -> None:
    """Keyword arguments override members; scopes are merged."""
    with Satchel.open() as store:
        bank = store.bank()
        entry = Procedural(name="deploy", tags=("a",), scope=Scope(user="ada"))
        one = bank.remember(entry, tags=("b",), agent="g", kind="k")
        found = bank.show(one.id).record
        assert (found["type"], found["name"], found["tags"]) == ("procedural", "deploy", ["b"])
        assert found["scope"] == {"user": "ada", "agent": "g"}
        two = bank.remember({"type": "episodic", "observation": "seen", "novel": 1})
        assert bank.show(two.id).record["novel"] == 1
        three = bank.remember(data={"a": [1]}, members={"subject": "s"}, parents=[one.id, two.id])
        found = bank.show(three.id).record
        assert (found["data"], found["subject"]) == ({"a": [1]}, "s")
        assert found["parent_ids"] == [one.id, two.id]
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        four = bank.remember("x", occurred_at=moment, expires_at=moment)
        assert bank.show(four.id).state == "expired"
        assert len(bank.list(type=("procedural", "episodic"))) == 2


WRONG: list[tuple[Callable[[Bank], object], type[Exception], str | None]] = [
    (lambda bank: bank.remember("x", occurred_at="soon"), UsageError, "occurred_at"),
    (lambda bank: bank.remember("\ud800"), ValueRefusedError, "text"),
    (lambda bank: bank.remember("x", metadata={"a": object()}), ValueRefusedError, "metadata/a"),
    (lambda bank: bank.remember("x", salience="high"), ValueRefusedError, "salience"),  # type: ignore[arg-type]
    (lambda bank: bank.update("nonsense", "x"), UsageError, "id"),
    (lambda bank: bank.list(limit=0), UsageError, "limit"),
    (lambda bank: bank.forget([]), UsageError, "id"),
    (lambda bank: bank.history("0" * 9), UsageError, "id"),
]


@pytest.mark.parametrize(("call", "error", "field"), WRONG, ids=range(len(WRONG)))
def test_errors_have_a_code_and_a_field(
    call: Callable[[Bank], object], error: type[SatchelError], field: str
) -> None:
    """A program need not parse the message."""
    with Satchel.open() as store:
        with pytest.raises(error) as raised:
            call(store.bank())
        assert (raised.value.field, bool(raised.value.code)) == (field, True)


@pytest.mark.parametrize("verb", ["remember", "update", "correct", "list"])
def test_a_misspelled_argument_is_refused(verb: str) -> None:
    """It is not stored as a member of the memory."""
    with Satchel.open() as store:
        bank: Any = store.bank()
        with pytest.raises(TypeError, match="tagz"):
            getattr(bank, verb)(*([] if verb == "list" else ["x"]), tagz=["a"])
        assert bank.stats().records == 2


def test_the_error_for_a_retired_memory_has_the_current_id() -> None:
    """As an attribute of the error."""
    with Satchel.open() as store:
        bank = store.bank()
        old = bank.remember("old").id
        new = bank.update(old, "new").id
        with pytest.raises(RetiredMemoryError) as raised:
            bank.correct(old, "x")
        assert raised.value.current == new


def test_banks_are_created_listed_and_opened_by_name(tmp_path: Path) -> None:
    """A store can have a default bank."""
    path = tmp_path / "own.db"
    with Satchel.open(path, bank="two") as store:
        one, two = store.create_bank("one"), store.create_bank("two")
        one.remember("in one")
        assert store.bank().id == two.id
        assert store.bank("one").list().memories[0].text == "in one"
        assert [line.name for line in store.list_banks()] == ["one", "two"]
        with pytest.raises(UnknownBankError):
            store.bank("three")
        with pytest.raises(UsageError):
            store.create_bank("one")
    with Satchel.open(f"sqlite:///{path}") as store, pytest.raises(UsageError):
        store.bank()


def test_a_read_only_store_is_not_created_or_changed(tmp_path: Path) -> None:
    """Writes raise an error."""
    with pytest.raises(UnknownBankError):
        Satchel.open(tmp_path / "none.db", read_only=True)
    assert not (tmp_path / "none.db").exists()
    with Satchel.open() as store:
        store.bank().remember("x")
    with Satchel.open(read_only=True) as store:
        assert len(store.bank().list()) == 1
        for call in (lambda: store.bank().remember("y"), lambda: store.create_bank("z")):
            with pytest.raises(ReadOnlyStoreError):
                call()


def test_a_closed_store_raises_and_can_be_closed_again() -> None:
    """As do its banks."""
    store = Satchel.open()
    bank = store.bank()
    store.close()
    store.close()
    for call in (store.bank, store.list_banks, bank.list, bank.stats, lambda: bank.remember("x")):
        with pytest.raises(ClosedError):
            call()
    assert bank.name == "default"


def test_close_waits_for_running_calls() -> None:
    """A connection is not closed while a thread reads."""
    order = list[str]()
    lifetime = Lifetime(lambda: order.append("ended"))
    inside, go = threading.Event(), threading.Event()

    def work() -> None:
        with lifetime.use():
            inside.set()
            go.wait(10)
            order.append("worked")

    worker = threading.Thread(target=work)
    worker.start()
    assert inside.wait(10)
    closer = threading.Thread(target=lifetime.close)
    closer.start()
    while True:  # until new calls are refused
        try:
            with lifetime.use():
                pass
        except ClosedError:
            break
    assert order == []
    go.set()
    worker.join(10)
    closer.join(10)
    assert order == ["worked", "ended"]


def test_concurrent_threads_share_a_bank() -> None:
    """Each call is durable when it returns, and none is lost."""
    errors, ids = list[BaseException](), list[str]()
    with Satchel.open() as store:
        bank = store.bank()

        def work(who: int) -> None:
            try:
                for turn in range(10):
                    ids.append(bank.remember(f"{who} {turn}").id)
                    assert len(bank.list(limit=3)) > 0
            except BaseException as error:  # noqa: BLE001 - of another thread
                errors.append(error)

        threads = [threading.Thread(target=work, args=(who,)) for who in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert errors == []
        assert {memory.id for memory in bank.list(limit=100)} == set(ids)
        assert len(ids) == 60


_FORKING = """
import os, sys, threading
from satchel import Satchel

with Satchel.open() as store:
    bank = store.bank()
    bank.remember("before")
    stop = threading.Event()
    def busy():
        while not stop.is_set():
            bank.list()
    thread = threading.Thread(target=busy)
    thread.start()
    child = os.fork()
    if not child:
        for turn in range(5):
            bank.remember(f"child {turn}")
        assert len(bank.list()) >= 6
        store.close()
        os._exit(0)
    for turn in range(5):
        bank.remember(f"parent {turn}")
    assert os.waitpid(child, 0)[1] == 0
    stop.set()
    thread.join()
    print(len(bank.list()))
"""


def test_parent_and_child_work_after_a_fork() -> None:
    """Even if a thread was reading at the fork; the child can close the store."""
    words = [sys.executable, "-W", "ignore", "-c", _FORKING]
    ran = subprocess.run(words, capture_output=True, timeout=60, check=False, env=dict(os.environ))
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"11\n", b"")


def test_import_satchel_loads_no_submodules() -> None:
    """An unused import costs nothing."""
    program = "import satchel, sys; print(*sorted(n for n in sys.modules if 'satchel.' in n))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert ran.stdout.split() == []
    assert satchel.Satchel is Satchel


def test_python_calls_the_shared_operations_with_all_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The ones that the command line calls."""
    said: dict[str, Any] = {}

    def noted(_: object, wanted: Any, *rest: Any, **more: Any) -> Any:
        said["all"] = (wanted, rest, more)

    monkeypatch.setattr(changes, "forget", noted)
    monkeypatch.setattr(listings, "list_memories", noted)
    with Satchel.open() as store:
        bank = store.bank()
        bank.forget(["a", "b"], reason="r", actor="x", dry_run=True)
        options = {"reason": "r", "actor": "x", "dry_run": True}
        assert said["all"] == (("a", "b"), (), options)
        bank.list(type="episodic", tags="t", kind="k", key="y", all=True, as_of=3, after=9)
        wanted = said["all"][0]
        assert (wanted.types, wanted.tags, wanted.kind) == (("episodic",), ("t",), "k")
        assert (wanted.key, wanted.everything, wanted.as_of, wanted.after) == ("y", True, 3, 9)


def test_vectors_and_near_duplicates_are_available_in_python() -> None:
    """As on the command line."""
    with Satchel.open() as store:
        bank = store.bank()
        for text in ("Ada prefers window seats on flights", "Ada prefers a window seat on flights"):
            bank.remember(text)
        made, found = bank.embed("static"), bank.duplicates()

        assert (made.made, made.model) == (2, "wordllama-l2-256-int8")
        assert [pair.like.text for pair in found.pairs] == ["Ada prefers window seats on flights"]
        with pytest.raises(UsageError):
            bank.embed("nope")
        with pytest.raises(UsageError):
            bank.import_(__file__, near_duplicates="nope")  # type: ignore[arg-type]
