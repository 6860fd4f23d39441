"""Which heads of one bank can all be true: they grow, and no two differ at one place."""

from collections.abc import Sequence

from satchel.errors import WitnessError
from satchel.ledger.witness_files.lines import DAMAGED, Tail, Witnessed, backwards, witnessed


def covers(handle: int, newest: Tail, last: Witnessed | None, new: Witnessed) -> bool:
    """Tell whether a file needs no line for a head.

    Args:
        handle: Descriptor of the file.
        newest: Its end.
        last: What its newest line says; None when there is none.
        new: The head.

    Raises:
        WitnessError: If the head and the file cannot both be true, or a line is damaged.
    """
    if last is None or new.place > last.place:
        return False
    epoch, bank = new.head.epoch, new.head.bank
    if epoch < last.head.epoch:
        raise WitnessError(
            f"this head is of epoch {epoch}, and epoch {last.head.epoch} was witnessed",
            hint="The bank was rolled back or restored by another process: open it again.",
        )
    for line in backwards(handle, newest):
        held = witnessed(line, bank)
        if held.place < new.place:
            break
        if held.place == new.place and held.head.root != new.head.root:
            raise WitnessError(
                f"another head of epoch {epoch} and size {new.head.size} was witnessed: the bank"
                f" was forked; {held.head.root} was seen, {new.head.root} is new",
                hint="Keep both copies of the store, and find out which one is yours.",
            )
    return True


def checked_lines(lines: Sequence[bytes], bank: str) -> list[Witnessed]:
    """Return what the lines of a whole file say.

    Raises:
        WitnessError: If one is damaged, or they do not grow.
    """
    found: list[Witnessed] = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(witnessed(line, bank))
        except WitnessError as error:
            raise error.located(line=number) from None
        if number > 1 and found[-1].place <= found[-2].place:
            raise WitnessError("the heads do not grow", line=number, hint=DAMAGED)
    return found
