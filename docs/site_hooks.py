"""Hooks of mkdocs: make the changelog a page, and copy files outside docs/ that pages link to into the site."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files
from pymdownx.slugs import slugify

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"CHANGELOG.md": "changes.md", "README.md": "index.md"}
"""Files of the repository that are pages of the site."""
_LINK_UPWARDS = re.compile(r"\]\((?P<up>(?:\.\./)+)(?P<target>[^)#\s]+)")
# A comment that names the file in the code block below it; comments for the tests may stand between the two.
_NAMED_BLOCK = re.compile(r"(<!-- file: (?P<name>\S+) -->\n(?:\s*<!--.*?-->\n)*\s*```\w+)")
_LOCAL_LINK = re.compile(r"\]\((?P<target>[^)#:\s]+)")


def on_config(config: Any) -> Any:
    """Name the anchors of headings as GitHub does, so that links to them work in both places."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slugify(case="lower")
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the changelog, and each file of the repository that a page links to."""
    linked_files: set[str] = set()
    for page in files.documentation_pages():
        for link in _LINK_UPWARDS.finditer(page.content_string):
            target = _repository_path(page.src_uri, link)
            if target is not None and target not in PAGES:
                linked_files.add(target)
    for target in sorted(linked_files):
        if (ROOT / target).is_file():
            files.append(File.generated(config, target, content=(ROOT / target).read_bytes()))
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    files.append(File.generated(config, PAGES["CHANGELOG.md"], content=_LOCAL_LINK.sub(_link_from_docs, changelog)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Point links that leave docs/ to the copies in the site, and show the names of files above code blocks."""

    def to_copy(link: re.Match[str]) -> str:
        target = _repository_path(page.file.src_uri, link)
        if target is None:
            return link[0]
        up = "../" * (len(PurePosixPath(page.file.src_uri).parts) - 1)
        return f"]({up}{PAGES.get(target, target)}"

    with_titles = _NAMED_BLOCK.sub(_with_title, markdown)
    return _LINK_UPWARDS.sub(to_copy, with_titles)


def _with_title(block: re.Match[str]) -> str:
    """Return the beginning of a code block with the name of its file as the title."""
    return f'{block[1]} title="{block["name"]}"'


def _repository_path(page: str, link: re.Match[str]) -> str | None:
    """Return the target of a link relative to the repository if the link leaves docs/, else None."""
    folders = len(PurePosixPath(page).parts) - 1
    return link["target"] if link["up"].count("../") == folders + 1 else None


def _link_from_docs(link: re.Match[str]) -> str:
    """Rewrite a link of the changelog, which is next to docs/ in the repository and inside it on the site."""
    target = link["target"]
    if target.startswith("docs/"):
        return f"]({target.removeprefix('docs/')}"
    return f"](../{target}"
