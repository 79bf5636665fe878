# The environment's own Python comes first: if it works, it is kept, whatever else there is. A
# Python that the user named decides alone, and the steps tell whether it made the environment.
folder=$1 token=$2 name=$3 mpi=$4 image=$5 given=$6 libraries=$7 distributions=$8
shift 8
unset PYTHONPATH PYTHONHOME
PATH="$PATH:$PLACES"
mkdir -p -- "$folder" && cd -- "$folder" || exit
for old in .claim-*; do [ "$old" = ".claim-$token" ] || rm -f -- "$old"; done
ln -sn "$name" ".claim-$token" 2> /dev/null
echo "claim $(readlink ".claim-$token")"
names="env/bin/python3 python3 python3.14 python3.13 python3.12 python3.11"
[ -z "$given" ] || names=
for python in "$given" $names; do
  command -v "$python" > /dev/null || continue
  "$python" -IS -c '
import sys
if sys.version_info < (3, 11):
    sys.exit(1)
import os
from importlib.util import find_spec
if not find_spec("venv"):
    sys.exit(2)
libc = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else ""
print("python " + os.path.realpath(sys.executable))
print("version %d.%d" % sys.version_info[:2])
print("abi cp%d%d%s" % (*sys.version_info[:2], sys.abiflags))
print("arch " + os.uname().machine)
print("glibc " + (libc or "").replace("glibc ", ""))
' 2> /dev/null && break
  [ $? = 2 ] && without=" without the module venv" || without=
  echo "seen $python $("$python" --version 2>&1 | sed -n '1s/^Python //p')$without"
done
own=env/bin/python3
[ -z "$given" ] || ! $own -IS -c "" 2> /dev/null || python=$own
if [ "$python" = $own ]; then sed 's/^/done /' $MARKER 2> /dev/null; fi
# a Python that the user named may have all of them
[ -z "$libraries" ] || [ -d "$libraries" ] || "${given:-$python}" -c '
import sys
from importlib import metadata
[metadata.version(name) for name in sys.argv[1:]]
' $distributions 2> /dev/null || echo "lacks libraries"
for program in "$@"; do
  command -v "$program" > /dev/null || echo "missing $program"
done
for program in "$@"; do
  command -v "$program" > /dev/null && continue
  if [ "$(id -u)" = 0 ] || sudo -n true 2> /dev/null; then echo "may install"; fi
  break
done
for manager in apt-get dnf apk pacman zypper; do
  command -v $manager > /dev/null && echo "manager $manager" && break
done
[ -z "$mpi" ] || [ -x "$mpi/bin/mpirun" ] || echo "without mpi"
for engine in podman docker; do
  [ -n "$image" ] && command -v $engine > /dev/null || continue
  $engine info > /dev/null 2>&1 && echo "engine $engine" && break
  echo "engineless $engine"
done
exit 0
