"""A text that may be left out, and stays a text whatever stands in it.

The SDK reads whatever looks like JSON in an argument that is not plainly a text, since some hosts
send lists so. A file that has JSON in it, or the word ``null``, has to arrive as it is.
"""

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import ValidatorFunctionWrapHandler, WrapValidator


def _or_none(value: Any, usual: ValidatorFunctionWrapHandler) -> Any:
    return None if value is None else usual(value)


if TYPE_CHECKING:
    Text = str | None
else:
    Text = Annotated[str, WrapValidator(_or_none)]
