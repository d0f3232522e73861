// Nearly equal scores have weights that round alike: the noise budget takes them for one source, within a row and from row to row.
#include <gtest/gtest.h>

#include <cmath>

#include "corpus/case_file.h"
#include "kernel/runner/kernel.h"
#include "properties/trial.h"

namespace attest {

// Half of the keys lie near the maximum, half 0.6 below it, none equal: e^-0.6 is nearly half a unit from the next bf16, the same
// for each of the lower keys. V makes O small, so that nothing else is as large.
TEST(NearTies, OfARowRoundAlike) {
  const Kernel host = std::get<Kernel>(Kernel::load("host"));
  Judge judge;
  const PropertyContext context{host, judge};
  for (const double below : {0.5, 0.6, 0.7, 1.3}) {
    Problem p = Problem::make({.nk = 200, .d = 1, .dv = 1}, DType::bf16);
    p.bias = Tensor::packed(DType::f32, {1, 1, 1, 200});
    for (int64_t j = 0; j < 200; ++j) {
      p.bias->set(0, 0, 0, j, (j % 2 ? -below : 0) - 1e-6 * static_cast<double>(j));
      p.v.set(0, 0, j, 0, j % 2 ? -1 : std::exp(-below));
    }
    const Verdict v = run_and_judge(p, context).verdict;
    EXPECT_TRUE(v.ok()) << below << ": " << v.detail;
    EXPECT_LT(v.worst_budget_share, 1);
  }
}

// Scores that rise by one step from key to key lie at the same distances below the maximum of every tile, and P rounds alike
// there: one way, for steps of half a unit of P.
TEST(NearTies, EvenlyRisingScoresRoundAlike) {
  const Kernel host = std::get<Kernel>(Kernel::load("host"));
  Judge judge;
  const PropertyContext context{host, judge};
  for (const double step : {0x1p-9, -0x1p-9, 0.0022, -0.003})
    for (const int64_t tile : {2, 16, 64}) {
      Problem p = Problem::make({.nk = 400, .d = 1, .dv = 1}, DType::bf16);
      p.choice.tile_keys = tile;
      p.bias = Tensor::packed(DType::f32, {1, 1, 1, 400});
      for (int64_t j = 0; j < 400; ++j) {
        p.bias->set(0, 0, 0, j, step * static_cast<double>(j));
        p.v.set(0, 0, j, 0, j % 2 ? 32 : -32);
      }
      const Verdict v = run_and_judge(p, context).verdict;
      EXPECT_TRUE(v.ok()) << step << ", tiles of " << tile << ": " << v.detail;
    }
}

// A softcap leaves two scores, nearly, in every row: the rows of this file were once taken for independent (CUDA, host).
TEST(NearTies, OfManyRowsRoundAlike) {
  const Kernel host = std::get<Kernel>(Kernel::load("host"));
  Judge judge;
  const PropertyContext context{host, judge};
  const Problem p = read_case(ATTEST_SOURCE_DIR "/corpus/regressions/rows_under_a_softcap_round_alike.safetensors").problem;
  const Verdict v = run_and_judge(p, context).verdict;
  EXPECT_TRUE(v.ok()) << v.detail;
  EXPECT_EQ(v.rows, 1044);
}

}  // namespace attest
