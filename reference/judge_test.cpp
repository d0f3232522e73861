// The judge on results that are right by construction, wrong by construction, and planted at the bound.
#include "reference/judge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "reference/bound.h"
#include "reference/enclosure.h"
#include "reference/exact.h"

using namespace attest;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Random {
  std::mt19937_64 engine;
  explicit Random(uint64_t seed) : engine(seed) {}
  double unit() { return static_cast<double>(engine() >> 11) * 0x1p-53; }
  int64_t between(int64_t lo, int64_t hi) { return lo + static_cast<int64_t>(engine() % static_cast<uint64_t>(hi - lo + 1)); }
  double normal() {
    double sum = 0;
    for (int k = 0; k < 12; ++k) sum += unit();
    return sum - 6;
  }
};

Problem random_problem(Random& r, DType type) {
  Shape s;
  s.b = r.between(1, 2);
  s.hk = r.between(1, 2);
  s.hq = s.hk * r.between(1, 2);
  s.nq = r.between(1, 4);
  s.nk = r.between(1, 70);
  s.d = r.between(1, 20);
  s.dv = r.between(1, 20);
  Problem p = Problem::make(s, type);
  const double size = std::ldexp(1.0, static_cast<int>(r.between(-2, 3)));
  const bool flat = r.between(0, 4) == 0;
  const auto fill = [&](Tensor& t, double scale) {
    for (int64_t n = 0; n < t.layout.count(); ++n) t.set_bits(n, from_double(type, scale * r.normal()));
  };
  if (!flat) fill(p.q, size);
  fill(p.k, size);
  fill(p.v, std::ldexp(1.0, static_cast<int>(r.between(-3, 3))));
  p.causal = r.between(0, 2) == 0;
  if (r.between(0, 3) == 0) p.softcap = 3.5f;
  if (r.between(0, 3) == 0) p.scale = -0.75f;
  if (r.between(0, 3) == 0) {
    p.bias = Tensor::packed(DType::f32, {1, s.hq, s.nq, s.nk});
    for (int64_t n = 0; n < p.bias->layout.count(); ++n)
      p.bias->set_bits(n, from_double(DType::f32, r.between(0, 5) == 0 ? -kInf : 4 * r.normal()));
  }
  if (r.between(0, 3) == 0) p.sink = std::vector<float>(static_cast<size_t>(s.hq), static_cast<float>(r.normal()));
  if (r.between(0, 3) == 0) p.key_lengths = std::vector<int32_t>(static_cast<size_t>(s.b), static_cast<int32_t>(r.between(0, s.nk)));
  return p;
}

// A plain kernel within the strict model: one pass for the maximum, one for the sums, in f32.
Observation plain_kernel(const Problem& p) {
  const Shape& s = p.shape;
  Observation seen;
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t h = 0; h < s.hq; ++h)
      for (int64_t i = 0; i < s.nq; ++i) {
        std::vector<int64_t> keys;
        const int64_t length = p.key_lengths ? (*p.key_lengths)[static_cast<size_t>(b)] : s.nk;
        for (int64_t j = 0; j < length; ++j)
          if (!p.causal || j <= i + length - s.nq) keys.push_back(j);
        std::vector<float> x(keys.size());
        float m = p.sink ? (*p.sink)[static_cast<size_t>(h)] : -std::numeric_limits<float>::infinity();
        for (size_t n = 0; n < keys.size(); ++n) {
          double dot = 0;
          for (int64_t d = 0; d < s.d; ++d) dot = static_cast<float>(dot + p.q.get(b, h, i, d) * p.k.get(b, s.key_head(h), keys[n], d));
          // One rounding where the score is one fused scale; more where there is something to add.
          double score = p.scale * dot;
          if (p.softcap > 0) score = static_cast<float>(p.softcap * std::tanh(score / p.softcap));
          if (p.bias) score = static_cast<float>(static_cast<float>(score) + p.bias->get(0, h, i, keys[n]));
          x[n] = static_cast<float>(score);
          m = std::max(m, x[n]);
        }
        const bool empty = m == -std::numeric_limits<float>::infinity();
        double l = p.sink ? static_cast<float>(std::exp(double{(*p.sink)[static_cast<size_t>(h)]} - m)) : 0.0;
        std::vector<double> o(static_cast<size_t>(s.dv), 0.0);
        for (size_t n = 0; n < keys.size() && !empty; ++n) {
          // The argument from the unrounded score, as one fused multiply-add would have it.
          double exact = x[n];
          if (p.softcap == 0 && !p.bias) {
            double dot = 0;
            for (int64_t d = 0; d < s.d; ++d) dot = static_cast<float>(dot + p.q.get(b, h, i, d) * p.k.get(b, s.key_head(h), keys[n], d));
            exact = p.scale * dot;
          }
          const double weight = static_cast<float>(std::exp(exact - m));
          l = static_cast<float>(l + weight);
          const double rounded = round_to(p.type, weight);
          for (int64_t d = 0; d < s.dv; ++d) {
            double& sum = o[static_cast<size_t>(d)];
            sum = static_cast<float>(sum + rounded * p.v.get(b, s.key_head(h), keys[n], d));
          }
        }
        for (double sum : o) seen.o.push_back(l > 0 ? round_to(p.type, static_cast<float>(sum / l)) : 0.0);
        seen.lse.push_back(l > 0 ? static_cast<float>(m + std::log(l)) : -kInf);
      }
  return seen;
}

