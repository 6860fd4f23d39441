"""Python pickles, read as data by a machine that calls no code.

Qdrant's local mode stores each point as a pickle. Loading a pickle runs code in it, so nothing is
loaded here. The machine knows the operations that build plain values, and few names of classes,
which stand for data; everything else is refused. It takes time and memory in proportion to the
bytes: numbered values are in a dictionary, not in a list that a number could stretch. Source:
CPython's Lib/pickletools.py, protocols 2 to 5.
"""

import struct
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

from satchel.errors import MalformedError

POINTS = "qdrant_client.http.models.models"
"""The module of a point's class."""

_FLOAT_STEP = 9


class Global(NamedTuple):
    """A class by its name; nothing is imported."""

    module: str
    name: str


class Model:
    """An object of a class: its name, and its members once they are built."""

    def __init__(self, cls: Global) -> None:
        self.cls = cls
        self.members: dict[Any, Any] = {}


UUID_CLASS = Global("uuid", "UUID")

_MODELS = {
    Global(POINTS, "PointStruct"),
    Global(POINTS, "SparseVector"),
    UUID_CLASS,
}

_CONSTRUCTORS: dict[Global, Callable[..., Any]] = {
    Global("datetime", "datetime"): datetime,
    Global("datetime", "date"): date,
    Global("datetime", "time"): time,
    Global("datetime", "timedelta"): timedelta,
    Global("datetime", "timezone"): timezone,
    Global("decimal", "Decimal"): Decimal,
    Global("collections", "OrderedDict"): dict,
    Global("builtins", "set"): lambda items: _distinct(_require_type(list, items)),
}
"""Constructors of data from plain arguments, by class."""

_MARK = object()


def unpickled(data: bytes) -> Any:
    """Return the value in a pickle, with objects of known classes as ``Model``.

    Raises:
        MalformedError: If it is damaged, or contains anything but data.
    """
    machine = _Machine(data)
    try:
        return machine.run()
    except (LookupError, TypeError, ValueError, ArithmeticError, struct.error) as error:
        raise MalformedError("a damaged pickle", byte=machine.at) from error


