"""Storage settings and the change feed's triggers (D2, D4)."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("renderqueue", "0001_tables")]

    operations = [
        migrations.RunSQL((SQL / "schedule_storage.sql").read_text(), migrations.RunSQL.noop),
        migrations.RunSQL((SQL / "feed.sql").read_text(), (SQL / "feed_remove.sql").read_text()),
    ]
