// shrink.h: makes a failing problem small while its failure stays the same.
//
// Steps, boldest first: drop batches, heads, rows, runs of keys (whole tiles, then single keys), shrink tile and
// keys together (where the kernel chose the tile, a small one is asked for), drop columns; drop masks, bias, sink,
// softcap, strides, other choices; values to simple numbers (0, 1, powers of two, integers, short decimals). Where keys are dropped under causal, window or key lengths, both
// readings are tried: the rule kept, and the visible pairs kept by writing them into a boolean mask.
// Guarantees: every candidate is a valid Problem and is simpler in a well-founded order, so that shrinking
// ends; the result is deterministic where the budget is not reached.
// Source: A. Zeller, R. Hildebrandt, "Simplifying and isolating failure-inducing input" (2002), ddmin's chunks.
// Example: Shrunk small = shrink(problem, [&](const Problem& p) { return signature(p) == wanted; });
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "reference/problem.h"

namespace attest {

struct ShrinkBudget {
  double seconds = 5;
  int64_t attempts = 100000;
};

struct Shrunk {
  Problem problem;
  int64_t attempts = 0, kept = 0;
  bool finished = false;  // a fixed point was reached within the budget
};

Shrunk shrink(const Problem& failing, const std::function<bool(const Problem&)>& still_fails,
              const ShrinkBudget& budget = {});

// One step that makes a problem simpler, as a few numbers: a list of thousands costs nothing until applied. The
// order of its fields is the order in which steps are tried.
struct Simplification {
  enum class Step : uint8_t {
    batches,
    key_heads,
    group,
    rows,
    keys,
    keys_by_mask,   // without [second, second - first)
    tile_and_keys,  // tiles of `operand` keys divided by -first, one key of each such run kept: its first (second = 0) or last (1)
    tile,           // tiles of `operand` keys divided by -first
    value_columns,
    columns,  // without [second, second - first)
    feature,  // without feature number `first`
    all_zero,
    all_one,
    rounded,  // a whole operand; rounded to multiples of 1 / first
    element   // element `first` of the operand to simple number `second`
  } step;
  int32_t operand = 0;
  int64_t first = 0, second = 0;
  auto operator<=>(const Simplification&) const = default;
};

// Every simplification worth trying, the boldest first.
std::vector<Simplification> simplifications(const Problem& problem);
// The simpler problem, or nothing where the step would change nothing.
std::optional<Problem> apply(const Problem& problem, const Simplification& step);

// The problem in words, a few lines: shape, type, masks, and scores or values where they are few.
std::string in_words(const Problem& problem);

}  // namespace attest
