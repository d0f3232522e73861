#include "properties/generate/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "reference/visible.h"

namespace attest {
namespace {

bool has(const Generated& g, Regime r) { return std::find(g.regimes.begin(), g.regimes.end(), r) != g.regimes.end(); }

double work(const Shape& s) {
  return static_cast<double>(s.rows()) * static_cast<double>(s.nk) * static_cast<double>(s.d + s.dv);
}

uint32_t features_used(const Problem& p) {
  uint32_t f = 0;
  if (p.causal) f |= ATTEST_CAUSAL;
  if (p.window.left || p.window.right) f |= ATTEST_WINDOW;
  if (p.key_lengths) f |= ATTEST_KEY_LENGTHS;
  if (p.mask) f |= ATTEST_MASK;
  if (p.bias && p.type != DType::f32) f |= p.bias->type == DType::f32 ? ATTEST_BIAS_F32 : ATTEST_BIAS_INPUT_TYPE;
  if (p.softcap > 0) f |= ATTEST_SOFTCAP;
  if (p.sink) f |= ATTEST_SINK;
  if (p.shape.hk < p.shape.hq) f |= ATTEST_GROUPED_HEADS;
  const auto strided = [](const Layout& l) {
    Layout packed = Layout::packed(l.extent);
    packed.offset = l.offset;
    return l != packed;
  };
  if (strided(p.q.layout) || strided(p.k.layout) || strided(p.v.layout) || strided(p.o) || strided(p.lse))
    f |= ATTEST_STRIDES;
  for (const Tensor* t : {&p.q, &p.k, &p.v})
    for (int64_t x : {t->layout.offset, t->layout.stride[2]})
      if (t->layout.count() > 0 && x * size_of(t->type) % 16) f |= ATTEST_UNALIGNED;
  return f;
}

TEST(Generate, EveryByteStringGivesAValidProblem) {
  const Target target = Target::everything();
  Choices random = Choices::seeded(1);
  std::vector<uint8_t> data;
  for (int n = 0; n < 3000; ++n) {
    data.resize(n < 600 ? static_cast<size_t>(n) : random.below(200));
    const auto fill = n % 3;  // random, all ones, or small numbers
    for (uint8_t& byte : data)
      byte = fill == 0 ? static_cast<uint8_t>(random.bits(8)) : fill == 1 ? 0xFF : static_cast<uint8_t>(random.bits(2));
    Choices c = Choices::bytes(data);
    const Generated g = generate(c, target, {.max_keys = 300, .work = 1e5});
    ASSERT_EQ(validate(g.problem), std::nullopt) << "string " << n;
    ASSERT_LE(g.problem.shape.nk, 300);
  }
}

TEST(Generate, EmptyStringGivesAPlainProblem) {
  Choices c = Choices::bytes({});
  const Generated g = generate(c, Target::everything());
  EXPECT_FALSE(g.problem.mask || g.problem.bias || g.problem.sink || g.problem.causal);
  EXPECT_TRUE(has(g, Regime::random_scores) && has(g, Regime::packed));
  EXPECT_EQ(g.problem.shape.rows(), 2);
}

TEST(Generate, SameChoicesSameProblem) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Choices a = Choices::seeded(seed), b = Choices::seeded(seed);
    const Generated x = generate(a, Target::everything()), y = generate(b, Target::everything());
    ASSERT_TRUE(same(x.problem, y.problem)) << "seed " << seed;
    ASSERT_EQ(x.regimes, y.regimes);
  }
}

// Golden: g++ -O3 and clang -O0 give this number. Whoever changes a generator on purpose takes the new one, having
// seen it under both.
TEST(Generate, SeedGivesTheSameCasesOnEveryCompiler) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  const auto add = [&](const void* data, size_t size) {
    for (size_t n = 0; n < size; ++n) hash = (hash ^ static_cast<const uint8_t*>(data)[n]) * 1099511628211u;
  };
  for (uint64_t seed = 0; seed < 600; ++seed) {
    Choices c = Choices::seeded(seed);
    const Generated g = generate(c, Target::everything(), {.max_keys = 600, .work = 1e5});
    for (const Tensor* t : {&g.problem.q, &g.problem.k, &g.problem.v, g.problem.bias ? &*g.problem.bias : nullptr})
      if (t) add(t->storage.data(), t->storage.size());
    if (g.problem.mask) add(g.problem.mask->storage.data(), g.problem.mask->storage.size());
    if (g.problem.sink) add(g.problem.sink->data(), g.problem.sink->size() * sizeof(float));
    add(&g.problem.scale, sizeof(float));
    add(g.regimes.data(), g.regimes.size());
  }
  EXPECT_EQ(hash, 202338255670011793u);
}

