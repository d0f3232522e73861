#include "properties/trace_check.h"

#include <gtest/gtest.h>

#include <cmath>

namespace attest {

namespace {

Kernel host() { return std::get<Kernel>(Kernel::load("host")); }

// One row, eight keys in tiles of two, scores 0 1 2 ... 7 but for tile 2, which is masked.
Problem rising() {
  Problem p = Problem::make({.b = 1, .hq = 1, .hk = 1, .nq = 1, .nk = 8, .d = 1, .dv = 1}, DType::f32);
  p.scale = 1;
  p.q.set(0, 0, 0, 0, 1);
  p.mask = BoolMask{Layout::packed({1, 1, 1, 8}), std::vector<uint8_t>(8, 1)};
  for (int64_t j = 0; j < 8; ++j) {
    p.k.set(0, 0, j, 0, static_cast<double>(j));
    p.v.set(0, 0, j, 0, static_cast<double>(j % 3));
  }
  p.mask->storage[4] = p.mask->storage[5] = 0;
  p.choice.tile_keys = 2;
  p.choice.order = TileOrder::ascending;
  return p;
}

Observation traced(const Problem& p) {
  RunOptions options = kPlainRun;
  options.trace = true;
  Observation seen = host().run(p, options);
  // The masked tile, which this kernel skips, as one that does not skip would record it.
  if (seen.trace.size() == 3) {
    TraceRecord r = seen.trace[1];
    r.key_begin = 4;
    r.key_end = 6;
    r.scale = 1;
    seen.trace.insert(seen.trace.begin() + 2, r);
    for (size_t n = 0; n < seen.trace.size(); ++n) seen.trace[n].sequence = static_cast<int64_t>(n);
  }
  return seen;
}

Verdict check(const Problem& p, const Observation& seen, TraceInvariant invariant, double max_lag = 0) {
  JudgeOptions options;
  options.numerics = strict(p.type);
  options.numerics.max_lag = max_lag;
  Verdict v;
  check_trace(v, p, seen, invariant, options);
  return v;
}

constexpr TraceInvariant kAll[] = {TraceInvariant::scale, TraceInvariant::maximum, TraceInvariant::denominator, TraceInvariant::masked_tiles,
                                   TraceInvariant::last_state};

}  // namespace

TEST(TraceCheck, a_right_trace_passes) {
  const Problem p = rising();
  const Observation seen = traced(p);
  ASSERT_EQ(seen.trace.size(), 4u);
  for (TraceInvariant invariant : kAll) EXPECT_TRUE(check(p, seen, invariant).ok()) << check(p, seen, invariant).detail;
}

TEST(TraceCheck, each_invariant_sees_its_fault) {
  const Problem p = rising();
  const Observation right = traced(p);
  const struct {
    TraceInvariant invariant;
    size_t record;
    float TraceRecord::*field;
    float value;
  } faults[] = {
      {TraceInvariant::scale, 1, &TraceRecord::scale, 1.5f},
      {TraceInvariant::scale, 1, &TraceRecord::scale, -0.1f},
      {TraceInvariant::scale, 1, &TraceRecord::scale, std::nanf("")},
      {TraceInvariant::scale, 1, &TraceRecord::scale, 1.0f},  // no rescale
      {TraceInvariant::scale, 0, &TraceRecord::scale, 1.0f},  // at the first visible key it is 0
      {TraceInvariant::maximum, 1, &TraceRecord::m, 2.0f},    // the tile's first key, not its largest
      {TraceInvariant::maximum, 1, &TraceRecord::m, 3.0001f},
      {TraceInvariant::maximum, 3, &TraceRecord::m, 1.0f},    // falls
      {TraceInvariant::maximum, 3, &TraceRecord::m, std::nanf("")},
      {TraceInvariant::denominator, 1, &TraceRecord::l, 0.9f},
      {TraceInvariant::denominator, 1, &TraceRecord::l, 4.001f},
      {TraceInvariant::denominator, 3, &TraceRecord::l, std::nanf("")},
      {TraceInvariant::masked_tiles, 2, &TraceRecord::m, 5.0f},
      {TraceInvariant::masked_tiles, 2, &TraceRecord::l, 3.0f},
      {TraceInvariant::masked_tiles, 2, &TraceRecord::scale, 0.5f},
      {TraceInvariant::last_state, 3, &TraceRecord::l, 1.7f},
      {TraceInvariant::last_state, 3, &TraceRecord::m, 7.001f},
  };
  for (const auto& fault : faults) {
    Observation wrong = right;
    wrong.trace[fault.record].*fault.field = fault.value;
    const Verdict v = check(p, wrong, fault.invariant);
    EXPECT_EQ(v.check, Check::invariant) << "record " << fault.record << ", value " << fault.value;
  }
}

TEST(TraceCheck, a_visible_key_must_be_visited_once) {
  const Problem p = rising();
  Observation wrong = traced(p);
  wrong.trace.erase(wrong.trace.begin());
  EXPECT_EQ(check(p, wrong, TraceInvariant::last_state).check, Check::invariant);
  wrong = traced(p);
  wrong.trace[1].key_begin = 1;
  EXPECT_EQ(check(p, wrong, TraceInvariant::last_state).check, Check::invariant);
  // The masked tile may be skipped.
  wrong = traced(p);
  wrong.trace.erase(wrong.trace.begin() + 2);
  EXPECT_TRUE(check(p, wrong, TraceInvariant::last_state).ok());
}

TEST(TraceCheck, a_declared_lag_widens_the_invariants_by_exactly_that) {
  const Problem p = rising();
  Observation lazy = traced(p);
  lazy.trace[1].m = 1;  // trails the true maximum, 3, by 2
  EXPECT_TRUE(check(p, lazy, TraceInvariant::maximum, 2.0).ok());
  EXPECT_FALSE(check(p, lazy, TraceInvariant::maximum, 1.9).ok());
  lazy.trace[1].l = 4.0f * std::exp(2.0f) * 0.99f;
  EXPECT_TRUE(check(p, lazy, TraceInvariant::denominator, 2.0).ok());
  EXPECT_FALSE(check(p, lazy, TraceInvariant::denominator, 1.9).ok());
}

TEST(TraceCheck, a_sink_taken_first_is_the_last_state_of_a_row_without_records) {
  Problem p = rising();
  p.sink = {2.0f};
  p.mask->storage.assign(8, 0);
  const Observation seen = host().run(p, {.trace = true});
  ASSERT_TRUE(seen.traced && seen.trace.empty());
  for (bool sink_first : {false, true}) {
    JudgeOptions options{.numerics = strict(p.type)};
    options.conventions.sink_first = sink_first;
    Verdict v;
    check_trace(v, p, seen, TraceInvariant::last_state, options);
    EXPECT_TRUE(v.ok()) << v.detail;
    Observation wrong = seen;
    wrong.lse[0] = 2.1;
    Verdict w;
    check_trace(w, p, wrong, TraceInvariant::last_state, options);
    EXPECT_EQ(w.check, Check::invariant);
  }
}

TEST(TraceCheck, a_record_of_no_row_is_an_error) {
  const Problem p = rising();
  Observation wrong = traced(p);
  wrong.trace.back().row = 1;
  EXPECT_EQ(check(p, wrong, TraceInvariant::maximum).check, Check::invariant);
}

}  // namespace attest
