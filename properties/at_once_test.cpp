// The host kernel takes a split at once where it can: the same bits as key by key, on generated cases.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernel/host/host.h"
#include "kernel/host/host_kernel.h"
#include "kernel/runner/kernel.h"
#include "properties/generate/generate.h"

using namespace attest;

namespace {

// The same steps, but hidden ones: nothing stands for them.
struct KeyByKey : host::HostSteps {
  static bool is_masked(double score) { return HostSteps::is_masked(score); }
  static double normalise(double o, float l) { return HostSteps::normalise(o, l); }
};
static_assert(host::kUsualSteps<host::HostSteps> && host::kUsualEnd<host::HostSteps>);
static_assert(!host::kUsualSteps<KeyByKey> && !host::kUsualEnd<KeyByKey>);

bool same(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) { return same_value(x, y) && (x != x || std::signbit(x) == std::signbit(y)); });
}

TEST(AtOnceTest, TheSameBitsAsKeyByKey) {
  const Kernel at_once = Kernel::from_table(host_kernel());
  const Kernel by_key = Kernel::from_table(host::host_kernel_table<KeyByKey>("key_by_key"));
  const Target target = Target::from_table(at_once.table());
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    Choices choices = Choices::seeded(seed);
    const Problem p = generate(choices, target, {.choose_tile = seed % 2 == 0, .min_keys = 0, .max_keys = 300, .work = 5e4}).problem;
    const Observation a = at_once.run(p, {.trace = true}), b = by_key.run(p, {.trace = true});
    ASSERT_EQ(a.status, RunStatus::ok);
    ASSERT_EQ(a.status, b.status);
    EXPECT_TRUE(same(a.o, b.o));
    EXPECT_TRUE(same(a.lse, b.lse));
    EXPECT_EQ(a.overrun + a.unwritten + a.input_change, "");
    ASSERT_EQ(a.trace.size(), b.trace.size());
    for (size_t n = 0; n < a.trace.size(); ++n) {
      const TraceRecord &x = a.trace[n], &y = b.trace[n];
      EXPECT_TRUE(x.b == y.b && x.h == y.h && x.row == y.row && x.split == y.split && x.sequence == y.sequence && x.key_begin == y.key_begin && x.key_end == y.key_end);
      EXPECT_TRUE(same({static_cast<double>(x.m), static_cast<double>(x.l), static_cast<double>(x.scale)}, {static_cast<double>(y.m), static_cast<double>(y.l), static_cast<double>(y.scale)}));
    }
  }
}

}  // namespace
