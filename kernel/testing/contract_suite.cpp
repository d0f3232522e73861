// The contract of a built-in kernel, run on the kernel that ATTEST_TEST_KERNEL names. Without its device the
// program says so and exits with code 4, which CTest reports as skipped.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <thread>
#include <tuple>
#include <variant>

#include "kernel/runner/kernel.h"
#include "kernel/testing/direct.h"
#include "reference/judge.h"

namespace attest {
namespace {

using testing::Random;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kFloatMax = std::numeric_limits<float>::max();

const Kernel& kernel() {
  static const Kernel k = std::get<Kernel>(Kernel::load(ATTEST_TEST_KERNEL));
  return k;
}

// One row whose scores are exactly these, and whose values have one column.
Problem row_of(DType type, const std::vector<double>& scores, const std::vector<double>& values) {
  Shape s;
  s.nk = static_cast<int64_t>(scores.size());
  Problem p = Problem::make(s, type);
  p.q.set(0, 0, 0, 0, 1.0);
  for (int64_t j = 0; j < s.nk; ++j) {
    p.k.set(0, 0, j, 0, scores[static_cast<size_t>(j)]);
    p.v.set(0, 0, j, 0, values[static_cast<size_t>(j)]);
  }
  return p;
}

Observation run(const Problem& p, bool trace = false) {
  EXPECT_EQ(validate(p).value_or(""), "");
  Observation seen = kernel().run(p, {.trace = trace});
  EXPECT_EQ(seen.status, RunStatus::ok) << seen.message;
  EXPECT_EQ(seen.overrun + seen.unwritten + seen.input_change, "");
  return seen;
}

void expect_same_bits(const Observation& a, const Observation& b) {
  ASSERT_EQ(a.o.size(), b.o.size());
  ASSERT_EQ(a.lse.size(), b.lse.size());
  for (size_t n = 0; n < a.o.size(); ++n) EXPECT_TRUE(same_value(a.o[n], b.o[n])) << "O[" << n << "]: " << a.o[n] << " and " << b.o[n];
  for (size_t n = 0; n < a.lse.size(); ++n) EXPECT_TRUE(same_value(a.lse[n], b.lse[n])) << "LSE[" << n << "]: " << a.lse[n] << " and " << b.lse[n];
}

TEST(Contract, AgreesWithTheDefinitionOnEverythingCombined) {
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    Random random(seed);
    const Problem p = testing::random_problem(random);
    ASSERT_EQ(testing::first_difference(p, run(p), testing::direct_attention(p)), "") << "seed " << seed;
  }
}

TEST(Contract, StaysWithinTheProvenBound) {
  Judge judge;
  for (uint64_t seed = 5000; seed < 6000; ++seed) {
    Random random(seed);
    const Problem p = testing::random_problem(random);
    const Verdict v = judge(p, run(p), {.numerics = kernel().numerics(p, Contract::strict)});
    ASSERT_TRUE(v.ok()) << "seed " << seed << ": " << v.detail;
  }
}

TEST(Contract, LargeShapesStayWithinTheProvenBound) {
  Judge judge;
  Random random(77);
  for (DType type : kAllDTypes)
    for (const auto& [width, keys, tile, splits] : {std::tuple<int64_t, int64_t, int64_t, int32_t>{256, 1100, 0, 1}, {255, 2100, 1024, 2}, {1, 5000, 100, 7}, {33, 700, 1, 3}}) {
      Shape s;
      s.hq = 2;
      s.nq = 3;
      s.nk = keys;
      s.d = width;
      s.dv = 257 - width;
      Problem p = Problem::make(s, type);
      for (Tensor* t : {&p.q, &p.k, &p.v})
        for (int64_t n = 0; n < t->layout.count(); ++n) t->set_bits(n, from_double(type, random.uniform(-2, 2)));
      p.causal = true;
      p.choice.tile_keys = tile;
      p.choice.splits = splits;
      const Verdict v = judge(p, run(p), {.numerics = kernel().numerics(p, Contract::strict)});
      EXPECT_TRUE(v.ok()) << name_of(type) << " width " << width << ": " << v.detail;
    }
}

TEST(Contract, ManyRowsAreAllComputed) {
  Shape s;
  s.b = 3;
  s.hq = 4;
  s.hk = 2;
  s.nq = 700;
  s.nk = 5;
  Problem p = Problem::make(s, DType::f16);
  Random random(78);
  for (Tensor* t : {&p.q, &p.k, &p.v})
    for (int64_t n = 0; n < t->layout.count(); ++n) t->set_bits(n, from_double(DType::f16, random.uniform(-2, 2)));
  EXPECT_EQ(testing::first_difference(p, run(p), testing::direct_attention(p)), "");
}

TEST(Contract, MaskedKeysContributeNothingWhateverTheyHold) {
  for (DType type : kAllDTypes) {
    Problem p = row_of(type, {1, 2, 3, 4}, {1, 2, 3, 4});
    p.key_lengths = {{3}};
    p.mask = BoolMask{Layout::packed({1, 1, 1, 4}), {1, 0, 1, 1}};
    p.bias = Tensor::packed(type, {1, 1, 1, 4});
    const Observation plain = run(p);
    for (double payload : {static_cast<double>(NAN), kInfinity, -kInfinity, largest_finite(type)}) {
      for (int64_t j : {1, 3}) {
        p.k.set(0, 0, j, 0, payload);
        p.v.set(0, 0, j, 0, payload);
        p.bias->set(0, 0, 0, j, payload);
      }
      expect_same_bits(plain, run(p));
    }
  }
}

TEST(Contract, ScoreOfMinusInfinityMasksFromAnySource) {
  for (DType type : kAllDTypes) {
    const Observation without = run(row_of(type, {1, 3}, {1, 3}));
    // From K.
    Problem p = row_of(type, {1, -kInfinity, 3}, {1, NAN, 3});
    expect_same_bits(without, run(p));
    // From the bias, whatever K holds.
    p = row_of(type, {1, NAN, 3}, {1, kInfinity, 3});
    p.bias = Tensor::packed(DType::f32, {1, 1, 1, 3});
    p.bias->set(0, 0, 0, 1, -kInfinity);
    expect_same_bits(without, run(p));
  }
}

TEST(Contract, NanOrPlusInfinityScoreTakesItsRowAlone) {
  for (double score : {static_cast<double>(NAN), kInfinity})
    for (int64_t tile : {0, 1, 2}) {
      Shape s;
      s.nq = 3;
      s.nk = 5;
      s.d = 3;
      s.dv = 2;
      Problem p = Problem::make(s, DType::f32);
      p.choice.tile_keys = tile;
      p.choice.splits = 2;
      for (int64_t i = 0; i < 3; ++i) p.q.set(0, 0, i, i, 1);  // row i scores column i of K
      for (int64_t j = 0; j < 5; ++j) {
        for (int64_t d = 0; d < 3; ++d) p.k.set(0, 0, j, d, static_cast<double>(j * (d + 1)) / 4);
        for (int64_t d = 0; d < 2; ++d) p.v.set(0, 0, j, d, static_cast<double>(j + d));
      }
      const Observation plain = run(p);
      p.bias = Tensor::packed(DType::f32, {1, 1, 3, 5});
      const Observation biased = run(p);
      p.bias->set(0, 0, 1, 2, score);
      const Observation seen = run(p);
      for (int64_t i = 0; i < 3; ++i) {
        const auto at = static_cast<size_t>(i);
        for (size_t d = 0; d < 2; ++d) {
          EXPECT_TRUE(i == 1 ? std::isnan(seen.o[2 * at + d]) : seen.o[2 * at + d] == biased.o[2 * at + d]);
        }
        EXPECT_TRUE(i == 1 ? std::isnan(seen.lse[at]) : seen.lse[at] == biased.lse[at]);
        EXPECT_NEAR(biased.lse[at], plain.lse[at], 1e-5);
      }
    }
}

TEST(Contract, NonFiniteValueAtVisibleKeyTakesItsElementAlone) {
  for (DType type : kAllDTypes)
    for (double value : {static_cast<double>(NAN), kInfinity, -kInfinity})
      for (double score : {0.0, 2.0, -200.0}) {  // at -200 its weight underflows
        Shape s;
        s.nk = 3;
        s.dv = 3;
        Problem p = Problem::make(s, type);
        p.q.set(0, 0, 0, 0, 1);
        for (int64_t j = 0; j < 3; ++j) {
          p.k.set(0, 0, j, 0, j == 1 ? score : 1.0);
          for (int64_t d = 0; d < 3; ++d) p.v.set(0, 0, j, d, static_cast<double>(j + d));
        }
        p.choice.tile_keys = 1;
        const Observation plain = run(p);
        p.v.set(0, 0, 1, 1, value);
        const Observation seen = run(p);
        EXPECT_FALSE(std::isfinite(seen.o[1]));
        for (size_t d : {0u, 2u}) EXPECT_EQ(seen.o[d], plain.o[d]);
        EXPECT_EQ(seen.lse[0], plain.lse[0]);
      }
}

TEST(Contract, EmptyRowIsZeroAndMinusInfinityOrTheSink) {
  for (DType type : kAllDTypes) {
    Problem p = row_of(type, {1, 2}, {3, 4});
    p.key_lengths = {{0}};
    EXPECT_EQ(run(p).o[0], 0.0);
    EXPECT_EQ(run(p).lse[0], -kInfinity);
    for (float sink : {0.0f, 3.25f, -1e30f, kFloatMax}) {
      p.sink = {{sink}};
      EXPECT_EQ(run(p).o[0], 0.0);
      EXPECT_EQ(run(p).lse[0], sink);
    }
    p.sink = {{-std::numeric_limits<float>::infinity()}};
    EXPECT_EQ(run(p).lse[0], -kInfinity);
    EXPECT_EQ(run(row_of(type, {}, {})).lse[0], -kInfinity);
  }
}

TEST(Contract, SinkCountsOnceHoweverTheKeysAreSplit) {
  for (int32_t splits : {1, 2, 3, 7}) {
    Problem p = row_of(DType::f32, {0, 0, 0, 0, 0, 0}, {7, 7, 7, 7, 7, 7});
    p.sink = {{0}};
    p.choice.tile_keys = 1;
    p.choice.splits = splits;
    EXPECT_EQ(run(p).o[0], 6.0);
    EXPECT_NEAR(run(p).lse[0], std::log(7.0), 1e-6);
  }
}

TEST(Contract, LowestFiniteBiasDoesNotMask) {
  Problem p = row_of(DType::f32, {0, 0}, {1, 3});
  p.bias = Tensor::packed(DType::f32, {1, 1, 1, 2});
  for (int64_t j = 0; j < 2; ++j) p.bias->set(0, 0, 0, j, -kFloatMax);
  EXPECT_EQ(run(p).o[0], 2.0);
  EXPECT_EQ(run(p).lse[0], -kFloatMax);
  p.bias->set(0, 0, 0, 1, kFloatMax);
  EXPECT_EQ(run(p).o[0], 3.0);
}

TEST(Contract, ScoresAsLargeAsTheRangeAllowsKeepTheirDifferences) {
  // Both scores are 2^20 and a little: their difference of 1/8 is one unit of f32 there.
  Problem p = row_of(DType::f32, {0x1p20, 0x1p20 + 0.125}, {0, 1});
  EXPECT_NEAR(run(p).o[0], 1 / (1 + std::exp(-0.125)), 1e-6);
  p.scale = -1;
  EXPECT_NEAR(run(p).o[0], 1 / (1 + std::exp(0.125)), 1e-6);
  p = row_of(DType::f32, {0x1p125, 0x1.000002p125}, {0, 1});
  EXPECT_EQ(run(p).o[0], 1.0);
  p.scale = 0;
  EXPECT_EQ(run(p).o[0], 0.5);
  EXPECT_NEAR(run(p).lse[0], std::log(2.0), 1e-6);
}

TEST(Contract, TinyProductsUnderAHugeScaleCount) {
  // Products of 2^-150, below f32, which the scale brings to 1.
  Problem p = row_of(DType::bf16, {0, 0x1p-85}, {0, 1});
  p.q.set(0, 0, 0, 0, 0x1p-40);
  p.scale = 0x1p125f;
  EXPECT_NEAR(run(p).o[0], 1 / (1 + std::exp(-1.0)), 1e-2);
  p.q.set(0, 0, 0, 0, 0x1p-38);  // 2^-123 * 2^125 = 4
  EXPECT_NEAR(run(p).o[0], 1 / (1 + std::exp(-4.0)), 1e-2);
  p.k.set(0, 0, 1, 0, 0x1p-130);  // a subnormal
  p.q.set(0, 0, 0, 0, 0x1p7);
  EXPECT_NEAR(run(p).o[0], 1 / (1 + std::exp(-4.0)), 1e-2);
}

TEST(Contract, ValuesAtTheTypesLimitsStayFinite) {
  for (DType type : kAllDTypes)
    for (int64_t keys : {1, 2, 3, 17, 200})
      for (int32_t splits : {1, 3}) {
        const double most = largest_finite(type);
        std::vector<double> scores, values;
        for (int64_t j = 0; j < keys; ++j) {
          scores.push_back(j == 0 ? 0.0 : -0.6915);  // weights just above 1/2 round up in P
          values.push_back(most);
        }
        Problem p = row_of(type, scores, values);
        p.choice.splits = splits;
        p.choice.tile_keys = 16;
        EXPECT_TRUE(std::isfinite(run(p).o[0]));
        EXPECT_GT(run(p).o[0], most * (1 - 0x1p-7));
        for (int64_t j = 1; j < keys; j += 2) p.v.set(0, 0, j, 0, -most);
        EXPECT_TRUE(std::isfinite(run(p).o[0]));
      }
}

TEST(Contract, AnOverflowingColumnChangesNoOther) {
  Shape s;
  s.nk = 40;
  s.dv = 2;
  Problem p = Problem::make(s, DType::bf16);
  for (int64_t j = 0; j < s.nk; ++j) p.v.set(0, 0, j, 1, 1.0 + static_cast<double>(j));
  const double plain = run(p).o[1];
  for (int64_t j = 0; j < s.nk; ++j) p.v.set(0, 0, j, 0, largest_finite(DType::bf16));
  const Observation seen = run(p);
  EXPECT_EQ(seen.o[0], largest_finite(DType::bf16));
  EXPECT_EQ(seen.o[1], plain);
}

TEST(Contract, RowsKeepTheirBitsWhateverStandsBesideThem) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    Problem p = testing::random_problem(random);
    if (p.shape.nq < 2 || p.q.layout.stride[1] == 0) continue;
    const Observation before = run(p);
    // Another last row, in every batch and head.
    for (int64_t b = 0; b < p.shape.b; ++b)
      for (int64_t h = 0; h < p.shape.hq; ++h)
        for (int64_t d = 0; d < p.shape.d; ++d) p.q.set(b, h, p.shape.nq - 1, d, random.chance(10) ? NAN : 1000.0);
    const Observation after = run(p);
    for (size_t n = 0; n < before.o.size(); ++n)
      EXPECT_TRUE(static_cast<int64_t>(n) / p.shape.dv % p.shape.nq == p.shape.nq - 1 || same_value(before.o[n], after.o[n])) << "seed " << seed;
  }
}

