// relations.cpp: properties that two runs decide, the second on an exact, deliberate change of the first.
//
// "The two bounds": each run is judged against the exact result of its own problem. Where the change leaves the
// exact result as it was, |O1 - O2| <= bound1 + bound2 follows. "Bits": every element has the same value.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "properties/contents.h"
#include "properties/definition.h"
#include "properties/generate/target.h"
#include "properties/regime_sets.h"
#include "properties/transform.h"
#include "properties/trial.h"
#include "reference/visible.h"

namespace attest {

namespace {

bool has_window(const Problem& p) { return p.window.left || p.window.right; }

// Both runs within their bounds.
CaseResult both_judged(const Problem& first, const Problem& second, const std::string& relation, const PropertyContext& context) {
  Verdict v = run_and_judge(first, context).verdict;
  if (v.ok()) add(v, run_and_judge(second, context).verdict, relation);
  return result(first, v, relation);
}

// Both runs with the same bits; `how` says which places stand for each other.
CaseResult same_bits(const Problem& first, const Problem& second, Comparison how, const PropertyContext& context) {
  Verdict v;
  const Observation a = observe(first, context);
  if (!ran(v, first, a, context)) return result(first, v, how.relation);
  const Observation b = observe(second, context);
  if (!ran(v, second, b, context)) return result(first, v, how.relation);
  how.second_shape = second.shape;
  compare(v, first, a, b, how, context);
  return result(first, v, how.relation);
}

// Two different entries of a list of choices, the second possibly any number that the kernel accepts.
template <class T>
std::pair<T, T> two_of(const std::vector<T>& list, Choices& choices) {
  const size_t a = choices.below(list.size());
  const size_t b = (a + 1 + choices.below(list.size() - 1)) % list.size();
  return {list[a], list[b]};
}

// --- choices of the kernel ------------------------------------------------------------------------------------

std::string tile_size_not_covered(const Kernel& k) {
  return Target::from_table(k.table()).tiles.size() >= 2 ? "" : "the kernel offers fewer than two tile sizes";
}

CaseResult tile_size_judge(const Problem& p, Choices& choices, const PropertyContext& context) {
  Problem first = p, second = p;
  std::tie(first.choice.tile_keys, second.choice.tile_keys) = two_of(Target::from_table(context.kernel.table()).tiles, choices);
  // A size of no list, where the kernel takes it: tiles that divide nothing.
  Problem odd = second;
  odd.choice.tile_keys = choices.between(1, std::max<int64_t>(1, p.shape.nk) + 1);
  if (choices.chance(1, 2) && context.kernel.refuses(odd).empty()) second = odd;
  return both_judged(first, second, "tiles of " + std::to_string(second.choice.tile_keys) + " keys instead of " + std::to_string(first.choice.tile_keys), context);
}

std::string tile_order_not_covered(const Kernel& k) {
  return Target::from_table(k.table()).orders.size() >= 2 ? "" : "the kernel offers one order of tiles";
}

CaseResult tile_order_judge(const Problem& p, Choices&, const PropertyContext& context) {
  Problem first = p, second = p;
  first.choice.order = TileOrder::ascending;
  second.choice.order = TileOrder::descending;
  return both_judged(first, second, "tiles in descending order", context);
}

std::string split_count_not_covered(const Kernel& k) {
  return Target::from_table(k.table()).splits.size() >= 2 ? "" : "the kernel offers fewer than two split counts";
}

CaseResult split_count_judge(const Problem& p, Choices& choices, const PropertyContext& context) {
  Problem first = p, second = p;
  std::tie(first.choice.splits, second.choice.splits) = two_of(Target::from_table(context.kernel.table()).splits, choices);
  return both_judged(first, second, std::to_string(second.choice.splits) + " splits instead of " + std::to_string(first.choice.splits), context);
}

// --- the same problem given in another way, within the two bounds -----------------------------------------------

std::string bias_for_mask_not_covered(const Kernel& k) { return lacks(k, {ATTEST_MASK, ATTEST_BIAS_F32}); }

CaseResult bias_for_mask_judge(const Problem& p, Choices&, const PropertyContext& context) {
  if (!p.mask) return says_nothing(p, "it has no boolean mask");
  if (p.shape.rows() * p.shape.nk > int64_t{1} << 18) return says_nothing(p, "its bias would be too large");
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Problem second = p;
  second.mask.reset();
  const Shape& s = p.shape;
  if (!second.bias) {
    // A bias of the mask's own extents.
    second.bias = Tensor::packed(DType::f32, p.mask->layout.extent);
    const auto& e = p.mask->layout.extent;
    for (int64_t b = 0; b < e[0]; ++b)
      for (int64_t h = 0; h < e[1]; ++h)
        for (int64_t i = 0; i < e[2]; ++i)
          for (int64_t j = 0; j < e[3]; ++j)
            if (!p.mask->storage[static_cast<size_t>(p.mask->layout.at(b, h, i, j))]) second.bias->set(b, h, i, j, -kInfinity);
  } else {
    second.bias = expanded(*p.bias, s);
    for (int64_t b = 0; b < s.b; ++b)
      for (int64_t h = 0; h < s.hq; ++h)
        for (int64_t i = 0; i < s.nq; ++i)
          for (int64_t j = 0; j < s.nk; ++j)
            if (!p.mask->storage[static_cast<size_t>(broadcast_at(p.mask->layout, b, h, i, j))]) second.bias->set(b, h, i, j, -kInfinity);
  }
  // A hidden key may hold anything, but a score of NaN - inf is NaN: contents that only a mask makes harmless.
  const auto harmful = [&](int64_t b, int64_t g, int64_t j) {
    for (int64_t d = 0; d < s.d; ++d)
      if (!std::isfinite(p.k.get(b, g, j, d))) return true;
    return false;
  };
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t g = 0; g < s.hk; ++g)
      for (int64_t j = 0; j < s.nk; ++j)
        if (harmful(b, g, j)) return says_nothing(p, "a key is not finite");
  return both_judged(p, second, "a bias of -inf in place of the boolean mask", context);
}

std::string grouped_not_covered(const Kernel& k) { return lacks(k, {ATTEST_GROUPED_HEADS}); }

CaseResult heads_repeated_judge(const Problem& p, Choices&, const PropertyContext& context) {
  if (p.shape.hq == p.shape.hk) return says_nothing(p, "its heads are not grouped");
  return both_judged(p, repeat_key_heads(p), "each key head repeated for its query heads", context);
}

std::string alignment_not_covered(const Kernel& k) { return lacks(k, {ATTEST_STRIDES, ATTEST_UNALIGNED}); }

CaseResult alignment_judge(const Problem& p, Choices&, const PropertyContext& context) {
  const Problem first = packed(p), second = misaligned(first);
  if (alignment_class(first) == alignment_class(second)) return says_nothing(p, "no row of it can be aligned");
  return both_judged(first, second, "every address and stride moved to element alignment", context);
}

// --- bits -----------------------------------------------------------------------------------------------------

CaseResult repeat_call_judge(const Problem& p, Choices&, const PropertyContext& context) {
  return same_bits(p, p, {.same_non_finite = true, .check = Check::determinism, .relation = "the same call was made again"}, context);
}

std::string independent_not_covered(const Kernel& k) {
  return k.conventions().batch_dependent ? "the kernel declares that rows depend on B or on neighbouring rows" : "";
}

CaseResult other_rows_judge(const Problem& p, Choices& choices, const PropertyContext& context) {
  if (p.shape.rows() < 2) return says_nothing(p, "it has no other row");
  const Problem first = packed(p);
  const KeptRow kept{choices.between(0, p.shape.b - 1), choices.between(0, p.shape.hq - 1), choices.between(0, p.shape.nq - 1)};
  Problem second = first;
  replace_all_but(second, kept, choices);
  const auto row = [kept](Comparison::Place at) -> std::optional<Comparison::Place> {
    if (at.b == kept.b && at.h == kept.h && at.i == kept.i) return at;
    return std::nullopt;
  };
  return same_bits(first, second, {.row = row, .relation = "all other rows, heads and batches were given other contents"}, context);
}

// A sub-sequence of 0 .. n-1, sometimes with repeats, never empty; `n` >= 1.
std::vector<int64_t> some_of(int64_t n, Choices& choices) {
  std::vector<int64_t> list;
  const int64_t count = choices.between(1, n + 1);
  for (int64_t k = 0; k < count; ++k) list.push_back(choices.between(0, n - 1));
  return list;
}

CaseResult other_batch_judge(const Problem& p, Choices& choices, const PropertyContext& context) {
  if (p.shape.rows() == 0 || p.shape.hk == 0) return says_nothing(p, "it has no rows");
  const Problem first = packed(p);
  const bool by_batch = choices.chance(1, 2);
  const std::vector<int64_t> list = some_of(by_batch ? p.shape.b : p.shape.hk, choices);
  const Problem second = by_batch ? take_batches(first, list) : take_key_heads(first, list);
  // Fewer batches may leave strides that no element uses, and so another alignment class.
  if (alignment_class(first) != alignment_class(second)) return says_nothing(p, "the alignment class changes");
  const int64_t group = p.shape.hq / p.shape.hk;
  const auto row = [&](Comparison::Place at) -> std::optional<Comparison::Place> {
    const auto found = std::find(list.begin(), list.end(), by_batch ? at.b : at.h / group);
    if (found == list.end()) return std::nullopt;
    const int64_t n = found - list.begin();
    if (by_batch) return Comparison::Place{n, at.h, at.i};
    return Comparison::Place{at.b, n * group + at.h % group, at.i};
  };
  const std::string relation = by_batch ? "B was changed to " + std::to_string(list.size()) : "Hk was changed to " + std::to_string(list.size());
  return same_bits(first, second, {.row = row, .differs = true, .relation = relation}, context);
}

std::string strides_not_covered(const Kernel& k) { return lacks(k, {ATTEST_STRIDES}); }

CaseResult strides_judge(const Problem& p, Choices& choices, const PropertyContext& context) {
  Problem first = packed(p);
  Problem second = first;
  std::string relation = "the layout was changed";
  if (choices.chance(1, 2) && p.shape.b > 1) {
    // K and V of batch 0 in every batch, given once by a stride of 0.
    for (Tensor* t : {&first.k, &first.v}) {
      const size_t batch = t->storage.size() / static_cast<size_t>(p.shape.b);
      for (int64_t b = 1; b < p.shape.b; ++b) std::copy_n(t->storage.begin(), batch, t->storage.begin() + static_cast<std::ptrdiff_t>(batch) * b);
    }
    second = relaid(first, choices.bits(64), 0x5A);
    second.k.layout.stride[0] = second.v.layout.stride[0] = 0;
    relation = "K and V of all batches were given once, with stride 0";
  } else {
    second = relaid(first, choices.bits(64), 0x5A);
  }
  if (alignment_class(first) != alignment_class(second)) return says_nothing(p, "the alignment class changes");
  return same_bits(first, second, {.same_non_finite = true, .relation = relation}, context);
}

std::string hidden_not_covered(const Kernel& k) {
  return k.has(ATTEST_MASK) || k.has(ATTEST_KEY_LENGTHS) ? "" : "the kernel takes neither a boolean mask nor key lengths";
}

CaseResult masked_contents_judge(const Problem& p, Choices& choices, const PropertyContext& context) {
  const Conventions conventions = context.kernel.conventions();
  const Problem first = packed(p);
  Problem second = first;
  const Payload payload = choices.chance(3, 4) ? Payload::any : Payload::finite;
  if (replace_masked(second, conventions, choices, payload, conventions.nonfinite_v_leaks ? Payload::finite : payload) == 0)
    return says_nothing(p, "no key is masked for all rows");
  return same_bits(first, second, {.relation = "K, V and bias of masked keys were replaced"}, context);
}

std::string window_not_covered(const Kernel& k) { return lacks(k, {ATTEST_WINDOW}); }

CaseResult unlimited_window_judge(const Problem& p, Choices& choices, const PropertyContext& context) {
  if (has_window(p)) return says_nothing(p, "it has a window already");
  Problem second = p;
  const int64_t reach = p.shape.nq + p.shape.nk;
  const uint64_t sides = choices.below(3);
  if (sides != 1) second.window.left = reach + choices.between(0, 3);
  if (sides != 2) second.window.right = reach + choices.between(0, 3);
  return same_bits(p, second, {.same_non_finite = true, .relation = "a window that reaches every key was given"}, context);
}

std::string causal_window_not_covered(const Kernel& k) { return lacks(k, {ATTEST_CAUSAL, ATTEST_WINDOW}); }

CaseResult causal_as_window_judge(const Problem& p, Choices&, const PropertyContext& context) {
  if (!p.causal) return says_nothing(p, "it is not causal");
  Problem second = p;
  second.causal = false;
  if (!has_window(p)) second.window.left = p.shape.nq + p.shape.nk;
  second.window.right = 0;
  return same_bits(p, second, {.same_non_finite = true, .relation = "a window that ends at the query's position stands for causal"}, context);
}

CaseResult v_negated_judge(const Problem& p, Choices&, const PropertyContext& context) {
  return same_bits(p, negate_values(p), {.o = [](double x) { return -x; }, .relation = "V was negated"}, context);
}

// Nothing may over- or underflow: a row counts if its scores and sink lie within 60 of each other, so that no
// exponential or rescale is below 2^-87, and an element if it is normal in the output type before and after.
CaseResult v_power_of_two_judge(const Problem& p, Choices& choices, const PropertyContext& context) {
  int exponent = static_cast<int>(choices.between(-4, 4));
  if (exponent == 0) exponent = 5;
  const Problem first = packed(p);
  const std::optional<Problem> second = scale_values(first, exponent);
  if (!second) return says_nothing(p, "V times 2^" + std::to_string(exponent) + " is not exact");
  constexpr double kSpread = 60;
  RowScores scores(first, context.kernel.conventions());
  const auto row = [&](Comparison::Place at) -> std::optional<Comparison::Place> {
    scores.load(at.b, at.h, at.i);
    if (scores.kind() != RowKind::normal) return std::nullopt;
    const auto [low, high] = std::minmax_element(scores.scores().begin(), scores.scores().end());
    const double sink = scores.sink().value_or(*high);
    if (std::max(*high, sink) - std::min(*low, sink) > kSpread) return std::nullopt;
    return at;
  };
  const double least = std::ldexp(2.0, min_normal_exponent(p.type)), most = largest_finite(p.type) / 2;
  const auto skip = [&](Comparison::Place, double o) {
    const double scaled = std::ldexp(o, exponent);
    return std::min(std::fabs(o), std::fabs(scaled)) < least || std::max(std::fabs(o), std::fabs(scaled)) > most;
  };
  return same_bits(first, *second,
                   {.row = row, .o = [exponent](double x) { return std::ldexp(x, exponent); }, .skip = skip, .relation = "V was multiplied by 2^" + std::to_string(exponent)},
                   context);
}

// --- keys moved, removed, added -------------------------------------------------------------------------------

CaseResult keys_permuted_judge(const Problem& p, Choices& choices, const PropertyContext& context) {
  if (p.causal || has_window(p) || p.key_lengths) return says_nothing(p, "causal, window and lengths tell keys apart by place");
  std::vector<int64_t> order(static_cast<size_t>(p.shape.nk));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (choices.chance(1, 4)) std::reverse(order.begin(), order.end());
  else
    for (size_t n = order.size(); n > 1; --n) std::swap(order[n - 1], order[choices.below(n)]);
  return both_judged(p, take_keys(p, order), "the keys permuted", context);
}

// What is wrong with changing the number of keys, or "".
std::string fixed_keys(const Problem& p) {
  if (p.causal || has_window(p)) return "causal and window tell keys apart by place";
  if (p.mask && p.shape.rows() * p.shape.nk > int64_t{1} << 18) return "its mask would be too large";
  return "";
}

std::optional<Problem> with_masked_keys_appended(const Problem& p, Choices& choices, const Kernel& kernel) {
  const int64_t nk = p.shape.nk, more = choices.between(1, std::max<int64_t>(1, std::min<int64_t>(nk, 70)));
  if (nk == 0 || (!p.key_lengths && !kernel.has(ATTEST_MASK))) return std::nullopt;
  std::vector<int64_t> keys(static_cast<size_t>(nk));
  std::iota(keys.begin(), keys.end(), int64_t{0});
  for (int64_t n = 0; n < more; ++n) keys.push_back(choices.between(0, nk - 1));
  // A mask or bias of one place along the keys must tell the new keys apart.
  Problem base = p;
  if (!p.key_lengths && base.mask && base.mask->layout.extent[3] != nk) base.mask = expanded(*base.mask, p.shape);
  Problem out = take_keys(base, keys);
  if (!p.key_lengths) {
    if (!out.mask) {
      out.mask = BoolMask{Layout::packed({1, 1, 1, nk + more}), {}};
      out.mask->storage.assign(static_cast<size_t>(nk + more), 1);
    }
    for (size_t at = 0; at < out.mask->storage.size(); ++at)
      if (static_cast<int64_t>(at) % (nk + more) >= nk) out.mask->storage[at] = 0;
  }
  const Payload v = kernel.conventions().nonfinite_v_leaks ? Payload::finite : Payload::any;
  for (int64_t b = 0; b < p.shape.b; ++b)
    for (int64_t g = 0; g < p.shape.hk; ++g)
      for (int64_t j = nk; j < nk + more; ++j) {
        for (int64_t d = 0; d < p.shape.d; ++d) out.k.set_bits(out.k.layout.at(b, g, j, d), some_bits(p.type, choices, Payload::any));
        for (int64_t d = 0; d < p.shape.dv; ++d) out.v.set_bits(out.v.layout.at(b, g, j, d), some_bits(p.type, choices, v));
      }
  return out;
}

std::optional<Problem> with_masked_keys_deleted(const Problem& p, Choices& choices, const Conventions& conventions) {
  std::vector<uint8_t> unseen(static_cast<size_t>(p.shape.nk), 1);
  for (int64_t b = 0; b < p.shape.b; ++b)
    for (int64_t g = 0; g < p.shape.hk; ++g) {
      const std::vector<uint8_t> here = unseen_keys(p, conventions, b, g);
      for (size_t j = 0; j < unseen.size(); ++j) unseen[j] &= here[j];
    }
  std::vector<int64_t> kept;
  const bool all = choices.chance(1, 2);
  for (int64_t j = 0; j < p.shape.nk; ++j)
    if (!unseen[static_cast<size_t>(j)] || !(all || choices.chance(1, 2))) kept.push_back(j);
  if (static_cast<int64_t>(kept.size()) == p.shape.nk) return std::nullopt;
  Problem out = take_keys(p, kept);
  if (p.key_lengths)
    for (int32_t& length : *out.key_lengths)
      length = static_cast<int32_t>(std::lower_bound(kept.begin(), kept.end(), int64_t{length}) - kept.begin());
  return out;
}

CaseResult masked_key_judge(const Problem& p, Choices& choices, const PropertyContext& context) {
  if (const std::string why = fixed_keys(p); !why.empty()) return says_nothing(p, why);
  const bool append = choices.chance(1, 2);
  const auto second = append ? with_masked_keys_appended(p, choices, context.kernel) : with_masked_keys_deleted(p, choices, context.kernel.conventions());
  if (!second) return says_nothing(p, append ? "a masked key cannot be appended" : "no key is masked for all rows");
  return both_judged(p, *second, append ? "masked keys appended" : "masked keys deleted", context);
}

// --- exact results that differ in a known way -------------------------------------------------------------------

// A row's LSE in the second run against the exact one of the first, moved by `shift`.
void lse_moved(Verdict& v, const Problem& first, const Problem& second, const Observation& seen, double shift, const std::string& relation, Choices& choices,
               const PropertyContext& context) {
  constexpr int64_t kMostKeys = 150;  // cpp_dec_float takes its time
  if (seen.lse.empty() || first.shape.rows() == 0 || first.shape.nk > kMostKeys) return;
  const Shape& s = first.shape;
  const int64_t b = choices.between(0, s.b - 1), h = choices.between(0, s.hq - 1), i = choices.between(0, s.nq - 1);
  const RowReference exact = context.judge.row(first, b, h, i, judge_options(first, context));
  const RowReference bound = context.judge.row(second, b, h, i, judge_options(second, context));
  if (!exact.in_range || exact.nan || exact.empty || !bound.in_range) return;
  const double got = seen.lse[static_cast<size_t>((b * s.hq + h) * s.nq + i)], expected = exact.lse + shift;
  // `expected` is rounded twice in double.
  const double error = std::fabs(got - expected), allowed = bound.lse_bound + 0x1p-51 * (std::fabs(exact.lse) + std::fabs(shift));
  if (error <= allowed) return;
  fail(v, Check::relation, Disposition::incorrect, "LSE did not move by " + std::to_string(shift) + " when " + relation, {b, h, i, -1, got, expected, allowed, error / allowed, 0});
}

CaseResult both_judged_lse_moved(const Problem& first, const Problem& second, double shift, const std::string& relation, Choices& choices, const PropertyContext& context) {
  Verdict v = run_and_judge(first, context).verdict;
  if (!v.ok()) return result(first, v, relation);
  const Trial t = run_and_judge(second, context);
  add(v, t.verdict, relation);
  if (v.ok() && t.seen.status == RunStatus::ok) lse_moved(v, first, second, t.seen, shift, relation, choices, context);
  return result(first, v, relation);
}

std::string bias_not_covered(const Kernel& k) { return lacks(k, {ATTEST_BIAS_F32}); }

CaseResult scores_shifted_judge(const Problem& p, Choices& choices, const PropertyContext& context) {
  constexpr float kShifts[] = {1, -1, 0.5f, -8, 64, -64, 1024, -1024, 3};
  const float c = choices.pick(kShifts);
  const std::optional<Problem> second = shift_scores(p, c);
  if (!second) return says_nothing(p, "its bias or sink cannot be moved exactly");
  return both_judged_lse_moved(p, *second, c, "every score moved by " + std::to_string(c), choices, context);
}

CaseResult keys_doubled_judge(const Problem& p, Choices& choices, const PropertyContext& context) {
  if (p.causal || has_window(p) || p.sink) return says_nothing(p, "it has a causal mask, a window or a sink");
  const bool side_by_side = p.key_lengths || choices.chance(1, 2);
  std::vector<int64_t> keys;
  for (int64_t n = 0; n < 2 * p.shape.nk; ++n) keys.push_back(side_by_side ? n / 2 : n % p.shape.nk);
  Problem second = take_keys(p, keys);
  if (second.key_lengths)
    for (int32_t& length : *second.key_lengths) length *= 2;
  return both_judged_lse_moved(p, second, std::log(2.0), "every key doubled", choices, context);
}

// One change that the exact result shows by more than both bounds; the outputs must differ there.
// Small, because both exact results are computed in cpp_dec_float.
Recipe small() {
  Recipe r;
  r.max_keys = 150;
  r.max_width = 64;
  r.work = 4e5;
  return r;
}

CaseResult must_differ_judge(const Problem& p, Choices& choices, const PropertyContext& context) {
  const Shape& s = p.shape;
  constexpr int64_t kMostKeys = 600;
  if (s.rows() == 0 || s.nk == 0 || s.nk > kMostKeys) return says_nothing(p, "it has no rows or keys, or too many");
  const Conventions conventions = context.kernel.conventions();
  const Problem first = packed(p);
  std::vector<int64_t> keys;
  for (int tries = 0; tries < 4; ++tries) {
    const int64_t b = choices.between(0, s.b - 1), h = choices.between(0, s.hq - 1), i = choices.between(0, s.nq - 1);
    visible_keys(first, conventions, b, h, i, keys);
    if (keys.empty()) continue;
    const int64_t j = keys[choices.below(keys.size())], g = s.key_head(h);
    Problem second = first;
    std::string relation;
    switch (choices.below(4)) {
      case 0:
        for (int64_t d = 0; d < s.dv; ++d) second.v.set_bits(second.v.layout.at(b, g, j, d), from_double(p.type, 4 + choices.normal()));
        relation = "V of one visible key was changed";
        break;
      case 1:
        for (int64_t d = 0; d < s.d; ++d) second.k.set_bits(second.k.layout.at(b, g, j, d), from_double(p.type, second.q.get(b, h, i, d) * (p.scale < 0 ? -1 : 1)));
        relation = "K of one visible key was changed";
        break;
      case 2:
        if (!context.kernel.has(ATTEST_MASK) || s.rows() * s.nk > int64_t{1} << 18) continue;
        second.mask = first.mask ? expanded(*first.mask, s) : expanded(BoolMask{Layout::packed({1, 1, 1, 1}), {1}}, s);
        second.mask->storage[static_cast<size_t>(second.mask->layout.at(b, h, i, j))] = 0;
        relation = "one visible key was masked";
        break;
      default:
        if (!context.kernel.has(ATTEST_CAUSAL)) continue;
        second.causal = !second.causal;
        relation = "the causal flag was changed";
        break;
    }
    const RowReference x = context.judge.row(first, b, h, i, judge_options(first, context));
    const RowReference y = context.judge.row(second, b, h, i, judge_options(second, context));
    if (!x.in_range || !y.in_range || x.nan || y.nan) continue;
    int64_t column = -1;
    double most = 1;
    for (int64_t d = 0; d < s.dv; ++d) {
      const auto c = static_cast<size_t>(d);
      const double apart = std::fabs(x.o[c] - y.o[c]) / (x.bound[c] + y.bound[c]);
      if (apart > most) {
        most = apart;
        column = d;
      }
    }
    if (column < 0) continue;
    Verdict v;
    const Observation a = observe(first, context), c = observe(second, context);
    if (!ran(v, first, a, context) || !ran(v, second, c, context)) return result(first, v, relation);
    ++v.rows;
    ++v.elements;
    const auto at = static_cast<size_t>(((b * s.hq + h) * s.nq + i) * s.dv + column);
    if (same_value(a.o[at], c.o[at]))
      fail(v, Check::relation, Disposition::incorrect,
           "O[b=" + std::to_string(b) + ",h=" + std::to_string(h) + ",i=" + std::to_string(i) + ",d=" + std::to_string(column) + "] stayed the same when " + relation,
           {b, h, i, column, c.o[at], y.o[static_cast<size_t>(column)], y.bound[static_cast<size_t>(column)], std::numeric_limits<double>::infinity(), 0});
    return result(first, v, relation);
  }
  return says_nothing(p, "no change that was tried shows in the exact result");
}

}  // namespace

