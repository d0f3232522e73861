// verdict.h: the judge's answer about one observation.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace attest {

enum class Disposition : uint8_t {
  passed, incorrect, non_finite, crashed, timed_out, overran_buffer, non_deterministic, not_supported,
  known_failure, unexpected_pass
};
inline constexpr int kDispositions = static_cast<int>(Disposition::unexpected_pass) + 1;
std::string_view name_of(Disposition d);

// The check that a verdict failed, in the order in which they are made.
enum class Check : uint8_t { none, status, memory, non_finite, lse, bound, budget, invariant, relation, determinism };
inline constexpr int kChecks = static_cast<int>(Check::determinism) + 1;
std::string_view name_of(Check c);

// One element that was judged. col = -1 for LSE.
struct ElementError {
  int64_t b = 0, h = 0, row = 0, col = 0;
  double got = 0, exact = 0, bound = 0;
  double ratio = 0;  // |got - exact| / bound; +inf where a non-finite value stands where none may
  double ulps = 0;   // |got - exact| in units in the last place of the output type at the exact value
};

// Buckets of error / bound: [0,2^-10], (2^-10,2^-9], ... (1/2,1], (1,2], ... (2^9,2^10], above, non-finite.
inline constexpr int kBuckets = 23;
// Bucket k holds (2^(k-11), 2^(k-10)] for k = 1 ... 20; bucket 0 all below, 21 all above, 22 the non-finite.
inline int bucket_of(double ratio) {
  if (ratio <= 0x1p-10) return 0;
  const auto bits = std::bit_cast<uint64_t>(ratio);
  const int field = static_cast<int>(bits >> 52);  // of a positive normal number, or of none
  if (field >= 0x7FF) return kBuckets - 1;
  const int bucket = field - 1023 + 10 + ((bits << 12) != 0 ? 1 : 0);
  return bucket > kBuckets - 2 ? kBuckets - 2 : bucket;
}
std::string bucket_name(int bucket);

// The error of the rows of one case against the number of keys that they see: bucket k holds 2^k to 2^(k+1) - 1 visible keys.
inline constexpr int kKeyBuckets = 24;
struct RowErrors {
  int64_t rows = 0;
  double largest = 0, sum = 0;  // of a row's largest |got - exact| of O, in units in the last place at its largest |O|; the sum of its log2, from -10 up
  void add(const RowErrors& other);
};
int key_bucket_of(int64_t visible_keys);

struct Verdict {
  Disposition disposition = Disposition::passed;
  Check check = Check::none;   // first check that failed
  std::string detail;          // one line: what was expected and what was seen
  int64_t rows = 0;            // judged
  int64_t rows_out_of_range = 0;  // counted apart, not judged
  int64_t rows_exact = 0;      // decided by cpp_dec_float
  int64_t elements = 0;
  int64_t loose = 0;           // elements whose bound cannot discriminate
  double worst_ratio = 0;      // largest error/bound of O
  double worst_lse_ratio = 0;
  double worst_budget = 0;     // largest noise ratio R
  double worst_budget_share = 0;  // largest R / threshold; > 1 fails
  int64_t failures = 0;        // elements over the bound, of O and LSE
  int64_t budget_failures = 0; // rows over the noise budget
  std::array<int64_t, kBuckets> buckets{};
  std::array<int64_t, kBuckets> noise_buckets{};         // rows by R, in the same buckets
  std::array<int64_t, kBuckets> budget_buckets{};        // rows by R / threshold
  double least_threshold = std::numeric_limits<double>::infinity();  // of those rows
  std::array<RowErrors, kKeyBuckets> errors_by_keys{};
  std::vector<ElementError> worst;  // at most ten, largest ratio first, O and LSE

  bool ok() const {
    return disposition == Disposition::passed || disposition == Disposition::not_supported ||
           disposition == Disposition::known_failure;
  }
};

}  // namespace attest
