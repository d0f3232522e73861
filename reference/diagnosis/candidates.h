// candidates.h: which faults can be tried on a problem: every family whose fault could show on it.
//
// Tile size, order and split count come from the trace or the problem's choices where those tell them, and are tried
// otherwise. Numbers that only the outputs can tell (a scale, a tile's weight) are fitted in diagnose.cpp.
#pragma once

#include <vector>

#include "reference/diagnosis/fault.h"
#include "reference/numerics.h"
#include "reference/observation.h"

namespace attest {

// Ways in which a kernel may have walked over the keys, the likeliest first.
std::vector<Walk> possible_walks(const Problem& problem, const std::vector<TraceRecord>& trace);

// Every fault with one walk; those for which the walk does not matter only with the first, and not at all where only
// those that hang on it are asked for.
enum class Hanging : uint8_t { any, on_walk };
std::vector<Fault> candidates(const Problem& problem, const std::vector<Walk>& walks, Hanging which = Hanging::any);

// The same walks in splits, where nothing tells how many there are. `boundaries`: keys at which one seems to begin.
std::vector<Walk> in_splits(const Problem& problem, const std::vector<Walk>& walks, const std::vector<int64_t>& boundaries);

// How one run was walked, as its trace tells it; `elsewhere`: as other runs of the kernel were.
Walk walk_of_trace(const Problem& problem, const std::vector<TraceRecord>& trace, const Walk& elsewhere);

// The same fault on another problem, which may ask for another walk.
Fault carried_over(const Fault& fault, const Problem& from, const Problem& to);

// Explanations of a measured factor on the scale: "1/d for 1/sqrt(d)".
struct KnownScale {
  double factor;
  std::string what;
};
std::vector<KnownScale> known_scales(const Problem& problem);

}  // namespace attest