// Broadcast costs no memory, so that extents alone may multiply out of 64 bits.
TEST(Problem, ExtentsThatMultiplyPastTheLimitAreRefused) {
  for (int64_t large : {int64_t{1} << 16, int64_t{1} << 31}) {
    Problem p = Problem::make({.b = 1, .hq = 1, .hk = 1, .nq = 1, .nk = 1, .d = 2, .dv = 2}, DType::f32);
    p.shape.nk = large;
    p.shape.b = large;
    for (Tensor* t : {&p.q, &p.k, &p.v}) t->layout.extent[0] = large, t->layout.stride[0] = 0;
    for (Tensor* t : {&p.k, &p.v}) t->layout.extent[2] = large, t->layout.stride[2] = 0;
    for (Layout* l : {&p.o, &p.lse}) l->extent[0] = large, l->stride[0] = 2;
    const auto error = validate(p);
    if (large == int64_t{1} << 16) {
      EXPECT_EQ(error, std::nullopt);  // 2^33 elements are many, not too many
    } else {
      EXPECT_EQ(error, "k: has more than 2^40 elements");
    }
    for (Layout* l : {&p.o, &p.lse}) l->stride = {0, 0, 0, 1};  // every row in one place
    ASSERT_TRUE(validate(p).has_value());
  }
}

TEST(Judge, APlainKernelIsRightAndBothPathsAgree) {
  Judge judge;
  Random r(7);
  double worst = 0;
  for (int round = 0; round < 400; ++round) {
    const DType type = kAllDTypes[round % 3];
    const Problem p = random_problem(r, type);
    ASSERT_EQ(validate(p), std::nullopt);
    const Observation seen = plain_kernel(p);
    const Verdict fast = judge(p, seen, {.numerics = strict(type)});
    ASSERT_TRUE(fast.ok()) << round << " " << name_of(type) << " " << name_of(fast.check) << ": " << fast.detail;
    worst = std::max(worst, fast.worst_ratio);
    if (round % 8 < 3) {
      const Verdict slow = judge(p, seen, {.numerics = strict(type), .exact = true});
      ASSERT_EQ(slow.buckets, fast.buckets) << round;
      EXPECT_NEAR(slow.worst_ratio, fast.worst_ratio, 1e-9) << round;
      EXPECT_NEAR(slow.worst_budget, fast.worst_budget, 1e-9 * (1 + slow.worst_budget)) << round;
      EXPECT_EQ(slow.loose, fast.loose);
    }
  }
  EXPECT_GT(worst, 0.2);
}

TEST(Judge, FewRowsNeedTheExactPath) {
  Judge judge;
  Random r(11);
  int64_t rows = 0, exactly = 0;
  for (int round = 0; round < 1500; ++round) {
    const DType type = kAllDTypes[round % 3];
    const Problem p = random_problem(r, type);
    const Verdict v = judge(p, plain_kernel(p), {.numerics = strict(type)});
    rows += v.rows;
    exactly += v.rows_exact;
  }
  EXPECT_LT(static_cast<double>(exactly), 1e-3 * static_cast<double>(rows)) << exactly << " of " << rows;
}

