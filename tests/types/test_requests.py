"""Requests: what is part of their identity, and so of the cache key."""

from lmassay.types import Generate, Slot, SourceLocation, digest, request_as_dict, request_key


def test_the_location_of_a_request_is_not_part_of_its_identity():
    here, there = Generate("x", location=SourceLocation("out", 1)), Generate("x", location=SourceLocation("out", 2))
    assert here == there
    assert request_as_dict(here) == request_as_dict(there)


def test_every_parameter_of_a_request_is_part_of_its_identity():
    requests = [
        Generate("x"),
        Generate("y"),
        Generate("x", max_tokens=1),
        Generate("x", temperature=1.0),
        Generate("x", stop=(".",)),
        Generate(messages=(("user", "x"),)),
    ]
    assert len({digest(request_as_dict(request)) for request in requests}) == len(requests)


def test_slots_with_different_texts_words_or_options_have_different_keys():
    words = ("a", "b")
    requests = [
        Slot("x ", ".", words),
        Slot("y ", ".", words),
        Slot("x ", "!", words),
        Slot("x ", ".", ("a", "c")),
        Slot("x ", ".", words, ranked=False),
        Slot("x ", ".", words, multi_token=True),
    ]
    assert len({digest(request_key(request)) for request in requests}) == len(requests)
    assert digest(request_key(requests[0])) == digest(request_key(Slot("x ", ".", ("a", "b"))))
    assert len(digest(request_key(Slot("x ", ".", ("word",) * 2000)))) < 100
