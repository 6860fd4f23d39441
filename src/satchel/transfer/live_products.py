"""Live products by name; the only module that names those of connectors.

The listing of a live source is stored on disk while it is imported, so that both passes read the
same records, even if the product changes during the run.
"""

import re
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from satchel.config.settings import Settings
from satchel.connectors._address import of_server, require_whole
from satchel.crypto.sealed_records import Sealed
from satchel.errors import EmptyInputError, InputError, TargetError, UsageError, shown_address
from satchel.model.records import AnyRecord, Model, State
from satchel.model.values import resolved
from satchel.ports.format import (
    Connector,
    ConnectorOptions,
    Info,
    Page,
    Place,
    ReadContext,
    Target,
    WriteContext,
    pages,
)
from satchel.ports.losses import Report
from satchel.ports.record_set import RecordSet
from satchel.transfer.import_stage import SourceEnd

MEM0_LOCAL, QDRANT_LOCAL, CHROMA_LOCAL = "mem0-local", "qdrant-local", "chroma-local"
LANGGRAPH_POSTGRES, LETTA_MEMFS = "langgraph-postgres", "letta-memfs"

_META_BYTES = 16 * 2**20
_OF_MEM0 = re.compile("^mem0$|_entities$|-entities$|^mem0migrations$")

_Line = tuple[State | None, str | None, AnyRecord]
"""A record, with its final state at the source, if any, and the time of that."""


def connector_for(text: str, name: str | None) -> str | None:
    """Return the connector for an address and the name of a format; None for a file.

    Args:
        text: A path, or an address such as ``mem0:///folder``.
        name: The format that the user named.

    Raises:
        UsageError: If the address is of another product.
    """
    require_whole(text)
    by_address = next((one for scheme, one in _SCHEMES.items() if text.startswith(scheme)), None)
    if by_address is not None and name not in (None, by_address):
        raise UsageError(
            f"this is an address for {by_address}, not for {name}",
            field="format",
            hint=f"Drop the format, or use {by_address}.",
        )
    if by_address is None and name in _OPENERS:
        return name
    if by_address is None and name is None:
        return _of_folder(text)
    return by_address


def _of_folder(text: str) -> str | None:
    """Return the product of a folder: Mem0, Qdrant or Letta; None for others."""
    with suppress(OSError, ValueError):  # opening it reports what is wrong with the name
        folder = Path(text)
        if (folder / "qdrant" / "meta.json").is_file():
            return MEM0_LOCAL
        if (folder / "meta.json").is_file():
            return MEM0_LOCAL if _is_mem0s(folder) else QDRANT_LOCAL
        if (folder / "system").is_dir():
            from satchel.connectors.letta_memfs import is_memfs

            return LETTA_MEMFS if is_memfs(folder) else None
    return None


def _is_mem0s(folder: Path) -> bool:
    if any((one / "history.db").is_file() for one in (folder, folder.parent)):
        return True
    with (folder / "meta.json").open("rb") as stream:
        found = msgspec.json.decode(stream.read(_META_BYTES), type=resolved(_Meta))
    return any(map(_OF_MEM0.search, found.collections))


def display_address(name: str, text: str) -> str:
    """Return the address of a live product without a password, for display and storage.

    Args:
        name: Connector of the product.
        text: The address.
    """
    return shown_address(of_server(text) if name == LANGGRAPH_POSTGRES else text)


class _Meta(msgspec.Struct):
    collections: dict[str, Any]


def opened_connector(
    name: str, text: str, settings: Settings, options: ConnectorOptions
) -> Connector:
    """Open a live product; the caller closes it.

    Raises:
        UnreadableError: If it does not exist.
        LockedError: If another process has it.
        TargetError: If it cannot be written.
        UsageError: If its address is invalid.
    """
    return _OPENERS[name](text, replace(options, limits=settings.options.limits))


def _mem0_local(text: str, options: ConnectorOptions) -> Connector:
    from satchel.connectors._mem0_store import Mem0Address
    from satchel.connectors.mem0_local import Mem0Local

    return Mem0Local(Mem0Address.read(text), options)


def _qdrant_local(text: str, options: ConnectorOptions) -> Connector:
    from satchel.connectors.qdrant_local import QdrantAddress, QdrantLocal

    return QdrantLocal(QdrantAddress.read(text), options)


def _chroma_local(text: str, options: ConnectorOptions) -> Connector:
    from satchel.connectors.chroma_local import ChromaAddress, ChromaLocal

    return ChromaLocal(ChromaAddress.read(text), options)