namespace definitions {

const Definition tile_size{.regimes = regime_sets::needles, .not_covered = tile_size_not_covered, .judge = tile_size_judge};
const Definition tile_order{.regimes = regime_sets::last_tile, .not_covered = tile_order_not_covered, .judge = tile_order_judge};
const Definition split_count{.regimes = regime_sets::empty_splits, .not_covered = split_count_not_covered, .judge = split_count_judge};
const Definition bias_minus_infinity_for_mask{
    .regimes = regime_sets::boolean_mask, .not_covered = bias_for_mask_not_covered, .judge = bias_for_mask_judge};
const Definition key_heads_repeated{.regimes = regime_sets::grouped, .not_covered = grouped_not_covered, .judge = heads_repeated_judge};
const Definition alignment_class{.regimes = regime_sets::dense, .not_covered = alignment_not_covered, .judge = alignment_judge};
const Definition repeat_call{.regimes = regime_sets::random, .judge = repeat_call_judge};
const Definition other_rows{.regimes = regime_sets::gaps, .not_covered = independent_not_covered, .judge = other_rows_judge};
const Definition other_batch{.regimes = regime_sets::batches, .not_covered = independent_not_covered, .judge = other_batch_judge};
const Definition strides_and_broadcast{.regimes = regime_sets::batches, .not_covered = strides_not_covered, .judge = strides_judge};
const Definition masked_contents_replaced{
    .regimes = regime_sets::masked_keys, .not_covered = hidden_not_covered, .judge = masked_contents_judge};
const Definition unlimited_window{
    .regimes = regime_sets::unmasked, .not_covered = window_not_covered, .judge = unlimited_window_judge};
const Definition causal_as_window{
    .regimes = regime_sets::causal, .not_covered = causal_window_not_covered, .judge = causal_as_window_judge};
const Definition v_negated{.regimes = regime_sets::last_tile, .judge = v_negated_judge};
const Definition v_power_of_two{.regimes = regime_sets::narrow, .values = moderate_values, .judge = v_power_of_two_judge};
const Definition keys_permuted{.regimes = regime_sets::permutable, .judge = keys_permuted_judge};
const Definition masked_key_deleted_or_appended{
    .regimes = regime_sets::masked_keys, .not_covered = hidden_not_covered, .judge = masked_key_judge};
const Definition scores_shifted_by_bias{.regimes = regime_sets::needle, .not_covered = bias_not_covered, .judge = scores_shifted_judge};
const Definition keys_doubled{.regimes = regime_sets::doubled, .judge = keys_doubled_judge};
const Definition one_visible_key_changed_must_differ{.regimes = regime_sets::random, .recipe = small, .judge = must_differ_judge};

}  // namespace definitions

}  // namespace attest