TEST(Contract, CallsFromSeveralThreadsHaveTheBitsOfCallsOneByOne) {
  // Large and small tiles side by side: what one call sets up must not reach another.
  std::vector<Problem> problems;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    Random random(seed);
    Problem p = testing::random_problem(random);
    if (seed % 2 == 0) {
      p = Problem::make({.nq = 3, .nk = 1100, .d = 8, .dv = 8}, kAllDTypes[seed / 2 % 3]);
      for (Tensor* t : {&p.q, &p.k, &p.v})
        for (int64_t n = 0; n < t->layout.count(); ++n) t->set_bits(n, from_double(p.type, random.uniform(-1, 1)));
      p.choice.tile_keys = 1024;
      p.choice.splits = seed % 4 == 0 ? 2 : 0;
    }
    problems.push_back(p);
  }
  std::vector<Observation> alone;
  for (const Problem& p : problems) alone.push_back(run(p));
  std::vector<std::vector<Observation>> seen(8, std::vector<Observation>(problems.size()));
  std::vector<std::thread> threads;
  for (size_t t = 0; t < seen.size(); ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 20; ++round)
        for (size_t n = 0; n < problems.size(); ++n) {
          const size_t at = (n + t) % problems.size();
          if (seen[t][at].message.empty()) seen[t][at] = kernel().run(problems[at]);
        }
    });
  for (std::thread& t : threads) t.join();
  for (const auto& results : seen)
    for (size_t n = 0; n < problems.size(); ++n) {
      ASSERT_EQ(results[n].status, RunStatus::ok) << n << ": " << results[n].message;
      expect_same_bits(results[n], alone[n]);
    }
}

