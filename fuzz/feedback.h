// feedback.h: numerical progress as counters that libFuzzer takes for coverage, so that it climbs toward larger error.
//
// An execution sets one counter for each of: error over bound of O, of LSE, and noise over its threshold, in half
// octaves, per input type, place of the maximum and number of rescales of the worst row, and once more per feature in
// use; number of rescales; the maximum's place within its tile; the largest noise; classes of special values. Without
// libFuzzer the counters are memory that nobody reads.
// Source: LLVM, compiler-rt/lib/fuzzer/FuzzerExtraCounters.cpp.
#pragma once

#include <cstdint>
#include <span>

#include "reference/observation.h"
#include "reference/problem.h"
#include "reference/verdict.h"

namespace attest::fuzz {

inline constexpr int kRatioBuckets = 24;
// Half octaves: 0 below 2^-10.5, 20 from 1, 23 above 2^1.5 and for what is not finite.
int ratio_bucket(double ratio);

// Counts one execution. Where the kernel gives no trace, rescales and places are left out.
void record(const Problem& problem, const Observation& seen, const Verdict& verdict);

// A class of its own for a target without a problem, or for a further figure: set once for (set, value), both below 64.
void record_class(int set, int value);

std::span<uint8_t> counters();

}  // namespace attest::fuzz
