"""A Kubernetes for tests: an API server, a Job controller, a scheduler, and kubelets.

It speaks HTTPS to any client of Kubernetes, and `kubectl` is its referee. What it takes is checked
by the schemas that Kubernetes publishes; a field, path, patch or selector that it does not know
fails the test that asked. It has what `cluster` needs of it: Jobs that are Indexed, suspended, late
and cleaned up; deletion in the foreground and background, with finalizers and owners; the scheduler
with resources, labels, taints and anti-affinity, and the words in which it says that nothing fits;
quota, PodSecurity, roles, and image pulls that fail; Kueue's queues; commands in pods over
WebSockets, cut wherever a test wants. A pod is a process tree in a folder of its own, or one in the
namespaces of a host of a lab.
"""

from tests.fakes.kubernetes.cluster import Kubernetes

__all__ = ["Kubernetes"]
