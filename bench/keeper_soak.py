"""A long random walk through everything that can happen to a keeper, checked after every step.

bin/bench keeper_soak [--steps N] [--seed N] [--json]

Writes, late events, cuts, interleaved and failing walks, clock steps, membership and window changes around a real index
(`bench/simulated_feed.py`). After every step with nothing on its way, what claims to be exact is compared with brute
force; every clean walk must leave memory equal to the table.
"""

from __future__ import annotations

import argparse
import random
import time

from bench.simulated_feed import GROUPS_USED, Row, SimulatedFeed
from bench.table import show

WEIGHTS = {
    "write": 30, "delete": 6, "deliver": 45, "walk": 40, "drain": 12, "advance": 8, "cut": 1, "fail_walk": 1,
    "gain": 3, "lose": 2, "window": 2, "poison": 1,
}  # fmt: skip


class Soak:
    """Steps drawn by weight, every one checked; raises AssertionError with the seed's story at a fault."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.node = SimulatedFeed()
        self.done = dict.fromkeys(WEIGHTS, 0)

    def run(self, steps: int) -> None:
        names, weights = list(WEIGHTS), list(WEIGHTS.values())
        for name in self.random.choices(names, weights, k=steps):
            getattr(self, name)()
            self.done[name] += 1
            self.node.check()

    def write(self) -> None:
        minute = int(self.node.now_s // 60)
        self.node.put([self._row(minute) for _ in range(self.random.choice([1, 1, 1, 2, 5]))])

    def _row(self, minute: int) -> Row:
        now_s = int(self.node.now_s)
        return Row(
            id=self.random.randint(1, 40),
            due=self.random.choice([-1, minute - 3, minute - 60, minute, minute + 2, minute + 30, minute + 300]),
            failures=self.random.choice([0, 0, 1, 3]),
            listed=self.random.random() < 0.5,
            asked_ms=self.random.choice([0, 0, 0, now_s * 1000, now_s * 1000 - 1]),
            retry_s=self.random.choice([0, 0, 0, now_s + 60, now_s + 4000, now_s - 5]),
        )

    def delete(self) -> None:
        if self.node.table:
            self.node.delete(self.random.choice(sorted(self.node.table)))

    def deliver(self) -> None:
        self.node.deliver(self.random.randint(1, 4))

    def drain(self) -> None:
        self.node.deliver(len(self.node.waiting))

    def walk(self) -> None:
        """The next step of a walk: begin it, read a range, or merge what can be merged."""
        node = self.node
        if not node.connected:
            node.connect()
        elif node.walk is None:
            node.begin_walk()
        elif not node.all_read() and self.random.random() < 0.6:
            node.read_range()
        else:
            node.merge_arrived()
            if node.all_read() and not node.walk.pending:
                node.finish_walk()

    def advance(self) -> None:
        self.node.advance(self.random.choice([1, 20, 60, 61, 600]))

    def cut(self) -> None:
        if self.node.connected:
            self.node.cut()

    def fail_walk(self) -> None:
        self.node.fail_walk()

    def gain(self) -> None:
        self.node.gain({self.random.randrange(GROUPS_USED)})

    def lose(self) -> None:
        self.node.lose({self.random.randrange(GROUPS_USED)})

    def window(self) -> None:
        self.node.set_window(self.random.choice([0, 600, 3600, 10_800]))

    def poison(self) -> None:
        """One row cannot be read for a while."""
        if self.node.unreadable:
            self.node.unreadable.clear()
            self.node.cut()
        elif self.node.table:
            self.node.unreadable.add(self.random.choice(sorted(self.node.table)))


def main() -> None:
    parser = argparse.ArgumentParser(prog="bin/bench keeper_soak", description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    soak = Soak(given.seed)
    before = time.perf_counter()
    soak.run(given.steps)
    seconds = time.perf_counter() - before
    figures: dict[str, float | int | str] = {
        "steps": given.steps,
        "seed": given.seed,
        "steps_per_s": given.steps / seconds,
    }
    show("keeper soak", figures | {f"steps_{name}": count for name, count in soak.done.items()}, as_json=given.json)


if __name__ == "__main__":
    main()
