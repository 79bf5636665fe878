"""Handwritten digits in shards: real images, as many as are asked for, the same for a seed.

The 1,797 images of 8 x 8 pixels come with scikit-learn (E. Alpaydin, C. Kaynak, "Optical
Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998), so nothing is
downloaded. More of them are made by shifts of a pixel and noise.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cluster.core.errors import ClusterError
from cluster.core.model.value import Value

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIDE = 8  # pixels of an image in each direction
CLASSES = 10
TESTED = 360  # images that no rank trains on: a fifth
BRIGHTEST = 16.0  # of a pixel in scikit-learn's data
NOISE = 0.5  # standard deviation that is added to each pixel, of 16
SPLIT_SEED = 0  # the same images are tested, whatever is trained
INDEX = "index.json"


@dataclass(frozen=True, kw_only=True)
class Digits:
    images: NDArray[np.float32]  # n x 8 x 8, 0 to 16, as float32
    labels: NDArray[np.int64]  # n, 0 to 9, as int64

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, start: int, end: int) -> Digits:
        return Digits(images=self.images[start:end], labels=self.labels[start:end])


class Dataset(Value, frozen=True, kw_only=True):
    """What a dataset is made of; two of the same values have the same bytes."""

    samples: int
    shard: int
    seed: int

    @property
    def shards(self) -> int:
        return self.samples // self.shard


def shard_name(number: int) -> str:
    """Return the name of a shard's file or object, such as `000007.npz`; they count from 0."""
    return f"{number:06}.npz"


def load() -> tuple[Digits, Digits]:
    """Load the real images, of scikit-learn."""
    from sklearn.datasets import load_digits  # noqa: PLC0415 - optional

    digits = load_digits()
    order = np.random.default_rng(SPLIT_SEED).permutation(len(digits.target))
    all_ = Digits(
        images=digits.images[order].astype(np.float32), labels=digits.target[order].astype(np.int64)
    )
    return all_.part(TESTED, len(all_)), all_.part(0, TESTED)


def make_shard(real: Digits, dataset: Dataset, number: int) -> Digits:
    """Make one shard: real images, each shifted by a pixel at most, with noise."""
    chance = np.random.default_rng([dataset.seed, number])
    choice = (number * dataset.shard + np.arange(dataset.shard)) % len(real)
    images, (down, right) = real.images[choice], chance.integers(-1, 2, size=(2, dataset.shard))
    rows, columns = (np.arange(SIDE) + shift[:, None] for shift in (down, right))
    canvas = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    indices = np.arange(dataset.shard)[:, None, None]
    crops = canvas[indices, rows[:, :, None] + 1, columns[:, None, :] + 1]
    noisy = crops + chance.normal(0, NOISE, crops.shape)
    return Digits(images=noisy.clip(0, BRIGHTEST).astype(np.float32), labels=real.labels[choice])


def encode(samples: Digits) -> bytes:
    """Write samples as a file of NumPy's format npz, which has a checksum for each array.

    It is not compressed: the link carries what the arithmetic says.
    """
    file = io.BytesIO()
    np.savez(file, images=samples.images, labels=samples.labels)
    return file.getvalue()


def decode(content: bytes, place: str) -> Digits:
    """Read the samples of a shard (ClusterError: it is no such file, or was damaged)."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return Digits(images=arrays["images"], labels=arrays["labels"])
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, OSError) as error:
        raise ClusterError(
            f"The shard {place} is corrupt: {error}",
            means="Its content is not what was written there, so nothing was trained on it.",
            remedy="Delete it and the index.json beside it; the next run writes the data again.",
        ) from error


def normalise(samples: Digits) -> Digits:
    """Prepare samples for the model: pixels from -1 to 1."""
    half = np.float32(BRIGHTEST / 2)
    return Digits(images=samples.images / half - np.float32(1), labels=samples.labels.copy())
