"""Hands tensors to another process without copying them through a pipe.

On a card a tensor is named by the IPC handle of the allocation it lies in and its offset there; the
tensor must live until the other side has copied it. On the processor it is written to a
shared-memory object. `release` ends all that was handed over.
"""
import ctypes
import errno
import itertools
import os
import re

SHARED = "/dev/shm"
PREFIX = "warpsmith-torch-"
HANDLE_BYTES = 64


class Handover:
    """Base: keeps what was handed over alive."""

    def __init__(self):
        self._kept = []

    def give(self, tensor):
        """{handle, offset, bytes} of a contiguous tensor."""
        raise NotImplementedError

    def release(self):
        self._kept.clear()


class CudaHandover(Handover):
    def __init__(self):
        super().__init__()
        self._cuda = ctypes.CDLL("libcuda.so.1")

    def _check(self, result, call):
        if result != 0:
            raise RuntimeError(f"{call} failed with CUDA error {result}")

    def give(self, tensor):
        base, size = ctypes.c_uint64(), ctypes.c_size_t()
        address = tensor.data_ptr()
        self._check(self._cuda.cuMemGetAddressRange_v2(
            ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(address)), "cuMemGetAddressRange")
        handle = (ctypes.c_ubyte * HANDLE_BYTES)()
        self._check(self._cuda.cuIpcGetMemHandle(handle, base), "cuIpcGetMemHandle")
        self._kept.append(tensor)
        return {"handle": bytes(handle).hex(), "offset": address - base.value,
                "bytes": tensor.numel() * tensor.element_size()}


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


class SharedHandover(Handover):
    _numbers = itertools.count(1)  # of a process's objects, whoever gives them

    def __init__(self):
        super().__init__()
        for name in os.listdir(SHARED):  # what processes that were killed left behind
            match = re.fullmatch(PREFIX + r"(\d+)-\d+", name)
            if match and not _alive(int(match[1])):
                self._unlink(name)

    @staticmethod
    def _unlink(name):
        try:
            os.unlink(os.path.join(SHARED, name))
        except FileNotFoundError:
            pass

    def give(self, tensor):
        name = f"{PREFIX}{os.getpid()}-{next(self._numbers)}"
        self._kept.append(name)
        size = tensor.numel() * tensor.element_size()
        try:
            with open(os.path.join(SHARED, name), "xb") as file:
                file.write((ctypes.c_char * size).from_address(tensor.data_ptr()))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise RuntimeError(f"{SHARED} has no room for {size} bytes: enlarge it (docker run --shm-size)") from error
        return {"handle": "/" + name, "offset": 0, "bytes": size}

    def release(self):
        for name in self._kept:
            self._unlink(name)
        super().release()


def for_device(device):
    return CudaHandover() if device.startswith("cuda") else SharedHandover()
