// trace_check.h: the invariants of a trace, section 2 of the contract, one function each.
//
// The trace of a row is held to the scores of the reference within what the numerics allow a kernel to round;
// the derivations stand at the tolerances in trace_check.cpp. Rows that are NaN or out of range promise nothing
// and are skipped. With a declared max_lag, m may trail the true maximum by that much and the bounds of l widen
// by exp(max_lag).
// Example:
//     Verdict v;
//     check_trace(v, problem, observation, TraceInvariant::maximum, options);
#pragma once

#include "properties/trial.h"

namespace attest {

enum class TraceInvariant : uint8_t {
  scale,         // 0 <= scale <= 1, never NaN, 0 at the first visible key, exp(m_old - m_new)
  maximum,       // m never falls and is the largest visible score seen
  denominator,   // 1 - eps <= l <= count (1 + eps) from the first visible key on
  masked_tiles,  // a tile without a visible key leaves m and l as they were, and scale 1 after the first key
  last_state     // every visible key lies in one visited tile; the merged last states give LSE
};

// Adds what it finds to `verdict`: rows and elements (records) checked, worst_ratio, the first failure.
void check_trace(Verdict& verdict, const Problem& problem, const Observation& seen, TraceInvariant invariant,
                 const JudgeOptions& options);

}  // namespace attest
