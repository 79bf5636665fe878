"""Names that only the words around them tell: of hosts, users, accounts and what a cloud made.

A name alone may be any word, so each pattern has what programs write before or after it: launchers
and batch systems, MPI and NCCL, Kubernetes, clouds, and tools of InfiniBand.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from cluster.runs.known_words import is_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.runs.known_words import Kind

_HEX = "[0-9a-f]"
_START, _END = r"(?<![^\W_])", r"(?![^\W_])"
# A string of JSON, also in JSON, may hold a line.
_LINE, _LINE_END = r"(?:^|(?<=\"))", r"(?=$|\\{0,3}\")"
_QUOTES = r"\\{0,3}[\"']?"  # JSON in JSON has its quotes escaped
_IS = rf"{_QUOTES}[ \t]{{0,40}}[:=][ \t]{{0,20}}{_QUOTES}"
_HOST = r"(?=[\w.-]{0,80}[A-Za-z])([A-Za-z0-9][\w.-]{0,200})"
_RANGES = r"\[[\d,-]{1,400}\]"  # node[01-16]
_HOSTS = rf"([A-Za-z0-9](?:[\w.:@,-]|{_RANGES}){{0,4000}})"
_USER = r"([A-Za-z_][\w.-]{0,63})"
_STARTER = r"\b(?:srun|salloc|sbatch|mpirun|mpiexec|prun|orterun|flux run|pdsh|clush)\b"
_WORD = r"([a-z][a-z0-9-]{2,60}[a-z0-9])"
_STATE = r"[ \t]+\d+/\d+[ \t]+[A-Z]\w+[ \t]+\d+[ \t(]"  # of a pod, behind its name
_STATES = (
    *("Running", "Pending", "Completed", "Succeeded"),
    *("Error", "Failed", "Crash", "Terminating"),
)


class _Told(NamedTuple):
    """How names are told.

    Its groups are names; if `parts` is given, the names are what it matches in the first group. A
    text that has none of `words` is not searched: most have few of these programs' lines.
    """

    kind: Kind
    pattern: re.Pattern[str]
    parts: re.Pattern[str] | None = None
    words: tuple[str, ...] = ("",)


def _told(
    kind: Kind,
    *texts: str,
    parts: str = "",
    words: tuple[str, ...] = ("",),
    flags: re.RegexFlag = re.MULTILINE,
) -> _Told:
    found = re.compile("|".join(texts), flags)
    return _Told(kind, found, re.compile(parts) if parts else None, words)


def _told_in_any_case(kind: Kind, *texts: str, parts: str = "") -> _Told:
    return _told(kind, *texts, parts=parts, flags=re.MULTILINE | re.IGNORECASE)


_ITEMS = rf"(?:\w[\w.-]*)?(?:{_RANGES}|\w)[\w.-]*"  # of a list of hosts
_HOST_LISTS = (
    _told_in_any_case(
        "host",
        rf"(?:(?:node|host)(?:_?list|s|names)|exclude){_IS}{_HOSTS}",
        parts=_ITEMS,
    ),
    _told_in_any_case(
        "host",
        r"\b(?:hosts|nodes|hostnames|nodenames|hostlist|nodelist)\\{0,3}\"[ \t]{0,9}:"
        r"\s{0,99}\[([^\]\[{}]{1,20000})\]",
        parts=_ITEMS,
    ),
    _told("host", r"\bLSB_\w*HOSTS=[\"']?([\w. -]{1,4000})", parts=_ITEMS),
    _told(
        "host",
        rf"{_STARTER}.{{0,2000}}?[\s\"](?:-H|-w|-x|-host|--hosts?|--nodelist|--exclude)"
        rf"(?:[= ]|\\{{0,3}}\",[ \t]?\\{{0,3}}\"){_QUOTES}{_HOSTS}",
        parts=_ITEMS,
    ),
    _told(
        "host",
        rf"(?:^|[\s\"'])--(?:hosts?|hostlist|nodelist)(?:[= ]|\\{{0,3}}\",[ \t]?\\{{0,3}}\")"
        rf"{_QUOTES}{_HOSTS}",
        parts=_ITEMS,
    ),
    _told("host", rf"\bsalloc: Nodes? {_HOSTS} (?:are|is) ready", parts=_ITEMS),
    _told(
        "host", rf"{_LINE}(?:\w+: )?(?:srun|slurmstepd): (?:\w+: )?{_HOSTS}: tasks?\b", parts=_ITEMS
    ),
)
_TABLES = (
    # squeue, sinfo; PBS; a file of hosts, and /etc/hosts
    _told(
        "host",
        rf"{_LINE}\s*\d+\s+\S+\s+\S+\s+\S+\s+[A-Z]{{1,2}}\s+[\d:-]+\s+\d+\s+{_HOSTS}\s*{_LINE_END}",
        parts=_ITEMS,
    ),
    _told(
        "host",
        rf"\s(?:idle|alloc|mix|drng|drain|down|comp)\S?\s+{_HOSTS}[ \t]*{_LINE_END}",
        parts=_ITEMS,
    ),
    _told("host", r"\bexec_v?host\w*\s*=\s*([\w.:/*+ -]{1,4000})", parts=r"[A-Za-z][\w.-]*(?=/)"),
    _told("host", rf"{_LINE}{_HOST} slots=\d"),
    _told(
        "host",
        rf"{_LINE}\s*(?:\d{{1,3}}\.){{3}}\d{{1,3}}[ \t]+([A-Za-z][\w. \t-]{{1,400}}){_LINE_END}",
        parts=_ITEMS,
    ),
)
_HOST_NAMES = (
    _told("host", rf"(?<![\w.-]){_HOST}:\d+:\d+ \[\d+\]"),  # NCCL, also behind a launcher's prefix
    # Open MPI, UCX
    _told("host", rf"\[{_HOST}:\d[ :.\d]*\](?!:)", rf"\[{_HOST}\]\[\[\d+,\d+\],"),
    _told("host", rf"\[{_HOST}\]:\d{{2,5}}\b", rf"\baddress of \({_HOST}, \d"),  # PyTorch
    _told("host", rf"(?<![\w.-]){_HOST} \((?:\d{{1,3}}\.){{3}}\d{{1,3}}\)"),  # ping, traceroute
    _told("host", rf"{_LINE}{_HOST}\r?\nDevice 0: "),  # nvbandwidth
    _told("host", rf"\bfrom {_HOST} to: {_HOST}"),
    _told("host", rf"{_LINE}\s*#?\s*(?:\[\d+\]\s*)?Rank:?\s+\d+\b.{{0,80}}?\bon\s+{_HOST}"),
    _told("host", rf"MPI startup\(\):\s+\d+\s+\d+\s+{_HOST}"),
    _told_in_any_case(
        "host",
        rf"(?:host|node)(?:[ _-]?name)?{_IS}{_HOST}",
        rf"{_START}(?:master_addr|topology_addr|rdzv_endpoint|pod_name|pod_namespace|_addr)"
        rf"(?:{_IS}|[ \t]){_HOST}",
        rf"\b(?:(?:running|runs|started) on|(?:connect|connecting|connected) to|on) (?:host|node)"
        rf" {_HOST}",
        rf"\b(?:connect to host|resolve hostname|nodename|accepted connection from) {_HOST}",
    ),
    _told("host", rf"\b(?:STEP|JOB) [\d.+]+ ON {_HOST}"),
    _told("host", rf"\bPermanently added '{_HOST}"),
    _told("host", rf"\bLinux {_HOST} \d+\.\d+\.\d"),
    _told("host", rf"\bAF_INET6? to {_HOST} \("),  # netperf
    _told("host", rf"\w@{_HOST}", rf"://(?:[^\s/@]{{1,200}}@)?{_HOST}"),
    _told(
        "host",
        rf"\b(?:SLURM_CLUSTER_NAME|ClusterName|NCCL_HOSTID|NCCL_COMM_ID|ds=nocloud\S*;h)={_HOST}",
        rf"\bip=[\d.]*:[\d.]*:[\d.]*:[\d.]*:{_HOST}:",  # on the line of the kernel
        rf"\bPBS_JOBID=\d+(?:\[\d*\])?\.{_HOST}",
        rf"\bdefault_realm{_IS}{_HOST}",
        rf"\bSwitchName={_HOST}",
        rf"{_LINE}{_HOST}\.[ \t]+\d+[ \t]+IN[ \t]",  # dig
        words=(
            *("CLUSTER_NAME=", "ClusterName=", "NCCL_", "ds=", "ip=", "PBS_JOBID", "default_realm"),
            *("SwitchName=", " IN ", "\tIN\t"),
        ),
    ),
    # syslog, Ansible
    _told(
        "host",
        rf"{_LINE}(?:[A-Z][a-z]{{2}} [ \d]\d [\d:]{{8}}|\d{{4}}-\d\d-\d\dT[\d:.]+(?:Z|[+-][\d:]+))"
        rf" {_HOST} (?:kernel|[\w./()-]+\[\d+\]): ",
        rf"{_LINE}(?:ok|changed|failed|fatal|skipping|unreachable): \[{_HOST}\]",
        rf"{_LINE}{_HOST}(?: +: ok=\d| \| (?:SUCCESS|CHANGED|FAILED|UNREACHABLE))",
        words=(" kernel: ", "]: ", ": [", " : ok=", " | "),
    ),
    # What is mounted, and domains that names are searched in.
    _told(
        "host",
        rf"{_LINE}{_HOST}:/\S* on /",
        rf"{_LINE}//{_HOST}/\S+ on /",
        rf"\bcifs .{{0,200}}?domain={_HOST}",
        words=(" on /", "cifs "),
    ),
    _told(
        "host",
        rf"{_LINE}(?:search|domain)((?:[ \t]+(?:[a-z0-9-]+\.)+[a-z]{{2,}})+)[ \t]*{_LINE_END}",
        parts=r"\S+",
        words=("search", "domain"),
    ),
    _told(
        "host",
        rf"\bRun by \S+ on {_HOST}",
        rf"\binstance=\\{{0,3}}\"{_HOST}:\d",
        words=("Run by ", "instance="),
    ),
    # Kubernetes, and nodes that Google and Azure made for it.
    _told(
        "host",
        r"\b(?:pods?|deployment(?:\.apps)?|statefulset(?:\.apps)?|daemonset(?:\.apps)?|job(?:\.batch)?"
        r"|mpijobs?(?:\.kubeflow\.org)?|services?)/([a-z0-9][a-z0-9.-]{1,200}[a-z0-9])",
        r"\bpods?[ \t]+\\{0,3}[\"']([a-z0-9][a-z0-9.-]{1,200}[a-z0-9])",
        r"(?:\b|_)pod\\{0,3}\"?[:=][ \t]?\\{0,3}\"([a-z0-9][a-z0-9.-]{1,200}[a-z0-9])",
        rf"\bsystem:node:{_HOST}",
        rf"{_LINE}Name:[ \t]+{_HOST}[ \t]*\n(?:Namespace|Priority):",
        words=("pod", "deployment", "set/", "set.apps/", "job", "service", "system:node:", "Name:"),
    ),
    # kubectl get pods -o wide
    _told("host", rf"{_LINE}(?:[a-z0-9-]+[ \t]+)?([a-z0-9][a-z0-9.-]*){_STATE}", words=_STATES),
    _told(
        "host",
        rf"{_STATE}.{{0,60}}?[\d.]+[ \t]+{_HOST}(?:[ \t]+<none>|{_LINE_END})",
        words=_STATES,
    ),
    _told("host", rf"{_START}((?:[a-z0-9-]{{1,63}}\.){{1,3}}svc)(?![\w-])", words=(".svc",)),
    _told(
        "host",
        r"(?<![\w-])([a-z0-9][a-z0-9-]{0,60}-(?:worker|launcher|master)-(?:\d+|[a-z0-9]{5}))"
        r"(?![\w-])",
        rf"(?<![\w-])(gke-[a-z0-9-]{{3,80}}-{_HEX}{{8}}-[a-z0-9]{{4}})(?![\w-])",
        r"(?<![\w-])(aks-[a-z0-9]{1,20}-\d{8}-vmss[0-9a-z]{6})(?![\w-])",
        words=("worker", "launcher", "master", "gke-", "aks-"),
    ),
    # LSF; ibnetdiscover, ibhosts
    _told(
        "host",
        r"\b(?:Started (?:\d+ Task\(s\) )?on(?: Host\(s\))?|Submitted from host) (<[^\n]{1,4000}>)",
        parts=r"(?<=[<*])[A-Za-z][\w.-]*",
    ),
    _told("host", rf"\bCA: {_HOST} \w", rf"\bSysName:\s*{_HOST}"),
    _told(
        "host",
        rf"[\"'](?:MF0;)?{_HOST}(?: (?:mlx\w*|HCA-\d+|ib\w*)|:\w+/\w+)\\{{0,3}}[\"']",
        rf"\bnode_?desc(?:ription)?[ .:=]+{_HOST}",
        rf"# \\{{0,3}}\"{_HOST}\\{{0,3}}\" (?:base|enhanced|lid)\b",
    ),
)
_USERS = (
    _told("user", rf"{_LINE}[-dlbcps][-rwxsStT]{{9}}[.+@]?\s+\d+\s+{_USER}\s+{_USER}\s"),  # ls -l
    _told("user", rf"{_LINE}{_USER}\s+\d+\s+\d+\.\d\s+\d+\.\d\s"),  # ps aux
    _told("user", rf"(?<![\w~])~{_USER}/"),
    _told(
        "user", rf"{_LINE}\s*\d+\s+\S+\s+\S+\s+{_USER}\s+[A-Z]{{1,2}}\s+[\d:-]+\s+\d+\s"
    ),  # squeue
    _told("user", rf"://{_USER}(?::[^\s/@]{{0,400}})?@"),
    _told("user", rf"\b(?:UserId|GroupId|User|Group)={_USER}\(\d+\)"),
    _told_in_any_case(
        "user", rf"{_START}(?:user|user_?name|login|logname|owner|sudo_user|job_user){_IS}{_USER}"
    ),
    _told(
        "user",
        rf"\b[Rr]un by {_USER} on ",
        rf"\b[Ss]ubmitted by {_USER}",
        rf"\b[Ll]ogged in as:? {_USER}(?: \({_USER}\))?",
        rf"\bsu -l? ?{_USER}",
        rf"\bsudo (?:-\w )*-u {_USER}",
        rf"\bssh [^|\n]{{0,200}}?-l ?{_USER}",
        rf"\b(?:for|invalid) user {_USER} ",
        rf"\bAccepted \w+ for {_USER} from\b",
        rf"{_LINE}[ \t]*User {_USER}{_LINE_END}",  # a file of ssh
        rf"\bSLURM_JOB_GROUP={_USER}",
        rf"\beuser = {_USER}",
        rf"\bUser <{_USER}>",
        words=(
            *(" by ", "ogged in as", "su -", "sudo ", "ssh ", "user ", "Accepted ", "User "),
            *("euser = ", "JOB_GROUP="),
        ),
    ),
    _told("user", r"\b[ug]id=([\w.,=() -]{1,2000})", parts=r"(?<=\()[A-Za-z_][\w.-]*(?=\))"),
)
_ACCOUNTS = (
    _told_in_any_case("account", rf"{_START}(?:google_cloud_project|gcloud_project){_IS}{_WORD}"),
    _told_in_any_case(
        "account", rf"{_START}(?:project(?:[_-]?id)?)(?:{_IS}|(?<=--project)[ \t]){_WORD}"
    ),
    _told(
        "account",
        rf"\bset project {_WORD}",
        rf"(?:\bgcr\.io|pkg\.dev)/{_WORD}",
        words=("set project", "gcr.io/", "pkg.dev/"),
    ),
    _told("account", r"\bgit@[\w.-]{1,200}:([\w.-]+/[\w.-]+)"),
    _told_in_any_case(
        "account",
        rf"{_START}namespace(?:{_IS}|s/|(?<=--namespace)[ \t]){_WORD}",
    ),
    _told(
        "account",
        rf"\bkubectl [^\n]{{0,200}}?-n[ =]?{_WORD}",
        rf"\bserviceaccounts?:{_WORD}:{_WORD}",
        rf"{_LINE}{_WORD}[ \t]+[a-z0-9][a-z0-9.-]*{_STATE}",
        words=("kubectl ", "serviceaccount", *_STATES),
    ),
    # Owners of images, repositories and models.
    _told(
        "account",
        r"\b(?:docker\.io|ghcr\.io|quay\.io|nvcr\.io|github\.com|huggingface\.co|public\.ecr\.aws"
        r"|registry\.gitlab\.com|(?:gitlab|harbor)[\w.-]*\.[a-z]+)[/:]([A-Za-z0-9][\w.-]*)/",
        rf"\b[Ii]mage{_IS}(?:docker://)?(?:[\w-]+\.[\w.-]+(?::\d+)?/)?([a-z0-9][\w.-]*)/[\w.-]+",
        r"\b(?:docker|podman|nerdctl) (?:pull|run|push|tag) [^\n]{0,300}? ([a-z0-9][\w-]*)/[\w.-]+",
        words=(
            *("docker", "podman", "nerdctl", "mage", "ghcr.io", "quay.io", "nvcr.io", "github.com"),
            *("huggingface.co", "ecr.aws", "gitlab", "harbor"),
        ),
    ),
    _told(
        "account",
        r"(?<![\w./-])[\w-]+\.[\w.-]+:\d+/([A-Za-z0-9][\w.-]*)/[\w.-]+",
    ),
    _told(
        "account",
        r"\bProject <([\w.-]+)>",
        rf"{_LINE}#(?:SBATCH|PBS) +-A[ =]?{_USER}",
        words=("Project <", "#SBATCH", "#PBS"),
    ),
    _told(  # docker ps
        "account",
        rf"{_LINE}{_HEX}{{12}}[ \t]+(?:[\w.-]+(?::\d+)?/)?([a-z0-9][\w.-]*)/[\w./:@-]+[ \t]+\\*\"",
        words=("CONTAINER ID",),
    ),
    _told("account", r"\bproject(?:s/|_?[Nn]umber\W{1,6})(\d{6,20})"),
    _told("account", r"\bwandb\.ai/([\w-]{2,64})/([\w-]{2,128})"),
    _told(
        "account",
        rf"(?:\bAccount|_ACCOUNT|--account)[= ]{_USER}",
        rf"\"account(?:=|{_IS}){_USER}",
    ),
)
_IDS = (
    _told(
        "id",
        rf"(?:\b(?:JobName|SLURM_JOB_NAME|Job_Name)|--job-name)(?: = |[= ]){_USER}",
        rf"{_LINE}#SBATCH +-J[ =]?{_USER}",
        rf"{_LINE}#PBS +-N +{_USER}",
        rf"\bJob Name <{_USER}>",
        rf"\broot=(?:PART)?LABEL={_USER}",
        rf"\bAsset Tag{_IS}{_USER}",
        words=(
            *("JobName=", "JOB_NAME=", "Job_Name", "--job-name", "#SBATCH", "#PBS", "Job Name <"),
            *("LABEL=", "Asset Tag"),
        ),
    ),
    _told(
        "id",
        r"\barn:aws[\w-]*:(?!s3:)[\w-]*:[\w-]*:\d*:([\w+=,.@/:-]{1,1000})",
        parts=r"[^/:]{2,}",
    ),
    _told(
        "id", r"(?:\barn:aws[\w-]*:s3:::|\b(?:s3|gs|gcs|abfss?|hdfs)://)([\w.-]+(?:/[\w.@+=-]+)*)"
    ),
    _told("id", r"(?:\barn:aws[\w-]*:s3:::|\b(?:s3|gs|gcs|abfss?|hdfs)://)([\w.-]+)"),
    _told("id", r"\b(ocid1\.[\w.-]{10,255})", r"\b(nvme-\w+_[A-Z0-9]{8,30})\b"),
    _told(
        "id",
        r"\b(?:instances|networks|subnetworks|disks|clusters|nodePools|serviceAccounts|reservations"
        r"|resourcePolicies|resourceGroups|virtualMachines)/([A-Za-z][\w.-]{2,62})",
    ),
    # Containers, pods and machines.
    _told(
        "id", rf"{_LINE}({_HEX}{{12}})[ \t]+[\w./:@-]+[ \t]+\\{{0,3}}\"", words=("CONTAINER ID",)
    ),
    _told_in_any_case("id", rf"\bresource_?group(?:_?name)?{_IS}{_USER}"),
    _told(
        "id", rf"(?:docker|containerd|cri-o|crio|libpod|podman|kubepods)\S{{1,200}}?({_HEX}{{64}})"
    ),
    _told("id", rf"\b(pod{_HEX}{{8}}(?:[_-]{_HEX}{{4}}){{3}}[_-]{_HEX}{{12}})"),
    _told_in_any_case(
        "id", rf"(?:machine[-_ ]?id|uuid)(?:{_IS}|[ \t]+)((?:GPU-)?{_HEX}{{32}}){_END}"
    ),
    _told_in_any_case(
        "id",
        rf"{_START}(?:serial(?:[ _-]?(?:number|no))?|p?s/?n){_IS}([A-Z0-9][A-Z0-9-]{{5,40}}){_END}",
    ),
    # Public keys of SSH, and their fingerprints.
    _told("id", r"\b(AAAA[A-Za-z0-9+/]{40,1000}={0,2})", r"\b(SHA256:[A-Za-z0-9+/]{43})"),
)
_PATHS = (
    # What is mounted.
    _told("path", rf"{_LINE}[\w.@-]+:(/\S+) on /", rf"{_LINE}\d[\d.]+(?:@\w+)?:(/\S+)"),
    _told("id", rf"{_LINE}//[\w.-]+/(\S+) on /", words=(" on /",)),
    _told("path", r"\b(?:HOME|PWD|SCRATCH|TMPDIR|WORKDIR)=[\"']?(/[\w.@+-]+(?:/[\w.@+-]+)*)"),
)
TOLD = (*_HOST_LISTS, *_TABLES, *_HOST_NAMES, *_USERS, *_ACCOUNTS, *_IDS, *_PATHS)


def told_names(text: str) -> Iterator[tuple[Kind, str]]:
    """Find names by the words around them.

    Yields:
        Each name with its kind; a name may come more than once.

    """
    for kind, pattern, parts, words in TOLD:
        for match in pattern.finditer(text) if any(word in text for word in words) else ():
            groups = (group for group in match.groups() if group)
            names = groups if parts is None else parts.findall(next(groups, ""))
            yield from ((kind, name.rstrip(".-")) for name in names if is_name(kind, name))
