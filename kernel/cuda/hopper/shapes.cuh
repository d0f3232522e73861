// shapes.cuh: the choice of a tile shape. It depends on widths, extents and the kind of mask, never on contents,
// batch or number of heads.
#pragma once

#include "kernel/cuda/hopper/launch.cuh"
#include "kernel/cuda/hopper/shapes.h"

namespace attest::hopper {

//                    queries keys width stages turns  rescale early
using Width64 = Tile<192, 128, 64, 2, true, false>;
using Width64Short = Tile<128, 128, 64, 3, true, false>;
using Width128 = Tile<128, 176, 128, 2, true, false>;
using Width128Bounded = Tile<128, 128, 128, 2, true, false>;
using Width256 = Tile<128, 80, 256, 2, true, true>;

constexpr int64_t kShort = 2048;  // up to here a causal mask leaves too much of a block of 192 queries unused

template <class T>
attest_status forward_as(const attest_args& args, const CallShape& shape, cudaStream_t stream, char* message, size_t size) {
  const int64_t width = std::max(shape.width, shape.value_width);
  if (width <= 64 && shape.bounded && shape.queries <= kShort)
    return launch<Width64Short, T>(args, shape, stream, message, size);
  if (width <= 64) return launch<Width64, T>(args, shape, stream, message, size);
  if (width > 128) return launch<Width256, T>(args, shape, stream, message, size);
  if (shape.bounded) return launch<Width128Bounded, T>(args, shape, stream, message, size);
  return launch<Width128, T>(args, shape, stream, message, size);
}

}  // namespace attest::hopper
