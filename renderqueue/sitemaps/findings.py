"""What was odd, counted, with a few examples of each: bounded whatever the document does."""

from __future__ import annotations

from collections import Counter

SAMPLES = 5
SAMPLE_CHARACTERS = 200
KINDS = 64


class Findings:
    """Counts by kind (a short phrase) and the first samples of each."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.samples: dict[str, list[str]] = {}

    def add(self, kind: str, sample: str = "", count: int = 1) -> None:
        if kind not in self.counts and len(self.counts) >= KINDS:
            kind = "other"
        self.counts[kind] += count
        kept = self.samples.setdefault(kind, [])
        if sample and len(kept) < SAMPLES:
            kept.append(shortened(sample))

    def merge(self, other: Findings) -> None:
        for kind, count in other.counts.items():
            self.add(kind, count=count)
            for sample in other.samples[kind]:
                self.add(kind, sample, count=0)

    def total(self) -> int:
        return sum(self.counts.values())


def shortened(text: str, characters: int = SAMPLE_CHARACTERS) -> str:
    """One line of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= characters else line[: characters - 1] + "…"
