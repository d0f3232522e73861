// shapes.cuh: the tile shapes that are compiled, one translation unit for each and each input type (launch_shape.cu),
// and which call takes which. The choice depends on widths, extents and the kind of mask, never on contents, batch or
// number of heads.
#pragma once

#include <algorithm>

#include "kernel/cuda/hopper/launch.h"

namespace attest::hopper {

// Up to these numbers of queries the smaller tile wastes less at the edges than it loses inside (docs/results).
constexpr int64_t kFewQueries = 64, kShort64Bounded = 1024, kShort128 = 4096;

//     name, queries, keys, width, stages, turns, rescale early
#define ATTEST_HOPPER_SHAPES(X)                   \
  X(Few64, 64, 128, 64, 4, false, false)          \
  X(Few128, 64, 128, 128, 3, false, false)        \
  X(Few256, 64, 80, 256, 2, false, true)          \
  X(Width64, 192, 128, 64, 2, true, false)        \
  X(Width64Short, 128, 128, 64, 3, true, false)   \
  X(Width128, 128, 176, 128, 2, true, false)      \
  X(Width128Short, 128, 128, 128, 2, true, false) \
  X(Width256, 128, 80, 256, 2, true, true)

enum class ShapeName : int {
#define X(name, ...) name,
  ATTEST_HOPPER_SHAPES(X)
#undef X
};

inline ShapeName shape_for(const CallShape& call) {
  const int64_t width = std::max(call.width, call.value_width);
  if (call.queries <= kFewQueries)
    return width <= 64 ? ShapeName::Few64 : width <= 128 ? ShapeName::Few128 : ShapeName::Few256;
  if (width <= 64)
    return call.bounded && call.queries <= kShort64Bounded ? ShapeName::Width64Short : ShapeName::Width64;
  if (width <= 128) return call.queries <= kShort128 ? ShapeName::Width128Short : ShapeName::Width128;
  return ShapeName::Width256;
}

inline TileSizes sizes_of(ShapeName shape) {
  switch (shape) {
#define X(name, queries, keys, ...) \
  case ShapeName::name: return {queries, keys};
    ATTEST_HOPPER_SHAPES(X)
#undef X
  }
  return {};
}

}  // namespace attest::hopper