class _Machine:
    """A stack, and a memo of numbered values.

    Args:
        data: The pickle.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        """Run the pickle and return its value."""
        data, operations = self.data, _OPERATIONS
        while True:
            operation = data[self.at]
            self.at += 1
            if operation == _STOP:
                return self.stack.pop()
            act = operations.get(operation)
            if act is None:
                problem = f"a pickle that does more than contain data (operation {operation:#04x})"
                raise MalformedError(problem, byte=self.at - 1)
            act(self)

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        end = self.at + size
        if size < 0 or end > len(self.data):
            raise IndexError
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def number(self, size: int, *, signed: bool = False) -> int:
        """Return the next little-endian integer of ``size`` bytes."""
        return int.from_bytes(self.take(size), "little", signed=signed)

    def since_mark(self) -> list[Any]:
        """Pop everything after the last mark, and the mark."""
        stack = self.stack
        for position in range(len(stack) - 1, -1, -1):
            if stack[position] is _MARK:
                items = stack[position + 1 :]
                del stack[position:]
                return items
        raise IndexError

    def floats(self) -> None:
        """Push a float and those that directly follow it, since a vector has hundreds of them."""
        data, start = self.data, self.at - 1
        count = 1
        while data[start + count * _FLOAT_STEP : start + count * _FLOAT_STEP + 1] == b"G":
            count += 1
        end = start + count * _FLOAT_STEP
        if end > len(data):
            raise IndexError
        self.stack.extend(struct.unpack(">" + "xd" * count, data[start:end]))
        self.at = end


def _push(make: Callable[[_Machine], Any]) -> Callable[[_Machine], None]:
    def act(machine: _Machine) -> None:
        machine.stack.append(make(machine))

    return act


def _constant(value: Any, _: _Machine) -> Any:
    return value


def _push_new(make: Callable[[], Any], _: _Machine) -> Any:
    return make()


def _put(size: int) -> Callable[[_Machine], None]:
    def act(machine: _Machine) -> None:
        slot = machine.number(size) if size else len(machine.memo)
        machine.memo[slot] = machine.stack[-1]

    return act


def _tuple_of(count: int) -> Callable[[_Machine], None]:
    def act(machine: _Machine) -> None:
        stack = machine.stack
        if len(stack) < count:
            raise IndexError
        stack[-count:] = [tuple(stack[-count:])]

    return act


def _text(size: int) -> Callable[[_Machine], None]:
    # Unpaired surrogates, which Python's pickles allow, are not valid in a text.
    return _push(lambda machine: machine.take(machine.number(size)).decode())


def _bytes(size: int) -> Callable[[_Machine], None]:
    return _push(lambda machine: machine.take(machine.number(size)))


def _whole(size: int) -> Callable[[_Machine], None]:
    return _push(lambda machine: machine.number(machine.number(size), signed=True))


def _append(machine: _Machine) -> None:
    value = machine.stack.pop()
    _require_type(list, machine.stack[-1]).append(value)


def _appends(machine: _Machine) -> None:
    values = machine.since_mark()
    _require_type(list, machine.stack[-1]).extend(values)


def _set_item(machine: _Machine) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    _require_type(dict, machine.stack[-1])[_name(key)] = value


def _set_items(machine: _Machine) -> None:
    values = machine.since_mark()
    target = _require_type(dict, machine.stack[-1])
    target.update(zip(map(_name, values[::2]), values[1::2], strict=True))


def _add_items(machine: _Machine) -> None:
    values = machine.since_mark()
    _require_type(set, machine.stack[-1]).update(_distinct(values))


def _name(value: Any) -> Any:
    """Return a value that is allowed as a key: hashing deeply nested tuples would recurse."""
    if value is not None and type(value) not in (str, int, float, bool, bytes):
        raise TypeError
    return value


def _distinct(values: list[Any]) -> set[Any]:
    return set(map(_name, values))


def _require_type(kind: type[Any], value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


def _frame(machine: _Machine) -> None:
    machine.take(8)


def _protocol(machine: _Machine) -> None:
    if machine.number(1) > 5:  # noqa: PLR2004 - the newest there is
        raise ValueError


def _named_global(machine: _Machine) -> None:
    end = machine.data.index(b"\n", machine.at)
    last = machine.data.index(b"\n", end + 1)
    module, name = machine.data[machine.at : end], machine.data[end + 1 : last]
    machine.at = last + 1
    machine.stack.append(_known(module.decode(), name.decode(), machine))


def _stack_global(machine: _Machine) -> None:
    name, module = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(_known(_require_type(str, module), _require_type(str, name), machine))


def _known(module: str, name: str, machine: _Machine) -> Global:
    cls = Global(module, name)
    if cls not in _MODELS and cls not in _CONSTRUCTORS:
        raise MalformedError(
            f"a pickle that contains a {module[:80]}.{name[:80]}, which is not data",
            byte=machine.at - 1,
            hint="Nothing in it was executed.",
        )
    return cls


def _new(machine: _Machine) -> None:
    arguments, cls = machine.stack.pop(), machine.stack.pop()
    if arguments != () or _require_type(Global, cls) not in _MODELS:
        raise TypeError
    machine.stack.append(Model(cls))


def _reduce(machine: _Machine) -> None:
    arguments, cls = machine.stack.pop(), machine.stack.pop()
    make = _CONSTRUCTORS[_require_type(Global, cls)]
    if make is dict and arguments:
        raise TypeError
    machine.stack.append(make(*_require_type(tuple, arguments)))


def _build(machine: _Machine) -> None:
    state = machine.stack.pop()
    target = _require_type(Model, machine.stack[-1])
    members = _require_type(dict, state)
    target.members = _require_type(dict, members.get("__dict__", members))


_STOP = ord(".")
_PLAIN: dict[bytes, Any] = {b"N": None, b"\x88": True, b"\x89": False, b")": (), b"(": _MARK}
_EMPTY: dict[bytes, type[Any]] = {b"}": dict, b"]": list, b"\x8f": set}
_HANDLERS: dict[bytes, Callable[[_Machine], None]] = {
    b"\x80": _protocol,
    b"\x95": _frame,
    b"K": _push(lambda machine: machine.number(1)),
    b"M": _push(lambda machine: machine.number(2)),
    b"J": _push(lambda machine: machine.number(4, signed=True)),
    b"\x8a": _whole(1),
    b"\x8b": _whole(4),
    b"G": _Machine.floats,
    b"\x8c": _text(1),
    b"X": _text(4),
    b"\x8d": _text(8),
    b"C": _bytes(1),
    b"B": _bytes(4),
    b"\x8e": _bytes(8),
    b"\x94": _put(0),
    b"q": _put(1),
    b"r": _put(4),
    b"h": _push(lambda machine: machine.memo[machine.number(1)]),
    b"j": _push(lambda machine: machine.memo[machine.number(4)]),
    b"a": _append,
    b"e": _appends,
    b"s": _set_item,
    b"u": _set_items,
    b"\x90": _add_items,
    b"\x91": _push(lambda machine: _distinct(machine.since_mark())),
    b"t": _push(lambda machine: tuple(machine.since_mark())),
    b"\x85": _tuple_of(1),
    b"\x86": _tuple_of(2),
    b"\x87": _tuple_of(3),
    b"c": _named_global,
    b"\x93": _stack_global,
    b"\x81": _new,
    b"R": _reduce,
    b"b": _build,
}
_OPERATIONS: dict[int, Callable[[_Machine], None]] = {
    **{sign[0]: _push(partial(_constant, value)) for sign, value in _PLAIN.items()},
    **{sign[0]: _push(partial(_push_new, make)) for sign, make in _EMPTY.items()},
    **{sign[0]: act for sign, act in _HANDLERS.items()},
}
