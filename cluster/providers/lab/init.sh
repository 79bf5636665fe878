# One script for all hosts and the switch; $1 is the cluster, $2 the number. The process that starts
# it holds the other end of its standard input: if that process dies, the hosts exit.
set -eu
echo "$2 made"
cd "${0%/*}"
if [ "$2" = switch ]; then exec sleep infinity < /dev/null > /dev/null 2>&1; fi
cd "hosts/$2"
trap 'echo "$2 failed"' EXIT
exec 2> log
cat > /dev/null
[ -e ../../linked ]
echo "$1-$2" > /proc/sys/kernel/hostname
ip -batch links
tc -batch shape
eval "$MOUNTS"
/usr/sbin/sshd -t -f /etc/ssh/cluster_config
[ ! -x "$SLURM" ] || "$SLURM" "$2" > /var/log/cluster-slurm.log
[ ! -x "$IDLE" ] || setsid "$IDLE" < /dev/null > /var/log/cluster-idle.log 2>&1 &
trap - EXIT
echo "$2 up"
exec /usr/sbin/sshd -D -e -f /etc/ssh/cluster_config < /dev/null > /var/log/cluster-sshd.log 2>&1
