#include "properties/explain.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernel/host/host_kernel.h"
#include "properties/mutants/broken_ten.h"
#include "properties/verify.h"

namespace attest {

namespace {

// The first failure of plain judging among a few cases.
std::optional<Problem> first_failure(const PropertyContext& context) {
  const Property& plain = *find_property("matches_reference");
  for (uint64_t index = 0; index < 40; ++index) {
    Choices choices = case_choices(1, plain.name, index);
    CaseResult result = plain.run(choices, index, context);
    if (!result.verdict.ok()) return result.problem;
  }
  return std::nullopt;
}

Family right_answer(const std::string& kernel) {
  const std::pair<const char*, Family> answers[] = {{"no_rescale", Family::rescale_missing}, {"only_l_rescaled", Family::rescale_of_o_missing},
      {"only_o_rescaled", Family::rescale_of_l_missing}, {"tile_maximum_without_rescale", Family::tile_maximum_kept_apart}, {"no_maximum_subtracted", Family::no_maximum},
      {"masked_keys_scored_zero", Family::masked_scored_finite}, {"last_partial_tile_unmasked", Family::tail_unmasked}, {"scale_from_model_width", Family::scale_wrong},
      {"empty_row_zero_by_zero", Family::empty_row_nan}, {"tiles_normalised_and_averaged", Family::tiles_normalised_apart}};
  for (const auto& [name, family] : answers)
    if (kernel == name) return family;
  return Family::none;
}

}  // namespace

class ExplainBroken : public testing::TestWithParam<size_t> {};

// The right family is the answer, or stands in a class that is not called certain; never a wrong one for certain.
TEST_P(ExplainBroken, names_the_fault_with_and_without_a_trace) {
  const Kernel kernel = Kernel::from_table(mutants::broken_ten()[GetParam()].kernel);
  Judge judge;
  const PropertyContext context{kernel, judge};
  const auto problem = first_failure(context);
  ASSERT_TRUE(problem);
  const Family right = right_answer(kernel.name());
  for (const bool trace : {true, false}) {
    const Explanation e = explain(*problem, context, {.use_trace = trace});
    EXPECT_TRUE(e.diagnosis.holds(right)) << argument(e.evidence, e.diagnosis);
    if (e.diagnosis.certain) {
      EXPECT_EQ(e.diagnosis.top(), right) << argument(e.evidence, e.diagnosis);
    }
  }
}

class ExplainUnknown : public ExplainBroken {};

// Without its own models a fault is not taken for another one with certainty.
TEST_P(ExplainUnknown, without_its_model_nothing_else_is_certain) {
  const Kernel kernel = Kernel::from_table(mutants::broken_ten()[GetParam()].kernel);
  Judge judge;
  const PropertyContext context{kernel, judge};
  const auto problem = first_failure(context);
  ASSERT_TRUE(problem);
  const Explanation with = explain(*problem, context);
  const Explanation without = explain(*problem, context, {.without = {right_answer(kernel.name())}});
  EXPECT_TRUE(!without.diagnosis.certain || with.diagnosis.holds(without.diagnosis.top())) << argument(without.evidence, without.diagnosis);
}

INSTANTIATE_TEST_SUITE_P(Every, ExplainBroken, testing::Range(size_t{0}, size_t{10}),
                         [](const auto& info) { return std::string(mutants::broken_ten()[info.param].name); });
INSTANTIATE_TEST_SUITE_P(Some, ExplainUnknown, testing::Values(size_t{1}, size_t{3}, size_t{6}, size_t{8}),
                         [](const auto& info) { return std::string(mutants::broken_ten()[info.param].name); });

namespace {

// A kernel without trace that gives the keys 16 to 31 a third of their weight.
struct ThirdOfATile : host::HostSteps {};
attest_status third_of_a_tile(const attest_args* args, void* stream, char* message, size_t size) {
  attest_args changed = *args;
  const int64_t nk = args->k->shape[2];
  std::vector<float> bias(static_cast<size_t>(nk), 0.0f);
  for (int64_t j = 16; j < 32 && j < nk; ++j) bias[static_cast<size_t>(j)] = static_cast<float>(std::log(1.0 / 3));
  int64_t shape[4] = {1, 1, 1, nk};
  DLTensor t{};
  t.data = bias.data();
  t.ndim = 4;
  t.shape = shape;
  t.dtype = {kDLFloat, 32, 1};
  t.device = args->q->device;
  changed.bias = &t;
  return host::HostKernel<ThirdOfATile>::forward(&changed, stream, message, size);
}
const attest_kernel* third_table() {
  static const attest_kernel table = [] {
    attest_kernel t = *host::host_kernel_table<ThirdOfATile>("third_of_a_tile");
    t.forward = &third_of_a_tile;
    t.trace_capacity = nullptr;
    t.features &= ~uint32_t{ATTEST_BIAS_F32 | ATTEST_BIAS_INPUT_TYPE};
    return t;
  }();
  return &table;
}

}  // namespace

TEST(Explain, measures_which_tile_of_a_black_box_got_which_weight) {
  Problem p = Problem::make({.nq = 3, .nk = 50, .d = 2, .dv = 3}, DType::f32);
  p.choice.tile_keys = 16;
  for (int64_t i = 0; i < 3; ++i) p.q.set(0, 0, i, 0, 1);
  for (int64_t j = 0; j < 50; ++j) {
    p.k.set(0, 0, j, 0, 0.125 * static_cast<double>(j * 7 % 11));
    for (int64_t d = 0; d < 3; ++d) p.v.set(0, 0, j, d, static_cast<double>((j * 5 + d) % 13));
  }
  const Kernel kernel = Kernel::from_table(third_table());
  Judge judge;
  const Explanation e = explain(p, {kernel, judge});
  EXPECT_EQ(e.diagnosis.top(), Family::tile_weighed) << argument(e.evidence, e.diagnosis);
  ASSERT_FALSE(e.diagnosis.weights.empty());
  EXPECT_EQ(e.diagnosis.weights.front().begin, 16);
  EXPECT_EQ(e.diagnosis.weights.front().end, 32);
  EXPECT_NEAR(e.diagnosis.weights.front().ratio, 1.0 / 3, 0.01);
}

TEST(Explain, every_problem_of_the_failing_property_is_evidence) {
  // Wrong only where a window is given: as the second problem of causal_as_window has one, and the case has none.
  const Kernel kernel = Kernel::from_table(mutants::find("sink_left_out_with_window")->kernel);
  Problem p = Problem::make({.nq = 3, .nk = 9, .d = 2, .dv = 3}, DType::f32);
  p.causal = true;
  p.sink = {0.5f};
  for (int64_t j = 0; j < 9; ++j)
    for (int64_t d = 0; d < 3; ++d) p.v.set(0, 0, j, d, static_cast<double>((j * 5 + d) % 7));
  Judge judge;
  const PropertyContext context{kernel, judge};
  EXPECT_TRUE(explain(p, context).diagnosis.outputs_right);
  const Explanation e = explain(p, context, {.property = find_property("causal_as_window")});
  EXPECT_EQ(e.diagnosis.top(), Family::sink_missing) << argument(e.evidence, e.diagnosis);
}

TEST(Explain, rows_of_equal_contents_and_unequal_bits_are_a_fact_and_not_certain) {
  const Kernel kernel = Kernel::from_table(mutants::find("tile_depends_on_batch")->kernel);
  Judge judge;
  const Property& property = *find_property("other_batch");
  const PropertyContext context{kernel, judge};
  Problem p;
  bool fails = false;
  for (uint64_t index = 0; index < 2000 && !fails; ++index) {
    Choices choices = case_choices(1, property.name, index);
    CaseResult result = property.run(choices, index, context);
    fails = !result.verdict.ok();
    p = std::move(result.problem);
  }
  ASSERT_TRUE(fails);
  const Explanation e = explain(p, context, {.property = &property});
  EXPECT_EQ(e.diagnosis.top(), Family::depends_on_others) << argument(e.evidence, e.diagnosis);
  EXPECT_FALSE(e.diagnosis.certain);
  EXPECT_NE(argument(e.evidence, e.diagnosis).find("have the same contents"), std::string::npos);
}

TEST(Explain, finds_no_fault_in_a_right_kernel) {
  const Kernel host = std::get<Kernel>(Kernel::load("host"));
  Judge judge;
  const PropertyContext context{host, judge};
  const Property& plain = *find_property("matches_reference");
  for (uint64_t index = 0; index < 12; ++index) {
    Choices choices = case_choices(3, plain.name, index);
    const Explanation e = explain(plain.run(choices, index, context).problem, context);
    EXPECT_TRUE(e.diagnosis.explaining.empty()) << argument(e.evidence, e.diagnosis);
    EXPECT_TRUE(e.diagnosis.outputs_right) << argument(e.evidence, e.diagnosis);
  }
}

}  // namespace attest
