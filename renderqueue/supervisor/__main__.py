"""`python -m renderqueue.supervisor`: the whole product on this machine (docs/operations.md)."""

from __future__ import annotations

import argparse
import sys

from renderqueue.supervisor.life import Options, Supervisor, ignore_further_stops


def main(arguments: list[str] | None = None) -> int:
    supervisor = Supervisor(parse(arguments))
    code = supervisor.run()
    ignore_further_stops()
    return int(code)


def parse(arguments: list[str] | None = None) -> Options:
    parser = argparse.ArgumentParser(
        prog="bin/up", description="Runs database, web, workers and beat until Ctrl-C. Settings: docs/operations.md."
    )
    parser.add_argument("--host", default="127.0.0.1", help="address of the web process (default %(default)s)")
    parser.add_argument("--port", type=_port, default=8000, help="its port; 0 picks a free one (default %(default)s)")
    parser.add_argument("--demo", action="store_true", help="also run a small shop and keep its pages rendered")
    parser.add_argument("--demo-port", type=_port, default=0, help="port of the shop (default: the next one)")
    given = parser.parse_args(arguments)
    return Options(host=given.host, port=given.port, demo=given.demo, demo_port=given.demo_port)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a port: a number from 0 to 65535")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
