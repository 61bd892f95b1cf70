"""The console's forms."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db import transaction

from console.scope import Person, is_operator, steerable_projects
from renderqueue.identity import DEVICES
from renderqueue.models import Project, Site
from renderqueue.sites import SiteRefused, create_site, project_named

_UNITS_S = {"minutes": 60, "hours": 3600, "days": 86_400}


class SiteForm(forms.Form):
    """A new site. Operators may also name a new project, and private hosts that renders may reach."""

    project = forms.ModelChoiceField(queryset=Project.objects.none(), empty_label=None)
    new_project = forms.CharField(max_length=120, required=False, help_text="Instead of one that exists.")
    name = forms.CharField(max_length=120, help_text="What people call the site.")
    origin = forms.CharField(
        max_length=300,
        help_text="Scheme and host under which pages are fetched.",
        widget=forms.TextInput(attrs={"placeholder": "https://www.example.com", "inputmode": "url"}),
    )
    hosts = forms.CharField(
        label="Further hosts",
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Other hosts that serve the same pages, one a line. The origin's host is always included.",
    )
    interval = forms.IntegerField(label="Refresh every", min_value=1, max_value=100_000, initial=96)
    interval_unit = forms.ChoiceField(label="Unit", choices=[(unit, unit) for unit in _UNITS_S], initial="hours")
    devices = forms.MultipleChoiceField(
        choices=[(device, device) for device in DEVICES],
        initial=["desktop"],
        widget=forms.CheckboxSelectMultiple,
        help_text="One copy of every page is kept for each.",
    )
    allowed_private_hosts = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Private hosts (host or host:port) that renders of this site may reach, one a line.",
    )

    def __init__(self, *args: Any, person: Person, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._person = person
        projects = self.fields["project"]
        assert isinstance(projects, forms.ModelChoiceField)
        projects.queryset = steerable_projects(person)
        if is_operator(person):
            projects.required = False
            projects.empty_label = "a new one, named below"
        else:
            del self.fields["new_project"], self.fields["allowed_private_hosts"]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        has_project, has_new = bool(cleaned.get("project")), bool(cleaned.get("new_project"))
        if "new_project" in self.fields and "project" not in self.errors and has_project == has_new:
            self.add_error("project", "Choose a project or name a new one, not both.")
        return cleaned

    def create(self) -> Site | None:
        """Make the site; None if it was refused, with the error at its field."""
        asked = self.cleaned_data
        try:
            with transaction.atomic():
                return create_site(
                    asked["project"] or project_named(asked["new_project"]),
                    name=asked["name"],
                    origin=asked["origin"],
                    hosts=asked["hosts"].splitlines(),
                    default_interval_s=asked["interval"] * _UNITS_S[asked["interval_unit"]],
                    devices=asked["devices"],
                    allowed_private_hosts=asked.get("allowed_private_hosts", "").splitlines(),
                    actor=self._person if self._person.pk else None,  # type: ignore[arg-type]
                )
        except SiteRefused as refused:
            field = "interval" if refused.field == "default_interval_s" else refused.field
            self.add_error(field if field in self.fields else None, str(refused))
            return None


class SitemapForm(forms.Form):
    """A sitemap to read now."""

    url = forms.CharField(
        label="Sitemap URL",
        max_length=2048,
        widget=forms.TextInput(attrs={"inputmode": "url"}),
        help_text="A sitemap or a sitemap index on one of the site's hosts.",
    )
