"""What every store promises, one test function a promise.

Use it on your own store: import everything from here in a test module of yours and define a
session-scoped fixture ``store`` that returns a ``StoreSubject``. Every operation runs in your store
and in the store in memory, and both must return the same. A promise about a trait (``StoreTraits``)
is skipped if the store does not claim it; no other is skipped.
"""

from satchel.conformance.stores.commits import *  # noqa: F403
from satchel.conformance.stores.durability import *  # noqa: F403
from satchel.conformance.stores.links import *  # noqa: F403
from satchel.conformance.stores.names import *  # noqa: F403
from satchel.conformance.stores.oracle import StoreSubject
from satchel.conformance.stores.queries import *  # noqa: F403
from satchel.conformance.stores.removal import *  # noqa: F403
from satchel.conformance.stores.rows import *  # noqa: F403
from satchel.conformance.stores.side_data import *  # noqa: F403
from satchel.conformance.stores.verification import *  # noqa: F403

__all__ = ["StoreSubject"]
__all__ += [name for name in dir() if name.startswith("test_")]
