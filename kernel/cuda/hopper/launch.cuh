// launch.cuh: one tile shape's launches, in order: the main pass, the rows with non-finite values, the exact rows.
#pragma once

#include <cstdio>

#include "kernel/cuda/hopper/attention.cuh"
#include "kernel/cuda/hopper/exact_rows.cuh"
#include "kernel/cuda/hopper/prepare.h"

namespace attest::hopper {

template <class Tile, class T>
attest_status launch(const attest_args& args, const CallShape& shape, cudaStream_t stream, char* message, size_t size) {
  Arguments a;
  if (!prepare(args, shape, {Tile::query_rows, Tile::key_rows, Tile::width}, a, message, size)) return ATTEST_UNSUPPORTED;

  int device = 0, multiprocessors = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  constexpr int kSharedBytes = sizeof(Shared<Tile>) + 1024;  // the dynamic part starts at any multiple of 16
  if (error == cudaSuccess)
    error = cudaFuncSetAttribute(attention<Tile, T>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error == cudaSuccess) {
    const int blocks = std::min<int64_t>(multiprocessors, int64_t{a.blocks} * a.query_heads * a.batches);
    a.main_warps = blocks * Tile::consumers * 4;
    a.pass = Pass::main;
    attention<Tile, T><<<blocks, Tile::threads, kSharedBytes, stream>>>(a);
    a.pass = Pass::clean_values;
    attention<Tile, T><<<blocks, Tile::threads, kSharedBytes, stream>>>(a);
    exact_rows<T><<<multiprocessors, kExactThreads, 0, stream>>>(a);
    error = cudaGetLastError();
  }
  if (error == cudaSuccess) return ATTEST_OK;
  std::snprintf(message, size, "could not launch the Hopper kernel: %s", cudaGetErrorString(error));
  return ATTEST_FAILED;
}

}  // namespace attest::hopper
