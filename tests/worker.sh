#!/bin/sh
# Runs one worker of the suite as a machine of its own: its network, mounts, processes, IPC and
# temporary files are its own, so two workers never meet in a port, an address range, a device, a
# process list or a file. When it ends, or is killed at any moment, the kernel ends all of it.
# Where namespaces are not permitted it just runs. Usage: worker.sh PYTHON [WORD...]
# CLUSTER_TESTS_NETWORK=shared leaves it the network of this machine, and with it the package index.
set -eu
root=$(cd -- "$(dirname -- "$0")/.." && pwd)

keep() { mkdir -p "$2" && mount --rbind "$1" "$2"; }

begin_network() {
  mkdir -p /run/cgroup
  mount --rbind /sys/fs/cgroup /run/cgroup
  mount -t sysfs sysfs /sys # shows the devices of this network
  mount --move /run/cgroup /sys/fs/cgroup
  ip link add dev host0 type veth peer name host1 # MPI does not take loopback for a network
  ip address add 192.0.2.1/24 dev host0
  for device in lo host0 host1; do ip link set dev $device up; done
  export CLUSTER_TESTS_NETWORK=own
}

as_a_machine() { # FOLDER PYTHON [WORD...]; the first process of new namespaces
  own=$1
  shift
  [ "${CLUSTER_TESTS_NETWORK-}" = shared ] || begin_network
  # In memory, as thousands of hosts' files come and go; a worker's take a few hundred MB. The size is
  # for files with holes, whose length is checked against the free space.
  mount -t tmpfs -o size=64g tmpfs "$own"
  for folder in "$root" "$root/../shared"; do # they stay where they are
    case $folder in /tmp/*) [ ! -d "$folder" ] || keep "$folder" "$own${folder#/tmp}" ;; esac
  done
  mount --rbind "$own" /tmp
  mount -t tmpfs tmpfs /run
  mount -t tmpfs tmpfs /dev/shm
  # A host is logged in to as this user, whose own start files, such as `pyenv init`, are no part of
  # it. Bash reads them for each command over SSH, and there are thousands.
  login=$(getent passwd "$(id -u)" | cut -d: -f6)
  : > /run/empty
  for file in "$login/.bashrc" "$login/.bash_profile" "$login/.profile"; do
    [ ! -e "$file" ] || mount --bind /run/empty "$file"
  done
  "$@" # not exec: this shell reaps the orphans of the tests
  exit $?
}

if [ "${1-}" = --inside ]; then
  shift
  as_a_machine "$@"
fi
processes="unshare --pid --fork --kill-child --mount-proc"
if [ "$(id -u)" != 0 ]; then
  as_user="$processes --user --map-current-user"
  if $as_user true 2> /dev/null; then exec $as_user "$@"; fi
elif $processes --net --ipc true 2> /dev/null; then
  [ "${CLUSTER_TESTS_NETWORK-}" = shared ] || processes="$processes --net"
  own=$(mktemp -d /tmp/cluster-tests-XXXXXX)
  chmod 1777 "$own"
  echo "${CLUSTER_TESTS-}" > "$own/run"
  trap 'rm -rf "$own"' EXIT
  $processes --ipc sh "$0" --inside "$own" "$@"
  exit $?
fi
exec "$@"
