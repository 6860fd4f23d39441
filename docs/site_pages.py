"""Pages of the site that are files elsewhere in the repository, or are made from them.

MkDocs loads this module as a hook (``mkdocs.yml``). The README becomes the home page; the
contributing page, the schemas and the changelog are included; and links to them are adapted, so
that the same files can be read in the repository.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
KINDS = ("security", "removed", "deprecated", "added", "changed", "fixed")
_LINK = re.compile(r"(\]\(|src=\"|srcset=\"|href=\")(?![a-z]+:|#)([^)\"\s#]+)")

INCLUDED = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md"}
"""Files of the repository's folder that are pages, and the names of the pages."""

FOLDERS = ("examples", "schemas")
"""Folders of the repository whose JSON files are included as they are."""


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add what is not in ``docs``."""
    for name, page in INCLUDED.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / name)))
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).glob("*.json")):
            uri = f"{folder}/{path.name}"
            files.append(File.generated(config, uri, abs_src_path=str(path)))
    files.append(File.generated(config, "changelog.md", content=changelog()))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Adapt the links of a page to where pages are in the site; list the decisions."""
    del config, files
    uri = page.file.src_uri
    if uri == "decisions/README.md":
        markdown = f"{markdown}\n{decisions()}"
    return _LINK.sub(lambda link: link[1] + _adapt(link[2], uri), markdown)


def changelog() -> str:
    """Return the changes since the last release by kind, then those of earlier releases."""
    parts = ["# Changelog", "", "## Unreleased", ""]
    for kind in KINDS:
        fragments = sorted((ROOT / "changes").glob(f"*.{kind}.md"))
        if fragments:
            parts += [f"### {kind.capitalize()}", ""]
        for fragment in fragments:
            lines = filter(str.strip, fragment.read_text("utf-8").splitlines())
            parts.append("- " + "\n    ".join(lines))
        parts.append("")
    released = ROOT / "CHANGELOG.md"
    if released.exists():
        parts.append(re.sub(r"\A# .*\n", "", released.read_text("utf-8")))
    return "\n".join(parts)


def decisions() -> str:
    """Return links to all decisions, newest first."""
    pages = sorted((ROOT / "docs" / "decisions").glob("0*.md"), reverse=True)
    titles = {path.name: path.read_text("utf-8").partition("\n")[0] for path in pages}
    return "\n".join(f"- [{title.lstrip('# ')}]({name})" for name, title in titles.items())


def _adapt(link: str, uri: str) -> str:
    """Return a link of a page as it is in the site; one that needs no change is returned as is."""
    in_repository = {page: name for name, page in INCLUDED.items()}.get(uri, f"docs/{uri}")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(in_repository), link))
    if target in INCLUDED:
        target = INCLUDED[target]
    elif target.startswith("docs/"):
        target = target.removeprefix("docs/")
    elif target.partition("/")[0] not in FOLDERS:
        return link
    return posixpath.relpath(target, posixpath.dirname(uri) or ".")
