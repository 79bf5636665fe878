# Check that the installed modules load; the threads of OpenBLAS would only take time.
packages=$(env/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
rm -rf "$packages"/cluster
env/bin/python3 -IS -m zipfile -e "$new"/*.whl "$packages"
{setting}OPENBLAS_NUM_THREADS=1 env/bin/python3 -P -c '
import cluster.agent.__main__, cluster.agent.facts, cluster.measure.main, mpi4py, numpy
mpi4py.rc.initialize = False
from mpi4py import MPI
print(MPI.Get_library_version().strip("\0"))'
