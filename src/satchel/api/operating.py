"""What an operator does with whole stores, from Python."""

from satchel.actions.operating import stores
from satchel.actions.operating.stores import settings_of
from satchel.api.operations import function

__all__ = ["copy_store", "decrypt_store", "encrypt_store", "migrate"]

migrate = function(stores.migrate, settings_of)
copy_store = function(stores.copy_store, settings_of)
encrypt_store = function(stores.encrypt_store, settings_of)
decrypt_store = function(stores.decrypt_store, settings_of)
