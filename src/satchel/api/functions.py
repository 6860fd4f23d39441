"""Functions on whole stores and on files."""

from typing import Any

from satchel.api.operations import function
from satchel.bank import token_operations
from satchel.config.settings import load_settings
from satchel.replication import store_operations
from satchel.replication.store_operations import settings_of
from satchel.transfer import conversion, verification
from satchel.transfer.verification import FileSource

migrate = function(store_operations.migrate, settings_of)
copy_store = function(store_operations.copy_store, settings_of)
encrypt_store = function(store_operations.encrypt_store, settings_of)
decrypt_store = function(store_operations.decrypt_store, settings_of)


def _source(_: Any) -> FileSource:
    """Return the source for files of this machine."""
    return FileSource(settings=load_settings())


convert = function(conversion.convert_file, _source)
inspect = function(verification.inspect_file, _source)
verify = function(verification.verify_file, _source)
list_formats = function(verification.list_formats, _source)


attenuate = function(token_operations.attenuate_token, lambda _: load_settings())

__all__ = [
    "attenuate",
    "convert",
    "copy_store",
    "decrypt_store",
    "encrypt_store",
    "inspect",
    "list_formats",
    "migrate",
    "verify",
]
