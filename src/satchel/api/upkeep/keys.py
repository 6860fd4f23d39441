"""``satchel.Keys``: the signing keys of this machine, from Python."""

from satchel.actions.keys.operations import create_key, export_key, list_keys
from satchel.api.operations import method
from satchel.api.settings import FilePath, SettingsCalls


class Keys(SettingsCalls):
    """The signing keys of a home, and the keys that it trusts."""

    def __init__(self, *, home: FilePath = None, config: FilePath = None) -> None:
        """Read the settings.

        Args:
            home: Folder of keys and trust; ``SATCHEL_HOME`` or the platform's folder by default.
            config: Configuration file.
        """
        super().__init__(home=home, config=config)

    create = method(create_key)
    list = method(list_keys)
    export = method(export_key)
