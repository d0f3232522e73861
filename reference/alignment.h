// alignment.h: how a problem's tensors are aligned. The contract lets a kernel take another path, within the two bounds, for
// another alignment class; within one, strides and addresses change no bits.
#pragma once

#include <vector>

#include "reference/problem.h"

namespace attest {

// Greatest power of two, at most 16, that divides the byte offsets and strides of q, k, v, o and bias: over
// all dimensions, and over those longer than one. Kernels choose bulk copies by it.
struct Alignment {
  int64_t all = 16, used = 16;
  bool operator==(const Alignment&) const = default;
};
std::vector<Alignment> alignment_class(const Problem& problem);

}  // namespace attest
