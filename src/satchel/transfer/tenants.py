"""Whose memory goes into which bank: by its owner, or as a person says.

A file that names no owner at all goes into the default bank, and so does the export of one person's
account. In any other file that names owners, a record without one is refused; it is never given to
whoever comes first.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, cast

from satchel.errors import MalformedError, NoOwnerError, UsageError
from satchel.ports.rows import Row
from satchel.transfer.import_plan import Owner, owner_of

_SORTS = ("user", "agent", "run")
_NAMED = 10
_NOBODY: Owner = ("", "")
OneOwner = Literal["unowned", "personal"]
"""Why a file whose bank nobody named goes into one bank: it names no owner, or is one person's."""


def maps_from(texts: Iterable[str]) -> dict[Owner, str]:
    """Return which bank each owner's memory goes into, from texts as ``user:ada=bank-ada``.

    Raises:
        UsageError: If a text is not of that form, or two speak of one owner.
    """
    found = dict[Owner, str]()
    for text in texts:
        owner, _, bank = text.rpartition("=")
        sort, _, name = owner.partition(":")
        if sort not in _SORTS or not name.strip() or not bank.strip():
            raise UsageError(
                f"not an owner and a bank: {text!r}",
                field="map",
                hint="Use user:NAME=BANK, agent:NAME=BANK or run:NAME=BANK.",
            )
        key = _owner(sort, name)
        if found.setdefault(key, bank) != bank:
            raise UsageError(f"{sort}:{name} is mapped to two banks", field="map")
    return found


class TenantRouter:
    """Sends each record to the bank that it goes into, and remembers whose there were.

    Args:
        wanted: The bank that everything goes into; None for one for each owner.
        maps: Owners whose memory goes into another bank than the one that has their name.
        counting: Whether to count owners also where everything goes into one bank.
        one_owner: Whether everything goes into one bank since no record names an owner, or, of a
            personal export, since all is of one person; None where a person named the bank.

    Raises:
        UsageError: If everything goes into one bank, and owners are sent to others.
    """

    def __init__(
        self,
        wanted: str | None,
        maps: dict[Owner, str],
        *,
        counting: bool = False,
        one_owner: OneOwner | None = None,
    ) -> None:
        if wanted is not None and maps:
            raise UsageError(
                "use one bank for everything, or one for each owner",
                field="map",
                hint="Drop --bank or --map.",
            )
        self._wanted = wanted
        self._maps = maps
        self._counting = counting
        self._one_owner = one_owner
        self._is_personal = one_owner == "personal"
        self.owners = Counter[Owner]()
        self._number = 0

    def begin(self) -> None:
        """Forget what was read; it is going to be read again."""
        self.owners.clear()
        self._number = 0

    def is_mapped(self, owner: Owner) -> bool:
        """Tell whether a person said where an owner's memory goes."""
        return owner in self._maps

    def is_said(self, bank: str) -> bool:
        """Tell whether a person named a bank, which may then be told by its id."""
        return self._wanted is not None or bank in self._maps.values()

    def bank_of(self, owner: Owner) -> str | None:
        """Return the name of the bank that an owner's memory goes into; None for none."""
        sort, name = owner
        if self._wanted is not None:
            return self._wanted
        mapped = self._maps.get(owner)
        if mapped is not None:
            return mapped
        return name if sort in ("user", "agent") and name.strip() else None

    def routed(self, rows: Sequence[Row], file: str) -> dict[str, Sequence[Row]]:
        """Return records by the name of the bank that they go into.

        Raises:
            MalformedError: If it cannot be proven whose a record is, naming which.
        """
        if self._wanted is not None:
            if self._one_owner is not None:
                self._require_one_owner(rows, file)
            elif self._counting:
                self.owners.update(map(owner_of, rows))
            return {self._wanted: list(rows)}
        found = dict[str, list[Row]]()
        for row in rows:
            owner = owner_of(row)
            bank = self.bank_of(owner)
            if bank is None:
                raise self._ownerless(row, owner, file)
            self.owners[owner] += 1
            self._number += 1
            found.setdefault(bank, []).append(row)
        return dict(found)

    def require_said(self, file: str) -> None:
        """Refuse what nobody said: owners that are not there, and several owners in one bank.

        Raises:
            UsageError: If there are such.
        """
        absent = [owner for owner in self._maps if owner not in self.owners]
        if absent:
            raise UsageError(
                f"the file has no memories of {_shown(absent)}",
                file=file,
                field="map",
                hint=f"It has memories of: {_shown(self.owners)}.",
            )
        for bank, owners in self._shared():
            raise UsageError(
                f"memory of {_shown(owners)} would go into one bank, {bank!r}",
                file=file,
                field="map",
                hint="To allow that, map each owner (--map), or use one bank for all: --bank NAME.",
            )

    def _shared(self) -> Iterator[tuple[str, list[Owner]]]:
        if self._wanted is not None:
            return
        by_bank = dict[str, list[Owner]]()
        for owner in self.owners:
            by_bank.setdefault(str(self.bank_of(owner)), []).append(owner)
        for bank, owners in by_bank.items():
            if len(owners) > 1 and not all(owner in self._maps for owner in owners):
                yield bank, owners

    def _require_one_owner(self, rows: Sequence[Row], file: str) -> None:
        for row in rows:
            owner = owner_of(row)
            if owner != _NOBODY and owner not in self.owners:
                self.owners[owner] += 1
                if not self._is_personal or len(self.owners) > 1:
                    others = (
                        "name no user or agent"
                        if not self._is_personal
                        else "belong to another owner"
                    )
                    raise MalformedError(
                        f"this record belongs to {_shown([owner])}, and other records {others}",
                        file=file,
                        field=str(self._number),
                        hint="Use one bank for all: --bank NAME.",
                    )
            self._number += 1

    def _ownerless(self, row: Row, owner: Owner, file: str) -> MalformedError:
        sort, name = owner
        kind = "conversation" if row.type == "session_event" else f"{row.type} memory"
        if sort == "run":
            what = f"this {kind} names only a run ({name!r}), and no user or agent"
        else:
            what = f"this {kind} names no user or agent"
            what += ", and other records of the file do" if self.owners else ""
        more = f" Or map the run: --map run:{name}=BANK." if sort == "run" else ""
        is_first = owner == _NOBODY and not self.owners and not self._maps
        return (NoOwnerError if is_first else MalformedError)(
            what,
            file=file,
            field=str(self._number),
            hint=f"Use one bank for all (--bank NAME), or create one: satchel init.{more}"
            if is_first
            else f"Use one bank for all: --bank NAME.{more}",
        )


def _owner(sort: str, name: str) -> Owner:
    return cast("Owner", (sort, name))  # it is one of the sorts: that was looked at


def _shown(owners: Iterable[Owner]) -> str:
    names = [f"{sort}:{name}" for sort, name in owners]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
