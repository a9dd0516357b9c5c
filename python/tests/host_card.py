"""The processor as a card, for trying the launcher where there is none.

Fills and copies are done. A launch is written down, with its parameters read back from where the driver would
read them, and then done by a function of the test's, if it has one for the kernel.
"""
import ctypes
import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from warpsmith_torch import launcher  # noqa: E402

HOST = -1  # what a tensor on the processor gives for its device
class HostMap(ctypes.Structure):
    """What this driver makes of a tensor: a note of it."""
    _fields_ = [("address", ctypes.c_uint64), ("type", ctypes.c_uint32), ("rank", ctypes.c_uint32),
                ("sizes", ctypes.c_uint64 * 5), ("strides", ctypes.c_uint64 * 4), ("box", ctypes.c_ubyte * 5),
                ("swizzle", ctypes.c_ubyte), ("promotion", ctypes.c_ubyte)]

    @property
    def value(self):
        return HostMap.from_buffer_copy(self)


assert ctypes.sizeof(HostMap) <= launcher.MAP_BYTES
WIDTHS = {"map": HostMap, "buffer": ctypes.c_uint64, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "f32": ctypes.c_float}
SUCCESS, NO_DEVICE = 0, 100


class Launched:
    def __init__(self, entry, config, parameters):
        self.entry, self.parameters = entry, parameters
        self.grid, self.block, self.shared = list(config.grid), list(config.block), config.shared
        self.stream = config.stream or 0
        attributes = (launcher.LaunchAttribute * config.attribute_count).from_address(config.attributes)
        self.attributes = {a.id: list(a.value[:3]) for a in attributes}


class HostDriver:
    def __init__(self, kernels):
        self.calls, self.kernels, self.signatures = [], kernels, []
        self.encoded = 0
        self.errors = []  # what the next calls give instead

    def _result(self):
        return self.errors.pop(0) if self.errors else SUCCESS

    def cuLaunchKernelEx(self, config, function, parameters, extra):
        error = self._result()
        if error:
            return error
        entry, kinds = self.signatures[function.value - 1]
        config = launcher.LaunchConfig.from_address(config.value)
        addresses = (ctypes.c_void_p * len(kinds)).from_address(parameters.value)
        values = [WIDTHS[kind].from_address(address).value for kind, address in zip(kinds, addresses)]
        self.calls.append(Launched(entry, config, values))
        if entry in self.kernels:
            self.kernels[entry](*values)
        return SUCCESS

    def cuMemsetD32Async(self, target, pattern, count, stream):
        error = self._result()
        if not error:
            words = (ctypes.c_uint32 * count.value).from_address(target.value)
            words[:] = [pattern.value] * count.value
            self.calls.append(("fill", target.value, pattern.value, count.value, stream.value))
        return error

    def cuMemcpyDtoDAsync_v2(self, target, source, count, stream):
        error = self._result()
        if not error:
            ctypes.memmove(target.value, source.value, count.value)
            self.calls.append(("copy", source.value, target.value, count.value, stream.value))
        return error

    def cuTensorMapEncodeTiled(self, to, kind, rank, address, sizes, strides, box, each, interleave, swizzle, promotion,
                               outside):
        error = self._result()
        if not error:
            assert to.value % launcher.MAP_ALIGNMENT == 0 and list(each) == [1] * rank.value
            assert (interleave, outside) == (0, 0)
            self.encoded += 1
            made = HostMap(address.value, kind, rank.value, tuple(sizes), tuple(strides), tuple(box), swizzle, promotion)
            ctypes.memmove(to.value, ctypes.addressof(made), ctypes.sizeof(made))
        return error

    def cuGetErrorString(self, error, text):
        return NO_DEVICE


class HostCard(launcher.Card):
    def __init__(self, kernels=None, stream=77):
        self.driver = HostDriver(kernels or {})
        self.device = lambda: HOST
        self.stream = lambda device: stream
        self.entered = 0

    def empty(self, shape, strides, dtype):
        # as a caching allocator would: aligned, with the leavings of somebody else
        size = launcher.volume(shape)
        width = torch.empty(0, dtype=dtype).element_size()
        raw = torch.full((size * width + 256,), 0xFF, dtype=torch.uint8)
        start = -raw.data_ptr() % 256
        return raw[start:start + size * width].view(dtype).as_strided(shape, strides)

    def enter(self, device):
        self.entered += 1

    def load(self, plan, device):
        functions = {}
        for step in plan.steps:
            if "launch" in step:
                kinds = [kind for kind, _ in step["arguments"]]
                self.driver.signatures.append((step["launch"], kinds))
                functions[step["launch"]] = ctypes.c_void_p(len(self.driver.signatures))
        return functions
