"""What every store promises, one test function a promise.

Use it on your own store: import everything from here in a test module of yours and define a
session-scoped fixture ``store`` that returns a ``StoreSubject``. Everything is done to your store
and to the store in memory, and both must answer alike. A promise about a trait (``StoreTraits``)
is skipped where the store does not claim it, and nothing else is.
"""

from satchel.conformance.stores.bench import StoreSubject
from satchel.conformance.stores.beside import *  # noqa: F403
from satchel.conformance.stores.committing import *  # noqa: F403
from satchel.conformance.stores.finding import *  # noqa: F403
from satchel.conformance.stores.keeping import *  # noqa: F403
from satchel.conformance.stores.lasting import *  # noqa: F403
from satchel.conformance.stores.naming import *  # noqa: F403
from satchel.conformance.stores.removing import *  # noqa: F403
from satchel.conformance.stores.verification import *  # noqa: F403
from satchel.conformance.stores.walking import *  # noqa: F403

__all__ = ["StoreSubject"]
__all__ += [name for name in dir() if name.startswith("test_")]
