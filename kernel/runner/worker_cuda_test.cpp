// What a kernel does to its device stays with its worker: the CUDA context is lost, the worker is replaced, the next call
// is right. Skipped where there is no GPU.
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernel/runner/kernel.h"

namespace attest {
namespace {

Problem problem(int64_t keys) {
  Problem p = Problem::make({.b = 1, .hq = 2, .hk = 1, .nq = 3, .nk = keys, .d = 8, .dv = 8}, DType::f32);
  for (int64_t n = 0; n < p.v.layout.count(); ++n) p.v.set_bits(n, f32_from_double(static_cast<double>(n % 7)));
  return p;
}

struct Told {
  const char* fault;
  RunStatus status;
};
void PrintTo(const Told& told, std::ostream* out) { *out << told.fault; }

class MisbehavingOnTheDevice : public ::testing::TestWithParam<Told> {};

TEST_P(MisbehavingOnTheDevice, IsToldAndTheNextCallIsRight) {
  auto loaded = Kernel::load(std::string(ATTEST_MISBEHAVING_DIR "/misbehaving_") + GetParam().fault + ".so", Isolation{.seconds = 20});
  if (const auto* error = std::get_if<LoadError>(&loaded)) {
    ASSERT_EQ(error->kind, LoadError::Kind::no_device) << error->message;
    GTEST_SKIP() << error->message;
  }
  const Kernel& kernel = std::get<Kernel>(loaded);
  const char* asked = std::getenv("ATTEST_FAULTS");
  const int64_t faults = asked != nullptr ? std::atoll(asked) : 3;
  const Observation right = kernel.run(problem(8));
  ASSERT_EQ(right.status, RunStatus::ok) << right.message;
  for (int64_t n = 0; n < faults; ++n) {
    const Observation seen = kernel.run(problem(7));
    EXPECT_EQ(seen.status, GetParam().status) << seen.message;
    EXPECT_NE(seen.message, "");
    EXPECT_EQ(kernel.run(problem(8)).o, right.o) << "after fault " << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, MisbehavingOnTheDevice,
                         ::testing::Values(Told{"illegal_address", RunStatus::crashed}, Told{"device_loops", RunStatus::timed_out},
                                           Told{"device_memory", RunStatus::failed}),
                         [](const auto& info) { return std::string(info.param.fault); });

}  // namespace
}  // namespace attest
