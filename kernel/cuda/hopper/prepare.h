// prepare.h: from the plug-in interface's arguments to those of a launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernel/abi/attest_kernel.h"
#include "kernel/cuda/hopper/arguments.cuh"

namespace attest::hopper {

struct TileSizes {
  int query_rows, key_rows, width;
};

// What the choice of a tile depends on: the same for every call whose rows must have the same bits.
struct CallShape {
  int64_t batches, query_heads, key_heads, queries, keys, width, value_width;
  bool bf16;
  bool bounded;  // some query may see fewer keys than another, by causal mask or window
};

// False with a reason where this path refuses the call.
bool examine(const attest_args& args, CallShape& shape, char* reason, size_t size);

// Bytes of workspace for a call: states of rows, strips and warps.
uint64_t workspace_bytes(const CallShape& shape);

// Fills `a` for tiles of these sizes. False with a reason if the copy engine cannot describe a tensor.
bool prepare(const attest_args& args, const CallShape& shape, const TileSizes& tile, Arguments& a, char* reason,
             size_t size);

}  // namespace attest::hopper
