#!/bin/bash
# Written by: {command}
# PrologSlurmctld and EpilogSlurmctld of slurm.conf, run by SlurmUser on the host of slurmctld, who
# reaches the nodes by SSH without a password. This Python with cluster is on all of them.
# What gates have drained goes back to work by this script with the word undo.
python="${{CLUSTER_PYTHON:-{python}}}"
export CLUSTER_RUNS="${{CLUSTER_RUNS:-{runs}}}" HOME=~ PATH
mkdir -p "$CLUSTER_RUNS"
[ "$1" = undo ] || exec >> "$CLUSTER_RUNS/gates.log" 2>&1
"$python" -P -m cluster.orchestration.batch.slurm_gate {request} "$@"
[ $? != 100 ] # any other failure is not the fault of the nodes: the job starts
