"""Vectors without being asked: those of the models that come along, made where they are missed.

What is remembered is durable and found by its words at once; nothing waits for a vector. An
import of no more than a step ends with one, and so does a question begin.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Lock

from satchel.actions.config import Settings
from satchel.actions.inferring.models import keeping
from satchel.actions.opened import OpenBank, opened_bank
from satchel.errors import SatchelError
from satchel.recall import keeping_up

STEP = 512
"""What a step may cost: short memories that are looked at, about a tenth of a millisecond each."""

_at_it = set[tuple[int, int, str]]()
_changing = Lock()


def keep_up(bank: OpenBank, most: int = STEP) -> int:
    """Make vectors that a bank's memories lack, and return how many.

    Nothing is done for the holder of a token, in a bank that is open for reading, or where the
    settings say so; nothing that goes wrong with it hinders anybody. Nor where another thread is at
    it for the same bank: many who ask at once would all make the same vectors.
    """
    if bank.bearer is not None or not bank.ledger.writes:
        return 0
    with suppress(SatchelError), _alone(bank) as is_alone:
        if is_alone:
            return keeping_up.keep_up(bank.store, bank.ledger, keeping(bank.settings), most)
    return 0


@contextmanager
def _alone(bank: OpenBank) -> Iterator[bool]:
    """Tell whether no other thread of this process is at it, and keep them away if so."""
    name = os.getpid(), id(bank.store), bank.id
    with _changing:
        is_alone = name not in _at_it
        _at_it.add(name)
    try:
        yield is_alone
    finally:
        if is_alone:
            with _changing:
                _at_it.discard(name)


@contextmanager
def opened_to_ask(
    settings: Settings,
    wanted: str | None,
    text: str,
    *,
    also: Callable[[OpenBank], bool] = lambda _: False,
) -> Iterator[OpenBank]:
    """Open a bank for a question: for reading, unless something is to be written for it first.

    Args:
        settings: Where it is.
        wanted: Which, as ``opened_bank`` takes it.
        text: The question; vectors that are missing are made for one in words.
        also: Tells whether anything else is to be written first.

    Raises:
        SatchelError: As ``opened_bank``.
    """
    with ExitStack() as stack:
        opened = stack.enter_context(opened_bank(settings, wanted))
        if not (text.strip() and (_is_behind(opened) or also(opened))):
            yield opened
            return
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(opened_bank(settings, wanted, writes=True))
        except SatchelError:  # what cannot be written can be read
            opened = stack.enter_context(opened_bank(settings, wanted))
        yield opened


def _is_behind(bank: OpenBank) -> bool:
    if bank.bearer is not None:
        return False
    with suppress(SatchelError), bank.ledger.reading() as view:
        return keeping_up.is_behind(view, keeping(bank.settings))
    return False