TEST(Judge, PlantedErrorsAroundTheBoundAreToldApart) {
  Judge judge;
  Random r(3);
  for (int round = 0; round < 60; ++round) {
    const DType type = kAllDTypes[round % 3];
    const Problem p = random_problem(r, type);
    Observation seen = plain_kernel(p);
    const int64_t b = r.between(0, p.shape.b - 1), h = r.between(0, p.shape.hq - 1), i = r.between(0, p.shape.nq - 1), d = r.between(0, p.shape.dv - 1);
    const RowReference row = judge.row(p, b, h, i, {.numerics = strict(type)});
    if (row.empty || row.visible == 0) continue;
    double& element = seen.o[static_cast<size_t>(((b * p.shape.hq + h) * p.shape.nq + i) * p.shape.dv + d)];
    for (bool exact : {false, true}) {
      const JudgeOptions options{.numerics = strict(type), .exact = exact, .noise_budget = false};
      element = row.o[static_cast<size_t>(d)] + row.bound[static_cast<size_t>(d)] * (1 - 1e-6);
      EXPECT_EQ(judge(p, seen, options).failures, 0) << round;
      element = row.o[static_cast<size_t>(d)] - row.bound[static_cast<size_t>(d)] * (1 + 1e-6);
      const Verdict v = judge(p, seen, options);
      EXPECT_EQ(v.failures, 1) << round;
      EXPECT_EQ(v.check, Check::bound);
      ASSERT_FALSE(v.worst.empty());
      EXPECT_EQ(v.worst[0].col, d);
      EXPECT_EQ(v.worst[0].row, i);
    }
  }
}

TEST(Judge, ADroppedKeyInALongRowIsFoundByTheBudget) {
  // 2048 keys, bf16, 64 random columns: one key of average weight missing moves O by 1/2048 of it, inside the worst case.
  Random r(5);
  Problem p = Problem::make({.nk = 2048, .d = 8, .dv = 64}, DType::bf16);
  for (Tensor* t : {&p.q, &p.k, &p.v})
    for (int64_t n = 0; n < t->layout.count(); ++n) t->set_bits(n, from_double(DType::bf16, (t == &p.q ? 0.25 : 1) * r.normal()));
  Judge judge;
  const Verdict right = judge(p, plain_kernel(p), {.numerics = strict(p.type)});
  EXPECT_TRUE(right.ok()) << right.detail;
  std::vector<double> weight(2048);
  double sum = 0;
  for (int64_t j = 0; j < 2048; ++j) {
    double dot = 0;
    for (int64_t d = 0; d < 8; ++d) dot += p.q.get(0, 0, 0, d) * p.k.get(0, 0, j, d);
    weight[static_cast<size_t>(j)] = j == 1000 ? 0.0 : std::exp(p.scale * dot);
    sum += weight[static_cast<size_t>(j)];
  }
  Observation seen = plain_kernel(p);
  for (int64_t d = 0; d < 64; ++d) {
    double o = 0;
    for (int64_t j = 0; j < 2048; ++j) o += weight[static_cast<size_t>(j)] * p.v.get(0, 0, j, d);
    seen.o[static_cast<size_t>(d)] = round_to(p.type, o / sum);
  }
  seen.lse.clear();
  const Verdict wrong = judge(p, seen, {.numerics = strict(p.type)});
  EXPECT_EQ(wrong.failures, 0) << "the worst-case bound does not see it";
  EXPECT_EQ(wrong.check, Check::budget) << wrong.worst_budget << " " << wrong.worst_budget_share;
}