TEST(Contract, TheTraceFollowsTheRecurrenceAndChangesNoBit) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    Problem p = testing::random_problem(random);
    p.sink.reset();
    const Observation plain = run(p), traced = run(p, true);
    expect_same_bits(plain, traced);
    ASSERT_TRUE(traced.traced);
    std::map<std::tuple<int32_t, int32_t, int64_t, int32_t>, TraceRecord> last;
    for (const TraceRecord& r : traced.trace) {
      const auto key = std::tuple(r.b, r.h, r.row, r.split);
      const auto before = last.find(key);
      const bool first = before == last.end();
      EXPECT_EQ(r.sequence, first ? 0 : before->second.sequence + 1);
      EXPECT_GE(r.scale, 0.0f);
      EXPECT_LE(r.scale, 1.0f);
      EXPECT_LT(r.key_begin, r.key_end);
      EXPECT_LE(r.key_end, p.shape.nk);
      EXPECT_LE(r.key_end - r.key_begin, p.choice.tile_keys > 0 ? p.choice.tile_keys : p.shape.nk);
      EXPECT_TRUE(first ? r.scale == 0.0f : r.m >= before->second.m);
      EXPECT_GE(r.l, 1.0f - 1e-6f);
      EXPECT_LE(r.l, static_cast<float>(p.shape.nk) * (1 + 1e-6f));
      last[key] = r;
    }
    // The last states of a row's splits give its LSE.
    for (int64_t b = 0; b < p.shape.b; ++b)
      for (int64_t h = 0; h < p.shape.hq; ++h)
        for (int64_t i = 0; i < p.shape.nq; ++i) {
          double m = -kInfinity, l = 0;
          for (const auto& [key, r] : last)
            if (std::get<0>(key) == b && std::get<1>(key) == h && std::get<2>(key) == i) m = std::max(m, static_cast<double>(r.m));
          for (const auto& [key, r] : last)
            if (std::get<0>(key) == b && std::get<1>(key) == h && std::get<2>(key) == i) l += r.l * std::exp(r.m - m);
          const double lse = traced.lse[static_cast<size_t>((b * p.shape.hq + h) * p.shape.nq + i)];
          const double expected = l == 0 ? -kInfinity : m + std::log(l);
          EXPECT_TRUE(lse == expected || std::fabs(lse - expected) <= 1e-5 * (1 + std::fabs(m))) << "seed " << seed << ": " << lse << " and " << expected;
        }
  }
}

