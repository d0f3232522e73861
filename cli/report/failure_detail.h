// failure_detail.h: what a report shows of one failing case beside what is printed: the states of its worst row tile by
// tile, the mass that the kernel gave each tile, and where over rows and tiles those masses are wrong.
//
// Masses of a black box: V is replaced by indicators of the tiles, on the same Q, K and masks, so that O is the mass of
// each tile; the exact mass is sum exp(s_ij - m_i) / l_i over the tile, in double. Of more than kMapTiles tiles neighbours
// are taken together, of more than kMapRows rows every n-th is shown.
// What it does not do: anything for a kernel that crashed or hung on the case; it is not run again.
// Example: FailureDetail d = examine(problem, verdict, context);
#pragma once

#include <vector>

#include "cli/tile_visits.h"
#include "kernel/runner/kernel.h"
#include "reference/verdict.h"

namespace attest::cli {

inline constexpr int64_t kMapRows = 48, kMapTiles = 48;
inline constexpr size_t kStatesShown = 256;

struct TileState {
  int32_t split = 0;
  KeyBlock keys{0, 0};
  bool traced = false;           // m, l and scale of the kernel are known
  double m = 0, l = 0, scale = 0;
  double exact_m = 0, exact_l = 0, exact_scale = 0;
};

// Row i's mass in tile t at [i * tiles.size() + t]; NaN where nothing is known, of rows that are not in range for instance.
struct MassMap {
  std::vector<int64_t> rows;
  std::vector<KeyBlock> tiles;
  std::vector<double> expected, got;
};

struct FailureDetail {
  Place place;                    // the worst row
  std::string nothing;            // why there are no states; "" if there are
  std::vector<TileState> states;  // of that row, in the order of its visits; at most kStatesShown
  MassMap map;                    // of the rows of its batch and head
};

// Runs the kernel on the case, and on it with V replaced.
FailureDetail examine(const Problem& problem, const Verdict& verdict, const Kernel& kernel);

}  // namespace attest::cli
