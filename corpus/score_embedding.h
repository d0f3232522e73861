// score_embedding.h: Q and K that give chosen dot products, and the way back.
//
// Row i of query head h reads column c(h, i) = (h mod Hq/Hk) * Nq + i of its key head: q holds `unit`, a power of
// two, there and 0 elsewhere, and K[j, c(h, i)] = s_ij / unit. The dot product of row i and key j is then one exact
// product, whatever order or precision a kernel sums in. Columns past the last row's are 0.
// Source: design section 5. The generators embed with shared columns too; such problems are written as q and k.
// Example: three scores of one row: embed_scores(p, {.unit = 1, .score = {1, 2, 3}}) makes q = [[1]], k = [[1],[2],[3]].
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reference/problem.h"

namespace attest {

struct EmbeddedScores {
  double unit = 1;            // a power of two
  std::vector<double> score;  // packed [B, Hq, Nq, Nk], before the scale
};

// Columns that the rows of one key head need: Nq * Hq / Hk.
int64_t columns_needed(const Shape& shape);

// Most elements that q and k together may have where a file gives only scores.
int64_t most_embedded_elements(int64_t scores);

// Fills q and k (packed, of the problem's shape and type). Needs Hk > 0, D >= columns_needed, all scores finite.
// Returns the index of the first score that the type cannot hold divided by the unit, or nullopt.
std::optional<size_t> embed_scores(Problem& problem, const EmbeddedScores& scores);

// The scores that embed_scores would turn into exactly this q and k; nullopt if there are none.
std::optional<EmbeddedScores> embedded_scores(const Problem& problem);

}  // namespace attest
