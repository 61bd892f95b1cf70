"""The queue itself: policy (pure), the only writers of schedule rows and leases, the change feed, the walk."""
