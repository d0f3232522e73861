// tail.cpp: faults at the ends: of the keys, of D, of Dv.
#include "properties/mutants/broken_ten.h"

namespace attest::mutants {

namespace {

// K and V are followed by zeros up to a whole tile, and nothing hides those.
struct TailScoredZero : Fault {
  static void change(FaultyCall& call) {
    const int64_t keys = call.keys(), padded = (keys + call.tile() - 1) / call.tile() * call.tile();
    if (padded == keys) return;
    for (Descriptor* t : {&call.k, &call.v}) {
      const View from = view_of(*t);
      const int64_t extent[4] = {from.extent[0], from.extent[1], padded, from.extent[3]};
      call.make(*t, t->dtype, 4, extent);
      const View to = view_of(*t);
      FaultyCall::for_each(from, [&](int64_t a, int64_t b, int64_t c, int64_t d) { FaultyCall::copy_element(from, from.at(a, b, c, d), to, to.at(a, b, c, d)); });
    }
    for (auto [t, there] : {std::pair{&call.mask, call.args.mask != nullptr}, {&call.bias, call.args.bias != nullptr}}) {
      if (!there || t->own_shape[3] == 1) continue;
      const View from = view_of(*t);
      const int64_t extent[4] = {from.extent[0], from.extent[1], from.extent[2], padded};
      call.make(*t, t->dtype, 4, extent);
      const View to = view_of(*t);
      if (t == &call.mask) std::memset(to.data, 1, static_cast<size_t>(extent[0] * extent[1] * extent[2] * extent[3]));
      FaultyCall::for_each(from, [&](int64_t a, int64_t b, int64_t c, int64_t d) { FaultyCall::copy_element(from, from.at(a, b, c, d), to, to.at(a, b, c, d)); });
    }
  }
  // `length` is the padded one unless lengths are given.
  static KeyRange key_range(int64_t row, int64_t rows, int64_t length, bool causal, int64_t left, int64_t right) {
    if (call().args.key_lengths != nullptr) return Recurrence::key_range(row, rows, length, causal, left, right);
    KeyRange keys = Recurrence::key_range(row, rows, call().keys(), causal, left, right);
    if (keys.end == call().keys()) keys.end = length;
    return keys;
  }
};

// What lies behind the last key in a tile that is not full is multiplied by the weight 0, NaN as it may be.
struct TailNotCleared : Fault {
  static void forward(const attest_args& args) {
    correct(args);
    const FaultyCall given(args);
    const View o = view_of(*args.o);
    const int64_t whole = given.keys() / given.tile() * given.tile();
    for (int64_t b = 0; b < given.batches(); ++b)
      for (int64_t i = 0; i < given.rows(); ++i) {
        const KeyRange keys = Recurrence::key_range(i, given.rows(), given.length(b), args.causal != 0, args.window_left, args.window_right);
        if (keys.end <= std::max(whole, keys.begin)) continue;
        for (int64_t h = 0; h < given.heads(); ++h)
          for (int64_t d = 0; d < o.extent[3]; ++d) o.store(o.at(b, h, i, d), std::nan(""));
      }
  }
};

struct TailScoredZeroWithoutMask : TailScoredZero {
  static void change(FaultyCall& call) {
    if (call.args.causal == 0 && call.args.mask == nullptr && call.args.bias == nullptr) TailScoredZero::change(call);
  }
};

template <int kRest>
struct LastTileDropped : Fault {
  static KeyRange key_range(int64_t row, int64_t rows, int64_t length, bool causal, int64_t left, int64_t right) {
    KeyRange keys = Recurrence::key_range(row, rows, length, causal, left, right);
    const int64_t n = call().keys(), tile = call().tile();
    if (n % tile == kRest % tile && n > tile) keys.end = std::max(keys.begin, std::min(keys.end, (n - 1) / tile * tile));
    return keys;
  }
};
struct PartialTileDropped : Fault {
  static KeyRange key_range(int64_t row, int64_t rows, int64_t length, bool causal, int64_t left, int64_t right) {
    KeyRange keys = Recurrence::key_range(row, rows, length, causal, left, right);
    if (call().keys() > call().tile()) keys.end = std::max(keys.begin, std::min(keys.end, call().keys() / call().tile() * call().tile()));
    return keys;
  }
};
struct LastKeyDropped : Fault {
  static KeyRange key_range(int64_t row, int64_t rows, int64_t length, bool causal, int64_t left, int64_t right) {
    KeyRange keys = Recurrence::key_range(row, rows, length, causal, left, right);
    if (keys.end == length && keys.end - keys.begin > 1) --keys.end;
    return keys;
  }
};
struct FirstKeyDropped : Fault {
  static KeyRange key_range(int64_t row, int64_t rows, int64_t length, bool causal, int64_t left, int64_t right) {
    KeyRange keys = Recurrence::key_range(row, rows, length, causal, left, right);
    if (keys.begin == 0 && keys.end > 1) keys.begin = 1;
    return keys;
  }
};
// Splits of equal length, and the keys that are left over by nobody.
struct SplitRemainderDropped : Fault {
  static KeyRange key_range(int64_t row, int64_t rows, int64_t length, bool causal, int64_t left, int64_t right) {
    KeyRange keys = Recurrence::key_range(row, rows, length, causal, left, right);
    if (call().keys() >= call().splits()) keys.end = std::max(keys.begin, std::min(keys.end, call().keys() / call().splits() * call().splits()));
    return keys;
  }
};

template <int kBlock>
struct WidthTailIgnored : Fault {
  static void change(FaultyCall& call) {
    if (call.q.own_shape[3] < kBlock) return;
    call.q.own_shape[3] = call.k.own_shape[3] = call.q.own_shape[3] / kBlock * kBlock;
  }
};
struct LastWidthComponentIgnored : Fault {
  static void change(FaultyCall& call) {
    if (call.q.own_shape[3] > 1) --call.q.own_shape[3], --call.k.own_shape[3];
  }
};
template <int kBlock>
struct ValueTailStale : Fault {
  static void change(FaultyCall& call) {
    if (call.v.own_shape[3] < kBlock) return;
    call.v.own_shape[3] = call.o.own_shape[3] = call.v.own_shape[3] / kBlock * kBlock;
  }
};
struct ValueColumnsZeroPastQueryWidth : Fault {
  static void forward(const attest_args& args) {
    correct(args);
    const View o = view_of(*args.o);
    FaultyCall::for_each(o, [&](int64_t a, int64_t b, int64_t c, int64_t d) {
      if (d >= args.q->shape[3]) o.store(o.at(a, b, c, d), 0);
    });
  }
};

}  // namespace

Family tail() {
  return {"tail",
          {last_partial_tile_unmasked(),
           mutant<TailScoredZero>("tail_scored_zero", "The last tile is filled up with keys of score 0 and value 0.", "F17 F18 F20 F23 F38"),
           mutant<TailScoredZeroWithoutMask>("tail_scored_zero_without_mask", "The last tile is filled up with keys of score 0 where no other mask is given.", "F18 F20 G03"),
           mutant<TailNotCleared>("tail_not_cleared", "What lies behind the last key in its tile is multiplied by 0, and is NaN.", "I12"),
           mutant<LastTileDropped<0>>("last_tile_dropped_when_full", "The last tile is dropped where the tile divides Nk.", "F33"),
           mutant<LastTileDropped<1>>("last_tile_dropped_when_one_key", "The last tile is dropped where it has one key.", "F22 J13"),
           mutant<PartialTileDropped>("partial_tile_dropped", "A last tile that is not full is dropped.", "J14"),
           mutant<LastKeyDropped>("last_key_dropped", "The last key is dropped."),
           mutant<FirstKeyDropped>("first_key_dropped", "The first key is dropped."),
           mutant<SplitRemainderDropped>("split_remainder_dropped", "Keys that are left over by equal splits are dropped.", "E15"),
           mutant<WidthTailIgnored<16>>("width_tail_ignored", "D is cut to a multiple of 16.", "F39"),
           mutant<WidthTailIgnored<64>>("width_cut_to_64", "D is cut to a multiple of 64.", "F40"),
           mutant<LastWidthComponentIgnored>("last_width_component_ignored", "The last component of Q and K is left out.", "F40"),
           mutant<ValueTailStale<16>>("value_tail_not_written", "Columns of O past a multiple of 16 are not written.", "F40"),
           mutant<ValueColumnsZeroPastQueryWidth>("value_columns_zero_past_d", "Columns of O past D are 0 where Dv is larger.")}};
}

}  // namespace attest::mutants
