"""Containment of paths: allowed roots, their precedence, and attempts to escape them."""

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
    """An allowed folder with a Mem0 file; a folder beside it has the same file."""
    for name in ("root", "outside"):
        (tmp_path / name).mkdir()
        rows = [{"id": "1", "memory": f"from {name}", "user_id": "ada"}]
        (tmp_path / name / "in.json").write_text(json.dumps(rows))
    return tmp_path / "root"


@pytest.fixture
def open_store(root: Path) -> Iterator[Callable[..., satchel.Satchel]]:
    """Return a function that opens a store with the roots of the operator."""
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


def _path_methods(here: satchel.Satchel) -> dict[str, Callable[..., Any]]:
    """Return the methods that take a path, by name."""
    bank = here.bank("b")
    return {
        "bank.export": lambda path, **how: bank.export(path, **_bank_options(how)),
        "bank.import_": lambda path, **how: bank.import_(path, **_bank_options(how)),
        "export_bank": lambda path, **how: here.export_bank("b", path, **how),
        "import_bank": lambda path, **how: here.import_bank("b", path, **how),
    }


def _bank_options(how: dict[str, Any]) -> dict[str, Any]:
    """Return the options with the names that methods of a bank use."""
    names = {"allowed_roots": "roots"}
    return {names.get(name, name): how[name] for name in how if name != "allow_uncontained"}


PATH_METHODS = ["bank.export", "bank.import_", "export_bank", "import_bank"]
each_path_method = pytest.mark.parametrize("method", PATH_METHODS)


def _is_allowed(here: satchel.Satchel, path: Path, **how: Any) -> bool:
    """Return whether every method accepts a path in a folder; they all agree."""
    found = set()
    for name, method in _path_methods(here).items():
        reads = "import" in name
        problem = None
        try:
            method(path if reads else path.with_name(f"{name}.pam"), **how)
        except ContainmentError as error:
            problem = error
        found.add(problem is None)
        path.with_name(f"{name}.pam").unlink(missing_ok=True)
    assert len(found) == 1
    return found.pop()


@pytest.mark.parametrize("method", ["export_bank", "import_bank"])
def test_a_path_is_refused_without_containment(
    open_store: Callable[..., satchel.Satchel], root: Path, own_home: Path, method: str
) -> None:
    """Before anything is read or written. The error is a ``ValueError`` and lists the options."""
    call = _path_methods(open_store())[method]
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


def test_the_public_error_has_a_hint_for_the_operator(
    open_store: Callable[..., satchel.Satchel], root: Path
) -> None:
    """Without the path."""
    with pytest.raises(ContainmentError) as caught:
        open_store().export_bank("b", root / "out.pam")
    said = caught.value.public()
    assert str(said["hint"]).startswith("Portability path containment is required. Provide one of:")
    assert (caught.value.http_status, str(root) in str(said)) == (422, False)


def test_async_calls_refuse_paths_outside_the_roots(root: Path) -> None:
    """As the synchronous ones do."""

    async def run() -> None:
        async with aio.open() as here:
            bank = await here.create_bank("b")
            for call in (bank.export, bank.import_):
                with pytest.raises(ContainmentError):
                    await call(root / "in.json", roots=[])
            with pytest.raises(ContainmentError):
                await here.import_bank("b", root / "in.json", allowed_roots=[])

    asyncio.run(run())


