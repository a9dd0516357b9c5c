"""Runs plans of CUDA kernels on PyTorch's tensors. Needs PyTorch and the card's driver, and no C++ compiler.

    solution = Solution("ModelNew", "sm_90a", PLANS, SOURCES, BINARIES)
    y, total = solution.call(module, x)

A plan is data. There is one for each set of shapes; the first that fits the tensors is run.

  workload  a name for people
  buffers   [kind, name, type, shape]: "input", what the caller gives, in order, and "inout" among them, what is
            written into as well; "param" and "state", the module's own, by their names in its state dict; "prepared",
            see below; "output", made anew by every call, and [kind, name, type, shape, order] where the caller's tensor
            has its axes in another order: `order` says which of them each of the buffer's is.
            ["workspace", name, bytes]: made by every call, and holds anything when it starts.
  steps     in order, on the caller's current stream, and with "lane": n and "after": [indices] in one that runs beside
            it, 0 being the caller's: when the one before it in its lane has ended, and those earlier ones of other lanes.
            The caller's stream waits for all of them.
            {"launch": entry, "grid": [x, y, z], "block": [x, y, z], "cluster": [x, y, z] or [], "shared": bytes,
             "cooperative": 0 or 1, "programmatic": 0 or 1, "arguments": [[kind, value], ...]}
               an argument is ["buffer", its index], ["i32", number], ["i64", number], ["f32", its 32 bits] or
               ["map", [buffer, offset, bytes of an element, sizes, strides, box, swizzle]], a tensor map of the
               copy engine's: sizes and box in elements, innermost first, offset, strides (of all axes but the
               innermost) and swizzle in bytes; behind them may be a window's [lower corners, upper corners, strides],
               of all axes but the innermost and the outermost, by which places of images are brought (im2col): then
               box is channels and places;
            {"fill": buffer, "pattern": 32 bits, "bytes": multiple of 4}; {"copy": buffer, "to": buffer, "bytes": n};
            {"product": library and version, "algorithm": from 1, "sizes": [batches, m, n, k], "a": matrix, "b": matrix,
             "d": matrix, "bias": [buffer, offset in bytes] or nothing, "workspace": buffer}
               d = a times b transposed, and in each row what the bias, of d's type, has for its column; by the
               cuBLASLt that PyTorch has loaded, which has to be of that version. A matrix is [buffer, offset in bytes,
               type, elements from line to line, from batch to batch, whether its rows, m or n, lie beside each other
               and not k (of d: n)].
  prepare   absent, or a plan that is run once for each version of the weights: it takes weights alone, and its outputs
            are this plan's "prepared" buffers, by name. A weight is another one when it is another tensor, or PyTorch
            counts a write to it since (its _version).

SOURCES has the CUDA C++ of each plan, BINARIES what a compiler made of it for the named architecture (a cubin,
compressed by zlib, in base64; a list of them where kernels were compiled apart), or "". On another card, or without a binary, the source is compiled by the NVRTC that
comes with PyTorch, once, when it is first called.

A call checks type, shape, strides and place of every tensor each time, gives no gradients, waits for nothing, and may be
captured in a CUDA graph. Any number of threads may call one solution at once.

Microseconds count here: what a call does is written out as Python for each plan when it is first called (Plan.writing,
Solution.writing), without loops over tensors.
"""
import base64
import ctypes
import glob
import os
import struct
import zlib
from _thread import allocate_lock, get_ident
from weakref import WeakKeyDictionary

import torch

GIVEN = ("input", "inout")
SEED_END = 1 << 53  # of what is drawn at random
ALIGNMENT = 16  # of a tensor's storage: kernels access vectors of so many bytes
WORKSPACE_ALIGNMENT = 256
PLAIN_SHARED = 48 << 10  # bytes of shared memory that a block has without asking
PLAIN_CLUSTER = 8  # blocks of a cluster, likewise
MOST_RECORDS = 256  # threads whose arguments are kept
MOST_SEEN = 64  # times that the form of a plan's tensors is noted
MOST_MAPS = 64  # addresses whose tensor maps are kept, of each argument
MAP_BYTES, MAP_ALIGNMENT = 128, 64
# Of the driver's interface.
MAX_DYNAMIC_SHARED, NON_PORTABLE_CLUSTER = 8, 14
CLUSTER, COOPERATIVE, PROGRAMMATIC = 4, 2, 6
INVALID_CONTEXT, INVALID_HANDLE, NOT_FOUND = 201, 400, 500
MAP_TYPES = {1: 0, 2: 1, 4: 2, 8: 4}  # unsigned integers, by their bytes: boxes are moved as they are
MAP_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
MAP_PROMOTION = 2  # 128 bytes
RELAXED_CAPTURE = 2
NON_BLOCKING = 1
DISABLE_TIMING = 2
CAPTURING = 1
# Of cuBLASLt's interface.
COMPUTE_F32, REAL_TYPES = 68, {"f32": 0, "f16": 2, "bf16": 14}
TRANSPOSE_FIRST, TRANSPOSE_SECOND, EPILOGUE, BIAS_POINTER, EPILOGUE_BIAS = 3, 4, 7, 8, 4
BATCH_COUNT, BATCH_STRIDE = 5, 6
SOMEWHERE = 256  # where a bias is said to be while algorithms are asked for, which may differ by its alignment
MOST_WORKSPACE, REDUCTIONS, ALIGNMENTS, IN_COMPUTE_TYPE = 1, 3, (5, 6, 7, 8), 2
MOST_ALGORITHMS = 8

