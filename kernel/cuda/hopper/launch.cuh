// launch.cuh: one tile shape's launches, in order: the main pass; the joining of splits; the walk for a trace.
#pragma once

#include <algorithm>
#include <cstdio>

#include "kernel/cuda/hopper/attention.cuh"
#include "kernel/cuda/hopper/launch.h"
#include "kernel/cuda/hopper/merge_splits.cuh"

namespace attest::hopper {

// `early`: may be set up while the launch before it still runs; it waits for that one's end itself.
inline cudaError_t launch_kernel(void (*kernel)(Arguments), int blocks, int threads, int shared_bytes, bool early,
                                 const Arguments& a, cudaStream_t stream) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = early;
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks, config.blockDim = threads, config.dynamicSmemBytes = shared_bytes, config.stream = stream;
  config.attrs = &attribute, config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, a);
}

// Runs beside the setup of the main pass, which a copy of one word to the device would hold up.
static __global__ void reset_counter(const __grid_constant__ Arguments a) {
  let_next_launch_prepare();
  *a.next_place = 0;
}

template <class Tile, class T>
attest_status launch(const attest_args& args, const CallShape& shape, cudaStream_t stream, char* message, size_t size) {
  Arguments a;
  if (!prepare(args, shape, {Tile::query_rows, Tile::key_rows}, a, message, size)) return ATTEST_FAILED;

  int device = 0, multiprocessors = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  constexpr int kSharedBytes = sizeof(Shared<Tile>) + 1024;  // the dynamic part starts at any multiple of 16
  if (error == cudaSuccess)
    error = cudaFuncSetAttribute(attention<Tile, T>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error == cudaSuccess && a.next_place) error = launch_kernel(reset_counter, 1, 1, 0, false, a, stream);
  const int blocks = std::min(multiprocessors, places(a));
  if (error == cudaSuccess)
    error = launch_kernel(attention<Tile, T>, blocks, Tile::threads, kSharedBytes, a.next_place != nullptr, a, stream);
  if (error == cudaSuccess && a.splits > 1) {
    const int64_t rows = shape.batches * shape.query_heads * shape.queries;
    error = launch_kernel(merge_splits<T>, static_cast<int>(std::min<int64_t>(rows, 1 << 16)), kMergeThreads, 0, true,
                          a, stream);
  }
  if (error == cudaSuccess && a.trace_records) {
    a.tracing = 1, a.next_place = nullptr;
    error = launch_kernel(attention<Tile, T>, blocks, Tile::threads, kSharedBytes, true, a, stream);
  }
  if (error == cudaSuccess) return ATTEST_OK;
  std::snprintf(message, size, "could not launch the Hopper kernel: %s", cudaGetErrorString(error));
  return ATTEST_FAILED;
}

}  // namespace attest::hopper
