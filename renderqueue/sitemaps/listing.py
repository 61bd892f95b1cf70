"""What a listed URL is to a site: a page, a page that is not rendered, somebody else's, or no URL at all."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from renderqueue.identity import KeyRules, PageIdentity, RouteRule, UrlError, identify, parse_url
from renderqueue.models import Route, Site, SiteHost

_UNROUTED = (0, RouteRule("prefix", "/", "passthrough"))


class Verdict(StrEnum):
    PAGE = "page"
    FILTERED = "filtered"
    FOREIGN = "foreign"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Listing:
    """`identity` is there for pages and for filtered URLs; `why` for invalid ones."""

    verdict: Verdict
    identity: PageIdentity | None = None
    why: str = ""


class SiteRules:
    """A site's hosts, routes and key rules, read once for a run."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.routes = {route.pk: route for route in Route.objects.filter(site=site).order_by("position")}
        self.hosts = frozenset(SiteHost.objects.filter(site=site).values_list("host", flat=True))
        # A URL that no route matches is filtered too, and a page that it once made is still listed (trap 34).
        self._rules = [*((pk, _rule_of(route)) for pk, route in self.routes.items()), _UNROUTED]
        self._key_rules = KeyRules(site.fold_plus, site.strip_trailing_slash)

    def judge(self, loc: str) -> Listing:
        """Scheme and host fold only through the site's own list of hosts (F91)."""
        try:
            parsed = parse_url(loc)
            if parsed.host not in self.hosts:
                return Listing(Verdict.FOREIGN)
            identity = identify(parsed, self._rules, self._key_rules, origin=self.site.origin)
        except UrlError as error:
            return Listing(Verdict.INVALID, why=str(error))
        assert identity is not None  # the last rule matches every path
        verdict = Verdict.PAGE if identity.rule.mode == "prerender" else Verdict.FILTERED
        return Listing(verdict, identity)


def _rule_of(route: Route) -> RouteRule:
    return RouteRule(route.match, route.path, route.mode, tuple(route.query_params))  # type: ignore[arg-type]
