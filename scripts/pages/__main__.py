"""Writes the pages and the schema that are made of the package's own tables: `python scripts/pages`."""

from __future__ import annotations

from pathlib import Path

import cards_page
import causes_page
import checks_page
import probes_page
import run_schema

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "docs/cards.md": cards_page.page,
    "docs/causes.md": causes_page.page,
    "docs/checks.md": checks_page.page,
    "docs/probes.md": probes_page.page,
    "wmmadiag/report/schema.json": run_schema.page,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (ROOT / name).write_text(page(), "utf-8")