TEST(Judge, SpecialRows) {
  Judge judge;
  Problem p = Problem::make({.nq = 1, .nk = 3, .d = 1, .dv = 2}, DType::f32);
  p.q.set(0, 0, 0, 0, 1);
  for (int j = 0; j < 3; ++j) p.v.set(0, 0, j, 0, j);
  const JudgeOptions options{.numerics = strict(DType::f32)};
  Observation seen;
  const auto verdict = [&](std::vector<double> o, double lse) {
    seen.o = std::move(o);
    seen.lse = {lse};
    return judge(p, seen, options);
  };
  // Flat: O = 1, LSE = ln 3.
  EXPECT_TRUE(verdict({1, 0}, std::log(3.0)).ok());
  EXPECT_EQ(verdict({NAN, 0}, std::log(3.0)).check, Check::non_finite);
  EXPECT_EQ(verdict({NAN, 0}, std::log(3.0)).worst_ratio, kInf);
  EXPECT_EQ(verdict({1, 0}, NAN).worst_lse_ratio, kInf);
  EXPECT_EQ(verdict({1, 0}, 0).check, Check::lse);
  // A NaN score: the row and its LSE are NaN.
  p.k.set(0, 0, 1, 0, NAN);
  EXPECT_TRUE(verdict({NAN, NAN}, NAN).ok());
  EXPECT_EQ(verdict({1, NAN}, NAN).disposition, Disposition::incorrect);
  // The same key masked: it must not matter.
  p.mask = BoolMask{Layout::packed({1, 1, 1, 3}), {1, 0, 1}};
  EXPECT_TRUE(verdict({1, 0}, std::log(2.0)).ok());
  p.mask->storage = {0, 0, 0};
  EXPECT_TRUE(verdict({0, 0}, -kInf).ok());
  EXPECT_EQ(verdict({NAN, 0}, -kInf).disposition, Disposition::non_finite);
  EXPECT_EQ(verdict({0, 0}, 0).check, Check::non_finite);
  // An infinite value at a visible key makes its element non-finite and no other.
  p.mask->storage = {1, 0, 1};
  p.v.set(0, 0, 0, 1, kInf);
  EXPECT_TRUE(verdict({1, NAN}, std::log(2.0)).ok());
  EXPECT_TRUE(verdict({1, kInf}, std::log(2.0)).ok());
  EXPECT_FALSE(verdict({1, 0}, std::log(2.0)).ok());
  EXPECT_FALSE(verdict({kInf, kInf}, std::log(2.0)).ok());
  // Out of range: counted, not judged.
  p.q.set(0, 0, 0, 0, 1e30);
  p.k.set(0, 0, 0, 0, 1e30);
  EXPECT_EQ(verdict({5, 5}, 5).rows_out_of_range, 1);
}

// With P rounded and l not, O of equal values is off by P's rounding: no range of the values limits that.
TEST(Judge, RoundedWeightsMayLeaveTheRangeOfTheValues) {
  Shape s;
  s.nk = 8;
  s.d = s.dv = 1;
  Problem p = Problem::make(s, DType::f32);
  p.q.set(0, 0, 0, 0, 1);
  for (int64_t j = 0; j < s.nk; ++j) {
    p.k.set(0, 0, j, 0, -0.3 * static_cast<double>(j));
    p.v.set(0, 0, j, 0, 1);
  }
  Observation seen;
  seen.o = {1 + 0x1p-13};
  JudgeOptions options{.numerics = strict(DType::f32)};
  EXPECT_NE(Judge()(p, seen, options).check, Check::none);
  options.numerics.p_type = DType::f16;
  options.numerics.l_from = DenominatorFrom::unrounded;
  EXPECT_EQ(Judge()(p, seen, options).check, Check::none) << Judge()(p, seen, options).detail;
}

// Numerics that make no bound must not pass for a wide one.
// Seen on tensor cores: 2^-133 times 2^122 is aligned as if it were 2^-126 times 2^122, and the product beside it loses
// its last bits.
TEST(Judge, ASubnormalFactorIsAlignedByItsExponentField) {
  const auto verdict = [](double q, double k, double lse) {
    Problem p = Problem::make({.d = 2}, DType::bf16);
    p.scale = 0x1p32f;
    p.q.set(0, 0, 0, 0, -0x1p-126), p.k.set(0, 0, 0, 0, -0x1.d4p99);
    p.q.set(0, 0, 0, 1, q), p.k.set(0, 0, 0, 1, k);
    const double exact = 0x1p32 * (0x1.d4p99 * 0x1p-126 + q * k);
    Observation seen;
    seen.o = {0};
    seen.lse = {exact + lse};
    return Judge()(p, seen, {.numerics = strict(DType::bf16)}).ok();
  };
  EXPECT_TRUE(verdict(0x1p-133, -0x1p122, -8.5));    // a subnormal factor
  EXPECT_FALSE(verdict(0x1p-133, -0x1p122, -200.0));  // beyond it
  EXPECT_FALSE(verdict(0x1p-126, -0x1p115, -8.5));   // the same product of normal factors
}

