"""A process that forks while it works: parent and child both continue and lose nothing."""

import os
import subprocess
import sys
from pathlib import Path

import apsw
import pytest
from ledger_kit import created, listed, opened, require_not_ahead

from satchel.ledger.witness import Witness
from satchel.stores.sqlite import SqliteStore

# In a process of its own: the one of the tests may have threads that a fork would not take along.
_PROGRAM = """
import os, signal, sys, threading
from pathlib import Path

from ledger_kit import listed, opened

from satchel.errors import StoreError
from satchel.model.records import Semantic
from satchel.crypto.sealed_records import seal
from satchel.stores.sqlite import SqliteStore

signal.alarm(20)
path, witness, bank, case = sys.argv[1:]
store = SqliteStore(Path(path))
ledger = opened(store, bank, Path(witness))

def add(who, count):
    for turn in range(count):
        ledger.append([seal(Semantic(text=f"{who} {turn}"))])

class Gate:
    inside, go = threading.Event(), threading.Event()

def pausing(writing):
    # The append of the other thread stops where everything is written and nothing committed.
    append = writing.append
    def paused(bank, commit):
        append(bank, commit)
        Gate.inside.set()
        Gate.go.wait(10)
    return paused

def work():
    original = type(store).writing
    from contextlib import contextmanager
    @contextmanager
    def slowly():
        with original(store) as writing:
            writing.append = pausing(writing)
            yield writing
    store.writing = slowly
    ledger.append([seal(Semantic(text="under way 0"))])
    del store.writing
    add("thread", 5)

def fork_and_go_on():
    child = os.fork()
    who = "parent" if child else "child"
    signal.alarm(20)
    before = len(listed(ledger))
    add(who, 5)
    assert len(listed(ledger)) >= before + 5
    return child

def end(child):
    if not child:
        store.close()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    add("after", 5)
    store.close()
"""
_CASES = {
    # Nothing under way, but a connection open.
    "idle": "end(fork_and_go_on())",
    # Within a view, which the parent goes on reading, and the child leaves.
    "view": """
child = None
with ledger.reading() as view:
    rows = view.scan()
    first = next(rows)
    child = os.fork()
    if child:
        size = view.head.size
        assert 1 + len(list(rows)) == size == len(list(view.scan()))
    else:
        try:
            list(view.scan())
        except StoreError:
            pass
        else:
            os._exit(7)
signal.alarm(20)
add("parent" if child else "child", 5)
end(child)
""",
    # With an append of another thread between writing and committing.
    "append": """
other = threading.Thread(target=work)
other.start()
Gate.inside.wait(10)
threading.Timer(0.05, Gate.go.set).start()
child = fork_and_go_on()
if child:
    other.join()
end(child)
""",
    # With threads that append all the time.
    "busy": """
others = [threading.Thread(target=add, args=(f"thread {n}", 8)) for n in range(3)]
for other in others:
    other.start()
children = []
for n in range(3):
    child = os.fork()
    if not child:
        signal.alarm(20)
        add(f"child {n}", 3)
        end(0)
    children.append(child)
for other in others:
    other.join()
for child in children[:-1]:
    assert os.waitpid(child, 0)[1] == 0
end(children[-1])
""",
}
_ADDED = {"idle": 15, "view": 15, "append": 21, "busy": 38}


@pytest.mark.in_check(2)
@pytest.mark.parametrize("case", _CASES)
def test_parent_and_child_continue_after_a_fork(case: str, tmp_path: Path) -> None:
    """With an open view, with an append of another thread, with many: nothing is lost."""
    database, witness = tmp_path / "store" / "satchel.db", tmp_path / "witness"
    database.parent.mkdir()
    store = SqliteStore(database)
    bank = created(store, Witness(witness)).bank
    store.close()
    kit = Path(created.__code__.co_filename).parent
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM + _CASES[case], database, witness, bank, case],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(kit), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    store = SqliteStore(database)
    ledger = opened(store, bank, witness)
    require_not_ahead(witness, ledger)
    ids = listed(ledger)
    store.close()
    assert len(ids) == len(set(ids)) == 2 + _ADDED[case]
    connection = apsw.Connection(str(database))
    assert connection.execute("PRAGMA integrity_check").get == "ok"
    connection.close()
