"""Organisation policies that would refuse a launch, or prevent logins to its machines."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from cluster.core.errors import SpecError
from cluster.core.model.value import Value
from cluster.providers._cloud.api_errors import Failure
from cluster.providers.gcp.api import NO_SERVICE
from cluster.providers.gcp.responses import EffectivePolicy

if TYPE_CHECKING:
    from cluster.providers.gcp.api import Project


class OrgPolicy(Value, frozen=True, kw_only=True):
    """An organisation policy that may forbid something that a launch needs."""

    # of the constraint, without `compute.`; a newer constraint with the same effect begins with
    # `compute.managed.` (cloud.google.com/compute/docs/access/managed-constraints)
    name: str
    rule: str  # the rule, as the end of a sentence
    means: str  # its effect on a launch, as a sentence
    instead: str  # what the user can do without an exception from the policy

    @property
    def constraints(self) -> tuple[str, str]:
        """The names of the older and the newer constraint."""
        return f"compute.{self.name}", f"compute.managed.{self.name}"


OWN_HOSTS = "use machines that you can log in to already: --provider ssh"
POLICIES = (
    OrgPolicy(
        name="requireOsLogin",
        rule="every machine must use OS Login",
        means="Such machines ignore the key that a launch gives them, so nobody could log in.",
        instead=OWN_HOSTS,
    ),
    OrgPolicy(
        name="disableGuestAttributesAccess",
        rule="guest attributes of machines cannot be read",
        means="Machines publish their SSH host keys through them; without, nobody could verify the "
        "first connection.",
        instead=OWN_HOSTS,
    ),
    OrgPolicy(
        name="vmExternalIpAccess",
        rule="machines cannot have external addresses",
        means="This launch asks for them, to reach the machines from here.",
        instead="use --option jump=USER@HOST with a host in that network, or --option public=0 "
        "from a machine that reaches private addresses",
    ),
)
EXTERNAL = POLICIES[-1]


def check(project: Project, *, public: bool) -> str:
    """Check that no policy forbids a launch (SpecError); return a line for the plan, if any."""
    policies_asked = [
        (policy, constraint)
        for policy in POLICIES
        if public or policy is not EXTERNAL
        for constraint in policy.constraints
    ]
    with ThreadPoolExecutor(len(policies_asked)) as pool:
        policies = list(
            pool.map(partial(_effective, project), (name for _, name in policies_asked))
        )
    answers = list(zip(policies_asked, policies, strict=True))
    for (policy, constraint), answer in answers:
        if isinstance(answer, EffectivePolicy) and answer.restricts:
            raise _forbidden(project, policy, constraint)
    for (_, constraint), answer in answers:
        if isinstance(answer, Failure):
            return "" if answer.code == NO_SERVICE else _unknown(project, constraint, answer)
    return "organisation policies: none forbids this launch"


def _effective(project: Project, constraint: str) -> EffectivePolicy | Failure:
    """Read the policy of a constraint; if Google has no such constraint, nothing is forbidden."""
    try:
        return project.policy(constraint, EffectivePolicy)
    except Failure as failure:
        unknown = failure.kind == "missing" and failure.code != NO_SERVICE
        return EffectivePolicy(name="") if unknown else failure


def _unknown(project: Project, constraint: str, failure: Failure) -> str:
    return (
        f"organisation policies: not known ({failure.message.rstrip('.')}); one may still refuse "
        f"the launch, or keep you off its machines. See them: {_command(project, constraint)}"
    )


def _forbidden(project: Project, policy: OrgPolicy, constraint: str) -> SpecError:
    return SpecError(
        f"An organisation policy of {project.name} says that {policy.rule} "
        f"(constraints/{constraint}).",
        means=f"{policy.means} Nothing was created.",
        remedy=f"Ask its administrator for an exception, or {policy.instead}. "
        f"See it: {_command(project, constraint)}",
    )


def _command(project: Project, constraint: str) -> str:
    return f"gcloud org-policies describe {constraint} --project {project.name} --effective"
