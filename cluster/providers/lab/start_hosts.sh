# Starts a process for each host; prints its number and its id.
init=$0 name=$1
shift
exec 3<&0
for number; do
  env --default-signal unshare --net --mount --pid --uts --ipc --fork --kill-child \
    sh "$init" "$name" "$number" <&3 3<&- &
  echo "$number $!"
done
