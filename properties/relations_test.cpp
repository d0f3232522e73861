// Each bit relation sees the dependence that it forbids: a host kernel whose scale hangs on something that must not
// matter violates that relation, and the host kernel itself does not.
#include <gtest/gtest.h>

#include <atomic>

#include "kernel/host/host_kernel.h"
#include "properties/verify.h"

namespace attest {

namespace {

uint8_t byte_of(const DLTensor& t, int64_t element, int byte) {
  return static_cast<const uint8_t*>(t.data)[t.byte_offset + static_cast<uint64_t>(element * (t.dtype.bits / 8) + byte)];
}
bool empty(const DLTensor& t) {
  for (int k = 0; k < t.ndim; ++k)
    if (t.shape[k] == 0) return true;
  return false;
}

// Conditions under which a kernel takes another scale.
bool every_second_call(const attest_args&) {
  static std::atomic<uint64_t> calls{0};
  return calls++ % 2 == 1;
}
bool first_query_is_odd(const attest_args& a) { return !empty(*a.q) && (byte_of(*a.q, 0, 1) & 1) != 0; }
bool batches_and_heads_are_odd(const attest_args& a) { return (a.k->shape[0] + a.k->shape[1]) % 2 == 1; }
bool rows_are_padded(const attest_args& a) { return a.q->strides[2] != a.q->shape[3] || a.k->strides[0] == 0; }
bool last_key_is_odd(const attest_args& a) {
  const DLTensor& k = *a.k;
  return !empty(k) && (byte_of(k, (k.shape[2] - 1) * k.strides[2], 1) & 1) != 0;
}
bool window_given(const attest_args& a) { return a.window_left >= 0 || a.window_right >= 0; }
bool causal_given(const attest_args& a) { return a.causal != 0; }
bool first_value_is_negative(const attest_args& a) { return !empty(*a.v) && (byte_of(*a.v, 0, a.v->dtype.bits / 8 - 1) & 0x80) != 0; }
bool first_value_is_large(const attest_args& a) { return !empty(*a.v) && (byte_of(*a.v, 0, a.v->dtype.bits / 8 - 1) & 0x40) != 0; }
bool trace_wanted(const attest_args& a) { return a.trace != nullptr; }
bool lse_unwanted(const attest_args& a) { return a.lse == nullptr; }

template <bool (*condition)(const attest_args&)>
attest_status forward(const attest_args* args, void* stream, char* message, size_t size) {
  attest_args changed = *args;
  if (condition(*args)) changed.scale *= 1.25f;
  return host::HostKernel<host::HostSteps>::forward(&changed, stream, message, size);
}

// O of the first state wherever that has a key.
attest_status first_state_wins(const attest_state* a, const attest_state* b, const attest_state* out, void* stream, char* message, size_t size) {
  const attest_status status = host::HostKernel<host::HostSteps>::merge(a, b, out, stream, message, size);
  const int64_t count = a->o->shape[0] * a->o->shape[1];
  if (count > 0) std::memcpy(out->o->data, a->o->data, static_cast<size_t>(4 * count));
  return status;
}

// The mean of V, whatever Q, K, the mask and the causal flag say.
attest_status forgets_the_scores(const attest_args* args, void* stream, char* message, size_t size) {
  attest_args changed = *args;
  changed.scale = 0;
  changed.causal = 0;
  changed.mask = nullptr;
  return host::HostKernel<host::HostSteps>::forward(&changed, stream, message, size);
}

attest_kernel host_table() { return *host::host_kernel_table<host::HostSteps>("host"); }

VerifyReport verified(const attest_kernel& table, const std::string& property) {
  return verify(Kernel::from_table(&table), {.seed = 2, .cases = 40, .properties = "^" + property + "$", .threads = 1});
}

}  // namespace

class Relation : public testing::TestWithParam<std::pair<const char*, decltype(attest_kernel::forward)>> {};

TEST_P(Relation, sees_what_it_forbids) {
  const auto& [property, faulty] = GetParam();
  attest_kernel table = host_table();
  EXPECT_EQ(verified(table, property).violations(), 0);
  table.forward = faulty;
  EXPECT_GT(verified(table, property).violations(), 0);
}

INSTANTIATE_TEST_SUITE_P(Every, Relation,
                         testing::Values(std::pair{"repeat_call", &forward<every_second_call>}, std::pair{"other_rows", &forward<first_query_is_odd>},
                                         std::pair{"other_batch", &forward<batches_and_heads_are_odd>},
                                         std::pair{"strides_and_broadcast", &forward<rows_are_padded>},
                                         std::pair{"masked_contents_replaced", &forward<last_key_is_odd>},
                                         std::pair{"unlimited_window", &forward<window_given>}, std::pair{"causal_as_window", &forward<causal_given>},
                                         std::pair{"v_negated", &forward<first_value_is_negative>},
                                         std::pair{"v_power_of_two", &forward<first_value_is_large>},
                                         std::pair{"trace_changes_no_bits", &forward<trace_wanted>}, std::pair{"lse_matches", &forward<lse_unwanted>},
                                         std::pair{"one_visible_key_changed_must_differ", &forgets_the_scores}),
                         [](const auto& info) { return std::string(info.param.first); });

TEST(MergeRelation, sees_what_it_forbids) {
  for (const char* property : {"merge_commutes", "merge_identity", "merge_associates"}) {
    attest_kernel table = host_table();
    EXPECT_EQ(verified(table, property).violations(), 0) << property;
    table.merge = first_state_wins;
    EXPECT_GT(verified(table, property).violations(), 0) << property;
  }
}

TEST(NotCovered, says_what_the_kernel_does_not_offer) {
  attest_kernel table = host_table();
  table.merge = nullptr;
  table.trace_capacity = nullptr;
  table.features &= ~static_cast<uint32_t>(ATTEST_WINDOW | ATTEST_GROUPED_HEADS | ATTEST_LSE | ATTEST_STRIDES);
  table.order_count = table.split_count = table.tile_count = 0;
  table.conventions.batch_dependent = 1;
  const Kernel kernel = Kernel::from_table(&table);
  for (const char* name : {"merge_commutes", "merge_identity", "merge_associates", "scale_within_unit", "trace_changes_no_bits", "unlimited_window",
                           "causal_as_window", "key_heads_repeated", "lse_matches", "strides_and_broadcast", "alignment_class", "tile_size", "tile_order",
                           "split_count", "other_rows", "other_batch"})
    EXPECT_NE(find_property(name)->not_covered(kernel), "") << name;
  EXPECT_EQ(find_property("matches_reference")->not_covered(kernel), "");
}

}  // namespace attest
