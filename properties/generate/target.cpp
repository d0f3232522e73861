#include "properties/generate/target.h"

#include <span>

namespace attest {

namespace {

void append_type(std::vector<DType>& list, int32_t type) {
  if (type == ATTEST_F32) list.push_back(DType::f32);
  if (type == ATTEST_F16) list.push_back(DType::f16);
  if (type == ATTEST_BF16) list.push_back(DType::bf16);
}

}  // namespace

Target Target::from_table(const attest_kernel& t) {
  Target target;
  target.name = t.name ? t.name : "";
  for (int32_t type : std::span(t.types, t.type_count)) append_type(target.types, type);
  for (int32_t width : std::span(t.head_widths, t.head_width_count)) target.widths.push_back(width);
  target.max_width = t.head_width_max > 0 ? t.head_width_max : 256;
  target.features = t.features;
  for (int64_t tile : std::span(t.tiles, t.tile_count))
    if (tile > 0) target.tiles.push_back(tile);
  for (int32_t split : std::span(t.splits, t.split_count))
    if (split > 0) target.splits.push_back(split);
  for (int32_t order : std::span(t.orders, t.order_count)) {
    if (order == ATTEST_ORDER_ASCENDING) target.orders.push_back(TileOrder::ascending);
    if (order == ATTEST_ORDER_DESCENDING) target.orders.push_back(TileOrder::descending);
  }
  for (int32_t type : std::span(t.p_types, t.p_type_count)) append_type(target.p_types, type);
  target.conventions = {.causal_top_left = t.conventions.causal_top_left != 0,
                        .empty_row_o_nan = t.conventions.empty_row_o_nan != 0,
                        .empty_row_lse_inf = t.conventions.empty_row_lse_inf != 0,
                        .nonfinite_v_leaks = t.conventions.nonfinite_v_leaks != 0,
                        .batch_dependent = t.conventions.batch_dependent != 0,
                        .sink_first = t.conventions.sink_first != 0};
  target.own_tile = t.numerics.tile;
  return target;
}

Target Target::everything() {
  Target target;
  target.name = "everything";
  target.types.assign(std::begin(kAllDTypes), std::end(kAllDTypes));
  target.features = (ATTEST_UNALIGNED << 1) - 1;
  target.tiles = {1, 2, 16, 32, 48, 64, 128};
  target.splits = {1, 2, 3, 7};
  target.orders = {TileOrder::ascending, TileOrder::descending};
  target.p_types = target.types;
  return target;
}

}  // namespace attest
