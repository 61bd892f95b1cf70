"""The console's addresses."""

app_name = "console"
urlpatterns: list = []
