"""Indexes in SCIP, written by other programs."""

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

# An independent encoder after the documentation of protobuf.


def varint(value: int) -> bytes:
    """Return a varint."""
    found = bytearray()
    while True:
        found.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(found)


def int_field(field: int, value: int) -> bytes:
    """Return a field with a number."""
    return varint(field << 3) + varint(value)


def bytes_field(field: int, *parts: bytes | str) -> bytes:
    """Return a field with a text or a message."""
    data = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    return varint(field << 3 | 2) + varint(len(data)) + data


class SymbolFields(NamedTuple):
    """The fields of a symbol."""

    symbol: str
    docs: Sequence[str] = ()
    signature: str = ""
    kind: int = 0
    implements: str = ""


def information(said: SymbolFields) -> bytes:
    """Return a SymbolInformation."""
    parts = [bytes_field(1, said.symbol), *(bytes_field(3, doc) for doc in said.docs)]
    if said.implements:
        parts.append(bytes_field(4, bytes_field(1, said.implements), int_field(3, 1)))
    if said.kind:
        parts.append(int_field(5, said.kind))
    if said.signature:
        parts.append(bytes_field(7, bytes_field(4, "java"), bytes_field(5, said.signature)))
    return bytes_field(3, *parts)


def occurrence(symbol: str, line: int, roles: int = 0, around: Sequence[int] = ()) -> bytes:
    """Return an Occurrence with packed ranges."""
    parts = [
        bytes_field(1, b"".join(map(varint, (line, 4, 9)))),
        bytes_field(2, symbol),
        int_field(3, roles),
    ]
    if around:
        parts.append(bytes_field(7, b"".join(map(varint, around))))
    return bytes_field(2, *parts)


def document(path: str, *parts: bytes, language: str = "Java") -> bytes:
    """Return a Document."""
    return bytes_field(2, bytes_field(1, path), bytes_field(4, language), *parts)


METADATA = bytes_field(
    1,
    bytes_field(2, bytes_field(1, "scip-java"), bytes_field(2, "0.9")),
    bytes_field(3, "file:///x/my%20shop"),
)
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
            information(SymbolFields(CART, ["A cart."], kind=7, implements=BASE)),
            information(SymbolFields(TOTAL, ["Adds everything up."], "public int total()", 26)),
        ),
        document(
            "com/shop/Prices.java",
            occurrence(f"{P}Prices#", 0, 1),
            occurrence(PRICE, 3, 1),
            information(
                SymbolFields(
                    PRICE, ["```java\npublic static int of(String name)\n```", "Looks up."]
                )
            ),
        ),
        document(
            "com/shop/Base.java",
            occurrence(BASE, 0, 1, (0, 0, 3, 1)),
            information(SymbolFields(BASE, kind=21)),
        ),
        document("com/shop/Main.java", occurrence(f"{P}Main#run().", 1, 1), occurrence(TOTAL, 4)),
    ]
)


def read_index(coded: Coded, path: Path) -> ScipIndex:
    """Update a tree from an index."""
    with OpenFile.named(path) as file:
        source = ScipIndex(file)
        coded.read_from(source)
        return source


@pytest.fixture
def shop(coded: Coded, tmp_path: Path) -> Coded:
    """A bank with the sample index."""
    path = tmp_path / "index.scip"
    path.write_bytes(INDEX)
    source = read_index(coded, path)
    assert (source.project, source.seen.findings) == ("my shop", None)
    return coded


def test_documents_and_symbols_become_files_and_symbols(shop: Coded) -> None:
    """With kind, signature, documentation and lines; without parameters and locals."""
    assert shop.names() == [
        *("interface Base", "class Cart", "method Cart.total", "method Main.run"),
        *("class Prices", "method Prices.of"),
    ]
    total, price = shop.one("Cart.total").symbol, shop.one("Prices.of").symbol
    assert (total.signature, total.doc) == ("public int total()", "Adds everything up.")
    assert (total.first, total.last) == (6, 10)
    assert (price.signature, price.doc) == ("public static int of(String name)", "Looks up.")


