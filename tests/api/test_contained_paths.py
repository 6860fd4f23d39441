"""Paths that programs name: where they may lead, and every way out of there."""

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from folder_kit import leftovers, picture

import satchel
from satchel import aio
from satchel.bank.machine_keys import signing_key
from satchel.config.settings import load_settings
from satchel.errors import ContainmentError, PathRefusedError, SatchelError
from satchel.transfer.import_results import ImportOptions
from satchel.transfer.imports import import_file

OURS, ASTROCYTES = "SATCHEL_PORTABILITY_ROOTS", "ASTROCYTE_PORTABILITY_ROOTS"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a Mem0 file; one that is not allowed is beside it, with the same."""
    for name in ("root", "outside"):
        (tmp_path / name).mkdir()
        rows = [{"id": "1", "memory": f"from {name}", "user_id": "ada"}]
        (tmp_path / name / "in.json").write_text(json.dumps(rows))
    return tmp_path / "root"


@pytest.fixture
def store(root: Path) -> Iterator[Callable[..., satchel.Satchel]]:
    """Open a store, with roots that the operator has set, and a bank ``b`` with a memory."""
    opened: list[satchel.Satchel] = []
    with satchel.Satchel.open() as here:
        here.create_bank("b").remember("likes tea")

    def call(monkeypatch: pytest.MonkeyPatch | None = None, **said: str) -> satchel.Satchel:
        for name, value in said.items():
            assert monkeypatch is not None
            monkeypatch.setenv(name, value.format(root=root, outside=root.parent / "outside"))
        opened.append(satchel.Satchel.open())
        return opened[-1]

    yield call
    for one in opened:
        one.close()


def _doors(here: satchel.Satchel) -> dict[str, Callable[..., Any]]:
    """Return all that takes a path."""
    bank = here.bank("b")
    return {
        "bank.export": lambda path, **how: bank.export(path, **_of_a_bank(how)),
        "bank.import_": lambda path, **how: bank.import_(path, **_of_a_bank(how)),
        "export_bank": lambda path, **how: here.export_bank("b", path, **how),
        "import_bank": lambda path, **how: here.import_bank("b", path, **how),
    }


def _of_a_bank(how: dict[str, Any]) -> dict[str, Any]:
    """Return what calls of a bank take in place of what those of the first seed take."""
    names = {"allowed_roots": "roots"}
    return {names.get(name, name): how[name] for name in how if name != "allow_uncontained"}


DOORS = ["bank.export", "bank.import_", "export_bank", "import_bank"]
each_door = pytest.mark.parametrize("door", DOORS)


def _works(here: satchel.Satchel, path: Path, **how: Any) -> bool:
    """Tell whether a file can be imported from a path, and exported beside it, by all doors."""
    found = set()
    for name, door in _doors(here).items():
        reads = "import" in name
        problem = None
        try:
            door(path if reads else path.with_name(f"{name}.pam"), **how)
        except ContainmentError as error:
            problem = error
        found.add(problem is None)
        path.with_name(f"{name}.pam").unlink(missing_ok=True)
    assert len(found) == 1
    return found.pop()


@pytest.mark.parametrize("door", ["export_bank", "import_bank"])
def test_a_path_is_refused_when_nothing_says_where_it_may_lead(
    store: Callable[..., satchel.Satchel], root: Path, own_home: Path, door: str
) -> None:
    """Before anything is read or made, folders and keys included; a ``ValueError`` of ours."""
    call = _doors(store())[door]
    before = picture(root.parent)
    for path in (root / "in.json", "/etc/passwd", root / "none" / "out.pam"):
        with pytest.raises(ContainmentError, match="containment is required") as caught:
            call(path)
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, SatchelError)
        for mode in ("allowed_roots=", OURS, ASTROCYTES, "allow_uncontained=True"):
            assert mode in str(caught.value)
    assert picture(root.parent) == before
    assert own_home.exists()


def test_a_remote_caller_gets_the_operators_hint(
    store: Callable[..., satchel.Satchel], root: Path
) -> None:
    """So that a server that lacks its roots says so, and what to do."""
    with pytest.raises(ContainmentError) as caught:
        store().export_bank("b", root / "out.pam")
    said = caught.value.public()
    assert str(said["hint"]).startswith("Portability path containment is required. Provide one of:")
    assert (caught.value.http_status, str(root) in str(said)) == (422, False)


def test_awaited_calls_are_refused_alike(root: Path) -> None:
    """They are the same calls."""

    async def run() -> None:
        async with aio.open() as here:
            bank = await here.create_bank("b")
            for call in (bank.export, bank.import_):
                with pytest.raises(ContainmentError):
                    await call(root / "in.json", roots=[])
            with pytest.raises(ContainmentError):
                await here.import_bank("b", root / "in.json", allowed_roots=[])

    asyncio.run(run())


def test_a_path_in_a_program_needs_no_permission(
    store: Callable[..., satchel.Satchel], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bank's own calls take it as it is, relative or not; control characters are refused."""
    monkeypatch.chdir(root)
    bank = store().bank("b")
    bank.export("out.pam")
    bank.export(root.parent / "outside" / "out.pam", receipt=root / "receipt.json")
    assert not bank.import_("out.pam").changed
    with pytest.raises(ContainmentError):
        bank.export("out\x07.pam")


