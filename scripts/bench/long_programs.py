"""Outputs of solvers, profilers and training programs, and of what ends a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

RANKS = 64
ROUTINES = ("Bcast", "Barrier", "Reduce", "Allreduce", "Allgather", "Isend", "Irecv", "Waitall")
DISPLAYS = 100
HPCG = (  # sections of its report, each with the names of its figures
    ("Global Problem Dimensions", ("Global nx", "Global ny", "Global nz")),
    ("Processor Dimensions", ("npx", "npy", "npz")),
    ("Local Domain Dimensions", ("nx", "ny", "Lower ipz", "Upper ipz", "nz")),
    ("Setup Information", ("Setup Time",)),
    (
        "Linear System Information",
        ("Number of Equations", "Number of Nonzero Terms"),
    ),
    ("Multigrid Information", ("Number of coarse grid levels",)),
    (
        "Memory Use Information",
        (
            *("Total memory used for data (Gbytes)", "Bytes per equation (Total memory / Number)"),
            *("Memory used for OptimizeProblem data (Gbytes)", "Memory used for linear system"),
        ),
    ),
    (
        "Benchmark Time Summary",
        ("Optimization phase", "DDOT", "WAXPBY", "SpMV", "MG", "Total"),
    ),
    (
        "Floating Point Operations Summary",
        ("Raw DDOT", "Raw WAXPBY", "Raw SpMV", "Raw MG", "Total", "Total with convergence"),
    ),
    ("GB/s Summary", ("Raw Read B/W", "Raw Write B/W", "Raw Total B/W", "Total with overhead")),
    (
        "GFLOP/s Summary",
        ("Raw DDOT", "Raw WAXPBY", "Raw SpMV", "Raw MG", "Raw Total", "Total with overhead"),
    ),
    ("User Optimization Overheads", ("Optimization phase time (sec)",)),
    (
        "DDOT Timing Variations",
        ("Min DDOT MPI_Allreduce time", "Max DDOT MPI_Allreduce time"),
    ),
)
HPCC = (  # lines of its summary; those that it measures vary
    *(
        "VersionMajor=1",
        "VersionMinor=5",
        "VersionMicro=0",
        "VersionRelease=f",
        "LANG=C",
        "Success=1",
    ),
    *("sizeof_char=1", "sizeof_short=2", "sizeof_int=4", "sizeof_long=8", "sizeof_float=4"),
    *("CommWorldProcs=64", "MPI_Wtick=1.0e-06", "HPL_Tflops", "HPL_time", "HPL_eps=1.11022e-16"),
    *("HPL_RnormI", "HPL_Anorm1", "HPL_N=100000", "HPL_NB=192", "HPL_nprow=8", "HPL_npcol=8"),
    *("HPL_depth=1", "HPL_nbdiv=2", "HPL_nbmin=4", "HPL_cpfact=C", "HPL_ctop=1", "HPL_order=R"),
    *("dweps=1.110223e-16", "sweps=5.960464e-08", "HPLMaxProcs=64", "HPLMinProcs=64"),
    *("DGEMM_N=7216", "StarDGEMM_Gflops", "SingleDGEMM_Gflops", "PTRANS_GBs", "PTRANS_time"),
    *("PTRANS_residual=0", "PTRANS_n=50000", "PTRANS_nb=192", "PTRANS_nprow=8", "PTRANS_npcol=8"),
    *("MPIRandomAccess_LCG_N=8589934592", "MPIRandomAccess_LCG_time", "MPIRandomAccess_LCG_GUPs"),
    *("MPIRandomAccess_N=8589934592", "MPIRandomAccess_time", "MPIRandomAccess_Errors=0"),
    *("MPIRandomAccess_GUPs", "RandomAccess_N=134217728", "StarRandomAccess_GUPs"),
    *("SingleRandomAccess_GUPs", "STREAM_VectorSize=52083333", "STREAM_Threads=1"),
    *("StarSTREAM_Copy", "StarSTREAM_Scale", "StarSTREAM_Add", "StarSTREAM_Triad"),
    *("SingleSTREAM_Copy", "SingleSTREAM_Scale", "SingleSTREAM_Add", "SingleSTREAM_Triad"),
    *("FFT_N=33554432", "StarFFT_Gflops", "SingleFFT_Gflops", "MPIFFT_N=2147483648"),
    *("MPIFFT_Gflops", "MPIFFT_maxErr=2.35e-15", "MPIFFT_Procs=64", "MaxPingPongLatency_usec"),
    *("RandomlyOrderedRingLatency_usec", "MinPingPongBandwidth_GBytes", "M_OPENMP=-1"),
    *("NaturallyOrderedRingBandwidth_GBytes", "RandomlyOrderedRingBandwidth_GBytes"),
    *("MinPingPongLatency_usec", "AvgPingPongLatency_usec", "MaxPingPongBandwidth_GBytes"),
    *("AvgPingPongBandwidth_GBytes", "NaturallyOrderedRingLatency_usec", "FFTEnblk=16", "FFTEnp=8"),
    *("FFTEl2size=1048576", "omp_get_num_threads=0", "omp_get_max_threads=0", "CPS_HPCC_FFT_235"),
)


def hpl(chance: random.Random) -> str:
    """Write one run of HPL over four sizes of the problem and three of the blocks."""
    rule, line = "=" * 80, "-" * 80
    lines = [rule, "HPLinpack 2.3  --  High-Performance Linpack benchmark  --   December 2, 2018"]
    lines.append("Written by A. Petitet and R. Clint Whaley,  Innovative Computing Laboratory, UTK")
    lines += ["Modified by Piotr Luszczek, Innovative Computing Laboratory, UTK", rule, ""]
    lines += ["An explanation of the input/output parameters follows:", ""]
    lines += ["The following parameter values will be used:", ""]
    sizes, blocks = (20_000, 40_000, 60_000, 80_000), (128, 192, 256)
    lines += [
        f"N      :   {'    '.join(map(str, sizes))}",
        f"NB     :     {'  '.join(map(str, blocks))}",
    ]
    lines += ["PMAP   : Row-major process mapping", "P      :       8 ", "Q      :       8 "]
    lines += [
        "PFACT  :   Right ",
        "NBMIN  :       4 ",
        "BCAST  :  1ringM ",
        "DEPTH  :       1 ",
        line,
        "",
    ]
    lines += ["- The matrix A is randomly generated for each test.", ""]
    for n in sizes:
        for nb in blocks:
            rate, work = chance.uniform(1200, 1400), 2 / 3 * n**3 + 1.5 * n**2
            residual = chance.uniform(1e-3, 4e-3)
            lines += [
                rule,
                "T/V                N    NB     P     Q               Time                 Gflops",
                line,
                f"WR11R2R4{n:12}{nb:6}     8     8{work / rate / 1e9:19.2f}{rate:23.4e}",
                "HPL_pdgesv() start time Fri Jan  2 03:04:05 2026",
                *("", "HPL_pdgesv() end time   Fri Jan  2 03:12:39 2026", "", line),
                f"||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   {residual:.8e} ...... PASSED",
            ]
    many = len(sizes) * len(blocks)
    lines += [rule, "", f"Finished {many:6} tests with the following results:"]
    lines.append(f"         {many:6} tests completed and passed residual checks,")
    lines += ["              0 tests completed and failed residual checks,", line, ""]
    return "\n".join([*lines, "End of Tests.", rule, ""])


def hpcg(chance: random.Random) -> str:
    """Write the report of HPCG 3.1."""
    lines = ["HPCG-Benchmark", "version=3.1", "Release date=March 28, 2019", "Machine Summary="]
    lines.append("Machine Summary::Distributed Processes=64")
    lines.append("Machine Summary::Threads per processes=1")
    for title, names in HPCG:
        lines.append(f"{title}=")
        lines += [f"{title}::{name}={chance.uniform(1, 900):.6g}" for name in names]
    rate = chance.uniform(100, 120)
    lines.append("Final Summary=")
    lines.append(f"Final Summary::HPCG result is VALID with a GFLOP/s rating of={rate:.6g}")
    lines.append(f"Final Summary::HPCG 2.4 rating for historical reasons is={rate * 1.02:.6g}")
    return "\n".join([*lines, ""])


def hpcc(chance: random.Random) -> str:
    """Write the summary of HPC Challenge."""
    lines = (line if "=" in line else f"{line}={chance.uniform(0.1, 90):.6g}" for line in HPCC)
    ends = ("Begin of Summary section.", "End of Summary section.", "#" * 72)
    date = "Current time (1767321845) is Fri Jan  2 03:04:05 2026"
    return "\n".join([ends[0], *lines, *ends[1:], "End of HPC Challenge tests.", date, "", ""])


def mpitrace(chance: random.Random) -> str:
    """Write the profile of one rank: routines, sizes of messages, totals."""
    rule, rank = "-" * 71, chance.randrange(RANKS)
    lines = [f"Data for MPI rank {rank} of {RANKS}:", "Times from MPI_Init() to MPI_Finalize()."]
    lines += [rule, "MPI Routine                        #calls     avg. bytes      time(sec)", rule]
    sizes: dict[str, list[tuple[int, float, float]]] = {
        name: [
            (chance.randrange(1000), 8.0 * 4**power, round(chance.uniform(0, 9), 3))
            for power in range(10)
        ]
        for name in ROUTINES
    }
    for name, rows in sizes.items():
        calls, time = sum(row[0] for row in rows), sum(row[2] for row in rows)
        mean = sum(row[0] * row[1] for row in rows) / max(calls, 1)
        lines.append(f"{f'MPI_{name}':<25}{calls:16}{mean:15.1f}{time:15.3f}")
    total = sum(row[2] for rows in sizes.values() for row in rows)
    lines += [rule, f"total communication time = {total:.3f} seconds."]
    lines.append(f"total elapsed time       = {total * 3:.3f} seconds.")
    lines.append(f"user cpu time            = {total * 2:.3f} seconds.")
    lines += [
        "system time              = 0.125 seconds.",
        "max resident set size    = 411.500 MiB.",
    ]
    lines += ["", "-" * 65, "Message size distributions:", ""]
    for name, rows in sizes.items():
        lines.append(f"{f'MPI_{name}':<26}#calls    avg. bytes      time(sec)")
        lines += [f"{calls:32}{size:14.1f}{time:15.3f}" for calls, size, time in rows]
        lines.append("")
    return "\n".join([*lines, "-" * 65, "", ""])


def horovod(chance: random.Random) -> str:
    """Write Horovod's synthetic benchmark with its ten iterations."""
    rate = chance.uniform(200, 240)
    lines = ["Model: resnet50", "Batch size: 32", "Number of GPUs: 64", "Running warmup..."]
    lines.append("Running benchmark...")
    lines += [
        f"Iter #{at}: {rate * chance.uniform(0.99, 1.01):.1f} img/sec per GPU" for at in range(10)
    ]
    lines.append(f"Img/sec per GPU: {rate:.1f} +-{rate / 200:.1f}")
    lines.append(f"Total img/sec on 64 GPU(s): {rate * 64:.1f} +-{rate / 3:.1f}")
    return "\n".join([*lines, ""])