TEST(Contract, DescendingOrderVisitsTheLastTileFirst) {
  Problem p = row_of(DType::f32, {1, 2, 3, 4, 5}, {1, 2, 3, 4, 5});
  p.choice.tile_keys = 2;
  p.choice.order = TileOrder::descending;
  const Observation seen = run(p, true);
  ASSERT_EQ(seen.trace.size(), 3u);
  EXPECT_EQ(seen.trace[0].key_begin, 4);
  EXPECT_EQ(seen.trace[0].key_end, 5);
  EXPECT_EQ(seen.trace[2].key_begin, 0);
  EXPECT_EQ(seen.trace[0].m, 5.0f);
  EXPECT_EQ(seen.trace[2].scale, 1.0f);
}

TEST(Contract, FullyMaskedTilesLeaveNoRecord) {
  Problem p = row_of(DType::f32, {1, 2, -kInfinity, -kInfinity, 5, 6}, {1, 2, 3, 4, 5, 6});
  p.choice.tile_keys = 2;
  p.mask = BoolMask{Layout::packed({1, 1, 1, 6}), {0, 0, 1, 1, 1, 1}};
  const Observation seen = run(p, true);
  ASSERT_EQ(seen.trace.size(), 1u);
  EXPECT_EQ(seen.trace[0].key_begin, 4);
}

