#include "fuzz/mutate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "properties/generate/floats.h"
#include "properties/generate/generate.h"

namespace attest::fuzz {

namespace {

struct Row {
  int64_t b = 0, h = 0, i = 0, key_head = 0;
};

bool has_scores(const Problem& p) { return p.shape.rows() > 0 && p.shape.nk > 0; }

Row pick_row(const Problem& p, Choices& c) {
  Row r;
  r.b = c.between(0, p.shape.b - 1);
  r.h = c.between(0, p.shape.hq - 1);
  r.i = c.between(0, p.shape.nq - 1);
  r.key_head = p.shape.key_head(r.h);
  return r;
}

int64_t tile_of(const Problem& p, const Target& target) {
  return p.choice.tile_keys > 0 ? p.choice.tile_keys : target.own_tile > 0 ? target.own_tile : 64;
}

double score(const Problem& p, const Row& r, int64_t key) {
  double dot = 0;
  for (int64_t col = 0; col < p.shape.d; ++col) dot += p.q.get(r.b, r.h, r.i, col) * p.k.get(r.b, r.key_head, key, col);
  return p.scale * dot + (p.bias ? to_double(p.bias->type, p.bias->bits(broadcast_at(p.bias->layout, r.b, r.h, r.i, key))) : 0.0);
}

// Keys with the smallest and the largest score of a row; NaN scores are passed over.
std::pair<int64_t, int64_t> extremes(const Problem& p, const Row& r) {
  int64_t low = 0, high = 0;
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (int64_t j = 0; j < p.shape.nk; ++j) {
    const double s = score(p, r, j);
    if (s < least) least = s, low = j;
    if (s > most) most = s, high = j;
  }
  return {low, high};
}

void swap_rows(Tensor& t, int64_t b, int64_t h, int64_t x, int64_t y) {
  if (x == y) return;
  for (int64_t col = 0; col < t.layout.extent[3]; ++col) {
    const int64_t at = t.layout.at(b, h, x, col), to = t.layout.at(b, h, y, col);
    const uint32_t kept = t.bits(at);
    t.set_bits(at, t.bits(to));
    t.set_bits(to, kept);
  }
}

void copy_row(Tensor& t, int64_t b, int64_t h, int64_t from, int64_t to) {
  for (int64_t col = 0; col < t.layout.extent[3]; ++col)
    t.set_bits(t.layout.at(b, h, to, col), t.bits(t.layout.at(b, h, from, col)));
}

// A place among all elements of a tensor, or nothing where it has none.
std::optional<int64_t> pick_element(const Tensor& t, Choices& c) {
  const auto& e = t.layout.extent;
  if (t.layout.count() == 0) return std::nullopt;
  std::array<int64_t, 4> at;
  for (size_t k = 0; k < 4; ++k) at[k] = c.between(0, e[k] - 1);
  return t.layout.at(at[0], at[1], at[2], at[3]);
}

Tensor& pick_tensor(Problem& p, Choices& c) {
  switch (c.below(p.bias ? 4 : 3)) {
    case 0: return p.k;
    case 1: return p.q;
    case 2: return p.v;
    default: return *p.bias;
  }
}

// The same contents in other sizes; what is new repeats what is there. Packed.
Problem resized(const Problem& p, const Shape& s) {
  Problem out;
  out.shape = s;
  out.type = p.type;
  const auto tensor = [](const Tensor& from, std::array<int64_t, 4> extent) {
    Tensor to = Tensor::packed(from.type, extent);
    const auto& e = from.layout.extent;
    if (to.layout.count() == 0 || from.layout.count() == 0) return to;
    int64_t at = 0;
    for (int64_t a = 0; a < extent[0]; ++a)
      for (int64_t b = 0; b < extent[1]; ++b)
        for (int64_t n = 0; n < extent[2]; ++n)
          for (int64_t d = 0; d < extent[3]; ++d)
            to.set_bits(at++, from.bits(from.layout.at(a % e[0], b % e[1], n % e[2], d % e[3])));
    return to;
  };
  const auto broadcast = [&](const Layout& from) {
    const std::array<int64_t, 4> old{p.shape.b, p.shape.hq, p.shape.nq, p.shape.nk}, now{s.b, s.hq, s.nq, s.nk};
    std::array<int64_t, 4> extent;
    for (size_t k = 0; k < 4; ++k) extent[k] = from.extent[k] == 1 && old[k] != 1 ? 1 : from.extent[k] == old[k] ? now[k] : 1;
    return extent;
  };
  out.q = tensor(p.q, {s.b, s.hq, s.nq, s.d});
  out.k = tensor(p.k, {s.b, s.hk, s.nk, s.d});
  out.v = tensor(p.v, {s.b, s.hk, s.nk, s.dv});
  out.scale = p.scale;
  out.softcap = p.softcap;
  out.causal = p.causal;
  out.window = p.window;
  out.choice = p.choice;
  out.o = Layout::packed({s.b, s.hq, s.nq, s.dv});
  out.lse = Layout::packed({s.b, s.hq, s.nq, 1});
  if (p.bias) out.bias = tensor(*p.bias, broadcast(p.bias->layout));
  if (p.mask) {
    const Layout& from = p.mask->layout;
    BoolMask& to = out.mask.emplace();
    to.layout = Layout::packed(broadcast(from));
    to.storage.assign(static_cast<size_t>(to.layout.span()), 1);
    if (from.count() > 0 && to.layout.count() > 0) {
      size_t at = 0;
      const auto& e = to.layout.extent;
      for (int64_t a = 0; a < e[0]; ++a)
        for (int64_t b = 0; b < e[1]; ++b)
          for (int64_t n = 0; n < e[2]; ++n)
            for (int64_t d = 0; d < e[3]; ++d)
              to.storage[at++] = p.mask->storage[static_cast<size_t>(
                  from.at(a % from.extent[0], b % from.extent[1], n % from.extent[2], d % from.extent[3]))];
    }
  }
  if (p.key_lengths) {
    auto& lengths = out.key_lengths.emplace(static_cast<size_t>(s.b), static_cast<int32_t>(s.nk));
    for (size_t n = 0; n < lengths.size() && !p.key_lengths->empty(); ++n)
      lengths[n] = static_cast<int32_t>(std::min<int64_t>((*p.key_lengths)[n % p.key_lengths->size()], s.nk));
  }
  if (p.sink) {
    auto& sink = out.sink.emplace(static_cast<size_t>(s.hq), 0.0f);
    for (size_t n = 0; n < sink.size() && !p.sink->empty(); ++n) sink[n] = (*p.sink)[n % p.sink->size()];
  }
  return out;
}

bool resize(Problem& p, const Shape& s) {
  if (s == p.shape || !within_limits(s)) return false;
  p = resized(p, s);
  return true;
}

// A mask with an entry of its own for every key of every row.
BoolMask& full_mask(Problem& p) {
  const std::array<int64_t, 4> extent{p.shape.b, p.shape.hq, p.shape.nq, p.shape.nk};
  if (p.mask && p.mask->layout == Layout::packed(extent)) return *p.mask;
  BoolMask to;
  to.layout = Layout::packed(extent);
  to.storage.assign(static_cast<size_t>(to.layout.span()), 1);
  if (p.mask) {
    size_t at = 0;
    for (int64_t b = 0; b < extent[0]; ++b)
      for (int64_t h = 0; h < extent[1]; ++h)
        for (int64_t i = 0; i < extent[2]; ++i)
          for (int64_t j = 0; j < extent[3]; ++j)
            to.storage[at++] = p.mask->storage[static_cast<size_t>(broadcast_at(p.mask->layout, b, h, i, j))];
  }
  p.mask = std::move(to);
  return *p.mask;
}

int64_t near_tile_edge(int64_t tile, Choices& c, int64_t most) {
  const int64_t tiles = std::max<int64_t>(1, most / std::max<int64_t>(tile, 1));
  const int64_t edge = c.between(1, std::min<int64_t>(tiles, 8)) * tile;
  return std::clamp<int64_t>(edge + c.between(-1, 1), 0, most);
}

// The steps. Each returns false, having changed nothing, where it does not apply.

bool move_maximum(Problem& p, Choices& c, const Target& target) {
  const int64_t tile = tile_of(p, target), tiles = (p.shape.nk + tile - 1) / tile;
  if (!has_scores(p) || tiles < 2) return false;
  const Row r = pick_row(p, c);
  const int64_t from = extremes(p, r).second;
  const int64_t other = (from / tile + c.between(1, tiles - 1)) % tiles;
  const int64_t first = other * tile, last = std::min(first + tile, p.shape.nk) - 1;
  const uint64_t where = c.below(3);
  swap_rows(p.k, r.b, r.key_head, from, where == 0 ? first : where == 1 ? last : c.between(first, last));
  return true;
}

bool reverse_keys(Problem& p, Choices& c, const Target&) {
  if (p.shape.nk < 2) return false;
  const bool values = c.bits(1) == 0;
  for (int64_t b = 0; b < p.shape.b; ++b)
    for (int64_t h = 0; h < p.shape.hk; ++h)
      for (int64_t j = 0; j < p.shape.nk / 2; ++j) {
        swap_rows(p.k, b, h, j, p.shape.nk - 1 - j);
        if (values) swap_rows(p.v, b, h, j, p.shape.nk - 1 - j);
      }
  return true;
}

bool mask_tile(Problem& p, Choices& c, const Target& target) {
  if (!has_scores(p)) return false;
  const int64_t tile = tile_of(p, target);
  const int64_t first = c.between(0, (p.shape.nk - 1) / tile) * tile, last = std::min(first + tile, p.shape.nk);
  BoolMask& mask = full_mask(p);
  const uint8_t visible = c.below(4) == 3 ? 1 : 0;
  const bool all_rows = c.bits(1) == 0;
  const Row r = pick_row(p, c);
  for (int64_t b = 0; b < p.shape.b; ++b)
    for (int64_t h = 0; h < p.shape.hq; ++h)
      for (int64_t i = 0; i < p.shape.nq; ++i) {
        if (!all_rows && (b != r.b || h != r.h || i != r.i)) continue;
        for (int64_t j = first; j < last; ++j) mask.storage[static_cast<size_t>(mask.layout.at(b, h, i, j))] = visible;
      }
  return true;
}

bool mask_key(Problem& p, Choices& c, const Target&) {
  if (!has_scores(p)) return false;
  BoolMask& mask = full_mask(p);
  const Row r = pick_row(p, c);
  const int64_t key = c.bits(1) ? extremes(p, r).second : c.between(0, p.shape.nk - 1);
  mask.storage[static_cast<size_t>(mask.layout.at(r.b, r.h, r.i, key))] ^= 1;
  return true;
}

bool splice_rows(Problem& p, Choices& c, const Target&) {
  if (!has_scores(p)) return false;
  const Row r = pick_row(p, c);
  if (p.shape.nq > 1 && c.below(4) == 3) {  // one query's first columns, another's last
    const int64_t other = c.between(0, p.shape.nq - 1), from = c.between(0, p.shape.d - 1);
    for (int64_t col = from; col < p.shape.d; ++col)
      p.q.set_bits(p.q.layout.at(r.b, r.h, r.i, col), p.q.bits(p.q.layout.at(r.b, r.h, other, col)));
    return true;
  }
  const int64_t n = p.shape.nk, from = c.between(0, n - 1), to = c.between(0, n - 1);
  const int64_t count = std::min(c.between(1, 16), n - std::max(from, to));
  const uint64_t which = c.below(3);
  for (int64_t j = 0; j < count; ++j) {
    if (which != 2) copy_row(p.k, r.b, r.key_head, from + j, to + j);
    if (which != 1) copy_row(p.v, r.b, r.key_head, from + j, to + j);
  }
  return true;
}

bool step_ulp(Problem& p, Choices& c, const Target&) {
  Tensor& t = pick_tensor(p, c);
  const auto at = pick_element(t, c);
  if (!at || !std::isfinite(to_double(t.type, t.bits(*at)))) return false;
  t.set_bits(*at, step_bits(t.type, t.bits(*at), c.bits(1) ? 1 : -1));
  return true;
}

// The key beside the maximum comes within one unit of it.
bool nearly_tie(Problem& p, Choices& c, const Target&) {
  if (!has_scores(p)) return false;
  const Row r = pick_row(p, c);
  const int64_t from = extremes(p, r).second, to = c.between(0, p.shape.nk - 1), col = c.between(0, p.shape.d - 1);
  copy_row(p.k, r.b, r.key_head, from, to);
  const int64_t at = p.k.layout.at(r.b, r.key_head, to, col);
  if (std::isfinite(to_double(p.type, p.k.bits(at)))) p.k.set_bits(at, step_bits(p.type, p.k.bits(at), static_cast<int>(c.between(-1, 1))));
  return true;
}

bool swap_extremes(Problem& p, Choices& c, const Target&) {
  if (!has_scores(p)) return false;
  const Row r = pick_row(p, c);
  const auto [low, high] = extremes(p, r);
  swap_rows(p.k, r.b, r.key_head, low, high);
  if (c.bits(1)) swap_rows(p.v, r.b, r.key_head, low, high);
  return true;
}

bool resize_around_tile(Problem& p, Choices& c, const Target& target) {
  Shape s = p.shape;
  s.nk = near_tile_edge(tile_of(p, target), c, kLimits.keys);
  return resize(p, s);
}

bool resize_any(Problem& p, Choices& c, const Target& target) {
  Shape s = p.shape;
  switch (c.below(6)) {
    case 0: s.nk = c.between(0, 160); break;
    case 1: s.nq = c.between(0, 16); break;
    case 2: s.d = target.widths.empty() ? c.between(1, 64) : c.pick(target.widths); break;
    case 3: s.dv = target.widths.empty() ? c.between(1, 64) : s.d; break;
    case 4: s.b = c.between(0, 3); break;
    default:
      s.hk = c.between(1, 3);
      s.hq = s.hk * c.between(1, 3);
  }
  return resize(p, s);
}

bool special_value(Problem& p, Choices& c, const Target&) {
  Tensor& t = pick_tensor(p, c);
  const auto at = pick_element(t, c);
  if (!at) return false;
  t.set_bits(*at, c.below(4) == 0 ? draw_non_finite(c, t.type) : draw_finite(c, t.type));
  return true;
}

bool random_bits(Problem& p, Choices& c, const Target&) {
  Tensor& t = pick_tensor(p, c);
  const auto at = pick_element(t, c);
  if (!at) return false;
  t.set_bits(*at, t.bits(*at) ^ (1u << c.below(static_cast<uint64_t>(8 * size_of(t.type)))));
  return true;
}

// All keys of a tile, or one query row, times a power of two.
bool scale_scores(Problem& p, Choices& c, const Target& target) {
  if (!has_scores(p)) return false;
  const Row r = pick_row(p, c);
  const double factor = std::ldexp(c.bits(1) ? 1.0 : -1.0, static_cast<int>(c.between(-6, 6)));
  const auto times = [&](Tensor& t, int64_t h, int64_t n) {
    for (int64_t col = 0; col < t.layout.extent[3]; ++col) t.set(r.b, h, n, col, t.get(r.b, h, n, col) * factor);
  };
  if (c.bits(1)) {
    times(p.q, r.h, r.i);
    return true;
  }
  const int64_t tile = tile_of(p, target), first = c.between(0, (p.shape.nk - 1) / tile) * tile;
  for (int64_t j = first; j < std::min(first + tile, p.shape.nk); ++j) times(p.k, r.key_head, j);
  return true;
}

// A key that points where the query does, so that its score stands above the others.
bool needle(Problem& p, Choices& c, const Target& target) {
  if (!has_scores(p)) return false;
  const Row r = pick_row(p, c);
  const int64_t tile = tile_of(p, target);
  int64_t key = c.between(0, p.shape.nk - 1);
  if (c.bits(1)) key = std::min(key / tile * tile + (c.bits(1) ? tile - 1 : 0), p.shape.nk - 1);
  const double factor = std::ldexp(p.scale < 0 ? -1.0 : 1.0, static_cast<int>(c.between(-3, 5)));
  for (int64_t col = 0; col < p.shape.d; ++col) p.k.set(r.b, r.key_head, key, col, p.q.get(r.b, r.h, r.i, col) * factor);
  return true;
}

// Every key a multiple of one, so that the scores are as told: ascending, descending, sawtooth, flat.
bool rewrite_scores(Problem& p, Choices& c, const Target& target) {
  if (!has_scores(p)) return false;
  const Row r = pick_row(p, c);
  const int64_t tile = tile_of(p, target), n = p.shape.nk;
  const uint64_t pattern = c.below(5);
  const double unit = std::ldexp(1.0, static_cast<int>(c.between(-8, 3)));
  for (int64_t j = 0; j < n; ++j) {
    const double place = pattern == 0 ? static_cast<double>(j) : pattern == 1 ? static_cast<double>(n - 1 - j)
                       : pattern == 2 ? static_cast<double>(j / tile + j % tile % 3)
                       : pattern == 3 ? static_cast<double>(j % 2 == 0 ? 8 : -8) : 1;
    const double factor = place * unit * (p.scale < 0 ? -1 : 1);
    for (int64_t col = 0; col < p.shape.d; ++col) p.k.set(r.b, r.key_head, j, col, p.q.get(r.b, r.h, r.i, col) * factor);
  }
  return true;
}

bool choose(Problem& p, Choices& c, const Target& target) {
  switch (c.below(4)) {
    case 0: p.choice.tile_keys = target.tiles.empty() || c.below(4) == 0 ? 0 : c.pick(target.tiles); break;
    case 1: p.choice.splits = target.splits.empty() || c.below(3) == 0 ? 0 : c.pick(target.splits); break;
    case 2: p.choice.order = target.orders.empty() || c.below(3) == 0 ? TileOrder::any : c.pick(target.orders); break;
    default: {
      p.choice.p_type = std::nullopt;
      if (target.p_types.empty()) break;
      const DType type = c.pick(target.p_types);
      if (type == DType::f32 || type == p.type) p.choice.p_type = type;
    }
  }
  return true;
}

bool set_mask(Problem& p, Choices& c, const Target& target) {
  const Shape& s = p.shape;
  switch (c.below(5)) {
    case 0:
      if (target.has(ATTEST_CAUSAL)) p.causal = !p.causal;
      break;
    case 1:
      if (!target.has(ATTEST_WINDOW)) break;
      p.window.left = c.below(3) == 0 ? std::nullopt : std::optional(c.between(0, s.nk));
      p.window.right = c.below(3) == 0 ? std::nullopt : std::optional(c.between(0, s.nk));
      break;
    case 2: {
      if (!target.has(ATTEST_KEY_LENGTHS)) break;
      p.key_lengths = std::nullopt;
      if (c.below(4) == 0) break;
      const int64_t tile = tile_of(p, target);
      for (int64_t b = 0; b < s.b; ++b) {
        const int64_t length = c.bits(1) ? near_tile_edge(tile, c, s.nk) : c.between(0, s.nk);
        if (b == 0) p.key_lengths.emplace();
        p.key_lengths->push_back(static_cast<int32_t>(length));
      }
      break;
    }
    case 3: p.mask = std::nullopt; break;
    default: p.bias = std::nullopt;
  }
  return true;
}

bool set_bias(Problem& p, Choices& c, const Target& target) {
  if (!has_scores(p) || (!target.has(ATTEST_BIAS_F32) && !target.has(ATTEST_BIAS_INPUT_TYPE))) return false;
  const DType type = target.has(ATTEST_BIAS_F32) && (c.bits(1) || !target.has(ATTEST_BIAS_INPUT_TYPE)) ? DType::f32 : p.type;
  const std::array<int64_t, 4> whole{p.shape.b, p.shape.hq, p.shape.nq, p.shape.nk};
  std::array<int64_t, 4> extent = whole;
  for (size_t k = 0; k < 3; ++k)
    if (c.bits(1)) extent[k] = 1;
  Tensor bias = Tensor::packed(type, extent);
  const uint64_t kind = c.below(4);
  const double constant = 8 * c.normal();
  for (int64_t n = 0; n < bias.layout.count(); ++n) {
    double x = kind == 0 ? constant : kind == 1 ? c.normal() : 0;
    if (kind == 2 && c.below(3) == 0) x = -std::numeric_limits<double>::infinity();
    if (kind == 3 && c.below(8) == 0) x = -largest_finite(type);
    bias.set_bits(n, from_double(type, x));
  }
  p.bias = std::move(bias);
  return true;
}

bool set_numbers(Problem& p, Choices& c, const Target& target) {
  switch (c.below(3)) {
    case 0: {
      constexpr float kScales[] = {1, -1, 0.125f, 2, 0, 0x1p-20f, 0x1p20f};
      p.scale = c.bits(1) ? default_scale(p.shape.d) : c.pick(kScales);
      break;
    }
    case 1: {
      constexpr float kCaps[] = {0, 0, 1, 5, 30, 0x1p-20f, 1e5f};
      if (target.has(ATTEST_SOFTCAP)) p.softcap = c.pick(kCaps);
      break;
    }
    default: {
      if (!target.has(ATTEST_SINK)) break;
      p.sink = std::nullopt;
      if (c.below(3) == 0) break;
      constexpr float kSinks[] = {0, 3, -3, 60, -60, 300, -1e30f, -std::numeric_limits<float>::infinity()};
      p.sink.emplace(static_cast<size_t>(p.shape.hq));
      for (float& x : *p.sink) x = c.pick(kSinks);
    }
  }
  return true;
}

bool set_values(Problem& p, Choices& c, const Target& target) {
  if (p.v.layout.count() == 0) return false;
  const uint64_t kind = c.below(4);
  const int64_t tile = tile_of(p, target);
  for (int64_t b = 0; b < p.shape.b; ++b)
    for (int64_t h = 0; h < p.shape.hk; ++h)
      for (int64_t j = 0; j < p.shape.nk; ++j)
        for (int64_t col = 0; col < p.shape.dv; ++col) {
          const double x = kind == 0 ? 1 : kind == 1 ? (j / tile % p.shape.dv == col ? 1 : 0)
                         : kind == 2 ? static_cast<double>(j >> (col % 9) & 1) : c.normal();
          p.v.set(b, h, j, col, x);
        }
  return true;
}

bool change_type(Problem& p, Choices& c, const Target& target) {
  const DType type = c.pick(target.types);
  if (type == p.type) return false;
  const auto convert = [&](const Tensor& from) {
    Tensor to = from;
    to.type = type;
    const auto count = static_cast<int64_t>(from.storage.size()) / size_of(from.type);
    to.storage.assign(static_cast<size_t>(count * size_of(type)), 0);
    for (int64_t n = 0; n < count; ++n) to.set_bits(n, from_double(type, to_double(from.type, from.bits(n))));
    return to;
  };
  if (p.bias && p.bias->type == p.type && p.type != DType::f32) p.bias = convert(*p.bias);
  p.q = convert(p.q);
  p.k = convert(p.k);
  p.v = convert(p.v);
  p.type = type;
  if (p.choice.p_type && *p.choice.p_type != DType::f32) p.choice.p_type = std::nullopt;
  return true;
}

bool fresh(Problem& p, Choices& c, const Target& target) {
  Problem made = generate(c, target, {.min_keys = 0, .max_keys = 200, .max_width = 64, .work = 2e4}).problem;
  if (!within_limits(made.shape)) return false;
  made.origin = {};
  p = std::move(made);
  return true;
}

struct Step {
  std::string_view name;
  bool (*apply)(Problem&, Choices&, const Target&);
  int weight;
};
constexpr Step kSteps[] = {
    {"move_maximum", move_maximum, 4},
    {"reverse_keys", reverse_keys, 1},
    {"mask_tile", mask_tile, 2},
    {"mask_key", mask_key, 2},
    {"splice_rows", splice_rows, 4},
    {"step_ulp", step_ulp, 4},
    {"nearly_tie", nearly_tie, 3},
    {"swap_extremes", swap_extremes, 3},
    {"resize_around_tile", resize_around_tile, 2},
    {"resize_any", resize_any, 1},
    {"special_value", special_value, 3},
    {"random_bits", random_bits, 4},
    {"scale_scores", scale_scores, 4},
    {"needle", needle, 3},
    {"rewrite_scores", rewrite_scores, 2},
    {"choose", choose, 3},
    {"set_mask", set_mask, 2},
    {"set_bias", set_bias, 1},
    {"set_numbers", set_numbers, 2},
    {"set_values", set_values, 1},
    {"change_type", change_type, 1},
    {"fresh", fresh, 1},
};

constexpr int kTotalWeight = [] {
  int total = 0;
  for (const Step& s : kSteps) total += s.weight;
  return total;
}();

}  // namespace

int step_count() { return static_cast<int>(std::size(kSteps)); }
std::string_view step_name(int step) { return kSteps[step].name; }
bool apply_step(int step, Problem& p, Choices& c, const Target& target) { return kSteps[step].apply(p, c, target); }

void mutate(Problem& p, Choices& c, const Target& target) {
  constexpr int kTries = 8;  // steps that do not apply are few
  for (uint64_t wanted = 1 + c.below(3), tried = 0; wanted > 0 && tried < kTries; ++tried) {
    auto place = static_cast<int>(c.below(kTotalWeight));
    const Step* step = kSteps;
    while (place >= step->weight) place -= step++->weight;
    wanted -= step->apply(p, c, target) ? 1 : 0;
  }
}

void cross(Problem& p, const Problem& other, Choices& c) {
  const auto rows = [&](Tensor& to, const Tensor& from) {
    const auto &e = to.layout.extent, &f = from.layout.extent;
    if (to.layout.count() == 0 || from.layout.count() == 0) return;
    const int64_t b = c.between(0, e[0] - 1), h = c.between(0, e[1] - 1), fb = c.between(0, f[0] - 1), fh = c.between(0, f[1] - 1);
    const int64_t begin = c.between(0, e[2] - 1), first = c.between(0, f[2] - 1);
    const int64_t count = c.between(1, std::min(e[2] - begin, f[2] - first)), columns = std::min(e[3], f[3]);
    for (int64_t n = 0; n < count; ++n)
      for (int64_t col = 0; col < columns; ++col) {
        const uint32_t bits = from.bits(from.layout.at(fb, fh, first + n, col));
        to.set_bits(to.layout.at(b, h, begin + n, col), to.type == from.type ? bits : from_double(to.type, to_double(from.type, bits)));
      }
  };
  switch (c.below(5)) {
    case 0: rows(p.k, other.k); break;
    case 1:
      rows(p.k, other.k);
      rows(p.q, other.q);
      break;
    case 2: rows(p.v, other.v); break;
    case 3:  // masks by position, which fit any shape
      p.causal = other.causal;
      p.window = other.window;
      if (p.shape == other.shape) {
        p.mask = other.mask;
        p.key_lengths = other.key_lengths;
      }
      break;
    default:
      p.choice.tile_keys = other.choice.tile_keys;
      p.choice.splits = other.choice.splits;
      p.choice.order = other.choice.order;
      p.scale = other.scale;
      p.softcap = other.softcap;
  }
}

}  // namespace attest::fuzz
