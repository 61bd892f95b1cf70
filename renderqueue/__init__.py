"""renderqueue: keeps pages rendered, and answers crawlers from the stored copy."""

import sys

from renderqueue.config import ConfigError

try:
    from renderqueue.celery import app as celery_app
except ConfigError as error:
    # Whatever part of the product this process was to be: it says what is wrong and ends.
    print(error, file=sys.stderr)
    raise SystemExit(2) from None

__all__ = ("celery_app",)