def test_occurrences_are_references_to_their_symbol(shop: Coded) -> None:
    """By the symbol's string, from the symbol that encloses the occurrence."""
    assert shop.calls("Cart.total") == {"Prices.of": ("index", ["Prices.java:Prices.of"])}
    assert shop.callers("Prices.of") == ["Cart.java:Cart.total"]
    assert shop.callers("Cart.total") == ["Main.java:Main.run"]


def test_relationships_become_inheritance(shop: Coded) -> None:
    """In both directions."""
    with shop.graph() as graph:
        (cart,), (base,) = graph.find("Cart"), graph.find("Base")
        assert [short(n) for one in graph.bases(cart) for n in one.meaning.nodes] == [
            "Base.java:Base"
        ]
        assert [short(one.node) for one in graph.heirs(base)] == ["Cart.java:Cart"]
        assert [short(node) for node in graph.methods(cart)] == ["Cart.java:Cart.total"]


def test_only_changed_documents_are_read_again(shop: Coded, tmp_path: Path) -> None:
    """A new index has mostly the same documents."""
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
def test_symbol_names_are_parsed_by_the_grammar(symbol: str, qualified: str, kind: str) -> None:
    """Escapes, disambiguators, type parameters, empty packages."""
    found = parse_symbol(symbol)
    assert found is not None
    assert (found.qualified, found.kind(0)) == (qualified, kind)


@pytest.mark.parametrize("symbol", ["", "local 1", "a b c d", "a b c d `open", "a b c d x(", "x"])
def test_a_string_that_is_not_a_global_symbol_is_not_parsed(symbol: str) -> None:
    """The result is None."""
    assert parse_symbol(symbol) is None


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", MalformedError),
        (b"not protobuf at all", MalformedError),
        (INDEX[:-5], MalformedError),
        (METADATA, MalformedError),
        (varint(2 << 3 | 2) + varint(1 << 40), MalformedError),
        (b"\xff" * 40, MalformedError),
        (varint(2 << 3 | 3), MalformedError),
        (varint(2), MalformedError),
        (bytes_field(2, bytes_field(1, "a.java"), b"\x12\xff"), MalformedError),
    ],
)
def test_attack_an_invalid_index_is_refused(
    tmp_path: Path, data: bytes, error: type[InputError]
) -> None:
    """Truncated files, wrong lengths, endless numbers, groups."""
    path = tmp_path / "bad.scip"
    path.write_bytes(data)
    with pytest.raises(error):
        read_index(Coded(InMemoryStore()), path)


def test_attack_an_oversized_document_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single field that fills the memory."""
    monkeypatch.setattr(scip, "LARGEST_DOCUMENT", 1000)
    path = tmp_path / "large.scip"
    path.write_bytes(document("a.java", bytes_field(5, "x" * 2000)))
    with pytest.raises(LimitError):
        read_index(Coded(InMemoryStore()), path)


@pytest.mark.parametrize("path", ["../up.java", "/etc/passwd", "a/../b.java", "", "a\\b", "a//b"])
def test_attack_paths_outside_the_tree_are_reported_and_skipped(tmp_path: Path, path: str) -> None:
    """Documents elsewhere on the machine."""
    index = tmp_path / "odd.scip"
    index.write_bytes(document(path, occurrence(CART, 0, 1)) + document("ok.java"))
    source = read_index(Coded(InMemoryStore()), index)
    assert [why for why in source.seen.findings or [] if why[1]]


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    """As a typed error."""
    path = tmp_path_factory.mktemp("x") / "any.scip"
    path.write_bytes(data)
    with suppress(InputError):
        read_index(Coded(InMemoryStore()), path)


@given(st.integers(0, len(INDEX) - 1), st.integers(0, 255))
def test_any_changed_byte_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, at: int, value: int
) -> None:
    """At any position of the sample."""
    path = tmp_path_factory.mktemp("x") / "changed.scip"
    path.write_bytes(INDEX[:at] + bytes([value]) + INDEX[at + 1 :])
    with suppress(InputError):
        read_index(Coded(InMemoryStore()), path)
