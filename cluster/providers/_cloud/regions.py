"""A launch in the first of several regions that has room; the plan says what each of them lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from cluster.core.errors import ClusterError, SpecError
from cluster.core.model.resources import Price
from cluster.core.model.spec import ClusterSpec
from cluster.core.money import price_line
from cluster.providers._cloud.launch import NEXT_ZONE, CloudOffer
from cluster.providers._cloud.options import CloudOptions, words

NEXT_REGION = (*NEXT_ZONE, "quota")  # kinds of failures after which another region is tried
OfferT = TypeVar("OfferT", bound=CloudOffer)


class Choice(NamedTuple, Generic[OfferT]):
    """A region in which a launch may create its machines."""

    spec: ClusterSpec  # for this region alone
    offers: dict[str, OfferT]  # by groups of hosts

    @property
    def offer(self) -> OfferT:
        return next(iter(self.offers.values()))

    @property
    def cost(self) -> str:
        price = mean_price(self.spec, self.offers)
        return price_line(price, self.spec.hosts, self.offer.ttl)

    @property
    def lines(self) -> list[str]:
        return [
            f"{name}: {line}" if self.spec.groups else line
            for name, offer in self.offers.items()
            for line in offer.lines
        ]


class Choices(NamedTuple, Generic[OfferT]):
    """The regions to try one after another, and lines of the plan about all but the first."""

    possible: tuple[Choice[OfferT], ...]
    lines: tuple[str, ...] = ()


def in_region(spec: ClusterSpec, region: str) -> ClusterSpec:
    options = {key: value for key, value in spec.options.items() if key != "regions"}
    return replace(spec, zone=region, options=options)


def check_names(names: Sequence[str], all_names: Sequence[str]) -> None:
    """Refuse names that no region of the cloud has, with the nearest ones (SpecError)."""
    unknown = [name for name in names if name not in all_names]
    if unknown and all_names:
        nearest = (get_close_matches(name, all_names, 1, 0.0)[0] for name in names)
        raise SpecError(
            f"--option regions={','.join(names)} names {', '.join(unknown)}, which is no region.",
            remedy=f"Use --option regions={','.join(dict.fromkeys(nearest))}",
        )


def regional_specs(spec: ClusterSpec, options: CloudOptions) -> tuple[ClusterSpec, ...]:
    """Return a spec for each region that the options name, or the spec as it is (SpecError)."""
    regions = tuple(dict.fromkeys(words(options.regions)))
    if regions and (spec.zone or options.zones):
        raise SpecError(
            "A launch tries regions or zones, not both.",
            means="In each of the regions, all zones that offer the type are tried.",
            remedy="Leave --zone and --option zones= out, or --option regions=",
        )
    return tuple(in_region(spec, region) for region in regions) or (spec,)


def mean_price(spec: ClusterSpec, offers: Mapping[str, CloudOffer]) -> Price | None:
    """Return the price of a machine, on average over the groups; none if one is not known."""
    prices = [(part.spec.hosts, offers[part.group].price) for part in spec.parts]
    priced = [(hosts, price) for hosts, price in prices if price is not None]
    if len(priced) < len(prices):
        return None
    hourly = sum(hosts * price.hourly for hosts, price in priced) / spec.hosts
    return replace(priced[0][1], hourly=hourly)


def choose(
    specs: Sequence[ClusterSpec], answers: Sequence[Mapping[str, OfferT] | ClusterError]
) -> Choices[OfferT]:
    """Return the regions that have what a launch needs (ClusterError: none has)."""
    pairs = list(zip(specs, answers, strict=True))
    lacking = [(spec.zone, answer) for spec, answer in pairs if isinstance(answer, ClusterError)]
    possible = tuple(
        Choice(spec, dict(answer)) for spec, answer in pairs if not isinstance(answer, ClusterError)
    )
    if not possible:
        error = lacking[0][1]
        if len(lacking) == 1:
            raise error
        means = "\n".join(f"{region}: {error.what}" for region, error in lacking)
        raise type(error)("No region can be used.", means=means, remedy=error.remedy) from error
    rest = (f"else {item.spec.zone}: {item.offer.lines[0]}; {item.cost}" for item in possible[1:])
    without = (f"not in {region}: {error.what}" for region, error in lacking)
    return Choices(possible, (*rest, *without))
