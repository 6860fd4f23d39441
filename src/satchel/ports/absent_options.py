"""The default of an option that Python does not offer.

For type checkers, the option is not in the signature of the options class, and so of no method. At
run time it is, since other interfaces pass it; ``api.operations`` refuses it in a call.
"""

import dataclasses
from typing import TYPE_CHECKING, Any

__all__ = ["MARK", "field"]

MARK = "unoffered"
"""The key in the metadata of such a field."""

if TYPE_CHECKING:
    from dataclasses import field as field  # noqa: PLC0414 - type checkers know no other function
else:

    def field(*, default: Any, init: bool) -> Any:
        """Return the field of an option, as ``field(default=None, init=False)``."""
        del init
        return dataclasses.field(default=default, metadata={MARK: True})
