"""The egress guard: every fetch and every render reaches the network through it, or not at all (D18)."""
