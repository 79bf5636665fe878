# $1 our folder on the host
# Every process that was started through our sshd has CLUSTER_FOLDER in its environment.
cd -- "$1/ssh" 2> /dev/null || exit 0
pid=$(cat pid 2> /dev/null || :)
if [ -n "$pid" ] && tr '\0' ' ' < "/proc/$pid/cmdline" 2> /dev/null | grep -qF "$PWD/settings"; then
  kill "$pid"
fi
for file in $(grep -lzsxF "CLUSTER_FOLDER=${PWD%/ssh}" /proc/[0-9]*/environ); do
  file=${file%/environ}
  kill -9 "${file#/proc/}" 2> /dev/null || :
done
