// regimes.h: the named kinds of input, one list (regimes.def) for generators, properties and reports.
//
// A case takes one regime of each axis. Inputs matter more than tolerances: on flat scores a kernel that never
// rescales is right, so every property names the regimes it needs and runs count the cases of each.
// Guarantee: a case counts for a regime only if it is what the sentence says, for at least one of its rows.
// Example: if (auto r = regime_from_name("max_last_tile")) puts(sentence_of(*r).data());
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/abi/attest_kernel.h"
#include "properties/generate/target.h"

namespace attest {

enum class Axis : uint8_t { score, mask, scale, softcap, sink, values, payload, layout, shape };
inline constexpr int kAxes = 9;
std::string_view name_of(Axis a);

enum RegimeTrait : uint32_t {
  kEmbedded = 1 << 0,  // every score is one exact product, see embed.h
  kPattern = 1 << 1,   // the order of a row's scores is deliberate
  kSpoils = 1 << 2,    // would destroy a pattern: goes only with regimes without one
  kTwoKeys = 1 << 3,   // needs a row with two visible keys
  kTwoTiles = 1 << 4,  // needs a row with visible keys in two tiles, or three
  kThreeTiles = 1 << 5,
  kWild = 1 << 6,           // over- or underflow of intermediate results may happen
  kNonFinite = 1 << 7,      // non-finite inputs at visible keys
  kOutOfRange = 1 << 8,     // rows may be out of range (section 1 of the contract)
  kCarriesScores = 1 << 9,  // another operand than Q and K holds the scores
  kShiftsScores = 1 << 10   // keeps the order of scores, but not their differences to the last bit
};
inline constexpr uint32_t kAnyBias = ATTEST_BIAS_F32 | ATTEST_BIAS_INPUT_TYPE;

enum class Regime : uint8_t {
#define ATTEST_REGIME(axis, name, all, any, traits, sentence) name,
#include "properties/generate/regimes.def"
#undef ATTEST_REGIME
};

inline constexpr size_t kRegimes = 0
#define ATTEST_REGIME(axis, name, all, any, traits, sentence) +1
#include "properties/generate/regimes.def"
#undef ATTEST_REGIME
    ;
using RegimeSet = std::bitset<kRegimes>;  // by the number of the regime

Axis axis_of(Regime r);
std::string_view name_of(Regime r);
std::string_view sentence_of(Regime r);
uint32_t traits_of(Regime r);
std::optional<Regime> regime_from_name(std::string_view name);

std::span<const Regime> all_regimes();
std::span<const Regime> regimes_of(Axis a);  // the simplest first
std::vector<std::string> names(std::span<const Regime> regimes);

// Whether a kernel with these attest_feature bits can be given the regime at all.
bool offers(uint32_t features, Regime r);

// Whether one case can be both. Symmetric; regimes of one axis are compatible only if equal.
bool compatible(Regime a, Regime b);
const RegimeSet& compatible_with(Regime r);  // all that are

}  // namespace attest