PLAIN = {torch.Tensor, torch.nn.Parameter}  # subclasses may be anything
TYPES = {"bool": torch.bool, "i8": torch.int8, "u8": torch.uint8, "i32": torch.int32, "i64": torch.int64,
         "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}


class LaunchConfig(ctypes.Structure):
    """The driver's CUlaunchConfig."""
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("attribute_count", ctypes.c_uint)]


class LaunchAttribute(ctypes.Structure):
    """The driver's CUlaunchAttribute."""
    _fields_ = [("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class Heuristic(ctypes.Structure):
    """cuBLASLt's cublasLtMatmulHeuristicResult_t."""
    _fields_ = [("algorithm", ctypes.c_uint64 * 8), ("workspace", ctypes.c_size_t), ("state", ctypes.c_int),
                ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4)]


def compiled(source, architecture):
    """The cubin that the NVRTC of this PyTorch makes of it."""
    root = os.path.dirname(os.path.dirname(torch.__file__))
    version = (torch.version.cuda or "").split(".")[0]
    folders = [root + "/nvidia/*/lib", root + "/torch/lib", os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/lib64",
               "/usr/local/cuda*/lib64"]
    found = [path for wanted in (version + "*", "*") for folder in folders
             for path in sorted(glob.glob(f"{folder}/libnvrtc[.-]*so*"))
             if "builtins" not in path and path.split(".so.")[-1].startswith(wanted.rstrip("*"))]
    if not found:
        raise RuntimeError(f"there is no binary for {architecture} here, and no NVRTC to make one: install the Python "
                           "package nvidia-cuda-nvrtc, or the CUDA toolkit, of PyTorch's CUDA version")
    for builtins in sorted(glob.glob(os.path.dirname(found[0]) + "/libnvrtc-builtins*.so*")):
        ctypes.CDLL(builtins, ctypes.RTLD_GLOBAL)  # which NVRTC asks for by name
    nvrtc = ctypes.CDLL(found[0])
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
    program = ctypes.c_void_p()

    def check(result):
        if result:
            raise RuntimeError(f"NVRTC for {architecture}: {nvrtc.nvrtcGetErrorString(result).decode()}\n{fetch('ProgramLog')}")

    def fetch(what):
        size = ctypes.c_size_t()
        getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        getattr(nvrtc, f"nvrtcGet{what}")(program, text)
        return text.raw.rstrip(b"\0").decode(errors="replace") if what == "ProgramLog" else text.raw

    options = [f"--gpu-architecture={architecture}".encode(), b"--std=c++17"]
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"solution.cu", 0, None, None))
    check(nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)))
    binary = fetch("CUBIN")
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return binary


class OutsideCapture:
    """What is done inside may be done while a stream is being captured, and is no part of the graph."""

    def __init__(self, driver):
        self._driver, self._mode = driver, ctypes.c_int(RELAXED_CAPTURE)

    def __enter__(self):
        self._driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(self._mode))

    def __exit__(self, *error):
        self._driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(self._mode))


