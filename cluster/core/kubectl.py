"""Where pods are: a namespace, and the context by which kubectl reaches its cluster."""

from cluster.core.model.value import Value

CONTAINER = "host"  # of each pod of ours


class Namespace(Value, frozen=True, kw_only=True):
    name: str
    context: str = ""  # of kubectl's settings; empty in a pod, which has a service account

    @property
    def place(self) -> str:
        """As the journal keeps it, such as `team-a@gke_project_zone_name`."""
        return f"{self.name}@{self.context}"

    def kubectl(self, *words: str) -> list[str]:
        context = [f"--context={self.context}"] if self.context else []
        return ["kubectl", *context, f"--namespace={self.name}", *words]


def parse_namespace(place: str) -> Namespace:
    """Read a place; a context may have any characters, a namespace has no `@`."""
    name, _, context = place.partition("@")
    return Namespace(name=name, context=context)


def parse_pod(machine_id: str) -> tuple[str, Namespace]:
    """Read the id of a machine that is a pod: `POD.NAMESPACE@CONTEXT`."""
    head, separator, context = machine_id.partition("@")
    pod, _, namespace = head.rpartition(".")
    return pod, parse_namespace(f"{namespace}{separator}{context}")
