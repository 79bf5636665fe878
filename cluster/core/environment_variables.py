"""The environment variables that a user may set: the default of each, and what it does."""

VARIABLES = {
    "CLUSTER_RUNS": ("`runs` in the current folder", "Folder of all runs."),
    "CLUSTER_STATE": (
        "`$XDG_STATE_HOME/cluster`, else `~/.local/state/cluster`",
        "Folder of the journals, keys and lab hosts of your clusters.",
    ),
    "CLUSTER_CACHE": (
        "`$XDG_CACHE_HOME/cluster`, else `~/.cache/cluster`",
        "Folder of downloaded wheels and of fonts for plots.",
    ),
    "CLUSTER_PLUGINS": (
        "none",
        "Folder of your own benchmarks, providers, starters, parsers and reports.",
    ),
    "CLUSTER_CHECKIP": (
        "`https://checkip.amazonaws.com`",
        "Address of a service that answers with the public address of this machine.",
    ),
    "CLUSTER_LATE": (
        "`30`",
        "Seconds that `down` and `gc` look again: a cloud lists a new resource late.",
    ),
    "XDG_STATE_HOME": (
        "`~/.local/state`",
        "Parent of the state folder, if `CLUSTER_STATE` is not set.",
    ),
    "XDG_CACHE_HOME": ("`~/.cache`", "Parent of the cache folder, if `CLUSTER_CACHE` is not set."),
    "CLUSTER_LAUNCHES": (
        "3 for `p2p` on one host, else 1",
        "How often `cluster bench` launches a benchmark without `--launches`.",
    ),
    "CLUSTER_LOG": (
        "none",
        "File to which each command appends what it does: the commands on hosts, the journal.",
    ),
    "CLUSTER_PYTHON": (
        "the Python that printed the script",
        "In a batch script of `cluster more script`: the Python with cluster, on every host.",
    ),
    "CLUSTER_HOSTFILE": (
        "none",
        "In a batch script, outside of Slurm, PBS and LSF: a file with a host per line.",
    ),
    "NO_COLOR": ("none", "Any value turns colours off."),
    "GITHUB_ACTIONS, GITHUB_STEP_SUMMARY": (
        "set by GitHub Actions",
        "With `--github`: whether this is a workflow, and the file of the step's summary.",
    ),
    "AWS_PROFILE, AWS_DEFAULT_REGION, AWS_ACCESS_KEY_ID, ...": (
        "what `aws configure` wrote",
        "Credentials and region on Amazon's cloud, as boto3 reads them.",
    ),
    "AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_S3": (
        "Amazon's own",
        "Address of an S3-compatible object store, for `push` and `runs --from`.",
    ),
    "GOOGLE_CLOUD_PROJECT, GOOGLE_APPLICATION_CREDENTIALS": (
        "what `gcloud` wrote",
        "The project that pays, and its credentials, on Google's cloud.",
    ),
    "CLOUDSDK_CONFIG, CLOUDSDK_CORE_PROJECT, CLOUDSDK_COMPUTE_ZONE, ...": (
        "what `gcloud config` says",
        "Settings of `gcloud`, which count here as they do there.",
    ),
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE, ..._CLOUDBILLING, ..._ORGPOLICY": (
        "Google's own",
        "Addresses of Compute Engine, of the price list and of organisation policies.",
    ),
}
