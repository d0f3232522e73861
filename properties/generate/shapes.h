// shapes.h: the sizes of a case: around tile edges, unrelated to each other, and affordable.
//
// Guarantees: D and Dv are ones that the target offers; `least` and `most` are kept where the target allows;
// the case's work, B * Hq * Nq * Nk * (D + Dv), stays within five times `work` (once in thirty; otherwise
// within `work`) unless the least sizes alone exceed it.
// Of freely drawn shapes about a third have 128 keys or more, 8 % 512, 2 % 2048; over half have D and Dv of 32
// or more (shapes_test.cpp holds the shares).
// Example: Shape s = draw_shape(c, target, {.tile = 64, .least = {.nk = 65}});
#pragma once

#include "properties/generate/choices.h"
#include "properties/generate/target.h"
#include "reference/problem.h"

namespace attest {

struct ShapeWishes {
  DType type = DType::f32;
  int64_t tile = 64;                                                         // sizes gather around its multiples
  Shape least{.b = 1, .hq = 1, .hk = 1, .nq = 1, .nk = 1, .d = 1, .dv = 1};  // hq is ignored
  Shape most{.b = 64, .hq = 64, .hk = 64, .nq = 4096, .nk = 4200, .d = 1 << 20, .dv = 1 << 20};
  bool grouped = false;       // Hq > Hk
  bool may_group = true;      // Hq may exceed Hk
  bool more_queries = false;  // Nq > Nk
  bool aligned = false;       // rows of whole 16-byte units
  double work = 1.5e6;
};

Shape draw_shape(Choices& c, const Target& target, const ShapeWishes& wishes);

}  // namespace attest
