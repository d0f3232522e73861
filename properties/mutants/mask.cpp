// mask.cpp: faults of which keys a row sees, and of what a masked key is.
#include "properties/mutants/broken_ten.h"

namespace attest::mutants {

namespace {

// --- what a masked key is --------------------------------------------------------------------------------------

struct ScoredMinus10000 : Fault {
  static double masked_score() { return -10000; }
  static bool is_masked(double) { return false; }
};

struct ScoredLowest : Fault {
  static double masked_score() { return -3.4028234663852886e38; }
  static bool is_masked(double) { return false; }
};

struct Added : Fault {
  static void change(FaultyCall& call) {
    FaultyCall masks(call.args);
    const View bias = call.full_bias();
    FaultyCall::for_each(bias, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
      const int64_t at = bias.at(b, h, i, j);
      if (!masks.visible(b, h, i, j)) bias.store(at, static_cast<double>(bias.value(at)) - 10000);
    });
    call.drop_masks();
  }
};

// -inf is capped to -softcap with the scores.
struct BeforeSoftcap : Fault {
  static double masked_score() { return call().args.softcap > 0 ? -static_cast<double>(call().args.softcap) : kMinusInfinity; }
};

// The weight is 0 and V is read all the same: 0 times NaN.
struct ValueTimesZero : Fault {
  static bool is_masked(double) { return false; }
  static float weight(double score, double m) { return Recurrence::weight(score, m); }
};

struct BiasMinusInfinityFinite : Fault {
  static void change(FaultyCall& call) {
    if (call.args.bias != nullptr) call.map(call.bias, [](double x) { return std::max(x, -3.38e38); });
  }
};

// The lowest finite number stands for -inf in masks that are made elsewhere.
struct BiasLowestMasks : Fault {
  static void change(FaultyCall& call) {
    if (call.args.bias != nullptr) call.map(call.bias, [](double x) { return x <= -3.4028234663852886e38 ? kMinusInfinity : x; });
  }
};

struct MaskOfBiasIgnored : Fault {
  static void change(FaultyCall& call) {
    if (call.args.bias != nullptr) call.map(call.bias, [](double x) { return x == kMinusInfinity ? 0 : x; });
  }
};

// --- geometry --------------------------------------------------------------------------------------------------

template <int kMore>
struct CausalOffBy : Fault {
  static KeyRange key_range(int64_t row, int64_t rows, int64_t length, bool causal, int64_t left, int64_t right) {
    const int64_t own_right = causal && (right < 0 || right > kMore) ? kMore : right;
    KeyRange keys = Recurrence::key_range(row, rows, length, false, left, own_right < 0 && causal ? 0 : own_right);
    if (causal && kMore < 0) keys.end = std::max(keys.begin, std::min(keys.end, row + length - rows));
    return keys;
  }
};

struct TopLeft : Fault {
  static KeyRange key_range(int64_t row, int64_t, int64_t length, bool causal, int64_t left, int64_t right) {
    return Recurrence::key_range(row, length, length, causal, left, right);
  }
};

// A position past the keys, where queries are more than keys, is taken for the first.
struct NegativePositionClamped : Fault {
  static KeyRange key_range(int64_t row, int64_t rows, int64_t length, bool causal, int64_t left, int64_t right) {
    return Recurrence::key_range(std::max(row, rows - length), rows, length, causal, left, right);
  }
};

struct CausalIgnored : Fault {
  static void change(FaultyCall& call) { call.args.causal = 0; }
};
struct CausalIgnoredForWholeTiles : Fault {
  static void change(FaultyCall& call) {
    if (call.keys() % call.tile() == 0) call.args.causal = 0;
  }
};
struct CausalIgnoredWithLengths : Fault {
  static void change(FaultyCall& call) {
    if (call.args.key_lengths != nullptr) call.args.causal = 0;
  }
};
struct WindowDisablesCausal : Fault {
  static void change(FaultyCall& call) {
    if (call.args.window_left >= 0 || call.args.window_right >= 0) call.args.causal = 0;
  }
};
struct LargeWindowDisablesCausal : Fault {
  static void change(FaultyCall& call) {
    if (call.args.window_left >= call.keys()) call.args.causal = 0;
  }
};
template <int kMore>
struct WindowLeftOffBy : Fault {
  static void change(FaultyCall& call) {
    if (call.args.window_left + kMore >= 0 && call.args.window_left >= 0) call.args.window_left += kMore;
  }
};
template <int kMore>
struct WindowRightOffBy : Fault {
  static void change(FaultyCall& call) {
    if (call.args.window_right + kMore >= 0 && call.args.window_right >= 0) call.args.window_right += kMore;
  }
};
struct WindowLeftIgnored : Fault {
  static void change(FaultyCall& call) { call.args.window_left = -1; }
};
struct WindowRightIgnored : Fault {
  static void change(FaultyCall& call) { call.args.window_right = -1; }
};
struct WindowZeroIsNone : Fault {
  static void change(FaultyCall& call) {
    for (int64_t* side : {&call.args.window_left, &call.args.window_right})
      if (*side == 0) *side = -1;
  }
};
struct WindowSidesSwapped : Fault {
  static void change(FaultyCall& call) { std::swap(call.args.window_left, call.args.window_right); }
};

// --- lengths ---------------------------------------------------------------------------------------------------

template <int kMore>
struct LengthOffBy : Fault {
  static void change(FaultyCall& call) {
    if (call.args.key_lengths == nullptr) return;
    int32_t* length = call.own_lengths();
    for (int64_t b = 0; b < call.batches(); ++b)
      length[b] = std::clamp(length[b] + kMore, 0, static_cast<int32_t>(call.keys()));
  }
};
struct LengthsIgnored : Fault {
  static void change(FaultyCall& call) { call.args.key_lengths = nullptr; }
};
struct LengthOfFirstBatch : Fault {
  static void change(FaultyCall& call) {
    if (call.args.key_lengths == nullptr) return;
    int32_t* length = call.own_lengths();
    for (int64_t b = 1; b < call.batches(); ++b) length[b] = length[0];
  }
};
struct LongestLength : Fault {
  static void change(FaultyCall& call) {
    if (call.args.key_lengths == nullptr || call.batches() == 0) return;
    int32_t* length = call.own_lengths();
    const int32_t most = *std::max_element(length, length + call.batches());
    std::fill(length, length + call.batches(), most);
  }
};
// Causal mask and window stand at the end of Nk, not of the batch's keys.
struct LengthsDoNotMoveCausal : Fault {
  static KeyRange key_range(int64_t row, int64_t rows, int64_t length, bool causal, int64_t left, int64_t right) {
    KeyRange keys = Recurrence::key_range(row, rows, call().keys(), causal, left, right);
    keys.end = std::min(keys.end, length);
    keys.begin = std::min(keys.begin, keys.end);
    return keys;
  }
};
struct LengthZeroIsFull : Fault {
  static void change(FaultyCall& call) {
    if (call.args.key_lengths == nullptr) return;
    int32_t* length = call.own_lengths();
    for (int64_t b = 0; b < call.batches(); ++b)
      if (length[b] == 0) length[b] = static_cast<int32_t>(call.keys());
  }
};

// --- boolean mask and bias -------------------------------------------------------------------------------------

// The boolean mask with each index passed through f first, clamped to what the mask has.
template <class F>
void reindex_mask(FaultyCall& call, F f) {
  if (call.args.mask == nullptr) return;
  FaultyCall given(call.args);
  const View from = view_of(given.mask, true);
  const View to = call.full_mask();
  const auto within = [&](int64_t n, int dimension) { return std::clamp<int64_t>(n, 0, from.extent[dimension] - 1); };
  FaultyCall::for_each(to, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    const auto [mb, mh, mi, mj] = f(b, h, i, j);
    const int64_t at = within(mb, 0) * given.mask.own_strides[0] + within(mh, 1) * given.mask.own_strides[1] +
                       within(mi, 2) * given.mask.own_strides[2] + within(mj, 3) * given.mask.own_strides[3];
    to.data[to.at(b, h, i, j)] = from.data[at];
  });
}
using Index = std::array<int64_t, 4>;

