"""How a run ends: exit codes, and the error that carries one."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of the supervisor. 2 is also what a wrong command line gives."""

    STOPPED = 0  # it was asked to stop, and everything ended by itself
    KILLED = 1  # it was asked to stop, and something had to be killed
    BAD_INPUT = 2  # an argument, a setting, a port, the browser or the data folder cannot be used
    UNREACHABLE = 3  # DATABASE_URL or BROKER_URL does not answer
    NOT_STARTED = 4  # a part did not start, or kept ending before everything was ready
    ALREADY_RUNNING = 5  # another supervisor runs on this data folder


class StartError(Exception):
    """The product cannot run; the message says what is wrong, where, and what to do."""

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(message)
        self.code = code


class StopRequested(Exception):
    """Somebody asked to stop before everything was ready."""
