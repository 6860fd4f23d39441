"""Operations that are declared once: what each interface derives, and what is refused."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast

import pytest
from click.testing import CliRunner
from fastapi import FastAPI
from fastapi.testclient import TestClient

from satchel.api.operations import method
from satchel.cli._console import state
from satchel.cli._operations import command
from satchel.cli._tree import Command, Group, specifications
from satchel.cli.main import leaf
from satchel.errors import UsageError
from satchel.http.operations import body, query
from satchel.ports import absent_options
from satchel.ports.operations import Absent, Option, Options, declared, operation, operations


@dataclass(frozen=True, slots=True)
class PackOptions(Options):
    """What to pack."""

    name: Annotated[str | None, Option("Name of the box.", argument=True, max_length=5)] = None
    _: KW_ONLY
    items: Annotated[
        str | PathLike[str] | Sequence[str | PathLike[str]],
        Option("An item. Repeatable.", flag="--item", max_items=2),
    ] = ()
    count: Annotated[int, Option("Number of boxes.", minimum=1, maximum=9)] = 1
    size: Annotated[Literal["small", "large"] | None, Option("Size of the box.")] = None
    place: Annotated[int | None, Option("Place of the box.")] = None
    closed: Annotated[bool, Option("Close the box.")] = False
    label: Annotated[bool, Option("Print a label.", flag="--label/--no-label")] = True
    at: Annotated[str | None, Option("Day.", parse=lambda text: f"{text}T00:00:00Z")] = None
    extra: Annotated[Mapping[str, Any] | None, Option("Anything.")] = None
    secret: Annotated[
        str | None,
        Option(
            "Password.",
            cli=Absent(why="The command line asks for it."),
            http=Absent(why="A request must not name it."),
        ),
    ] = None
    internal: int = 0


def run(context: list[str], options: PackOptions) -> dict[str, Any]:
    """Pack a box.

    Nothing is thrown away.

    Args:
        context: What was packed.
        options: What to pack.

    Raises:
        UsageError: If it cannot be meant.
    """
    context.append(options.name or "")
    return {field.name: getattr(options, field.name) for field in declared(PackOptions)}


pack = operation(PackOptions, name="box pack", example="satchel box pack blue")(run)
del operations["box pack"]  # of this test alone


@dataclass(frozen=True, slots=True, kw_only=True)
class CountOptions(Options):
    """What to count."""

    items: Annotated[str | Sequence[str], Option("An item.")] = ()
    count: Annotated[int, Option("Number of boxes.", minimum=1, maximum=9)] = 1


@operation(CountOptions, name="box count")
def count(context: None, options: CountOptions) -> int:
    """Count boxes."""
    del context
    return options.count


del operations["box count"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrateOptions(Options):
    """What to pack into a crate."""

    crate: Annotated[str, Option("Name of the crate.")]


@pack.alias(CrateOptions, name="crate fill", why="A carrier documents it by this name.")
@contextmanager
def fill(context: list[str], options: CrateOptions) -> Iterator[tuple[list[str], PackOptions]]:
    """Fill a crate.

    Raises:
        UsageError: As ``box pack``.
    """
    context.append("opened")
    yield context, PackOptions(options.crate, count=2)
    context.append("closed")


del operations["crate fill"]

DEFAULTS = {
    "name": None, "items": (), "count": 1, "size": None, "place": None, "closed": False,
    "label": True, "at": None, "extra": None, "secret": None,
}  # fmt: skip


def test_omitted_arguments_have_their_defaults() -> None:
    """For every option."""
    assert pack([]) == DEFAULTS


def test_values_are_normalized_when_options_are_made() -> None:
    """A text becomes a tuple of one; a path becomes text; a parser's result replaces the value."""
    options = PackOptions("blue", items=Path("/a"), at="2026-01-31")
    assert (options.items, options.at) == (("/a",), "2026-01-31T00:00:00Z")
    assert PackOptions(items=["a", Path("b")]).items == ("a", "b")


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({"count": 0}, "count", "count must be from 1 to 9, not 0"),
        ({"count": 10}, "count", "count must be from 1 to 9, not 10"),
        ({"items": ["a", "b", "c"]}, "items", "items must have at most 2 items"),
        ({"place": 1 << 63}, "place", "place must have at most 64 bits"),
        ({"place": -(1 << 63) - 1}, "place", "place must have at most 64 bits"),
        ({"name": "yellow"}, "name", "name must have at most 5 characters"),
        ({"size": "huge"}, "size", "unknown value 'huge'"),
    ],
)
def test_a_value_out_of_bounds_is_refused_with_the_name_of_its_option(
    given: dict[str, Any], field: str, message: str
) -> None:
    """In Python, before anything runs."""
    ran = list[str]()
    with pytest.raises(UsageError, match=message) as refused:
        pack(ran, **given)
    assert (refused.value.field, ran) == (field, [])


