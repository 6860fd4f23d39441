"""Modules that are imported when something of them is first used.

A class that lists operations would import all that they need; a program uses few of them. So:

    if TYPE_CHECKING:
        from satchel.actions.memories import operations
    else:
        operations = lazy("satchel.actions.memories.operations")

Type checkers see the module, and the program gets what stands for its members.
"""

from importlib import import_module
from typing import Any


class Deferred:
    """A member of a module that is not imported yet.

    Args:
        module: Name of the module.
        name: Name of the member.
    """

    __slots__ = ("_module", "_name")

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self._name = name

    def resolve(self) -> Any:
        """Import the module, and return the member.

        Raises:
            AttributeError: If the module has none of this name.
        """
        return getattr(import_module(self._module), self._name)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call the member."""
        return self.resolve()(*args, **options)


class LazyModule:
    """What stands for a module: its attributes are ``Deferred``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Deferred:
        return Deferred(self._name, name)


def lazy(name: str) -> Any:
    """Return what stands for a module until something of it is used."""
    return LazyModule(name)
