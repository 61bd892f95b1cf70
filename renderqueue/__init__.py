"""renderqueue: keeps pages rendered, and answers crawlers from the stored copy."""

from renderqueue.celery import app as celery_app

__all__ = ("celery_app",)
