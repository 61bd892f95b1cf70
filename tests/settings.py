"""The product's settings for a test run: first a private Postgres, unless DATABASE_URL names one.

`bin/test` starts one server and exports its URL; a bare `pytest` starts its own here, because the settings are
the first thing that needs it. It stops with the process.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

os.environ.setdefault("RENDERQUEUE_SECRET_KEY", "tests-only-" + "0" * 32)

if not os.environ.get("RENDERQUEUE_DATA_DIR"):
    _data = tempfile.mkdtemp(prefix="rq-data-")
    os.environ["RENDERQUEUE_DATA_DIR"] = _data
    atexit.register(shutil.rmtree, _data, ignore_errors=True)

if not os.environ.get("DATABASE_URL"):
    from renderqueue.config import config
    from renderqueue.supervisor.postgres import EmbeddedPostgres

    _folder = Path(tempfile.mkdtemp(prefix="rq-pg-"))
    _server = EmbeddedPostgres(
        _folder,
        options={"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off"},
        temporary=True,
    )
    os.environ["DATABASE_URL"] = _server.start()
    atexit.register(shutil.rmtree, _folder, ignore_errors=True)
    atexit.register(_server.stop)
    config.cache_clear()

from renderqueue.settings import *  # noqa: F403  (the environment above comes first)
