# Written by: {command}
# Every host must see this Python and this folder of runs at the same paths.
python="${{CLUSTER_PYTHON:-{python}}}"
export CLUSTER_RUNS="${{CLUSTER_RUNS:-{runs}}}"
request={request}

job=
trap '[ -z "$job" ] || kill -TERM "$job" 2> /dev/null' TERM INT
folder=$("$python" -P -m {module} begin "$request") || exit
bash "$folder/job.sh" & job=$!
while kill -0 "$job" 2> /dev/null; do wait "$job"; done
"$python" -P -m {module} end "$folder"
