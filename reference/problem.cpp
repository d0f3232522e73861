#include "reference/problem.h"

#include <cmath>
#include <limits>

namespace attest {

Layout Layout::packed(std::array<int64_t, 4> extent) {
  Layout l;
  l.extent = extent;
  l.stride = {extent[1] * extent[2] * extent[3], extent[2] * extent[3], extent[3], 1};
  return l;
}

int64_t Layout::span() const {
  int64_t last = offset;
  for (int k = 0; k < 4; ++k) {
    if (extent[k] == 0) return 0;
    last += (extent[k] - 1) * stride[k];
  }
  return last + 1;
}

Tensor Tensor::packed(DType type, std::array<int64_t, 4> extent) {
  Tensor t;
  t.type = type;
  t.layout = Layout::packed(extent);
  t.storage.assign(static_cast<size_t>(t.layout.count() * size_of(type)), 0);
  return t;
}

float default_scale(int64_t d) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(d))); }

Problem Problem::make(const Shape& s, DType type) {
  Problem p;
  p.shape = s;
  p.type = type;
  p.q = Tensor::packed(type, {s.b, s.hq, s.nq, s.d});
  p.k = Tensor::packed(type, {s.b, s.hk, s.nk, s.d});
  p.v = Tensor::packed(type, {s.b, s.hk, s.nk, s.dv});
  p.scale = default_scale(s.d);
  p.o = Layout::packed({s.b, s.hq, s.nq, s.dv});
  p.lse = Layout::packed({s.b, s.hq, s.nq, 1});
  return p;
}

namespace {

// Limits that keep every product of sizes and strides inside 63 bits.
constexpr int64_t kLargestSize = int64_t{1} << 31;
constexpr int64_t kLargestCount = int64_t{1} << 40;

std::string number(int64_t n) { return std::to_string(n); }

std::optional<std::string> check_layout(const char* name, const Layout& l, std::array<int64_t, 4> extent,
                                        bool broadcastable, int64_t storage_elements) {
  for (int k = 0; k < 4; ++k) {
    const bool fits = l.extent[k] == extent[k] || (broadcastable && l.extent[k] == 1);
    if (!fits)
      return std::string(name) + ": dimension " + number(k) + " is " + number(l.extent[k]) + ", expected " +
             number(extent[k]) + (broadcastable ? " or 1" : "");
    if (l.stride[k] < 0 || l.stride[k] > kLargestCount)
      return std::string(name) + ": stride " + number(k) + " is " + number(l.stride[k]) + ", must be 0 or more and at most 2^40";
  }
  if (l.extent[3] > 1 && l.stride[3] != 1) return std::string(name) + ": stride of the last dimension must be 1";
  if (l.offset < 0 || l.offset > kLargestCount) return std::string(name) + ": offset " + number(l.offset) + " is out of range";
  // Strides and extents are bounded, but their products may still leave 63 bits: sum in double first.
  double reach = static_cast<double>(l.offset);
  for (int k = 0; k < 4; ++k)
    if (l.extent[k] > 0) reach += static_cast<double>(l.extent[k] - 1) * static_cast<double>(l.stride[k]);
  if (reach > static_cast<double>(kLargestCount)) return std::string(name) + ": layout reaches past 2^40 elements";
  if (storage_elements >= 0 && l.span() > storage_elements)
    return std::string(name) + ": storage of " + number(storage_elements) + " elements is shorter than the layout's " + number(l.span());
  return std::nullopt;
}

// Outputs never overlap: with dimensions of extent above 1 sorted by stride, each stride must be at least the
// span of the smaller ones.
bool overlaps(const Layout& l) {
  if (l.count() == 0) return false;
  std::array<int, 4> order{0, 1, 2, 3};
  for (int i = 0; i < 4; ++i)
    for (int j = i + 1; j < 4; ++j)
      if (l.stride[order[j]] < l.stride[order[i]]) std::swap(order[i], order[j]);
  int64_t span = 1;
  for (int k : order) {
    if (l.extent[k] <= 1) continue;
    if (l.stride[k] < span) return true;
    span = l.stride[k] * (l.extent[k] - 1) + span;
  }
  return false;
}

std::optional<std::string> check_tensor(const char* name, const Tensor& t, std::array<int64_t, 4> extent, bool broadcastable) {
  if (t.storage.size() % static_cast<size_t>(size_of(t.type)) != 0)
    return std::string(name) + ": storage of " + number(static_cast<int64_t>(t.storage.size())) + " bytes is no whole number of elements";
  return check_layout(name, t.layout, extent, broadcastable, static_cast<int64_t>(t.storage.size()) / size_of(t.type));
}

}  // namespace