def test_methods_of_a_bank_accept_any_path_by_default(
    open_store: Callable[..., satchel.Satchel], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative or absolute; control characters are refused."""
    monkeypatch.chdir(root)
    bank = open_store().bank("b")
    bank.export("out.pam")
    bank.export(root.parent / "outside" / "out.pam", receipt=root / "receipt.json")
    assert not bank.import_("out.pam").changed
    with pytest.raises(ContainmentError):
        bank.export("out\x07.pam")


def test_attack_a_call_cannot_widen_the_roots_of_its_store(
    open_store: Callable[..., satchel.Satchel], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor can a store widen those of the operator."""
    open_store()
    outside = root.parent / "outside"
    for roots in (root, [str(root)], (root, root.parent / "none")):
        with satchel.Satchel.open(roots=roots) as here:
            for how in ({}, {"allow_uncontained": True}, {"allowed_roots": [root, outside]}):
                assert _is_allowed(here, root / "in.json", **how)
                assert not _is_allowed(here, outside / "in.json", **how)
            assert not _is_allowed(here, root / "in.json", allowed_roots=[outside])
            (root / "link").symlink_to(outside)
            assert not _is_allowed(here, root / ".." / "outside" / "in.json")
            for method in _path_methods(here).values():
                with pytest.raises(SatchelError):
                    method(root / "link" / "in.json")
            (root / "link").unlink()
            with pytest.raises(ContainmentError):
                here.bank("b").export(root / "x.pam", receipt=outside / "receipt.json")
    with satchel.Satchel.open(roots=[]) as here:
        assert not _is_allowed(here, root / "in.json", allow_uncontained=True)
    monkeypatch.setenv(OURS, str(outside))
    with satchel.Satchel.open(roots=root) as here:
        for folder in (root, outside):
            assert not _is_allowed(here, folder / "in.json", allow_uncontained=True)


def test_a_call_can_set_allowed_roots(
    open_store: Callable[..., satchel.Satchel], root: Path
) -> None:
    """As a list of texts or paths, or a single one."""
    here = open_store()
    outside = root.parent / "outside" / "in.json"
    for roots in ([root], [str(root)], [root.parent / "none", root], str(root), root):
        assert _is_allowed(here, root / "in.json", allowed_roots=roots)
        assert not _is_allowed(here, outside, allowed_roots=roots)


@pytest.mark.parametrize("variable", [OURS, ASTROCYTES])
def test_the_operator_can_set_roots_in_the_environment(
    open_store: Callable[..., satchel.Satchel],
    root: Path,
    variable: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Several are separated as in PATH."""
    here = open_store(monkeypatch, **{variable: f"/nowhere{os.pathsep}{{root}}"})
    assert _is_allowed(here, root / "in.json")
    assert not _is_allowed(here, root.parent / "outside" / "in.json")


def test_the_variable_of_satchel_overrides_that_of_astrocyte(
    open_store: Callable[..., satchel.Satchel], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if it is empty."""
    here = open_store(monkeypatch, **{OURS: "{root}", ASTROCYTES: "{outside}"})
    assert _is_allowed(here, root / "in.json")
    assert not _is_allowed(here, root.parent / "outside" / "in.json")
    here = open_store(monkeypatch, **{OURS: "", ASTROCYTES: "{root}"})
    assert not _is_allowed(here, root / "in.json", allow_uncontained=True)


def test_the_environment_overrides_roots_of_the_configuration_file(
    open_store: Callable[..., satchel.Satchel], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for every setting."""
    config = root.parent / "satchel.toml"
    config.write_text(f"[portability]\nroots = [{json.dumps(str(root))}]\n")
    monkeypatch.setenv("SATCHEL_CONFIG", str(config))
    assert _is_allowed(open_store(), root / "in.json")
    assert not _is_allowed(open_store(), root.parent / "outside" / "in.json")
    here = open_store(monkeypatch, **{ASTROCYTES: "{outside}"})
    assert _is_allowed(here, root.parent / "outside" / "in.json")
    assert not _is_allowed(here, root / "in.json")


@pytest.mark.parametrize(
    "wider", [{"allow_uncontained": True}, {"allowed_roots": ["/"]}, {"allowed_roots": "outside"}]
)
def test_attack_a_call_cannot_widen_the_roots_of_the_operator(
    open_store: Callable[..., satchel.Satchel],
    root: Path,
    wider: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with ``allowed_roots=["/"]`` from a request."""
    outside = root.parent / "outside"
    how = {"allowed_roots": [outside]} if wider.get("allowed_roots") == "outside" else wider
    here = open_store(monkeypatch, **{OURS: "{root}"})
    assert not _is_allowed(here, outside / "in.json", **how)
    assert _is_allowed(here, root / "in.json", **how) == (how is wider)


@pytest.mark.parametrize("more", [{}, {"allow_uncontained": True}])
def test_an_empty_list_of_roots_allows_no_path(
    open_store: Callable[..., satchel.Satchel], root: Path, more: dict[str, Any]
) -> None:
    """It is not treated as unset."""
    assert not _is_allowed(open_store(), root / "in.json", allowed_roots=[], **more)


@pytest.mark.parametrize("said", ["exports", "", "~/exports", ".", "{root}:", ":{root}"])
def test_attack_an_invalid_root_refuses_every_path(
    open_store: Callable[..., satchel.Satchel],
    root: Path,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A relative root, or an empty one from a stray colon, would be the current folder."""
    monkeypatch.chdir(root)
    here = open_store(monkeypatch, **{OURS: said})
    assert not _is_allowed(here, root / "in.json")
    assert not _is_allowed(here, root / "in.json", allow_uncontained=True)


@pytest.mark.in_check(12)
@each_path_method
@pytest.mark.parametrize(
    "trap",
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
def test_attack_every_escape_from_the_roots_is_refused(
    open_store: Callable[..., satchel.Satchel], root: Path, method: str, trap: str
) -> None:
    """By each method; files outside are neither read nor changed."""
    outside = root.parent / "outside"
    (outside / "out.pam").write_bytes(b"theirs")
    name = "in.json" if "import" in method else "out.pam"
    path = _set_trap(trap, root, outside, name)
    here = open_store()
    before, memories = picture(outside), here.bank("b").stats().memories
    how: dict[str, Any] = {} if "import" in method else {"overwrite": True}
    with pytest.raises(PathRefusedError) as caught:
        _path_methods(here)[method](path, allowed_roots=[root], **how)
    assert isinstance(caught.value, ValueError)
    assert picture(outside) == before
    assert here.bank("b").stats().memories == memories
    assert leftovers(root) == []


def _set_trap(trap: str, root: Path, outside: Path, name: str) -> str | Path:
    """Set a trap, and return the path that leads into it."""
    path = root / "laid"
    match trap:
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


def test_attack_an_export_is_not_redirected_by_a_replaced_folder(
    open_store: Callable[..., satchel.Satchel], root: Path
) -> None:
    """The folder becomes a link after the check and before the write."""
    outside = root.parent / "outside"
    (root / "sub").mkdir()
    before = picture(outside)

    def swap(*_: object) -> None:
        if not (root / "sub").is_symlink():
            (root / "sub").rename(root / "moved")
            (root / "sub").symlink_to(outside)

    done = open_store().export_bank(
        "b", root / "sub" / "out.pam", allowed_roots=[root], progress=swap
    )
    assert picture(outside) == before
    assert (root / "moved" / "out.pam").stat().st_size == done.output_bytes
    assert done.read_back == "good"


def test_attack_an_import_reads_the_file_that_was_checked(
    open_store: Callable[..., satchel.Satchel], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file becomes a link to another one between two passes."""
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
    texts = [one.text for one in open_store().bank("b").list()]
    assert "from root" in texts
    assert "from outside" not in texts


def test_an_export_is_readable_only_by_its_owner(
    open_store: Callable[..., satchel.Satchel], root: Path
) -> None:
    """With any umask."""
    was = os.umask(0)
    try:
        here = open_store()
        here.export_bank("b", root / "out.pam", allowed_roots=[root])
        here.bank("b").export(root / "out.json", to="mem0")
    finally:
        os.umask(was)
    assert {(root / name).stat().st_mode & 0o777 for name in ("out.pam", "out.json")} == {0o600}


def test_public_errors_do_not_contain_paths_of_this_machine(
    open_store: Callable[..., satchel.Satchel], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the path nor the roots."""
    here = open_store(monkeypatch, **{OURS: "{root}"})
    (root / "link").symlink_to("in.json")
    for path in ("/etc/passwd", root / "link", root / "none" / "in.json", root / "a\0b"):
        with pytest.raises(SatchelError) as caught:
            here.import_bank("b", path)
        said = json.dumps(caught.value.public())
        assert caught.value.public()["code"] == caught.value.code
        assert caught.value.http_status in {404, 422}
        assert not any(word in said for word in (str(root.parent), "passwd", "link/", "none/"))
