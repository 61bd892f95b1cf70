"""Who owns what: projects, their people, their sites and the routes of a site."""

from __future__ import annotations

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q

HOUR_S = 3600
DEVICE_CHOICES = ("desktop", "mobile")


def default_devices() -> list[str]:
    return ["desktop"]


class Project(models.Model):
    """A customer of the fleet: what is billed, and the wall between owners."""

    name = models.CharField(max_length=120)
    slug = models.SlugField(max_length=60, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    members = models.ManyToManyField(settings.AUTH_USER_MODEL, through="Membership", related_name="render_projects")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """A person's role in a project. Operators are staff users and need none."""

    class Role(models.TextChoices):
        OWNER = "owner"
        VIEWER = "viewer"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.VIEWER)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "user"], name="membership_once")]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.project}"


class Site(models.Model):
    """One origin whose pages are kept rendered."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="sites")
    name = models.CharField(max_length=120)
    origin = models.URLField(
        max_length=300,
        help_text="Scheme and host under which the origin is fetched, such as https://www.example.com",
    )
    default_interval_s = models.PositiveIntegerField(
        default=96 * HOUR_S,
        validators=[MinValueValidator(60), MaxValueValidator(366 * 24 * HOUR_S)],
        help_text="Seconds between refreshes of a page when neither its route nor its sitemap says otherwise.",
    )
    devices = models.JSONField(default=default_devices, help_text='Devices to render, such as ["desktop", "mobile"].')
    concurrency_cap = models.PositiveSmallIntegerField(
        default=4,
        validators=[MinValueValidator(1)],
        help_text="Most pages of this site rendered at once over all nodes: politeness to its origin.",
    )
    paused = models.BooleanField(default=False)
    paused_generation = models.PositiveIntegerField(default=0)
    swr_ttl_s = models.PositiveIntegerField(
        default=3 * HOUR_S, help_text="How long after its deadline a copy is still served, seconds."
    )
    serve_last_good = models.BooleanField(
        default=False, help_text="Serve the last good copy, however old, before falling back to the origin."
    )
    allowed_private_hosts = models.JSONField(
        default=list,
        blank=True,
        help_text="Private hosts (host or host:port) that renders and fetches of this site may reach.",
    )
    fold_plus = models.BooleanField(default=False, help_text="Treat + and %20 in a query as the same.")
    strip_trailing_slash = models.BooleanField(default=False, help_text="Treat /a/ and /a as the same page.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(condition=Q(default_interval_s__gte=60), name="site_interval_positive"),
            models.CheckConstraint(condition=Q(concurrency_cap__gte=1), name="site_cap_positive"),
        ]

    def __str__(self) -> str:
        return self.name


class SiteHost(models.Model):
    """One host (with :port unless it is the default) that serves a site. A host belongs to one site only."""

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="hosts")
    host = models.CharField(
        max_length=260,
        unique=True,
        error_messages={"unique": "This host already belongs to another site; remove it there first."},
    )

    def __str__(self) -> str:
        return self.host


class Route(models.Model):
    """Which paths of a site are pages, how often they are refreshed and which query parameters make a page.

    The first match in order of `position` wins. Every site has a last route that matches everything."""

    class Match(models.TextChoices):
        EXACT = "exact"
        PREFIX = "prefix"
        CONTAINS = "contains"

    class Mode(models.TextChoices):
        PRERENDER = "prerender"
        PASSTHROUGH = "passthrough"

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="routes")
    position = models.PositiveSmallIntegerField()
    match = models.CharField(max_length=10, choices=Match.choices, default=Match.PREFIX)
    path = models.CharField(max_length=500, default="/")
    mode = models.CharField(max_length=12, choices=Mode.choices, default=Mode.PRERENDER)
    query_params = models.JSONField(
        default=list,
        blank=True,
        help_text='Names of query parameters that make another page; ["*"] keeps all but tracking ones.',
    )
    interval_s = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(60), MaxValueValidator(366 * 24 * HOUR_S)],
        help_text="Seconds between refreshes on this route; wins over the sitemap and the site.",
    )
    treat_as_submitted = models.BooleanField(
        default=False, help_text="Pages of this route count as submitted though no sitemap lists them."
    )

    class Meta:
        ordering = ["site", "position"]
        constraints = [
            models.UniqueConstraint(
                fields=["site", "position"], name="route_position_once", deferrable=models.Deferrable.DEFERRED
            ),
            models.CheckConstraint(
                condition=Q(interval_s__isnull=True) | Q(interval_s__gte=60), name="route_interval_positive"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.match} {self.path}"