def tf_cnn(chance: random.Random) -> str:
    """Write tf_cnn_benchmarks with a line per ten of a thousand steps."""
    lines = ["TensorFlow:  1.15", "Model:       resnet50", "Dataset:     imagenet (synthetic)"]
    lines += ["Mode:        training", "SingleSess:  False", "Batch size:  256 global"]
    lines += ["             32 per device", "Num batches: 1000", "Num epochs:  0.20"]
    lines += ["Devices:     ['/gpu:0']", "NUMA bind:   False", "Data format: NCHW"]
    lines += ["Optimizer:   sgd", "Variables:   horovod", "=" * 10, "Generating training model"]
    lines += ["Running warm up", "Done warm up", "Step\tImg/sec\ttotal_loss"]
    for step in (1, *range(10, 10 * DISPLAYS + 1, 10)):
        lines.append(
            f"{step}\timages/sec: {chance.uniform(300, 340):.1f} +/- {chance.uniform(0, 1):.1f} "
            f"(jitter = {chance.uniform(0, 9):.1f})\t{chance.uniform(7, 8):.3f}"
        )
    rule = "-" * 64
    return "\n".join(
        [*lines, rule, f"total images/sec: {chance.uniform(2400, 2600):.2f}", rule, ""]
    )


def tables(chance: random.Random) -> str:
    """Write a page with a table of throughput per model and number of GPUs."""
    lines = ["## Throughput", "", "| Model | GPUs | Batch size | Precision | Throughput (tok/s) | "]
    lines[-1] += "Tokens/s/GPU | Speedup | Notes |"
    lines.append("|" + " --- |" * 8)
    for model in ("7B", "13B", "70B"):
        for gpus in (8, 16, 32, 64, 128, 256):
            for precision in ("bf16", "fp8"):
                rate = chance.uniform(1000, 1500)
                lines.append(
                    f"| {model} | {gpus} | {gpus * 4} | {precision} | {rate * gpus:.1f} | "
                    f"{rate:.2f} | {gpus / 8 * chance.uniform(0.8, 1):.2f} | "
                    f"[log](logs/{model}-{gpus}.txt) |"
                )
    return "\n".join([*lines, "", ""])


