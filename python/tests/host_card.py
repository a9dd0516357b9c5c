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

APART = 78  # the first stream that is made beside others: the one on which weights are prepared
HOST = -1  # what a tensor on the processor gives for its device
class HostMap(ctypes.Structure):
    """What this driver makes of a tensor: a note of it."""
    _fields_ = [("address", ctypes.c_uint64), ("type", ctypes.c_uint32), ("rank", ctypes.c_uint32),
                ("sizes", ctypes.c_uint64 * 5), ("strides", ctypes.c_uint64 * 4), ("box", ctypes.c_ubyte * 5),
                ("swizzle", ctypes.c_ubyte), ("promotion", ctypes.c_ubyte),
                # Of a window; else nothing, and what a box has of each axis is in `box`.
                ("lower", ctypes.c_short * 3), ("upper", ctypes.c_short * 3), ("each", ctypes.c_ubyte * 5),
                ("channels", ctypes.c_ushort), ("places", ctypes.c_ushort)]

    @property
    def value(self):
        return HostMap.from_buffer_copy(self)


assert ctypes.sizeof(HostMap) <= launcher.MAP_BYTES
WIDTHS = {"map": HostMap, "buffer": ctypes.c_uint64, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "f32": ctypes.c_float}
SUCCESS, NO_DEVICE = 0, 100


class Launched(tuple):
    """Of calls, a kernel's: others are tuples."""
    def __new__(cls, *_):
        return super().__new__(cls, ("launch",))

    def __init__(self, entry, config, parameters):
        self.entry, self.parameters = entry, parameters
        self.grid, self.block, self.shared = list(config.grid), list(config.block), config.shared
        self.stream = config.stream or 0
        attributes = (launcher.LaunchAttribute * config.attribute_count).from_address(config.attributes)
        self.attributes = {a.id: list(a.value[:3]) for a in attributes}


class HostDriver:
    def __init__(self, kernels):
        self.calls, self.kernels, self.signatures = [], kernels, []
        self.encoded = self.made = 0
        self.captures = {}  # by stream that is being captured: the capture's number, below 0 if it has failed
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
        assert list(each) == [1] * rank.value and (interleave, outside) == (0, 0)
        return self._encode(to, HostMap(address.value, kind, rank.value, tuple(sizes), tuple(strides), tuple(box),
                                        swizzle, promotion))

    def cuTensorMapEncodeIm2col(self, to, kind, rank, address, sizes, strides, lower, upper, channels, places, each,
                                interleave, swizzle, promotion, outside):
        assert len(lower) == len(upper) == rank.value - 2 and (interleave, outside) == (0, 0)
        return self._encode(to, HostMap(address.value, kind, rank.value, tuple(sizes), tuple(strides), (), swizzle,
                                        promotion, tuple(lower), tuple(upper), tuple(each), channels.value,
                                        places.value))

    def _encode(self, to, made):
        error = self._result()
        if not error:
            assert to.value % launcher.MAP_ALIGNMENT == 0
            self.encoded += 1
            ctypes.memmove(to.value, ctypes.addressof(made), ctypes.sizeof(made))
        return error

    def cuEventCreate(self, event, flags):
        assert flags == 2  # no timing, which costs
        self.made += 1
        event._obj.value = 1000 + self.made
        return SUCCESS

    def cuEventRecord(self, event, stream):
        error = self._result()
        if not error:
            self.calls.append(("record", event.value, stream.value))
        return error

    def cuStreamWaitEvent(self, stream, event, flags):
        assert flags == 0
        error = self._result()
        if not error:
            recorded = next(call for call in reversed(self.calls) if call[:2] == ("record", event.value))
            self.calls.append(("wait", event.value, stream.value))
            if recorded[2] in self.captures:  # who waits for what is captured is captured from there on
                assert self.captures.get(stream.value, self.captures[recorded[2]]) == self.captures[recorded[2]]
                self.captures[stream.value] = self.captures[recorded[2]]
            else:
                assert stream.value not in self.captures
        return error

    def cuStreamGetCaptureInfo_v2(self, stream, status, number, *rest):
        capture = self.captures.get(stream.value, 0)
        status._obj.value, number._obj.value = (2, 0) if capture < 0 else (1, capture) if capture else (0, 0)
        return SUCCESS

    def cuThreadExchangeStreamCaptureMode(self, mode):
        return SUCCESS

    def cuGetErrorString(self, error, text):
        return NO_DEVICE


class Counted:
    """A function with a return type to be set, as ctypes' are."""
    def __init__(self, function):
        self._function = function

    def __call__(self, *arguments):
        return self._function(*arguments)


