"""Imports the MCP SDK for standard input and output, without its HTTP modules.

The SDK imports an HTTP server, a client and the libraries of both, a fourth of the time of a start.
During the import here, stubs replace these modules; they are removed from ``sys.modules``
afterwards, so that later imports get the real modules. For a version of the SDK that was not
tested, and after any error, the SDK is imported as usual.
"""

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any, TypeVar

_R = TypeVar("_R")

TESTED = frozenset({"2.3"})
"""Tested versions of the SDK (major.minor)."""

_HTTP_ONLY = (
    *("httpx2", "sse_starlette", "starlette", "uvicorn"),
    *("mcp.server.auth.handlers", "mcp.server.auth.routes", "mcp.server.sse"),
    *("mcp.server._streamable_http_modern", "mcp.server.streamable_http"),
    *("mcp.server.streamable_http_manager", "mcp.server.transport_security"),
)
_COLORS = "rich.console"
"""The SDK logs with it if it is installed. Nothing is logged here."""

_PACKAGE = "mcp"
_OURS = "satchel.mcp."


def for_streams(make: Callable[[], _R]) -> _R:
    """Call a function that imports the SDK and does not use HTTP, and return its result.

    Args:
        make: The function; called again with the real modules if it failed with stubs.
    """
    before = set(sys.modules)
    if _PACKAGE in before or not _is_tested():
        return make()
    try:
        with _without_http():
            return make()
    except Exception:  # noqa: BLE001 - whatever it is, the usual import says it better
        for name in set(sys.modules) - before:
            if name.partition(".")[0] == _PACKAGE or name.startswith(_OURS):
                del sys.modules[name]
        gc.collect()
        return make()


def _is_tested() -> bool:
    try:
        return ".".join(version(_PACKAGE).split(".")[:2]) in TESTED
    except PackageNotFoundError:
        return False


@contextmanager
def _without_http() -> Iterator[None]:
    """Replace HTTP modules that are not imported yet by stubs during the block."""
    finder = _Finder()
    is_colored = _COLORS in sys.modules
    package = _unread(_PACKAGE)
    sys.meta_path.insert(0, finder)
    if not is_colored:
        sys.modules[_COLORS] = None  # type: ignore[assignment]  # as Python has what is not there
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        if not is_colored:
            del sys.modules[_COLORS]
        for name in finder.made:
            del sys.modules[name]
            parent, _, own = name.rpartition(".")
            vars(sys.modules.get(parent, package)).pop(own, None)


def _unread(name: str) -> ModuleType:
    """Return a package that is executed when an attribute of its own is used, not a submodule.

    The attributes of the SDK's package are its client.
    """
    spec = find_spec(name)
    assert spec is not None  # noqa: S101 - it was looked for
    assert spec.loader is not None  # noqa: S101
    package, loader = module_from_spec(spec), spec.loader

    def read(attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        del package.__getattr__
        loader.exec_module(package)
        return getattr(package, attribute)

    package.__getattr__ = read  # type: ignore[method-assign]
    sys.modules[name] = package
    return package


class _Finder:
    """Finder of stubs."""

    def __init__(self) -> None:
        self.made = list[str]()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a stub; None for other modules."""
        del path, target
        is_one = any(name == each or name.startswith(f"{each}.") for each in _HTTP_ONLY)
        return ModuleSpec(name, self, is_package=True) if is_one else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return a stub of a module."""
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Record a stub."""
        self.made.append(module.__name__)


class _StandIn(ModuleType):
    """A stub module, in which each name is a class without instances."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _Nothing(name, (), {"__get_pydantic_core_schema__": classmethod(_any_schema)})
        setattr(self, name, made)
        return made


class _Nothing(type):
    """Type of the classes of a stub, for annotations and base classes."""

    def __call__(cls, *_args: Any, **_named: Any) -> Any:
        raise RuntimeError(f"{cls.__name__} of HTTP is used by a server without it")

    def __getitem__(cls, _: Any) -> "_Nothing":
        return cls

    def __or__(cls, other: Any) -> Any:
        return other

    def __ror__(cls, other: Any) -> Any:
        return other


def _any_schema(*_: Any) -> dict[str, str]:
    return {"type": "any"}
