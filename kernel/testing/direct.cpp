#include "kernel/testing/direct.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attest::testing {

uint64_t Random::bits() {
  uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

bool visible(const Problem& p, int64_t b, int64_t h, int64_t i, int64_t j) {
  const int64_t length = p.key_lengths ? (*p.key_lengths)[static_cast<size_t>(b)] : p.shape.nk;
  const int64_t position = i + length - p.shape.nq;
  if (j >= length) return false;
  if (p.causal && j > position) return false;
  if (p.window.left && position - j > *p.window.left) return false;
  if (p.window.right && j - position > *p.window.right) return false;
  return !p.mask || p.mask->storage[static_cast<size_t>(broadcast_at(p.mask->layout, b, h, i, j))] != 0;
}

Direct direct_attention(const Problem& p) {
  constexpr long double kInfinity = std::numeric_limits<long double>::infinity();
  const Shape& s = p.shape;
  Direct out;
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t h = 0; h < s.hq; ++h)
      for (int64_t i = 0; i < s.nq; ++i) {
        const int64_t g = s.key_head(h);
        std::vector<long double> score(static_cast<size_t>(s.nk), -kInfinity);
        const long double sink = p.sink ? (*p.sink)[static_cast<size_t>(h)] : -kInfinity;
        long double m = sink;
        for (int64_t j = 0; j < s.nk; ++j) {
          if (!visible(p, b, h, i, j)) continue;
          long double x = 0;
          for (int64_t d = 0; d < s.d; ++d) x += static_cast<long double>(p.q.get(b, h, i, d)) * p.k.get(b, g, j, d);
          x *= p.scale;
          if (p.softcap > 0) x = p.softcap * std::tanh(x / p.softcap);
          if (p.bias) x += to_double(p.bias->type, p.bias->bits(broadcast_at(p.bias->layout, b, h, i, j)));
          score[static_cast<size_t>(j)] = x;
          m = std::max(m, x);
        }
        long double l = m == -kInfinity ? 0 : std::exp(sink - m), largest = 0;
        std::vector<long double> o(static_cast<size_t>(s.dv), 0);
        for (int64_t j = 0; j < s.nk; ++j) {
          const long double x = score[static_cast<size_t>(j)];
          if (x == -kInfinity) continue;
          const long double weight = std::exp(x - m);
          l += weight;
          for (int64_t d = 0; d < s.dv; ++d) {
            const long double v = p.v.get(b, g, j, d);
            largest = std::max(largest, std::fabs(v));
            o[static_cast<size_t>(d)] += weight * v;
          }
        }
        for (long double x : o) out.o.push_back(l == 0 ? 0 : x / l);
        out.lse.push_back(l == 0 ? -kInfinity : m + std::log(l));
        out.largest.push_back(largest);
      }
  return out;
}

namespace {

// A layout with gaps, an odd start, and dimensions in another order than packed.
Layout scattered(Random& random, std::array<int64_t, 4> extent) {
  Layout l;
  l.extent = extent;
  int order[] = {0, 1, 2};
  for (int k = 2; k > 0; --k) std::swap(order[k], order[random.below(k + 1)]);
  int64_t span = extent[3] + random.below(3);
  for (int k : order) {
    l.stride[static_cast<size_t>(k)] = span;
    span = span * std::max<int64_t>(1, extent[static_cast<size_t>(k)]) + random.below(3);
  }
  l.offset = random.below(5);
  return l;
}

Tensor scattered_tensor(Random& random, DType type, std::array<int64_t, 4> extent) {
  Tensor t = Tensor::packed(type, extent);
  if (random.chance(50)) {
    t.layout = scattered(random, extent);
    if (extent[1] > 1 && random.chance(20)) t.layout.stride[1] = 0;
    t.storage.assign(static_cast<size_t>(t.layout.span() * size_of(type)), 0xFF);
  }
  return t;
}

void fill(Random& random, Tensor& t, double low, double high) {
  for (int64_t a = 0; a < t.layout.extent[0]; ++a)
    for (int64_t b = 0; b < t.layout.extent[1]; ++b)
      for (int64_t c = 0; c < t.layout.extent[2]; ++c)
        for (int64_t d = 0; d < t.layout.extent[3]; ++d) t.set(a, b, c, d, random.uniform(low, high));
}

std::array<int64_t, 4> broadcast(Random& random, std::array<int64_t, 4> extent) {
  for (int64_t& e : extent)
    if (random.chance(30)) e = 1;
  return extent;
}

}  // namespace