struct MaskIgnored : Fault {
  static void change(FaultyCall& call) { call.args.mask = nullptr; }
};
struct MaskInverted : Fault {
  static void change(FaultyCall& call) {
    if (call.args.mask == nullptr) return;
    const View mask = call.full_mask();
    FaultyCall::for_each(mask, [&](int64_t b, int64_t h, int64_t i, int64_t j) { mask.data[mask.at(b, h, i, j)] ^= 1; });
  }
};
struct MaskTransposed : Fault {
  static void change(FaultyCall& call) {
    reindex_mask(call, [](int64_t b, int64_t h, int64_t i, int64_t j) { return Index{b, h, j, i}; });
  }
};
struct MaskOfFirstHead : Fault {
  static void change(FaultyCall& call) {
    reindex_mask(call, [](int64_t b, int64_t, int64_t i, int64_t j) { return Index{b, 0, i, j}; });
  }
};
struct MaskOfKeyHead : Fault {
  static void change(FaultyCall& call) {
    const int64_t group = call.key_heads() > 0 ? call.heads() / call.key_heads() : 1;
    reindex_mask(call, [&](int64_t b, int64_t h, int64_t i, int64_t j) { return Index{b, h / group, i, j}; });
  }
};
struct MaskOfFirstRow : Fault {
  static void change(FaultyCall& call) {
    reindex_mask(call, [](int64_t b, int64_t h, int64_t, int64_t j) { return Index{b, h, 0, j}; });
  }
};
struct MaskHeadAndBatchExchanged : Fault {
  static void change(FaultyCall& call) {
    reindex_mask(call, [](int64_t b, int64_t h, int64_t i, int64_t j) { return Index{h, b, i, j}; });
  }
};
struct MaskIgnoredWhereCausal : Fault {
  static void change(FaultyCall& call) {
    if (call.args.causal) call.args.mask = nullptr;
  }
};