TEST(Contract, RefusalsNameTheReason) {
  Problem p = row_of(DType::f32, {1}, {1});
  p.choice.p_type = DType::f16;
  EXPECT_NE(kernel().refuses(p).find("P is kept in f32"), std::string::npos) << kernel().refuses(p);
  EXPECT_EQ(kernel().run(p).status, RunStatus::unsupported);
  p.choice.p_type.reset();
  p.choice.splits = 1 << 20;
  EXPECT_NE(kernel().refuses(p).find("split_count"), std::string::npos);
}

TEST(Contract, MergeOfPartsIsTheWholeAndMinusInfinityIsNoPart) {
  Random random(9);
  PartialStates a, b, none;
  a.width = b.width = none.width = 5;
  for (int n = 0; n < 20; ++n) {
    a.lse.push_back(static_cast<float>(random.uniform(-50, 50)));
    b.lse.push_back(a.lse.back() + static_cast<float>(random.uniform(-3, 3)));
    none.lse.push_back(-std::numeric_limits<float>::infinity());
    for (int d = 0; d < 5; ++d) {
      a.o.push_back(static_cast<float>(random.uniform(-2, 2)));
      b.o.push_back(static_cast<float>(random.uniform(-2, 2)));
      none.o.push_back(0);
    }
  }
  const PartialStates ab = kernel().merge(a, b).state, ba = kernel().merge(b, a).state;
  EXPECT_EQ(ab.o, ba.o);
  EXPECT_EQ(ab.lse, ba.lse);
  EXPECT_EQ(kernel().merge(a, none).state.o, a.o);
  EXPECT_EQ(kernel().merge(none, a).state.lse, a.lse);
  EXPECT_EQ(kernel().merge(none, none).state.lse, none.lse);
  EXPECT_EQ(kernel().merge(none, none).state.o, none.o);
  for (size_t n = 0; n < a.lse.size(); ++n) {
    const double wa = std::exp(static_cast<double>(a.lse[n]) - b.lse[n]);
    EXPECT_NEAR(ab.lse[n], b.lse[n] + std::log(1 + wa), 1e-5);
    for (size_t d = 0; d < 5; ++d) EXPECT_NEAR(ab.o[5 * n + d], (wa * a.o[5 * n + d] + b.o[5 * n + d]) / (1 + wa), 1e-6);
  }
}

}  // namespace
}  // namespace attest

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const auto loaded = attest::Kernel::load(ATTEST_TEST_KERNEL);
  if (const auto* error = std::get_if<attest::LoadError>(&loaded)) {
    std::printf("%s\n", error->message.c_str());
    return error->kind == attest::LoadError::Kind::no_device ? 4 : 1;
  }
  return RUN_ALL_TESTS();
}
