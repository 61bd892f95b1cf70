"""The tables, one file per family."""

from renderqueue.models.audit import AuditEntry
from renderqueue.models.lease import Lease
from renderqueue.models.node import Node, NodeReport
from renderqueue.models.page import Body, CachedCopy, DeletionDebt
from renderqueue.models.policy import FleetPolicy
from renderqueue.models.schedule import RenderSchedule
from renderqueue.models.site import Membership, Project, Route, Site, SiteHost
from renderqueue.models.sitemap import Sitemap, SitemapRun

__all__ = [
    "AuditEntry",
    "Body",
    "CachedCopy",
    "DeletionDebt",
    "FleetPolicy",
    "Lease",
    "Membership",
    "Node",
    "NodeReport",
    "Project",
    "RenderSchedule",
    "Route",
    "Site",
    "SiteHost",
    "Sitemap",
    "SitemapRun",
]