// --- tiles that the masks cut ----------------------------------------------------------------------------------

// The loop runs over tiles that lie whole below the causal edge.
struct DiagonalTileSkipped : Fault {
  static KeyRange key_range(int64_t row, int64_t rows, int64_t length, bool causal, int64_t left, int64_t right) {
    KeyRange keys = Recurrence::key_range(row, rows, length, causal, left, right);
    if (causal && keys.end < length) keys.end = std::max(keys.begin, keys.end / call().tile() * call().tile());
    return keys;
  }
};
struct FirstTileOfWindowSkipped : Fault {
  static KeyRange key_range(int64_t row, int64_t rows, int64_t length, bool causal, int64_t left, int64_t right) {
    KeyRange keys = Recurrence::key_range(row, rows, length, causal, left, right);
    if (keys.begin > 0) keys.begin = std::min(keys.end, (keys.begin + call().tile() - 1) / call().tile() * call().tile());
    return keys;
  }
};
struct WindowStartsAtWholeTile : Fault {
  static KeyRange key_range(int64_t row, int64_t rows, int64_t length, bool causal, int64_t left, int64_t right) {
    KeyRange keys = Recurrence::key_range(row, rows, length, causal, left, right);
    keys.begin = keys.begin / call().tile() * call().tile();
    return keys;
  }
};
// A block of 16 rows takes the window and causal edge of its first row.
struct EdgeOfRowBlock : Fault {
  static KeyRange key_range(int64_t row, int64_t rows, int64_t length, bool causal, int64_t left, int64_t right) {
    const KeyRange own = Recurrence::key_range(row, rows, length, causal, left, right);
    const KeyRange first = Recurrence::key_range(row / 16 * 16, rows, length, causal, left, right);
    return {std::min(own.begin, first.begin), own.end};
  }
};

// A fully masked row has its weights at exp(0).
struct EmptyRowIsMean : Fault {
  static void change(FaultyCall& call) {
    FaultyCall masks(call.args);
    const View mask = call.full_mask();
    for (int64_t b = 0; b < call.batches(); ++b)
      for (int64_t h = 0; h < call.heads(); ++h)
        for (int64_t i = 0; i < call.rows(); ++i) {
          bool any = false;
          for (int64_t j = 0; j < call.keys(); ++j) any |= (mask.data[mask.at(b, h, i, j)] = masks.visible(b, h, i, j)) != 0;
          for (int64_t j = 0; j < call.keys() && !any; ++j) mask.data[mask.at(b, h, i, j)] = 1;
        }
    call.drop_masks();
    call.args.mask = &call.mask;
  }
};

}  // namespace

