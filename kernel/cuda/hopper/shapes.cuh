// shapes.cuh: the choice of a tile shape. It depends on widths, extents and the kind of mask, never on contents,
// batch or number of heads.
#pragma once

#include "kernel/cuda/hopper/launch.cuh"
#include "kernel/cuda/hopper/shapes.h"

namespace attest::hopper {

//                         queries keys width stages turns rescale early
using Width64 = Tile<192, 128, 64, 2, true, false>;
using Width64Short = Tile<128, 128, 64, 3, true, false>;
using Width128 = Tile<128, 176, 128, 2, true, false>;
using Width128Short = Tile<128, 128, 128, 2, true, false>;
using Width256 = Tile<128, 80, 256, 2, true, true>;

// Up to these numbers of queries the smaller tile wastes less at the edges than it loses inside (docs/results).
constexpr int64_t kShort64Bounded = 1024, kShort128 = 4096;

template <class T>
attest_status forward_as(const attest_args& args, const CallShape& shape, cudaStream_t stream, char* message,
                         size_t size) {
  const int64_t width = std::max(shape.width, shape.value_width);
  const auto run =
      width <= 64    ? shape.bounded && shape.queries <= kShort64Bounded ? launch<Width64Short, T> : launch<Width64, T>
         : width <= 128 ? shape.queries <= kShort128 ? launch<Width128Short, T> : launch<Width128, T>
                        : launch<Width256, T>;
  return run(args, shape, stream, message, size);
}

}  // namespace attest::hopper