class Card:
    """What a call needs of the machine: the current device and stream, memory, and the driver."""

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.device = torch._C._cuda_getDevice
        self.stream = torch._C._cuda_getCurrentRawStream
        # As compiled graphs of PyTorch's own take their memory: from its caching allocator, without dispatch.
        self.empty = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", self._empty)

    @staticmethod
    def _empty(shape, strides, dtype):
        return torch.empty_strided(shape, strides, dtype=dtype, device="cuda")

    @staticmethod
    def seeds(count):
        return torch.randint(SEED_END, (count,), dtype=torch.int64, device="cuda")

    def library(self):
        """The cuBLASLt that this process has loaded, else one that is found."""
        paths = [line.split()[-1] for line in open("/proc/self/maps") if "libcublasLt.so" in line]
        for folder in (os.path.dirname(os.path.dirname(torch.__file__)) + "/nvidia/*/lib", "/usr/local/cuda*/lib64"):
            paths += sorted(glob.glob(folder + "/libcublasLt.so.[0-9][0-9]"), reverse=True)
        if not paths:
            raise RuntimeError("there is no cuBLASLt here, and a product was made for it: install the Python package "
                               "nvidia-cublas, or the CUDA toolkit, of PyTorch's CUDA version")
        return ctypes.CDLL(paths[0])

    def check(self, error, what):
        if error:
            text = ctypes.c_char_p()
            self.driver.cuGetErrorString(error, ctypes.byref(text))
            raise RuntimeError(f"{what}: {(text.value or b'unknown').decode()} (CUDA error {error})")

    def apart(self, device):
        """A stream that waits for no other, and that no capture sees."""
        stream = ctypes.c_void_p()
        create, arguments = self.driver.cuStreamCreate, (ctypes.byref(stream), NON_BLOCKING)
        self.check(self.again(create(*arguments), device, create, arguments), "a stream")
        return stream.value

    def event(self):
        event = ctypes.c_void_p()
        self.check(self.driver.cuEventCreate(ctypes.byref(event), DISABLE_TIMING), "an event")
        return event.value

    def capture(self, stream, device):
        """The number of the capture that a stream is part of; 0: of none, -1: of one that has failed."""
        if not stream:
            return 0  # the legacy stream never is, and must not be asked while another one is
        status, number = ctypes.c_int(), ctypes.c_uint64()
        ask, arguments = self.driver.cuStreamGetCaptureInfo_v2, (
            ctypes.c_void_p(stream), ctypes.byref(status), ctypes.byref(number), None, None, None)
        self.check(self.again(ask(*arguments), device, ask, arguments), "asking for a stream's capture")
        return number.value if status.value == CAPTURING else -1 if status.value else 0

    def settle(self):
        """Until the current device has done all that it was given."""
        self.check(self.driver.cuCtxSynchronize(), "waiting for the device")

    def wait(self, stream):
        self.check(self.driver.cuStreamSynchronize(ctypes.c_void_p(stream)), "waiting for a stream")

    @staticmethod
    def capturing():
        return torch.cuda.is_current_stream_capturing()

    def enter(self, device):
        """Makes PyTorch's context of the device the thread's: a new thread has none."""
        context = ctypes.c_void_p()
        self.check(self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "the device's context")
        self.check(self.driver.cuCtxSetCurrent(context), "the device's context")

    def again(self, error, device, function, arguments):
        """The result of a launch that failed, tried once more where all that it lacked was a context."""
        if error not in (INVALID_CONTEXT, INVALID_HANDLE):
            return error
        self.enter(device)
        return function(*arguments)

    def load(self, plan, device):
        """{entry: function} of the plan's kernels."""
        self.enter(device)
        major, minor = torch.cuda.get_device_capability(device)
        here = f"sm_{major}{minor}"
        if plan.binary and plan.architecture.rstrip("af") == here:
            texts = [plan.binary] if isinstance(plan.binary, str) else plan.binary
            binaries = [zlib.decompress(base64.b64decode(text)) for text in texts]
        else:
            binaries = [compiled(plan.source, here + ("a" if major >= 9 else ""))]
        modules = [ctypes.c_void_p() for _ in binaries]
        with OutsideCapture(self.driver):
            for module, binary in zip(modules, binaries):
                self.check(self.driver.cuModuleLoadData(ctypes.byref(module), binary), "loading the kernels")
            functions = {step["launch"]: self._function(modules, step["launch"], plan)
                         for step in plan.steps if "launch" in step}
        functions.update(self.products(plan))
        return functions

    def products(self, plan):
        """{number of the step: Product}"""
        found = {i: step for i, step in enumerate(plan.steps) if "product" in step}
        library = self.library() if found else None
        return {i: Product(self, library, step, plan.buffers[step["workspace"]][2]) for i, step in found.items()}

    def _function(self, modules, entry, plan):
        function = ctypes.c_void_p()
        for module in modules:
            error = self.driver.cuModuleGetFunction(ctypes.byref(function), module, entry.encode())
            if error != NOT_FOUND:
                break
        self.check(error, entry)
        launches = [step for step in plan.steps if step.get("launch") == entry]
        shared = max(step["shared"] for step in launches)
        if shared > PLAIN_SHARED:
            self.check(self.driver.cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED, shared), entry)
        if any(volume(step["cluster"]) > PLAIN_CLUSTER for step in launches):
            self.check(self.driver.cuFuncSetAttribute(function, NON_PORTABLE_CLUSTER, 1), entry)
        return function


def volume(numbers):
    product = 1
    for number in numbers:
        product *= number
    return product


def dense_strides(shape):
    return tuple(volume(max(1, n) for n in shape[axis + 1:]) for axis in range(len(shape)))


def written(name, parameters, lines, names):
    """The function of that text, which is its docstring too; `names` are its globals."""
    text = f"def {name}({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in lines)
    scope = dict(names)
    exec(compile(text, f"<{name} of a plan>", "exec"), scope)
    scope[name].__doc__ = text
    return scope[name]


