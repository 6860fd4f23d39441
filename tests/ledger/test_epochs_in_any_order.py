"""Appends, old copies and owners' decisions in any order: nothing is ever lost in silence."""

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st
from ledger_kit import created
from machines_kit import Machine, actions, backup, head_of, put_back

from satchel.crypto.keys import SigningKey
from satchel.errors import ForkedError, ReadOnlyStoreError, RolledBackError
from satchel.ledger.authority import DECISIONS
from satchel.ledger.witness import Witness
from satchel.stores.memory import InMemoryStore

_WRITERS = [SigningKey.from_seed(bytes([number]) * 32) for number in (1, 2)]
_SEVERAL = range(len(_WRITERS))
_who = st.integers(0, len(_WRITERS) - 1)
_steps = st.one_of(
    st.tuples(st.sampled_from(["add", "add", "accept", "restore"]), _who),
    st.tuples(st.just("keep"), st.just(0)),
    st.tuples(st.just("put back"), st.integers(0, 3)),
)


class _World:
    """Two machines at one store, the copies that were taken, and what each machine saw."""

    def __init__(self, root: Path) -> None:
        self.store = InMemoryStore()
        bank = created(self.store, Witness(root / "0")).bank
        self.machines = [
            Machine(self.store, bank, root / str(number), writer=_WRITERS[number])
            for number in _SEVERAL
        ]
        for one in self.machines:
            one.decider().admit()
        self.copies = [backup(self.store)]
        self.told = [self.raw_ids() for _ in _SEVERAL]
        self.told[0] = self.told[0][:-1]  # the admission of the other came after
        self.made = 0

    def raw_ids(self) -> list[str]:
        """Return the IDs in the store, without any verification."""
        bank = self.machines[0].bank
        return [row.id for row in self.store._banks[bank].rows]

    def step(self, action: str, number: int) -> None:
        """Do one thing; if it is refused, nothing changed."""
        self.made += 1
        if action == "keep":
            self.copies.append(backup(self.store))
        elif action == "put back":
            put_back(self.store, self.copies[number % len(self.copies)])
        else:
            one = self.machines[number]
            before = self.raw_ids()
            with suppress(RolledBackError, ForkedError, ReadOnlyStoreError):
                if action == "add":
                    one.add(1, start=self.made)
                elif action == "accept":
                    one.decider().accept_rollback()
                    assert one.notes() == ()
                else:
                    one.decider().accept_restore()
                    assert one.notes() == ()
                self.told[number] = self.raw_ids()
                return
            assert self.raw_ids() == before

    def check(self) -> None:
        """Require that each machine reads all it saw, gets a note, or is refused."""
        raw, bank = self.raw_ids(), self.machines[0].bank
        decisions = [action for action in actions(self.store, bank) if action in DECISIONS]
        for one, told in zip(self.machines, self.told, strict=True):
            kept = raw[: len(told)] == told
            try:
                with one.ledger().reading() as view:
                    found = [logged.record.id for logged in view.scan()]
                    noted = bool(view.notes)
            except (RolledBackError, ForkedError):
                assert not kept
                continue
            assert found == raw
            assert noted is not kept
            assert not noted or decisions
        if head_of(self.store, bank).epoch == 0:
            assert not decisions


@given(steps=st.lists(_steps, max_size=14))
def test_a_machine_in_any_history_reads_what_it_saw_or_gets_the_reason(
    steps: list[tuple[str, int]],
) -> None:
    """Without an owner's decision in the log, what a machine saw exists or the read is refused."""
    with TemporaryDirectory() as root:
        world = _World(Path(root))
        world.check()
        for action, number in steps:
            world.step(action, number)
            world.check()
