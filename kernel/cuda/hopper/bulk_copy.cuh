// bulk_copy.cuh: tiles from device memory to shared memory by the copy engine.
//
// A tile of R rows and W columns (W a multiple of 64, 2-byte elements) lies in shared memory as W/64 panels of
// R rows x 128 bytes, each panel in the 128-byte swizzle that the matrix unit reads: 16-byte chunk c of row r is
// stored at chunk c ^ (r % 8). Rows and columns outside the tensor arrive as zeros.
// PTX ISA: "cp.async.bulk.tensor", "Tensor swizzling modes", "setmaxnreg".
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernel/cuda/hopper/barrier.cuh"

namespace attest::hopper {

constexpr int kPanelColumns = 64;
constexpr int kPanelRowBytes = 128;

__device__ inline void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<uint64_t>(map)) : "memory");
}

// Starts the copy of one panel; `barrier` counts its bytes. Coordinates: column, row, head, batch.
__device__ inline void copy_panel(void* panel, const CUtensorMap* map, TransferBarrier& barrier, int column, int row,
                                  int head, int batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(shared_address(panel)),
      "l"(reinterpret_cast<uint64_t>(map)), "r"(shared_address(&barrier)), "r"(column), "r"(row), "r"(head), "r"(batch)
      : "memory");
}

// Starts the copy of `Rows` x `Columns` elements into panels of `PanelRows` rows, and announces its bytes.
template <int Rows, int Columns, int PanelRows = Rows>
__device__ inline void copy_tile(void* tile, const CUtensorMap* map, TransferBarrier& barrier, int row, int head,
                                 int batch) {
  barrier.arrive_and_expect(Rows * Columns * 2);
#pragma unroll
  for (int panel = 0; panel < Columns / kPanelColumns; ++panel)
    copy_panel(static_cast<char*>(tile) + panel * PanelRows * kPanelRowBytes, map, barrier, panel * kPanelColumns, row,
               head, batch);
}

// Byte offset of 16-byte chunk `chunk` of row `row` in a swizzled panel.
__device__ inline int swizzled_offset(int row, int chunk) { return row * kPanelRowBytes + ((chunk ^ (row & 7)) << 4); }

// Registers move between the warpgroups of a block: those that copy give up what those that compute need.
template <int Count>
__device__ inline void shrink_registers_to() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}
template <int Count>
__device__ inline void grow_registers_to() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}

}  // namespace attest::hopper
