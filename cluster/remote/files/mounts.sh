# What mount.sh and unmount.sh begin with.
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin"
root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }
device() { awk -v folder="$1" '$2 == folder { d = $1 } END { print d }' /proc/self/mounts; }
fail() { echo "$*" >&2; exit 1; }