def test_an_alias_runs_the_operation_with_its_own_options() -> None:
    """Its help names the operation and the reason; both refuse the same values."""
    packed = list[str]()
    assert fill(packed, crate="blue") == DEFAULTS | {"name": "blue", "count": 2}
    assert packed == ["opened", "blue", "closed"]
    assert fill.help == (
        "Fill a crate.\n\nAnother name of `box pack`. A carrier documents it by this name."
    )
    with pytest.raises(UsageError, match="at most 5 characters"):
        fill(packed, crate="yellow")


def test_an_option_needs_help() -> None:
    """It would be a blank line in each interface."""

    @dataclass(frozen=True)
    class Silent(Options):
        name: Annotated[str, Option("")] = ""

    with pytest.raises(TypeError, match=r"Silent\.name has no help"):
        declared(Silent)


def test_type_checkers_see_no_option_that_python_does_not_offer() -> None:
    """A declaration that differs between them and run time is refused."""

    @dataclass(frozen=True)
    class Accepted(Options):
        name: Annotated[str, Option("Name.", python=Absent(why="It has none."))] = ""

    @dataclass(frozen=True)
    class Unseen(Options):
        name: Annotated[str, Option("Name.")] = absent_options.field(default="", init=False)

    for kind in (Accepted, Unseen):
        with pytest.raises(TypeError, match=r"\.name: .* go together"):
            declared(kind)


class Box:
    """A class with the operation as a method."""

    def __init__(self) -> None:
        self.packed = list[str]()

    def _context(self) -> Any:
        from contextlib import nullcontext

        return nullcontext(self.packed)

    pack = method(pack)


def test_the_method_takes_the_options_as_keywords() -> None:
    """And the argument by position."""
    box = Box()
    assert box.pack("blue", count=2) == DEFAULTS | {"name": "blue", "count": 2}
    assert box.packed == ["blue"]
    given: Any = {"coutn": 2}  # a misspelled option is never ignored
    with pytest.raises(TypeError, match=r"pack\(\) .* 'coutn'\. Did you mean 'count'\?"):
        box.pack("blue", **given)
    with pytest.raises(TypeError, match="unexpected keyword argument 'internal'"):
        box.pack("blue", internal=1)


def cli(*words: str) -> tuple[int, str, list[dict[str, Any]]]:
    """Run the command; return its exit status, output and results."""
    state.reset(json=False)  # of a command that ran in this process before
    group, results = Group(), list[dict[str, Any]]()
    command(group, pack, results.append, context=lambda _: nullcontext([]))
    made = group.commands["pack"]
    assert isinstance(made, Command)
    read = leaf(("box", "pack"), specifications(group, "")["pack"], lambda: made)
    ran = CliRunner().invoke(read, words)
    return ran.exit_code, ran.output, results


def test_the_command_has_the_same_options() -> None:
    """Flags, an argument, repeated options, choices and switches."""
    words = ("blue", "--item", "a", "--item", "b", "--count", "3", "--size", "large", "--closed")
    status, _, results = cli(*words, "--no-label", "--at", "2026-01-31")
    assert status == 0
    assert results == [
        DEFAULTS
        | {"name": "blue", "items": ("a", "b"), "count": 3, "size": "large", "closed": True}
        | {"label": False, "at": "2026-01-31T00:00:00Z"}
    ]
    assert cli()[2] == [DEFAULTS]


@pytest.mark.parametrize("words", [("--count", "0"), ("--size", "huge"), ("--secret", "x")])
def test_the_command_refuses_the_same_values(words: tuple[str, ...]) -> None:
    """And options that it does not offer."""
    status, _, results = cli(*words)
    assert (status == 0, results) == (False, [])


def test_help_has_the_text_of_each_option() -> None:
    """And of the operation, with its example; not the sections for programmers."""
    text = " ".join(cli("--help")[1].split())
    assert "Pack a box." in text
    assert "satchel box pack blue" in text
    assert "Raises" not in text
    for field in pack.offered("cli"):
        assert field.option.help.split()[0] in text


