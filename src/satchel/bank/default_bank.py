"""Which bank of a store is the default one: the home remembers its ID, for each store."""

import json
from collections.abc import Collection

from satchel.bank.connections import written_place
from satchel.config.settings import Settings
from satchel.errors import ConfigError
from satchel.model.values import is_id
from satchel.runtime.files import PRIVATE_FILE, atomic_write
from satchel.runtime.private_files import private_folder

FILE = "default-banks.json"
_MOST_BYTES = 1 << 20


def default_bank(settings: Settings) -> str | None:
    """Return the ID of the store's default bank, if one was chosen.

    Raises:
        ConfigError: If the file in the home is damaged.
    """
    return _read(settings).get(written_place(settings.store))


def set_default_bank(settings: Settings, bank: str | None) -> None:
    """Remember the default bank of the store; None forgets it."""
    place = written_place(settings.store)
    banks = {key: value for key, value in _read(settings).items() if key != place}
    if bank is not None:
        banks[place] = bank
    private_folder(settings.home)
    text = json.dumps(banks, indent=1, sort_keys=True) + "\n"
    with atomic_write(settings.home / FILE, mode=PRIVATE_FILE) as stream:
        stream.write(text.encode("utf-8", "surrogateescape"))


def inherit_default_bank(
    target: Settings, chosen: str | None, banks: Collection[str]
) -> str | None:
    """Give a store that banks were copied to the default bank of the other, if it has none.

    Args:
        target: The surroundings with the store that was written.
        chosen: ID of the default bank of the other store.
        banks: IDs of the banks that were copied.

    Returns:
        ID of the default bank that the store has now.
    """
    present = default_bank(target)
    if present is None and chosen is not None and chosen in banks:
        set_default_bank(target, chosen)
        return chosen
    return present


def _read(settings: Settings) -> dict[str, str]:
    path = settings.home / FILE
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"cannot read: {error.strerror or error}", file=str(path)) from None
    try:
        banks = json.loads(data.decode("utf-8", "surrogateescape"))
    except ValueError:
        banks = None
    if not isinstance(banks, dict) or not all(map(_is_bank, banks.values())):
        raise ConfigError(
            "this file does not map stores to IDs of banks",
            file=str(path),
            hint="Remove the file and choose the default bank again: satchel bank use NAME",
        )
    return banks


def _is_bank(value: object) -> bool:
    return isinstance(value, str) and is_id(value)
