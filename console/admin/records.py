"""What the record pages have in common."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import Model
from django.forms import ModelForm
from django.http import HttpRequest
from unfold.admin import ModelAdmin
from unfold.paginator import InfinitePaginator

from renderqueue.models import AuditEntry


class Record(ModelAdmin):
    """Written by people; every change is an audit entry beside Django's own log."""

    def save_model(self, request: HttpRequest, obj: Model, form: ModelForm, change: bool) -> None:
        super().save_model(request, obj, form, change)
        detail = {name: _plain(form.cleaned_data.get(name)) for name in form.changed_data}
        name = obj._meta.verbose_name
        AuditEntry.objects.create(
            actor_id=request.user.pk,
            action=f"{name} {'changed' if change else 'created'}",
            target=str(obj),
            detail={"id": str(obj.pk), **detail},
        )


class ReadOnlyRecord(ModelAdmin):
    """Written by the product alone: looked at, never changed by hand."""

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class LargeTable(ReadOnlyRecord):
    """A table of millions of rows: no count, no related filter, ordered by its primary key only (trap 46)."""

    paginator = InfinitePaginator
    show_full_result_count = False
    list_per_page = 50
    ordering: ClassVar[tuple[str, ...]] = ("-pk",)
    sortable_by: ClassVar[tuple[str, ...]] = ()
    actions = None


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | list | dict | None) else str(value)
