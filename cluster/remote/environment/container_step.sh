packages=$(env/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
rm -rf env/image && mkdir env/image && cp -R "$packages/cluster" env/image
{engine} image inspect {image} > /dev/null 2>&1 || {engine} pull -q {image}
printf '%s' {wrapper} > env/bin/{program}
chmod 755 env/bin/{program}
env/bin/{program} python3 -P -c '
import mpi4py, msgspec, numpy, sys
sys.exit(sys.version_info < (3, 11))' || {{ echo {lacks}; exit 1; }}
