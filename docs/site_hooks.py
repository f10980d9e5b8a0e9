"""What the site has beyond docs/: the change log as a page, and the files that pages link to outside of docs/."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files
from pymdownx.slugs import slugify

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"CHANGELOG.md": "changes.md", "README.md": "index.md"}
"""Files of the repository that are pages of the site."""
_LINK = re.compile(r"\]\((?P<up>(?:\.\./)+)(?P<target>[^)#\s]+)")
_LINK_OF_README = re.compile(r"\]\((?P<up>)(?P<target>[^)#:\s]+)")


def on_config(config: Any) -> Any:
    """Name headings as GitHub does, so that links to them work in both places."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slugify(case="lower")
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the change log, and each file of the repository that a page links to."""
    linked = {
        target
        for page in files.documentation_pages()
        for link in _LINK.finditer(page.content_string)
        if (target := _of_repository(page.src_uri, link)) and target not in PAGES
    }
    for target in sorted(linked):
        if (ROOT / target).is_file():
            files.append(File.generated(config, target, content=(ROOT / target).read_bytes()))
    text = _LINK_OF_README.sub(_from_root, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    files.append(File.generated(config, PAGES["CHANGELOG.md"], content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links that leave docs/ lead to the copies in the site."""

    def inside(link: re.Match[str]) -> str:
        target = _of_repository(page.file.src_uri, link)
        if target is None:
            return link[0]
        up = "../" * (len(PurePosixPath(page.file.src_uri).parts) - 1)
        return f"]({up}{PAGES.get(target, target)}"

    return _LINK.sub(inside, markdown)


def _of_repository(page: str, link: re.Match[str]) -> str | None:
    """The path from the repository's root, if a link leaves docs/."""
    folders = len(PurePosixPath(page).parts) - 1
    return link["target"] if link["up"].count("../") == folders + 1 else None


def _from_root(link: re.Match[str]) -> str:
    """The change log lies beside docs/; as a page it lies inside."""
    target = link["target"]
    return f"]({target.removeprefix('docs/')}" if target.startswith("docs/") else f"](../{target}"
