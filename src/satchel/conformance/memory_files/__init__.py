"""What every ``MemoryStore`` promises: 36 behaviours, one test function each.

Use it on your own: import everything from here in a test module of yours and define a fixture
``files`` that returns a ``FilesSubject``.
"""

from satchel.conformance.memory_files.keys import *  # noqa: F403
from satchel.conformance.memory_files.policy import *  # noqa: F403
from satchel.conformance.memory_files.subject import FilesSubject
from satchel.conformance.memory_files.texts import *  # noqa: F403

__all__ = ["FilesSubject"]
__all__ += [name for name in dir() if name.startswith("test_")]
