"""A module's inputs, drawn on the device that they are wanted on.

Files name the processor for what they draw more often than they need it there; with one thread a gigabyte of normal
numbers takes seconds, and a search draws dozens of times.

A processor's torch.rand of fp32 gives multiples of 2^-24, and a card's small numbers have all their digits: halfway
between two of fewer digits, where it matters how a kernel rounds its factors, are many of the one and few of the
other. So those of torch.rand and torch.rand_like are made like a processor's.
"""
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors


_UNIFORM = (torch.rand, torch.rand_like)
DIGITS = 2.0 ** 24


@torch.no_grad()
def like_a_processor(uniform):
    """Numbers of [0, 1), in place."""
    uniform.mul_(DIGITS).floor_().div_(DIGITS)


class _OnDevice(TorchFunctionMode):
    """Inside, tensors that are made on the processor by name are made on `device` instead."""

    def __init__(self, device):
        super().__init__()
        self._device, self._makers = device, _device_constructors()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func in self._makers and kwargs.get("device") is not None and torch.device(kwargs["device"]).type == "cpu":
            kwargs["device"] = self._device
        made = func(*args, **kwargs)
        if func in _UNIFORM and made.dtype == torch.float32 and made.device.type != "cpu":
            like_a_processor(made)
        return made


class Inputs:
    """get_inputs: of the module's file, with everything but the seed given."""

    def __init__(self, get_inputs, device):
        self._get_inputs, self._device = get_inputs, device
        self._by_name = torch.device(device).type == "cpu"  # as the file says: it cannot do otherwise

    def draw(self, seed):
        """What get_inputs gives, tensors on the device; the same for the same seed."""
        if not self._by_name:
            try:
                with _OnDevice(self._device):
                    return self._draw(seed)
            except torch.cuda.OutOfMemoryError:
                raise
            except Exception as error:  # whatever the file does with a tensor that is not on the processor
                if "CUDA error" in str(error):
                    raise
                self._by_name = True
        return self._draw(seed)

    def _draw(self, seed):
        torch.manual_seed(seed)
        return [x.to(self._device) if isinstance(x, torch.Tensor) else x for x in self._get_inputs()]
