// fault.h: one thing that a kernel may do wrong, as data.
//
// A Fault says which steps of section 1 and 2 of the contract are done differently, and how the kernel walks over the
// keys while it does so; every field left alone is right. predict.h computes what the outputs would be.
// Example: Fault f; f.family = Family::scale_wrong; f.what = "1/d for 1/sqrt(d)"; f.scale_factor = 0.25;
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "reference/problem.h"

namespace attest {

enum class Family : uint8_t {
  none,  // the contract itself
#define ATTEST_FAULT(name, sentence) name,
#include "reference/diagnosis/families.def"
#undef ATTEST_FAULT
};
inline constexpr int kFamilies = 1
#define ATTEST_FAULT(name, sentence) +1
#include "reference/diagnosis/families.def"
#undef ATTEST_FAULT
    ;
std::string_view name_of(Family f);
std::string_view sentence_of(Family f);  // "leaves out the softcap", after "the kernel"
std::optional<Family> family_from_name(std::string_view name);

// How keys are cut into splits: into equal numbers of keys, or of whole tiles.
enum class Cut : uint8_t { keys, tiles };

// How a kernel walks over the keys of a row.
struct Walk {
  int64_t tile = 64;       // keys per tile
  bool descending = false;
  int64_t splits = 1;      // equal parts, each walked by itself
  Cut cut = Cut::keys;
  bool operator==(const Walk&) const = default;
  int64_t keys_per_split(int64_t keys) const {
    const auto parts = [](int64_t n, int64_t each) { return (n + each - 1) / each; };
    return cut == Cut::tiles ? parts(parts(keys, tile), splits) * tile : parts(keys, splits);
  }
};

// two_exponentials: tanh as (e^x - e^-x) / (e^x + e^-x) in f32; rational: as x (27 + x^2) / (27 + 9 x^2), 1 from 3 on.
enum class Softcap : uint8_t { right, missing, over_bias, clamped, not_scaled_back, before_scale, twice, two_exponentials, rational };
enum class BiasRule : uint8_t { right, missing, negated, twice, scaled, of_row_zero, of_head_zero, of_key_before, of_batch_zero, infinite_ignored, lowest_masks,
  times  // `number`
};

// What hides a key, as a set.
namespace hides {
inline constexpr uint8_t bias = 1, mask = 2, length = 4, causal = 8, window = 16, anything = 31;
}

// Which keys count as visible.
struct Sight {
  bool no_causal = false, other_corner = false;
  int64_t causal_shift = 0;
  bool no_left = false, no_right = false, window_ends_causal = false;
  int64_t left_shift = 0, right_shift = 0;
  bool no_length = false, length_of_batch_zero = false, position_from_nk = false;
  int64_t length_shift = 0;
  bool position_moves = false;  // with that shift
  enum class Mask : uint8_t { right, ignored, inverted, of_row_zero, of_head_zero, of_batch_zero, of_key_before, of_key_after } mask = Mask::right;
  int64_t round_end = 0;   // > 0: the end of the range moves up to a multiple of this
  int64_t cut_end = 0;     // > 0: the end moves down to a multiple of this
  int64_t round_begin = 0; // > 0: the begin moves down to a multiple of this
  int64_t cut_begin = 0;   // > 0: the begin moves up to a multiple of this
  int64_t row_block = 0;   // > 0: the window's left edge is that of the first row of a block of so many
  int64_t causal_block = 0; // > 0: the causal edge is that of the last row of a block of so many
  bool causal_clamped = false; // rows before the first key stand at it
  // An edge whose row stands elsewhere than for the other edges: aligned at the other corner, or at Nk whatever the key length.
  enum class Corner : uint8_t { shared, other, from_nk } causal_at = Corner::shared, left_at = Corner::shared, right_at = Corner::shared;
  int64_t pad_to = 0;      // > 0: keys of zeros up to the next multiple of this, behind the last key
  bool operator==(const Sight&) const = default;
};

enum class Fold : uint8_t {
  right,
  no_rescale, no_rescale_o, no_rescale_l,
  tile_maximum,          // weights relative to the tile's maximum, factor 1
  tile_maximum_factor,   // the same with factor exp(m_old - m_tile), which may exceed 1
  tiles_averaged, tiles_added,
  no_maximum,            // m is `number`, always
  first_maximum, maximum_before,
  start_finite,          // m starts at `number`
  factor_power,          // the factor is exp(m_old - m_new) to the power `number`
  skip_one_rescale,      // rise number `index` is not rescaled; -1: the last
  lazy,                  // m stays where it would rise by at most `number`, P does not know
  lazy_known,            // the same, and P does: right but for what P is rounded or clamped to
  skip_small, skip_large,  // rises up to, beyond `number` are not rescaled
  skip_visit,            // visit number `index` of a split does not rescale
  late, late_o,          // the factor of the visit before: of both, of O alone
  clear,                 // a rise drops what was summed
  narrow_factor, narrow_factor_o,  // the factor in `factor_format`
  minimum, magnitude, unscaled, masked_too,  // of the scores, in place of the maximum
  last_sum, last_output
};

enum class KeyRule : uint8_t { none, key, first_visible, last_visible, first_of_tile, last_of_tile,
  first_of_split, last_of_split,  // at the boundaries between splits: of number `index`, -1: of all
  before_first, after_last, tied_with_maximum_before, tied_with_key_before };
// Of two states; the sink is merged as one where `merges_sink` is set.
enum class Merge : uint8_t {
  right, no_rescale, mean, sum, empty_counted, empty_nan, swapped, power, first_only, second_only, larger_only, second_twice, first_twice,
  first_not_rescaled, second_not_rescaled, narrow_both, narrow_second
};
enum class SinkRule : uint8_t {
  right, missing, per_split, twice, unscaled, as_one, scaled, of_head_zero, of_key_head, negated, capped, infinite_is_zero, times, with_first_value, in_output_only, in_lse_only
};
enum class Division : uint8_t { right, none, by_count, by_last_tile, by_maximum_sum, twice, sqrt, plus, at_most, at_least, narrow_reciprocal, by_rounded_lse };
// exp in part of its range.
// wraps: 2^(x + 256) for 2^x below 2^-126, as an exponent field of 8 bits does.
enum class ExpRule : uint8_t { right, floor, floor_masked_too, flushed_below, biased, wraps };
// Which row's result stands in a row's place.
enum class PlaceRule : uint8_t { right, next_head, head_zero, row_zero, next_row, row_before, batch_zero };
// The kernel computes another problem's answer.
enum class Transform : uint8_t {
  none, q_packed, k_packed, v_packed, kv_packed, k_by_v_strides, v_by_k_strides, kv_exchanged, q_exchanged, no_offsets, mask_transposed, mask_of_key_head, mask_exchanged,
  longest_length, zero_length_full, no_window_where_zero, bias_bf16, v_bf16, q_scaled, tf32, flushed, clamped, scale_bf16, scale_f16, batch_zero_values,
  f16_inputs, bf16_inputs, log2e_f16, mask_packed, bias_packed, bias_times_log2e, zero_scale_default,
  k_rows_cut_to_16_bytes, kv_rows_cut_to_16_bytes,  // a row is read from its address cut to a multiple of 16 bytes
  kv_offsets_of_15_bits, kv_offsets_of_16_bits,     // the offset of a row within its head wraps at 2^15, 2^16 elements
  scale_of_value_width,
  // a last block of so many keys that is not full reads K of the block before
  k_block_of_16_repeated, k_block_of_32_repeated, k_block_of_64_repeated, k_block_of_128_repeated
};
enum class LseRule : uint8_t {
  right, without_maximum, base_two, maximum_base_two, sum_base_two, without_sink, maximum_only, negated, minus_log, of_sum_only, zero, of_last_tile, times_ln_two,
  affine  // lse_of_m * m + lse_of_l * ln l + lse_plus
};
enum class EmptyRow : uint8_t { right, nan, mean, mean_lse, lse_zero, lse_nan, lse_infinity, lse_lowest, first_value, only_o_nan, anything };
enum class Special : uint8_t { right, empty_tile_nan, empty_tile_in_range_nan, masked_value_leaks, padding_leaks, masked_score_leaks, nan_swallowed, value_swallowed };
enum class HeadRule : uint8_t { right, modulo, zero, next, clamped, last, divided };
enum class Constant : uint8_t { none, zero, mean, nan, mean_of_all, first };

// A number format that is kept where a wider one is due.
enum class Narrow : uint8_t { f16, bf16, e4m3, tf32, twelve_bits };

struct Fault {
  Family family = Family::none;
  std::string what;  // the parameters in words: "by 2 keys to the right"
  Walk walk;
  int free_numbers = 0;  // how many of its numbers were fitted to the outputs

