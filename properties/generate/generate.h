// generate.h: one case on purpose: a whole Problem from Choices, inside what a target offers.
//
// generate() takes one regime of each axis (regimes.h), sizes that suit them (shapes.h), and fills scores,
// values, masks, payload and layout accordingly.
// Guarantees: whatever the choices, byte strings of any content and length included, the problem is valid
// (validate() returns nullopt) and keeps to the recipe; the same choices give the same problem on every
// compiler. The regimes returned are those that the case really is: a pin which the recipe or the
// target rules out, or which contradicts another pin, is missing there. A possible pin is always met.
// Example:
//     Generated g = generate(choices, target, {.pins = {Regime::max_last_tile}, .min_tiles = 3});
//     run(g.problem); count(g.regimes);
#pragma once

#include <optional>
#include <vector>

#include "properties/generate/choices.h"
#include "properties/generate/regimes.h"
#include "properties/generate/target.h"
#include "reference/problem.h"

namespace attest {

// What a property wants of its cases. Everything not said is free.
struct Recipe {
  std::vector<Regime> pins = {};   // regimes that the case must be, at most one of each axis
  std::vector<Regime> never = {};  // regimes that it must not be
  uint32_t never_traits = 0;       // RegimeTrait bits that no regime of the case may have: kWild, kNonFinite, ...
  bool embedded = false;           // scores embedded, one exact product each
  uint32_t never_features = 0;     // attest_feature bits that the case must not use: ATTEST_CAUSAL, ATTEST_STRIDES, ...
  std::optional<DType> type = {};
  int64_t min_tiles = 0;     // Nk is in at least that many tiles
  bool choose_tile = false;  // choice.tile_keys is set wherever the target has a list
  int64_t min_queries = 1, min_batches = 1, min_key_heads = 1;
  int64_t min_keys = 1, max_keys = 4200;
  int64_t max_width = 256;  // of D and Dv
  double work = 1.5e6;      // bound of B * Hq * Nq * Nk * (D + Dv), see shapes.h
};

struct Generated {
  Problem problem;
  std::vector<Regime> regimes;  // what the case counts for, at most one of each axis
  int64_t tile = 0;             // keys per tile that it was made for; choice.tile_keys where that is set
};

Generated generate(Choices& c, const Target& target, const Recipe& recipe = {});

// Whether a case of this target under this recipe can have the regime; where not, a property reports that it is
// not covered.
bool can_have(const Target& target, const Recipe& recipe, Regime regime);

}  // namespace attest
