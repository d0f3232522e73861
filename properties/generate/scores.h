// scores.h: fills one row's scores so that they are what a score regime says.
//
// Guarantee: if fill_scores() returns true, the scores at the visible keys are what the regime's sentence in
// regimes.def says, strict differences being large enough to survive rounding to bf16. Keys that the row
// does not see get scores too, often above every visible one, so that a mask that leaks shows.
// Errors: returns false where the visible keys do not suffice (too few, in too few tiles); the scores are then
// filled with random ones.
// Example: fill_scores(Regime::max_last_tile, {.tile = 64, .visible = keys}, c, scores);
#pragma once

#include <cstdint>
#include <span>

#include "properties/generate/choices.h"
#include "properties/generate/regimes.h"

namespace attest {

struct RowView {
  int64_t tile = 64;
  std::span<const int64_t> visible;  // ascending
  DType type = DType::f32;           // the scores will be stored in this type, divided by `unit`
  double unit = 1;
  bool wild = true;  // spans may be such that exponentials underflow
};

// The largest |score| that fill_scores() writes for a regime in which the type and scale limit it to `limit`.
double reach_of(Regime score, double limit);

bool fill_scores(Regime score, const RowView& row, Choices& c, std::span<double> scores);

}  // namespace attest
