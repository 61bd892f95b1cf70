"""The catalogue of settings in docs/settings.md is the one in the code."""

from __future__ import annotations

from pathlib import Path

from renderqueue.config import ENV_PREFIX, Config

DOCUMENT = Path(__file__).parent.parent / "docs" / "settings.md"


def expected_rows() -> list[str]:
    rows = []
    for name, field in Config.model_fields.items():
        variable = name.upper() if name in ("database_url", "broker_url") else ENV_PREFIX + name.upper()
        default = "`./var`" if name == "data_dir" else f"`{field.default}`" if field.default != "" else "empty"
        rows.append(f"| `{variable}` | {default} | {field.description} |")
    return rows


def test_every_setting_is_in_the_document_with_its_default_and_description() -> None:
    lines = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| `")]
    assert lines == expected_rows()
