"""The recorded files are complete and unchanged, byte for byte."""

from __future__ import annotations

from tests.published.digits import with_one_digit_changed
from tests.published.reference_files import content, digest, name_of, recorded_digests, recorded_files

FILES = recorded_files()
DIGESTS = recorded_digests()


def test_every_recorded_file_is_listed_with_its_digest():
    assert sorted(DIGESTS) == sorted(name_of(path) for path in FILES)


def test_every_recorded_file_is_unchanged():
    changed = [name_of(path) for path in FILES if digest(content(path)) != DIGESTS[name_of(path)]]
    assert changed == [], "restore these files; git must not convert their line ends"


def test_a_changed_digit_in_a_recorded_file_is_noticed():
    """For inputs this is the only check; outputs are also compared with lmassay's, digit by digit."""
    for path in FILES:
        # Latin-1 keeps every byte as it is.
        for changed in with_one_digit_changed(content(path).decode("latin-1"), most=5):
            assert digest(changed.encode("latin-1")) != DIGESTS[name_of(path)], path
