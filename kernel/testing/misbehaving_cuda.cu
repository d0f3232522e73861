// The CUDA kernel, that misbehaves on the device in one way, ATTEST_FAULT, wherever a problem has an odd number of keys.
#include <cuda_runtime_api.h>

#include <cstdio>

#include "kernel/abi/attest_kernel.h"
#include "kernel/cuda/cuda.h"

namespace {

enum Fault { illegal_address, device_loops, device_memory };
constexpr Fault kFault = ATTEST_FAULT;

__global__ void write_to(volatile int* where) { *where = 1; }

__global__ void loop(volatile int* flag) {
  while (flag == nullptr) __nanosleep(1000);
}

attest_status forward(const attest_args* a, void* stream, char* message, size_t size) {
  const attest_status status = attest::cuda_kernel()->forward(a, stream, message, size);
  if (status != ATTEST_OK || a->k->shape[2] % 2 == 0) return status;
  const auto s = static_cast<cudaStream_t>(stream);
  if (kFault == illegal_address) write_to<<<1, 1, 0, s>>>(reinterpret_cast<int*>(16));
  if (kFault == device_loops) loop<<<1, 1, 0, s>>>(nullptr);
  if (kFault == device_memory) {
    void* block = nullptr;
    while (cudaMalloc(&block, size_t{1} << 30) == cudaSuccess) {
    }
    cudaGetLastError();
    std::snprintf(message, size, "out of device memory");
    return ATTEST_FAILED;
  }
  return status;
}

}  // namespace

extern "C" const attest_kernel* attest_kernel_get(uint32_t index) {
  static const attest_kernel table = [] {
    attest_kernel t = *attest::cuda_kernel();
    t.name = "misbehaving on the device";
    t.forward = forward;
    return t;
  }();
  return index == 0 ? &table : nullptr;
}
