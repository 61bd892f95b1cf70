"""What the demo shop sells: the same on every start, a little of it changing from hour to hour. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

KINDS = ("Desk lamp", "Floor lamp", "Pendant", "Wall light", "Lantern", "Night light")
MATERIALS = ("brass", "oak", "linen", "glass", "steel", "paper", "stoneware", "cork")
NAMES = ("Aster", "Brook", "Cinder", "Dune", "Ember", "Fjord", "Grove", "Harbour", "Islet", "Juniper")
PRODUCTS = 240
GUIDES = 24
LASTING_CHANGE = 4  # one product in so many changes its price every hour


@dataclass(frozen=True)
class Product:
    number: int
    name: str
    kind: str
    material: str
    base_cents: int

    @property
    def path(self) -> str:
        return f"/p/{self.number}-{slug(self.name)}"

    @property
    def category(self) -> str:
        return slug(self.kind)

    def price_cents(self, hour: int) -> int:
        """The price in hour `hour` since 1970: most products keep theirs, so most re-renders change nothing."""
        return self.base_cents + (hour % 7) * 100 if self.number % LASTING_CHANGE == 0 else self.base_cents

    def as_json(self, hour: int) -> dict[str, object]:
        return {
            "path": self.path,
            "name": self.name,
            "kind": self.kind,
            "category": self.category,
            "material": self.material,
            "price": f"{self.price_cents(hour) / 100:.2f}",
            "description": f"A {self.kind.lower()} of {self.material}, made to be repaired. Model {self.number}.",
        }


@dataclass(frozen=True)
class Guide:
    number: int
    title: str

    @property
    def path(self) -> str:
        return f"/guides/{slug(self.title)}"

    def as_json(self) -> dict[str, object]:
        kind = KINDS[self.number % len(KINDS)].lower()
        text = [f"How to choose a {kind}: light, height and shade.", "Measure the room before you measure the lamp."]
        return {"path": self.path, "title": self.title, "paragraphs": text}


@cache
def products() -> tuple[Product, ...]:
    return tuple(_product(number) for number in range(1, PRODUCTS + 1))


@cache
def guides() -> tuple[Guide, ...]:
    return tuple(
        Guide(number, f"{KINDS[number % len(KINDS)]} guide {number // len(KINDS) + 1}") for number in range(GUIDES)
    )


@cache
def categories() -> dict[str, str]:
    """Slug to name."""
    return {slug(kind): kind for kind in KINDS}


def product(number: int) -> Product | None:
    return products()[number - 1] if 1 <= number <= PRODUCTS else None


def slug(text: str) -> str:
    return "-".join(text.lower().split())


def _product(number: int) -> Product:
    digest = blake2b(f"lamp {number}".encode(), digest_size=4).digest()
    kind = KINDS[digest[0] % len(KINDS)]
    material = MATERIALS[digest[1] % len(MATERIALS)]
    name = f"{NAMES[digest[2] % len(NAMES)]} {material} {kind.lower()}"
    return Product(number, name, kind, material, base_cents=1900 + 50 * digest[3])
