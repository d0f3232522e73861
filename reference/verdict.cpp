#include "reference/verdict.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace attest {

std::string_view name_of(Disposition d) {
  switch (d) {
    case Disposition::passed: return "passed";
    case Disposition::incorrect: return "incorrect";
    case Disposition::non_finite: return "non-finite";
    case Disposition::crashed: return "crashed";
    case Disposition::timed_out: return "timed out";
    case Disposition::overran_buffer: return "overran a buffer";
    case Disposition::non_deterministic: return "non-deterministic";
    case Disposition::not_supported: return "not supported";
    case Disposition::known_failure: return "known failure";
    case Disposition::unexpected_pass: return "unexpected pass";
  }
  return "";
}

std::string_view name_of(Check c) {
  switch (c) {
    case Check::none: return "none";
    case Check::status: return "status";
    case Check::memory: return "memory";
    case Check::non_finite: return "non-finite";
    case Check::lse: return "lse";
    case Check::bound: return "bound";
    case Check::budget: return "budget";
    case Check::invariant: return "invariant";
    case Check::relation: return "relation";
    case Check::determinism: return "determinism";
  }
  return "";
}

int key_bucket_of(int64_t visible_keys) {
  return std::min(kKeyBuckets, std::max(1, static_cast<int>(std::bit_width(static_cast<uint64_t>(visible_keys))))) - 1;
}

void RowErrors::add(const RowErrors& other) {
  rows += other.rows;
  largest = std::max(largest, other.largest);
  sum += other.sum;
}

std::string bucket_name(int bucket) {
  const auto power = [](int k) {
    return k < 0 ? "1/" + std::to_string(1 << -k) : std::to_string(1 << k);
  };
  if (bucket == kBuckets - 1) return "non-finite";
  if (bucket == kBuckets - 2) return "> " + power(10);
  return "<= " + power(bucket - 10);
}

}  // namespace attest
