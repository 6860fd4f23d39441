"""Build the files of a release: wheel, source distribution, SBOM and checksums.

``python -m release.build [FOLDER]`` writes them to a folder, ``dist`` by default. It needs the
dependency group ``release``. The same commit gives the same bytes, in any folder and at any time.

With ``--repository URL`` the package has the addresses of the project, and the links of its README
are absolute, so that they work on the package index.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHECKSUMS = "SHA256SUMS"
_LINK = re.compile(
    r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s:#]+)(?P<anchor>#[^)\s]*)?\)"
)


def main() -> None:
    """Build the files, and print what was written."""
    parser = argparse.ArgumentParser(description="Build the files of a release.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist")
    parser.add_argument(
        "--repository", metavar="URL", help="Address of the repository on its host."
    )
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    with tempfile.TemporaryDirectory() as temporary:
        tree = ROOT
        if arguments.repository:
            tree = write_published_tree(ROOT, Path(temporary), arguments.repository)
        wheel, source = build(tree, folder)
    bill = write_sbom(wheel, folder)
    for path in (wheel, source, bill, write_checksums([wheel, source, bill])):
        print(path)


def write_published_tree(tree: Path, folder: Path, repository: str) -> Path:
    """Copy the files that git tracks, with absolute links in the README and the project's URLs.

    Args:
        tree: The source tree, a git repository.
        folder: An empty folder for the copy.
        repository: Address of the repository, for example ``https://example.org/owner/name``.

    Raises:
        ValueError: If the address is not an HTTPS address with a path.
    """
    if not re.fullmatch(r"https://[^/\s?#]+(/[^/\s?#]+)+", repository):
        raise ValueError(f"not the HTTPS address of a repository: {repository!r}")
    command = ["git", "-C", str(tree), "ls-files", "-z"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, listed):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(tree / name, folder / name)
    tag = f"v{version()}"
    readme = folder / "README.md"
    readme.write_text(absolute_links(readme.read_text("utf-8"), repository, tag), "utf-8")
    with (folder / "pyproject.toml").open("a", encoding="utf-8") as project:
        project.write("\n[project.urls]\n")
        project.writelines(f'{name} = "{url}"\n' for name, url in project_urls(repository, tag))
    return folder


def absolute_links(text: str, repository: str, tag: str) -> str:
    """Return Markdown whose relative links lead to the files of a tag in a repository."""

    def absolute(match: re.Match[str]) -> str:
        image, label, target, anchor = (
            match["image"],
            match["text"],
            match["target"],
            match["anchor"],
        )
        kind = "raw" if image else "blob"
        return f"{image}[{label}]({repository}/{kind}/{tag}/{target}{anchor or ''})"

    return _LINK.sub(absolute, text)


def project_urls(repository: str, tag: str) -> list[tuple[str, str]]:
    """Return the project's URLs by the labels that package indexes know."""
    files = f"{repository}/blob/{tag}"
    return [
        ("Repository", repository),
        ("Documentation", f"{files}/docs/tutorials/index.md"),
        ("Changelog", f"{files}/CHANGELOG.md"),
        ("Issues", f"{repository}/issues"),
    ]


def build(tree: Path, folder: Path) -> tuple[Path, Path]:
    """Build the wheel and the source distribution of a source tree.

    Their timestamps are ``SOURCE_DATE_EPOCH``: that of the environment, else the time of the last
    commit, else one that hatchling fixes.

    Raises:
        FileExistsError: If the folder already has files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", folder],
        cwd=tree,
        env={**os.environ, **epoch(ROOT)},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


def epoch(tree: Path) -> dict[str, str]:
    """Return ``SOURCE_DATE_EPOCH`` for a source tree; empty where nothing determines it."""
    if "SOURCE_DATE_EPOCH" in os.environ or not (tree / ".git").exists():
        return {}
    command = ["git", "-C", str(tree), "log", "-1", "--format=%ct"]
    time = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    return {"SOURCE_DATE_EPOCH": time}


def write_sbom(wheel: Path, folder: Path) -> Path:
    """Write a CycloneDX bill of materials: the wheel with all extras, at the locked versions."""
    with tempfile.TemporaryDirectory() as temporary:
        environment = Path(temporary) / "environment"
        uv("venv", environment)
        python = environment / "bin" / "python"
        uv(
            *("pip", "install", "--python", python, "--only-binary", ":all:"),
            *("--constraint", ROOT / "constraints.txt", f"satchel[all] @ {wheel.as_uri()}"),
        )
        target = folder / f"satchel-{version()}.cdx.json"
        command = [sys.executable, "-m", "cyclonedx_py", "environment", str(python)]
        command += ["--pyproject", str(ROOT / "pyproject.toml"), "--mc-type", "library"]
        command += ["--output-reproducible", "--of", "JSON", "-o", str(target)]
        subprocess.run(
            command,
            env={**os.environ, **epoch(ROOT)},
            check=True,
        )
    return target


def uv(*arguments: str | Path) -> None:
    """Run uv quietly."""
    subprocess.run([sys.executable, "-m", "uv", "--quiet", *arguments], check=True)


def version() -> str:
    """Return the version that pyproject.toml declares."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"])


def write_checksums(paths: list[Path]) -> Path:
    """Write the SHA-256 digests of files beside them, as ``sha256sum --check`` reads them."""
    target = paths[0].with_name(CHECKSUMS)
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths)
    target.write_text("".join(lines), "utf-8")
    return target


if __name__ == "__main__":
    main()
