"""Functions on files and whole stores, awaited.

What is called on the way, such as ``progress``, is called in the thread that does the work.
"""

from collections.abc import Callable, Coroutine
from functools import partial, update_wrapper
from typing import Any, ParamSpec, TypeVar

from satchel.api import operating
from satchel.api import transfer as plain
from satchel.api.away import away

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _awaited(function: Callable[_P, _R]) -> Callable[_P, Coroutine[Any, Any, _R]]:
    async def call(*args: _P.args, **given: _P.kwargs) -> _R:
        return await away(partial(function, *args, **given))

    return update_wrapper(call, function)


convert = _awaited(plain.convert)
inspect = _awaited(plain.inspect)
verify = _awaited(plain.verify)
list_formats = _awaited(plain.list_formats)
migrate = _awaited(operating.migrate)
copy_store = _awaited(operating.copy_store)
encrypt_store = _awaited(operating.encrypt_store)
decrypt_store = _awaited(operating.decrypt_store)
