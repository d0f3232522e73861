#include "cli/report/failure_detail.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "properties/trial.h"

namespace attest::cli {

namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr double kMostWork = 1e7;    // rows * keys * (D + Dv) of all runs, beyond which no masses are measured
constexpr double kMostStates = 1e7;  // tiles * keys * (Dv + 50) of the row, beyond which no states are computed

Place worst_place(const Problem& p, const Verdict& v) {
  // The worst element may belong to a further run of another shape.
  for (const ElementError& e : v.worst)
    if (e.b < p.shape.b && e.h < p.shape.hq && e.row < p.shape.nq && e.b >= 0 && e.h >= 0 && e.row >= 0) return {e.b, e.h, e.row};
  return {};
}

std::vector<KeyBlock> joined(std::vector<KeyBlock> tiles) {
  std::sort(tiles.begin(), tiles.end(), [](const KeyBlock& a, const KeyBlock& b) { return a.begin < b.begin; });
  // Tiles are disjoint; where a wrong trace says otherwise, each key counts for the first that holds it.
  std::vector<KeyBlock> apart;
  for (const KeyBlock& t : tiles) {
    const int64_t begin = apart.empty() ? t.begin : std::max(t.begin, apart.back().end);
    if (begin < t.end) apart.push_back({begin, t.end});
  }
  const auto group = (static_cast<int64_t>(apart.size()) + kMapTiles - 1) / kMapTiles;
  if (group <= 1) return apart;
  std::vector<KeyBlock> groups;
  for (size_t n = 0; n < apart.size(); n += static_cast<size_t>(group))
    groups.push_back({apart[n].begin, apart[std::min(n + static_cast<size_t>(group), apart.size()) - 1].end});
  return groups;
}

// The same problem whose V holds, in its columns, the indicators of tiles [first, first + Dv).
Problem with_indicators(const Problem& p, const std::vector<KeyBlock>& tiles, size_t first) {
  Problem probe = p;
  const Shape& s = p.shape;
  probe.v = Tensor::packed(p.type, {s.b, s.hk, s.nk, s.dv});
  for (int64_t d = 0; d < s.dv && first + static_cast<size_t>(d) < tiles.size(); ++d) {
    const KeyBlock& tile = tiles[first + static_cast<size_t>(d)];
    for (int64_t b = 0; b < s.b; ++b)
      for (int64_t h = 0; h < s.hk; ++h)
        for (int64_t j = std::max<int64_t>(0, tile.begin); j < std::min(tile.end, s.nk); ++j) probe.v.set(b, h, j, d, 1);
  }
  return probe;
}

void expect_masses(const Problem& p, const Conventions& conventions, const Place& place, MassMap& map) {
  RowScores scores(p, conventions);
  for (size_t r = 0; r < map.rows.size(); ++r) {
    scores.load(place.b, place.h, map.rows[r]);
    if (scores.kind() != RowKind::normal) continue;
    double* mass = &map.expected[r * map.tiles.size()];
    std::fill(mass, mass + map.tiles.size(), 0.0);
    double m = scores.sink().value_or(-std::numeric_limits<double>::infinity());
    for (double s : scores.scores()) m = std::max(m, s);
    double l = scores.sink() ? std::exp(*scores.sink() - m) : 0;
    for (size_t n = 0; n < scores.keys().size(); ++n) {
      const double weight = std::exp(scores.scores()[n] - m);
      l += weight;
      const int64_t key = scores.keys()[n];
      const auto after = std::upper_bound(map.tiles.begin(), map.tiles.end(), key, [](int64_t k, const KeyBlock& t) { return k < t.begin; });
      if (after != map.tiles.begin() && key < std::prev(after)->end) mass[std::prev(after) - map.tiles.begin()] += weight;
    }
    for (size_t t = 0; t < map.tiles.size(); ++t) mass[t] /= l;
  }
}

void measure_masses(const Problem& p, const Kernel& kernel, const Place& place, MassMap& map) {
  const Shape& s = p.shape;
  const auto columns = static_cast<size_t>(s.dv);
  const auto runs = (map.tiles.size() + columns - 1) / columns;
  if (static_cast<double>(runs) * static_cast<double>(s.rows()) * static_cast<double>(s.nk) * static_cast<double>(s.d + s.dv) > kMostWork) return;
  for (size_t first = 0; first < map.tiles.size(); first += columns) {
    const Observation seen = kernel.run(with_indicators(p, map.tiles, first), kPlainRun);
    if (seen.status != RunStatus::ok || seen.o.size() != static_cast<size_t>(s.rows()) * columns) return;
    for (size_t r = 0; r < map.rows.size(); ++r) {
      const auto at = static_cast<size_t>((place.b * s.hq + place.h) * s.nq + map.rows[r]) * columns;
      for (size_t d = 0; d < columns && first + d < map.tiles.size(); ++d) map.got[r * map.tiles.size() + first + d] = seen.o[at + d];
    }
  }
}

}  // namespace

FailureDetail examine(const Problem& p, const Verdict& verdict, const Kernel& kernel) {
  FailureDetail detail;
  const Shape& s = p.shape;
  if (verdict.disposition == Disposition::crashed || verdict.disposition == Disposition::timed_out) {
    detail.nothing = "the kernel did not survive the case";
    return detail;
  }
  if (s.rows() == 0 || s.nk == 0) {
    detail.nothing = "the case has no row or no key";
    return detail;
  }
  detail.place = worst_place(p, verdict);
  const Place& at = detail.place;
  const Observation seen = kernel.run(p, {.trace = true});
  if (seen.status != RunStatus::ok) {
    detail.nothing = "the kernel did not run on the case again: " + seen.message;
    return detail;
  }
  std::vector<KeyBlock> tiles;
  for (const SplitVisits& split : tile_visits(p, seen, at)) {
    tiles.insert(tiles.end(), split.blocks.begin(), split.blocks.end());
    if (static_cast<double>(split.blocks.size()) * static_cast<double>(s.nk) * static_cast<double>(s.dv + 50) > kMostStates) {
      detail.nothing = "the row has too many tiles and keys for a report; attest show prints them";
      continue;
    }
    const ReferenceStates truth = reference_states(p, kernel.conventions(), at.b, at.h, at.i, split.blocks);
    if (truth.kind == RowKind::nan) detail.nothing = "a visible key of the row has a NaN or +inf score: the row must be NaN";
    if (truth.kind == RowKind::out_of_range) detail.nothing = "the row is out of range: nothing is promised";
    for (size_t n = 0; n < truth.states.size() && detail.states.size() < kStatesShown; ++n) {
      const ReferenceState& t = truth.states[n];
      TileState& state = detail.states.emplace_back();
      state.split = split.split;
      state.keys = split.blocks[n];
      state.exact_m = static_cast<double>(t.m);
      state.exact_l = static_cast<double>(t.l);
      state.exact_scale = static_cast<double>(t.scale);
      if (split.records.empty()) continue;
      state.traced = true;
      state.m = split.records[n]->m;
      state.l = split.records[n]->l;
      state.scale = split.records[n]->scale;
    }
  }
  MassMap& map = detail.map;
  map.tiles = joined(std::move(tiles));
  if (map.tiles.empty()) return detail;
  const int64_t step = (s.nq + kMapRows - 1) / kMapRows;
  for (int64_t i = at.i % step; i < s.nq; i += step) map.rows.push_back(i);
  map.expected.assign(map.rows.size() * map.tiles.size(), kUnknown);
  map.got = map.expected;
  expect_masses(p, kernel.conventions(), at, map);
  measure_masses(p, kernel, at, map);
  return detail;
}

}  // namespace attest::cli