class HostLibrary:
    """cuBLASLt's interface, of column-major matrices: products are made by PyTorch, as they are described."""
    TYPES = {0: torch.float32, 2: torch.float16, 14: torch.bfloat16}

    def __init__(self, version=130100, algorithms=3):
        self.version, self.algorithms, self.calls, self.things, self.status = version, algorithms, [], {}, 0
        self.cublasLtGetVersion = Counted(lambda: self.version)

    def _make(self, out, **values):
        number = len(self.things) + 1
        self.things[number] = values
        out._obj.value = number
        return 0

    def _set(self, thing, which, value, size):
        assert ctypes.sizeof(value._obj) == size.value
        self.things[thing.value][which] = value._obj.value
        return 0

    def cublasLtCreate(self, out):
        return self._make(out)

    def cublasLtMatmulDescCreate(self, out, compute, scale):
        assert (compute, scale) == (68, 0)
        return self._make(out)

    def cublasLtMatrixLayoutCreate(self, out, kind, rows, columns, line):
        return self._make(out, kind=self.TYPES[kind], rows=rows.value, columns=columns.value, line=line.value)

    def cublasLtMatmulPreferenceCreate(self, out):
        return self._make(out)

    def cublasLtMatmulPreferenceDestroy(self, preference):
        self.preference = self.things[preference.value]
        return 0

    cublasLtMatmulDescSetAttribute = cublasLtMatrixLayoutSetAttribute = cublasLtMatmulPreferenceSetAttribute = _set

    def cublasLtMatmulAlgoGetHeuristic(self, handle, product, a, b, c, d, preference, wanted, found, count):
        count._obj.value = min(wanted, self.algorithms)
        for i in range(count._obj.value):
            found[i].algorithm[0] = i + 1
        return 0

    def _matrix(self, layout, address, transposed):
        it = self.things[layout.value]
        batches, stride, size = it.get(5, 1), it.get(6, 0), torch.empty(0, dtype=it["kind"]).element_size()
        elements = (batches - 1) * stride + (it["columns"] - 1) * it["line"] + it["rows"]
        whole = torch.frombuffer((ctypes.c_char * (elements * size)).from_address(address.value), dtype=it["kind"])
        matrix = whole.as_strided((batches, it["rows"], it["columns"]), (stride, 1, it["line"]))
        return matrix.mT if transposed else matrix

    def cublasLtMatmul(self, handle, product, alpha, a, of_a, b, of_b, beta, c, of_c, d, of_d, algorithm, workspace,
                       size, stream):
        assert (alpha._obj.value, beta._obj.value, c.value, of_c.value) == (1, 0, d.value, of_d.value)
        it = self.things[product.value]
        first, second = self._matrix(of_a, a, it[3]), self._matrix(of_b, b, it[4])
        out = self._matrix(of_d, d, False)
        result = first.float() @ second.float()
        assert it.get(7, 1) in (1, 4)
        if it.get(7) == 4:  # a bias, an element for each row
            bias = torch.frombuffer((ctypes.c_char * (out.shape[1] * out.element_size())).from_address(it[8]),
                                    dtype=out.dtype)
            result = result + bias.float()[:, None]
        out.copy_(result.to(out.dtype))
        self.calls.append((algorithm._obj.algorithm[0], size.value, stream.value))
        return self.status


class HostCard(launcher.Card):
    def __init__(self, kernels=None, stream=77):
        self.driver = HostDriver(kernels or {})
        self.device = lambda: HOST
        self.stream = lambda device: stream
        self.entered, self.waited, self.streams = 0, [], 0
        self.lt = HostLibrary()
        self.library = lambda: self.lt

    def empty(self, shape, strides, dtype):
        # as a caching allocator would: aligned, with the leavings of somebody else
        size = launcher.volume(shape)
        width = torch.empty(0, dtype=dtype).element_size()
        raw = torch.full((size * width + 256,), 0xFF, dtype=torch.uint8)
        start = -raw.data_ptr() % 256
        return raw[start:start + size * width].view(dtype).as_strided(shape, strides)

    def seeds(self, count):
        return torch.randint(launcher.SEED_END, (count,), dtype=torch.int64)

    def apart(self, device):
        self.streams += 1
        return APART + self.streams - 1

    def settle(self):
        self.waited.append("device")

    def wait(self, stream):
        self.waited.append(stream)

    def capturing(self):
        return False

    def enter(self, device):
        self.entered += 1

    def load(self, plan, device):
        functions = {}
        for step in plan.steps:
            if "launch" in step:
                kinds = [kind for kind, _ in step["arguments"]]
                self.driver.signatures.append((step["launch"], kinds))
                functions[step["launch"]] = ctypes.c_void_p(len(self.driver.signatures))
        functions.update(self.products(plan))
        return functions
