#include "properties/generate/shapes.h"

#include <algorithm>
#include <vector>

namespace attest {

namespace {

// Lengths where vector widths, warps and tiles of real kernels begin and end.
constexpr int64_t kEdgeLengths[] = {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129};
constexpr int64_t kSmallWidths[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 24, 31};
constexpr int64_t kWideWidths[] = {32,  64,  33,  40,  48,  63,  65,  72,  80,  96, 100,
                                   127, 128, 129, 160, 191, 192, 193, 224, 255, 256};

int64_t near_multiple(Choices& c, int64_t tile, int64_t multiples) {
  const int64_t multiple = c.between(1, multiples) * tile;
  return multiple + c.between(-1, 1);
}

int64_t draw_keys(Choices& c, const ShapeWishes& w) {
  const int64_t lo = w.least.nk, hi = std::max(w.most.nk, lo);
  int64_t nk = 0;
  const uint64_t u = c.below(1000);
  const auto in = [&](int64_t from, int64_t to) {  // evenly, or around a multiple of the tile
    const int64_t length = c.between(from, to);
    return c.bits(1) ? length : length / w.tile * w.tile + c.between(-1, 1);
  };
  if (u < 220)
    nk = c.pick(kEdgeLengths);
  else if (u < 480)
    nk = near_multiple(c, w.tile, w.tile > 64 ? 1 : 2);
  else if (u < 650)
    nk = c.between(1, 127);
  else if (u < 905)
    nk = in(128, 511);
  else if (u < 975)
    nk = in(512, 2047);
  else
    nk = in(2049, 4200);
  if (nk < lo) {
    const uint64_t how = c.below(4);  // the least itself, the tile's last key, one more, or up to two tiles more
    const int64_t to_edge = (w.tile - lo % w.tile) % w.tile;
    nk = how == 0   ? lo
         : how == 1 ? lo + to_edge
         : how == 2 ? lo + to_edge + 1
                    : lo + static_cast<int64_t>(c.below(2 * w.tile));
  }
  if (nk > hi) nk = c.bits(1) ? hi : c.between(lo, hi);
  return nk;
}

void draw_widths(Choices& c, const Target& target, const ShapeWishes& w, Shape& s) {
  const int64_t unit = w.aligned ? 16 / size_of(w.type) : 1;
  const auto fit = [&](int64_t width, int64_t lo, int64_t hi) {
    hi = std::max<int64_t>(std::min(hi, target.max_width) / unit * unit, unit);
    width = (std::max(width, lo) + unit - 1) / unit * unit;
    return width <= hi ? width : c.between(std::max<int64_t>((lo + unit - 1) / unit, 1), hi / unit) * unit;
  };
  if (!target.widths.empty()) {
    std::vector<int64_t> allowed;
    for (int64_t width : target.widths)
      if (width >= std::max(w.least.d, w.least.dv) && width <= std::min(w.most.d, w.most.dv)) allowed.push_back(width);
    s.d = s.dv = c.pick(allowed.empty() ? target.widths : allowed);
    return;
  }
  const auto wide = [&] { return c.below(4) ? c.pick(kWideWidths) : c.between(32, 256); };
  const auto narrow = [&] { return c.bits(1) ? c.pick(kSmallWidths) : c.between(1, 31); };
  const uint64_t u = c.below(100);
  if (u < 34) {
    s.d = narrow();
    s.dv = c.below(3) ? narrow() : s.d;
  } else if (u < 40) {
    s.d = wide(), s.dv = narrow();
    if (c.bits(1)) std::swap(s.d, s.dv);
  } else {
    s.d = wide();
    s.dv = c.below(3) ? s.d : wide();
  }
  s.d = fit(s.d, w.least.d, w.most.d);
  s.dv = fit(s.dv, w.least.dv, w.most.dv);
}

int64_t draw_queries(Choices& c, const ShapeWishes& w, int64_t nk) {
  if (w.more_queries) return nk + (c.bits(1) ? c.between(1, 3) : c.between(1, 20));
  const uint64_t u = c.below(100);
  if (u < 22) return c.between(2, 9);
  if (u < 42) return 1;
  if (u < 58) return c.pick(kEdgeLengths);
  if (u < 66) return near_multiple(c, w.tile, 2);
  if (u < 74) return nk;
  if (u < 82) return nk + c.between(-2, 2);
  if (u < 88) return nk + c.between(1, 8);
  return c.between(1, 40);
}

}  // namespace

Shape draw_shape(Choices& c, const Target& target, const ShapeWishes& w) {
  Shape s;
  s.nk = draw_keys(c, w);
  draw_widths(c, target, w, s);
  s.nq = std::clamp(draw_queries(c, w, s.nk), w.least.nq, std::max(w.most.nq, w.least.nq));
  constexpr int64_t kHeads[] = {1, 1, 2, 1, 3, 2, 4, 1};
  constexpr int64_t kBatches[] = {1, 1, 1, 2, 1, 2, 3, 4};
  constexpr int64_t kRatios[] = {1, 1, 1, 2, 1, 4, 3, 6};
  s.hk = std::clamp(c.pick(kHeads), w.least.hk, std::max(w.most.hk, w.least.hk));
  s.b = std::clamp(c.pick(kBatches), w.least.b, std::max(w.most.b, w.least.b));
  int64_t ratio = w.may_group ? c.pick(kRatios) : 1;
  if (w.grouped && ratio == 1) ratio = c.between(2, 4);
  const int64_t least_ratio = w.grouped ? 2 : 1;
  ratio = std::clamp(ratio, least_ratio, std::max(w.most.hq / std::max<int64_t>(s.hk, 1), least_ratio));

  // Make it affordable: fewer rows first, then narrower, rows above four kept longest.
  const double work = w.work * (c.below(30) == 29 ? 5 : 1);
  const auto width = [&] { return static_cast<double>(s.d + s.dv); };
  const auto rows = [&] { return s.b * s.hk * ratio * s.nq; };
  const auto cost = [&](double row_count) { return row_count * static_cast<double>(s.nk) * width(); };
  const double elements = work / (c.below(10) == 9 ? 8 : 48);  // of K and V, which generating and judging pay for too
  const auto shrink_rows = [&](int64_t keep) {
    while (cost(static_cast<double>(rows())) > work && rows() > keep) {
      const int64_t before = rows();
      const int64_t most_queries = static_cast<int64_t>(work / (cost(1) * static_cast<double>(rows() / s.nq)));
      if (s.nq > w.least.nq && !w.more_queries && s.nq > 4)
        s.nq = std::max({w.least.nq, most_queries, int64_t{4}});
      else if (s.b > w.least.b)
        --s.b;
      else if (s.hk > w.least.hk)
        --s.hk;
      else if (ratio > least_ratio)
        --ratio;
      else if (s.nq > w.least.nq && !w.more_queries)
        --s.nq;
      if (rows() == before) break;
    }
  };
  shrink_rows(6);
  while (static_cast<double>(s.b * s.hk * s.nk) * width() > elements && (s.b > w.least.b || s.hk > w.least.hk))
    s.b > w.least.b ? --s.b : --s.hk;
  if (target.widths.empty()) {
    const int64_t unit = w.aligned ? 16 / size_of(w.type) : 1;
    const int64_t floor_d = std::max<int64_t>(w.least.d, 32), floor_dv = std::max<int64_t>(w.least.dv, 32);
    const auto heavy = [&] {
      return cost(static_cast<double>(rows())) > work || static_cast<double>(s.b * s.hk * s.nk) * width() > elements;
    };
    while (heavy() && (s.d > floor_d || s.dv > floor_dv)) {
      if (s.d > floor_d) s.d = std::max(floor_d, s.d / 2 / unit * unit);
      if (s.dv > floor_dv) s.dv = std::max(floor_dv, s.dv / 2 / unit * unit);
    }
  }
  shrink_rows(1);
  s.hq = s.hk * ratio;
  return s;
}

}  // namespace attest
