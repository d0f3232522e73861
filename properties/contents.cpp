#include "properties/contents.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "properties/transform.h"
#include "reference/visible.h"

namespace attest {

uint32_t some_bits(DType type, Choices& choices, Payload payload) {
  if (choices.chance(3, 4)) return from_double(type, choices.normal() * 2);
  if (payload == Payload::any) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    switch (choices.below(4)) {
      case 0: return from_double(type, std::numeric_limits<double>::quiet_NaN());
      case 1: return from_double(type, kInfinity);
      case 2: return from_double(type, -kInfinity);
      default: return static_cast<uint32_t>(choices.bits(type == DType::f32 ? 32 : 16));
    }
  }
  const double largest = largest_finite(type);
  return from_double(type, choices.chance(1, 2) ? largest : -largest);
}

int64_t replace_masked(Problem& p, const Conventions& conventions, Choices& choices, Payload payload, Payload v) {
  const Shape& s = p.shape;
  int64_t changed = 0;
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t g = 0; g < s.hk; ++g) {
      const std::vector<uint8_t> unseen = unseen_keys(p, conventions, b, g);
      for (int64_t j = 0; j < s.nk; ++j) {
        if (!unseen[static_cast<size_t>(j)]) continue;
        for (int64_t d = 0; d < s.d; ++d) p.k.set_bits(p.k.layout.at(b, g, j, d), some_bits(p.type, choices, payload));
        for (int64_t d = 0; d < s.dv; ++d) p.v.set_bits(p.v.layout.at(b, g, j, d), some_bits(p.type, choices, v));
        changed += s.d + s.dv;
      }
    }
  if (!p.bias) return changed;
  // An element of a broadcast bias may be changed only if every place that reads it is hidden.
  Tensor& bias = *p.bias;
  std::vector<uint8_t> read(static_cast<size_t>(bias.layout.span()), 0);
  std::vector<int64_t> keys;
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t h = 0; h < s.hq; ++h)
      for (int64_t i = 0; i < s.nq; ++i) {
        visible_keys(p, conventions, b, h, i, keys);
        for (int64_t j : keys) read[static_cast<size_t>(broadcast_at(bias.layout, b, h, i, j))] = 1;
      }
  for (size_t at = 0; at < read.size(); ++at)
    if (!read[at]) {
      bias.set_bits(static_cast<int64_t>(at), some_bits(bias.type, choices, payload));
      ++changed;
    }
  return changed;
}

namespace {

template <class Make>
void fill(Tensor& t, Make make) {
  const int64_t count = static_cast<int64_t>(t.storage.size()) / size_of(t.type);
  for (int64_t at = 0; at < count; ++at) t.set_bits(at, from_double(t.type, make()));
}

double moderate(Choices& choices) {
  const double x = std::ldexp(1.0 + static_cast<double>(choices.below(128)) / 128.0, static_cast<int>(choices.between(-3, 3)));
  return choices.chance(1, 2) ? -x : x;
}

}  // namespace

void moderate_values(Problem& p, Choices& choices) {
  fill(p.v, [&] { return moderate(choices); });
}

void replace_all_but(Problem& p, const KeptRow& kept, Choices& choices) {
  const Shape& s = p.shape;
  const int64_t group = s.key_head(kept.h);
  for (int64_t b = 0; b < s.b; ++b) {
    for (int64_t h = 0; h < s.hq; ++h)
      for (int64_t i = 0; i < s.nq; ++i) {
        if (b == kept.b && h == kept.h && i == kept.i) continue;
        for (int64_t d = 0; d < s.d; ++d) p.q.set_bits(p.q.layout.at(b, h, i, d), some_bits(p.type, choices, Payload::any));
      }
    for (int64_t g = 0; g < s.hk; ++g) {
      if (b == kept.b && g == group) continue;
      for (int64_t j = 0; j < s.nk; ++j) {
        for (int64_t d = 0; d < s.d; ++d) p.k.set_bits(p.k.layout.at(b, g, j, d), some_bits(p.type, choices, Payload::any));
        for (int64_t d = 0; d < s.dv; ++d) p.v.set_bits(p.v.layout.at(b, g, j, d), some_bits(p.type, choices, Payload::any));
      }
    }
  }
  // Rows of a mask or bias, in its own extents, that the kept row does not read.
  const auto other_rows = [&](const Layout& l, auto change) {
    const std::array<int64_t, 3> mine{l.extent[0] == 1 ? 0 : kept.b, l.extent[1] == 1 ? 0 : kept.h, l.extent[2] == 1 ? 0 : kept.i};
    for (int64_t b = 0; b < l.extent[0]; ++b)
      for (int64_t h = 0; h < l.extent[1]; ++h)
        for (int64_t i = 0; i < l.extent[2]; ++i)
          if (std::array<int64_t, 3>{b, h, i} != mine)
            for (int64_t j = 0; j < l.extent[3]; ++j) change(l.at(b, h, i, j));
  };
  if (p.mask) other_rows(p.mask->layout, [&](int64_t at) { p.mask->storage[static_cast<size_t>(at)] = choices.chance(1, 2); });
  if (p.bias) other_rows(p.bias->layout, [&](int64_t at) { p.bias->set_bits(at, some_bits(p.bias->type, choices, Payload::any)); });
  if (p.key_lengths)
    for (int64_t b = 0; b < s.b; ++b)
      if (b != kept.b) (*p.key_lengths)[static_cast<size_t>(b)] = static_cast<int32_t>(choices.between(0, s.nk));
  if (p.sink)
    for (int64_t h = 0; h < s.hq; ++h)
      if (h != kept.h) (*p.sink)[static_cast<size_t>(h)] = static_cast<float>(choices.normal());
}

}  // namespace attest
