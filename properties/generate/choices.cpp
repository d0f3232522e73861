#include "properties/generate/choices.h"

#include <bit>

namespace attest {

namespace {

uint64_t splitmix64(uint64_t& state) {
  uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace

Choices Choices::seeded(uint64_t seed) {
  Choices c;
  for (uint64_t& word : c.state_) word = splitmix64(seed);
  return c;
}

Choices Choices::bytes(std::span<const uint8_t> data) {
  Choices c;
  c.data_ = data;
  c.from_bytes_ = true;
  return c;
}

uint64_t Choices::read_bytes(int n) {
  uint64_t value = 0;
  for (int shift = 0; shift < n; shift += 8)
    if (at_ < data_.size()) value |= uint64_t{data_[at_++]} << shift;
  return n == 64 ? value : value & ((uint64_t{1} << n) - 1);
}

uint64_t Choices::below(uint64_t n) {
  const int width = std::bit_width(n - 1);
  uint64_t value = bits(width);
  if (from_bytes_) return value % n;  // no second draw: every string decodes, and a byte changes little else
  while (value >= n) value = bits(width);
  return value;
}

int64_t Choices::between(int64_t lo, int64_t hi) {
  const uint64_t count = static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo) + 1;  // 0: all of int64_t
  return static_cast<int64_t>(static_cast<uint64_t>(lo) + (count == 0 ? bits(64) : below(count)));
}

bool Choices::chance(uint32_t numerator, uint32_t denominator) { return below(denominator) + numerator >= denominator; }

double Choices::unit() { return static_cast<double>(bits(53)) * 0x1p-53; }

double Choices::normal() {
  // Sixteen bits a uniform; the fraction below 2^-16 is drawn once, so that significands are full.
  int64_t sum = 0;
  for (int word = 0; word < 3; ++word) {
    const uint64_t u = bits(64);
    sum += static_cast<int64_t>(u & 0xFFFF) + static_cast<int64_t>((u >> 16) & 0xFFFF);
    sum -= static_cast<int64_t>((u >> 32) & 0xFFFF) + static_cast<int64_t>(u >> 48);
  }
  const int64_t fine = static_cast<int64_t>(bits(37) << 27) >> 27;  // in [-2^36, 2^36)
  return static_cast<double>((sum << 37) + fine) * 0x1p-53;
}

Choices Choices::fork() { return seeded(bits(64)); }

bool Choices::exhausted() const { return from_bytes_ && at_ >= data_.size(); }

uint64_t Choices::mix(uint64_t a, uint64_t b) {
  uint64_t state = a;
  uint64_t mixed = splitmix64(state) ^ b;
  return splitmix64(mixed);
}

}  // namespace attest
