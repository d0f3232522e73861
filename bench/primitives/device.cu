#include "bench/primitives/evaluate.h"

#include <cuda_runtime.h>

namespace attest::primitives {

namespace {

template <Function f>
__global__ void evaluate_each(uint32_t first, uint32_t n, double* out) {
  const uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < n) out[at] = evaluate<f>(first + at);
}

}  // namespace

const char* evaluate_on_device(Function f, uint32_t first, uint32_t n, double* out) {
  static double* results = nullptr;
  static uint32_t capacity = 0;
  cudaError_t error = cudaSuccess;
  if (n > capacity) {
    cudaFree(results);
    error = cudaMalloc(&results, n * sizeof(double));
    capacity = error == cudaSuccess ? n : 0;
  }
  if (error == cudaSuccess) {
    dispatch(f, [&]<Function g>() { evaluate_each<g><<<(n + 255) / 256, 256>>>(first, n, results); });
    error = cudaGetLastError();
  }
  if (error == cudaSuccess) error = cudaMemcpy(out, results, n * sizeof(double), cudaMemcpyDeviceToHost);
  return error == cudaSuccess ? "" : cudaGetErrorString(error);
}

const char* device_name() {
  static cudaDeviceProp properties;
  return cudaGetDeviceProperties(&properties, 0) == cudaSuccess ? properties.name : "";
}

}  // namespace attest::primitives
