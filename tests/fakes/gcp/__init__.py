"""The test cloud: Google's, strict, on loopback; each instance may be a real host.

    from tests.fakes.gcp import Cloud, Fault, Settings

    with Cloud(hosts=False) as cloud:            # or the fixtures `gcp` and `gcp_hosts`
        os.environ.update(cloud.environ)         # endpoint, project, account, CHECKIP
        ...

It is used as the test cloud of Amazon is (`tests.fakes.aws`): `reset`, `set`, `fail`, `mend`,
`calls`, `mutating`, `gaps`, `things`, `strangers`, `end`, `console`, `running`, `peer`.
An action is a call's name in Google's description, such as `instances.bulkInsert`.

Every request and every answer is checked against that description, and a call without a behaviour
here is answered with 501 and fails the test.
"""

from tests.fakes.gcp.cloud import Cloud
from tests.fakes.gcp.values import Call, Fault, Settings, Thing

__all__ = ["Call", "Cloud", "Fault", "Settings", "Thing"]
