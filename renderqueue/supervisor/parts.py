"""Which processes make the product, with their command lines (D6)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from renderqueue.config import PROJECT_ROOT, Config
from renderqueue.supervisor.child import Part

QUICK_STOP_S = 10.0
KILL_AFTER_GRACE_S = 10.0  # beyond the grace that the workers give their renders (D6)
HOUSEKEEPING_THREADS = 2


def render_worker_name(host: str) -> str:
    return f"render@{host}"


def product_parts(
    config: Config, environment: Mapping[str, str], *, host: str, port: int, machine: str, logs: Path
) -> list[list[Part]]:
    """The parts in groups, in the order in which they are stopped."""
    python = sys.executable
    worker_stop_s = config.grace_s + KILL_AFTER_GRACE_S

    def part(name: str, command: list[str], stop_s: float) -> Part:
        return Part(
            name=name,
            command=(python, "-m", *command),
            environment=dict(environment),
            log=logs / f"{name}.log",
            folder=PROJECT_ROOT,
            stop_s=stop_s,
        )

    def worker(name: str, application: str, node: str, queue: str, threads: int) -> Part:
        command = ["celery", "-A", application, "worker", "-P", "threads", "-c", str(threads), "-n", node]
        command += ["-Q", queue, "--without-gossip", "--without-mingle", "-l", "info"]
        return part(name, command, worker_stop_s)

    node = render_worker_name(machine)
    return [
        [part("beat", ["celery", "-A", "renderqueue", "beat", "--pidfile=", "-l", "info"], QUICK_STOP_S)],
        [
            worker("render", "keeper.worker", node, f"render.{node}", config.pool_size),
            worker("housekeeping", "renderqueue", f"housekeeping@{machine}", "housekeeping", HOUSEKEEPING_THREADS),
        ],
        [part("web", _web_command("renderqueue.asgi:application", host, port), QUICK_STOP_S)],
    ]


def shop_part(environment: Mapping[str, str], *, port: int, logs: Path) -> Part:
    """The demo's site, on a port and so a host of its own."""
    return Part(
        name="shop",
        command=(sys.executable, "-m", *_web_command("renderqueue.demo.shop:application", "127.0.0.1", port)),
        environment=environment,
        log=logs / "shop.log",
        folder=PROJECT_ROOT,
        stop_s=QUICK_STOP_S,
    )


def _web_command(application: str, host: str, port: int) -> list[str]:
    command = ["granian", "--interface", "asginl", "--host", host, "--port", str(port), "--workers", "1"]
    return [*command, "--no-ws", "--workers-kill-timeout", "5", application]
