"""Indexes in SCIP: read as another program wrote them, and refused where they are none."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from code_kit import Coded, short
from hypothesis import given
from hypothesis import strategies as st

from satchel.code_graph import scip
from satchel.code_graph.scip import ScipIndex, parse_symbol
from satchel.errors import InputError, LimitError, MalformedError
from satchel.runtime.files import OpenFile
from satchel.stores.memory import InMemoryStore

# An encoder of its own, by protobuf's documentation: what is read is not what our reader wrote.


def number(value: int) -> bytes:
    """Return a varint."""
    found = bytearray()
    while True:
        found.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(found)


def num(field: int, value: int) -> bytes:
    """Return a field with a number."""
    return number(field << 3) + number(value)


def msg(field: int, *parts: bytes | str) -> bytes:
    """Return a field with a text or a message."""
    data = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    return number(field << 3 | 2) + number(len(data)) + data


class Said(NamedTuple):
    """A symbol with what is said of it."""

    symbol: str
    docs: Sequence[str] = ()
    signature: str = ""
    kind: int = 0
    implements: str = ""


def information(said: Said) -> bytes:
    """Return a SymbolInformation."""
    parts = [msg(1, said.symbol), *(msg(3, doc) for doc in said.docs)]
    if said.implements:
        parts.append(msg(4, msg(1, said.implements), num(3, 1)))
    if said.kind:
        parts.append(num(5, said.kind))
    if said.signature:
        parts.append(msg(7, msg(4, "java"), msg(5, said.signature)))
    return msg(3, *parts)


def occurrence(symbol: str, line: int, roles: int = 0, around: Sequence[int] = ()) -> bytes:
    """Return an Occurrence with packed ranges."""
    parts = [msg(1, b"".join(map(number, (line, 4, 9)))), msg(2, symbol), num(3, roles)]
    if around:
        parts.append(msg(7, b"".join(map(number, around))))
    return msg(2, *parts)


def document(path: str, *parts: bytes, language: str = "Java") -> bytes:
    """Return a Document."""
    return msg(2, msg(1, path), msg(4, language), *parts)


METADATA = msg(1, msg(2, msg(1, "scip-java"), msg(2, "0.9")), msg(3, "file:///x/my%20shop"))
P = "semanticdb maven com.shop 1.0 com/shop/"
CART, TOTAL, BASE, PRICE = f"{P}Cart#", f"{P}Cart#total().", f"{P}Base#", f"{P}Prices#of(+1)."
INDEX = METADATA + b"".join(
    [
        document(
            "com/shop/Cart.java",
            occurrence(CART, 2, 1, (2, 0, 20, 1)),
            occurrence(BASE, 2),
            occurrence(TOTAL, 5, 1, (5, 0, 9, 1)),
            occurrence(PRICE, 7),
            occurrence(PRICE, 8),
            occurrence("local 3", 8),
            information(Said(CART, ["A cart."], kind=7, implements=BASE)),
            information(Said(TOTAL, ["Adds everything up."], "public int total()", 26)),
        ),
        document(
            "com/shop/Prices.java",
            occurrence(f"{P}Prices#", 0, 1),
            occurrence(PRICE, 3, 1),
            information(
                Said(PRICE, ["```java\npublic static int of(String name)\n```", "Looks up."])
            ),
        ),
        document(
            "com/shop/Base.java",
            occurrence(BASE, 0, 1, (0, 0, 3, 1)),
            information(Said(BASE, kind=21)),
        ),
        document("com/shop/Main.java", occurrence(f"{P}Main#run().", 1, 1), occurrence(TOTAL, 4)),
    ]
)


def read(coded: Coded, path: Path) -> ScipIndex:
    """Bring a tree up to date from an index."""
    with OpenFile.named(path) as file:
        source = ScipIndex(file)
        coded.read_from(source)
        return source


@pytest.fixture
def shop(coded: Coded, tmp_path: Path) -> Coded:
    """A bank that knows the sample."""
    path = tmp_path / "index.scip"
    path.write_bytes(INDEX)
    source = read(coded, path)
    assert (source.project, source.seen.findings) == ("my shop", None)
    return coded


def test_documents_and_symbols_become_files_and_symbols(shop: Coded) -> None:
    """With kind, signature, documentation and lines; parameters and locals are no part of it."""
    assert shop.names() == [
        *("interface Base", "class Cart", "method Cart.total", "method Main.run"),
        *("class Prices", "method Prices.of"),
    ]
    total, price = shop.one("Cart.total").symbol, shop.one("Prices.of").symbol
    assert (total.signature, total.doc) == ("public int total()", "Adds everything up.")
    assert (total.first, total.last) == (6, 10)
    assert (price.signature, price.doc) == ("public static int of(String name)", "Looks up.")


def test_places_are_references_to_exactly_what_is_meant(shop: Coded) -> None:
    """By the symbol's own string, from the symbol whose lines are around the place."""
    assert shop.calls("Cart.total") == {"Prices.of": ("index", ["Prices.java:Prices.of"])}
    assert shop.callers("Prices.of") == ["Cart.java:Cart.total"]
    assert shop.callers("Cart.total") == ["Main.java:Main.run"]


