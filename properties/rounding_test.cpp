// rounding_does_not_lean sees what no bound sees: a last rounding toward zero or of halves away from zero. A rounding to
// nearest, ties to even, passes whatever the type.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernel/abi/attest_kernel.h"
#include "properties/verify.h"
#include "reference/formats.h"

namespace attest {
namespace {

enum class Last { to_even, toward_zero, halves_away };
Last last = Last::to_even;

uint32_t rounded(DType type, double x) {
  const uint32_t even = from_double(type, x);
  const double there = to_double(type, even);
  if (last == Last::toward_zero && std::fabs(there) > std::fabs(x)) return step_bits(type, even, x > 0 ? -1 : 1);
  if (last == Last::halves_away && std::fabs(there) < std::fabs(x)) {
    const uint32_t further = step_bits(type, even, x > 0 ? 1 : -1);
    if (std::fabs(x) - std::fabs(there) == std::fabs(to_double(type, further)) - std::fabs(x)) return further;
  }
  return even;
}

// Attention in double, causal from the bottom right; only the last rounding is at stake.
attest_status forward(const attest_args* a, void*, char*, size_t) {
  const DType type = a->q->dtype.code == kDLBfloat ? DType::bf16 : DType::f16;
  const auto element = [&](const DLTensor& t, int64_t b, int64_t h, int64_t i, int64_t d) {
    return reinterpret_cast<uint16_t*>(static_cast<char*>(t.data) + t.byte_offset) + b * t.strides[0] + h * t.strides[1] + i * t.strides[2] + d;
  };
  const int64_t rows = a->q->shape[2], keys = a->k->shape[2], width = a->v->shape[3], group = a->q->shape[1] / std::max<int64_t>(a->k->shape[1], 1);
  std::vector<double> s(static_cast<size_t>(keys));
  for (int64_t b = 0; b < a->q->shape[0]; ++b)
    for (int64_t h = 0; h < a->q->shape[1]; ++h)
      for (int64_t i = 0; i < rows; ++i) {
        double m = -std::numeric_limits<double>::infinity();
        for (int64_t j = 0; j < keys; ++j) {
          double dot = 0;
          for (int64_t d = 0; d < a->q->shape[3]; ++d) dot += to_double(type, *element(*a->q, b, h, i, d)) * to_double(type, *element(*a->k, b, h / group, j, d));
          s[static_cast<size_t>(j)] = a->causal != 0 && j > i + keys - rows ? -std::numeric_limits<double>::infinity() : static_cast<double>(a->scale) * dot;
          m = std::max(m, s[static_cast<size_t>(j)]);
        }
        for (int64_t d = 0; d < width; ++d) {
          double sum = 0, l = 0;
          for (int64_t j = 0; j < keys; ++j) {
            const double p = std::isinf(m) ? 0 : std::exp(s[static_cast<size_t>(j)] - m);
            if (p == 0) continue;
            l += p;
            sum += p * to_double(type, *element(*a->v, b, h / group, j, d));
          }
          *element(*a->o, b, h, i, d) = static_cast<uint16_t>(rounded(type, l == 0 ? 0 : sum / l));
        }
      }
  return ATTEST_OK;
}

VerifyReport run(Last how, int64_t cases, const char* properties) {
  last = how;
  static constexpr int32_t kTypes[] = {ATTEST_F16, ATTEST_BF16};
  static attest_kernel table{};
  table.abi_version = ATTEST_ABI_VERSION;
  table.struct_size = sizeof table;
  table.name = "last rounding";
  table.version = "1";
  table.device = kDLCPU;
  table.features = ATTEST_CAUSAL | ATTEST_GROUPED_HEADS;
  table.types = kTypes;
  table.type_count = 2;
  table.head_width_max = 64;
  table.conventions.nonfinite_v_leaks = 1;
  table.supports = [](const attest_args*, char*, size_t) { return 1; };
  table.forward = forward;
  return verify(Kernel::from_table(&table), {.seed = 3, .cases = cases, .properties = properties, .threads = 1});
}

TEST(RoundingDoesNotLean, holds_of_a_rounding_to_nearest_and_ties_to_even) {
  const VerifyReport report = run(Last::to_even, 150, "rounding_does_not_lean");
  EXPECT_EQ(report.violations(), 0);
  EXPECT_GT(report.cases(), 100);
}

TEST(RoundingDoesNotLean, catches_a_rounding_toward_zero) { EXPECT_GT(run(Last::toward_zero, 60, "rounding_does_not_lean").violations(), 10); }

TEST(RoundingDoesNotLean, catches_halves_rounded_away_from_zero_which_no_bound_does) {
  // This kernel is no match for every input; halves add nothing to what is found of it.
  constexpr const char* kOthers = "matches_reference|output_within_value_range|keys_doubled";
  EXPECT_EQ(run(Last::halves_away, 200, kOthers).violations(), run(Last::to_even, 200, kOthers).violations());
  EXPECT_GT(run(Last::halves_away, 150, "rounding_does_not_lean").violations(), 0);
}

}  // namespace
}  // namespace attest
