"""``satchel.convert``, ``inspect``, ``verify`` and ``list_formats``."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from satchel.actions.config import load_settings
from satchel.actions.operating import conversions
from satchel.actions.operating.conversions import FileSource
from satchel.api.hints import hints_for_python
from satchel.api.operations import documented
from satchel.ports.operations import Operation

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _function(operation: Operation[FileSource, Any, _P, _R]) -> Callable[_P, _R]:
    """Return a function that runs an operation on files, as this machine is configured."""

    def call(*args: _P.args, **given: _P.kwargs) -> _R:
        with hints_for_python():
            options = operation.options(*args, **given)
            return operation.run(FileSource(settings=load_settings()), options)

    return documented(call, operation, None)


convert = _function(conversions.convert_file)
inspect = _function(conversions.inspect_file)
verify = _function(conversions.verify_file)
list_formats = _function(conversions.list_formats)
