"""libsluice.so through ctypes, as far as the scripts of this folder need it.

The structs are those of runtime/sluice.h, version 0.1: each starts with its own size, which the
library checks. Options that are not set here come from the environment (SLUICE_DRIVER, ...)."""

import ctypes
import pathlib
from typing import Any, NamedTuple


class SluiceError(RuntimeError):
    """A call that failed: its status, and the sentence of the calling thread's record."""


class _Options(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("log_level", ctypes.c_uint32),
        ("log_function", ctypes.c_void_p),
        ("log_user", ctypes.c_void_p),
        ("driver", ctypes.c_char_p),
        ("vram_limit", ctypes.c_uint64),
        ("vram_headroom", ctypes.c_uint64),
        ("pinned_limit", ctypes.c_uint64),
        ("ring", ctypes.c_uint64),
        ("slot", ctypes.c_uint64),
        ("io", ctypes.c_uint32),
        ("io_workers", ctypes.c_uint32),
        ("direct_io", ctypes.c_uint32),
        ("fast_disk", ctypes.c_uint32),
        ("huge_pages", ctypes.c_uint32),
    ]


class _Error(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("status", ctypes.c_int32),
        ("domain", ctypes.c_int32),
        ("code", ctypes.c_int32),
        ("call", ctypes.c_char * 64),
        ("message", ctypes.c_char * 1024),
    ]


class _CheckpointInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("shard_count", ctypes.c_uint32),
        ("tensor_count", ctypes.c_uint64),
        ("block_count", ctypes.c_uint64),
        ("data_bytes", ctypes.c_uint64),
        ("format", ctypes.c_uint32),
    ]


class _TensorInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("type", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("shard", ctypes.c_uint32),
        ("dimension_count", ctypes.c_uint32),
        ("shape", ctypes.POINTER(ctypes.c_uint64)),
        ("file_offset", ctypes.c_uint64),
        ("size_bytes", ctypes.c_uint64),
        ("block", ctypes.c_uint64),
    ]


class Tensor(NamedTuple):
    """A tensor as the library describes it, and its device address once it is loaded."""

    name: str
    type: str  # as in a safetensors header, or ggml's name
    shape: tuple[int, ...]  # the dimension that varies slowest first
    file_offset: int
    size_bytes: int
    address: int


def _sized(struct: type[ctypes.Structure]) -> Any:
    return struct(struct_size=ctypes.sizeof(struct))


def find_library(program: pathlib.Path) -> pathlib.Path | None:
    """The shared library beside a program, under its plain name or a versioned one."""
    found = sorted(program.resolve().parent.glob("libsluice.so*"))
    return next((path for path in found if path.exists()), None)