class Seen:
    """The form of the tensors that were last found to be as wanted, so that more of the same are known by one look of
    PyTorch's own (which compiled graphs of its guard their inputs by) instead of five at each. `form` is (device,
    function of the tensors: are they of that form). Where PyTorch has no such thing, nothing is ever the same."""

    def __init__(self):
        self.form = (None, None)
        self._left = MOST_SEEN if hasattr(torch._C._dynamo.guards, "TensorGuards") else 0

    def remember(self, device, *tensors):
        if self._left > 0:
            self._left -= 1
            # the sizes and strides that it is to see
            sizes, strides = [list(t.shape) for t in tensors], [list(t.stride()) for t in tensors]
            self.form = (device, torch._C._dynamo.guards.TensorGuards(
                *tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check)


class Map:
    """A tensor map as a kernel's argument: the driver makes one for each address of its buffer, which is remembered.
    `place` is the address' in the record's row, `index` the argument's among `parameters`."""

    def __init__(self, card, given, place, parameters, index):
        _, self._offset, element, sizes, strides, box, swizzle, *window = given
        self._check, rank, each = card.check, len(sizes), [1] * len(sizes)
        if window:
            (lower, upper, each[1:-1]), = window
            self._encode = card.driver.cuTensorMapEncodeIm2col
            boxes = [(ctypes.c_int * (rank - 2))(*lower), (ctypes.c_int * (rank - 2))(*upper),
                     *(ctypes.c_uint(extent) for extent in box)]
        else:
            self._encode = card.driver.cuTensorMapEncodeTiled
            boxes = [(ctypes.c_uint32 * rank)(*box)]
        self._before = (MAP_TYPES[element], ctypes.c_uint(rank))
        self._behind = ((ctypes.c_uint64 * rank)(*sizes), (ctypes.c_uint64 * max(1, rank - 1))(*strides),
                        *boxes, (ctypes.c_uint32 * rank)(*each), 0, MAP_SWIZZLES[swizzle], MAP_PROMOTION, 0)
        self.place, self.address = place, None
        self._parameters, self._index = parameters, index
        self._made = {}

    def move(self, address):
        """The argument is of the buffer at this address from here on."""
        made = self._made.get(address)
        if made is None:
            made = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGNMENT)
            self._check(self._encode(ctypes.c_void_p(self._aligned(made)), *self._before,
                                     ctypes.c_void_p(address + self._offset), *self._behind), "a tensor map")
            if len(self._made) >= MOST_MAPS:
                self._made.clear()
            self._made[address] = made
        self._parameters[self._index] = self._aligned(made)
        self.address = address

    @staticmethod
    def _aligned(made):
        return -(-ctypes.addressof(made) // MAP_ALIGNMENT) * MAP_ALIGNMENT


class Product:
    """A product by cuBLASLt, described once for a device. Any number of threads may run it at once."""

    def __init__(self, card, library, step, workspace):
        self._card, self._library, self._step = card, library, step
        self._workspace = ctypes.c_size_t(workspace)
        self._one, self._zero = ctypes.c_float(1), ctypes.c_float(0)
        library.cublasLtGetVersion.restype = ctypes.c_size_t
        number = library.cublasLtGetVersion()
        name = f"cuBLASLt {number // 10000}.{number // 100 % 100}.{number % 100}"
        if name != step["product"]:
            raise RuntimeError(f"a product was made for {step['product']}, and here is {name}, whose algorithms differ: "
                               "install that one, or search again with this one")
        batches, m, n, k = step["sizes"]
        self._handle = ctypes.c_void_p()
        with OutsideCapture(card.driver):
            self._call("Create", ctypes.byref(self._handle))
            self._product = self._described()
            self._layouts = [self._layout(step["b"], n, k, batches), self._layout(step["a"], m, k, batches),
                             self._layout(step["d"], m, n, batches)]
            self._algorithm = self._ask(step["algorithm"])
        self._warm = False

    def _described(self):
        step, product = self._step, ctypes.c_void_p()
        self._call("MatmulDescCreate", ctypes.byref(product), COMPUTE_F32, REAL_TYPES["f32"])
        # Its matrices are column major: its first operand is b, its second a, and it writes d transposed.
        for which, value in ((TRANSPOSE_FIRST, not step["b"][5]), (TRANSPOSE_SECOND, step["a"][5])):
            self._set("MatmulDesc", product, which, ctypes.c_int(int(value)))
        if "bias" in step:
            self._set("MatmulDesc", product, EPILOGUE, ctypes.c_uint32(EPILOGUE_BIAS))
            self._set("MatmulDesc", product, BIAS_POINTER, ctypes.c_uint64(SOMEWHERE))
        return product

    def _call(self, name, *arguments):
        status = getattr(self._library, "cublasLt" + name)(*arguments)
        if status:
            raise RuntimeError(f"{self._step['product']}: {name} failed with status {status}")

    def _set(self, kind, thing, which, value):
        self._call(kind + "SetAttribute", thing, which, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value)))

    def _layout(self, matrix, rows, columns, batches):
        _, _, dtype, line, batch, along_rows = matrix
        inner, lines = (rows, columns) if along_rows else (columns, rows)
        layout = ctypes.c_void_p()
        self._call("MatrixLayoutCreate", ctypes.byref(layout), REAL_TYPES[dtype], ctypes.c_uint64(inner),
                   ctypes.c_uint64(lines), ctypes.c_int64(line))
        if batches > 1:
            self._set("MatrixLayout", layout, BATCH_COUNT, ctypes.c_int32(batches))
            self._set("MatrixLayout", layout, BATCH_STRIDE, ctypes.c_int64(batch))
        return layout

    def _ask(self, algorithm):
        preference, count = ctypes.c_void_p(), ctypes.c_int()
        self._call("MatmulPreferenceCreate", ctypes.byref(preference))
        self._set("MatmulPreference", preference, MOST_WORKSPACE, self._workspace)
        self._set("MatmulPreference", preference, REDUCTIONS, ctypes.c_uint32(IN_COMPUTE_TYPE))
        for which in ALIGNMENTS:
            self._set("MatmulPreference", preference, which, ctypes.c_uint32(ALIGNMENT))
        found = (Heuristic * MOST_ALGORITHMS)()
        b, a, d = self._layouts
        self._call("MatmulAlgoGetHeuristic", self._handle, self._product, b, a, d, d, preference, MOST_ALGORITHMS, found,
                   ctypes.byref(count))
        self._call("MatmulPreferenceDestroy", preference)
        if count.value < algorithm:
            raise RuntimeError(f"{self._step['product']} names {count.value} algorithms for a product, "
                               f"and number {algorithm} was chosen")
        return found[algorithm - 1]

    def on(self, row, places, stream):
        """A call that takes nothing, of buffers whose addresses are in the row at places[buffer], as the stream is at
        `stream`, by one thread at a time."""
        operands = [(places[self._step[name][0]], self._step[name][1]) for name in ("a", "b", "d")]
        (at_a, a), (at_b, b), (at_d, d) = operands
        workspace = places[self._step["workspace"]]
        pointer = ctypes.c_void_p
        of_b, of_a, of_d = self._layouts
        one, zero = ctypes.byref(self._one), ctypes.byref(self._zero)
        matmul, handle, product, algorithm = (self._library.cublasLtMatmul, self._handle, self._product,
                                              ctypes.byref(self._algorithm))
        move_bias = None
        if "bias" in self._step:
            product = self._described()  # of its own: its bias moves
            buffer, offset = self._step["bias"]
            move_bias, at_bias, address = (self._library.cublasLtMatmulDescSetAttribute, places[buffer],
                                           ctypes.c_uint64())
            of_address, bytes_of_it = ctypes.byref(address), ctypes.c_size_t(8)

        def run():
            if move_bias is not None and address.value != row[at_bias] + offset:
                address.value = row[at_bias] + offset
                status = move_bias(product, BIAS_POINTER, of_address, bytes_of_it)
                if status:
                    return status
            result = pointer(row[at_d] + d)
            return matmul(handle, product, one, pointer(row[at_b] + b), of_b, pointer(row[at_a] + a), of_a, zero, result,
                          of_d, result, of_d, algorithm, pointer(row[workspace]), self._workspace, pointer(row[stream]))

        def checked():
            if self._warm:
                status = run()
            else:  # it loads its kernels
                with OutsideCapture(self._card.driver):
                    status = run()
            if status:
                raise RuntimeError(f"{self._step['product']}: a product failed with status {status}")
            self._warm = True
            return 0

        return checked


