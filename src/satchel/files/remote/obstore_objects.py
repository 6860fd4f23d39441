"""Objects in S3, Google Cloud Storage or Azure, through ``obstore``.

Nothing is tried again by the library after a conditional write: it would take its own first try
for somebody else's. What is not acknowledged is read again by whoever wrote it.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from satchel.errors import MissingExtraError, TargetError
from satchel.files.remote.objects import NotWritten, Taken

_PROBE = "meta/.satchel/probe-"


class ObstoreObjects:
    """Objects under an address such as ``s3://bucket/prefix``.

    Credentials come from the environment, as the service's own tools have them.

    Args:
        address: The place.

    Raises:
        MissingExtraError: If ``obstore`` is not installed.
        TargetError: If the address cannot be one.
    """

    def __init__(self, address: str) -> None:
        try:
            self._obstore: Any = import_module("obstore")
            stores: Any = import_module("obstore.store")
        except ModuleNotFoundError:
            raise MissingExtraError(
                "object stores need obstore", hint="pip install 'satchel[objectstore]'"
            ) from None
        self._address = address
        self.shared = "/".join(address.split("/")[:3])
        scheme, _, rest = address.partition("://")
        bucket, _, self._prefix = rest.partition("/")
        self._prefix = self._prefix.strip("/") + "/" if self._prefix else ""
        retries = {"max_retries": 0}
        with self._said():
            self._store = stores.from_url(f"{scheme}://{bucket}", retry_config=retries)

    @contextmanager
    def _said(self) -> Iterator[None]:
        errors = import_module("obstore.exceptions")
        try:
            yield
        except FileNotFoundError as error:
            raise TargetError("part of the store is missing", file=self._address) from error
        except (errors.BaseError, OSError, ValueError) as error:
            raise TargetError(
                f"the object store does not support this: {str(error)[:300]}",
                file=self._address,
                hint="Check the address, the credentials and the network.",
            ) from error

    def get(self, name: str) -> Taken | None:
        """See ``Objects``."""
        with self._said():
            try:
                found = self._obstore.get(self._store, self._prefix + name)
                return Taken(bytes(found.bytes()), str(found.meta["e_tag"]))
            except FileNotFoundError:
                return None

    def part(self, name: str, start: int, length: int) -> bytes:
        """See ``Objects``."""
        if not length:
            return b""
        with self._said():
            return bytes(
                self._obstore.get_range(
                    self._store, self._prefix + name, start=start, length=length
                )
            )

    def size(self, name: str) -> int | None:
        """See ``Objects``."""
        with self._said():
            try:
                return int(self._obstore.head(self._store, self._prefix + name)["size"])
            except FileNotFoundError:
                return None

    def create(self, name: str, data: bytes) -> None:
        """See ``Objects``."""
        self._conditional(name, data, "create")

    def replace(self, name: str, data: bytes, tag: str) -> None:
        """See ``Objects``."""
        self._conditional(name, data, {"e_tag": tag})

    def _conditional(self, name: str, data: bytes, mode: Any) -> None:
        errors = import_module("obstore.exceptions")
        try:
            self._obstore.put(self._store, self._prefix + name, data, mode=mode)
        except (errors.BaseError, OSError) as error:
            raise NotWritten(str(error)[:300]) from error

    def put(self, name: str, data: bytes) -> None:
        """See ``Objects``."""
        with self._said():
            self._obstore.put(self._store, self._prefix + name, data, use_multipart=False)

    def remove(self, name: str) -> None:
        """See ``Objects``."""
        with self._said(), suppress(FileNotFoundError):
            self._obstore.delete(self._store, self._prefix + name)

    def names(self) -> Iterator[str]:
        """See ``Objects``."""
        with self._said():
            for batch in self._obstore.list(self._store, prefix=self._prefix.rstrip("/") or None):
                for one in batch:
                    path = str(one["path"])
                    if path.startswith(self._prefix):
                        yield path[len(self._prefix) :]

    def probe(self) -> bool:
        """See ``Objects``."""
        name = _PROBE + secrets.token_hex(8)
        self.create(name, b"1")
        try:
            try:
                self.create(name, b"2")
            except NotWritten:
                pass
            else:
                return False
            try:
                self.replace(name, b"3", '"00000000000000000000000000000000"')
            except NotWritten:
                pass
            else:
                return False
            return True
        finally:
            self.remove(name)