// The contract has O right where sum P v leaves f32 and only the quotient fits: such columns must be drawn.
TEST(Generate, ExtremeValuesReachSumsThatLeaveF32) {
  std::map<DType, int> cases;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Choices c = Choices::seeded(seed);
    const Problem p = generate(c, Target::everything(), {.pins = {Regime::extreme_values}, .max_keys = 300, .work = 1e5}).problem;
    bool leaves = false;
    for (int64_t b = 0; b < p.shape.b; ++b)
      for (int64_t h = 0; h < p.shape.hk; ++h)
        for (int64_t d = 0; d < p.shape.dv; ++d) {
          double sum = 0;
          for (int64_t j = 0; j < p.shape.nk; ++j) sum += p.v.get(b, h, j, d);
          leaves = leaves || (std::isfinite(sum) && std::fabs(sum) > largest_finite(DType::f32));
        }
    cases[p.type] += leaves ? 1 : 0;
  }
  EXPECT_GE(cases[DType::f32], 20);
  EXPECT_GE(cases[DType::bf16], 20);
}

// The mix that a run of free cases has: the shares that issue 2 asks for, and the room that the budget needs.
TEST(Generate, MixOfTenThousandCases) {
  const Target target = Target::everything();
  constexpr int kCases = 10000;
  double total_work = 0, most_work = 0;
  int64_t rows = 0, keys_128 = 0, keys_512 = 0, keys_2048 = 0, wide = 0, least_d = 1000, most_d = 0, least_dv = 1000,
          most_dv = 0;
  std::map<DType, int> types;
  for (uint64_t n = 0; n < kCases; ++n) {
    Choices c = Choices::seeded(Choices::mix(1, n));
    const Generated g = generate(c, target);
    ASSERT_EQ(validate(g.problem), std::nullopt) << "case " << n;
    const Shape& s = g.problem.shape;
    rows += s.rows();
    keys_128 += s.nk >= 128, keys_512 += s.nk >= 512, keys_2048 += s.nk >= 2048;
    wide += s.d >= 32 && s.dv >= 32;
    least_d = std::min(least_d, s.d), most_d = std::max(most_d, s.d);
    least_dv = std::min(least_dv, s.dv), most_dv = std::max(most_dv, s.dv);
    total_work += work(s), most_work = std::max(most_work, work(s));
    ++types[g.problem.type];
  }
  EXPECT_GE(keys_128, kCases * 30 / 100);
  EXPECT_GE(keys_512, kCases * 6 / 100);
  EXPECT_GE(keys_2048, kCases * 15 / 1000);
  EXPECT_GE(wide, kCases * 55 / 100);
  EXPECT_GE(rows, kCases * 4);
  EXPECT_EQ(least_d, 1);
  EXPECT_EQ(least_dv, 1);
  EXPECT_EQ(most_d, 256);
  EXPECT_EQ(most_dv, 256);
  EXPECT_LE(total_work / kCases, 1e6);
  EXPECT_LE(most_work, 1e7);
  for (DType t : kAllDTypes) EXPECT_GE(types[t], kCases / 4);
}

class EveryRegime : public testing::TestWithParam<Regime> {};

