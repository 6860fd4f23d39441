"""What an operator does with whole stores, from Python."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from satchel.actions.config import Settings
from satchel.actions.operating import stores
from satchel.actions.operating.stores import settings_of
from satchel.api.hints import hints_for_python
from satchel.api.operations import documented
from satchel.ports.operations import Operation

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _function(operation: Operation[Settings, Any, _P, _R]) -> Callable[_P, _R]:
    """Return a function that runs an operation in the surroundings that its options name."""

    def call(*args: _P.args, **given: _P.kwargs) -> _R:
        with hints_for_python():
            options = operation.options(*args, **given)
            return operation.run(settings_of(options), options)

    return documented(call, operation, None)


migrate = _function(stores.migrate)
copy_store = _function(stores.copy_store)
encrypt_store = _function(stores.encrypt_store)
decrypt_store = _function(stores.decrypt_store)
