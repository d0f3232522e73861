#include "properties/generate/embed.h"

#include <algorithm>
#include <cmath>

#include "properties/generate/floats.h"

namespace attest {

void Embedding::set_score(Problem& p, int64_t b, int64_t g, int64_t j, int64_t col, double score) const {
  p.k.set_bits(p.k.layout.at(b, g, j, col), saturate(p.type, score / unit));
}

Embedding embed(Problem& p, int64_t columns, double reach, Choices& c) {
  Embedding e;
  e.columns = columns;
  // Exponents: the stored K stays a factor 2 below the largest finite number, and c within the normal range.
  const int most = p.type == DType::f16 ? 14 : 126;
  const int needed = std::ilogb(std::max(reach, 1.0)) + 1 - std::ilogb(std::fabs(p.scale));
  const int lo = std::max(needed - most, min_normal_exponent(p.type));
  constexpr int kNear[] = {0, 1, -1, 2, -2, 3, 5, -4};
  // A scale far from 1 is met half way, so that neither factor leaves the middle of its range.
  const int middle = std::abs(needed) > 12 ? needed / 2 : 0;
  // A score of 1 is stored as 2^-5 or more where that is possible, far from the subnormal numbers of f16.
  const int hi = std::max(4 - std::ilogb(std::fabs(p.scale)), lo);
  e.c = std::ldexp(1.0, std::min(std::clamp(c.pick(kNear) + middle, lo, hi), most));
  e.unit = static_cast<double>(p.scale) * e.c;
  std::fill(p.q.storage.begin(), p.q.storage.end(), uint8_t{0});
  const uint32_t bits = from_double(p.type, e.c);
  const Shape& s = p.shape;
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t h = 0; h < s.hq; ++h)
      for (int64_t i = 0; i < s.nq; ++i) p.q.set_bits(p.q.layout.at(b, h, i, e.column(s, h, i)), bits);
  return e;
}

}  // namespace attest
