"""The dependency arrows of docs/design.md, and the one way in to the schedule and the leases."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = [
    path
    for package in ("renderqueue", "keeper", "console")
    for path in (ROOT / package).rglob("*.py")
    if "migrations" not in path.parts
]
WRITE = r"(INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+renderqueue_{table}\b"
ORM_WRITE = r"\b{model}\.objects\.(create|update|bulk_create|get_or_create|update_or_create)|\b{model}\(\s*\w+="


def test_the_arrows_of_the_design_hold() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("table", "model", "writer"),
    [
        ("renderschedule", "RenderSchedule", "renderqueue/scheduling/rows.py"),
        ("lease", "Lease", "renderqueue/scheduling/leases.py"),
    ],
)
def test_one_module_alone_writes_the_table(table: str, model: str, writer: str) -> None:
    pattern = re.compile(WRITE.format(table=table) + "|" + ORM_WRITE.format(model=model), re.IGNORECASE)
    writers = {str(path.relative_to(ROOT)) for path in SOURCES if pattern.search(path.read_text())}
    assert writers == {writer}
