"""Libraries that allocate the memory of GPUs: PyTorch, or CuPy."""

from __future__ import annotations

import platform
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from cluster.measure import gpu_requirements

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cluster.measure.payload import Buffer

    Data = NDArray[np.uint8] | NDArray[np.float32]

    Piece = Any
    """An array of the library."""


class TorchLibrary:
    module: ClassVar[str] = "torch"

    def __init__(self, number: int) -> None:
        import torch  # noqa: PLC0415 - gigabytes, which cluster does not install

        torch.cuda.set_device(number)
        self._torch = torch
        self._device = f"cuda:{number}"

    @staticmethod
    def count() -> int:
        """Tell how many GPUs this process sees."""
        import torch  # noqa: PLC0415

        return int(torch.cuda.device_count()) if torch.cuda.is_available() else 0

    def put(self, bytes_: Data) -> Piece:
        return self._torch.from_numpy(bytes_).to(self._device)

    def zeros(self, size: int) -> Piece:
        return self._torch.zeros(size, dtype=self._torch.uint8, device=self._device)

    def clear(self, array: Piece) -> None:
        """Set all bytes to 0."""
        array.zero_()

    def address(self, array: Piece) -> int:
        return int(array.data_ptr())

    def equal(self, first: Piece, second: Piece) -> bool:
        return bool(self._torch.equal(first, second))

    def fetch(self, array: Piece) -> Buffer:
        """Copy bytes to the processor's memory."""
        bytes_: Buffer = array.cpu().numpy()
        return bytes_

    def synchronise(self) -> None:
        """Wait until the GPU has finished all its work."""
        self._torch.cuda.synchronize()


class CupyLibrary:
    module: ClassVar[str] = "cupy"

    def __init__(self, number: int) -> None:
        import cupy  # noqa: PLC0415

        self._cupy = cupy
        self._device = cupy.cuda.Device(number)
        self._device.use()

    @staticmethod
    def count() -> int:
        import cupy  # noqa: PLC0415

        try:
            return int(cupy.cuda.runtime.getDeviceCount())
        except cupy.cuda.runtime.CUDARuntimeError:  # no driver, or no GPU
            return 0

    def put(self, bytes_: Data) -> Piece:
        return self._cupy.asarray(bytes_)

    def zeros(self, size: int) -> Piece:
        return self._cupy.zeros(size, dtype=self._cupy.uint8)

    def clear(self, array: Piece) -> None:
        array.fill(0)

    def address(self, array: Piece) -> int:
        return int(array.data.ptr)

    def equal(self, first: Piece, second: Piece) -> bool:
        return bool(self._cupy.array_equal(first, second))

    def fetch(self, array: Piece) -> Buffer:
        bytes_: Buffer = self._cupy.asnumpy(array)
        return bytes_

    def synchronise(self) -> None:
        self._device.synchronize()


Library = TorchLibrary | CupyLibrary  # on one GPU: arrays there, most of bytes, which can be sliced
LIBRARIES: tuple[type[Library], ...] = (TorchLibrary, CupyLibrary)


def find_library() -> type[Library]:
    """Return the first of `LIBRARIES` that is installed (SpecError: none is)."""
    for library in LIBRARIES:
        if find_spec(library.module):
            return library
    raise gpu_requirements.missing_library_error(platform.node(), sys.executable)
