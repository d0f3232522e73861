#include "cli/tile_visits.h"

#include <algorithm>

#include "reference/numerics.h"

namespace attest::cli {

std::vector<SplitVisits> tile_visits(const Problem& p, const Observation& seen, const Place& at) {
  std::vector<SplitVisits> splits;
  if (!seen.traced) {
    const int64_t tile = p.choice.tile_keys > 0 ? p.choice.tile_keys : Numerics{}.tile;
    SplitVisits& all = splits.emplace_back();
    for (int64_t begin = 0; begin < p.shape.nk; begin += tile) all.blocks.push_back({begin, std::min(begin + tile, p.shape.nk)});
    return splits;
  }
  for (const TraceRecord& r : seen.trace) {
    if (r.b != at.b || r.h != at.h || r.row != at.i) continue;
    if (splits.empty() || splits.back().split != r.split) splits.push_back({r.split, {}, {}});
    splits.back().blocks.push_back({r.key_begin, r.key_end});
    splits.back().records.push_back(&r);
  }
  return splits;
}

}  // namespace attest::cli
