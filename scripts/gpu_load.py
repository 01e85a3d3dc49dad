"""`python -m scripts.gpu_load UUID SECONDS MIB`: keeps one GPU busy for so long and holds so much of its memory.

Through the driver's own CUDA library, which is wherever a GPU can be used; nothing else is needed. Says `holding` once
the memory is there, and ends with 0; with 3 and a sentence where there is no CUDA.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time

NO_CUDA = 3
THREADS, BLOCKS, ROUNDS = 256, 2048, 200_000
MOST_S = 120.0
KERNEL = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry busy(.param .u64 out, .param .u32 rounds)
{
    .reg .pred %p<2>;
    .reg .f32 %f<7>;
    .reg .b32 %r<7>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [rounds];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    cvt.rn.f32.u32 %f1, %r5;
    mov.f32 %f2, %f1;
    mov.f32 %f3, %f1;
    mov.f32 %f4, %f1;
    mov.f32 %f5, 0f3F800001;
    mov.f32 %f6, 0f33800000;
    mov.u32 %r6, 0;
AGAIN:
    fma.rn.f32 %f1, %f1, %f5, %f6;
    fma.rn.f32 %f2, %f2, %f5, %f6;
    fma.rn.f32 %f3, %f3, %f5, %f6;
    fma.rn.f32 %f4, %f4, %f5, %f6;
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p1, %r6, %r1;
    @%p1 bra AGAIN;
    add.f32 %f1, %f1, %f2;
    add.f32 %f3, %f3, %f4;
    add.f32 %f1, %f1, %f3;
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r5, 4;
    add.s64 %rd4, %rd2, %rd3;
    st.global.f32 [%rd4], %f1;
    ret;
}
"""


class CudaError(RuntimeError):
    """A call of the driver's that failed, with its code."""


class Cuda:
    """The few calls of the CUDA driver that a load needs."""

    def __init__(self) -> None:
        """Raises OSError where there is no library, CudaError where it finds no device."""
        self._library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", ctypes.c_uint(0))
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise CudaError(f"{name} failed with {code}")

    def hold(self, size_bytes: int) -> ctypes.c_uint64:
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size_bytes))
        return address

    def kernel(self) -> ctypes.c_void_p:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(KERNEL + b"\0"))
        self.call("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(b"busy"))
        return function

    def run(self, function: ctypes.c_void_p, address: ctypes.c_uint64) -> None:
        """One launch over all threads, waited for."""
        rounds = ctypes.c_uint32(ROUNDS)
        parameters = (ctypes.c_void_p * 2)(
            *(ctypes.cast(ctypes.byref(one), ctypes.c_void_p) for one in (address, rounds))
        )
        shape = (ctypes.c_uint(size) for size in (BLOCKS, 1, 1, THREADS, 1, 1, 0))
        self.call("cuLaunchKernel", function, *shape, None, parameters, None)
        self.call("cuCtxSynchronize")


def main(arguments: list[str]) -> int:
    uuid, seconds, mib = arguments[0], min(float(arguments[1]), MOST_S), int(arguments[2])
    os.environ |= {"CUDA_VISIBLE_DEVICES": uuid}
    try:
        cuda = Cuda()
        address = cuda.hold(max(mib << 20, THREADS * BLOCKS * 4))
        function = cuda.kernel()
    except (OSError, AttributeError, CudaError) as error:
        print(f"no load can be made here: {error}", file=sys.stderr)
        return NO_CUDA
    print("holding", flush=True)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        cuda.run(function, address)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
