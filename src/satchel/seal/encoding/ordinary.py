"""Which model values an encoder writes in canonical form as they are.

A value that a program made can hold anything, and ``msgspec`` would write NaN, dates or a subclass
silently as something else. Looked at are exact types: once for each combination of them, since
the members of most records have the same ones. Whatever is not ordinary is left to ``domain``.
"""

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, cast

import msgspec
from msgspec import inspect

from satchel.seal.encoding.domain import MAX_DEPTH, MAX_INTEGER
from satchel.seal.encoding.jcs import SMALLEST
from satchel.type_info import resolved

_Check = Callable[[Any], bool]
_Checks = tuple[tuple[int, _Check], ...]
_Shape = tuple[type, ...]

# Records hold free JSON at most three levels down.
_ROOM = MAX_DEPTH - 3
_MOST_SHAPES = 4096


def is_ordinary(model: msgspec.Struct) -> bool:
    """Tell whether the sorted encoding of a model value certainly is its canonical form.

    Members that a class checks when it is made (digits of ids and times) are not looked at again.
    """
    members, shapes, _ = _described(type(model))
    values = members(model)
    shape = tuple(map(type, values))
    checks = shapes.get(shape)
    if checks is None:
        checks = _checks(type(model), shape)
        if len(shapes) < _MOST_SHAPES:
            shapes[shape] = checks
    for place, check in checks:  # noqa: SIM110 - a generator would double the time
        if not check(values[place]):
            return False
    return True


def is_plain(value: Any, room: int = _ROOM) -> bool:
    """Tell whether the sorted encoding of free JSON certainly is its canonical form.

    Args:
        value: Any value.
        room: Levels of arrays and objects that may be in it.
    """
    kind = type(value)
    if kind is dict:
        for key in value:
            if type(key) is not str or not (key.isascii() or max(key) <= "\uffff"):
                return False
        value = value.values()
    elif kind is not list:
        return _is_plain_scalar(value)
    for part in value:
        # Most are text: spare them the call.
        if type(part) is not str and not (room and is_plain(part, room - 1)):
            return False
    return True


def _is_plain_scalar(value: Any) -> bool:
    kind = type(value)
    if kind is int:
        return bool(-MAX_INTEGER <= value <= MAX_INTEGER)
    if kind is float:
        return SMALLEST <= abs(value) <= MAX_INTEGER and not value.is_integer()
    return kind is str or kind is bool or value is None


@cache
def _described(
    cls: type[msgspec.Struct],
) -> tuple[Callable[[Any], tuple[Any, ...]], dict[_Shape, _Checks], tuple[inspect.Field, ...]]:
    """Return what gives a class's members, what is known of their types, and their fields."""
    fields = cast("inspect.StructType", inspect.type_info(resolved(cls))).fields
    return attrgetter(*cls.__struct_fields__), {}, fields


def _checks(cls: type[msgspec.Struct], shape: _Shape) -> _Checks:
    """Return what to look at in members of these types, by their places."""
    _, _, fields = _described(cls)
    found = []
    for place, (field, held) in enumerate(zip(fields, shape, strict=True)):
        check = _check(field.type, held)
        if check is not _passes:
            # What is left out when it is empty, an encoder writes unless that is the default.
            left_out = field.default is None and held in (dict, list, tuple)
            found.append((place, _filled(check) if left_out else check))
    return tuple(found)


def _check(kind: inspect.Type, held: type) -> _Check:
    """Return what to look at in a member of an exact type."""
    if isinstance(kind, inspect.Metadata):
        return _check(kind.type, held)
    if isinstance(kind, inspect.UnionType):
        checks = (_check(part, held) for part in kind.types)
        return next((check for check in checks if check is not _fails), _fails)
    if isinstance(kind, inspect.AnyType):
        return _passes if held is type(None) else is_plain
    if held is tuple and isinstance(kind, inspect.VarTupleType):
        return _each(kind.item_type)
    if isinstance(kind, inspect.StructType) and held is kind.cls:
        return _part(kind)
    return _scalar_check(kind, held)


def _scalar_check(kind: inspect.Type, held: type) -> _Check:
    match kind:
        case inspect.NoneType() if held is type(None):
            return _passes
        case inspect.StrType(pattern=None) if held is str:
            return _passes
        case inspect.EnumType() if held is kind.cls:
            return _passes
        case inspect.LiteralType() if held is str:
            return kind.values.__contains__
        case inspect.FloatType(ge=0, le=1) if held is float:
            return _is_unit
        case inspect.DictType() if held is dict:
            return is_plain
    return _fails


def _passes(_: Any) -> bool:
    return True


def _fails(_: Any) -> bool:
    return False


def _filled(check: _Check) -> _Check:
    return lambda value: bool(value) and check(value)


def _is_unit(value: float) -> bool:
    return SMALLEST <= value < 1


def _part(kind: inspect.StructType) -> _Check:
    if any(field.required for field in kind.fields):
        return is_ordinary
    empty = kind.cls()
    return lambda part: part != empty and is_ordinary(part)


def _each(kind: inspect.Type) -> _Check:
    return lambda parts: not parts or all(_check(kind, type(part))(part) for part in parts)
