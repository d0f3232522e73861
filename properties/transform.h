// transform.h: exact rearrangements of a Problem, from which relations between runs are made.
//
// Guarantee: values are moved, copied or negated bit for bit, never rounded; a function that cannot be exact
// says so by nullopt. Every result is packed (Layout::packed in every tensor and output) unless said
// otherwise, keeps the extents of broadcast mask and bias, and is valid where the argument is.
// Example: Problem twice = take_keys(p, {0, 0, 1, 1});   // every key of a problem with two keys doubled
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "reference/alignment.h"
#include "reference/numerics.h"
#include "reference/problem.h"

namespace attest {

// The same contents without padding, offsets or stride 0 in q, k, v, mask, bias and the outputs.
Problem packed(const Problem& problem);

// The keys at these places, in this order; a place may come twice. Key lengths, causal and window are
// positions and stay as they are: the caller answers for them.
Problem take_keys(const Problem& problem, std::span<const int64_t> keys);
// The batches, or the key heads with their query heads, at these places.
Problem take_batches(const Problem& problem, std::span<const int64_t> batches);
Problem take_key_heads(const Problem& problem, std::span<const int64_t> key_heads);

// Each key head repeated so that Hk = Hq.
Problem repeat_key_heads(const Problem& problem);

// 1 where row i of (b, h) sees key j, by all masks together; packed [B, Hq, Nq, Nk].
BoolMask visible_mask(const Problem& problem, const Conventions& conventions);
// Is key j of key head hk visible to no row of any of its query heads?
std::vector<uint8_t> unseen_keys(const Problem& problem, const Conventions& conventions, int64_t b, int64_t key_head);

// A mask or bias of the full extent [B, Hq, Nq, Nk].
BoolMask expanded(const BoolMask& mask, const Shape& shape);
Tensor expanded(const Tensor& bias, const Shape& shape);

// V with every sign changed (layouts stay).
Problem negate_values(const Problem& problem);
// V times 2^exponent (layouts stay); nullopt where a value would be rounded, overflow or become subnormal.
std::optional<Problem> scale_values(const Problem& problem, int exponent);
// Bias and sink plus c (layouts stay; a problem without bias gets one of a single element); nullopt where a
// sum is not exact.
std::optional<Problem> shift_scores(const Problem& problem, float c);

// The same contents in another layout: dimensions permuted, rows padded with `fill`, offsets, all multiples of
// 16 bytes, so that the alignment class stays.
Problem relaid(const Problem& packed_problem, uint64_t seed, uint8_t fill);
// The same contents at addresses and strides of element alignment only.
Problem misaligned(const Problem& packed_problem);

}  // namespace attest
