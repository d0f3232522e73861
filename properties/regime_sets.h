// regime_sets.h: the regimes that the properties need, by the names of generate/regimes.def; internal.
//
// A case takes one regime of each axis, so that a set costs as many cases as its longest axis has names. The
// property tests hold every name to regimes.def.
#pragma once

#include <string_view>

namespace attest::regime_sets {

using Names = const std::string_view[];

inline constexpr std::string_view all[] = {
#define ATTEST_REGIME(axis, name, all_of, any_of, traits, sentence) #name,
#include "properties/generate/regimes.def"
#undef ATTEST_REGIME
};

// Masks.
inline constexpr Names combined = {"combined_masks", "causal_window", "random_scores"};
inline constexpr Names empty = {"fully_masked_row", "length_zero", "no_keys"};
inline constexpr Names masked_payload = {"non_finite_payload", "key_lengths", "trailing_tiles_masked", "random_scores"};
inline constexpr Names masked_tiles = {"leading_tiles_masked", "middle_tiles_masked", "sawtooth"};
inline constexpr Names empty_splits = {"trailing_tiles_masked", "sawtooth"};
inline constexpr Names masked_keys = {"key_lengths", "random_mask", "max_last_tile"};
inline constexpr Names boolean_mask = {"random_mask", "max_last_tile"};
inline constexpr Names unmasked = {"no_mask", "max_middle_tile"};
inline constexpr Names causal = {"causal", "causal_window", "random_scores"};

// Where the maximum moves, and where many keys share the mass.
inline constexpr Names rescale = {"ascending", "sawtooth"};
inline constexpr Names either_way = {"ascending", "descending"};
inline constexpr Names needles = {"ascending", "needle_tile_last_key"};
inline constexpr Names masses = {"flat", "ties_across_tiles"};
inline constexpr Names masses_and_sink = {"sawtooth", "sink_moderate"};
inline constexpr Names ties = {"gap_88", "gap_103"};
inline constexpr Names peaked = {"peaked", "max_first_tile"};
inline constexpr Names offset = {"common_offset"};
inline constexpr Names narrow = {"tiny_differences"};
inline constexpr Names last_tile = {"max_last_tile"};
inline constexpr Names needle = {"needle_last_key"};
inline constexpr Names gaps = {"sawtooth", "gap_88"};
inline constexpr Names permutable = {"ascending", "ties_across_tiles", "no_mask", "random_mask"};
inline constexpr Names doubled = {"flat", "peaked", "no_mask", "random_mask", "no_sink"};

// Values, layouts, shapes, dense scores.
inline constexpr Names constant_values = {"ones", "constant", "no_sink", "sink_moderate", "sawtooth"};
inline constexpr Names limit_values = {"extreme_values", "cancelling"};
inline constexpr Names layouts = {"padded", "odd_offset"};
inline constexpr Names grouped = {"grouped_heads", "random_scores"};
inline constexpr Names batches = {"many_heads", "dense_normal"};
inline constexpr Names dense = {"dense_normal"};
inline constexpr Names random = {"random_scores"};

}  // namespace attest::regime_sets
