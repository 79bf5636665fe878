"""What launchers and batch systems print about a job that failed.

There are no measurements in it. A log with such a line is the log of a failed job, whatever figures
were printed before.
"""

import re
from collections import Counter

from cluster.core.model.logs import Parsed
from cluster.logs.parsers import ResultBuilder, RunParser
from cluster.logs.table import kind_of

_FAILED = re.compile(
    r".*(?:"
    r"\bmpi(?:run|exec)(?:\.\w+)? (?:noticed that|detected that|was unable to)"
    r"|\bprterun (?:noticed that|detected that|was unable to)"
    r"|\bmpi(?:run|exec) has exited due to process"
    r"|MPI_ABORT was invoked|= +BAD TERMINATION OF ONE OF YOUR APPLICATION"
    r"|Primary job  ?terminated normally, but|ORTE was unable to|ORTE has lost communication"
    r"|There are not enough slots available"
    r"|\bsrun: error: |\bslurmstepd: error: |\bCANCELLED AT\b|DUE TO TIME LIMIT"
    r"|=>> PBS: job killed|\bSegmentation fault\b|\bsegmentation violation\b|\bBus error\b"
    r"|\*\*\* Process received signal \*\*\*|\bOut of memory: |\boom-kill\b|\bOOM ?Killed\b"
    r"|: command not found\s*$|error while loading shared libraries: "
    r"|ssh: connect to host \S+ port \d+: |Host key verification failed"
    r"|Permission denied \(publickey|No such file or directory\s*$"
    r"|ModuleNotFoundError: |ImportError: |RuntimeError: |MemoryError\b|ChildFailedError"
    r"|Fatal error in (?:P?MPI_|internal_)|CUDA error: |CUDA out of memory"
    r"|Watchdog caught collective operation timeout|DistBackendError: |HIP error: "
    r"|terminate called after throwing|^\s*(?:Killed|Terminated)(?:: \d+)?\s*$"
    r"|with the EXIT STRING|ORTE daemon has unexpectedly failed"
    r"|[Pp]rocess \d+ exit with status code [1-9]|TERMINATED WITH THE EXIT STRING"
    r"|[Ss]ome NCCL operations have failed or timed out|taking the entire process down"
    r"|\bfailed \(exitcode: -?[1-9]|\bexitcode +: -?[1-9]"
    r"|Horovod has been shut down|\bTERM_[A-Z_]{3,20}: |exceeded its walltime"
    r"|: line \d+: +\d+ (?:Killed|Terminated|Aborted)\b|\(core dumped\)|process killed \(SIG"
    r"|An error occurred in MPI_|MPI_ERRORS_ARE_FATAL|\bcalled MPI_Abort\(|\bOFI poll failed"
    r"|Application aborted|\bsrun: Job step aborted|\bnon-zero (?:exit )?status [1-9]"
    r"|\bexit(?:ed)?(?: with)?(?: exit)? (?:code|status):? (?:13[4-9]|143)\b"
    r"|\bExited with exit code [1-9]|\bNVRM: Xid\b|\bfi_cq_readerr\b|\bUCX +(?:ERROR|FATAL)\b"
    r"|\bCaught signal \d|\bterminated with signal SIG|\bkilled by signal"
    r"|SIGKILL\b.*(?:: 9>|PID \d)"
    r"|\bnccl(?:UnhandledCuda|System|Internal|Remote)Error\b"
    r")"
)
_TRACEBACK = re.compile(r"\s*Traceback \(most recent call last\):\s*$")
_FRAME = re.compile(r'\s+File ".*", line \d+|\s+\[Previous line repeated|\s+[~^]+\s*$')
_RAISED = re.compile(
    r"\s*[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Failure|Expired)\b(?:: |:?$)"
)
_HARMLESS = re.compile(r"\s*Exception ignored in")  # while Python ends
MOST = 20  # lines that are kept


class JobFailures(RunParser):
    """The error messages of mpirun, srun, PBS and others about a job that failed."""

    marks = (
        *("noticed that", "detected that", "was unable to", "exited due", "MPI_ABORT"),
        *("BAD TERMINATION", "Primary job", "has lost communication", "not enough slots"),
        *("srun: error", "slurmstepd", "CANCELLED AT", "TIME LIMIT", "job killed", "egmentation"),
        *("Bus error", "received signal", "Out of memory", "oom-kill", "OOM"),
        *("command not found", "shared libraries", "ssh: connect", "Host key verification"),
        *("Permission denied", "No such file", "ModuleNotFoundError", "ImportError"),
        *("RuntimeError", "MemoryError", "ChildFailedError", "Fatal error in", "CUDA error"),
        *("CUDA out of memory", "Traceback", "terminate called", "core dumped", "Killed"),
        *("EXIT STRING", "ORTE daemon", "status code", "Watchdog caught", "DistBackendError"),
        *("HIP error", "have failed or timed out", "exitcode: ", "has been shut down", "TERM_"),
        *("exit code", "exit status", "exited ", "NVRM: Xid", "fi_cq_readerr", "UCX", "Error"),
        *("Terminated", "Exception ignored in", "entire process down", "exitcode  ", "walltime"),
        *("process killed", "error occurred in", "MPI_ERRORS", "MPI_Abort", "poll failed"),
        *("pplication aborted", "step aborted", "Aborted", "non-zero", "Caught signal"),
        *("with signal", "by signal", "SIGKILL"),
    )
    definitions = ()
    title = "the job"

    def __init__(self) -> None:
        super().__init__()
        self._kinds: Counter[str] = Counter()
        self._traceback = 0  # the line on which the open traceback began; 0 if none is open
        self._is_frame = False  # whether the last line named a file of the traceback
        self._is_harmless = False

    def take(self, line: str, lineno: int) -> bool:
        if not self._traceback and not any(mark in line for mark in self.marks):
            return False
        if _HARMLESS.match(line):
            self._is_harmless = True
        elif _TRACEBACK.match(line):
            self._traceback = lineno
        elif self._traceback and self._is_traced(line):
            pass
        elif self._traceback and _RAISED.match(line):
            self._end_traceback(line)
        elif _FAILED.match(line):
            self._fail(line, lineno)
        else:
            return False
        return True

    def _is_traced(self, line: str) -> bool:
        """Tell whether a line belongs to the open traceback: a file, or its code."""
        is_frame = _FRAME.match(line) is not None
        is_code = self._is_frame and line[:1].isspace()
        self._is_frame = is_frame
        return is_frame or is_code

    def _end_traceback(self, line: str) -> None:
        if not self._is_harmless:
            self._fail(line, self._traceback)
        self._traceback, self._is_harmless = 0, False

    def _fail(self, line: str, lineno: int) -> None:
        """Count a failure, and keep the first of its kind, which many ranks may print."""
        run = self._open(lineno)
        kind = kind_of(line.strip())
        self._kinds[kind] += 1
        if self._kinds[kind] == 1 and len(self._kinds) <= MOST:
            run.fail(line.strip(), lineno)

    def results(self) -> tuple[Parsed, ...]:
        if self._traceback:
            self._end_traceback("a Python traceback whose end is missing")
        return super().results()

    def _finish(self, run: ResultBuilder) -> None:
        if more := sum(self._kinds.values()) - len(self._kinds):
            run.note("repeated", more)
