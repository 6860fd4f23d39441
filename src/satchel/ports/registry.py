"""The registry of formats: modules of ``formats`` by name, and entry points."""

import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, NamedTuple

from satchel.errors import EmptyInputError, InputError, MalformedError, UnknownFormatError
from satchel.ports.format import Format, Place, Signs

CONNECTORS, CONNECTOR_GROUP = "satchel.connectors", "satchel.connectors"
"""The package of the built-in connectors, and the entry point group of others."""

ENTRY_POINT_GROUP = "satchel.formats"
"""The entry point group of other formats; a built-in name cannot be replaced."""

_NEAREST = 5
_TAR, _TAR_AT = b"ustar", 257
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


INDEX = "index.json"
"""The index of the formats, read instead of importing them; ``docs.generate`` writes it."""


class _Listing(NamedTuple):
    """A row of the index."""

    suffixes: tuple[str, ...]
    writes: bool
    signs: Signs | None

    @classmethod
    def of(cls, format_: Format) -> "_Listing":
        """Return the row of a format."""
        info = format_.info
        return cls(info.suffixes, info.traits.writes, info.signs)

    @classmethod
    def read(cls, row: dict[str, Any]) -> "_Listing":
        """Read a row of the index."""
        signs = Signs(
            starts=tuple(each.encode("latin-1") for each in row["starts"]),
            texts=tuple(tuple(each.encode("latin-1") for each in group) for group in row["texts"]),
            names=tuple(row["names"]),
            folder=row["folder"],
        )
        return cls(tuple(row["suffixes"]), row["writes"], signs)

    def row(self, signs: Signs) -> dict[str, Any]:
        """Return its row of the index; bytes are characters up to U+00FF."""
        return {
            "suffixes": self.suffixes,
            "writes": self.writes,
            "starts": [each.decode("latin-1") for each in signs.starts],
            "texts": sorted(
                sorted(each.decode("latin-1") for each in group) for group in signs.texts
            ),
            "names": sorted(signs.names),
            "folder": signs.folder,
        }


class Registry(Mapping[str, Format]):
    """The installed formats; a module is imported when its format is first used.

    Args:
        folder: The package whose modules are formats.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._found: dict[str, str | EntryPoint] | None = None
        self._listings: dict[str, _Listing] | None = None

    def __getitem__(self, name: str) -> Format:
        where = self._modules.get(name)
        if where is None:
            raise UnknownFormatError(f"unknown format {name!r}", hint=f"Known: {', '.join(self)}.")
        loaded = where.load() if isinstance(where, EntryPoint) else import_module(where)
        found = getattr(loaded, "FORMAT", loaded)
        if not isinstance(found, Format):
            raise UnknownFormatError(f"{name!r} is installed, but is not a format")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._modules))

    def __len__(self) -> int:
        return len(self._modules)

    def by_suffix(self, file_name: str) -> str | None:
        """Return the format of a file's longest suffix, ignoring ``.gz`` and ``.age``."""
        bare = file_name.removesuffix(".age").removesuffix(".gz")
        owners = [
            (len(suffix), name)
            for name in self
            for listing in (self._listing(name),)
            for suffix in listing.suffixes
            if bare.endswith(suffix) and listing.writes
        ]
        return max(owners)[1] if owners else None

    def recognise(self, location: Place) -> str:
        """Return the one format that recognises a place; those without a sign in it are not asked.

        Raises:
            UnknownFormatError: If none does, or several do.
            EmptyInputError: If it is an empty file.
            InputError: If it cannot be read, such as a truncated archive or text in UTF-16.
        """
        claims, trouble = list[str](), None
        for name in self.candidates(location):
            try:
                if self[name].recognises(location):
                    claims.append(name)
            except InputError as error:
                trouble = trouble or error
        if len(claims) == 1:
            return claims[0]
        if not claims:
            if trouble is not None:
                raise trouble
            _require_readable(location)
            raise UnknownFormatError(
                "unrecognised format",
                file=location.name,
                hint=self._nearest(location),
            )
        raise UnknownFormatError(
            f"ambiguous format: could be {', '.join(claims)}",
            file=location.name,
            hint="Choose one with --from.",
        )

    def candidates(self, location: Place) -> list[str]:
        """Return the formats that a place shows a sign of, sorted.

        Raises:
            InputError: If the place cannot be read.
        """
        signs = {name: self._listing(name).signs for name in self}
        return [name for name, each in signs.items() if each is None or each.fit(location)]

    def made_index(self) -> str:
        """Return what the index has to hold: one line for each format of this package."""
        listings = {
            name: _Listing.of(self[name])
            for name, where in self._modules.items()
            if isinstance(where, str)
        }
        lines = [
            f"{json.dumps(name)}: {json.dumps(listing.row(listing.signs))}"
            for name, listing in sorted(listings.items())
            if listing.signs is not None
        ]
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @property
    def index(self) -> Path:
        """The file with the index."""
        return Path(next(iter(import_module(self._folder).__path__))) / INDEX

    def _listing(self, name: str) -> _Listing:
        """Return what is known of a format; one that is not in the index is imported."""
        if self._listings is None:
            rows = json.loads(self.index.read_text("utf-8")) if self.index.exists() else {}
            self._listings = {
                name: _Listing.read(row)
                for name, row in rows.items()
                if isinstance(self._modules.get(name), str)
            }
        if name not in self._listings:
            self._listings[name] = _Listing.of(self[name])
        return self._listings[name]

    def _nearest(self, location: Place) -> str:
        """Return a hint: formats with files of such a name, and where all of them are listed."""
        name = location.name.lower().removesuffix(".gz")
        ending = "." + name.rpartition(".")[2] if "." in name else None
        near = [
            known
            for known in self
            if ending and any(own.endswith(ending) for own in self._listing(known).suffixes)
        ]
        named = f" Files like this one can be: {', '.join(near[:_NEAREST])}." if near else ""
        return f"Set the format with --from.{named} All formats: satchel formats."

    @property
    def _modules(self) -> dict[str, str | EntryPoint]:
        if self._found is None:
            own: dict[str, str | EntryPoint] = {
                found.name: f"{self._folder}.{found.name}"
                for found in iter_modules(import_module(self._folder).__path__)
                if not found.name.startswith("_")
            }
            foreign = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
            self._found = {**foreign, **own}
        return self._found


def _require_readable(location: Place) -> None:
    if not (location.is_folder or location.head):
        raise EmptyInputError("the file is empty", file=location.name)
    if location.head.startswith(_UTF16):
        raise MalformedError(
            "the text is UTF-16, as written by Windows PowerShell",
            file=location.name,
            byte=0,
            hint="Save it as UTF-8 again.",
        )
    if _is_tar(location.head):
        raise MalformedError(
            "this is a tar archive",
            file=location.name,
            byte=0,
            hint="Unpack it, and use the folder.",
        )


def _is_tar(head: bytes) -> bool:
    with suppress(zlib.error):
        head = zlib.decompressobj(wbits=31).decompress(head, _TAR_AT + len(_TAR))
    return head[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR


formats = Registry("satchel.formats")
"""The formats that are installed."""


def installed_connectors() -> list[str]:
    """Return the names of the live products that have a connector, sorted; imports none."""
    found = find_spec(CONNECTORS)
    folders = found.submodule_search_locations if found is not None else None
    own = {one.name for one in iter_modules(folders or []) if not one.name.startswith("_")}
    return sorted(own | {point.name for point in entry_points(group=CONNECTOR_GROUP)})
