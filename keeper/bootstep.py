"""The keeper inside a Celery worker: a step of the *worker* blueprint, after the pool (D6).

The consumer's blueprint restarts with every broker reconnect; the worker's does not.
"""

from __future__ import annotations

import logging
import socket
import threading
import uuid
from typing import Any

from celery import bootsteps, signals
from celery.worker.control import control_command

from keeper.membership import NodeIdentity
from keeper.service import Keeper
from renderqueue.config import config
from renderqueue.scheduling.leases import serve_as

logger = logging.getLogger(__name__)

RENDER_TASK = "renderqueue.render_page"


class KeeperStep(bootsteps.StartStopStep):
    """Starts the keeper when the pool is there; at SIGTERM stops claiming before the pool drains. The keeper's
    renewing goes on until the worker has shut down."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, worker: Any, **kwargs: Any) -> None:
        super().__init__(worker, **kwargs)
        worker.keeper = None

    def start(self, worker: Any) -> None:
        queue = render_queue(worker.hostname)
        identity = NodeIdentity(
            id=uuid.uuid4(),
            name=worker.hostname,
            host=socket.gethostname(),
            queue=queue,
            pool_size=config().pool_size,
        )

        def send(page_id: int, token: uuid.UUID) -> None:
            worker.app.send_task(RENDER_TASK, args=[page_id, str(token)], queue=queue, retry=False)

        keeper = Keeper(config(), identity, send)
        worker.keeper = keeper
        serve_as(identity.id)
        _follow_tasks(keeper)
        keeper.start()
        logger.info("keeper of node %s started, queue %s", identity.id, queue)

    def stop(self, worker: Any) -> None:
        """A threads pool has no time limits: what still renders at the end of the grace is cancelled (D6)."""
        if worker.keeper is not None:
            worker.keeper.stop()
            grace = threading.Timer(config().grace_s, worker.keeper.stop_renders)
            grace.daemon = True
            grace.start()

    def terminate(self, worker: Any) -> None:
        self.stop(worker)


def render_queue(hostname: str) -> str:
    """The queue that only this worker takes from."""
    return f"render.{hostname}"


def install(app: Any) -> None:
    """Make this process's worker a node."""
    app.steps["worker"].add(KeeperStep)


def _follow_tasks(keeper: Keeper) -> None:
    """Tell the dispatcher what its tasks do; they run in this process (a threads pool)."""

    def is_render(task: Any) -> bool:
        return getattr(task, "name", "") == RENDER_TASK

    @signals.task_prerun.connect(weak=False)
    def started(task: Any = None, args: Any = (), **_: Any) -> None:
        if is_render(task):
            keeper.dispatcher.started(int(args[0]), uuid.UUID(args[1]))

    @signals.task_postrun.connect(weak=False)
    def finished(task: Any = None, args: Any = (), **_: Any) -> None:
        if is_render(task):
            keeper.dispatcher.finished(int(args[0]), uuid.UUID(args[1]))

    @signals.worker_shutdown.connect(weak=False)
    def drained(**_: Any) -> None:
        keeper.shutdown()


@control_command()
def walk(state: Any) -> dict[str, Any]:
    """Ask this node for a walk (beat does); says whether it will be walked."""
    keeper: Keeper | None = getattr(state.consumer.controller, "keeper", None)
    if keeper is None:
        return {"ok": "this worker has no keeper"}
    return {"ok": "walking" if keeper.ask_walk() else "walked a moment ago, not again"}