  double scale_factor = 1;       // of the dot product
  double exponent_factor = 1;    // of s - m
  double weight_factor = 1;      // of s - m in weights alone, not in rescales and merges
  Softcap softcap = Softcap::right;
  BiasRule bias = BiasRule::right;
  int64_t columns = 0;           // of Q and K that count; 0: all
  Sight sight;
  std::optional<double> masked_score;
  bool masked_score_added = false;  // to the key's own score
  uint8_t scored_kinds = hides::anything;  // keys that something else hides as well stay hidden

  Fold fold = Fold::right;
  double number = 0;
  int64_t index = 0;

  std::optional<int64_t> weighed_tile;  // by number in key order; -1: the last with a visible key, -2: the first
  // Only where the row's range of keys ends with a tile, or within one: then the tile at that end.
  enum class RangeEnds : uint8_t { anywhere, with_tile, within_tile } range_ends = RangeEnds::anywhere;
  KeyRule weighed_key = KeyRule::none;
  int64_t key = 0;
  double weight = 1;                    // of that tile or key

  std::optional<int64_t> dropped_split; // by number, -1: the last
  Merge merge = Merge::right;
  bool merges_like_tiles = false;       // what is wrong between tiles is wrong between splits and with the sink too
  SinkRule sink = SinkRule::right;
  Division division = Division::right;
  // The columns of O that a fault of its rescale or division is about.
  int64_t columns_begin = 0, columns_end = std::numeric_limits<int64_t>::max();
  LseRule lse = LseRule::right;
  double lse_of_m = 1, lse_of_l = 1, lse_plus = 0;
  EmptyRow empty_row = EmptyRow::right;
  Special special = Special::right;