TEST_P(EveryRegime, CanBePinned) {
  const Target target = Target::everything();
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Choices c = Choices::seeded(seed);
    const Generated g = generate(c, target, {.pins = {GetParam()}, .work = 3e4});
    ASSERT_EQ(validate(g.problem), std::nullopt) << "seed " << seed;
    ASSERT_TRUE(has(g, GetParam())) << "seed " << seed;
    for (Regime a : g.regimes)
      for (Regime b : g.regimes) ASSERT_TRUE(compatible(a, b)) << name_of(a) << " with " << name_of(b);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryRegime, testing::ValuesIn(all_regimes().begin(), all_regimes().end()),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// Whether the case is what a regime other than a score's says, read off the problem.
void expect_regime(const Generated& g, Regime r) {
  const Problem& p = g.problem;
  const Shape& s = p.shape;
  std::vector<int64_t> keys;
  int64_t empty_rows = 0, rows_of_one = 0, hidden_first_tile = 0, hidden_last_tile = 0, gaps = 0, all_visible = 0;
  const int64_t last_tile = (s.nk - 1) / g.tile;
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t h = 0; h < s.hq; ++h)
      for (int64_t i = 0; i < s.nq; ++i) {
        visible_keys(p, {}, b, h, i, keys);
        std::erase_if(keys, [&](int64_t j) {
          return p.bias && to_double(p.bias->type, p.bias->bits(broadcast_at(p.bias->layout, b, h, i, j))) == -INFINITY;
        });
        empty_rows += keys.empty();
        rows_of_one += keys.size() == 1;
        all_visible += static_cast<int64_t>(keys.size()) == s.nk;
        if (keys.empty()) continue;
        hidden_first_tile += keys.front() >= g.tile;
        hidden_last_tile += keys.back() / g.tile < last_tile;
        for (size_t n = 1; n < keys.size(); ++n)
          if (keys[n] / g.tile > keys[n - 1] / g.tile + 1) {
            ++gaps;
            break;
          }
      }
  const auto v_all = [&](auto f) {
    bool all = true;
    for (int64_t b = 0; b < s.b; ++b)
      for (int64_t k = 0; k < s.hk; ++k)
        for (int64_t j = 0; j < s.nk; ++j)
          for (int64_t col = 0; col < s.dv; ++col) all &= f(j, col, p.v.get(b, k, j, col));
    return all;
  };
  const bool plain = has(g, Regime::plain_payload);  // payload overwrites V where nothing sees it
  switch (r) {
    case Regime::no_mask:
    case Regime::window_everything:
      EXPECT_EQ(all_visible, s.rows());
      break;
    case Regime::causal:
      EXPECT_TRUE(p.causal);
      break;
    case Regime::window:
      EXPECT_TRUE(p.window.left && p.window.right);
      break;
    case Regime::window_one_sided:
      EXPECT_NE(p.window.left.has_value(), p.window.right.has_value());
      break;
    case Regime::window_zero:
      EXPECT_EQ(rows_of_one + empty_rows, s.rows());
      break;
    case Regime::causal_window:
      EXPECT_TRUE(p.causal && p.window.left);
      break;
    case Regime::length_zero:
      EXPECT_EQ(std::count(p.key_lengths->begin(), p.key_lengths->end(), 0) > 0, true);
      break;
    case Regime::length_one:
      EXPECT_EQ(rows_of_one, s.rows());
      break;
    case Regime::leading_tiles_masked:
      EXPECT_GT(hidden_first_tile, 0);
      break;
    case Regime::trailing_tiles_masked:
      EXPECT_GT(hidden_last_tile, 0);
      break;
    case Regime::middle_tiles_masked:
      EXPECT_GT(gaps, 0);
      break;
    case Regime::fully_masked_row:
      EXPECT_GT(empty_rows, 0);
      break;
    case Regime::one_visible_key:
      EXPECT_EQ(rows_of_one, s.rows());
      break;
    case Regime::no_keys:
      EXPECT_EQ(s.nk, 0);
      break;
    case Regime::negative_scale:
      EXPECT_LT(p.scale, 0);
      break;
    case Regime::zero_scale:
      EXPECT_EQ(p.scale, 0);
      break;
    case Regime::tiny_scale:
      EXPECT_TRUE(p.scale > 0 && p.scale < 0.02);
      break;
    case Regime::huge_scale:
      EXPECT_GT(p.scale, 30);
      break;
    case Regime::sink_minus_infinity:
      EXPECT_EQ(p.sink->at(0), -INFINITY);
      break;
    case Regime::ones:
      EXPECT_TRUE(!plain || v_all([](int64_t, int64_t, double x) { return x == 1; }));
      break;
    case Regime::tile_indicators:
      EXPECT_TRUE(!plain ||
                  v_all([&](int64_t j, int64_t col, double x) { return x == (j / g.tile % s.dv == col ? 1 : 0); }));
      break;
    case Regime::key_digits:
      EXPECT_TRUE(!plain ||
                  v_all([](int64_t j, int64_t col, double x) { return x == (col < 63 ? (j >> col) & 1 : 0); }));
      break;
    case Regime::random_wide:
      EXPECT_GE(s.dv, 32);
      break;
    case Regime::non_finite_value:
      EXPECT_FALSE(v_all([](int64_t, int64_t, double x) { return std::isfinite(x); }));
      break;
    case Regime::cancelling:
    case Regime::extreme_values:
      EXPECT_TRUE(!plain || v_all([](int64_t, int64_t, double x) { return std::isfinite(x); }));
      break;
    case Regime::heads_inside:
      EXPECT_EQ(p.q.layout.stride[1], s.d);
      break;
    case Regime::broadcast_keys:
      EXPECT_TRUE((s.b > 1 && !p.k.layout.stride[0]) || (s.hk > 1 && !p.k.layout.stride[1]));
      break;
    case Regime::odd_offset:
      EXPECT_TRUE(p.q.layout.offset % 2 == 1 && p.q.layout.stride[2] % 2 == 1);
      break;
    case Regime::decode:
      EXPECT_EQ(s.nq, 1);
      break;
    case Regime::grouped_heads:
      EXPECT_GT(s.hq, s.hk);
      break;
    case Regime::more_queries_than_keys:
      EXPECT_GT(s.nq, s.nk);
      break;
    case Regime::one_key:
      EXPECT_EQ(s.nk, 1);
      break;
    case Regime::many_heads:
      EXPECT_TRUE(s.b > 1 && s.hk > 1);
      break;
    case Regime::empty_output:
      EXPECT_EQ(s.rows(), 0);
      break;
    default:
      break;
  }
}

