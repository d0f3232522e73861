// observation.h: what one run of a kernel on a Problem was seen to do.
//
// Outputs are widened to double, which is exact, and packed [B,Hq,Nq,Dv] and [B,Hq,Nq] whatever layout the
// kernel wrote. Two outputs have "the same bits" when same_value() holds for every element (+0 equals -0,
// NaN equals NaN).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/problem.h"

namespace attest {

enum class RunStatus : uint8_t { ok, unsupported, failed, crashed, timed_out };

// One visit of one tile by one row; see attest_trace_record in kernel/abi/attest_kernel.h.
struct TraceRecord {
  int32_t b = 0, h = 0;
  int64_t row = 0;
  int32_t split = 0;
  int64_t sequence = 0;
  int64_t key_begin = 0, key_end = 0;
  float m = 0, l = 0, scale = 0;
};

struct Observation {
  RunStatus status = RunStatus::ok;
  std::string message;            // the kernel's reason where status is not ok
  std::vector<double> o;          // packed [B,Hq,Nq,Dv]
  std::vector<double> lse;        // packed [B,Hq,Nq]; empty if the kernel gives none
  bool traced = false;
  std::vector<TraceRecord> trace; // sorted by b, h, row, split, sequence
  // Memory, each empty or one line that says where: "o: 4 bytes past the end were written".
  std::string overrun;      // a guard band around an output, workspace or trace was changed
  std::string unwritten;    // an output element still holds the poison of both fills
  std::string input_change; // an input byte was changed
  double seconds = 0;       // of forward, synchronisation included
  std::string path;         // which of its code paths the kernel says it took, if it says
};

inline bool same_value(double a, double b) { return a == b || (a != a && b != b); }

}  // namespace attest
