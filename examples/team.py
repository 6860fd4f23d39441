"""A team shares work: each agent gets a part of the memory, and none can export it.

``python examples/team.py``. The owner's memory is in ``SATCHEL_HOME``; the tokens are written into
the folder named on the command line, or the current one.
"""

import sys
from pathlib import Path

from satchel import Bank, Keys, Satchel, SatchelError


def main(folder: Path) -> None:
    """Run the agents one after the other."""
    for name in ("manager", "specialist"):
        Keys().create(name)  # in production, each agent creates its own key on its machine
    with Satchel.open() as satchel:
        bank = satchel.bank()
        bank.remember("Ship the import on Friday", type="working", tags=["plan"])
        bank.remember("Run make check before each commit", type="procedural", tags=["build"])
        bank.remember("Ada Lovelace pays by invoice", tags=["customer"])
        share(bank, folder)
    for name in ("manager", "specialist"):
        with Satchel.open(token=folder / f"{name}.token") as satchel:
            print(f"{name}:")
            work(satchel.bank(), folder)


def share(bank: Bank, folder: Path) -> None:
    """Issue each agent a token for its work, with an expiry."""
    bank.tokens.issue(
        audience="manager",
        types=["working"],
        permissions=["read", "write"],
        expires="7d",
        output=folder / "manager.token",
    )
    bank.tokens.issue(
        audience="specialist",
        types=["procedural"],
        permissions=["read", "derive"],
        expires="12h",
        output=folder / "specialist.token",
    )


def work(bank: Bank, folder: Path) -> None:
    """List and recall memories, and try to export them."""
    for memory in bank.list():
        print(f"  sees: {memory.text}")
    print(f"  knows about Ada: {len(bank.recall('Ada Lovelace').memories)}")
    try:
        bank.export(folder / "out.pam")
    except SatchelError as error:
        print(f"  cannot export: {error.message}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