def test_relationships_are_inheritance(shop: Coded) -> None:
    """Both ways."""
    with shop.graph() as graph:
        (cart,), (base,) = graph.find("Cart"), graph.find("Base")
        assert [short(n) for one in graph.bases(cart) for n in one.meaning.nodes] == [
            "Base.java:Base"
        ]
        assert [short(one.node) for one in graph.heirs(base)] == ["Cart.java:Cart"]
        assert [short(node) for node in graph.methods(cart)] == ["Cart.java:Cart.total"]


def test_only_documents_that_changed_are_read_again(shop: Coded, tmp_path: Path) -> None:
    """An index is written anew as a whole; most of its documents are the same."""
    path = tmp_path / "index.scip"
    path.write_bytes(INDEX.replace(b"Adds everything up.", b"Adds everything in."))
    with OpenFile.named(path) as file:
        done = shop.read_from(ScipIndex(file))
    assert (done.read, done.unchanged) == (1, 3)
    assert shop.one("Cart.total").symbol.doc == "Adds everything in."


@pytest.mark.parametrize(
    ("symbol", "qualified", "kind"),
    [
        ("scip-python python shop 1.0 `shop.cart`/Cart#total().", "Cart.total", "method"),
        ("scip-python python shop 1.0 `shop.cart`/open().", "open", "function"),
        ("scip-go gomod a/b v1 `a/b/c`/Cart#Total().", "Cart.Total", "method"),
        ("rust-analyzer cargo x 0.1 cart/impl#[Cart]total().", "impl.total", "method"),
        ("scip  x . . . a/B#`odd `` name`().", "B.odd ` name", "method"),
        ("x . . . macro!", "macro", "function"),
        ("x . . . a/field.", "field", ""),
    ],
)
def test_names_are_read_as_their_grammar_says(symbol: str, qualified: str, kind: str) -> None:
    """Escapes, disambiguators, type parameters, packages with nothing in them."""
    found = parse_symbol(symbol)
    assert found is not None
    assert (found.qualified, found.kind(0)) == (qualified, kind)


@pytest.mark.parametrize("symbol", ["", "local 1", "a b c d", "a b c d `open", "a b c d x(", "x"])
def test_what_is_no_global_name_is_none(symbol: str) -> None:
    """Nothing is guessed."""
    assert parse_symbol(symbol) is None


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", MalformedError),
        (b"not protobuf at all", MalformedError),
        (INDEX[:-5], MalformedError),
        (METADATA, MalformedError),
        (number(2 << 3 | 2) + number(1 << 40), MalformedError),
        (b"\xff" * 40, MalformedError),
        (number(2 << 3 | 3), MalformedError),
        (number(2), MalformedError),
        (msg(2, msg(1, "a.java"), b"\x12\xff"), MalformedError),
    ],
)
def test_what_is_no_index_is_refused_not_crashed_on(
    tmp_path: Path, data: bytes, error: type[InputError]
) -> None:
    """Attack: cut files, lengths that lie, numbers without end, groups."""
    path = tmp_path / "bad.scip"
    path.write_bytes(data)
    with pytest.raises(error):
        read(Coded(InMemoryStore()), path)


def test_a_document_that_is_too_large_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: one field that fills the memory."""
    monkeypatch.setattr(scip, "LARGEST_DOCUMENT", 1000)
    path = tmp_path / "large.scip"
    path.write_bytes(document("a.java", msg(5, "x" * 2000)))
    with pytest.raises(LimitError):
        read(Coded(InMemoryStore()), path)


@pytest.mark.parametrize("path", ["../up.java", "/etc/passwd", "a/../b.java", "", "a\\b", "a//b"])
def test_paths_that_leave_the_folder_are_named_and_skipped(tmp_path: Path, path: str) -> None:
    """Attack: an index whose documents are elsewhere on this machine."""
    index = tmp_path / "odd.scip"
    index.write_bytes(document(path, occurrence(CART, 0, 1)) + document("ok.java"))
    source = read(Coded(InMemoryStore()), index)
    assert [why for why in source.seen.findings or [] if why[1]]


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    """For all of them: an index or a typed error."""
    path = tmp_path_factory.mktemp("x") / "any.scip"
    path.write_bytes(data)
    with suppress(InputError):
        read(Coded(InMemoryStore()), path)


@given(st.integers(0, len(INDEX) - 1), st.integers(0, 255))
def test_any_changed_byte_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, at: int, value: int
) -> None:
    """For all places in the sample."""
    path = tmp_path_factory.mktemp("x") / "changed.scip"
    path.write_bytes(INDEX[:at] + bytes([value]) + INDEX[at + 1 :])
    with suppress(InputError):
        read(Coded(InMemoryStore()), path)
