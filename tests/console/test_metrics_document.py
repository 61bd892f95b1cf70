"""The catalogue of metrics in docs/console.md is the one in the code."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

from console.fleet import Fleet
from console.metrics import FleetCollector

DOCUMENT = Path(__file__).parents[2] / "docs" / "console.md"


def test_every_metric_is_in_the_document() -> None:
    fleet = Fleet([], dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    families = FleetCollector(fleet).collect()
    exported = [f"{family.name}_total" if family.type == "counter" else family.name for family in families]
    documented = re.findall(r"^\| `(queue_\w+)`", DOCUMENT.read_text(), re.MULTILINE)
    assert sorted(documented) == sorted(exported)
