"""A ``MemoryStore`` under test: its class, its errors, and where its keys are."""

import itertools
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from satchel.errors import AccessDenied, ConcurrencyError, MemoryStoreError
from satchel.files import MemoryStore


@dataclass(frozen=True, slots=True)
class FilesSubject:
    """A ``MemoryStore`` under test.

    Args:
        name: Its name.
        folder: Makes a folder that nobody has.
        storage_root: Where keys are; passed to the class methods where it is not None.
        store: The class.
        errors: Its three errors: any refusal, no access, changed by others.
        planted: Puts bytes at a key's transcript, past the store; None where that is not possible.
    """

    name: str
    folder: Callable[[], Path]
    storage_root: str | None = None
    store: Any = MemoryStore
    errors: tuple[type[Exception], type[Exception], type[Exception]] = (
        MemoryStoreError,
        AccessDenied,
        ConcurrencyError,
    )
    planted: Callable[[str, bytes], None] | None = None
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def refusal(self) -> type[Exception]:
        """Any refusal."""
        return self.errors[0]

    @property
    def denied(self) -> type[Exception]:
        """No access."""
        return self.errors[1]

    @property
    def changed(self) -> type[Exception]:
        """Changed by others."""
        return self.errors[2]

    def key(self) -> str:
        """Return a key that has no store."""
        return f"key-{next(self._numbers)}-{secrets.token_hex(4)}"

    def place(self, key: str, **more: str) -> dict[str, Any]:
        """Return the arguments that name a key."""
        root = {} if self.storage_root is None else {"storage_root": self.storage_root}
        return {"key": key, **root, **more}

    def create(self, key: str, **policy: Any) -> Any:
        """Make the store of a key."""
        return self.store.create(**self.place(key), **policy)

    def reach(self, key: str, **policy: Any) -> Any:
        """Open the store of a key, made where there is none."""
        return self.store.get_or_create(**self.place(key), **policy)

    def exists(self, key: str) -> bool:
        """Tell whether a key has a store."""
        return bool(self.store.exists(**self.place(key)))

    @contextmanager
    def fresh(self, **policy: Any) -> Iterator[Any]:
        """Give an empty store of a key."""
        store = self.create(self.key(), **policy)
        try:
            yield store
        finally:
            getattr(store, "close", bool)()  # where there is something to close

    def at(self, root: Path, **more: Any) -> Any:
        """Open a store in a folder."""
        return self.store(root=root, **more)
