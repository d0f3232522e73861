#include "corpus/score_embedding.h"

#include <cmath>

namespace attest {
namespace {

int64_t column_of(const Shape& s, int64_t h, int64_t i) { return (h % (s.hq / s.hk)) * s.nq + i; }

}  // namespace

int64_t columns_needed(const Shape& s) { return s.hk == 0 ? 0 : s.hq / s.hk * s.nq; }

int64_t most_embedded_elements(int64_t scores) { return (int64_t{1} << 20) + 64 * scores; }

std::optional<size_t> embed_scores(Problem& p, const EmbeddedScores& scores) {
  const Shape& s = p.shape;
  p.q = Tensor::packed(p.type, {s.b, s.hq, s.nq, s.d});
  p.k = Tensor::packed(p.type, {s.b, s.hk, s.nk, s.d});
  size_t at = 0;
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t h = 0; h < s.hq; ++h)
      for (int64_t i = 0; i < s.nq; ++i) {
        const int64_t column = column_of(s, h, i);
        p.q.set(b, h, i, column, scores.unit);
        for (int64_t j = 0; j < s.nk; ++j, ++at) {
          p.k.set(b, s.key_head(h), j, column, scores.score[at] / scores.unit);
          if (!std::isfinite(p.k.get(b, s.key_head(h), j, column))) return at;
        }
      }
  return std::nullopt;
}

std::optional<EmbeddedScores> embedded_scores(const Problem& p) {
  const Shape& s = p.shape;
  if (s.b == 0 || s.hk == 0 || s.nq == 0 || s.nk == 0 || s.d < columns_needed(s)) return std::nullopt;
  const int64_t count = s.b * s.hq * s.nq * s.nk;
  if (p.q.layout.count() + p.k.layout.count() > most_embedded_elements(count)) return std::nullopt;
  EmbeddedScores found;
  found.unit = p.q.get(0, 0, 0, column_of(s, 0, 0));
  int exponent = 0;
  if (!(found.unit > 0) || std::frexp(found.unit, &exponent) != 0.5) return std::nullopt;
  found.score.reserve(static_cast<size_t>(count));
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t h = 0; h < s.hq; ++h)
      for (int64_t i = 0; i < s.nq; ++i)
        for (int64_t j = 0; j < s.nk; ++j) found.score.push_back(found.unit * p.k.get(b, s.key_head(h), j, column_of(s, h, i)));
  for (double score : found.score)
    if (!std::isfinite(score)) return std::nullopt;
  Problem again;
  again.shape = s;
  again.type = p.type;
  if (embed_scores(again, found) || again.q != p.q || again.k != p.k) return std::nullopt;
  return found;
}

}  // namespace attest
