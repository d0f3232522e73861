// layouts.h: where the tensors of a case lie in memory: orders, padding, broadcasts, odd addresses.
//
// Guarantees: relayout() keeps every element; bytes that no element owns are NaN in every type (0xFF), so that
// a kernel that reads past a row shows it; outputs never overlap.
// Example: apply_layout(problem, Regime::padded, true, c);  p.k = relayout(p.k, heads_inside(p.k.layout));
#pragma once

#include "properties/generate/choices.h"
#include "properties/generate/regimes.h"
#include "reference/problem.h"

namespace attest {

// A tensor with the same elements under another layout of the same extents. Where the new layout broadcasts
// (stride 0), index 0 of that dimension is kept.
Tensor relayout(const Tensor& t, const Layout& layout);
BoolMask relayout(const BoolMask& m, const Layout& layout);

// [B, N, H, D] order in memory.
Layout heads_inside(const std::array<int64_t, 4>& extent);
// Packed but for `row`, `head` and `batch` elements of padding after each of them, and an offset.
Layout with_padding(const std::array<int64_t, 4>& extent, int64_t row, int64_t head, int64_t batch, int64_t offset);
// The layout for other extents that keeps an old one's order of dimensions, broadcasts, padding and offset.
Layout like(const Layout& old, const std::array<int64_t, 4>& extent);

// Lays out every tensor of a packed problem. `unaligned`: strides and addresses may be any; otherwise whole
// 16-byte units.
void apply_layout(Problem& p, Regime layout, bool unaligned, Choices& c);

}  // namespace attest
