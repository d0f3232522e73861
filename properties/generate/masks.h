// masks.h: which keys the rows of a case see: causal, window, key lengths, boolean masks and additive bias, alone
// and combined.
//
// Guarantees: only operands whose feature bits are given are added; the problem stays valid. Boolean masks and
// biases take extents of 1 among their dimensions at random. What masked keys hold is not decided here.
// Example: apply_mask(problem, Regime::leading_tiles_masked, {.tile = 64, .features = target.features}, c);
#pragma once

#include <cstdint>
#include <vector>

#include "properties/generate/choices.h"
#include "properties/generate/regimes.h"
#include "reference/numerics.h"
#include "reference/problem.h"

namespace attest {

struct MaskWishes {
  int64_t tile = 64;
  uint32_t features = 0;      // attest_feature bits that may be used
  int64_t visible_tiles = 1;  // tiles to leave visible where whole tiles are masked
  bool boolean_only = false;  // mask by the boolean mask where the regime leaves it open, not by bias
};

void apply_mask(Problem& p, Regime mask, const MaskWishes& wishes, Choices& c);

// Gives the problem a bias of zeros with these extents, f32 or in the input type, whichever is offered.
Tensor& add_bias(Problem& p, std::array<int64_t, 4> extent, uint32_t features, Choices& c);

// The keys whose scores decide the row: visible, with a bias above the lowest finite one.
void live_keys(const Problem& p, const Conventions& conventions, int64_t b, int64_t h, int64_t i,
               std::vector<int64_t>& keys);

}  // namespace attest
