// choices.h: the one source of decisions for generators, regimes and mutators.
//
// A Choices is a stream of bits, either seeded (verify, RapidCheck, GoogleTest) or read from a byte string
// (fuzzing), where every string decodes: past its end all bits are 0, which by convention chooses the
// simplest alternative, so put the simplest first. A seed gives the same decisions on every compiler and
// platform: integer arithmetic, and doubles that are exact, only. Bulk contents (a tensor's elements) are drawn
// from a fork(), so that a short byte string still decides every structural choice.
// Take one draw per full expression: C++ leaves the order of two operands or arguments to the compiler.
// Source: D. Blackman, S. Vigna, "Scrambled linear pseudorandom number generators" (2021), xoshiro256** seeded
// by splitmix64.
// Example:
//     Choices c = Choices::seeded(42);
//     int64_t keys = c.between(1, 64);
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace attest {

class Choices {
 public:
  static Choices seeded(uint64_t seed);
  static Choices bytes(std::span<const uint8_t> data);  // `data` outlives the Choices

  uint64_t bits(int n);                                   // n in [0, 64] random bits
  uint64_t below(uint64_t n);                             // uniform in [0, n), n >= 1
  int64_t between(int64_t lo, int64_t hi);                // uniform in [lo, hi]
  bool chance(uint32_t numerator, uint32_t denominator);  // true with that probability; false on zero bits
  double unit();                                          // uniform in [0, 1), a multiple of 2^-53
  // Close to standard normal: six uniforms minus six others, so mean 0, variance 1, |value| < 6.0001; a
  // multiple of 2^-53, the same bits everywhere, 0 on zero bits.
  double normal();
  template <class Range>
  auto& pick(Range& range) {
    return range[below(std::size(range))];
  }

  Choices fork();  // an independent seeded stream, named by 64 bits of this one

  bool exhausted() const;  // a byte string has been read to its end; never true for a seeded stream
  // Mixes numbers into a seed for an independent stream, for instance (seed, property, case index).
  static uint64_t mix(uint64_t a, uint64_t b);

 private:
  uint64_t next();             // of a seeded stream; inline, for contents are drawn one word an element
  uint64_t read_bytes(int n);  // n bits of a byte string
  uint64_t state_[4] = {};
  std::span<const uint8_t> data_;
  size_t at_ = 0;
  bool from_bytes_ = false;
};

inline uint64_t Choices::next() {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

inline uint64_t Choices::bits(int n) {
  if (n == 0) return 0;
  return from_bytes_ ? read_bytes(n) : next() >> (64 - n);
}

}  // namespace attest
