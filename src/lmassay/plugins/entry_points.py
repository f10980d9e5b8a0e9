"""Finds the entry points of installed packages in lmassay's groups, whose names begin with ``lmassay.``."""

from __future__ import annotations

import functools
import importlib.metadata
import sys

_GROUP_PREFIX = "lmassay."


def installed_points(group: str) -> tuple[importlib.metadata.EntryPoint, ...]:
    """Return the entry points of a group."""
    return _points_by_group(tuple(sys.path)).get(group, ())


# ``_path`` is only the key of the cache: other folders on sys.path may have other packages.
@functools.cache
def _points_by_group(_path: tuple[str, ...]) -> dict[str, tuple[importlib.metadata.EntryPoint, ...]]:
    # Searching all installed packages is slow, so it is done once for each value of sys.path, for all groups.
    points = importlib.metadata.entry_points()
    return {group: tuple(points.select(group=group)) for group in points.groups if group.startswith(_GROUP_PREFIX)}


def package_of(point: importlib.metadata.EntryPoint) -> str:
    """Return the name of the package that has an entry point; if it is unknown, the entry point's value."""
    if point.dist is not None:
        return _name_of(point.dist)
    return point.value


@functools.lru_cache(maxsize=256)
def _name_of(package: importlib.metadata.Distribution) -> str:
    # Each access to the name parses all metadata of the package.
    return package.name
