// conjunction.cpp: faults that show only where several things come together.
#include "properties/mutants/broken_ten.h"

namespace attest::mutants {

namespace {

// F where `When` holds of the call.
template <class F, class When>
struct Only : Fault {
  static void forward(const attest_args& args) {
    if (When::holds(args)) faulty<F>(args);
    else correct(args);
  }
};

struct LongKeys {
  static bool holds(const attest_args& a) { return a.k->shape[2] > 1024; }
};
struct WideValues {
  static bool holds(const attest_args& a) { return a.v->shape[3] > 128; }
};
struct Softcapped16Bits {
  static bool holds(const attest_args& a) { return a.softcap > 0 && a.q->dtype.bits == 16; }
};
struct GroupedDecode {
  static bool holds(const attest_args& a) { return a.q->shape[2] == 1 && a.q->shape[1] > a.k->shape[1]; }
};
struct EightSplits {
  static bool holds(const attest_args& a) { return a.split_count == 8; }
};
struct NegativeScaleCausal {
  static bool holds(const attest_args& a) { return a.scale < 0 && a.causal != 0; }
};
struct WindowWithLengths {
  static bool holds(const attest_args& a) { return a.key_lengths != nullptr && (a.window_left >= 0 || a.window_right >= 0); }
};
struct DescendingCausal {
  static bool holds(const attest_args& a) { return a.tile_order == ATTEST_ORDER_DESCENDING && a.causal != 0; }
};
struct SinkAndMask {
  static bool holds(const attest_args& a) { return a.sink != nullptr && a.mask != nullptr; }
};
struct WidthOfOne {
  static bool holds(const attest_args& a) { return a.q->shape[3] == 1; }
};
struct MoreQueriesThanKeysWithSink {
  static bool holds(const attest_args& a) { return a.q->shape[2] > a.k->shape[2] && a.sink != nullptr && a.causal != 0; }
};
struct OddRowStride {
  static bool holds(const attest_args& a) { return a.k->strides != nullptr && a.k->strides[2] % 2 != 0 && a.k->shape[3] % 2 == 0; }
};

// A second softcap.
struct CapTwice : Fault {
  static double score(double dot, float scale, float softcap, double bias) {
    const double s = Recurrence::score(dot, scale, softcap, 0);
    return (softcap > 0 ? softcap * elementary::tanh_of(s / softcap) : s) + bias;
  }
};
struct SinkIgnored : Fault {
  static void change(FaultyCall& call) { call.args.sink = nullptr; }
};
struct LastKeyIgnored : Fault {
  static KeyRange key_range(int64_t row, int64_t rows, int64_t length, bool causal, int64_t left, int64_t right) {
    KeyRange keys = Recurrence::key_range(row, rows, length, causal, left, right);
    if (keys.end - keys.begin > 1) --keys.end;
    return keys;
  }
};
struct FirstKeyOfWindowIgnored : Fault {
  static KeyRange key_range(int64_t row, int64_t rows, int64_t length, bool causal, int64_t left, int64_t right) {
    KeyRange keys = Recurrence::key_range(row, rows, length, causal, left, right);
    if (keys.end - keys.begin > 1) ++keys.begin;
    return keys;
  }
};

// F on the last head of the last batch.
template <class F>
struct LastHead : Fault {
  static void forward(const attest_args& args) {
    for_each_head(args, [&](FaultyCall& call, int64_t b, int64_t h) {
      if (b + 1 == args.q->shape[0] && h + 1 == args.q->shape[1]) faulty<F>(call.args);
      else correct(call.args);
    });
  }
};

// F in rows with i % 16 == 15.
struct LastRowOfSixteen : Fault {
  static inline thread_local bool last = false;
  static KeyRange key_range(int64_t row, int64_t rows, int64_t length, bool causal, int64_t left, int64_t right) {
    last = row % 16 == 15;
    return Recurrence::key_range(row, rows, length, causal, left, right);
  }
  static float rescale_o(double m_old, double m_new) { return last ? unscaled(m_old) : rescale(m_old, m_new); }
};
struct FirstRowOfPartialBlock : Fault {
  static inline thread_local bool partial = false;
  static KeyRange key_range(int64_t row, int64_t rows, int64_t length, bool causal, int64_t left, int64_t right) {
    partial = rows % 64 != 0 && row == rows / 64 * 64 && row > 0;
    return Recurrence::key_range(row, rows, length, causal, left, right);
  }
  static float rescale_l(double m_old, double m_new) { return partial ? unscaled(m_old) : rescale(m_old, m_new); }
};

// Keys that tie with the state's maximum from an earlier tile are taken for masked.
struct TieAcrossTilesDropped : Fault {
  static inline thread_local double old = 0;
  static double new_maximum(double m, double tile_maximum) {
    old = m;
    return Recurrence::new_maximum(m, tile_maximum);
  }
  static float weight(double score, double m) { return score == old ? 0.0f : Recurrence::weight(score, m); }
};
// The tile counter is 4 bits wide: the 17th tile does not rescale.
struct SeventeenthTileNotRescaled : Fault {
  static inline thread_local int tile = 0;
  static float rescale_l(double m_old, double m_new) {
    tile = m_old == kMinusInfinity ? 1 : tile + 1;
    return rescale(m_old, m_new);
  }
  static float rescale_o(double m_old, double m_new) { return tile == 17 ? unscaled(m_old) : rescale(m_old, m_new); }
};
// Only where the maximum rises by more than 87, so that exp leaves the normal f32 range.
struct LargeRiseOverflows : Fault {
  static float rescale_o(double m_old, double m_new) { return m_old != kMinusInfinity && m_new - m_old > 87.4 ? std::nanf("") : rescale(m_old, m_new); }
};
struct EqualScoresOfATileCountOnce : Fault {
  static inline thread_local double last = 0;
  static double new_maximum(double m, double tile_maximum) {
    last = std::nan("");
    return Recurrence::new_maximum(m, tile_maximum);
  }
  static float weight(double score, double m) {
    const bool again = score == last && score == m;
    last = score;
    return again ? 0.0f : Recurrence::weight(score, m);
  }
};

}  // namespace

Family conjunction() {
  return {"conjunction",
          {mutant<Only<OnlyLRescaled, LongKeys>>("o_not_rescaled_past_1024_keys", "O is not rescaled where Nk > 1024."),
           mutant<Only<LastKeyIgnored, LongKeys>>("last_key_dropped_past_1024_keys", "The last visible key is dropped where Nk > 1024."),
           mutant<Only<OnlyLRescaled, WideValues>>("o_not_rescaled_past_128_columns", "O is not rescaled where Dv > 128."),
           mutant<Only<CapTwice, Softcapped16Bits>>("softcap_twice_in_16_bits", "The softcap is applied twice for inputs of 16 bits."),
           mutant<Only<LastKeyIgnored, GroupedDecode>>("last_key_dropped_in_grouped_decode", "The last key is dropped for one query row and grouped heads."),
           mutant<Only<LastKeyIgnored, EightSplits>>("last_key_dropped_with_eight_splits", "The last key is dropped with 8 splits."),
           mutant<Only<OnlyORescaled, NegativeScaleCausal>>("l_not_rescaled_negative_scale_causal", "l is not rescaled under a causal mask with a negative scale."),
           mutant<Only<FirstKeyOfWindowIgnored, WindowWithLengths>>("window_one_less_with_lengths", "The window's first key is dropped where key lengths are given."),
           mutant<Only<OnlyLRescaled, DescendingCausal>>("o_not_rescaled_descending_causal", "O is not rescaled where tiles descend under a causal mask."),
           mutant<Only<SinkIgnored, SinkAndMask>>("sink_left_out_with_mask", "The sink is ignored where a boolean mask is given.", "C05"),
           mutant<Only<LastKeyIgnored, WidthOfOne>>("last_key_dropped_for_width_one", "The last key is dropped where D is 1."),
           mutant<Only<SinkIgnored, MoreQueriesThanKeysWithSink>>("sink_left_out_with_more_queries", "The sink is ignored under a causal mask with more queries than keys."),
           mutant<Only<FirstKeyOfWindowIgnored, OddRowStride>>("first_key_dropped_at_odd_stride", "The first key is dropped where rows of even width have an odd stride."),
           mutant<LastHead<NoRescale>>("no_rescale_in_last_head", "The last head of the last batch is not rescaled.", "T02"),
           mutant<LastHead<LastKeyIgnored>>("last_key_dropped_in_last_head", "The last head of the last batch drops the last key."),
           mutant<LastRowOfSixteen>("o_not_rescaled_in_row_15_of_16", "O is not rescaled in rows i with i mod 16 = 15.", "T02"),
           mutant<FirstRowOfPartialBlock>("l_not_rescaled_in_first_row_of_partial_block", "l is not rescaled in the first row of a last block of 64 that is not full."),
           mutant<TieAcrossTilesDropped>("tie_with_earlier_tile_dropped", "A key that ties with the maximum of earlier tiles is dropped."),
           mutant<EqualScoresOfATileCountOnce>("tied_neighbours_count_once", "Neighbouring keys of a tile that share the maximum count once."),
           mutant<SeventeenthTileNotRescaled>("o_not_rescaled_in_tile_17", "O is not rescaled in the 17th tile."),
           mutant<LargeRiseOverflows>("rise_beyond_87_gives_nan", "A rise of the maximum beyond 87.4 makes O NaN.", "B04")}};
}

}  // namespace attest::mutants
