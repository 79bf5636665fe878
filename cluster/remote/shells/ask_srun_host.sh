# The host where srun is may have no Python, and may be old: bash and coreutils are enough.
# $1 a host, $2 a port; seconds: $3 between two questions, $4 for an answer, $5 of silence.
# It ends with its standard input, as when this process or the connection has ended.
read -r place _ < <(getent ahosts "$1") || exit
port=$2
answers() {
  said=$(LC_ALL=C timeout "$1" bash -c ': <> "/dev/tcp/$0/$1"' "$place" "$port" 2>&1) ||
    [[ $said == *refused* ]]
}
answers "$4" || exit
while read -r -t "$3"; [ $? -gt 128 ]; do
  SECONDS=0
  while left=$(($5 - SECONDS)); [ "$left" -gt 0 ]; do # timeout takes 0 for no limit
    answers $((left < $4 ? left : $4)) && continue 2
    sleep 0.2
  done
  echo silent
  exit
done
