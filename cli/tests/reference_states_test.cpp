// The reference of `attest show` against states that can be worked out by hand.
#include "cli/reference_states.h"

#include <gtest/gtest.h>

#include <cmath>

namespace attest::cli {
namespace {

// Scores 1, 2, 5, 3, the values the number of the key.
Problem four_keys() {
  Problem p = Problem::make({.b = 1, .hq = 1, .hk = 1, .nq = 1, .nk = 4, .d = 1, .dv = 1}, DType::f32);
  p.q.set(0, 0, 0, 0, 1);
  const double scores[] = {1, 2, 5, 3};
  for (int j = 0; j < 4; ++j) {
    p.k.set(0, 0, j, 0, scores[j]);
    p.v.set(0, 0, j, 0, j);
  }
  return p;
}

TEST(ReferenceStates, two_blocks_rescale_by_the_difference_of_their_maxima) {
  const ReferenceStates r = reference_states(four_keys(), {}, 0, 0, 0, {{0, 2}, {2, 4}});
  ASSERT_EQ(r.states.size(), 2u);
  EXPECT_EQ(r.states[0].m, 2);
  EXPECT_EQ(r.states[0].scale, 0);
  EXPECT_NEAR(static_cast<double>(r.states[0].l), std::exp(-1.0) + 1, 1e-15);
  EXPECT_NEAR(static_cast<double>(r.states[0].o[0]), 1, 1e-15);
  EXPECT_EQ(r.states[1].m, 5);
  EXPECT_NEAR(static_cast<double>(r.states[1].scale), std::exp(-3.0), 1e-17);
  EXPECT_NEAR(static_cast<double>(r.states[1].l), std::exp(-4.0) + std::exp(-3.0) + 1 + std::exp(-2.0), 1e-15);
  EXPECT_NEAR(static_cast<double>(r.states[1].o[0]), std::exp(-3.0) + 2 + 3 * std::exp(-2.0), 1e-15);
}

TEST(ReferenceStates, the_last_state_does_not_depend_on_blocks_or_their_order) {
  const Problem p = four_keys();
  const ReferenceState whole = reference_states(p, {}, 0, 0, 0, {{0, 4}}).states.back();
  for (const std::vector<KeyBlock>& visits : {std::vector<KeyBlock>{{0, 1}, {1, 4}}, {{2, 4}, {0, 2}}, {{3, 4}, {2, 3}, {1, 2}, {0, 1}}}) {
    const ReferenceState last = reference_states(p, {}, 0, 0, 0, visits).states.back();
    EXPECT_EQ(last.m, whole.m);
    EXPECT_EQ(last.l, whole.l);
    EXPECT_EQ(last.o, whole.o);
  }
}

TEST(ReferenceStates, before_the_first_visible_key_nothing_is_known) {
  Problem p = four_keys();
  p.window.left = 0;  // the query stands at key 3
  const ReferenceStates r = reference_states(p, {}, 0, 0, 0, {{0, 2}, {2, 4}});
  EXPECT_TRUE(std::isinf(r.states[0].m) && r.states[0].m < 0);
  EXPECT_EQ(r.states[0].l, 0);
  EXPECT_TRUE(std::isnan(r.states[0].scale));
  EXPECT_EQ(r.states[1].m, 3);
  EXPECT_EQ(r.states[1].l, 1);
  EXPECT_EQ(r.states[1].scale, 0);
}

TEST(ReferenceStates, a_sink_is_left_out_unless_the_trace_holds_it_from_the_start) {
  Problem p = four_keys();
  p.sink = std::vector<float>{6};
  EXPECT_EQ(reference_states(p, {}, 0, 0, 0, {{0, 4}}).states[0].m, 5);
  const ReferenceState with_sink = reference_states(p, {.sink_first = true}, 0, 0, 0, {{0, 4}}).states[0];
  EXPECT_EQ(with_sink.m, 6);
  EXPECT_EQ(with_sink.scale, 1);
}

TEST(ReferenceStates, rows_that_promise_nothing_have_no_states) {
  Problem p = four_keys();
  p.k.set(0, 0, 1, 0, std::nan(""));
  const ReferenceStates r = reference_states(p, {}, 0, 0, 0, {{0, 4}});
  EXPECT_EQ(r.kind, RowKind::nan);
  EXPECT_TRUE(r.states.empty());
}

}  // namespace
}  // namespace attest::cli