TEST(Generate, CasesAreWhatTheirRegimesSay) {
  for (Regime pin : all_regimes())
    for (uint64_t seed = 0; seed < 25; ++seed) {
      Choices c = Choices::seeded(seed + 500);
      const Generated g = generate(c, Target::everything(), {.pins = {pin}, .max_keys = 500, .work = 1e5});
      for (Regime r : g.regimes) {
        SCOPED_TRACE(std::string(name_of(r)) + " (pinned " + std::string(name_of(pin)) + ", seed " +
                     std::to_string(seed) + ")");
        expect_regime(g, r);
      }
      if (HasFailure()) return;
    }
}

// What masked keys hold never reaches a key that some row sees.
TEST(Generate, PayloadStaysWhereNoRowLooks) {
  for (Regime payload : {Regime::non_finite_payload, Regime::loud_payload})
    for (uint64_t seed = 0; seed < 200; ++seed) {
      Choices c = Choices::seeded(seed);
      const Generated g =
          generate(c, Target::everything(),
                   {.pins = {payload}, .never_traits = kNonFinite | kOutOfRange, .max_keys = 300, .work = 1e5});
      const Problem& p = g.problem;
      const Shape& s = p.shape;
      std::vector<int64_t> keys;
      for (int64_t b = 0; b < s.b; ++b)
        for (int64_t h = 0; h < s.hq; ++h)
          for (int64_t i = 0; i < s.nq; ++i) {
            visible_keys(p, {}, b, h, i, keys);
            for (int64_t j : keys) {
              for (int64_t d = 0; d < s.d; ++d)
                ASSERT_TRUE(std::isfinite(p.k.get(b, s.key_head(h), j, d))) << "seed " << seed;
              for (int64_t d = 0; d < s.dv; ++d)
                ASSERT_TRUE(std::isfinite(p.v.get(b, s.key_head(h), j, d))) << "seed " << seed;
              if (!p.bias) continue;
              const double bias = to_double(p.bias->type, p.bias->bits(broadcast_at(p.bias->layout, b, h, i, j)));
              ASSERT_LT(bias, INFINITY) << "seed " << seed;
            }
          }
      bool somewhere = false;
      for (int64_t n = 0; n < p.k.layout.span(); ++n) {
        const double x = to_double(p.type, p.k.bits(n));
        somewhere |= !std::isfinite(x) || std::fabs(x) > 0.9 * largest_finite(p.type);
      }
      ASSERT_TRUE(somewhere) << "seed " << seed;
    }
}

