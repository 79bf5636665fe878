"""The question that is asked before anything costs money."""

import sys
from collections.abc import Callable

import click

from cluster.core.errors import SpecError
from cluster.core.model.resources import Plan
from cluster.core.model.spec import ClusterSpec
from cluster.core.text.units import format_seconds


def confirm_cost(
    spec: ClusterSpec, plan: Plan, show: Callable[[str], object], *, yes: bool, launches: int = 1
) -> None:
    """Show what will be created and its price, and ask, if it costs money (SpecError: no)."""
    if not plan.costs:
        return
    price = price_words(spec, plan, launches)
    for line in plan.lines:
        show(line)
    if launches > 1:
        show(f"{launches} launches, one after another: {price}")
    if yes or plan.exists:
        return
    if not ask(f"Create {spec.name} for {price}?", price):
        raise SpecError("Nothing was created.", remedy="To see the plan again, add --plan.")


def ask(question: str, price: str) -> bool:
    """Ask before something costs money (SpecError: there is no terminal)."""
    if not has_terminal():
        raise SpecError(
            f"This costs {price}, and there is no terminal to ask on. Nothing was created.",
            remedy="To go on without a question, add --yes to the command.",
        )
    return click.confirm(question, err=True)


def has_terminal() -> bool:
    """Tell whether a question can be asked: it is printed to standard error."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def price_words(spec: ClusterSpec, plan: Plan, launches: int = 1) -> str:
    """Say what a cluster costs, such as `$7.78 an hour, at the latest after 2 h ($15.56)`."""
    end = "until it is taken down" if launches == 1 else f"{launches} times until it is taken down"
    if plan.ttl is not None:
        end += f", at the latest after {format_seconds(plan.ttl)}"
    if plan.price is None:
        return f"money (the price is not known) {end}"
    hourly = plan.price.hourly * spec.hosts
    most = "" if plan.ttl is None else f" (${launches * hourly * plan.ttl / 3600:.2f})"
    return f"${hourly:.4g} an hour {end}{most}"
