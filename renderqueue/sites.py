"""Making a site: the one way in for the console, the commands and the demo."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from django.contrib.auth.models import AbstractBaseUser
from django.db import IntegrityError, transaction
from django.utils.text import slugify

from renderqueue.egress.addresses import AddressKind, kind_of
from renderqueue.egress.policy import EgressPolicy, normalise_entry
from renderqueue.identity import DEVICES, ParsedUrl, UrlError, parse_url
from renderqueue.models import AuditEntry, Project, Route, Site, SiteHost

CATCH_ALL_POSITION = 100
"""Leaves room for routes before the one that every site ends with."""
DEFAULT_INTERVAL_S = 96 * 3600
SHORTEST_INTERVAL_S = 60
LONGEST_INTERVAL_S = 366 * 24 * 3600
MAX_NAME_CHARACTERS = 120
MAX_HOST_CHARACTERS = 260
MAX_ORIGIN_CHARACTERS = 300


class SiteRefused(ValueError):
    """The site cannot be made as asked. `field` is the argument of `create_site` that is wrong; the message says
    what is wrong with it and what to do. `taken_by` is the site that has the host already, if that is why."""

    def __init__(self, field: str, message: str, taken_by: Site | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.taken_by = taken_by


def create_site(
    project: Project,
    *,
    name: str,
    origin: str,
    hosts: Iterable[str] = (),
    default_interval_s: int = DEFAULT_INTERVAL_S,
    devices: Sequence[str] = ("desktop",),
    allowed_private_hosts: Iterable[str] = (),
    actor: AbstractBaseUser | None = None,
) -> Site:
    """Make a site with its hosts and a last route that matches everything, and note who did it; one transaction.

    `origin` is scheme://host[:port]; its host is always one of the site's hosts, `hosts` are further ones.
    `allowed_private_hosts` is for operators only: callers must not pass on what an owner wrote. An origin on a
    private address or on localhost needs an entry there; names are checked when they are fetched (D18).
    Raises SiteRefused.
    """
    parsed = _parsed_origin(origin)
    allowed = _private_hosts(allowed_private_hosts)
    _refuse_private_origin(parsed, allowed)
    _check_plain_fields(name, default_interval_s, devices)
    all_hosts = list(dict.fromkeys([parsed.host, *(_host(text, parsed.scheme) for text in hosts if text.strip())]))
    try:
        with transaction.atomic():
            _refuse_taken(all_hosts)
            site = Site.objects.create(
                project=project,
                name=name.strip(),
                origin=parsed.origin,
                default_interval_s=default_interval_s,
                devices=list(devices),
                allowed_private_hosts=allowed,
            )
            SiteHost.objects.bulk_create([SiteHost(site=site, host=host) for host in all_hosts])
            Route.objects.create(site=site, position=CATCH_ALL_POSITION)
            AuditEntry.objects.create(
                actor_id=None if actor is None else actor.pk,
                action="site created",
                target=parsed.origin,
                detail={"site": site.pk, "hosts": all_hosts, "allowed_private_hosts": allowed},
            )
    except IntegrityError:
        _refuse_taken(all_hosts)  # somebody was faster
        raise
    return site


def project_named(name: str) -> Project:
    """The project of this name or slug; made if there is none."""
    name = name.strip()
    found = Project.objects.filter(slug=name).first() or Project.objects.filter(name=name).first()
    if found is not None:
        return found
    stem = slugify(name)[:50] or "project"
    taken = set(Project.objects.filter(slug__startswith=stem).values_list("slug", flat=True))
    slug = next(slug for number in range(1, len(taken) + 2) if (slug := _numbered(stem, number)) not in taken)
    return Project.objects.create(name=name, slug=slug)


def _numbered(stem: str, number: int) -> str:
    return stem if number == 1 else f"{stem}-{number}"


def _parsed_origin(origin: str) -> ParsedUrl:
    try:
        parsed = parse_url(origin)
    except UrlError as error:
        raise SiteRefused("origin", str(error)) from None
    if parsed.path != "/" or parsed.query:
        raise SiteRefused("origin", f"Give the scheme and host only: {parsed.origin}, not {parsed.url}.")
    if len(parsed.origin) > MAX_ORIGIN_CHARACTERS:
        raise SiteRefused("origin", f"The origin is longer than {MAX_ORIGIN_CHARACTERS} characters.")
    return parsed


def _host(text: str, scheme: str) -> str:
    """A host as SiteHost keeps it: lower case, punycode, with :port unless it is the scheme's default."""
    text = text.strip()
    try:
        parsed = parse_url(text if "://" in text else f"{scheme}://{text}")
    except UrlError as error:
        raise SiteRefused("hosts", f"{text!r} is not a host: {error}") from None
    if parsed.path != "/" or parsed.query:
        raise SiteRefused("hosts", f"{text!r} is more than a host; write {parsed.host} only.")
    if len(parsed.host) > MAX_HOST_CHARACTERS:
        raise SiteRefused("hosts", f"{text[:80]!r}... is longer than {MAX_HOST_CHARACTERS} characters.")
    return parsed.host


def _private_hosts(entries: Iterable[str]) -> list[str]:
    try:
        return list(dict.fromkeys(normalise_entry(entry) for entry in entries if entry.strip()))
    except ValueError as error:
        raise SiteRefused("allowed_private_hosts", str(error)) from None


def _refuse_private_origin(parsed: ParsedUrl, allowed: list[str]) -> None:
    parts = urlsplit(parsed.origin)
    hostname = parts.hostname or ""
    port = parts.port or (443 if parsed.scheme == "https" else 80)
    kind = _kind_of_host(hostname)
    if kind is AddressKind.PUBLIC or EgressPolicy(frozenset(allowed)).allows(hostname, port):
        return
    raise SiteRefused(
        "origin",
        f"{parsed.host} is a {kind} address, which renders may not reach. If this is meant, an operator adds"
        f" {parsed.host} to the site's allowed private hosts.",
    )


def _kind_of_host(hostname: str) -> AddressKind:
    if hostname == "localhost" or hostname.endswith(".localhost"):
        return AddressKind.LOOPBACK
    try:
        return kind_of(ipaddress.ip_address(hostname))
    except ValueError:
        return AddressKind.PUBLIC  # a name: checked where it leads whenever it is fetched


def _check_plain_fields(name: str, default_interval_s: int, devices: Sequence[str]) -> None:
    if not name.strip():
        raise SiteRefused("name", "Give the site a name.")
    if len(name.strip()) > MAX_NAME_CHARACTERS:
        raise SiteRefused("name", f"The name is longer than {MAX_NAME_CHARACTERS} characters.")
    if not SHORTEST_INTERVAL_S <= default_interval_s <= LONGEST_INTERVAL_S:
        raise SiteRefused("default_interval_s", "The interval must be between one minute and 366 days.")
    unknown = [device for device in devices if device not in DEVICES]
    if unknown or not devices:
        raise SiteRefused("devices", f"Choose one or more of {', '.join(DEVICES)}.")


def _refuse_taken(hosts: list[str]) -> None:
    taken = SiteHost.objects.filter(host__in=hosts).select_related("site").order_by("host").first()
    if taken is not None:
        raise SiteRefused(
            "origin" if taken.host == hosts[0] else "hosts",
            f"The host {taken.host} already belongs to another site, and a host belongs to one site only. Remove it"
            " from that site's hosts first, or use another host.",
            taken_by=taken.site,
        )
