// launch.h: from the plug-in interface's arguments to launches of one tile shape.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernel/abi/attest_kernel.h"
#include "kernel/cuda/hopper/arguments.cuh"

namespace attest::hopper {

struct TileSizes {
  int query_rows, key_rows;
};

// What the choice of a tile depends on: the same for every call whose rows must have the same bits.
struct CallShape {
  int64_t batches, query_heads, key_heads, queries, keys, width, value_width;
  bool bf16;
  bool bounded;  // some query may see fewer keys than another, by causal mask or window
};

CallShape shape_of(const attest_args& args);

// Bytes of workspace for a call in tiles of these sizes.
uint64_t workspace_bytes(const CallShape& shape, const TileSizes& tile);

// Records of a trace at most.
uint64_t trace_records(const CallShape& shape, const TileSizes& tile);

// Fills `a` for the main pass. False with a reason if the workspace does not suffice.
bool prepare(const attest_args& args, const CallShape& shape, const TileSizes& tile, Arguments& a, char* reason,
             size_t size);

}  // namespace attest::hopper
