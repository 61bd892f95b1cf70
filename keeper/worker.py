"""The render worker's Celery application: the product's, with the keeper in it.

`celery -A keeper.worker worker -P threads` is a node; `celery -A renderqueue worker` is a housekeeping worker.
"""

from keeper import bootstep
from renderqueue.celery import app

bootstep.install(app)
