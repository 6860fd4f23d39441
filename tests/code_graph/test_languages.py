"""Symbols, calls, inheritance and imports of each language."""

from pathlib import Path

import pytest
from code_kit import SAMPLES, Coded, short, written

from satchel.stores.memory import InMemoryStore

LANGUAGES = ["python", "web", "go", "rust", "java"]


@pytest.fixture(scope="module")
def read() -> dict[str, Coded]:
    """The samples of each language, each in a bank."""
    found = {}
    for language in LANGUAGES:
        found[language] = Coded(InMemoryStore())
        done = found[language].read(SAMPLES / language)
        assert done.findings == []
    return found


SYMBOLS = {
    "python": [
        *("function main", "class Basket", "method Basket.count", "class Cart"),
        *("method Cart.__init__", "method Cart.total", "method Cart.add", "function open_cart"),
        *("class Price", "class Rounding", "method Rounding.apply"),
        *("function fetch_prices", "function price_of"),
    ],
    "web": [
        *("interface Countable", "method Countable.count", "interface Sized", "class Cart"),
        *("method Cart.constructor", "method Cart.total", "method Cart.count", "class Basket"),
        *("function openCart", "enum Kind", "type Names", "interface Price", "interface Line"),
        *("class Rounding", "method Rounding.apply", "function priceOf"),
        *("function Row", "function View"),
        *("function start", "class Shop", "method Shop.open", "method Shop.run"),
    ],
    "go": [
        *("interface Counter", "method Counter.Count", "struct Cart", "method Cart.Total"),
        *("function New", "struct Basket", "method Basket.Count", "struct Rounding"),
        *("method Rounding.Apply", "function PriceOf", "function main"),
    ],
    "rust": [
        *("trait Countable", "method Countable.count", "struct Cart", "method Cart.count"),
        *("method Cart.new", "method Cart.total", "enum Kind", "module cart", "module prices"),
        *("function main", "struct Price", "struct Rounding", "method Rounding.apply"),
        "function price_of",
    ],
    "java": [
        *("class Basket", "enum Basket.Kind", "class Rounding", "method Rounding.apply"),
        *("class Cart", "method Cart.Cart", "method Cart.total", "method Cart.count"),
        *("method Cart.open", "interface Countable", "method Countable.count"),
        *("class Price", "class Prices", "method Prices.priceOf"),
    ],
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_symbols_of_a_language_are_found(read: dict[str, Coded], language: str) -> None:
    """Types, functions and methods, also methods outside their type."""
    assert read[language].names() == SYMBOLS[language]


@pytest.mark.parametrize(
    ("language", "name", "signature", "doc", "lines", "complexity"),
    [
        (
            "python",
            "Cart.total",
            "def total(self, *, vat: bool=True) -> Price",
            "Add everything up.\n\nWith tax, unless told otherwise.",
            (22, 30),
            4,
        ),
        (
            "python",
            "fetch_prices",
            "async def fetch_prices(address: str, retries: int=3) -> dict[str, Price]",
            "",
            (17, 18),
            1,
        ),
        (
            "web",
            "lib.cart.Cart.total",
            "total(vat: boolean = true): Price",
            "Adds everything up.",
            (24, 29),
            3,
        ),
        (
            "web",
            "openCart",
            "export const openCart = async (names: string[]): Promise<Cart>",
            "",
            (38, 42),
            1,
        ),
        ("web", "start", "function start()", "Starts the old shop.", (5, 7), 1),
        (
            "go",
            "Cart.Total",
            "func (c *Cart) Total(vat bool) (int, error)",
            "Total adds everything up.",
            (19, 24),
            3,
        ),
        (
            "rust",
            "Cart.total",
            "pub fn total(&self, vat: bool) -> Price",
            "Adds everything up.",
            (27, 32),
            3,
        ),
        (
            "java",
            "Cart.total",
            "public Price total(boolean vat) throws IllegalStateException",
            "Adds everything up.",
            (15, 20),
            3,
        ),
    ],
)
def test_a_symbol_has_its_signature_doc_lines_and_complexity(  # noqa: PLR0913 - its members
    read: dict[str, Coded],
    language: str,
    name: str,
    signature: str,
    doc: str,
    lines: tuple[int, int],
    complexity: int,
) -> None:
    """As in the file; the complexity is 1 plus the number of branches."""
    symbol = read[language].one(name).symbol
    assert (symbol.signature, symbol.doc) == (signature, doc)
    assert ((symbol.first, symbol.last), symbol.complexity) == (lines, complexity)


@pytest.mark.parametrize(
    ("language", "name", "calls"),
    [
        (
            "python",
            "Cart.total",
            {
                "self.count": ("self", ["cart.py:Basket.count"]),
                "Price": ("import", ["prices.py:Price"]),
                "look_up": ("import", ["prices.py:price_of"]),
                "self.rounding.apply": ("type", ["prices.py:Rounding.apply"]),
                "sum": ("outside", []),
            },
        ),
        (
            "python",
            "main",
            {
                "open_cart": ("package", ["cart.py:open_cart"]),
                "shop.open_cart": ("package", ["cart.py:open_cart"]),
                "Cart": ("import", ["cart.py:Cart"]),
                "direct.total": ("type", ["cart.py:Cart.total"]),
                "cart.total": ("name", ["cart.py:Cart.total"]),
                "unknown.total": ("name", ["cart.py:Cart.total"]),
                "helpers.show": ("outside", []),
                "print": ("outside", []),
            },
        ),
        (
            "web",
            "lib.cart.Cart.total",
            {
                "this.count": ("self", ["cart.ts:Cart.count"]),
                "lookUp": ("import", ["prices.ts:priceOf"]),
                "this.rounding.apply": ("type", ["prices.ts:Rounding.apply"]),
            },
        ),
        (
            "web",
            "View",
            {
                "openCart": ("import", ["cart.ts:openCart"]),
                "Row": ("file", ["view.tsx:Row"]),
            },
        ),
        (
            "web",
            "start",
            {
                "cart.openCart": ("import", ["cart.ts:openCart"]),
                "found.total": ("name", ["cart.ts:Cart.total"]),
                "?.then": ("", []),
            },
        ),
        (
            "go",
            "Cart.Total",
            {
                "c.Count": ("type", ["prices.go:Basket.Count"]),
                "c.rounding.Apply": ("type", ["prices.go:Rounding.Apply"]),
                "PriceOf": ("folder", ["prices.go:PriceOf"]),
                "fmt.Errorf": ("outside", []),
            },
        ),
        (
            "go",
            "main",
            {
                "shop.New": ("import", ["cart.go:New"]),
                "shop.PriceOf": ("import", ["prices.go:PriceOf"]),
                "found.Total": ("name", ["cart.go:Cart.Total"]),
            },
        ),
        (
            "rust",
            "Cart.total",
            {
                "self.count": ("type", ["cart.rs:Cart.count"]),
                "look_up": ("import", ["prices.rs:price_of"]),
                "self.rounding.apply": ("type", ["prices.rs:Rounding.apply"]),
            },
        ),
        (
            "rust",
            "main",
            {
                "Cart.new": ("import", ["cart.rs:Cart.new"]),
                "found.total": ("type", ["cart.rs:Cart.total"]),
                "prices.price_of": ("import", ["prices.rs:price_of"]),
            },
        ),
        (
            "java",
            "Cart.total",
            {
                "count": ("self", ["Cart.java:Cart.count"]),
                "priceOf": ("import", ["Prices.java:Prices.priceOf"]),
                "this.rounding.apply": ("type", ["Basket.java:Rounding.apply"]),
            },
        ),
        (
            "java",
            "Cart.open",
            {
                "Cart": ("file", ["Cart.java:Cart"]),
                "cart.total": ("type", ["Cart.java:Cart.total"]),
            },
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_calls_resolve_by_the_rules_of_the_language(
    read: dict[str, Coded], language: str, name: str, calls: dict[str, tuple[str, list[str]]]
) -> None:
    """By scope, import, package, receiver and declared type; by name alone only as candidates."""
    assert read[language].calls(name) == calls


@pytest.mark.parametrize(
    ("language", "name", "callers"),
    [
        ("python", "price_of", ["cart.py:Cart.total"]),
        ("python", "Cart.total", ["main.py:main", "main.py:main?", "main.py:main?"]),
        ("python", "open_cart", ["main.py:main", "main.py:main"]),
        ("web", "priceOf", ["cart.ts:Cart.total"]),
        ("web", "openCart", ["old.js:start", "view.tsx:View"]),
        ("go", "PriceOf", ["cart.go:Cart.Total", "main.go:main"]),
        ("rust", "price_of", ["cart.rs:Cart.total", "main.rs:main"]),
        ("java", "priceOf", ["Cart.java:Cart.total"]),
    ],
)
def test_callers_are_found_through_import_aliases(
    read: dict[str, Coded], language: str, name: str, callers: list[str]
) -> None:
    """Uncertain callers are marked."""
    assert read[language].callers(name) == callers


@pytest.mark.parametrize(
    ("language", "name", "bases", "heirs"),
    [
        ("python", "Basket", [], ["cart.py:Cart"]),
        ("web", "lib.cart.Cart", ["cart.ts:Basket", "cart.ts:Countable"], []),
        ("web", "Sized", [], ["cart.ts:Countable"]),
        ("go", "Cart", ["prices.go:Basket"], []),
        ("rust", "cart.Countable", [], ["cart.rs:Cart"]),
        ("java", "Cart", ["Basket.java:Basket", "Cart.java:Countable"], []),
    ],
)
def test_inheritance_is_followed_in_both_directions(
    read: dict[str, Coded], language: str, name: str, bases: list[str], heirs: list[str]
) -> None:
    """Classes, interfaces, traits and embedded structs."""
    with read[language].graph() as graph:
        (node,) = [each for each in graph.find(name) if each.symbol.kind != "method"][:1]
        assert [short(n) for one in graph.bases(node) for n in one.meaning.nodes] == bases
        assert [short(one.node) for one in graph.heirs(node)] == heirs


@pytest.mark.parametrize(
    ("language", "path", "imports"),
    [
        (
            "python",
            "main.py",
            {
                "shop ": ["src/shop/__init__.py"],
                "shop open_cart": ["src/shop/__init__.py"],
                "shop.cart Cart": ["src/shop/cart.py"],
                "helpers ": [],
            },
        ),
        (
            "web",
            "old.js",
            {"./lib/prices priceOf": ["lib/prices.ts"], "./lib/cart ": ["lib/cart.ts"]},
        ),
        ("web", "lib/view.tsx", {"./cart openCart": ["lib/cart.ts"], "react default": []}),
        ("go", "cmd/main.go", {"example.com/shop/cart ": ["cart/cart.go", "cart/prices.go"]}),
        ("rust", "src/main.rs", {"crate.cart Cart": ["src/cart.rs"]}),
        (
            "java",
            "shop/Cart.java",
            {
                "shop.model Price": ["shop/model/Price.java"],
                "shop.model.Prices priceOf": ["shop/model/Prices.java"],
            },
        ),
    ],
)
def test_imports_resolve_to_files(
    read: dict[str, Coded], language: str, path: str, imports: dict[str, list[str]]
) -> None:
    """Of the tree; other imports are stored as written."""
    with read[language].graph() as graph:
        found = {
            f"{one.imported.module} {one.imported.name}": list(one.files)
            for one in graph.imports(graph.trees[0], path)
        }
    assert found == imports


@pytest.mark.parametrize(
    ("language", "type_", "methods"),
    [
        ("python", "Cart", ["__init__", "total", "add"]),
        ("go", "Basket", ["Count"]),
        ("rust", "Cart", ["count", "new", "total"]),
        ("java", "Prices", ["priceOf"]),
    ],
)
def test_methods_belong_to_their_type(
    read: dict[str, Coded], language: str, type_: str, methods: list[str]
) -> None:
    """Wherever they are defined."""
    with read[language].graph() as graph:
        (node,) = [each for each in graph.find(type_) if each.symbol.kind in {"class", "struct"}]
        assert [each.symbol.name for each in graph.methods(node)] == methods


def test_a_default_export_is_found_under_any_import_name(tmp_path: Path) -> None:
    """In JavaScript the importing file chooses the name."""
    files = {
        "shop.js": "export default function openShop() {}\n",
        "main.js": "import start from './shop';\nimport x from './none';\n"
        "function main() { start(); x(); }\n",
    }
    coded = Coded(InMemoryStore())
    coded.read(written(tmp_path / "t", files))
    assert coded.calls("main") == {
        "start": ("import", ["shop.js:openShop"]),
        "x": ("outside", []),
    }