Problem random_problem(Random& random) {
  Shape s;
  s.b = 1 + random.below(2);
  s.hk = 1 + random.below(2);
  s.hq = s.hk * (1 + random.below(3));
  s.nq = random.chance(5) ? 0 : 1 + random.below(5);
  s.nk = random.chance(5) ? 0 : 1 + random.below(90);
  s.d = 1 + random.below(random.chance(20) ? 70 : 12);
  s.dv = 1 + random.below(random.chance(20) ? 70 : 12);
  const DType type = kAllDTypes[random.below(3)];
  Problem p = Problem::make(s, type);
  p.q = scattered_tensor(random, type, {s.b, s.hq, s.nq, s.d});
  p.k = scattered_tensor(random, type, {s.b, s.hk, s.nk, s.d});
  p.v = scattered_tensor(random, type, {s.b, s.hk, s.nk, s.dv});
  fill(random, p.q, -2, 2);
  fill(random, p.k, -2, 2);
  fill(random, p.v, -2, 2);
  if (random.chance(50)) p.scale = static_cast<float>(random.uniform(-3, 3));
  if (random.chance(25)) p.softcap = static_cast<float>(random.uniform(0.1, 4));
  p.causal = random.chance(30);
  if (random.chance(20)) p.window.left = random.below(s.nk + 2);
  if (random.chance(20)) p.window.right = random.below(s.nk + 2);
  if (random.chance(30)) {
    p.key_lengths.emplace();
    for (int64_t b = 0; b < s.b; ++b) p.key_lengths->push_back(static_cast<int32_t>(random.below(s.nk + 1)));
  }
  if (random.chance(30)) {
    BoolMask mask;
    mask.layout = scattered(random, broadcast(random, {s.b, s.hq, s.nq, s.nk}));
    for (int64_t n = 0; n < mask.layout.span(); ++n) mask.storage.push_back(random.chance(60) ? static_cast<uint8_t>(1 + random.below(255)) : 0);
    p.mask = std::move(mask);
  }
  if (random.chance(30)) {
    const DType bias_type = random.chance(50) ? DType::f32 : type;  // one draw at a time: arguments have no order
    p.bias = scattered_tensor(random, bias_type, broadcast(random, {s.b, s.hq, s.nq, s.nk}));
    fill(random, *p.bias, -2, 2);
    const Layout& l = p.bias->layout;
    for (int64_t j = 0; j < l.extent[3] && l.count() > 0; ++j)
      if (random.chance(10)) p.bias->set(0, 0, 0, j, -std::numeric_limits<double>::infinity());
  }
  if (random.chance(25)) {
    p.sink.emplace();
    for (int64_t h = 0; h < s.hq; ++h)
      p.sink->push_back(random.chance(20) ? -std::numeric_limits<float>::infinity() : static_cast<float>(random.uniform(-3, 6)));
  }
  if (random.chance(40)) p.o = scattered(random, {s.b, s.hq, s.nq, s.dv});
  if (random.chance(40)) {
    p.lse = scattered(random, {s.b, s.hq, s.nq, 1});
  }
  const int64_t tiles[] = {0, 1, 2, 3, 7, 16, 32, 64, 100};
  p.choice.tile_keys = tiles[random.below(9)];
  p.choice.order = static_cast<TileOrder>(random.below(3));
  p.choice.splits = static_cast<int32_t>(random.below(6));
  if (random.chance(25)) p.choice.p_type = DType::f32;

  // What no row sees may hold anything. Heads that share storage are left alone.
  if (p.k.layout.stride[1] != 0 && p.v.layout.stride[1] != 0)
    for (int64_t b = 0; b < s.b; ++b)
      for (int64_t g = 0; g < s.hk; ++g)
        for (int64_t j = 0; j < s.nk; ++j) {
          bool seen = false;
          for (int64_t h = g * (s.hq / s.hk); h < (g + 1) * (s.hq / s.hk); ++h)
            for (int64_t i = 0; i < s.nq; ++i) seen = seen || visible(p, b, h, i, j);
          if (seen || !random.chance(50)) continue;
          const double payload = random.chance(50) ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
          for (int64_t d = 0; d < s.d; ++d) p.k.set(b, g, j, d, payload);
          for (int64_t d = 0; d < s.dv; ++d) p.v.set(b, g, j, d, -payload);
        }
  return p;
}

std::string first_difference(const Problem& p, const Observation& seen, const Direct& exact) {
  if (seen.o.size() != exact.o.size()) return "O has " + std::to_string(seen.o.size()) + " elements, expected " + std::to_string(exact.o.size());
  const bool rounds_p = p.choice.p_type.value_or(p.type) != DType::f32;
  const double unit = std::ldexp(1.0, -significand_bits(p.type));
  const auto differs = [](double got, long double want, long double room) {
    return std::isinf(want) ? got != static_cast<double>(want) : !(std::fabs(static_cast<long double>(got) - want) <= room);
  };
  const auto describe = [](const char* name, size_t n, double got, long double want) {
    return std::string(name) + "[" + std::to_string(n) + "] is " + std::to_string(got) + ", expected " + std::to_string(want);
  };
  for (size_t n = 0; n < exact.o.size(); ++n) {
    const long double largest = exact.largest[n / static_cast<size_t>(p.shape.dv)];
    const long double room = unit * std::fabs(exact.o[n]) + largest * ((rounds_p ? 2 * unit : 0.0) + 0x1p-17);
    if (differs(seen.o[n], exact.o[n], room)) return describe("O", n, seen.o[n], exact.o[n]);
  }
  for (size_t n = 0; n < seen.lse.size(); ++n)
    if (differs(seen.lse[n], exact.lse[n], 0x1p-17 * (1 + std::fabs(exact.lse[n])))) return describe("LSE", n, seen.lse[n], exact.lse[n]);
  return "";
}

}  // namespace attest::testing