TEST(Generate, NeverLeavesWhatTheTargetOffers) {
  for (int bit = 0; bit <= 12; ++bit) {
    Target target = Target::everything();
    target.features &= bit < 12 ? ~(1u << bit) : 0u;  // each feature missing, then all
    target.tiles = {32};
    target.splits.clear();
    target.types = {DType::f16, DType::bf16};
    for (uint64_t seed = 0; seed < 150; ++seed) {
      Choices c = Choices::seeded(seed);
      const Generated g = generate(c, target, {.max_keys = 300, .work = 1e5});
      ASSERT_EQ(features_used(g.problem) & ~target.features, 0u) << "without bit " << bit << ", seed " << seed;
      ASSERT_NE(g.problem.type, DType::f32);
      ASSERT_EQ(g.problem.choice.splits, 0);
      ASSERT_TRUE(g.problem.choice.tile_keys == 0 || g.problem.choice.tile_keys == 32);
    }
  }
}

TEST(Generate, KeepsToHeadWidthsOfAList) {
  Target target = Target::everything();
  target.widths = {64, 128};
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Choices c = Choices::seeded(seed);
    const Shape s = generate(c, target).problem.shape;
    EXPECT_TRUE(s.d == s.dv && (s.d == 64 || s.d == 128));
  }
}

TEST(Generate, KeepsToTheRecipe) {
  Recipe recipe{.never = {Regime::flat},
                .never_traits = kWild | kNonFinite | kOutOfRange,
                .embedded = true,
                .never_features = ATTEST_CAUSAL | ATTEST_WINDOW | ATTEST_KEY_LENGTHS | ATTEST_SINK,
                .type = DType::bf16,
                .min_tiles = 3,
                .choose_tile = true,
                .min_queries = 2,
                .max_width = 64,
                .work = 2e5};
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Choices c = Choices::seeded(seed);
    const Generated g = generate(c, Target::everything(), recipe);
    const Problem& p = g.problem;
    ASSERT_EQ(validate(p), std::nullopt);
    EXPECT_FALSE(p.causal || p.window.left || p.window.right || p.key_lengths || p.sink);
    EXPECT_EQ(p.type, DType::bf16);
    EXPECT_GT(p.choice.tile_keys, 0);
    EXPECT_GT(p.shape.nk, 2 * g.tile);
    EXPECT_TRUE(p.shape.nq >= 2 || has(g, Regime::empty_output));
    EXPECT_LE(std::max(p.shape.d, p.shape.dv), 64);
    EXPECT_NE(p.origin.regime, "flat");
    for (Regime r : g.regimes) {
      EXPECT_EQ(traits_of(r) & recipe.never_traits, 0u) << name_of(r);
      EXPECT_TRUE(axis_of(r) != Axis::score || (traits_of(r) & kEmbedded)) << name_of(r);
    }
  }
}

TEST(Generate, SaysWhatItCannotHave) {
  const Target target = Target::everything();
  EXPECT_TRUE(can_have(target, {}, Regime::causal));
  EXPECT_FALSE(can_have(target, {.never_features = ATTEST_CAUSAL}, Regime::causal));
  EXPECT_FALSE(can_have(target, {.pins = {Regime::one_key}}, Regime::max_last_tile));
  EXPECT_FALSE(can_have(target, {.never_traits = kNonFinite}, Regime::nan_score));
  Target bare = target;
  bare.features = 0;
  EXPECT_FALSE(can_have(bare, {}, Regime::sink_moderate));
  EXPECT_TRUE(can_have(bare, {}, Regime::sawtooth));
}

TEST(Regimes, NamesAreUniqueAndEveryAxisIsTogether) {
  for (Regime r : all_regimes()) {
    EXPECT_EQ(regime_from_name(name_of(r)), r);
    EXPECT_FALSE(sentence_of(r).empty());
    const auto axis = regimes_of(axis_of(r));
    EXPECT_NE(std::find(axis.begin(), axis.end(), r), axis.end()) << name_of(r);
  }
  EXPECT_EQ(regime_from_name("no_such_regime"), std::nullopt);
}

TEST(Regimes, SimplestOfEachAxisGoTogether) {
  for (int a = 0; a < kAxes; ++a)
    for (int b = 0; b < kAxes; ++b)
      EXPECT_TRUE(compatible(regimes_of(static_cast<Axis>(a))[0], regimes_of(static_cast<Axis>(b))[0]));
}

}  // namespace
}  // namespace attest
