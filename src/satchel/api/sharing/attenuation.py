"""A part of a capability token, handed on by its holder without the store."""

from collections.abc import Iterator
from contextlib import contextmanager

from satchel.actions.config import Settings, load_settings
from satchel.actions.tokens import issuing
from satchel.api.operations import function

__all__ = ["attenuate"]


@contextmanager
def _settings() -> Iterator[Settings]:
    yield load_settings()


attenuate = function(issuing.attenuate_token, _settings)