// The product of two f32 does not fit in f32: a kernel that sums them in f32 rounds it. The product of two f16 fits.
TEST(Judge, ALoneProductOfTwoF32MayBeRounded) {
  const auto error_over_bound = [](DType type, double q, double k, double score_error) {
    Shape s;
    s.nk = 2;
    s.d = s.dv = 1;
    Problem p = Problem::make(s, type);
    p.scale = 1;
    p.q.set(0, 0, 0, 0, q);
    p.k.set(0, 0, 0, 0, k);
    p.k.set(0, 0, 1, 0, k - 0.5);
    p.v.set(0, 0, 0, 0, 1);
    const double difference = p.q.get(0, 0, 0, 0) * (p.k.get(0, 0, 0, 0) - p.k.get(0, 0, 1, 0)) + score_error;
    Observation seen;
    seen.o = {1 / (1 + std::exp(-difference))};
    return Judge()(p, seen, {.numerics = strict(type), .noise_budget = false}).worst_ratio;
  };
  const double q = 1 + 0x1p-23, k = 1000 + 0x1p-13, rounding = 0x1p-24 * 1000;
  EXPECT_LE(error_over_bound(DType::f32, q, k, rounding), 1);
  EXPECT_GT(error_over_bound(DType::f32, 1, k, rounding), 1) << "this product fits";
}

// Two scores that differ by less than f32 holds there: a kernel that sums them in f32 gives both keys one weight. The budget
// once took them for one source, whose noise cancels, and forgot the rounding that made them equal.
TEST(Judge, ScoresThatOnlyF32MakesEqualAreNoTies) {
  Shape s;
  s.nk = 2;
  s.d = 8;
  s.dv = 4;
  Problem p = Problem::make(s, DType::f32);
  p.scale = -0.125f;
  for (int64_t j = 0; j < 2; ++j) {
    p.k.set(0, 0, j, 2, j == 0 ? -3 : -3.25);
    p.k.set(0, 0, j, 7, 7483315);
  }
  p.q.set(0, 0, 0, 2, 1);
  p.q.set(0, 0, 0, 7, 1);
  p.v.set(0, 0, 1, 3, 1);
  Observation seen;
  seen.o = {0, 0, 0, 0.5};  // exact: 0.5078
  const Verdict v = Judge()(p, seen, {.numerics = strict(DType::f32)});
  EXPECT_TRUE(v.ok()) << v.detail;
}

TEST(Judge, ABoundThatIsNotANumberFails) {
  Shape s;
  s.nk = 2;
  s.d = s.dv = 1;
  Problem p = Problem::make(s, DType::f32);
  p.q.set(0, 0, 0, 0, 1);
  p.k.set(0, 0, 1, 0, 1);
  p.v.set(0, 0, 1, 0, 1);
  Observation seen;
  seen.o = {100};
  seen.lse = {100};
  JudgeOptions options{.numerics = strict(DType::f32)};
  options.numerics.exp_rel_error = NAN;
  const Verdict v = Judge()(p, seen, options);
  EXPECT_NE(v.check, Check::none);
  EXPECT_EQ(v.failures, 2) << "O and LSE";
}

// Exact references that were kept give the verdict that new ones give, on other results of the problem, too.
TEST(Judge, KeptExactRowsChangeNothing) {
  Random r(71);
  for (int round = 0; round < 12; ++round) {
    const Problem p = random_problem(r, kAllDTypes[round % 3]);
    JudgeOptions fresh{.numerics = strict(p.type), .exact = true}, kept = fresh;
    kept.exact_rows = make_exact_rows();
    Judge judge;
    Observation seen;
    seen.o.resize(static_cast<size_t>(p.shape.rows() * p.shape.dv));
    seen.lse.resize(static_cast<size_t>(p.shape.rows()));
    for (int results = 0; results < 2; ++results) {
      for (double& o : seen.o) o = r.normal();
      for (double& lse : seen.lse) lse = r.normal();
      const Verdict a = judge(p, seen, fresh), b = judge(p, seen, kept);
      EXPECT_EQ(a.detail, b.detail);
      EXPECT_EQ(a.buckets, b.buckets);
      EXPECT_EQ(a.worst_ratio, b.worst_ratio);
      EXPECT_EQ(a.worst_budget, b.worst_budget);
    }
  }
}

