// numerics.h: what a kernel may round, and which conventions it follows.
//
// `strict(type)` is the fixed model of correct kernels for one input type. A kernel may declare its own
// figures; a declared kernel is judged under them with the contract `declared`. The bound (bound.h) and the
// noise budget (budget.h) are derived for a Numerics; every constant is explained in reference/bound.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "reference/formats.h"

namespace attest {

enum class Contract : uint8_t { strict, declared };
std::string_view name_of(Contract c);

enum class Rounding : uint8_t { nearest, toward_zero };
enum class DenominatorFrom : uint8_t { either, unrounded, rounded };  // which P the sum l adds up

// What the model allows in every contract.
inline constexpr double kTanhError = 0x1p-21;  // relative
inline constexpr double kLnError = 0x1p-22;    // of max(1, |ln l|)
inline constexpr double kDivisionUlps = 2;     // of f32

struct Numerics {
  DType p_type = DType::f32;                // P is rounded once to this before P V (f32: not at all)
  Rounding p_rounding = Rounding::nearest;
  DenominatorFrom l_from = DenominatorFrom::either;
  DType acc_type = DType::f32;              // accumulators of Q K and P V
  double sum_unit = 0x1p-23;                // relative error of one addition (rounded or truncated)
  Rounding acc_rounding = Rounding::nearest;  // toward_zero: O drifts toward zero, which the budget allows for
  bool aligned_blocks = false;              // sums may run in aligned blocks of 16, cut at 2^-25 (tensor cores)
  int64_t sum_depth = 0;                    // most additions that one term passes through; 0: any order
  double exp_rel_error = 0x1p-22;           // of exp at its argument; exp(0) = 1 exactly
  int64_t tile = 16;                        // at most one rescale per tile of this many keys
  int64_t extra_rescales = 0;               // beyond those, for instance one for each merge of a split state
  double max_lag = 0;                       // how far m may trail the true maximum
  std::optional<DType> split_state_type;    // split states kept as (O/l, LSE) in this type
};

// The strict model of section 6 of the contract for kernels with inputs of `type`.
Numerics strict(DType type);

// Share of a correct kernel's rows that the noise budget may reject.
inline constexpr double kNoiseRate = 1e-9;

// Deliberate departures from the contract that a kernel declares; all false: the contract.
struct Conventions {
  bool causal_top_left = false;
  bool empty_row_o_nan = false;
  bool empty_row_lse_inf = false;
  bool nonfinite_v_leaks = false;
  bool batch_dependent = false;
  bool sink_first = false;
};

}  // namespace attest
