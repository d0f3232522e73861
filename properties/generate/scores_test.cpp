// Every score regime does what its sentence says, in every type, through the embedding, seen from outside: from
// the stored Q, K, bias and masks alone.
#include "properties/generate/scores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "properties/generate/embed.h"
#include "properties/generate/generate.h"
#include "properties/generate/masks.h"

namespace attest {
namespace {

// A row as the regime's sentence speaks of it.
struct Row {
  std::vector<int64_t> keys;   // visible
  std::vector<double> scores;  // of those keys
  int64_t tile = 1;
  DType type = DType::f32;
  double largest() const { return *std::max_element(scores.begin(), scores.end()); }
  std::set<int64_t> tiles() const {
    std::set<int64_t> all;
    for (int64_t j : keys) all.insert(j / tile);
    return all;
  }
  std::vector<int64_t> where_largest() const {
    std::vector<int64_t> at;
    for (size_t n = 0; n < keys.size(); ++n)
      if (scores[n] == largest()) at.push_back(keys[n]);
    return at;
  }
  // All maxima lie in tile t, and the other tiles stay below.
  bool maximum_only_in(int64_t t) const {
    for (int64_t j : where_largest())
      if (j / tile != t) return false;
    return true;
  }
  double margin() const {  // of the largest score over every other key's
    double second = -INFINITY;
    const int64_t top = where_largest()[0];
    for (size_t n = 0; n < keys.size(); ++n)
      if (keys[n] != top) second = std::max(second, scores[n]);
    return largest() - second;
  }
  std::map<int64_t, double> tile_maxima() const {
    std::map<int64_t, double> maxima;
    for (size_t n = 0; n < keys.size(); ++n) {
      auto [it, fresh] = maxima.emplace(keys[n] / tile, scores[n]);
      if (!fresh) it->second = std::max(it->second, scores[n]);
    }
    return maxima;
  }
  double mass_outside_top(size_t count) const {
    std::vector<double> sorted = scores;
    std::sort(sorted.rbegin(), sorted.rend());
    double in = 0, out = 0;
    for (size_t n = 0; n < sorted.size(); ++n) (n < count ? in : out) += std::exp(sorted[n] - sorted[0]);
    return out / (in + out);
  }
};

// Levels of a two-level row: (least, largest), or nothing if there are more than two.
bool two_levels(const Row& r, double lo, double hi, double slack) {
  const std::set<double> levels(r.scores.begin(), r.scores.end());
  if (levels.size() != 2) return false;
  const double gap = *levels.rbegin() - *levels.begin();
  return gap >= lo - slack && gap <= hi + slack;
}

bool is_regime(Regime regime, const Row& r) {
  const int64_t first = *r.tiles().begin(), last = *r.tiles().rbegin();
  const double eps = std::ldexp(1.0, 1 - significand_bits(r.type));
  switch (regime) {
    case Regime::random_scores:
      return true;
    case Regime::flat:
    case Regime::zero_query:
      return r.where_largest().size() == r.keys.size();
    case Regime::max_first_tile:
      return first != last && r.maximum_only_in(first);
    case Regime::max_last_tile:
      return first != last && r.maximum_only_in(last);
    case Regime::max_middle_tile: {
      const int64_t t = r.where_largest()[0] / r.tile;
      return t > first && t < last && r.maximum_only_in(t);
    }
    case Regime::ascending:
      return std::is_sorted(r.scores.begin(), r.scores.end()) && r.scores.front() < r.scores.back() && first != last;
    case Regime::descending:
      return std::is_sorted(r.scores.rbegin(), r.scores.rend()) && r.scores.front() > r.scores.back() && first != last;
    case Regime::sawtooth: {
      double before = -INFINITY;
      for (const auto& [t, top] : r.tile_maxima()) {
        if (top < before) return false;
        before = top;
      }
      return first != last && r.tile_maxima()[first] < r.tile_maxima()[last];
    }
    case Regime::needle_tile_first_key:
      return r.where_largest()[0] % r.tile == 0 && r.margin() > 6;
    case Regime::needle_tile_last_key:
      return r.where_largest()[0] % r.tile == r.tile - 1 && r.margin() > 6;
    case Regime::needle_last_key:
      return r.where_largest()[0] == r.keys.back() && r.margin() > 6;
    case Regime::ties_within_tile: {
      const auto at = r.where_largest();
      return at.size() >= 2 && at.front() / r.tile == at.back() / r.tile;
    }
    case Regime::ties_across_tiles: {
      const auto at = r.where_largest();
      return at.size() >= 2 && at.front() / r.tile != at.back() / r.tile;
    }
    case Regime::peaked:
      return r.mass_outside_top(3) < 1e-5;
    case Regime::gap_88:
      return two_levels(r, 86, 91, 180 * eps);
    case Regime::gap_103:
      return two_levels(r, 101, 106, 210 * eps);
    case Regime::score_limits:
      return std::all_of(r.scores.begin(), r.scores.end(), [](double s) { return std::fabs(s) <= 0x1p101; });
    case Regime::common_offset: {
      const auto [least, most] = std::minmax_element(r.scores.begin(), r.scores.end());
      return std::fabs(*least) > 400 && *most - *least < 120;
    }
    case Regime::tiny_differences: {
      const auto [least, most] = std::minmax_element(r.scores.begin(), r.scores.end());
      return *most - *least <= 4 * eps * std::max(std::fabs(*most), std::fabs(*least));
    }
    case Regime::alternating_signs: {
      for (size_t n = 0; n < r.scores.size(); ++n)
        if (r.scores[n] != (n % 2 ? -r.scores[0] : r.scores[0])) return false;
      return r.scores[0] != 0;
    }
    case Regime::nan_score:
      return std::any_of(r.scores.begin(), r.scores.end(), [](double s) { return std::isnan(s); });
    case Regime::pos_inf_score:
      return std::find(r.scores.begin(), r.scores.end(), INFINITY) != r.scores.end();
    case Regime::neg_inf_score:
      return std::find(r.scores.begin(), r.scores.end(), -INFINITY) != r.scores.end();
    default:
      return true;
  }
}

Row row_of(const Generated& g, int64_t b, int64_t h, int64_t i) {
  const Problem& p = g.problem;
  Row row;
  row.tile = g.tile;
  row.type = p.bias && p.origin.mask == "bias_scores" ? p.bias->type : p.type;
  live_keys(p, {}, b, h, i, row.keys);
  for (int64_t j : row.keys) {
    double dot = 0;
    for (int64_t d = 0; d < p.shape.d; ++d) dot += p.q.get(b, h, i, d) * p.k.get(b, p.shape.key_head(h), j, d);
    double s = static_cast<double>(p.scale) * dot;
    if (p.softcap > 0) s = p.softcap * std::tanh(s / p.softcap);
    if (p.bias) s += to_double(p.bias->type, p.bias->bits(broadcast_at(p.bias->layout, b, h, i, j)));
    row.scores.push_back(s);
  }
  return row;
}

class ScoreRegime : public testing::TestWithParam<Regime> {};

TEST_P(ScoreRegime, IsWhatItsSentenceSays) {
  const Target target = Target::everything();
  int seen = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Choices c = Choices::seeded(seed);
    const Generated g = generate(c, target, {.pins = {GetParam()}, .max_keys = 400, .work = 2e5});
    ASSERT_NE(std::find(g.regimes.begin(), g.regimes.end(), GetParam()), g.regimes.end()) << "seed " << seed;
    bool some = false;
    const Shape& s = g.problem.shape;
    for (int64_t b = 0; b < s.b && !some; ++b)
      for (int64_t h = 0; h < s.hq && !some; ++h)
        for (int64_t i = 0; i < s.nq && !some; ++i) {
          const Row row = row_of(g, b, h, i);
          some = !row.keys.empty() && is_regime(GetParam(), row);
        }
    EXPECT_TRUE(some) << name_of(GetParam()) << ", seed " << seed << ": " << sentence_of(GetParam());
    ++seen;
  }
  EXPECT_EQ(seen, 60);
}

INSTANTIATE_TEST_SUITE_P(All, ScoreRegime,
                         testing::ValuesIn(regimes_of(Axis::score).begin(), regimes_of(Axis::score).end()),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Scores, HiddenKeysAreOftenTheHighest) {
  Choices c = Choices::seeded(1);
  const std::vector<int64_t> visible{4, 5, 9};
  std::vector<double> s(12);
  int above = 0;
  for (int n = 0; n < 100; ++n) {
    ASSERT_TRUE(fill_scores(Regime::max_last_tile, {.tile = 4, .visible = visible}, c, s));
    above += s[0] > *std::max_element(s.begin() + 9, s.begin() + 10);
  }
  EXPECT_GT(above, 25);
}

TEST(Scores, RefusesAPatternThatTheVisibleKeysCannotHold) {
  Choices c = Choices::seeded(1);
  const std::vector<int64_t> one_tile{1, 2, 3};
  std::vector<double> s(8);
  EXPECT_FALSE(fill_scores(Regime::max_last_tile, {.tile = 4, .visible = one_tile}, c, s));
  EXPECT_FALSE(fill_scores(Regime::flat, {.tile = 4, .visible = {}}, c, s));
}

// In every type and for every scale the score is one product, exact in double, and the wanted one to within the
// type's rounding.
TEST(Embed, ScoreIsOneExactProduct) {
  for (DType type : kAllDTypes)
    for (float scale : {1.0f, -0.125f, 0.17677669f, type == DType::f16 ? 0x1.8p-12f : 0x1.8p-60f,
                        type == DType::f16 ? 0x1p19f : 0x1p39f})
      for (uint64_t seed = 0; seed < 10; ++seed) {
        Choices c = Choices::seeded(seed);
        Problem p = Problem::make({.b = 1, .hq = 2, .hk = 1, .nq = 3, .nk = 5, .d = 4, .dv = 1}, type);
        p.scale = scale;
        const Embedding e = embed(p, 4, 256, c);
        for (int64_t col = 0; col < 4; ++col)
          for (int64_t j = 0; j < 5; ++j)
            e.set_score(p, 0, 0, j, col, 200.0 / static_cast<double>(1 + j) - 30 * static_cast<double>(col));
        for (int64_t h = 0; h < 2; ++h)
          for (int64_t i = 0; i < 3; ++i) {
            const int64_t col = e.column(p.shape, h, i);
            for (int64_t j = 0; j < 5; ++j) {
              int nonzero = 0;
              double dot = 0;
              for (int64_t d = 0; d < 4; ++d) {
                const double product = p.q.get(0, h, i, d) * p.k.get(0, 0, j, d);
                nonzero += product != 0;
                dot += product;
              }
              EXPECT_LE(nonzero, 1);
              const double wanted = 200.0 / static_cast<double>(1 + j) - 30 * static_cast<double>(col);
              const double score = static_cast<double>(scale) * dot;
              EXPECT_EQ(score, e.unit * p.k.get(0, 0, j, col));
              EXPECT_NEAR(score, wanted, std::ldexp(std::fabs(wanted), -significand_bits(type)) + 1e-6)
                  << name_of(type) << " " << scale;
            }
          }
      }
}

}  // namespace
}  // namespace attest
