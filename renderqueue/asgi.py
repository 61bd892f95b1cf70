"""The web process: ASGI only, because a crawler's URL must be read raw (D18b)."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "renderqueue.settings")

console = get_asgi_application()

from renderqueue.serving.asgi import crawlers_first  # noqa: E402  (needs Django set up)

application = crawlers_first(console)