def _langgraph_postgres(text: str, options: ConnectorOptions) -> Connector:
    from satchel.connectors.langgraph_postgres import LangGraphAddress, LangGraphPostgres

    return LangGraphPostgres(LangGraphAddress.read(text), options)


def _letta_memfs(text: str, options: ConnectorOptions) -> Connector:
    from satchel.connectors.letta_memfs import LettaMemfs, MemfsAddress

    return LettaMemfs(MemfsAddress.read(text), options)


_OPENERS: dict[str, Callable[[str, ConnectorOptions], Connector]] = {
    MEM0_LOCAL: _mem0_local,
    QDRANT_LOCAL: _qdrant_local,
    CHROMA_LOCAL: _chroma_local,
    LANGGRAPH_POSTGRES: _langgraph_postgres,
    LETTA_MEMFS: _letta_memfs,
}
_SCHEMES = {
    "mem0:": MEM0_LOCAL,
    "qdrant:": QDRANT_LOCAL,
    "chroma:": CHROMA_LOCAL,
    "langgraph+postgres": LANGGRAPH_POSTGRES,
    "memfs:": LETTA_MEMFS,
}


@dataclass(slots=True, kw_only=True)
class ListReading(ReadContext):
    """Context for reading a listing: a skipped record also drops its ending."""

    endings: deque[SourceEnd | None]

    def refuse(self, error: InputError) -> None:
        """Skip a malformed record; see ``ReadContext.refuse``."""
        ReadContext.refuse(self, error)  # super() does not work: slots=True creates another class
        self.endings.popleft()


class ListedSource:
    """The listing of a live source, as a format whose file is the listing.

    Args:
        path: Path of the listing.
        info: Description of the connector.
        report: Report of the connector.
    """

    info: ClassVar[Info]

    def __init__(self, path: Path, info: Info, report: Report) -> None:
        self.path = path
        # Each product has its own; the protocol declares a class variable.
        self.info = info  # type: ignore[misc]
        self._report = report
        self.endings = deque[SourceEnd | None]()
        """Endings at the source of the records that were read and not yet processed.

        Skipping a record removes its ending.
        """

    def recognises(self, location: Place) -> bool:
        """Return False: no file is a listing."""
        del location
        return False

    def read(self, location: Place, reading: ReadContext) -> Iterator[Model | Sealed]:
        """Yield the records in the order of the listing."""
        for note in self._report.notes:
            reading.report.note(note)
        reading.report.losses.update(deepcopy(self._report.losses))
        reading.report.refused += self._report.refused
        reading.report.left_out += self._report.left_out
        self.endings.clear()
        with location.open() as stream:
            while line := stream.readline():
                state, at, record = _decode(line)
                self.endings.append(SourceEnd(state, at) if state is not None else None)
                yield record

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        """Raise an error: a listing cannot be written."""
        del records, target, writing
        raise UsageError("a listing of a live source cannot be written")


_decode = msgspec.json.Decoder(resolved(_Line)).decode


@contextmanager
def list_source(
    name: str, text: str, settings: Settings, options: ConnectorOptions
) -> Iterator[ListedSource]:
    """Store everything that a live source has in a private file, and provide the listing.

    Raises:
        TargetError: If the temporary folder is full.
        EmptyInputError: If it has no memories.
        InputError: If it cannot be read.
        LockedError: If another process has it.
    """
    report = Report()
    with (
        tempfile.NamedTemporaryFile() as file,
        closing(opened_connector(name, text, settings, options)) as connector,
    ):
        count = 0
        for page in pages(connector, report):
            count += len(page.items) + len(page.past)
            _write_page(page, file)
        if count == 0:
            hint = report.first_refused
            raise EmptyInputError(
                "it contains no memories", file=display_address(name, text), hint=hint
            )
        _flushed(file)
        yield ListedSource(Path(file.name), connector.info, report)


def _write_page(page: Page, file: Any) -> None:
    lines = [_line(version.item, version.state, version.at) for version in page.past]
    lines += [_line(item, None, None) for item in page.items]
    try:
        file.writelines(lines)
    except OSError as error:
        raise _full(error) from error


def _line(item: Model | Sealed, state: str | None, at: str | None) -> bytes:
    model = item.model if isinstance(item, Sealed) else item
    return msgspec.json.encode((state, at, model)) + b"\n"


def _flushed(file: Any) -> None:
    try:
        file.flush()
    except OSError as error:
        raise _full(error) from error


def _full(error: OSError) -> TargetError:
    return TargetError(
        f"cannot buffer the source's records: {error.strerror or error}",
        file=tempfile.gettempdir(),
        hint="Free disk space there, or set TMPDIR to a larger folder.",
    )
