// What is told of two kernels that differ: equal bits, distances in numbers of the type, who is nearer to exact.
#include "properties/difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernel/runner/kernel.h"
#include "properties/verify.h"

namespace attest {
namespace {

TEST(StepsBetween, counts_the_numbers_of_the_type) {
  EXPECT_EQ(steps_between(DType::f32, 1, 1), 0u);
  EXPECT_EQ(steps_between(DType::f32, 1, std::nextafterf(1, 2)), 1u);
  EXPECT_EQ(steps_between(DType::bf16, 1, 1.0078125), 1u);
  EXPECT_EQ(steps_between(DType::f16, 1.0009765625, 1), 1u);
  EXPECT_EQ(steps_between(DType::f16, -0x1p-24, 0x1p-24), 2u);  // through zero
  EXPECT_EQ(steps_between(DType::f16, 0.0, -0.0), 0u);
  EXPECT_EQ(steps_between(DType::f16, -65504, 65504), 2u * 0x7BFF);
}

// One batch, one head, two rows of two columns.
Problem two_rows() { return Problem::make({.b = 1, .hq = 1, .hk = 1, .nq = 2, .nk = 4, .d = 2, .dv = 2}, DType::f32); }

Observation seen(std::vector<double> o, std::vector<double> lse) {
  Observation s;
  s.o = std::move(o);
  s.lse = std::move(lse);
  return s;
}

Details exactly(const Observation& kernel, const std::vector<double>& o, const std::vector<double>& lse) {
  Details d;
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t col = 0; col < 2; ++col) d.elements.push_back({0, 0, row, col, kernel.o[static_cast<size_t>(2 * row + col)], o[static_cast<size_t>(2 * row + col)], 0, 0, 0});
    d.elements.push_back({0, 0, row, -1, kernel.lse[static_cast<size_t>(row)], lse[static_cast<size_t>(row)], 0, 0, 0});
  }
  return d;
}

TEST(Difference, tells_who_is_nearer_by_element_and_by_row) {
  const double up = std::nextafterf(1, 2), nan = std::numeric_limits<double>::quiet_NaN();
  const Observation kernel = seen({1, 1, 2, nan}, {0, 3}), baseline = seen({up, 1, 2, 2}, {0, 4});
  // Row 0: the kernel is right and the baseline one number off. Row 1: a NaN proves nothing, LSE is the baseline's.
  const Difference d = difference(two_rows(), kernel, baseline, exactly(kernel, {1, 1, 2, 2}, {0, 4}));
  EXPECT_EQ(d.cases, 1);
  EXPECT_EQ(d.elements, 6);
  EXPECT_EQ(d.equal(), 3);
  EXPECT_EQ(d.distances[1], 1);                // one number
  EXPECT_EQ(d.distances[kDistances - 1], 1);   // the NaN
  EXPECT_EQ(d.nearer, 1);
  EXPECT_EQ(d.baseline_nearer, 1);
  EXPECT_EQ(d.rows, 2);
  EXPECT_EQ(d.rows_nearer, 1);
  EXPECT_EQ(d.rows_baseline_nearer, 0);
}

TEST(Difference, of_parts_adds_up) {
  const Observation kernel = seen({1, 1, 2, 3}, {0, 3}), baseline = seen({1, 1, 2, 2}, {0, 4});
  const Details exact = exactly(kernel, {1, 1, 2, 2}, {0, 4});
  Difference twice = difference(two_rows(), kernel, baseline, exact);
  twice.add(difference(two_rows(), kernel, baseline, exact));
  EXPECT_EQ(twice.cases, 2);
  EXPECT_EQ(twice.elements, 12);
  EXPECT_EQ(twice.equal(), 8);
  EXPECT_EQ(twice.rows_baseline_nearer, 2);
}

TEST(Difference, of_a_baseline_that_does_not_run_is_counted_as_that) {
  const Observation kernel = seen({1, 1, 2, 3}, {0, 3});
  Observation baseline;
  baseline.status = RunStatus::unsupported;
  const Difference d = difference(two_rows(), kernel, baseline, exactly(kernel, {1, 1, 2, 3}, {0, 3}));
  EXPECT_EQ(d.cases, 0);
  EXPECT_EQ(d.without_baseline, 1);
  EXPECT_EQ(d.elements, 0);
}

TEST(Difference, of_a_kernel_from_itself_is_none_and_changes_no_verdict) {
  const auto loaded = Kernel::load("host");
  const Kernel& host = std::get<Kernel>(loaded);
  VerifyOptions options{.cases = 60, .properties = "matches_reference|keys_doubled", .threads = 1};
  const VerifyReport plain = verify(host, options);
  options.baseline = &host;
  const VerifyReport against = verify(host, options);
  EXPECT_EQ(against.cases(), plain.cases());
  EXPECT_EQ(against.violations(), plain.violations());
  int64_t compared = 0;
  for (const PropertyReport& p : against.properties)
    for (const auto& [type, d] : p.differences) {
      compared += d.cases;
      EXPECT_EQ(d.equal(), d.elements) << p.name << " " << type;
      EXPECT_EQ(d.nearer + d.baseline_nearer + d.rows_nearer + d.rows_baseline_nearer, 0) << p.name << " " << type;
    }
  EXPECT_EQ(compared, against.cases());
}

}  // namespace
}  // namespace attest
