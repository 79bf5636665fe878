"""The test cloud: Amazon's, strict, on loopback; each instance may be a real host.

    from tests.fakes.aws import Cloud, Fault, Settings

    with Cloud(hosts=False) as cloud:            # or the fixtures `aws` and `aws_hosts`
        os.environ.update(cloud.environ)         # AWS_ENDPOINT_URL, keys, region, CHECKIP
        ...

What a `Cloud` has:

    url, environ        where it listens; what a client's environment needs, all of it:
                        AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
                        AWS_DEFAULT_REGION, AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE (none),
                        AWS_EC2_METADATA_DISABLED, and
                        CLUSTER_CHECKIP = {url}/checkip, which answers with the caller's address as
                        the hosts see it, one line of text, as https://checkip.amazonaws.com does
    caller              that address
    reset(Settings())   everything is gone (hosts too); there are default VPCs and the stranger's
    set(pending=3.0)    change settings from now on
    fail(Fault(...))    harm calls; `mend()` ends all faults
    calls("RunInstances")   the calls that came, all without a word; `mutating()` those that change
    gaps                what the cloud does not know (answered with HTTP 501 EmulatorGap); the
                        fixtures fail the test if there are any
    things()            all that exists, in every region: a frozenset of `Thing`, terminated
                        instances left out; `things(foreign=False)` without the stranger's
    user(name, policy)  a key for a user with an IAM policy document: gives the environment to use;
                        with `account=OTHER_ACCOUNT` it is the user of another account
    permissions.add_role(name, policy)  a role that a profile may name in `role_arn`: gives its ARN
    end(instance_id)    the instance ends as if Amazon had reclaimed it
    console(instance_id), running(instance_id)  what its host said; whether its host lives

Images: SSM parameters
    /aws/service/canonical/ubuntu/server/{22.04,24.04}/stable/current/{amd64,arm64}/hvm/ebs-gp{2,3}/ami-id
    /aws/service/deeplearning/ami/{x86_64,arm64}/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id
    /aws/service/deeplearning/ami/x86_64/oss-nvidia-driver-gpu-pytorch-2.{9,10,12}-ubuntu-24.04/latest/ami-id
are owned by 099720109477 (Canonical) and by `amazon`; their user is `ubuntu`.

What moto does faithfully is left to moto, and `actions.txt` lists every action and parameter that
may be used.
"""

from tests.fakes.aws.cloud import Cloud
from tests.fakes.aws.values import Call, Fault, Settings, Thing

__all__ = ["Call", "Cloud", "Fault", "Settings", "Thing"]
