"""What every benchmark prints: a table for people, and with --json one object on the last line."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping


def show(title: str, figures: Mapping[str, float | int | str], *, as_json: bool) -> None:
    print(f"{title} ({platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()})")
    width = max(map(len, figures))
    for name, value in figures.items():
        print(
            f"  {name:<{width}}  {value:,.3f}"
            if isinstance(value, float)
            else f"  {name:<{width}}  {value:,}"
            if isinstance(value, int)
            else f"  {name:<{width}}  {value}"
        )
    if as_json:
        print(json.dumps(dict(figures)))
