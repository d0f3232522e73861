#include "properties/generate/scores.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "properties/generate/floats.h"

namespace attest {

namespace {

// The visible keys cut into tiles: [begin[t], begin[t + 1]) are positions in `visible` of tile number t.
struct Tiles {
  std::vector<size_t> begin;
  explicit Tiles(const RowView& row) {
    int64_t last = -1;
    for (size_t n = 0; n < row.visible.size(); ++n)
      if (const int64_t t = row.visible[n] / row.tile; t != last) begin.push_back(n), last = t;
    begin.push_back(row.visible.size());
  }
  size_t count() const { return begin.size() - 1; }
  size_t draw_in(Choices& c, size_t t) const { return begin[t] + c.below(begin[t + 1] - begin[t]); }
};

double eighths(Choices& c, int bits) { return static_cast<double>(c.bits(bits)) * 0.125; }

// A quiet background below 0, then one key of tile t on top.
void maximum_in(const RowView& row, const Tiles& tiles, size_t t, Choices& c, std::span<double> s) {
  for (int64_t j : row.visible) s[j] = -eighths(c, 5);
  s[row.visible[tiles.draw_in(c, t)]] = 2 + static_cast<double>(c.below(row.wild && c.below(4) == 0 ? 120 : 24));
}

void needle_at(const RowView& row, int64_t key, Choices& c, std::span<double> s) {
  for (int64_t j : row.visible) s[j] = -eighths(c, 3);
  s[key] = static_cast<double>(c.between(8, row.wild ? 100 : 40));
}

bool needle_at_edge(const RowView& row, bool first, Choices& c, std::span<double> s) {
  std::vector<int64_t> edges;
  for (int64_t j : row.visible)
    if (j % row.tile == (first ? 0 : row.tile - 1)) edges.push_back(j);
  if (edges.empty()) return false;
  needle_at(row, edges[c.below(edges.size())], c, s);
  return true;
}

// Two levels `gap` apart, each held by some key; which keys are high is drawn by tile or by key.
void two_levels(const RowView& row, const Tiles& tiles, double gap, Choices& c, std::span<double> s) {
  const double high = static_cast<double>(c.between(-2, 2)) * 20, low = high - gap;
  const auto& keys = row.visible;
  const uint64_t how = c.below(4);
  for (size_t t = 0; t < tiles.count(); ++t)
    for (size_t n = tiles.begin[t]; n < tiles.begin[t + 1]; ++n) {
      const bool is_high = how == 0   ? t + 1 == tiles.count()
                           : how == 1 ? t == 0
                           : how == 2 ? t % 2 == 1
                                      : c.bits(1) == 1;
      s[keys[n]] = is_high ? high : low;
    }
  s[keys[0]] = how == 1 ? high : low;
  s[keys[keys.size() - 1]] = how == 1 ? low : high;
}

void random_normal(const RowView& row, Choices& c, std::span<double> s) {
  constexpr double kDeviations[] = {1, 0.5, 3, 8};
  const double deviation = c.pick(kDeviations);
  for (int64_t j : row.visible) s[j] = deviation * bell(c);
}

bool fill_visible(Regime regime, const RowView& row, double limit, Choices& c, std::span<double> s) {
  const auto& keys = row.visible;
  const size_t count = keys.size();
  const Tiles tiles(row);
  const uint32_t traits = traits_of(regime);
  if (count == 0 || ((traits & kTwoKeys) && count < 2) || ((traits & kTwoTiles) && tiles.count() < 2) ||
      ((traits & kThreeTiles) && tiles.count() < 3))
    return false;
  switch (regime) {
    case Regime::flat: {
      constexpr double kLevels[] = {0, 1, -3.5, 20, -60, 0.125};
      const double level = c.pick(kLevels);
      for (int64_t j : keys) s[j] = level;
      return true;
    }
    case Regime::max_first_tile:
      maximum_in(row, tiles, 0, c, s);
      return true;
    case Regime::max_middle_tile:
      maximum_in(row, tiles, 1 + c.below(tiles.count() - 2), c, s);
      return true;
    case Regime::max_last_tile:
      maximum_in(row, tiles, tiles.count() - 1, c, s);
      return true;
    case Regime::ascending:
    case Regime::descending: {
      constexpr double kSpans[] = {4, 20, 50, 150};
      const double span = kSpans[c.below(row.wild ? 4 : 3)];
      for (size_t n = 0; n < count; ++n) {
        const double at = span * (static_cast<double>(n) / static_cast<double>(count - 1) - 0.5);
        s[keys[n]] = regime == Regime::ascending ? at : -at;
      }
      return true;
    }
    case Regime::sawtooth: {
      // A step of 1 between maxima in [-128, 128] is exact in bf16; with more tiles than that they tie in places.
      const double step = std::min(3.0, (row.wild ? 240.0 : 50.0) / static_cast<double>(tiles.count()));
      // Or steps of some units in the last place from 1 up to 4, so small that a rescale by them is easily left out.
      const bool small = c.below(4) == 0;
      const int units = row.type == DType::f32 ? 1 << c.between(9, 13) : 1, most = 1 << significand_bits(row.type);
      const uint32_t one = saturate(row.type, 1 / std::fabs(row.unit));
      for (size_t t = 0; t < tiles.count(); ++t) {
        const auto steps = static_cast<int>(std::min<size_t>(t * static_cast<size_t>(units), static_cast<size_t>(most)));
        const double top = small ? std::fabs(row.unit) * to_double(row.type, step_bits(row.type, one, steps))
                                 : step * (static_cast<double>(t) - 0.5 * static_cast<double>(tiles.count()));
        for (size_t n = tiles.begin[t]; n < tiles.begin[t + 1]; ++n) s[keys[n]] = top - 1 - eighths(c, 6);
        s[keys[tiles.draw_in(c, t)]] = top;
      }
      return true;
    }
    case Regime::needle_tile_first_key:
      return needle_at_edge(row, true, c, s);
    case Regime::needle_tile_last_key:
      return needle_at_edge(row, false, c, s);
    case Regime::needle_last_key:
      needle_at(row, keys[count - 1], c, s);
      return true;
    case Regime::ties_within_tile: {
      std::vector<size_t> wide;  // tiles with two visible keys
      for (size_t t = 0; t < tiles.count(); ++t)
        if (tiles.begin[t + 1] - tiles.begin[t] >= 2) wide.push_back(t);
      if (wide.empty()) return false;
      const size_t t = wide[c.below(wide.size())];
      for (int64_t j : keys) s[j] = -eighths(c, 5);
      const double top = 1 + static_cast<double>(c.below(12));
      const size_t first = tiles.begin[t] + c.below(tiles.begin[t + 1] - tiles.begin[t] - 1);
      for (size_t n = first; n < tiles.begin[t + 1]; ++n)
        if (n < first + 2 || c.below(3) == 0) s[keys[n]] = top;
      return true;
    }
    case Regime::ties_across_tiles: {
      for (int64_t j : keys) s[j] = -eighths(c, 5);
      const double top = 1 + static_cast<double>(c.below(12));
      const size_t one = c.below(tiles.count()), other = (one + 1 + c.below(tiles.count() - 1)) % tiles.count();
      for (size_t t = 0; t < tiles.count(); ++t)
        if (t == one || t == other || c.below(8) == 0) s[keys[tiles.draw_in(c, t)]] = top;
      return true;
    }
    case Regime::peaked: {
      // 1e-5 of the mass: every other key below -ln(1e5 * count).
      const double floor = -12 - static_cast<double>(std::bit_width(count));
      for (int64_t j : keys) s[j] = floor - eighths(c, 7);
      for (uint64_t n = 1 + c.below(3); n > 0; --n) s[keys[c.below(count)]] = -eighths(c, 2);
      return true;
    }
    case Regime::gap_88:
      two_levels(row, tiles, 86 + 5 * c.unit(), c, s);
      return true;
    case Regime::gap_103:
      two_levels(row, tiles, 101 + 5 * c.unit(), c, s);
      return true;
    case Regime::score_limits: {
      const double top = std::ldexp(limit, -static_cast<int>(c.below(8)));
      const uint64_t how = c.below(3);  // magnitudes alike, spread over exponents, or one key above zeros
      for (int64_t j : keys) {
        const double sign = c.bits(1) ? -1 : 1, factor = 0.5 + 0.0625 * static_cast<double>(c.bits(3));
        s[j] = how == 0   ? sign * factor * top
               : how == 1 ? sign * std::ldexp(factor * top, -static_cast<int>(c.below(30)))
                          : 0;
      }
      if (how == 2) s[keys[c.below(count)]] = c.bits(1) ? top : -top;
      return true;
    }
    case Regime::common_offset:
    case Regime::random_scores:
      random_normal(row, c, s);
      return true;
    case Regime::tiny_differences: {
      constexpr double kBases[] = {1, 6, 24, 0.25};
      const double sign = c.bits(1) ? -1 : 1;
      const uint32_t base = saturate(row.type, sign * c.pick(kBases) / row.unit);
      for (int64_t j : keys)
        s[j] = row.unit * to_double(row.type, step_bits(row.type, base, static_cast<int>(c.below(4))));
      return true;
    }
    case Regime::alternating_signs: {
      constexpr double kSizes[] = {1, 6, 20, 60};
      const double size = kSizes[c.below(row.wild ? 4 : 3)];
      for (size_t n = 0; n < count; ++n) s[keys[n]] = n % 2 ? size : -size;
      return true;
    }
    default:
      return false;
  }
}

}  // namespace

double reach_of(Regime score, double limit) { return score == Regime::score_limits ? limit : 256; }

bool fill_scores(Regime score, const RowView& row, Choices& c, std::span<double> scores) {
  const double limit = scores.empty() ? 0 : reach_of(score, std::fabs(row.unit) * largest_finite(row.type));
  const bool filled = fill_visible(score, row, std::min(limit, 0x1p100), c, scores);
  if (!filled) random_normal(row, c, scores);
  // Hidden keys: one level for all, above the visible ones half of the time.
  double top = 0;
  for (int64_t j : row.visible) top = std::max(top, scores[j]);
  const double hidden = c.bits(1) ? std::min(top + 8, std::max(top, 256.0)) : -static_cast<double>(c.below(20));
  size_t next = 0;
  for (int64_t j = 0; j < static_cast<int64_t>(scores.size()); ++j) {
    if (next < row.visible.size() && row.visible[next] == j)
      ++next;
    else
      scores[j] = hidden;
  }
  return filled;
}

}  // namespace attest
