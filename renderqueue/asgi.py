"""The web process: ASGI only, because a crawler's URL must be read raw (D18b)."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "renderqueue.settings")

application = get_asgi_application()
