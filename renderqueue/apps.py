from django.apps import AppConfig


class RenderqueueConfig(AppConfig):
    name = "renderqueue"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = "renderqueue"
