"""What crawlers get: a stored copy, or the origin's own answer, with the rung named (docs/serving.md)."""
