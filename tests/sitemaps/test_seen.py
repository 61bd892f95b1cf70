from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from renderqueue.sitemaps.seen import SeenPages

KEYS = st.lists(st.integers(0, 40).map(lambda number: uuid.UUID(int=number * (1 << 60) + number)), max_size=20)


@given(st.lists(st.tuples(st.integers(1, 3), KEYS), max_size=12), KEYS)
def test_it_remembers_what_a_set_would(batches: list[tuple[int, list[uuid.UUID]]], asked: list[uuid.UUID]) -> None:
    seen = SeenPages()
    anywhere: set[uuid.UUID] = set()
    documents: dict[int, set[uuid.UUID]] = {1: set(), 2: set(), 3: set()}
    for document, keys in batches:
        wanted = []
        for key in keys:
            wanted.append(key not in anywhere)
            anywhere.add(key)
        assert seen.add(document, keys) == wanted
        documents[document].update(keys)
    assert seen.anywhere(asked) == [key in anywhere for key in asked]
    for document, listed in documents.items():
        assert seen.in_document(document, asked) == [key in listed for key in asked]
