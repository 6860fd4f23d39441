"""Making one configuration file the content of the active one, in one step, and keeping the old."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from satchel.actions.configured.files import is_yaml, read_file
from satchel.actions.configured.toml_files import toml_of
from satchel.disk.reading import reading
from satchel.disk.writing import PRIVATE_FILE, PRIVATE_FOLDER, writing


class Activation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of the active configuration."""

    file: str
    """The active file."""

    kept: str | None = None
    """What it held before, under another name; None where there was nothing, or nothing new."""

    changed: bool = True
    """False where it held the very same already."""


def activate(new: Path, active: Path) -> Activation:
    """Give the active configuration file the content of another.

    The old content is durable under a name of its own before the file changes, and the file
    changes in one step: whoever reads it meanwhile sees the one or the other. A link is followed,
    so that what it leads to changes.

    Args:
        new: The configuration that is to count.
        active: The file that is read when nobody names another; made if it is not there. Where
            one is YAML and the other TOML, the content is written anew, without its comments.

    Raises:
        TargetError: If it cannot be written; it is as it was then.
        ConfigError: If the new one cannot be read.
    """
    target = active.resolve()
    data = _content(new, as_yaml=is_yaml(target))
    if not target.exists():
        target.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        with writing(target, overwrite=False, mode=PRIVATE_FILE) as stream:
            stream.write(data)
        return Activation(file=str(active))
    with reading(target) as stream:
        old, mode = stream.read(), target.stat().st_mode & 0o777
    if old == data:
        return Activation(file=str(active), changed=False)
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    kept = target.with_name(f"{target.name}.before-{moment}")
    with writing(kept, overwrite=False, mode=mode) as stream:
        stream.write(old)
    with writing(target, mode=mode) as stream:
        stream.write(data)
    return Activation(file=str(active), kept=str(kept))


def _content(new: Path, *, as_yaml: bool) -> bytes:
    if is_yaml(new) is as_yaml:
        with reading(new) as stream:
            return stream.read()
    table = without_nulls(read_file(new).table)
    if as_yaml:
        import yaml

        return yaml.safe_dump(table, sort_keys=False, allow_unicode=True, encoding="utf-8")
    return toml_of(table).encode()


def without_nulls(value: Any) -> Any:
    """Return a value without what TOML cannot say."""
    if isinstance(value, dict):
        return {name: without_nulls(held) for name, held in value.items() if held is not None}
    if isinstance(value, list):
        return [without_nulls(held) for held in value if held is not None]
    return value
