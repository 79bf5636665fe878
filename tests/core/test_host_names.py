"""Which names are of one host."""

import pytest

from cluster.core.model.hosts import full_names


@pytest.mark.parametrize(
    ("names", "hosts"),
    [
        (("n1", "n1.site.org", "n2"), ("n1.site.org", "n1.site.org", "n2")),
        (("n1", "n1.site", "n1.site.org"), ("n1.site.org",) * 3),
        (("n1.a.org", "n1.b.org"), ("n1.a.org", "n1.b.org")),
        (("n1", "n1.a.org", "n1.b.org"), ("n1", "n1.a.org", "n1.b.org")),
        (("n1", "n10.site.org", "n1x"), ("n1", "n10.site.org", "n1x")),
        (("10", "10.0.0.1", "10.0.0.11"), ("10", "10.0.0.1", "10.0.0.11")),
    ],
)
def test_a_short_name_is_of_the_only_host_that_it_begins(
    names: tuple[str, ...], hosts: tuple[str, ...]
) -> None:
    assert full_names(names) == dict(zip(names, hosts, strict=True))