class Lanes:
    """Streams that run beside a caller's, and events by which they meet: of one call at a time, which has them inside.
    The first event is of the lanes' beginning and end, each waited for before the next is recorded. A call that ends
    in the middle leaves nothing in them that the caller's stream does not wait for."""

    def __init__(self, card, device, count, events):
        self._card, self._driver, self._device, self.idle = card, card.driver, device, []
        with OutsideCapture(card.driver):
            self.streams = [card.apart(device) for _ in range(count)]
            self.events = [card.event() for _ in range(events)]
        self.capture, self.caller = 0, 0

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        event = ctypes.c_void_p(self.events[0])
        # Of a call that failed while it is captured, those that it came to.
        begun = [stream for stream in self.streams if self._card.capture(stream, self._device) == self.capture] if kind else ()
        for stream in begun:
            self._driver.cuEventRecord(event, ctypes.c_void_p(stream))
            self._driver.cuStreamWaitEvent(ctypes.c_void_p(self.caller), event, 0)
        self.idle.append(self)


class IdleLanes:
    """A plan's lanes that no call has, by device and by the stream that they run beside: another caller's would have to
    wait for what stands before them."""

    def __init__(self, card, count, events):
        self._card, self._count, self._events = card, count, events
        self._lock, self._idle = allocate_lock(), {}

    def take(self, device, caller):
        """Lanes for a call on that stream. Such as were captured together with another one are part of that capture
        until it ends."""
        card, capture = self._card, self._card.capture(caller, device)
        with self._lock:
            idle = self._idle.setdefault((device, caller), [])
            fitting = [lanes for lanes in idle
                       if lanes.capture == capture or card.capture(lanes.streams[0], device) == 0]
            if fitting:
                idle.remove(fitting[0])
        lanes = fitting[0] if fitting else Lanes(card, device, self._count, self._events)
        lanes.capture, lanes.caller, lanes.idle = capture, caller, idle
        return lanes