def test_roots_of_a_store_hold_for_all_its_calls(
    store: Callable[..., satchel.Satchel], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: no call widens them, and they widen nothing that the operator has set."""
    store()
    outside = root.parent / "outside"
    for roots in (root, [str(root)], (root, root.parent / "none")):
        with satchel.Satchel.open(roots=roots) as here:
            for how in ({}, {"allow_uncontained": True}, {"allowed_roots": [root, outside]}):
                assert _works(here, root / "in.json", **how)
                assert not _works(here, outside / "in.json", **how)
            assert not _works(here, root / "in.json", allowed_roots=[outside])
            (root / "link").symlink_to(outside)
            assert not _works(here, root / ".." / "outside" / "in.json")
            for door in _doors(here).values():
                with pytest.raises(SatchelError):
                    door(root / "link" / "in.json")
            (root / "link").unlink()
            with pytest.raises(ContainmentError):
                here.bank("b").export(root / "x.pam", receipt=outside / "receipt.json")
    with satchel.Satchel.open(roots=[]) as here:
        assert not _works(here, root / "in.json", allow_uncontained=True)
    monkeypatch.setenv(OURS, str(outside))
    with satchel.Satchel.open(roots=root) as here:
        for folder in (root, outside):
            assert not _works(here, folder / "in.json", allow_uncontained=True)


def test_a_call_may_name_the_roots(store: Callable[..., satchel.Satchel], root: Path) -> None:
    """As a list of texts or paths, or one."""
    here = store()
    outside = root.parent / "outside" / "in.json"
    for roots in ([root], [str(root)], [root.parent / "none", root], str(root), root):
        assert _works(here, root / "in.json", allowed_roots=roots)
        assert not _works(here, outside, allowed_roots=roots)


@pytest.mark.parametrize("variable", [OURS, ASTROCYTES])
def test_the_operator_may_name_the_roots(
    store: Callable[..., satchel.Satchel],
    root: Path,
    variable: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the environment, several joined as the system joins paths."""
    here = store(monkeypatch, **{variable: f"/nowhere{os.pathsep}{{root}}"})
    assert _works(here, root / "in.json")
    assert not _works(here, root.parent / "outside" / "in.json")


def test_our_variable_wins_over_the_other(
    store: Callable[..., satchel.Satchel], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is empty."""
    here = store(monkeypatch, **{OURS: "{root}", ASTROCYTES: "{outside}"})
    assert _works(here, root / "in.json")
    assert not _works(here, root.parent / "outside" / "in.json")
    here = store(monkeypatch, **{OURS: "", ASTROCYTES: "{root}"})
    assert not _works(here, root / "in.json", allow_uncontained=True)


def test_the_environment_wins_over_the_file(
    store: Callable[..., satchel.Satchel], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with every setting."""
    config = root.parent / "satchel.toml"
    config.write_text(f"[portability]\nroots = [{json.dumps(str(root))}]\n")
    monkeypatch.setenv("SATCHEL_CONFIG", str(config))
    assert _works(store(), root / "in.json")
    assert not _works(store(), root.parent / "outside" / "in.json")
    here = store(monkeypatch, **{ASTROCYTES: "{outside}"})
    assert _works(here, root.parent / "outside" / "in.json")
    assert not _works(here, root / "in.json")


@pytest.mark.parametrize(
    "wider", [{"allow_uncontained": True}, {"allowed_roots": ["/"]}, {"allowed_roots": "outside"}]
)
def test_a_call_never_widens_what_the_operator_has_set(
    store: Callable[..., satchel.Satchel],
    root: Path,
    wider: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Attack: ``allowed_roots=["/"]`` from a request."""
    outside = root.parent / "outside"
    how = {"allowed_roots": [outside]} if wider.get("allowed_roots") == "outside" else wider
    here = store(monkeypatch, **{OURS: "{root}"})
    assert not _works(here, outside / "in.json", **how)
    assert _works(here, root / "in.json", **how) == (how is wider)


@pytest.mark.parametrize("more", [{}, {"allow_uncontained": True}])
def test_an_empty_list_allows_nothing(
    store: Callable[..., satchel.Satchel], root: Path, more: dict[str, Any]
) -> None:
    """It is not taken for none given."""
    assert not _works(store(), root / "in.json", allowed_roots=[], **more)


@pytest.mark.parametrize("said", ["exports", "", "~/exports", ".", "{root}:", ":{root}"])
def test_a_root_that_is_no_folder_refuses_every_path(
    store: Callable[..., satchel.Satchel], root: Path, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: a relative root, or one that a stray colon makes, is the current folder."""
    monkeypatch.chdir(root)
    here = store(monkeypatch, **{OURS: said})
    assert not _works(here, root / "in.json")
    assert not _works(here, root / "in.json", allow_uncontained=True)


@each_door
@pytest.mark.parametrize(
    "lay",
    [
        "link to the file",
        "link to its folder",
        "hard link",
        "pipe",
        "dots",
        "tilde",
        "sibling",
        "proc",
        "bidirectional",
    ],
)
def test_every_way_out_of_the_roots_is_refused(
    store: Callable[..., satchel.Satchel], root: Path, door: str, lay: str
) -> None:
    """Attacks, by each door; what is outside stays as it is, and nothing of it comes in."""
    outside = root.parent / "outside"
    (outside / "out.pam").write_bytes(b"theirs")
    name = "in.json" if "import" in door else "out.pam"
    path = _laid(lay, root, outside, name)
    here = store()
    before, memories = picture(outside), here.bank("b").stats().memories
    how: dict[str, Any] = {} if "import" in door else {"overwrite": True}
    with pytest.raises(PathRefusedError) as caught:
        _doors(here)[door](path, allowed_roots=[root], **how)
    assert isinstance(caught.value, ValueError)
    assert picture(outside) == before
    assert here.bank("b").stats().memories == memories
    assert leftovers(root) == []


def _laid(lay: str, root: Path, outside: Path, name: str) -> str | Path:
    """Lay a trap, and return the path that leads into it."""
    path = root / "laid"
    match lay:
        case "link to the file":
            path.symlink_to(outside / name)
        case "link to its folder":
            path.symlink_to(outside)
            return path / name
        case "hard link":
            path.hardlink_to(outside / name)
        case "pipe":
            os.mkfifo(path)
        case "dots":
            return f"{root}/../outside/{name}"
        case "tilde":
            return f"~/{name}"
        case "sibling":
            (root.parent / "root-2").symlink_to(outside)
            return root.parent / "root-2" / name
        case "proc":
            return f"/proc/self/root{outside}/{name}"
        case _:
            return f"{root}/\u202e{name}"
    return path


def test_a_folder_exchanged_while_the_bank_is_read_gets_nothing_out(
    store: Callable[..., satchel.Satchel], root: Path
) -> None:
    """Attack: the check is good, and then the folder becomes a link, before the file is written."""
    outside = root.parent / "outside"
    (root / "sub").mkdir()
    before = picture(outside)

    def swap(*_: object) -> None:
        if not (root / "sub").is_symlink():
            (root / "sub").rename(root / "moved")
            (root / "sub").symlink_to(outside)

    done = store().export_bank("b", root / "sub" / "out.pam", allowed_roots=[root], progress=swap)
    assert picture(outside) == before
    assert (root / "moved" / "out.pam").stat().st_size == done.output_bytes
    assert done.read_back == "good"


def test_a_file_exchanged_between_the_passes_is_not_taken_in(
    store: Callable[..., satchel.Satchel], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: what was checked is a good file, and what is read after that a link to another."""
    monkeypatch.setenv(OURS, str(root))
    path, swaps = root / "in.json", list[int]()

    def swap(*_: object) -> None:
        swaps.append(1)
        path.unlink()
        path.symlink_to(root.parent / "outside" / "in.json")

    settings = load_settings()
    import_file(
        settings, path, "b", lambda: signing_key(settings)[0], ImportOptions(on_reading=swap)
    )
    assert len(swaps) > 1
    texts = [one.text for one in store().bank("b").list()]
    assert "from root" in texts
    assert "from outside" not in texts


def test_an_export_is_read_by_its_owner_only(
    store: Callable[..., satchel.Satchel], root: Path
) -> None:
    """Whatever the umask; it is somebody's memory."""
    was = os.umask(0)
    try:
        here = store()
        here.export_bank("b", root / "out.pam", allowed_roots=[root])
        here.bank("b").export(root / "out.json", to="mem0")
    finally:
        os.umask(was)
    assert {(root / name).stat().st_mode & 0o777 for name in ("out.pam", "out.json")} == {0o600}


def test_a_remote_caller_learns_nothing_of_this_machine(
    store: Callable[..., satchel.Satchel], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The public form of a refusal names neither the path nor the roots."""
    here = store(monkeypatch, **{OURS: "{root}"})
    (root / "link").symlink_to("in.json")
    for path in ("/etc/passwd", root / "link", root / "none" / "in.json", root / "a\0b"):
        with pytest.raises(SatchelError) as caught:
            here.import_bank("b", path)
        said = json.dumps(caught.value.public())
        assert caught.value.public()["code"] == caught.value.code
        assert caught.value.http_status in {404, 422}
        assert not any(word in said for word in (str(root.parent), "passwd", "link/", "none/"))
