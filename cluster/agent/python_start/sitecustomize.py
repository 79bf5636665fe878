"""Have a Python program of a job with `hang_after` write its stacks when `cluster hang` asks."""

import faulthandler
import importlib
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:] = [folder for folder in sys.path if Path(folder) != HERE]
sys.modules.pop("sitecustomize", None)
with suppress(ImportError):
    importlib.import_module("sitecustomize")
with suppress(KeyError, OSError, RuntimeError, ValueError):
    stacks = Path(os.environ["CLUSTER_TASK"], "stacks")
    stacks.mkdir(mode=0o700, exist_ok=True)
    file = (stacks / str(os.getpid())).open("a")
    faulthandler.register(signal.SIGRTMIN + 9, file=file, all_threads=True)