def job(chance: random.Random) -> str:
    """Write how a job of 64 ranks ended: Slurm's lines, a traceback and mpirun's message."""
    host = chance.randrange(1000)
    lines = [
        f"srun: error: node-{host + rank // 8}: task {rank}: Exited with exit code 1"
        for rank in range(RANKS)
    ]
    lines += ["Traceback (most recent call last):"]
    for frame in range(8):
        lines.append(
            f'  File "/opt/train/engine_{frame}.py", line {chance.randrange(900)}, in step'
        )
        lines.append("    loss = self.model(batch)")
    lines.append("RuntimeError: CUDA error: an illegal memory access was encountered")
    lines += [
        f"slurmstepd: error: *** STEP {chance.randrange(90_000)}.0 ON node-{host} CANCELLED AT "
    ]
    lines[-1] += "2026-01-02T03:04:05 ***"
    lines += ["-" * 74, f"mpirun noticed that process rank {chance.randrange(RANKS)} with PID "]
    lines[-1] += f"{chance.randrange(90_000)} on node node-{host} exited on signal 9 (Killed)."
    return "\n".join([*lines, "-" * 74, ""])


def symptoms(chance: random.Random) -> str:
    """Write the settings of a host, and what MPI and UCX say on it, rank by rank."""
    lines = [
        "kernel.yama.ptrace_scope = 1",
        "net.core.rmem_max = 212992",
        "net.core.wmem_max = 212992",
    ]
    lines += ["net.ipv4.tcp_congestion_control = cubic", "net.core.default_qdisc = fq_codel"]
    lines += [
        "max locked memory           (kbytes, -l) 64",
        "Thread(s) per core:                 2",
    ]
    for rank in range(RANKS):
        who = f"[node-{rank // 8}:{chance.randrange(90_000)}]"
        lines.append(f"{who} Read -1, expected {chance.randrange(1 << 20)}, errno = 1")
        lines.append(
            f"{who} The call to cuIpcOpenMemHandle failed. This is a warning and the program "
        )
        lines[-1] += "will continue."
        lines.append("  cuIpcOpenMemHandle return value:   217")
    return "\n".join([*lines, ""])


PROGRAMS: dict[str, Callable[[random.Random], str]] = {
    "hpl": hpl,
    "hpcg": hpcg,
    "hpcc": hpcc,
    "mpitrace": mpitrace,
    "horovod": horovod,
    "tf_cnn": tf_cnn,
    "tables": tables,
    "job": job,
    "symptoms": symptoms,
}