  HeadRule key_head = HeadRule::right, value_head = HeadRule::right;
  bool batch_zero_keys = false, batch_zero_query = false;
  int64_t row_shift = 0, value_shift = 0;
  bool head_zero_query = false;
  Constant constant = Constant::none;

  std::optional<Narrow> score_format, weight_format, sum_format, output_format;
  bool sum_as_lse_shows = false;         // l is what the LSE seen makes of it, off by `number` relative at most
  bool narrow_sum_of_weights = false;    // l adds the narrow P as well
  bool truncated = false;                // cut toward zero instead of rounded
  std::optional<Narrow> factor_format, lse_format;
  ExpRule exp = ExpRule::right;
  PlaceRule place = PlaceRule::right;
  bool lse_stays = false;                // only O stands in another place
  bool lse_transposed = false;           // LSE as [B, Nq, Hq]
  bool columns_past_d_zero = false;
  Transform transform = Transform::none;
  bool merges_sink = false;
  std::optional<double> largest_weight;  // P is at most this before P V
  bool sums_in_input_type = false;       // sum P v beyond the input type's range is infinite,
  bool saturates = false;                // or the largest number there is
  std::optional<double> largest_tile_sum;  // what one tile adds to l is at most this
  double exp_error = 0;                  // relative error of exp that is allowed
};

}  // namespace attest
