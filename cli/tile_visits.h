// tile_visits.h: which keys a row was given, in which order, as the kernel's trace tells; what show and reports lay out.
//
// Without a trace, the tiles that the case asks for, in ascending order, and no records.
// Example: for (const SplitVisits& split : tile_visits(problem, seen, {0, 0, 3})) ...
#pragma once

#include <cstdint>
#include <vector>

#include "cli/reference_states.h"
#include "reference/observation.h"

namespace attest::cli {

struct Place {
  int64_t b = 0, h = 0, i = 0;
};

struct SplitVisits {
  int32_t split = 0;
  std::vector<KeyBlock> blocks;
  std::vector<const TraceRecord*> records;  // one for each block, or none; they point into the observation
};

std::vector<SplitVisits> tile_visits(const Problem& problem, const Observation& seen, const Place& at);

}  // namespace attest::cli