// The double path stays within the error that it states, and knows O of f32 rows to more digits than a double has.
TEST(Judge, TheDoublePathKnowsOAsWellAsItSays) {
  Random r(83);
  for (int round = 0; round < 3000; ++round) {
    const Problem p = random_problem(r, kAllDTypes[round % 3]);
    const int64_t b = r.between(0, p.shape.b - 1), h = r.between(0, p.shape.hq - 1), i = r.between(0, p.shape.nq - 1);
    HeadData head;
    head.load(p, b, p.shape.key_head(h));
    std::vector<double> q;
    for (int64_t d = 0; d < p.shape.d; ++d) q.push_back(p.q.get(b, h, i, d));
    Row row, exact_doubles;
    classify(p, {}, head, q.data(), b, h, i, row);
    if (row.kind != RowKind::normal) continue;
    exact_doubles = row;
    ExactRow<Dec50> exact;
    exact_row(p, head, q.data(), exact_doubles, exact);
    enclose_row(p, head, q.data(), row);
    RowBound bound;
    bound_row(row, head, p, strict(p.type), bound);
    for (size_t d = 0; d < exact.o.size(); ++d) {
      const double off = std::fabs(static_cast<double>(Dec50(Dec50(row.o_hi[d]) + Dec50(row.o_lo[d]) - exact.o[d])));
      EXPECT_LE(off, row.o_sum_error[d] + bound.enclosure[d]) << "round " << round << ", column " << d;
      if (p.type == DType::f32) {
        EXPECT_LE(off, 0x1p-58 * row.o_abs[d] / row.l) << "round " << round << ", column " << d;
      }
    }
    EXPECT_LE(std::fabs(static_cast<double>(Dec50(Dec50(row.lse) - exact.lse))), row.lse_error) << "round " << round;
  }
}

// A sink so large that no key has weight still leaves a bound for LSE.
TEST(Judge, LseIsJudgedBesideADominatingSink) {
  Shape s;
  s.nk = 4;
  s.d = s.dv = 1;
  Problem p = Problem::make(s, DType::bf16);
  p.sink = std::vector<float>{1e30f};
  Observation seen;
  seen.o = {0};
  seen.lse = {double{1e30f}};
  const JudgeOptions options{.numerics = strict(DType::bf16)};
  EXPECT_EQ(Judge()(p, seen, options).check, Check::none) << Judge()(p, seen, options).detail;
  seen.lse = {2e30};
  EXPECT_EQ(Judge()(p, seen, options).check, Check::lse);
}

TEST(Oracle, FiftyDigitsAgreeWithTwoHundred) {
  Random r(13);
  for (int round = 0; round < 20; ++round) {
    const Problem p = random_problem(r, kAllDTypes[round % 3]);
    HeadData head;
    head.load(p, 0, 0);
    std::vector<double> q;
    for (int64_t d = 0; d < p.shape.d; ++d) q.push_back(p.q.get(0, 0, 0, d));
    Row row;
    classify(p, {}, head, q.data(), 0, 0, 0, row);
    if (row.kind != RowKind::normal) continue;
    ExactRow<Dec50> fifty;
    ExactRow<Dec200> more;
    exact_row(p, head, q.data(), row, fifty);
    exact_row(p, head, q.data(), row, more);
    for (size_t d = 0; d < fifty.o.size(); ++d) {
      const Dec200 difference = abs(Dec200(fifty.o[d]) - more.o[d]);
      EXPECT_LE(difference, Dec200("1e-40") * (1 + abs(more.o[d])));
    }
    EXPECT_LE(abs(Dec200(fifty.lse) - more.lse), Dec200("1e-40") * (1 + abs(more.lse)));
  }
}

}  // namespace
