// embed.h: deliberate scores through any attention kernel, which takes Q and K and no scores.
//
// With q_i = c * e_col and K[j, col] = s_ij / (scale * c), c a power of two, the dot product is one exact
// product, so score (i, j) is exactly scale * c * K[j, col] whatever order or width a kernel sums in: the stored
// K is the wanted score rounded once to the input type, and equal wanted scores stay equal.
// A key head has `columns` deliberate score rows; the rows that read it take them in turn, so rows beyond
// `columns` share. Works for any scale but 0 and for every type.
// Source: design section 5.
// Example: Embedding e = embed(problem, columns, /*reach=*/64, c);  e.set_score(problem, b, g, j, col, s);
#pragma once

#include <cstdint>

#include "properties/generate/choices.h"
#include "reference/problem.h"

namespace attest {

struct Embedding {
  int64_t columns = 1;  // columns of Q and K in use, the first ones
  double c = 1;         // what the queries hold in their column, a power of two
  double unit = 1;      // scale * c: a score is unit times the stored element of K; not 0

  // Column that query row i of head h reads.
  int64_t column(const Shape& s, int64_t h, int64_t i) const { return ((h % (s.hq / s.hk)) * s.nq + i) % columns; }
  void set_score(Problem& p, int64_t b, int64_t g, int64_t j, int64_t col, double score) const;
};

// Zeroes Q and writes its ones; K is left as it is. `reach` bounds the |scores| to come: c is chosen so that
// reach / unit is finite in the type, and near 1 where that leaves a choice. p.scale must not be 0.
Embedding embed(Problem& p, int64_t columns, double reach, Choices& c);

}  // namespace attest
