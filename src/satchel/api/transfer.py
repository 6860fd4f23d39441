"""``satchel.convert``, ``inspect``, ``verify`` and ``list_formats``."""

from typing import Any

from satchel.actions.config import load_settings
from satchel.actions.operating import conversions
from satchel.actions.operating.conversions import FileSource
from satchel.api.operations import function

__all__ = ["convert", "inspect", "list_formats", "verify"]


def _source(_: Any) -> FileSource:
    """Return the surroundings of this machine."""
    return FileSource(settings=load_settings())


convert = function(conversions.convert_file, _source)
inspect = function(conversions.inspect_file, _source)
verify = function(conversions.verify_file, _source)
list_formats = function(conversions.list_formats, _source)
