// direct.h: for the tests of this room, attention written straight from its definition, in long double and without
// tiles, and small random problems that combine everything a kernel may be asked for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/observation.h"
#include "reference/problem.h"

namespace attest::testing {

// A generator whose numbers are the same everywhere (G. Steele et al., "Fast splittable pseudorandom number
// generators", 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits();
  int64_t below(int64_t n) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  double uniform(double low, double high) { return low + (high - low) * static_cast<double>(bits() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

struct Direct {
  std::vector<long double> o, lse;   // packed
  std::vector<long double> largest;  // per row, the largest visible |v|
};

bool visible(const Problem& p, int64_t b, int64_t h, int64_t i, int64_t j);
Direct direct_attention(const Problem& p);

// Sizes, types, masks, layouts and choices all vary; masked keys hold NaN and infinities.
Problem random_problem(Random& random);

// "" or the first element of `seen` that is further from `exact` than rounding explains.
std::string first_difference(const Problem& p, const Observation& seen, const Direct& exact);

}  // namespace attest::testing
