// row_dependence.cpp: faults by which a row feels its neighbours, or what was there before.
#include "properties/mutants/broken_ten.h"

namespace attest::mutants {

namespace {

struct RowCounted : Fault {
  static inline thread_local int64_t row_now = 0;
  static KeyRange key_range(int64_t row, int64_t rows, int64_t length, bool causal, int64_t left, int64_t right) {
    row_now = row;
    return Recurrence::key_range(row, rows, length, causal, left, right);
  }
};

// The maximum starts where the row before ended.
struct MaximumCarriedOver : RowCounted {
  static inline thread_local double carried = kMinusInfinity;
  static double new_maximum(double m, double tile_maximum) {
    const double m_new = Recurrence::maximum(m == kMinusInfinity && row_now > 0 ? carried : m, tile_maximum);
    if (m_new == m_new) carried = m_new;
    return m_new;
  }
};

// The second row of a pair rescales if the first one did.
struct DecisionOfPair : RowCounted {
  static inline thread_local bool first_rose = false;
  static float rescale_l(double m_old, double m_new) {
    if (m_old == kMinusInfinity) {
      if (row_now % 2 == 0) first_rose = false;
      return 0;
    }
    if (row_now % 2 == 0) {
      first_rose = first_rose || m_new > m_old;
      return rescale(m_old, m_new);
    }
    return first_rose ? rescale(m_old, m_new) : 1.0f;
  }
  static float rescale_o(double m_old, double m_new) {
    if (m_old == kMinusInfinity || row_now % 2 == 0) return rescale(m_old, m_new);
    return first_rose ? rescale(m_old, m_new) : 1.0f;
  }
};

// An empty row keeps what the one before left in the accumulator.
struct EmptyRowKeepsPrevious : RowCounted {
  static inline thread_local double previous = 0;
  static double normalise(double o, float l) {
    if (l == 0) return previous;
    return previous = Recurrence::normalise(o, l);
  }
};

// l of the row before is added once.
struct DenominatorCarriedOver : RowCounted {
  static inline thread_local float last_l = 0;
  static double normalise(double o, float l) {
    const float carried = row_now > 0 ? last_l : 0;
    last_l = l;
    return l == 0 ? 0 : o / (static_cast<double>(l) + 0x1p-6 * static_cast<double>(carried));
  }
};

// NaN in one row stays in the accumulator for the next.
struct NanCarriedOver : RowCounted {
  static inline thread_local bool poisoned = false;
  static double normalise(double o, float l) {
    const double own = Recurrence::normalise(o, l);
    const bool was = poisoned && row_now > 0;
    poisoned = own != own;
    return was ? std::nan("") : own;
  }
};

// Several queries share one key range: that of the last of four.
struct KeyRangeOfFourRows : Fault {
  static KeyRange key_range(int64_t row, int64_t rows, int64_t length, bool causal, int64_t left, int64_t right) {
    const KeyRange last = Recurrence::key_range(std::min(row / 4 * 4 + 3, rows - 1), rows, length, causal, left, right);
    const KeyRange own = Recurrence::key_range(row, rows, length, causal, left, right);
    return {own.begin, std::max(own.begin, last.end)};
  }
};

// The tile depends on the batch: the last bits do too.
struct TileFromBatch : Fault {
  static void change(FaultyCall& call) {
    if (call.batches() * call.heads() > 2) call.args.tile_keys = 2 * call.tile();
  }
};
struct SplitsFromBatch : Fault {
  static void change(FaultyCall& call) {
    if (call.args.split_count == 0 && call.batches() * call.heads() == 1) call.args.split_count = 4;
  }
};

// An empty row is left as it was.
struct EmptyRowNotWritten : Fault {
  static void forward(const attest_args& args) {
    FaultyCall own(args);
    const View o = view_of(*args.o);
    if (o.extent[0] * o.extent[1] * o.extent[2] == 0) return correct(args);
    const int64_t extent[4] = {o.extent[0], o.extent[1], o.extent[2], o.extent[3]};
    own.make(own.o, own.o.dtype, 4, extent);
    own.make(own.lse, {kDLFloat, 32, 1}, 3, extent);
    own.args.lse = &own.lse;
    correct(own.args);
    const View from = view_of(own.o), lse = view_of(own.lse);
    for (int64_t b = 0; b < extent[0]; ++b)
      for (int64_t h = 0; h < extent[1]; ++h)
        for (int64_t i = 0; i < extent[2]; ++i) {
          if (lse.value(lse.at(b, h, i, 0)) == -HUGE_VALF) continue;
          for (int64_t d = 0; d < extent[3]; ++d) FaultyCall::copy_element(from, from.at(b, h, i, d), o, o.at(b, h, i, d));
          if (args.lse != nullptr) {
            const View to = view_of(*args.lse);
            to.store(to.at(b, h, i, 0), static_cast<double>(lse.value(lse.at(b, h, i, 0))));
          }
        }
  }
};

}  // namespace

Family row_dependence() {
  return {"row_dependence",
          {mutant<MaximumCarriedOver>("maximum_carried_over", "The running maximum starts where the row before ended.", "B05"),
           mutant<DecisionOfPair>("rescale_decided_by_first_of_two_rows", "Of two rows the first decides whether both are rescaled."),
           mutant<EmptyRowKeepsPrevious>("empty_row_keeps_previous_output", "An empty row gets the last element that was written.", "E04"),
           mutant<EmptyRowNotWritten>("empty_row_not_written", "An empty row's O and LSE are not written.", "D11 E04"),
           mutant<DenominatorCarriedOver>("denominator_carried_over", "A sixty-fourth of the last row's l is left in l.", "B11"),
           mutant<NanCarriedOver>("nan_carried_over", "A NaN stays in the accumulator for the next row.", "B11"),
           mutant<KeyRangeOfFourRows>("causal_edge_of_four_rows", "Four rows see what the last of them may see."),
           mutant<TileFromBatch>("tile_depends_on_batch", "The tile size depends on B and Hq.", "K09"),
           mutant<SplitsFromBatch>("splits_depend_on_batch", "The number of splits depends on B and Hq.", "K09")}};
}

}  // namespace attest::mutants
