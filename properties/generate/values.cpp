#include "properties/generate/values.h"

#include <bit>
#include <cmath>

#include "properties/generate/floats.h"

namespace attest {

namespace {

// Calls f(index, j, col) for every element of V, and stores the bits that it returns.
template <class F>
void each_value(Problem& p, F f) {
  const Shape& s = p.shape;
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t g = 0; g < s.hk; ++g)
      for (int64_t j = 0; j < s.nk; ++j) {
        const int64_t row = p.v.layout.at(b, g, j, 0);
        for (int64_t col = 0; col < s.dv; ++col) p.v.set_bits(row + col, f(j, col));
      }
}

}  // namespace

void fill_values(Problem& p, Regime values, int64_t tile, Choices& c) {
  const DType type = p.type;
  const uint32_t one = from_double(type, 1.0);
  const auto normal = [&](double deviation) { return saturate(type, deviation * bell(c)); };
  switch (values) {
    case Regime::ones:
      each_value(p, [&](int64_t, int64_t) { return one; });
      return;
    case Regime::tile_indicators:
      each_value(p, [&](int64_t j, int64_t col) { return (j / tile) % p.shape.dv == col ? one : 0u; });
      return;
    case Regime::key_digits:
      each_value(p, [&](int64_t j, int64_t col) { return col < 63 && ((j >> col) & 1) ? one : 0u; });
      return;
    case Regime::constant: {
      constexpr double kConstants[] = {1, -1, 0.1, 3, -0.3333, 100, 0};
      const uint32_t bits = from_double(type, c.pick(kConstants));
      each_value(p, [&](int64_t, int64_t) { return bits; });
      return;
    }
    case Regime::one_column: {
      const auto chosen = static_cast<int64_t>(c.below(static_cast<uint64_t>(p.shape.dv)));
      each_value(p, [&](int64_t, int64_t col) { return col == chosen ? normal(1) : 0u; });
      return;
    }
    case Regime::cancelling: {
      const double size = std::ldexp(1.0, static_cast<int>(c.between(4, 12)));
      each_value(p, [&](int64_t j, int64_t) { return saturate(type, (j % 2 ? -size : size) + bell(c)); });
      return;
    }
    case Regime::extreme_values:
      // Up to the largest finite value: sum P v may leave f32 although O fits, and the contract asks for O.
      each_value(p, [&](int64_t, int64_t) { return draw_finite(c, type); });
      return;
    default: {  // random_wide, and the finite part of non_finite_value
      const double deviation = std::ldexp(1.0, static_cast<int>(c.between(-2, 2)));
      each_value(p, [&](int64_t, int64_t) { return normal(deviation); });
      return;
    }
  }
}

}  // namespace attest
