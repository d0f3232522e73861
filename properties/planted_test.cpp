// One wrong element among all that a kernel wrote: found wherever it stands, and named.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "kernel/runner/kernel.h"
#include "properties/generate/choices.h"
#include "properties/trial.h"

namespace attest {

namespace {

struct Planted {
  Problem problem;
  Observation seen;
  Kernel kernel = std::get<Kernel>(Kernel::load("host"));
  Judge judge;
  PropertyContext context{kernel, judge};
  JudgeOptions options;

  Planted(const Shape& shape, DType type, bool exact) : problem(Problem::make(shape, type)) {
    Choices c = Choices::seeded(static_cast<uint64_t>(type) + 1);
    for (Tensor* t : {&problem.q, &problem.k, &problem.v})
      for (int64_t n = 0; n < t->layout.count(); ++n) t->set_bits(n, from_double(type, c.normal()));
    problem.causal = shape.nq > 1;
    const Trial right = run_and_judge(problem, context);
    EXPECT_TRUE(right.verdict.ok()) << right.verdict.detail;
    seen = right.seen;
    options = judge_options(problem, context);
    options.exact = exact;
  }

  // Moves the element so many bounds away from its exact value; col -1 is LSE.
  Verdict with_wrong(const RowReference& row, int64_t b, int64_t h, int64_t i, int64_t col, double bounds) {
    const Shape& s = problem.shape;
    const auto at = static_cast<size_t>((b * s.hq + h) * s.nq + i);
    double& element = col < 0 ? seen.lse[at] : seen.o[at * static_cast<size_t>(s.dv) + static_cast<size_t>(col)];
    const double kept = element;
    element = col < 0 ? row.lse + bounds * row.lse_bound : row.o[static_cast<size_t>(col)] + bounds * row.bound[static_cast<size_t>(col)];
    const Verdict v = judge(problem, seen, options);
    element = kept;
    return v;
  }
};

constexpr double kBesideTheBound = 1e-6;

void expect_found(Planted& p, const RowReference& row, int64_t b, int64_t h, int64_t i, int64_t col) {
  SCOPED_TRACE(testing::Message() << name_of(p.problem.type) << " b " << b << ", h " << h << ", row " << i << ", column " << col);
  for (double side : {-1.0, 1.0}) {
    const Verdict wrong = p.with_wrong(row, b, h, i, col, side * (1 + kBesideTheBound));
    ASSERT_FALSE(wrong.ok());
    ASSERT_EQ(wrong.check, col < 0 ? Check::lse : Check::bound);
    ASSERT_EQ(wrong.failures, 1);
    ASSERT_FALSE(wrong.worst.empty());
    const ElementError& e = wrong.worst[0];
    ASSERT_EQ(std::tuple(e.b, e.h, e.row, e.col), std::tuple(b, h, i, col));
    ASSERT_EQ(p.with_wrong(row, b, h, i, col, side * (1 - kBesideTheBound)).failures, 0) << "inside the bound";
  }
}

// First, middle and last of n.
std::set<int64_t> places(int64_t n) { return {0, n / 2, n - 1}; }

void expect_found_everywhere(Planted& p, bool all) {
  const Shape& s = p.problem.shape;
  const auto of = [&](int64_t n) {
    std::set<int64_t> chosen = places(n);
    for (int64_t k = 0; all && k < n; ++k) chosen.insert(k);
    return chosen;
  };
  for (int64_t b : of(s.b))
    for (int64_t h : of(s.hq))
      for (int64_t i : of(s.nq)) {
        const RowReference row = p.judge.row(p.problem, b, h, i, p.options);
        for (int64_t col : of(s.dv)) {
          expect_found(p, row, b, h, i, col);
          if (testing::Test::HasFatalFailure()) return;
        }
        expect_found(p, row, b, h, i, -1);
        if (testing::Test::HasFatalFailure()) return;
      }
}

}  // namespace

TEST(PlantedElement, IsFoundAtEveryPlaceOfASmallProblem) {
  for (DType type : kAllDTypes) {
    Planted p({.b = 2, .hq = 4, .hk = 2, .nq = 3, .nk = 21, .d = 3, .dv = 5}, type, false);
    expect_found_everywhere(p, true);
  }
}

TEST(PlantedElement, IsFoundByTheExactPathToo) {
  Planted p({.b = 2, .hq = 2, .hk = 1, .nq = 2, .nk = 5, .d = 2, .dv = 3}, DType::bf16, true);
  expect_found_everywhere(p, true);
}

TEST(PlantedElement, IsFoundAtCornersAndMiddlesOfALargeProblem) {
  for (DType type : kAllDTypes) {
    Planted p({.b = 3, .hq = 3, .hk = 3, .nq = 3, .nk = 130, .d = 64, .dv = 130}, type, false);
    expect_found_everywhere(p, false);
  }
}

TEST(PlantedElement, IsFoundInLongRows) {
  Planted p({.nq = 2, .nk = 1024, .d = 4, .dv = 64}, DType::f16, false);
  expect_found_everywhere(p, false);
}

}  // namespace attest
