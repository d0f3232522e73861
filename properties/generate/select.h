// select.h: the same case with some of its keys, rows, heads, batches or columns, in any order, repeats allowed.
//
// Guarantees: values, masks, bias, lengths and sinks stay with the keys and rows they belong to; layouts keep their
// character (order, padding, broadcasts, offset); scale and choices are unchanged. Causal and window are
// positions, so that selecting keys or rows moves what they hide: take with_explicit_mask() first where the
// visible pairs must stay. A key length becomes the number of selected keys below it, which is the same set
// only where the selection is ascending.
// Indices must be within the dimension.
// Example: Problem without_first = with_keys(problem, range(1, problem.shape.nk));
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/numerics.h"
#include "reference/problem.h"

namespace attest {

std::vector<int64_t> range(int64_t begin, int64_t end);

Problem with_batches(const Problem& p, std::span<const int64_t> batches);
Problem with_key_heads(const Problem& p, std::span<const int64_t> heads);  // each with all of its query heads
Problem with_group(const Problem& p, std::span<const int64_t> members);    // these query heads of every key head
Problem with_rows(const Problem& p, std::span<const int64_t> rows);
Problem with_keys(const Problem& p, std::span<const int64_t> keys);
Problem with_columns(const Problem& p, std::span<const int64_t> columns);  // of Q and K: changes the scores
Problem with_value_columns(const Problem& p, std::span<const int64_t> columns);

// Causal, window and key lengths written into the boolean mask.
Problem with_explicit_mask(const Problem& p, const Conventions& conventions);

}  // namespace attest