@pytest.fixture
def client() -> TestClient:
    """A server with the operation as a body and as a query."""
    app = FastAPI()

    @app.post("/pack")
    def posted(options: Annotated[PackOptions, body(pack)]) -> dict[str, Any]:
        return pack.run([], options)

    @app.get("/count")
    def got(options: Annotated[CountOptions, query(count)]) -> dict[str, Any]:
        return {"items": options.items, "count": options.count}

    return TestClient(app)


def test_a_body_has_the_same_options(client: TestClient) -> None:
    """With their types and bounds in the document, and nothing else."""
    given = {"name": "blue", "items": ["a"], "count": 2, "extra": {"a": [1]}}
    answer = client.post("/pack", json=given).json()
    assert answer == {**DEFAULTS, **given}
    for wrong in ({"count": 0}, {"size": "huge"}, {"secret": "x"}, {"internal": 1}, {"color": 1}):
        assert client.post("/pack", json=wrong).status_code == 422
    schema = client.get("/openapi.json").json()["components"]["schemas"]["BoxPack"]
    assert set(schema["properties"]) == {field.name for field in pack.offered("http")}
    assert schema["properties"]["count"]["maximum"] == 9
    assert schema["properties"]["items"]["description"] == "An item."


def test_a_query_has_the_same_options(client: TestClient) -> None:
    """Lists are repeated parameters."""
    answer = client.get("/count", params={"items": ["a", "b"], "count": 2})
    assert answer.json() == {"items": ["a", "b"], "count": 2}
    assert client.get("/count").json() == {"items": [], "count": 1}
    assert client.get("/count", params={"count": 10}).status_code == 422


def test_json_is_refused_as_a_query_parameter() -> None:
    """When the route is created, not when it is called."""
    with pytest.raises(TypeError, match="extra"):
        query(pack)


class Counted(NamedTuple):
    """A result that msgspec would write as a list."""

    name: str
    number: int


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (Counted("a", 1), {"name": "a", "number": 1}),
        ([Counted("a", 1)], {"boxes": [{"name": "a", "number": 1}]}),
        ((), {"boxes": []}),
        ({"count": 1}, {"count": 1}),
    ],
)
def test_a_result_is_one_json_object(result: Any, expected: dict[str, Any]) -> None:
    """A list has the name that the operation declares; a named tuple is an object."""

    def listed(context: None, options: CountOptions) -> Any:
        """List boxes."""
        del context, options
        return result

    listing = operation(CountOptions, name="box listing", items="boxes")(listed)
    del operations["box listing"]
    assert listing.json(result) == expected


def test_a_list_result_needs_a_name() -> None:
    """A bare list could never get another member."""
    with pytest.raises(TypeError, match="items="):
        pack.json(cast("Any", []))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(Options):
    """An option that only the command line offers."""

    size_file: Annotated[str, Option("File with the size.")] = "none"


def test_an_option_of_the_command_line_only_is_parsed_and_opened() -> None:
    """A file that it opens stays open until the operation is done."""
    state.reset(json=False)
    events = list[str]()

    @contextmanager
    def file() -> Iterator[None]:
        yield
        events.append("file closed")

    def prepare(values: dict[str, Any], source: SourceOptions) -> None:
        state.held.enter_context(file())
        events.append(f"read {source.size_file}")
        values["size"] = "large"

    def choose(context: list[str], options: PackOptions) -> PackOptions:
        events.append("chosen")
        return replace(options, name=context[0])

    def opens(_: PackOptions, source: SourceOptions) -> Any:
        events.append(f"opened with {source.size_file}")
        return nullcontext(["green"])

    def show(result: dict[str, Any], source: SourceOptions) -> None:
        events.append(f"{result['name']} {result['size']} {source.size_file}")

    group = Group()
    command(group, pack, show, context=opens, extra=SourceOptions, prepare=prepare, choose=choose)
    made = group.commands["pack"]
    assert isinstance(made, Command)
    read = leaf(("box", "pack"), specifications(group, "")["pack"], lambda: made)
    assert CliRunner().invoke(read, ("--size-file", "a.txt")).exit_code == 0
    assert events == [
        *("read a.txt", "opened with a.txt", "chosen", "file closed", "green large a.txt"),
    ]