class Library:
    """One runtime and GPU 0 of it. Checkpoints are loaded one at a time."""

    def __init__(self, path: pathlib.Path, **options: str):
        """options: as flags, with underscores for dashes: direct_io="off"."""
        self._c = ctypes.CDLL(str(path))
        self._declare()
        self._runtime, self._device = ctypes.c_void_p(), ctypes.c_void_p()
        self._checkpoint, self._buffer = ctypes.c_void_p(), ctypes.c_void_p()
        self._addresses: Any = None
        settings = _sized(_Options)
        for name, value in options.items():
            flag = name.replace("_", "-").encode()
            self._check(self._c.sluice_options_set(ctypes.byref(settings), flag, value.encode()))
        self._check(
            self._c.sluice_runtime_create(ctypes.byref(settings), ctypes.byref(self._runtime))
        )
        self._check(self._c.sluice_device_open(self._runtime, 0, ctypes.byref(self._device)))

    def _declare(self) -> None:
        pointer, u64, u32 = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32
        text = ctypes.c_char_p
        for name, arguments in (
            ("sluice_options_set", [pointer, text, text]),
            ("sluice_runtime_create", [pointer, pointer]),
            ("sluice_runtime_destroy", [pointer]),
            ("sluice_device_open", [pointer, u32, pointer]),
            ("sluice_device_close", [pointer]),
            ("sluice_device_trim", [pointer, pointer]),
            ("sluice_stream_synchronize", [pointer, pointer]),
            ("sluice_copy_to_host", [pointer, u64, u64, pointer, pointer]),
            ("sluice_checkpoint_open", [pointer, text, pointer]),
            ("sluice_checkpoint_close", [pointer]),
            ("sluice_checkpoint_info_get", [pointer, pointer]),
            ("sluice_checkpoint_tensor", [pointer, u64, pointer]),
            (
                "sluice_checkpoint_load",
                [pointer, pointer, u64, pointer, pointer, pointer, pointer, pointer, pointer],
            ),
            ("sluice_error_get", [pointer]),
        ):
            function = getattr(self._c, name)
            function.argtypes, function.restype = arguments, ctypes.c_int
        self._c.sluice_buffer_destroy.argtypes = [pointer]
        self._c.sluice_buffer_destroy.restype = None
        for name, kind in (("sluice_status_name", ctypes.c_int32), ("sluice_type_name", u32)):
            getattr(self._c, name).argtypes = [kind]
            getattr(self._c, name).restype = text

    def _check(self, status: int) -> None:
        if status == 0:
            return
        error = _sized(_Error)
        self._c.sluice_error_get(ctypes.byref(error))
        name = self._c.sluice_status_name(status).decode()
        raise SluiceError(f"{name}: {error.message.decode(errors='replace')}")

    def load(self, path: pathlib.Path) -> None:
        """Opens a checkpoint, loads every tensor of it, and waits until all bytes are there."""
        self._check(
            self._c.sluice_checkpoint_open(
                self._runtime, str(path).encode(), ctypes.byref(self._checkpoint)
            )
        )
        info = _sized(_CheckpointInfo)
        self._check(self._c.sluice_checkpoint_info_get(self._checkpoint, ctypes.byref(info)))
        self._addresses = (ctypes.c_uint64 * max(info.tensor_count, 1))()
        self._count = int(info.tensor_count)
        self._check(
            self._c.sluice_checkpoint_load(
                self._checkpoint,
                self._device,
                0,
                None,
                None,
                None,
                None,
                ctypes.byref(self._buffer),
                self._addresses,
            )
        )
        self._check(self._c.sluice_stream_synchronize(self._device, None))

    def tensors(self) -> list[Tensor]:
        """Those of the loaded checkpoint."""
        result = []
        for index in range(self._count):
            info = _sized(_TensorInfo)
            self._check(
                self._c.sluice_checkpoint_tensor(self._checkpoint, index, ctypes.byref(info))
            )
            result.append(
                Tensor(
                    info.name.decode(),
                    self._c.sluice_type_name(info.type).decode(),
                    tuple(info.shape[i] for i in range(info.dimension_count)),
                    info.file_offset,
                    info.size_bytes,
                    self._addresses[index],
                )
            )
        return result

    def read_back(self, address: int, size_bytes: int) -> bytearray:
        """Device memory, copied to the host."""
        target = bytearray(size_bytes)
        if size_bytes:
            host = (ctypes.c_char * size_bytes).from_buffer(target)
            self._check(
                self._c.sluice_copy_to_host(
                    self._device, address, size_bytes, None, ctypes.addressof(host)
                )
            )
        return target

    def unload(self) -> None:
        """Gives the checkpoint's memory back, to the driver too. Harmless without one."""
        buffer, self._buffer = self._buffer, ctypes.c_void_p()
        self._c.sluice_buffer_destroy(buffer)
        if self._checkpoint:
            self._check(self._c.sluice_checkpoint_close(self._checkpoint))
            self._checkpoint = ctypes.c_void_p()
        self._check(self._c.sluice_device_trim(self._device, None))

    def close(self) -> None:
        """Ends device and runtime."""
        self.unload()
        self._check(self._c.sluice_device_close(self._device))
        self._check(self._c.sluice_runtime_destroy(self._runtime))
