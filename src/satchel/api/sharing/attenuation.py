"""A part of a capability token, handed on by its holder without the store."""

from satchel.actions.config import load_settings
from satchel.actions.tokens import issuing
from satchel.api.operations import function

__all__ = ["attenuate"]

attenuate = function(issuing.attenuate_token, lambda _: load_settings())