class Record:
    """The driver's arguments of one run of a plan, used by one thread at a time.

    All that changes is a row of words: the stream, the tensors' addresses, those of workspace; and behind constants the
    streams and events of other lanes. Kernels' parameters point into it, and those that are tensor maps at what the
    driver made of an address: `maps`. `store` writes the row, maps move with it, then `calls` are made in order.
    """

    def __init__(self, plan, card, functions):
        words = 1 + len(plan.order)
        constants = [value for step in plan.steps for kind, value in step.get("arguments", ())
                     if kind not in ("buffer", "map")]
        lanes = words + len(constants)
        self.row = (ctypes.c_uint64 * (lanes + plan.beside + plan.events))()
        self.store = struct.Struct(f"={words}Q").pack_into
        self.configs, self.calls, self.maps, self.kept = [], [], [], []
        self.stream = self.lanes = None
        self._place = {buffer: 1 + i for i, buffer in enumerate(plan.order)}
        self._next = words
        self._streams = [0] + list(range(lanes, lanes + plan.beside))  # places in the row, as those of events are
        self._events, self._driver = range(lanes + plan.beside, len(self.row)), card.driver
        self._begin_lanes()
        for i, step in enumerate(plan.steps):
            stream = self._streams[step.get("lane", 0)]
            for before in step.get("after", ()):
                self._wait(stream, self._events[plan.awaited[before]])
            if "launch" in step:
                self._add_launch(step, plan.may_overlap[i], card, functions)
            elif "product" in step:
                self.calls.append((functions[i].on(self.row, self._place, stream), (), step["product"]))
            elif step["bytes"] > 0:
                self._add_memory(step, plan, card, stream)
            if i in plan.awaited:
                self._mark(stream, self._events[plan.awaited[i]])
        self._end_lanes()

    def _word(self, place):  # passed by the value that it has when the call is made
        return ctypes.c_uint64.from_buffer(self.row, 8 * place)

    def _wait(self, stream, event):
        self.calls.append((self._driver.cuStreamWaitEvent, (self._word(stream), self._word(event), 0), "a wait of lanes"))

    def _mark(self, stream, event):
        self.calls.append((self._driver.cuEventRecord, (self._word(event), self._word(stream)), "an event of lanes"))

    def _begin_lanes(self):
        if len(self._streams) > 1:
            self._mark(0, self._events[0])
        for stream in self._streams[1:]:
            self._wait(stream, self._events[0])

    def _end_lanes(self):
        for stream in self._streams[1:]:
            self._mark(stream, self._events[0])
            self._wait(0, self._events[0])

    def _add_launch(self, step, may_overlap, card, functions):
        parameters = (ctypes.c_void_p * max(1, len(step["arguments"])))()
        for i, (kind, value) in enumerate(step["arguments"]):
            if kind == "map":
                self.maps.append(Map(card, value, self._place[value[0]], parameters, i))
                continue
            place = self._place[value] if kind == "buffer" else self._next
            if kind != "buffer":
                self.row[place] = value & 0xFFFFFFFFFFFFFFFF  # the low bytes come first
                self._next += 1
            parameters[i] = ctypes.addressof(self.row) + 8 * place
        attributes = (LaunchAttribute * 3)()
        config = LaunchConfig(tuple(step["grid"]), tuple(step["block"]), step["shared"], None,
                              ctypes.addressof(attributes), 0)
        overlaps = step["programmatic"] and may_overlap and not step["cooperative"]
        for kind, value in ((CLUSTER, step["cluster"]), (COOPERATIVE, [1] * step["cooperative"]),
                            (PROGRAMMATIC, [1] if overlaps else [])):
            if value:
                attribute = attributes[config.attribute_count]
                attribute.id, attribute.value[:len(value)] = kind, value
                config.attribute_count += 1
        arguments = (ctypes.c_void_p(ctypes.addressof(config)), functions[step["launch"]],
                     ctypes.c_void_p(ctypes.addressof(parameters)), None)
        self.kept += [parameters, attributes]
        self.configs.append((config, step.get("lane", 0)))
        self.calls.append((card.driver.cuLaunchKernelEx, arguments, step["launch"]))

    def _add_memory(self, step, plan, card, stream):
        word, count = self._word, ctypes.c_size_t(step["bytes"])
        if "fill" in step:
            target = step["fill"]
            count = ctypes.c_size_t(step["bytes"] // 4)
            arguments = (word(self._place[target]), ctypes.c_uint(step["pattern"]), count, word(stream))
            call = card.driver.cuMemsetD32Async
        else:
            target = step["to"]
            arguments = (word(self._place[target]), word(self._place[step["copy"]]), count, word(stream))
            call = card.driver.cuMemcpyDtoDAsync_v2
        self.calls.append((call, arguments, f"filling or copying to {plan.buffers[target][1]}"))

    def set_stream(self, stream):
        self.stream = stream
        for config, lane in self.configs:
            if lane == 0:
                config.stream = stream

    def set_lanes(self, lanes):
        self.lanes = lanes
        for place, word in zip(self._streams[1:] + list(self._events), lanes.streams + lanes.events):
            self.row[place] = word
        for config, lane in self.configs:
            if lane > 0:
                config.stream = lanes.streams[lane - 1]


class Plan:
    def __init__(self, architecture, plan, source, binary):
        self.architecture, self.source, self.binary = architecture, source, binary
        self.workload, self.buffers, self.steps = plan["workload"], plan["buffers"], plan["steps"]
        self.first = Plan(architecture, plan["prepare"], source, binary) if "prepare" in plan else None
        self._find_lanes()
        kinds = ("input", "param", "state", "output", "workspace", "prepared")
        of_kind = {kind: [i for i, buffer in enumerate(self.buffers) if buffer[0] == kind] for kind in kinds}
        given = [i for i, buffer in enumerate(self.buffers) if buffer[0] in GIVEN]
        taken = given + of_kind["param"] + of_kind["state"]
        self.given = len(given)
        self.names = [self.buffers[i][1] for i in taken]
        self.wanted = [self._form(i) for i in taken]
        self.written = {place for place, i in enumerate(taken) if self.buffers[i][0] in ("inout", "state")}
        self.outputs = [self._output(i) for i in of_kind["output"]]
        self.offsets, end = [], 0
        for i in of_kind["workspace"]:
            self.offsets.append(end)
            end += -(-self.buffers[i][2] // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT
        self.workspace = ((end,), (1,), torch.uint8)
        # Buffers in the order in which a run has their addresses.
        self.order = taken + of_kind["output"] + of_kind["workspace"] + of_kind["prepared"]
        # Of what is prepared: the weights, by their places among the tensors; the outputs that this plan takes.
        self.weights = [self.names.index(name, self.given) for name in self.first.names] if self.first else []
        left = [buffer[1] for buffer in self.first.buffers if buffer[0] == "output"] if self.first else []
        self.takes = [left.index(self.buffers[i][1]) for i in of_kind["prepared"]]

    def _find_lanes(self):
        """Steps of one lane follow each other, those of others run beside them."""
        waited_for = sorted({before for step in self.steps for before in step.get("after", ())})
        self.awaited = {step: 1 + i for i, step in enumerate(waited_for)}  # by step: its event
        self.beside = max((step.get("lane", 0) for step in self.steps), default=0)  # streams
        self.events = 1 + len(waited_for) if self.beside else 0
        self.may_overlap, last = [], {}
        for i, step in enumerate(self.steps):
            # Overlap is defined between two kernels; behind a fill or a copy there is nothing to overlap with, and
            # nothing that streams wait for may be between them.
            before = last.get(step.get("lane", 0))
            self.may_overlap.append(before is not None and "launch" in self.steps[before] and not step.get("after")
                                    and before not in self.awaited)
            last[step.get("lane", 0)] = i

    def _form(self, buffer):
        return tuple(self.buffers[buffer][3]), TYPES[self.buffers[buffer][2]]

    def _output(self, buffer):
        """(shape, strides, type) of the caller's tensor."""
        stored, dtype = self._form(buffer)
        places = range(len(stored))
        order = (self.buffers[buffer][4:] or [places])[0]
        axes = sorted(places, key=lambda place: order[place])  # where each of the tensor's own is
        strides = dense_strides(stored)
        return tuple(stored[axis] for axis in axes), tuple(strides[axis] for axis in axes), dtype

    def writing(self, card, stream=None):
        """run(tensor, ...): the outputs, or None where a tensor is not just as wanted, on the current device. `stream`:
        of a device, the one to run on; the current one if not given."""
        tensors = [f"t{i}" for i in range(len(self.wanted))]
        addresses = [f"a{i}" for i in range(len(self.wanted))]
        outputs = [f"y{i}" for i in range(len(self.outputs))]
        names = {"PLAIN": PLAIN, "current_device": card.device, "current_stream": stream or card.stream,
                 "empty": card.empty, "get_ident": get_ident, "card": card, "Record": Record, "plan": self,
                 "seen": Seen(),
                 "functions": {},  # by device
                 "loaded": {}}  # by device: {thread: its record, while it is not used}
        lines = ["device = current_device()"]
        if tensors:
            lines += ["seen_on, same = seen.form",
                      f"if device != seen_on or not same({', '.join(tensors)}):"]
            for i, (t, (shape, dtype)) in enumerate(zip(tensors, self.wanted)):
                names[f"shape{i}"], names[f"type{i}"] = shape, dtype
                lines += [f"    if ({t}.__class__ not in PLAIN or {t}.shape != shape{i} or {t}.dtype is not type{i}",
                          f"            or {t}.get_device() != device or not {t}.is_contiguous()):",
                          "        return None"]
            lines.append(f"    seen.remember(device, {', '.join(tensors)})")
            lines += [f"{a} = {t}.data_ptr()" for t, a in zip(tensors, addresses)]
            lines += [f"if ({' | '.join(addresses)}) % {ALIGNMENT}:", "    return None"]
        for i, (y, form) in enumerate(zip(outputs, self.outputs)):
            names[f"form{i}"] = form
            lines.append(f"{y} = empty(*form{i})")
            addresses.append(f"{y}.data_ptr()")
        if self.offsets:
            names["block_form"] = self.workspace
            lines += ["block = empty(*block_form)", "base = block.data_ptr()"]
            addresses += [f"base + {offset}" for offset in self.offsets]
        if self.first:
            names["prepared"] = Prepared(self, card)
            weights = "".join(f"t{i}, " for i in self.weights)
            key = "".join(f"id(t{i}), a{i}, 0 if t{i}.is_inference() else t{i}._version, " for i in self.weights)
            lines.append(f"kept = prepared.of(module, device, ({key}), ({weights}))")
            addresses.append("*kept.addresses")
        lines += ["records = loaded.get(device)",
                  "if records is None:",
                  "    functions[device] = card.load(plan, device)",
                  "    records = loaded.setdefault(device, {})",
                  "me = get_ident()",
                  "record = records.pop(me, None)",
                  "if record is None:",
                  "    record = Record(plan, card, functions[device])",
                  "stream = current_stream(device)",
                  "if stream != record.stream:",
                  "    record.set_stream(stream)",
                  f"record.store(record.row, 0, stream, {', '.join(addresses)})"]
        if any(kind == "map" for step in self.steps for kind, _ in step.get("arguments", ())):
            lines += ["for map in record.maps:",
                      "    if map.address != record.row[map.place]:",
                      "        map.move(record.row[map.place])"]
        calls = ["for function, arguments, what in record.calls:",
                 "    error = function(*arguments)",
                 "    if error:",
                 "        card.check(card.again(error, device, function, arguments), what)"]
        if self.beside:
            names["idle"] = IdleLanes(card, self.beside, self.events)
            lines += ["with idle.take(device, stream) as lanes:",
                      "    if lanes is not record.lanes:",
                      "        record.set_lanes(lanes)"]
            calls = ["    " + line for line in calls]
        lines += calls
        lines += [f"if len(records) < {MOST_RECORDS}:",
                  "    records[me] = record",
                  f"return ({''.join(y + ', ' for y in outputs)})"]
        return written("run", ["module"] * bool(self.first) + tensors, lines, names)


class Prepared:
    """What a plan makes of weights once for each version of them: for each module, and device."""

    class Kept:
        def __init__(self, key, weights, tensors, takes):
            self.key, self.weights, self.tensors = key, weights, tensors  # nothing else can have the weights' addresses
            self.addresses = tuple(tensors[i].data_ptr() for i in takes)

    def __init__(self, plan, card):
        self._first, self._takes, self._card = plan.first, plan.takes, card
        self._lock, self._apart, self._kept = allocate_lock(), {}, WeakKeyDictionary()

    def of(self, module, device, key, weights):
        kept = self._kept.get(module, {}).get(device)
        return kept if kept is not None and kept.key == key else self._again(module, device, key, weights)

    def _again(self, module, device, key, weights):
        """For the weights as they are now. On a stream of its own, which it waits for: whoever comes next may be on
        any, and it must be no part of a graph that is being captured. Its memory stays the same, which captured
        graphs know."""
        card = self._card
        with self._lock, OutsideCapture(card.driver):
            of_module = self._kept.setdefault(module, {})
            kept = of_module.get(device)
            if kept is not None and kept.key == key:
                return kept
            if device not in self._apart:
                stream = card.apart(device)
                self._apart[device] = stream, self._first.writing(card, lambda _: stream)
            stream, run = self._apart[device]
            if not card.capturing():
                card.settle()  # who writes the weights, and who reads what was made of them before
            tensors = run(*weights)
            if kept is not None:
                for old, new in zip(kept.tensors, tensors):
                    size = ctypes.c_size_t(old.numel() * old.element_size())
                    places = [ctypes.c_uint64(tensor.data_ptr()) for tensor in (old, new)]
                    card.check(card.driver.cuMemcpyDtoDAsync_v2(*places, size, ctypes.c_uint64(stream)), "preparing")
            card.wait(stream)
            kept = Prepared.Kept(key, weights, kept.tensors if kept else tensors, self._takes)
            of_module[device] = kept
            return kept


def tensor_of(owner, name):
    """A module's parameter, buffer or attribute."""
    found = owner._parameters.get(name)
    if found is None:
        found = owner._buffers.get(name)
    return getattr(owner, name) if found is None else found


class Solution:
    """Plans for one computation, a set of shapes each. `call` takes the module that has the parameters, and the
    inputs; it gives a tuple of the plan's outputs, in its order. ValueError names the tensor that no plan is for."""

    def __init__(self, name, architecture, plans, sources, binaries, card=None):
        self.name = name
        self.plans = [Plan(architecture, *given) for given in zip(plans, sources, binaries)]
        self._card, self._runs = card, []
        self._bits = WeakKeyDictionary()  # of a module's weights of eight-bit floats, by their places
        self.call = self._first_call

    def refuse(self, name, what, want):
        raise ValueError(f"{self.name} was made for {name} with {want}, not {what}")

    def seeds(self, count):
        """Of so many draws, by PyTorch's generator: torch.manual_seed decides them, and each replay of a CUDA graph
        has others."""
        self._find_card()
        return self._card.seeds(count)

    def _find_card(self):
        if self._card is None:
            if not torch.cuda.is_available():
                self.refuse("a machine", "this one, where PyTorch sees none", "a CUDA device")
            self._card = Card()

    def _first_call(self, module, *inputs):
        self._find_card()
        call = self._writing()
        self.call = call
        return call(module, *inputs)

    def _writing(self):
        """call(module, input, ...)"""
        plan = self.plans[0]
        given = plan.given
        inputs = [f"x{i}" for i in range(given)]
        tensors = list(inputs)
        # Modes, such as a default device, make each look at a tensor slow.
        lines = ["with no_modes():"]
        for i, name in enumerate(plan.names[given:]):
            *path, leaf = name.split(".")
            owner = "module" + "".join(f"._modules[{part!r}]" for part in path)
            lines += [f"    w{i} = {owner}._parameters.get({leaf!r})",
                      f"    if w{i} is None:",
                      f"        w{i} = tensor_of({owner}, {leaf!r})"]
            tensors.append(f"w{i}")
        self._runs = [one.writing(self._card) for one in self.plans]
        names = {"no_modes": torch._C.DisableTorchFunction, "tensor_of": tensor_of, "adapt": self._adapt}
        for i, run in enumerate(self._runs):
            names[f"run{i}"] = run
            owner = ["module"] * bool(self.plans[i].first)
            lines += [f"    outputs = run{i}({', '.join(owner + tensors)})",
                      "    if outputs is not None:",
                      "        return outputs"]
        lines.append(f"    return adapt(module, [{', '.join(tensors)}])")
        return written("call", ["module"] + inputs, lines, names)

    def _adapt(self, module, tensors):
        """What is not just as wanted is refused by name, or made dense and aligned, and run."""
        device = self._card.device()
        fitting, adapted = list(range(len(self.plans))), []
        for i, tensor in enumerate(tensors):
            name = self.plans[0].names[i]
            if not isinstance(tensor, torch.Tensor):
                self.refuse(name, f"a {type(tensor).__name__}", "a tensor")
            if tensor.dtype == torch.float8_e4m3fn:
                tensor = self._bits_of(module, i, tensor)
            for column, (what, is_it) in enumerate((("shape", tuple(tensor.shape)), ("type", tensor.dtype))):
                wanted = [self.plans[plan].wanted[i][column] for plan in fitting]
                if is_it not in wanted:
                    self.refuse(name, f"{what} {is_it}", " or ".join(f"{what} {w}" for w in dict.fromkeys(wanted)))
                fitting = [plan for plan, w in zip(fitting, wanted) if w == is_it]
            if tensor.get_device() != device:
                self.refuse(name, f"it on {tensor.device}", f"everything on the current CUDA device (cuda:{device})")
            dense = (tensor if tensor.__class__ in PLAIN else tensor.as_subclass(torch.Tensor)).contiguous()
            if dense.data_ptr() % ALIGNMENT:
                dense = dense.clone()
            if i in self.plans[0].written and dense.data_ptr() != tensor.data_ptr():
                self.refuse(name, "a tensor that is scattered or unaligned", "a dense one, since it is written into")
            adapted.append(dense)
        owner = [module] * bool(self.plans[fitting[0]].first)
        return self._runs[fitting[0]](*owner, *adapted)

    def _bits_of(self, module, place, tensor):
        """A view of its bytes: of a weight the same one as before, so that what was prepared of it is known again."""
        if place not in self.plans[0].weights:
            return tensor.view(torch.uint8)
        of_module = self._bits.setdefault(module, {})
        if place not in of_module or of_module[place][0] is not tensor:
            of_module[place] = tensor, tensor.view(torch.uint8)
        bits = of_module[place][1]
        return bits if bits.data_ptr() == tensor.data_ptr() else tensor.view(torch.uint8)
