"""A release: builds are reproducible, install without a compiler, and are listed in an SBOM.

``make prove`` runs the tests that install packages. They use ``uv``, with the versions that
constraints.txt locks.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from release import changelog
from release.build import absolute_links, build, epoch, write_published_tree

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS = sorted(PROJECT["project"]["optional-dependencies"])
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
"""Tested versions, as far as this machine has them."""

HINTS = re.compile(r"satchel\[([a-z0-9,-]+)\]")


@cache
def interpreter(version: str) -> Path | None:
    """Return an interpreter of a version, from PATH or from pyenv."""
    name = f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [Path(found)] if (found := shutil.which(name)) else []
    for path in [*candidates, *sorted(pyenv.glob(f"{version}.*/bin/{name}"))]:
        command: list[str | Path] = [
            path,
            "-c",
            "import sys, venv; print('%d.%d' % sys.version_info[:2])",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return path
    return None


def copy_tree(folder: Path) -> Path:
    """Copy the tracked files in their present state, with new modification times."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with the dependency group ``release``."""
    folder = tmp_path_factory.mktemp("tools")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt"]
        + PROJECT["dependency-groups"]["release"],
        check=True,
        capture_output=True,
    )
    return python


@pytest.fixture(scope="module")
def release(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a release as described in RELEASING.md."""
    folder = tmp_path_factory.mktemp("release")
    subprocess.run(
        [tools, "-m", "release.build", folder], cwd=ROOT, check=True, capture_output=True
    )
    return folder


def run_uv(tools: Path, *arguments: str | Path, path: Path | None = None) -> str:
    """Run uv; with a PATH that has no compiler, if one is given."""
    bare = {} if path is None else {"PATH": str(path), "CC": "false", "CXX": "false"}
    done = subprocess.run(
        [tools, "-m", "uv", "--quiet", *arguments],
        env={**os.environ, **bare},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def install(tools: Path, python: Path, folder: Path, requirement: str, *more: str) -> Path:
    """Install into a new environment from wheels only; return its Python."""
    empty = folder / "no-compilers"
    empty.mkdir()
    run_uv(tools, "venv", "--python", python, folder / "environment")
    installed = folder / "environment" / "bin" / "python"
    locked = ("--constraint", ROOT / "constraints.txt", "--only-binary", ":all:")
    run_uv(tools, "pip", "install", "--python", installed, *locked, *more, requirement, path=empty)
    run_uv(tools, "pip", "check", "--python", installed)
    return installed


def remember_and_recall(command: list[str | Path], home: Path) -> None:
    """Store a memory and recall it, in an empty home, outside of the sources."""
    home.mkdir()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        "SATCHEL_HOME": str(home / "home"),
        "SATCHEL_WITNESS": str(home / "witness"),
    }

    def run(*words: str) -> str:
        done = subprocess.run(
            [*command, *words],
            cwd=home,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("--version").startswith(f"satchel {PROJECT['project']['version']}\n")
    run("remember", "Ada drinks tea")
    assert "Ada drinks tea" in run("recall", "tea")


def test_every_extra_named_in_hints_and_pages_is_declared() -> None:
    """A hint such as "pip install 'satchel[http]'" needs that extra."""
    named = {
        (path.relative_to(ROOT).as_posix(), extra)
        for path in [*ROOT.glob("*.*"), *sorted(ROOT.glob("src/**/*")), *ROOT.glob("docs/*/*")]
        if path.suffix in {".json", ".md", ".py"}
        for match in HINTS.finditer(path.read_text("utf-8"))
        for extra in match[1].split(",")
    }

    assert named
    assert [(path, extra) for path, extra in named if extra not in EXTRAS] == []


def test_requires_python_matches_the_classifiers() -> None:
    """The lowest version of both is the same."""
    prefix = "Programming Language :: Python :: 3."
    minors = [
        int(each.removeprefix(prefix))
        for each in PROJECT["project"]["classifiers"]
        if each.startswith(prefix)
    ]

    assert PROJECT["project"]["requires-python"] == f">=3.{min(minors)}"
    assert {f"3.{minor}" for minor in minors} <= set(VERSIONS)


REPOSITORY = "https://example.org/owner/satchel"


def test_the_published_package_has_absolute_links_and_the_urls_of_the_project(
    tmp_path: Path,
) -> None:
    """Relative links would not work on a package index; each absolute one names a file."""
    copy = write_published_tree(ROOT, tmp_path / "copy", REPOSITORY)

    wheel, source = build(copy, tmp_path / "dist")

    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    urls = dict(each.split(", ") for each in metadata.get_all("Project-URL", []))
    assert urls["Repository"] == REPOSITORY
    assert urls["Issues"] == f"{REPOSITORY}/issues"
    readme = str(metadata.get_payload())
    targets = re.findall(r"\]\(([^)\s]+)\)", readme)
    tag = f"v{PROJECT['project']['version']}"
    pages = [
        target.partition(f"/{kind}/{tag}/")[2].partition("#")[0]
        for target in [*targets, *urls.values()]
        for kind in ("blob", "raw")
        if f"/{kind}/{tag}/" in target
    ]
    assert all(target.startswith("https://") for target in targets), targets
    assert len(pages) > 20
    assert [page for page in pages if not (ROOT / page).exists()] == []
    with tarfile.open(source) as archive:
        (project,) = (each for each in archive.getnames() if each.endswith("/pyproject.toml"))
        assert REPOSITORY.encode() in archive.extractfile(project).read()  # type: ignore[union-attr]


def test_only_relative_links_become_absolute() -> None:
    """Anchors and absolute addresses stay."""
    text = "[a](docs/a.md#b) ![i](docs/i.png) [here](#there) [out](https://example.org/x)"

    assert absolute_links(text, REPOSITORY, "v1") == (
        f"[a]({REPOSITORY}/blob/v1/docs/a.md#b) ![i]({REPOSITORY}/raw/v1/docs/i.png)"
        " [here](#there) [out](https://example.org/x)"
    )


@pytest.mark.parametrize("address", ["", "owner/name", "http://example.org/a", "https://x", "a\nb"])
def test_an_invalid_repository_address_is_refused(address: str, tmp_path: Path) -> None:
    """Nothing is copied."""
    with pytest.raises(ValueError, match="not the HTTPS address"):
        write_published_tree(ROOT, tmp_path / "copy", address)

    assert not (tmp_path / "copy").exists()


@pytest.mark.prove
def test_two_builds_of_a_tree_are_identical(tools: Path, tmp_path: Path) -> None:
    """In folders of different names, at different times, with different file permissions."""
    digests = []
    for name, mask in (("one", 0o022), ("a-longer-name", 0o077)):
        before = os.umask(mask)
        try:
            copy = copy_tree(tmp_path / name)
            for path in copy.rglob("*"):
                os.utime(path, (1_700_000_000 + mask, 1_700_000_000 + mask))
        finally:
            os.umask(before)
        target = tmp_path / f"{name}-dist"
        subprocess.run(
            [tools, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", target],
            cwd=copy,
            env={**os.environ, "SOURCE_DATE_EPOCH": "1767225600"},
            check=True,
            capture_output=True,
        )
        digests.append(
            {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in target.iterdir()}
        )

    assert len(digests[0]) == 2
    assert digests[0] == digests[1]


@pytest.mark.prove
def test_a_wheel_from_the_source_distribution_equals_that_of_the_tree(
    tools: Path, release: Path, tmp_path: Path
) -> None:
    """The source distribution is complete."""
    (source,) = release.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    subprocess.run(
        [tools, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "dist"],
        cwd=unpacked,
        env={**os.environ, **epoch(ROOT)},
        check=True,
        capture_output=True,
    )
    (wheel,) = release.glob("*.whl")

    assert (tmp_path / "dist" / wheel.name).read_bytes() == wheel.read_bytes()


@pytest.mark.prove
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["wheel", "source"])
def test_the_package_installs_without_a_compiler(
    version: str, kind: str, tools: Path, release: Path, tmp_path: Path
) -> None:
    """Dependencies come as wheels; the source distribution compiles nothing."""
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine")
    (path,) = release.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    ours = () if kind == "wheel" else ("--no-binary", "satchel")

    installed = install(tools, python, tmp_path, f"satchel @ {path.as_uri()}", *ours)

    remember_and_recall([installed.with_name("satchel")], tmp_path / "run")


@pytest.mark.prove
@pytest.mark.parametrize("version", VERSIONS)
def test_all_dependencies_have_wheels_for_each_python(
    version: str, tools: Path, tmp_path: Path
) -> None:
    """Also for a Python that is not installed here: versions are resolved only."""
    target = tmp_path / "requirements.txt"
    run_uv(
        *(tools, "pip", "compile", "--python-version", version, "--only-binary", ":all:"),
        *(ROOT / "pyproject.toml", "--output-file", target, "--no-header"),
    )
    resolved = re.findall(r"^([\w.-]+)==", target.read_text("utf-8"), re.MULTILINE)

    for each in map(Requirement, PROJECT["project"]["dependencies"]):
        if each.marker is None or each.marker.evaluate({"python_version": version}):
            assert _normalized(each.name) in map(_normalized, resolved), each.name


@pytest.mark.prove
@pytest.mark.parametrize("extra", EXTRAS)
def test_each_extra_installs_alone(extra: str, tools: Path, release: Path, tmp_path: Path) -> None:
    """An extra requires no other one, and breaks nothing."""
    (wheel,) = release.glob("*.whl")

    installed = install(
        tools, Path(sys.executable), tmp_path, f"satchel[{extra}] @ {wheel.as_uri()}"
    )

    remember_and_recall([installed, "-m", "satchel"], tmp_path / "run")


@pytest.mark.prove
def test_uvx_runs_the_wheel(tools: Path, release: Path, tmp_path: Path) -> None:
    """Without an installation."""
    (wheel,) = release.glob("*.whl")
    command: list[str | Path] = [
        tools,
        "-m",
        "uv",
        "--quiet",
        "tool",
        "run",
        "--python",
        sys.executable,
    ]

    remember_and_recall([*command, "--from", wheel, "satchel"], tmp_path / "run")


@pytest.mark.prove
def test_the_sbom_lists_each_locked_dependency(release: Path) -> None:
    """With version and package URL, and without names of this machine."""
    (path,) = release.glob("*.cdx.json")
    text = path.read_text("utf-8")
    bill = json.loads(text)
    lines = (ROOT / "constraints.txt").read_text("utf-8").split()
    locked = {_normalized(name): version for name, version in (line.split("==") for line in lines)}
    found = {_normalized(each["name"]): each for each in bill["components"]}

    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "satchel"
    assert bill["metadata"]["component"]["version"] == PROJECT["project"]["version"]
    direct = {
        _normalized(re.split("[><=]", each)[0]) for each in PROJECT["project"]["dependencies"]
    }
    assert direct <= set(found)
    for name, component in found.items():
        assert component["version"] == locked[name], name
        assert _normalized(component["purl"]) == _normalized(f"pkg:pypi/{name}@{locked[name]}")
    assert str(Path.home()) not in text
    assert str(ROOT) not in text


def _normalized(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


@pytest.mark.prove
def test_the_checksums_match_the_files(release: Path) -> None:
    """``sha256sum --check`` accepts them."""
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"],
        cwd=release,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 3


@pytest.fixture
def changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of fragments; the changelog is written beside it."""
    folder = tmp_path / "changes"
    folder.mkdir()
    (folder / "README.md").write_text("not a fragment")
    monkeypatch.setattr(changelog, "CHANGES", folder)
    monkeypatch.setattr(changelog, "CHANGELOG", tmp_path / "CHANGELOG.md")
    return folder


def run_changelog(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    """Run ``python -m release.changelog``."""
    monkeypatch.setattr(sys, "argv", ["changelog", *arguments])
    changelog.main()


def test_the_changelog_has_the_fragments_by_kind(
    changes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Security comes first; a fragment of several lines is one entry."""
    (changes / "b.fixed.md").write_text("A mended\nthing.\n")
    (changes / "a.security.md").write_text("A closed hole.\n")

    run_changelog(monkeypatch)
    text = changelog.CHANGELOG.read_text("utf-8")

    assert f"## {PROJECT['project']['version']} (unreleased)" in text
    assert text.index("### Security") < text.index("- A closed hole.") < text.index("### Fixed")
    assert "- A mended thing.\n" in text
    run_changelog(monkeypatch, "--check")


def test_a_changelog_without_a_fragment_is_reported(
    changes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--check`` fails until it is written again."""
    run_changelog(monkeypatch)
    (changes / "a.added.md").write_text("A new thing.\n")

    with pytest.raises(SystemExit, match="not current"):
        run_changelog(monkeypatch, "--check")


def test_a_release_moves_the_fragments_into_a_section(
    changes: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Newer sections come first; the notes of a release can be printed."""
    (changes / "a.added.md").write_text("The first thing.\n")
    run_changelog(monkeypatch, "--release", "0.1.0")
    assert [path.name for path in changes.iterdir()] == ["README.md"]
    run_changelog(monkeypatch, "--check")

    (changes / "b.added.md").write_text("The second thing.\n")
    run_changelog(monkeypatch, "--release", "0.2.0")
    text = changelog.CHANGELOG.read_text("utf-8")
    run_changelog(monkeypatch, "--notes", "0.1.0")
    notes = capsys.readouterr().out

    assert text.index("## 0.2.0 (20") < text.index("The second") < text.index("## 0.1.0 (20")
    assert "The first thing." in notes
    assert "The second thing." not in notes


def test_a_fragment_of_an_unknown_kind_is_refused(
    changes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be missing from the changelog."""
    (changes / "a.improved.md").write_text("A better thing.\n")

    with pytest.raises(ValueError, match=r"a\.improved\.md"):
        run_changelog(monkeypatch)


def test_each_action_of_the_workflow_is_pinned() -> None:
    """By commit, except those that the head of the file lists."""
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    used = re.findall(r"uses: (\S+)@(\S+)", text)

    assert used
    tagged = {action for action, at in used if not re.fullmatch(r"[0-9a-f]{40}", at)}
    assert tagged == {"actions/attest-build-provenance", "actions/attest-sbom"}
    assert "The two attest actions" in text
