"""Top-k on a processor with its elements where a card puts them.

PyTorch leaves open which of equal elements are taken, and, where it is asked for no order, in which order they are. On a
card those without order come by their indexes, but the ones that equal the last of them behind the others; of equal ones
the first are taken. A processor leaves them as its selection did. A problem's answer is what a card gives, so that
whoever is judged on a processor is judged by the same.
"""
import torch
from torch.utils._python_dispatch import TorchDispatchMode


def topk(x, k, dim=-1, largest=True, sorted=True):
    """(values, indexes) as torch.topk, of equal elements the first ones, and without order as on a card."""
    values, indexes = x.sort(dim=dim, descending=largest, stable=True)
    values, indexes = values.narrow(dim, 0, k), indexes.narrow(dim, 0, k)
    if sorted or k < 2:
        return values.contiguous(), indexes.contiguous()
    least = values.narrow(dim, k - 1, 1)
    last = (values == least) | (values.isnan() & least.isnan())
    places = (indexes + last * x.shape[dim]).argsort(dim)
    return values.gather(dim, places), indexes.gather(dim, places)


class AsOnCard(TorchDispatchMode):
    """Inside, top-k of tensors on the processor is that of a card."""

    supports_higher_order_operators = True  # they are called as they are

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func == torch.ops.aten.topk.default and args[0].device.type == "cpu" and args[0].dim():
            return topk(*args, **kwargs)
        return func(*args, **kwargs)
