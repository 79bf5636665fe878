"""A small convolutional network, trained by torch's DistributedDataParallel, part by part."""

from time import perf_counter
from typing import Any

from cluster.analysis.models.step_limits import StepParts
from cluster.measure.training.digits import CLASSES, SIDE, Digits

HIDDEN = 128  # neurons between the convolutions and the classes
POOLED = SIDE // 2  # pixels per direction after the pooling
KERNEL = 3  # pixels per direction of a convolution
RATE, MOMENTUM = 0.05, 0.9  # of stochastic gradient descent
GRADIENT_BYTES = 4  # of a parameter, in single precision


class Trainer:
    """A model and its optimiser on one rank. The same seed gives the same weights on every rank.

    The first convolution has `width` channels, the second twice as many.
    """

    def __init__(self, torch: Any, device: str, width: int, seed: int) -> None:  # noqa: ANN401
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import (  # noqa: PLC0415 - optional
            allreduce_hook,
        )

        self._torch, self._device, self._width = torch, device, width
        torch.manual_seed(seed)
        model = _network(torch.nn, width).to(device)
        self.parameters = sum(p.numel() for p in model.parameters())
        self._model = torch.nn.parallel.DistributedDataParallel(model)
        self._loss = torch.nn.CrossEntropyLoss()
        self._optimiser = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
        self._last_gradient = 0.0

        default: Any = None  # the group of all ranks

        def reduce(_: object, bucket):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - torch compares annotations
            if bucket.is_last():
                self._last_gradient = self._now()
            return allreduce_hook(default, bucket)

        reduce.__annotations__.clear()
        self._model.register_comm_hook(None, reduce)

    @property
    def gradient_bytes(self) -> int:
        """The bytes that all ranks reduce per step."""
        return GRADIENT_BYTES * int(self.parameters)

    @property
    def flops(self) -> int:
        """The FLOPs that the model needs per sample of a step."""
        return training_flops(self._width)

    def place(self, samples: Digits) -> tuple[Any, Any]:
        """Copy a batch to the device: images, n x 1 x 8 x 8, and labels."""
        images = self._torch.from_numpy(samples.images).unsqueeze(1)
        labels = self._torch.from_numpy(samples.labels)
        return images.to(self._device), labels.to(self._device)

    def step(self, batch: Digits | tuple[Any, Any]) -> tuple[StepParts, float]:
        """Train on a batch, prepared or placed; return the seconds of each part, and the loss."""
        begin = self._now()
        images, labels = batch if isinstance(batch, tuple) else self.place(batch)
        copy_end = self._now()
        loss = self._loss(self._model(images), labels)
        loss.backward()
        reduce_end = self._now()
        self._optimiser.step()
        self._optimiser.zero_grad()
        loss_value = float(loss.detach())
        end = self._now()
        gradients = min(max(self._last_gradient, copy_end), reduce_end)
        parts = StepParts(
            copy=copy_end - begin,
            compute=gradients - copy_end,
            exchange=reduce_end - gradients,
            update=end - reduce_end,
        )
        return parts, loss_value

    def exchange(self) -> float:
        """Reduce a tensor of the size of the gradients, and nothing else."""
        place = self._torch.zeros(self.parameters, device=self._device)
        begin = self._now()
        self._torch.distributed.all_reduce(place)
        return self._now() - begin

    def accuracy(self, samples: Digits) -> float:
        images, labels = self.place(samples)
        with self._torch.no_grad():
            return float((self._model.module(images).argmax(1) == labels).double().mean())

    def _now(self) -> float:
        """Read the clock once the device has done what was queued so far."""
        if self._device != "cpu":
            self._torch.cuda.current_stream().synchronize()
        return perf_counter()


def training_flops(width: int) -> int:
    """Count the FLOPs of a step per sample: each product of a weight, forward and twice backward.

    A product and its addition are two. The backward pass computes one product for the gradient of
    the weight and one for that of the input, which the first convolution does not need.
    """
    first = SIDE**2 * KERNEL**2 * width
    second = SIDE**2 * KERNEL**2 * width * 2 * width
    dense = 2 * width * POOLED**2 * HIDDEN + HIDDEN * CLASSES
    return 2 * (2 * first + 3 * (second + dense))


def _network(nn: Any, width: int) -> Any:  # noqa: ANN401
    return nn.Sequential(
        nn.Conv2d(1, width, KERNEL, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, KERNEL, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(2 * width * POOLED * POOLED, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, CLASSES),
    )
