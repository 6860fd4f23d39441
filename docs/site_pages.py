"""Pages of the site that are files elsewhere in the repository, or are made from them.

MkDocs loads this module as a hook (``mkdocs.yml``). The README becomes the home page; other pages
of the repository's folder and the schemas are included; and links to them are adapted, so that the
same files can be read in the repository.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
_COMMENT = re.compile(r"\A<!--.*?-->\s*", re.DOTALL)
_LINK = re.compile(r"(\]\(|src=\"|srcset=\"|href=\")(?![a-z]+:|#)([^)\"\s#]+)")

INCLUDED = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "CONTRIBUTING.md": "contributing.md",
    "RELEASING.md": "releasing.md",
    "SECURITY.md": "security.md",
}
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
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Adapt the links of a page to where pages are in the site."""
    del config, files
    uri = page.file.src_uri
    markdown = _COMMENT.sub("", markdown)  # before a heading, it hides the title of the page
    if uri in {"index.md", "changelog.md"}:
        page.meta["hide"] = ["navigation"]  # the tab has no other page
    return _LINK.sub(lambda link: link[1] + _adapt(link[2], uri), markdown)


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
