#!/bin/bash
# Written by cluster: the job {session}. Its exit status appears in the file "status".
cd -- {folder} || exit
runner= asked=
trap 'asked=1; [ -z "$runner" ] || kill -TERM "$runner" 2> /dev/null' TERM INT HUP
echo $$ > pid.part && mv pid.part pid
unset {forget}
for name in {batch_systems}; do [ "$name" = SLURM_CONF ] || unset "$name"; done
export HOME="${{HOME:-$(cd ~ && pwd)}}"
{exports}
if [ -e scratch ]; then
  for name in {scratch_variables}; do export "$name=${{!name:-{scratch}}}"; done
fi
exec 3> >(tee -i stdout) && out=$!
exec 4> >(tee -i stderr >&2) && err=$!
python3 {agent} run {seconds} \
  {command} \
  < /dev/null >&3 2>&4 3>&- 4>&- &
runner=$!
[ -z "$asked" ] || kill -TERM "$runner" 2> /dev/null
exec 3>&- 4>&-
status=
while [ -z "$status" ] || kill -0 "$runner" 2> /dev/null; do wait "$runner"; status=$?; done
wait "$out" "$err"
[ ! -e scratch ] || rm -rf -- {scratch}
echo "[cluster] {session} ended with exit status $status."
echo "$status" > status.part && mv status.part status
exit "$status"
