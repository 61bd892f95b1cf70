"""The keeper: the schedule rows that a worker node owns and that are due soon, in its memory."""
