"""What a run has done so far: the numbers and examples that its row shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from renderqueue.sitemaps.findings import SAMPLES, Findings, shortened

COUNTERS = (
    "documents",
    "failed_documents",
    "listed",
    "created",
    "existing",
    "attached",
    "unlinked",
    "duplicates",
    "filtered",
    "foreign",
    "invalid",
)


@dataclass(slots=True)
class Tally:
    """`listed` counts what was read; each listing is then one of created, existing, duplicate, filtered, foreign
    or invalid. `attached` are existing pages that had no sitemap, or moved to another document of this root."""

    documents: int = 0
    failed_documents: int = 0
    listed: int = 0
    created: int = 0
    existing: int = 0
    attached: int = 0
    unlinked: int = 0
    duplicates: int = 0
    filtered: int = 0
    foreign: int = 0
    invalid: int = 0
    findings: Findings = field(default_factory=Findings)
    notes: list[str] = field(default_factory=list)
    _samples: dict[str, list[str]] = field(default_factory=dict)

    def sample(self, what: str, texts: Iterable[str], characters: int = 200) -> None:
        """Keep the first few examples of a counter."""
        kept = self._samples.setdefault(what, [])
        for text in texts:
            if len(kept) >= SAMPLES:
                return
            kept.append(shortened(text, characters))

    def fail_document(self, url: str, why: str) -> None:
        self.failed_documents += 1
        self.sample("failed_documents", [f"{url}: {why}"], characters=600)

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def first_failure(self) -> str:
        return next(iter(self._samples.get("failed_documents", [])), "")

    def as_fields(self) -> dict[str, Any]:
        """The columns of `SitemapRun`."""
        warnings = [
            {"kind": kind, "count": count, "samples": self.findings.samples[kind]}
            for kind, count in self.findings.counts.most_common()
        ]
        samples = {what: texts for what, texts in self._samples.items() if texts}
        return {
            **{name: getattr(self, name) for name in COUNTERS},
            "warnings": self.findings.total(),
            "samples": {**samples, "warnings": warnings, "notes": self.notes},
        }
