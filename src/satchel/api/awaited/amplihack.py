"""amplihack's names, awaited; see ``satchel.api.awaited.stores``."""

from functools import partial
from pathlib import Path
from typing import Any, Self

from satchel.api.amplihack import memory as plain_amplihack
from satchel.api.amplihack import transfer as plain_transfer
from satchel.api.away import ClosedOnExit, awaited, away


class HierarchicalMemory(ClosedOnExit):
    """As ``satchel.amplihack.HierarchicalMemory``, awaited: ``await HierarchicalMemory.open()``."""

    def __init__(self, plain: plain_amplihack.HierarchicalMemory) -> None:
        self._plain = plain

    @classmethod
    async def open(
        cls,
        agent: str,
        *,
        storage_path: str | Path | None = None,
        backend: str | None = None,
        home: str | Path | None = None,
        passphrase: str | None = None,
    ) -> Self:
        """Open the hierarchical memory of an agent.

        Args and Raises: as ``satchel.amplihack.HierarchicalMemory``.
        """
        return cls(
            await away(
                partial(
                    plain_amplihack.HierarchicalMemory,
                    agent,
                    storage_path=storage_path,
                    backend=backend,
                    home=home,
                    passphrase=passphrase,
                )
            )
        )

    async def __aenter__(self) -> Self:
        return self

    close = awaited(plain_amplihack.HierarchicalMemory.close)
    store_episode = awaited(plain_amplihack.HierarchicalMemory.store_episode)
    store_knowledge = awaited(plain_amplihack.HierarchicalMemory.store_knowledge)
    store_many = awaited(plain_amplihack.HierarchicalMemory.store_many)
    links = awaited(plain_amplihack.HierarchicalMemory.links)


class HierarchicalTransfer:
    """As ``satchel.amplihack.HierarchicalTransfer``, awaited; made in the same way."""

    def __init__(self, *args: Any, **more: Any) -> None:
        self._plain = plain_transfer.HierarchicalTransfer(*args, **more)

    export_hierarchical_json = awaited(plain_transfer.HierarchicalTransfer.export_hierarchical_json)
    import_hierarchical_json = awaited(plain_transfer.HierarchicalTransfer.import_hierarchical_json)
    export_hierarchical_raw_db = awaited(
        plain_transfer.HierarchicalTransfer.export_hierarchical_raw_db
    )
    import_hierarchical_raw_db = awaited(
        plain_transfer.HierarchicalTransfer.import_hierarchical_raw_db
    )
