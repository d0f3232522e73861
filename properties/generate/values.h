// values.h: what V holds, so that O reveals what the kernel did.
//
// Guarantees: the finite probes hold finite values; extreme values are bounded by 2^126 / (Nk + 1), so that an
// unnormalised sum over all keys and a sink stays finite in f32. non_finite_value is planted at a visible key
// by generate().
// Example: fill_values(problem, Regime::tile_indicators, 64, c);
#pragma once

#include "properties/generate/choices.h"
#include "properties/generate/regimes.h"
#include "reference/problem.h"

namespace attest {

void fill_values(Problem& p, Regime values, int64_t tile, Choices& c);

}  // namespace attest
