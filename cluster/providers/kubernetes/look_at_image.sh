# $1 are programs, $2 Pythons of which one is enough, $3 its module, $4 what it has to be. Prints
# what of that the image lacks.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
for program in $1; do command -v "$program" > /dev/null || lacks="$lacks, $program"; done
for python in $2 ""; do
  "$python" -IS -c 'import sys; from importlib.util import find_spec
sys.exit(sys.version_info < (3, 11) or not find_spec(sys.argv[1]))' "$3" 2> /dev/null && break
done
[ -n "$python" ] || lacks="$lacks, $4; its python3 is $(python3 -V 2> /dev/null || echo none)"
echo "lacks: ${lacks#, }"
