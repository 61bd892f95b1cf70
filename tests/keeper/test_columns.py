"""The store of rows: against a dictionary, whatever is done to it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeper import columns as col
from keeper.columns import Columns, Rows


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(col, "SEGMENT_ROWS", 8)


def rows_of(held: dict[int, int]) -> Rows:
    ids = np.array(sorted(held), dtype=np.int64)
    due = np.array([held[i] for i in sorted(held)], dtype=np.int32)
    size = len(ids)
    return Rows(
        ids,
        due,
        np.zeros(size, np.int32),
        np.zeros(size, np.int16),
        np.zeros(size, np.uint8),
        np.zeros(size, np.uint8),
        (ids % 1024).astype(np.int16),
    )


def content(columns: Columns) -> dict[int, int]:
    found: dict[int, int] = {}
    previous = -1
    for rows in columns.segments():
        assert 0 < len(rows) <= col.SEGMENT_ROWS
        for page_id, due in zip(rows.id.tolist(), rows.due.tolist(), strict=True):
            assert page_id > previous
            previous = page_id
            found[page_id] = due
    return found


ids = st.integers(0, 60)
tables = st.dictionaries(ids, st.integers(0, 1000), max_size=30)


@given(st.lists(st.tuples(st.sampled_from(["insert", "replace", "drop"]), tables, ids, ids), max_size=12))
def test_the_store_holds_what_a_dictionary_would(steps: list[tuple[str, dict[int, int], int, int]]) -> None:
    columns, model = Columns(), dict[int, int]()
    for what, table, one, other in steps:
        low, high = min(one, other), max(one, other)
        if what == "insert":
            new = {page_id: due for page_id, due in table.items() if page_id not in model}
            columns.insert(rows_of(new))
            model |= new
        elif what == "replace":
            inside = {page_id: due for page_id, due in table.items() if low < page_id <= high}
            columns.replace_range(low, high, rows_of(inside))
            model = {page_id: due for page_id, due in model.items() if not low < page_id <= high} | inside
        else:
            unwanted = np.zeros(1024, dtype=np.bool_)
            unwanted[low : high + 1] = True
            gone = columns.drop(unwanted)
            assert gone == sum(low <= page_id <= high for page_id in model)
            model = {page_id: due for page_id, due in model.items() if not low <= page_id <= high}
        assert content(columns) == model
        assert columns.range(low, high).id.tolist() == sorted(i for i in model if low < i <= high)
        asked = np.array(sorted(table), dtype=np.int64)
        found_ids = [
            int(asked[at.span][position])
            for at in columns.find(asked)
            for position in np.flatnonzero(at.found).tolist()
        ]
        assert found_ids == [page_id for page_id in sorted(table) if page_id in model]


def test_a_write_through_find_changes_the_store() -> None:
    columns = Columns()
    columns.insert(rows_of(dict.fromkeys(range(20), 1)))
    for at in columns.find(np.array([3, 15, 99], dtype=np.int64)):
        at.rows.due[at.positions[at.found]] = 7
        assert columns.at(at.places()).due.tolist() == [7] * len(at.places())
    assert {page_id for page_id, due in content(columns).items() if due == 7} == {3, 15}


def test_a_row_takes_twenty_two_bytes() -> None:
    assert col.BYTES_A_ROW == 22
