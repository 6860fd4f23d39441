"""Whose the rows of a database are: each node names its agent, an edge has its source's."""

from collections.abc import Sequence

from satchel.disk.databases.keyed import Keyed
from satchel.errors import MalformedError
from satchel.formats._amplihack.shape import EPISODES, FACTS, Row
from satchel.memory.parts import Scope
from satchel.ports.report import Report

MOST_AGENTS = 1000
"""How many agents are told apart before a wanted one is looked for among them."""

_ENDS = ("source_id", "target_id")
_SHOWN = 10


class Owners:
    """The agents of one database.

    Args:
        found: The agents whose rows there are; the first ``MOST_AGENTS``.
        wanted: Whose memory is asked for; None for everybody's.
        file: What to call the database in errors.
        report: Where rows of others are counted.

    Raises:
        MalformedError: If there are several agents, and the wanted one is none of them.
    """

    def __init__(
        self, found: Sequence[str], wanted: str | None, *, file: str, report: Report
    ) -> None:
        self._file = file
        self._report = report
        self._owners = Keyed()
        self._others = 0
        # All rows are given to one agent, or the rows of one alone are read.
        self._renamed = wanted if len(found) <= 1 else None
        self._only = wanted if len(found) > 1 else None
        if self._only is not None and self._only not in found:
            raise MalformedError(
                f"the database is of {len(found)} agents, and {wanted!r} is none of them",
                file=file,
                field="agent_id",
                hint=f"It has memories of: {', '.join(sorted(found)[:_SHOWN])}.",
            )

    def of_node(self, table: str, array: str, row: Row) -> Scope | None:
        """Return whose a node is; None for what is not wanted.

        Args:
            table: What the table is called there.
            array: The array of the JSON that its rows are in.
            row: The node.

        Raises:
            MalformedError: If it names no agent.
        """
        agent, name = row.get("agent_id"), row.get("memory_id")
        if self._only is not None and agent != self._only:
            self._others += 1
            return None
        agent = self._renamed or agent
        if type(agent) is not str or not agent:
            raise MalformedError("`agent_id` names no agent", file=self._file, field=table)
        if self._renamed is None and type(name) is str:
            self._owners.add(f"{array}/{name}".encode(), agent.encode())
        return Scope(agent=agent)

    def of_edge(self, row: Row) -> Scope | None:
        """Return whose an edge is: its source's, or else its target's; None if not wanted."""
        if self._renamed is not None:
            return Scope(agent=self._renamed)
        for end in _ENDS:
            for array in (FACTS, EPISODES):
                found = self._owners.get(f"{array}/{row[end]}".encode())
                if found is not None:
                    return Scope(agent=found.decode())
        if self._only is not None:
            self._others += 1
            return None
        return Scope()  # both its ends are missing, which is counted

    def close(self) -> None:
        """Say how many rows stayed behind, and give the space back."""
        self._owners.close()
        if self._others:
            self._report.lost("row", "they belong to another agent", count=self._others)
