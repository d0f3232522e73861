// case_fields.h: the names that a case file may hold; a test holds corpus/format.md to them.
#pragma once

#include <string_view>

namespace attest {

inline constexpr std::string_view kJsonFields[] = {
    "attest_case", "name", "property", "signature", "origin", "type", "shape", "scale", "softcap", "scores", "score_unit", "q", "k", "values",
    "causal", "window", "key_lengths", "mask", "bias_type", "bias", "sink", "o_layout", "lse_layout", "choice", "expected"};

inline constexpr std::string_view kTensorNames[] = {"q", "k", "v", "bias", "mask", "key_lengths", "sink"};

// "format" is what some writers put into every file ("pt"); it is ignored.
inline constexpr std::string_view kMetadataKeys[] = {
    "attest_case", "format", "name", "property", "signature", "regime", "values", "mask_family", "note", "scale", "softcap", "causal", "window_left",
    "window_right", "tile_keys", "order", "splits", "p_type", "layout.q", "layout.k", "layout.v", "layout.bias", "layout.mask", "layout.o", "layout.lse", "expected"};

}  // namespace attest
