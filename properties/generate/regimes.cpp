#include "properties/generate/regimes.h"

#include <array>

namespace attest {

namespace {

struct Entry {
  Axis axis;
  std::string_view name;
  uint32_t all, any, traits;
  std::string_view sentence;
};

constexpr Entry kEntries[] = {
#define ATTEST_REGIME(axis, name, all, any, traits, sentence) {Axis::axis, #name, all, any, traits, sentence},
#include "properties/generate/regimes.def"
#undef ATTEST_REGIME
};
static_assert(std::size(kEntries) == kRegimes);

constexpr std::array<Regime, kRegimes> kAll = [] {
  std::array<Regime, kRegimes> all{};
  for (size_t i = 0; i < kRegimes; ++i) all[i] = static_cast<Regime>(i);
  return all;
}();

const Entry& entry(Regime r) { return kEntries[static_cast<size_t>(r)]; }

}  // namespace

std::string_view name_of(Axis a) {
  constexpr std::string_view kNames[kAxes] = {"score",  "mask",    "scale",  "softcap", "sink",
                                              "values", "payload", "layout", "shape"};
  return kNames[static_cast<int>(a)];
}

Axis axis_of(Regime r) { return entry(r).axis; }
std::string_view name_of(Regime r) { return entry(r).name; }
std::string_view sentence_of(Regime r) { return entry(r).sentence; }
uint32_t traits_of(Regime r) { return entry(r).traits; }

std::optional<Regime> regime_from_name(std::string_view name) {
  for (Regime r : kAll)
    if (name_of(r) == name) return r;
  return std::nullopt;
}

std::span<const Regime> all_regimes() { return kAll; }

std::span<const Regime> regimes_of(Axis a) {
  size_t first = 0, last = 0;  // an axis is contiguous in the list
  while (kEntries[first].axis != a) ++first;
  for (last = first; last < kRegimes && kEntries[last].axis == a;) ++last;
  return std::span(kAll).subspan(first, last - first);
}

std::vector<std::string> names(std::span<const Regime> regimes) {
  std::vector<std::string> list;
  for (Regime r : regimes) list.emplace_back(name_of(r));
  return list;
}

bool offers(uint32_t features, Regime r) {
  const Entry& e = entry(r);
  return (features & e.all) == e.all && (e.any == 0 || (features & e.any) != 0);
}

namespace {

// One direction of compatible().
bool goes_with(Regime a, Regime b) {
  const uint32_t ta = traits_of(a), tb = traits_of(b);
  const Axis axis = axis_of(b);
  // Equal scores stay equal whatever multiplies or caps them.
  const bool keeps_flat =
      (a == Regime::flat || a == Regime::zero_query) && (axis == Axis::scale || axis == Axis::softcap);
  if ((ta & kPattern) && (tb & kSpoils) && !keeps_flat) return false;
  if ((ta & (kTwoKeys | kTwoTiles | kThreeTiles)) && (tb & kSpoils)) return false;
  switch (a) {
    case Regime::random_scores:
      if (b == Regime::zero_scale) return false;
      break;
    case Regime::alternating_signs:
      if (b == Regime::bias_constant) return false;
      break;
    case Regime::tiny_differences:  // units in the last place of the input type do not survive a shift or a cap
    case Regime::gap_88:
    case Regime::gap_103:
    case Regime::common_offset:
      if (tb & kShiftsScores) return false;
      break;
    case Regime::score_limits:  // magnitudes of their own
      if (axis == Axis::softcap && b != Regime::no_softcap) return false;
      if (b == Regime::bias_constant || b == Regime::tiny_scale || b == Regime::huge_scale) return false;
      break;
    case Regime::dense_large:
    case Regime::dense_limits:
    case Regime::dense_cancelling:
    case Regime::any_finite:
    case Regime::out_of_range:
      if (b == Regime::tiny_scale || b == Regime::huge_scale || b == Regime::zero_scale) return false;
      break;
    case Regime::nan_score:
    case Regime::pos_inf_score:
    case Regime::neg_inf_score:  // 0 * inf is NaN, and a non-finite key may not be spread to rows that see it
      if (b == Regime::zero_scale || b == Regime::broadcast_keys) return false;
      if (axis == Axis::softcap && b != Regime::no_softcap) return false;
      if (b == Regime::bias_lowest) return false;
      break;
    case Regime::bias_scores:  // dense scores have nothing to put there, nor has a product with infinity
      if (axis == Axis::score && !(tb & kEmbedded)) return false;
      if (b == Regime::common_offset || b == Regime::score_limits || b == Regime::tiny_differences) return false;
      if ((axis == Axis::softcap && b != Regime::no_softcap) || b == Regime::zero_scale) return false;
      break;
    case Regime::no_keys:
      if (axis == Axis::score && (tb & kNonFinite)) return false;
      if (b == Regime::more_queries_than_keys || b == Regime::one_key) return false;
      if ((axis == Axis::payload && b != Regime::plain_payload) || b == Regime::non_finite_value) return false;
      break;
    case Regime::one_key:
      if (b == Regime::leading_tiles_masked || b == Regime::trailing_tiles_masked || b == Regime::middle_tiles_masked)
        return false;
      if (axis == Axis::payload && b != Regime::plain_payload) return false;
      break;
    case Regime::empty_output:
      if (axis == Axis::payload && b != Regime::plain_payload) return false;
      if (b == Regime::broadcast_keys || b == Regime::fully_masked_row || b == Regime::length_zero) return false;
      if (tb & kNonFinite) return false;
      break;
    case Regime::non_finite_payload:
    case Regime::loud_payload:  // a key must be hidden from every row that reads its head
      if (b == Regime::broadcast_keys) return false;
      if (b == Regime::no_mask || b == Regime::causal || b == Regime::window_everything || b == Regime::bias_scores ||
          b == Regime::bias_random || b == Regime::bias_constant || b == Regime::bias_neg_inf ||
          b == Regime::bias_lowest)
        return false;
      break;
    case Regime::decode:
      if (b == Regime::more_queries_than_keys) return false;
      break;
    default:
      break;
  }
  return true;
}

}  // namespace

bool compatible(Regime a, Regime b) { return compatible_with(a).test(static_cast<size_t>(b)); }

const RegimeSet& compatible_with(Regime r) {
  static const std::array<RegimeSet, kRegimes> kSets = [] {
    std::array<RegimeSet, kRegimes> sets;
    for (Regime a : kAll)
      for (Regime b : kAll)
        sets[static_cast<size_t>(a)].set(static_cast<size_t>(b),
                                         axis_of(a) == axis_of(b) ? a == b : goes_with(a, b) && goes_with(b, a));
    return sets;
  }();
  return kSets[static_cast<size_t>(r)];
}

}  // namespace attest