Family mask() {
  return {"mask",
          {masked_keys_scored_zero(),
           mutant<ScoredMinus10000>("masked_keys_scored_minus_10000", "A masked key has the score -1e4.", "B03"),
           mutant<ScoredLowest>("masked_keys_scored_lowest_finite", "A masked key has the lowest finite score: a row of them is a mean.", "A02 A03"),
           mutant<Added>("mask_added_not_selected", "-1e4 is added to a masked key's score.", "F44 I06 I09"),
           mutant<BeforeSoftcap>("mask_before_softcap", "The softcap turns a masked score into -c.", "G02 G03"),
           mutant<ValueTimesZero>("masked_value_times_zero", "A masked key's V is multiplied by the weight 0.", "I01 I03 I04 I05 I07 I08 I11"),
           mutant<BiasMinusInfinityFinite>("bias_minus_infinity_made_finite", "A bias of -inf becomes a large finite number.", "A11"),
           mutant<BiasLowestMasks>("bias_lowest_masks", "A bias of the lowest finite f32 masks.", "A02 A03"),
           mutant<MaskOfBiasIgnored>("bias_minus_infinity_ignored", "A bias of -inf masks nothing."),
           mutant<TopLeft>("causal_from_top_left", "Causal mask and window stand at the top left where Nq and Nk differ.", "F01 F02 F03 F04 F05 F36"),
           mutant<CausalOffBy<1>>("causal_sees_next_key", "The causal mask leaves one key too many.", "F22"),
           mutant<CausalOffBy<-1>>("causal_hides_own_key", "The causal mask hides the query's own position."),
           mutant<NegativePositionClamped>("causal_position_clamped", "With more queries than keys, rows before the first key see it."),
           mutant<CausalIgnored>("causal_ignored", "The causal mask is ignored.", "F30 F31 F35"),
           mutant<CausalIgnoredForWholeTiles>("causal_ignored_for_whole_tiles", "The causal mask is ignored where the tile divides Nk.", "F33"),
           mutant<CausalIgnoredWithLengths>("causal_ignored_with_lengths", "The causal mask is ignored where key lengths are given.", "F30"),
           mutant<WindowDisablesCausal>("window_disables_causal", "With a window the causal mask is ignored."),
           mutant<LargeWindowDisablesCausal>("large_window_disables_causal", "A window that is longer than the keys switches off the causal mask too.", "F12"),
           mutant<WindowLeftOffBy<1>>("window_left_one_more", "The window reaches one key further left.", "F06 F07 F09"),
           mutant<WindowLeftOffBy<-1>>("window_left_one_less", "The window ends one key early on the left.", "F08 F09"),
           mutant<WindowRightOffBy<1>>("window_right_one_more", "The window reaches one key further right."),
           mutant<WindowRightOffBy<-1>>("window_right_one_less", "The window ends one key early on the right."),
           mutant<WindowLeftIgnored>("window_left_ignored", "The window's left side is ignored.", "F29"),
           mutant<WindowRightIgnored>("window_right_ignored", "The window's right side is ignored.", "F13"),
           mutant<WindowZeroIsNone>("window_of_zero_is_none", "A window side of 0 is taken for none.", "F11"),
           mutant<WindowSidesSwapped>("window_sides_swapped", "The window's sides are exchanged."),
           mutant<LengthOffBy<1>>("length_one_more", "One key past the length is seen.", "I03"),
           mutant<LengthOffBy<-1>>("length_one_less", "The last key of the length is not seen."),
           mutant<LengthsIgnored>("lengths_ignored", "Key lengths are ignored.", "F26"),
           mutant<LengthOfFirstBatch>("length_of_first_batch", "Every batch has the first one's key length.", "F28"),
           mutant<LongestLength>("longest_length_for_all", "Every batch has the longest key length.", "E17"),
           mutant<LengthsDoNotMoveCausal>("lengths_do_not_move_causal", "Causal mask and window stand at Nk where the batch's length is due."),
           mutant<LengthZeroIsFull>("length_zero_is_full", "A key length of 0 is taken for none given.", "A06"),
           mutant<MaskIgnored>("mask_ignored", "The boolean mask is ignored."),
           mutant<MaskInverted>("mask_inverted", "The boolean mask hides what it should show."),
           mutant<MaskTransposed>("mask_transposed", "The boolean mask is read with rows and keys exchanged."),
           mutant<MaskOfFirstHead>("mask_of_first_head", "Every head has the first one's boolean mask."),
           mutant<MaskOfKeyHead>("mask_of_key_head", "The boolean mask is read at the key head's index."),
           mutant<MaskOfFirstRow>("mask_of_first_row", "Every row has the first one's boolean mask.", "G09"),
           mutant<MaskHeadAndBatchExchanged>("mask_head_and_batch_exchanged", "The boolean mask is read with head and batch exchanged."),
           mutant<MaskIgnoredWhereCausal>("mask_ignored_where_causal", "The boolean mask is ignored where the causal one is given.", "A16 F43"),
           mutant<DiagonalTileSkipped>("diagonal_tile_skipped", "A tile that the causal mask cuts is skipped."),
           mutant<FirstTileOfWindowSkipped>("first_tile_of_window_skipped", "A tile that the window cuts on the left is skipped.", "E11"),
           mutant<WindowStartsAtWholeTile>("window_starts_at_whole_tile", "The window starts at the beginning of a tile."),
           mutant<EdgeOfRowBlock>("window_of_row_block", "A block of 16 rows has the left edge of its first row."),
           mutant<EmptyRowIsMean>("empty_row_is_mean", "A row that sees no key gives the mean of V.", "A02 E03"),
           empty_row_zero_by_zero()}};
}

}  // namespace attest::mutants
