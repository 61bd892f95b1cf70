"""Who sees and steers what (D18): every view starts from these querysets, so what is not theirs is not found.

An operator is staff and sees all. Owners and viewers see the sites of the projects they are members of; owners also
act on them.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import QuerySet

from renderqueue.models import Membership, Project, Site

Person = AbstractBaseUser | AnonymousUser


def is_operator(person: Person) -> bool:
    return bool(person.is_active and getattr(person, "is_staff", False))


def visible_sites(person: Person) -> QuerySet[Site]:
    if is_operator(person):
        return Site.objects.all()
    if not person.is_active or person.pk is None:
        return Site.objects.none()
    return Site.objects.filter(project__in=_projects_of(person))


def steerable_projects(person: Person) -> QuerySet[Project]:
    """Projects in which the person may add sites and have sitemaps read."""
    if is_operator(person):
        return Project.objects.all()
    if not person.is_active or person.pk is None:
        return Project.objects.none()
    return _projects_of(person, role=Membership.Role.OWNER)


def may_steer(person: Person, site: Site) -> bool:
    return is_operator(person) or steerable_projects(person).filter(pk=site.project_id).exists()


def _projects_of(person: Person, **wanted: Any) -> QuerySet[Project]:
    memberships = Membership.objects.filter(user__pk=person.pk or 0, **wanted)
    return Project.objects.filter(pk__in=memberships.values("project"))
