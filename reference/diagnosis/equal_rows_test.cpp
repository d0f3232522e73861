#include "reference/diagnosis/equal_rows.h"

#include <gtest/gtest.h>

namespace attest {

namespace {

using Apart = UnequalRows::Apart;

// One head of two rows over three keys in each of two batches of equal contents.
Problem twins() {
  Problem p = Problem::make({.b = 2, .hq = 1, .hk = 1, .nq = 2, .nk = 3, .d = 2, .dv = 2}, DType::f32);
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t i = 0; i < 2; ++i) p.q.set(b, 0, i, i, 1);
    for (int64_t j = 0; j < 3; ++j) {
      p.k.set(b, 0, j, 0, static_cast<double>(j));
      p.v.set(b, 0, j, 1, static_cast<double>(j + 1));
    }
  }
  return p;
}

EvidenceRun run(const Problem& p) {
  EvidenceRun r{p, {}, strict(p.type)};
  const auto rows = static_cast<size_t>(p.shape.rows());
  for (size_t n = 0; n < rows * static_cast<size_t>(p.shape.dv); ++n) r.seen.o.push_back(static_cast<double>(n % 4));
  for (size_t n = 0; n < rows; ++n) r.seen.lse.push_back(static_cast<double>(n % 2));
  return r;
}

}  // namespace

TEST(EqualRows, equal_bits_are_no_complaint) {
  Evidence e;
  e.runs = {run(twins()), run(twins())};
  EXPECT_FALSE(unequal_rows(e));
}

TEST(EqualRows, are_found_within_one_run_and_depend_on_what_stands_beside_them) {
  Evidence e;
  e.runs = {run(twins())};
  e.runs[0].seen.o[7] = 0.5;  // batch 1, row 1
  const auto found = unequal_rows(e);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->b, (RowPlace{1, 0, 1}));
  EXPECT_EQ(found->a, (RowPlace{0, 0, 1}));
  EXPECT_EQ(found->column, 1);
  EXPECT_EQ(found->apart, Apart::others);
}

TEST(EqualRows, of_the_same_call_twice_differ_in_nothing) {
  Evidence e;
  e.runs = {run(twins()), run(twins())};
  for (size_t n : {size_t{1}, size_t{3}}) e.runs[1].seen.lse[n] = 5;  // row 1 of both batches
  const auto found = unequal_rows(e);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->column, -1);
  EXPECT_EQ(found->apart, Apart::nothing);
}

TEST(EqualRows, of_another_layout_differ_in_the_layout) {
  Problem padded = twins();
  padded.k.layout.stride[0] *= 2;
  padded.k.storage.resize(padded.k.storage.size() * 2);
  for (int64_t j = 0; j < 3; ++j) padded.k.set(1, 0, j, 0, static_cast<double>(j));
  Evidence e;
  e.runs = {run(twins()), run(padded)};
  for (size_t n = 0; n < 8; n += 4) e.runs[1].seen.o[n] = 9;
  const auto found = unequal_rows(e);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->apart, Apart::layout);
}

TEST(EqualRows, rows_of_other_contents_or_flags_are_not_compared) {
  Problem other = twins();
  other.k.set(0, 0, 0, 0, 7);
  other.k.set(1, 0, 0, 0, 7);
  Problem causal = twins();
  causal.causal = true;
  Evidence e;
  e.runs = {run(twins()), run(other), run(causal)};
  for (size_t r : {size_t{1}, size_t{2}})
    for (double& x : e.runs[r].seen.o) x += 1;
  EXPECT_FALSE(unequal_rows(e));
}

}  // namespace attest