std::optional<std::string> validate(const Problem& p) {
  const Shape& s = p.shape;
  const struct { const char* name; int64_t value, least; } sizes[] = {
      {"B", s.b, 0}, {"Hq", s.hq, 0}, {"Hk", s.hk, 0}, {"Nq", s.nq, 0}, {"Nk", s.nk, 0}, {"D", s.d, 1}, {"Dv", s.dv, 1}};
  for (const auto& [name, value, least] : sizes)
    if (value < least || value > kLargestSize)
      return std::string(name) + ": " + number(value) + " is out of range, must be " + number(least) + " to 2^31";
  if (s.hk == 0 ? s.hq != 0 : s.hq % s.hk != 0)
    return "Hq: " + number(s.hq) + " is no multiple of Hk, " + number(s.hk);
  if (p.q.type != p.type) return "q: type differs from the problem's";
  if (p.k.type != p.type) return "k: type differs from the problem's";
  if (p.v.type != p.type) return "v: type differs from the problem's";
  if (auto e = check_tensor("q", p.q, {s.b, s.hq, s.nq, s.d}, false)) return e;
  if (auto e = check_tensor("k", p.k, {s.b, s.hk, s.nk, s.d}, false)) return e;
  if (auto e = check_tensor("v", p.v, {s.b, s.hk, s.nk, s.dv}, false)) return e;
  if (!std::isfinite(p.scale)) return "scale: must be finite";
  if (!std::isfinite(p.softcap) || p.softcap < 0) return "softcap: must be finite and 0 or more";
  if (p.window.left && *p.window.left < 0) return "window left: must be 0 or more";
  if (p.window.right && *p.window.right < 0) return "window right: must be 0 or more";
  if (p.key_lengths) {
    if (static_cast<int64_t>(p.key_lengths->size()) != s.b)
      return "key_lengths: " + number(static_cast<int64_t>(p.key_lengths->size())) + " entries, expected B = " + number(s.b);
    for (int32_t len : *p.key_lengths)
      if (len < 0 || len > s.nk) return "key_lengths: " + number(len) + " is outside 0 to Nk = " + number(s.nk);
  }
  if (p.mask) {
    if (auto e = check_layout("mask", p.mask->layout, {s.b, s.hq, s.nq, s.nk}, true, static_cast<int64_t>(p.mask->storage.size()))) return e;
  }
  if (p.bias) {
    if (p.bias->type != DType::f32 && p.bias->type != p.type) return "bias: type must be f32 or the input type";
    if (auto e = check_tensor("bias", *p.bias, {s.b, s.hq, s.nq, s.nk}, true)) return e;
  }
  if (p.sink) {
    if (static_cast<int64_t>(p.sink->size()) != s.hq)
      return "sink: " + number(static_cast<int64_t>(p.sink->size())) + " entries, expected Hq = " + number(s.hq);
    for (float x : *p.sink)
      if (!(x < std::numeric_limits<float>::infinity())) return "sink: must be finite or -inf";
  }
  if (auto e = check_layout("o", p.o, {s.b, s.hq, s.nq, s.dv}, false, -1)) return e;
  if (auto e = check_layout("lse", p.lse, {s.b, s.hq, s.nq, 1}, false, -1)) return e;
  if (overlaps(p.o)) return "o: layout overlaps itself";
  if (overlaps(p.lse)) return "lse: layout overlaps itself";
  if (p.choice.tile_keys < 0) return "tile_keys: must be 0 or more";
  if (p.choice.splits < 0) return "splits: must be 0 or more";
  return std::nullopt;
}

bool same(const Problem& a, const Problem& b) {
  return a.shape == b.shape && a.type == b.type && a.q == b.q && a.k == b.k && a.v == b.v && a.scale == b.scale &&
         a.softcap == b.softcap && a.causal == b.causal && a.window == b.window && a.key_lengths == b.key_lengths &&
         a.mask == b.mask && a.bias == b.bias && a.sink == b.sink && a.o == b.o && a.lse == b.lse && a.choice == b.choice;
}

}  // namespace attest
