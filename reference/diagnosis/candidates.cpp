#include "reference/diagnosis/candidates.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <string>
#include <tuple>

#include "reference/diagnosis/predict.h"

namespace attest {

namespace {

constexpr double kLn2 = 0.69314718055994530942;

std::string count(int64_t n, const char* one, const char* many) { return std::to_string(n) + " " + (n == 1 ? one : many); }
std::string by_keys(int64_t shift, const char* further, const char* less) {
  return count(std::abs(shift), "key", "keys") + " " + (shift > 0 ? further : less);
}
std::string decimal(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", x);
  return text;
}

bool non_finite(const Tensor& t) {
  for (int64_t n = 0, count = static_cast<int64_t>(t.storage.size()) / size_of(t.type); n < count; ++n)
    if (!std::isfinite(to_double(t.type, t.bits(n)))) return true;
  return false;
}

}  // namespace

std::vector<KnownScale> known_scales(const Problem& p) {
  const double d = double(p.shape.d), heads = double(p.shape.hq), scale = p.scale;
  std::vector<KnownScale> known = {
      {1 / std::sqrt(d), "1/sqrt(d) too much: 1/d for 1/sqrt(d), or the scale applied twice"},
      {1 / std::sqrt(heads), "the model's width for the head's: 1/sqrt(d Hq)"},
      {1 / std::sqrt(double(p.shape.hk)), "the width of all key heads for the head's"},
      {std::sqrt(d), "sqrt(d) too much: the factor 1/sqrt(d) is missing"},
      {d, "d too much"},
      {1 / d, "1/d too much"},
      {kLn2, "the factor log2 e is missing"},
      {1 / kLn2, "the factor log2 e is applied twice"},
      {2, "twice"},
      {0.5, "half"},
      {-1, "its sign is lost"},
      {0, "scores are 0"},
  };
  if (scale != 0) {
    known.push_back({scale, "the scale is applied twice"});
    known.push_back({1 / scale, "no scale"});
    known.push_back({1 / std::sqrt(d) / scale, "1/sqrt(d) whatever scale is given"});
    known.push_back({1 / (scale * scale), "divided by the scale instead of multiplied"});
    known.push_back({scale > 0 ? std::sqrt(scale) / scale : 1, "the square root of the scale"});
    known.push_back({1 / d / scale, "1/d whatever scale is given"});
    known.push_back({std::fabs(scale) / scale, "its sign is lost"});
    for (const auto& [width, name] : {std::pair{8.0, "8"}, {16.0, "16"}, {32.0, "32"}, {64.0, "64"}}) {
      const double padded = std::ceil(d / width) * width;
      known.push_back({std::sqrt(d / padded), std::string("1/sqrt of the width padded to a multiple of ") + name});
      known.push_back({1 / std::sqrt(padded) / scale, std::string("1/sqrt of the width padded to a multiple of ") + name + " whatever scale is given"});
    }
    const double power = std::exp2(std::ceil(std::log2(d)));
    known.push_back({std::sqrt(d / power), "1/sqrt of the width padded to a power of two"});
  }
  return known;
}

Fault carried_over(const Fault& fault, const Problem& from, const Problem& to) {
  Fault out = fault;
  if (to.choice == from.choice) return out;
  if (to.choice.tile_keys > 0) out.walk.tile = to.choice.tile_keys;
  if (to.choice.order != TileOrder::any) out.walk.descending = to.choice.order == TileOrder::descending;
  if (to.choice.splits > 0) out.walk.splits = to.choice.splits;
  return out;
}

namespace {

// Does each record lie in the split that the walk says?
bool agrees(const Walk& walk, int64_t keys, const std::vector<TraceRecord>& trace) {
  const int64_t size = walk.keys_per_split(keys);
  return size > 0 && std::all_of(trace.begin(), trace.end(), [&](const TraceRecord& r) { return r.key_begin / size == r.split && (std::min(r.key_end, keys) - 1) / size == r.split; });
}

}  // namespace

Walk walk_of_trace(const Problem& p, const std::vector<TraceRecord>& trace, const Walk& elsewhere) {
  Walk own = elsewhere;
  if (p.choice.tile_keys > 0) own.tile = p.choice.tile_keys;
  const Walk same_cut = own;
  own.splits = p.choice.splits;
  if (p.choice.splits == 0) {
    own.splits = 1;
    for (const TraceRecord& r : trace) own.splits = std::max<int64_t>(own.splits, r.split + 1);
  }
  for (const Walk& like : {same_cut, own})
    for (const Cut cut : {like.cut, Cut::keys, Cut::tiles}) {
      Walk walk = like;
      walk.cut = cut;
      if ((p.choice.splits == 0 || walk.splits == p.choice.splits) && agrees(walk, p.shape.nk, trace)) return walk;
    }
  return own;
}

std::vector<Walk> in_splits(const Problem& p, const std::vector<Walk>& walks, const std::vector<int64_t>& boundaries) {
  std::vector<Walk> list;
  const auto add = [&](Walk w, int64_t splits, Cut cut) {
    w.splits = splits;
    w.cut = cut;
    if (w.keys_per_split(p.shape.nk) < p.shape.nk && std::find(list.begin(), list.end(), w) == list.end()) list.push_back(w);
  };
  for (const Walk& w : walks) {
    // Splits of a size at which something seems to begin.
    for (const int64_t boundary : boundaries)
      for (const Cut cut : {Cut::tiles, Cut::keys}) {
        Walk as_seen = w;
        as_seen.cut = cut;
        as_seen.splits = (p.shape.nk + boundary - 1) / boundary;
        if (as_seen.keys_per_split(p.shape.nk) == boundary) add(w, as_seen.splits, cut);
      }
    for (const int64_t splits : {2, 4})
      for (const Cut cut : {Cut::tiles, Cut::keys}) add(w, splits, cut);
  }
  return list;
}

std::vector<Walk> possible_walks(const Problem& p, const std::vector<TraceRecord>& trace) {
  Walk told;
  bool order_told = p.choice.order != TileOrder::any, tile_told = p.choice.tile_keys > 0, splits_told = p.choice.splits > 0;
  told.descending = p.choice.order == TileOrder::descending;
  if (tile_told) told.tile = p.choice.tile_keys;
  if (splits_told) told.splits = p.choice.splits;
  if (!trace.empty()) {
    int64_t tile = 0;
    bool rises = false, falls = false;
    int32_t splits = 0;
    for (size_t n = 0; n < trace.size(); ++n) {
      const TraceRecord& r = trace[n];
      tile = std::max(tile, r.key_end - r.key_begin);
      splits = std::max(splits, r.split + 1);
      if (n == 0) continue;
      const TraceRecord& s = trace[n - 1];
      if (s.b != r.b || s.h != r.h || s.row != r.row || s.split != r.split) continue;
      (r.key_begin > s.key_begin ? rises : falls) = true;
    }
    if (!tile_told) told.tile = tile;
    tile_told = true;
    if (!order_told && rises != falls) told.descending = falls, order_told = true;
    if (!splits_told) told.splits = std::max<int64_t>(1, splits);
    splits_told = true;
    told = walk_of_trace(p, trace, told);
  }
  std::vector<int64_t> tiles{told.tile}, splits{told.splits};
  if (!tile_told) {
    bool whole = false;
    tiles.clear();
    for (int64_t t : {64, 32, 16, 128, 8, 4, 2, 1, 256}) {
      if (t >= p.shape.nk && whole) continue;
      whole = whole || t >= p.shape.nk;
      tiles.push_back(t);
    }
  }
  std::vector<Walk> walks;
  for (int64_t s : splits)
    for (int64_t t : tiles)
      for (const bool descending : {told.descending, !told.descending}) {
        if (descending != told.descending && (order_told || t >= p.shape.nk)) continue;
        walks.push_back({t, descending, s, told.cut});
      }
  return walks;
}

namespace {

class List {
 public:
  List(const Problem& p, const std::vector<Walk>& walks, Hanging which) : p_(p), walks_(walks), which_(which) {
    // Of the walks in splits, one for each way to cut.
    for (const Walk& w : walks)
      if (w.splits > 1 && std::none_of(split_walks_.begin(), split_walks_.end(), [&](const Walk& o) { return o.splits == w.splits && o.keys_per_split(p.shape.nk) == w.keys_per_split(p.shape.nk) && o.cut == w.cut; }))
        split_walks_.push_back(w);
  }
  std::vector<Fault> take() { return std::move(list_); }

  // A fault that does not hang on the walk.
  void add(Family family, std::string what, auto change) {
    if (which_ == Hanging::on_walk) return;
    Fault f;
    f.family = family;
    f.what = std::move(what);
    f.walk = walks_.front();
    change(f);
    list_.push_back(std::move(f));
  }
  // One that hangs on how keys are cut into splits.
  void each_split(Family family, const std::string& what, auto change) {
    for (const Walk& w : split_walks_) {
      Fault f;
      f.family = family;
      f.walk = w;
      f.what = what + (what.empty() ? "" : ", ") + "in " + std::to_string(w.splits) + " splits" + (w.cut == Cut::tiles ? " of whole tiles" : "");
      change(f);
      list_.push_back(std::move(f));
    }
  }
  // One that does: with every walk that has more than one tile.
  void walk(Family family, const std::string& what, auto change) { walk(family, what, change, walks_); }
  void walk(Family family, const std::string& what, auto change, const std::vector<Walk>& walks) {
    for (const Walk& w : walks) {
      Fault f;
      f.family = family;
      f.walk = w;
      f.what = what + (what.empty() ? "" : ", ") + "in tiles of " + count(w.tile, "key", "keys") + (w.descending ? " from the last down" : "") +
               (w.splits > 1 ? " in " + count(w.splits, "split", "splits") : "");
      change(f);
      list_.push_back(std::move(f));
    }
  }

  void recurrence() {
    const auto fold = [&](Family family, const char* what, Fold how, double number = 0, int64_t index = 0) {
      for (const bool merges : {true, false}) {
        if (!merges && walks_.front().splits == 1 && !p_.sink) continue;
        walk(family, std::string(what) + (merges && (p_.sink || walks_.front().splits > 1) ? (*what ? ", in merges too" : "in merges too") : ""), [&](Fault& f) {
          f.fold = how;
          f.number = number;
          f.index = index;
          f.merges_like_tiles = merges;
        });
      }
    };
    fold(Family::rescale_missing, "", Fold::no_rescale);
    fold(Family::rescale_of_o_missing, "", Fold::no_rescale_o);
    fold(Family::rescale_of_l_missing, "", Fold::no_rescale_l);
    fold(Family::tile_maximum_kept_apart, "", Fold::tile_maximum);
    fold(Family::tile_maximum_replaces, "", Fold::tile_maximum_factor);
    fold(Family::tiles_normalised_apart, "averaged", Fold::tiles_averaged);
    fold(Family::tiles_normalised_apart, "added", Fold::tiles_added);
    fold(Family::no_maximum, "", Fold::no_maximum);
    fold(Family::first_maximum_kept, "", Fold::first_maximum);
    fold(Family::maximum_before_tile, "", Fold::maximum_before);
    for (double m : {0.0, -1.0, -10.0, -100.0, -1e3, -1e4, -5e4, -65504.0, -1e5, -1e6, -1e9, -1e30})
      walk(Family::maximum_starts_finite, "at " + decimal(m), [&](Fault& f) { f.fold = Fold::start_finite, f.number = m; });
    fold(Family::rescale_factor_wrong, "inverted", Fold::factor_power, -1);
    fold(Family::rescale_factor_wrong, "squared", Fold::factor_power, 2);
    fold(Family::rescale_factor_wrong, "its square root", Fold::factor_power, 0.5);
    fold(Family::rescale_factor_wrong, "2 for e", Fold::factor_power, kLn2);
    fold(Family::rescale_factor_wrong, "log2 e twice", Fold::factor_power, 1 / kLn2);
    fold(Family::rescale_factor_wrong, "scaled once more", Fold::factor_power, p_.scale);
    fold(Family::rescale_once_missing, "the first", Fold::skip_one_rescale, 0, 0);
    fold(Family::rescale_once_missing, "the second", Fold::skip_one_rescale, 0, 1);
    fold(Family::rescale_once_missing, "the last", Fold::skip_one_rescale, 0, -1);
    for (double rise : {0x1p-10, 1.0, 2.0, 4 * kLn2, 4.0, 8 * kLn2, 8.0, 10.0, 16 * kLn2, 16.0}) {
      walk(Family::rescale_by_size_missing, "up to " + decimal(rise) + ", keeping the lower maximum", [&](Fault& f) { f.fold = Fold::lazy, f.number = rise; });
      fold(Family::rescale_by_size_missing, ("up to " + decimal(rise)).c_str(), Fold::skip_small, rise);
      fold(Family::rescale_by_size_missing, ("beyond " + decimal(rise)).c_str(), Fold::skip_large, rise);
    }
    for (const int64_t visit : {1, 2, 3, 7, 15, 16, 31}) {
      fold(Family::rescale_once_missing, ("that of visit " + std::to_string(visit)).c_str(), Fold::skip_visit, 0, visit);
      fold(Family::rescale_once_missing, ("that of O in visit " + std::to_string(visit)).c_str(), Fold::skip_visit, 1, visit);
    }
    fold(Family::rescale_factor_wrong, "that of the tile before", Fold::late);
    fold(Family::rescale_factor_wrong, "that of the tile before, for O alone", Fold::late_o);
    fold(Family::rescale_factor_wrong, "0: a rise drops what was summed", Fold::clear);
    for (const auto& [format, what] : {std::pair{Narrow::f16, "f16"}, {Narrow::bf16, "bf16"}}) {
      walk(Family::rescale_imprecise, what, [&](Fault& f) { f.fold = Fold::narrow_factor, f.factor_format = format; });
      walk(Family::rescale_imprecise, std::string(what) + ", for O alone", [&](Fault& f) { f.fold = Fold::narrow_factor_o, f.factor_format = format; });
    }
    fold(Family::maximum_wrong, "the minimum", Fold::minimum);
    fold(Family::maximum_wrong, "the largest magnitude", Fold::magnitude);
    if (p_.scale < 0) fold(Family::maximum_wrong, "that before a negative scale", Fold::unscaled);
    fold(Family::maximum_wrong, "masked keys join it", Fold::masked_too);
    fold(Family::no_maximum, "10 instead", Fold::no_maximum, 10);
    fold(Family::last_tile_sum, "", Fold::last_sum);
    fold(Family::last_tile_output, "", Fold::last_output);
    walk(Family::empty_tile_nan, "", [](Fault& f) { f.special = Special::empty_tile_nan; });
    walk(Family::empty_tile_nan, "within the range of keys", [](Fault& f) { f.special = Special::empty_tile_in_range_nan; });
  }

  void scores() {
    for (const KnownScale& k : known_scales(p_)) {
      if (std::fabs(k.factor - 1) < 1e-6 || !std::isfinite(k.factor)) continue;
      add(Family::scale_wrong, k.what, [&](Fault& f) { f.scale_factor = k.factor; });
    }
    for (const auto& [factor, what] : {std::pair{kLn2, "2^s for e^s"}, {1 / kLn2, "log2 e applied twice"}})
      for (const LseRule lse : {LseRule::right, LseRule::base_two, LseRule::sum_base_two})
        add(Family::exponential_base, what, [&](Fault& f) { f.exponent_factor = factor, f.lse = lse; });
    const double log2e = 1 / kLn2;
    for (const auto& [factor, what] : {std::pair{kLn2, "2^s for e^s"}, {log2e, "log2 e applied twice"}, {round_narrow(Narrow::f16, log2e, false) / log2e, "log2 e rounded to f16"},
                                       {round_narrow(Narrow::bf16, log2e, false) / log2e, "log2 e rounded to bf16"}}) {
      walk(Family::exponential_base, std::string(what) + ", in weights alone", [&](Fault& f) { f.weight_factor = factor; });
      if (std::fabs(factor - 1) < 0.1) walk(Family::exponential_base, what, [&](Fault& f) { f.exponent_factor = factor; });
    }
    if (p_.softcap > 0) {
      add(Family::softcap_missing, "", [](Fault& f) { f.softcap = Softcap::missing; });
      add(Family::softcap_wrong, "clamped without tanh", [](Fault& f) { f.softcap = Softcap::clamped; });
      add(Family::softcap_wrong, "tanh not multiplied by the cap", [](Fault& f) { f.softcap = Softcap::not_scaled_back; });
      add(Family::softcap_wrong, "twice", [](Fault& f) { f.softcap = Softcap::twice; });
      add(Family::softcap_wrong, "tanh from two exponentials", [](Fault& f) { f.softcap = Softcap::two_exponentials; });
      add(Family::softcap_wrong, "tanh as a rational function", [](Fault& f) { f.softcap = Softcap::rational; });
      add(Family::softcap_wrong, "before the scale", [](Fault& f) { f.softcap = Softcap::before_scale; });
      if (p_.bias) add(Family::softcap_wrong, "after the bias", [](Fault& f) { f.softcap = Softcap::over_bias; });
      add(Family::masked_scored_finite, "-c: the softcap is applied after the mask", [&](Fault& f) { f.masked_score = -double(p_.softcap); });
    }
    if (p_.bias) {
      add(Family::bias_missing, "", [](Fault& f) { f.bias = BiasRule::missing; });
      const std::pair<BiasRule, const char*> rules[] = {{BiasRule::negated, "negated"}, {BiasRule::twice, "twice"}, {BiasRule::scaled, "multiplied by the scale"},
          {BiasRule::of_row_zero, "that of row 0"}, {BiasRule::of_head_zero, "that of head 0"}, {BiasRule::of_batch_zero, "that of batch 0"}, {BiasRule::of_key_before, "that of the key before"}, {BiasRule::infinite_ignored, "-inf taken for 0"}, {BiasRule::lowest_masks, "the lowest finite value taken for -inf"}};
      for (const auto& [rule, what] : rules) add(Family::bias_wrong, what, [&](Fault& f) { f.bias = rule; });
    }
    const int64_t d = p_.shape.d;
    std::vector<int64_t> widths;
    for (int64_t unit : {2, 4, 8, 16, 32, 64}) widths.push_back(d / unit * unit);
    widths.push_back(d - 1);
    widths.push_back(d / 2);
    for (int64_t w : {1, 4, 8, 16, 32, 64, 128}) widths.push_back(w);
    std::sort(widths.begin(), widths.end());
    widths.erase(std::unique(widths.begin(), widths.end()), widths.end());
    for (int64_t w : widths)
      if (w > 0 && w < d) add(Family::head_width_cut, "only the first " + std::to_string(w) + " count", [&](Fault& f) { f.columns = w; });
  }

  // What hides keys here, where it is not one thing alone: each by itself, and all but the key lengths, which often end the
  // loop over the keys instead of masking.
  std::vector<std::pair<uint8_t, const char*>> hiders() const {
    std::vector<std::pair<uint8_t, const char*>> list;
    const auto add = [&](bool there, uint8_t kind, const char* by) {
      if (there) list.emplace_back(kind, by);
    };
    add(p_.mask.has_value(), hides::mask, "the boolean mask alone hides them");
    add(p_.bias.has_value(), hides::bias, "a bias of -inf alone hides them");
    add(p_.causal, hides::causal, "the diagonal alone hides them");
    add(p_.window.left || p_.window.right, hides::window, "the window alone hides them");
    add(p_.key_lengths.has_value(), hides::length, "the key length alone hides them");
    if (list.size() <= 1) return {};
    if (p_.key_lengths && list.size() > 2) list.emplace_back(hides::anything & ~hides::length, "not the key length hides them");
    return list;
  }

  void masks() {
    const bool positional = p_.causal || p_.window.left || p_.window.right;
    const bool any = positional || p_.key_lengths || p_.mask || p_.bias;
    if (p_.causal) {
      add(Family::causal_wrong, "not at all", [](Fault& f) { f.sight.no_causal = true; });
      for (int64_t n : {1, -1, 2, -2})
        add(Family::causal_wrong, by_keys(n, "too far right", "too far left"), [&](Fault& f) { f.sight.causal_shift = n; });
      if (p_.window.left || p_.window.right) add(Family::causal_wrong, "not where there is a window", [](Fault& f) { f.sight.window_ends_causal = true; });
    }
    if (positional) {
      const Family family = p_.causal ? Family::causal_wrong : Family::window_wrong;
      add(family, "aligned at the other corner", [](Fault& f) { f.sight.other_corner = true; });
      // One edge alone.
      using Corner = Sight::Corner;
      for (const auto& [corner, where] : {std::pair{Corner::other, "aligned at the other corner"}, {Corner::from_nk, "aligned at Nk instead of the key length"}}) {
        if (corner == Corner::from_nk && !p_.key_lengths) continue;
        if (p_.causal && (p_.window.left || p_.window.right)) add(Family::causal_wrong, std::string("the diagonal alone ") + where, [&](Fault& f) { f.sight.causal_at = corner; });
        if (p_.window.left) add(Family::window_wrong, std::string("the left end ") + where, [&](Fault& f) { f.sight.left_at = corner; });
        if (p_.window.right) add(Family::window_wrong, std::string("the right end ") + where, [&](Fault& f) { f.sight.right_at = corner; });
        if (p_.causal && p_.window.left && p_.window.right) add(Family::window_wrong, std::string("both ends ") + where, [&](Fault& f) { f.sight.left_at = f.sight.right_at = corner; });
      }
      if (p_.key_lengths) {
        add(family, "aligned at Nk instead of the key length", [](Fault& f) { f.sight.position_from_nk = true; });
        add(Family::length_wrong, "that of batch 0", [](Fault& f) { f.sight.length_of_batch_zero = true; });
      }
    }
    if (positional) add(p_.causal ? Family::causal_wrong : Family::window_wrong, "rows before the first key stand at it", [](Fault& f) { f.sight.causal_clamped = true; });
    if (p_.causal) {
      for (int64_t n : {2, 4, 8, 16, 64}) {
        add(Family::causal_wrong, "that of the last of " + std::to_string(n) + " rows", [&](Fault& f) { f.sight.causal_block = n; });
      }
    }
    if (p_.window.left) {
      for (int64_t n : {2, 4, 8, 16, 64}) add(Family::window_wrong, "the left end of the first of " + std::to_string(n) + " rows", [&](Fault& f) { f.sight.row_block = n; });
      for (int64_t n : std::set<int64_t>{2, 3, 4, 8, 16, 32, 64, 128, walks_.front().tile})
        if (n > 1) {
          add(Family::window_wrong, "the left end at a multiple of " + std::to_string(n) + " keys", [&](Fault& f) { f.sight.round_begin = n; });
          add(Family::window_wrong, "the left end at the next multiple of " + std::to_string(n) + " keys", [&](Fault& f) { f.sight.cut_begin = n; });
        }
      add(Family::window_wrong, "no left end", [](Fault& f) { f.sight.no_left = true; });
      for (int64_t n : {1, -1, 2}) add(Family::window_wrong, "the left end " + by_keys(n, "further", "nearer"), [&](Fault& f) { f.sight.left_shift = n; });
    }
    if (p_.window.right) {
      add(Family::window_wrong, "no right end", [](Fault& f) { f.sight.no_right = true; });
      for (int64_t n : {1, -1, 2}) add(Family::window_wrong, "the right end " + by_keys(n, "further", "nearer"), [&](Fault& f) { f.sight.right_shift = n; });
    }
    if (p_.window.left || p_.window.right) {
      add(Family::window_wrong, "no window", [](Fault& f) { f.sight.no_left = f.sight.no_right = true; });
      add(Family::window_wrong, "both ends one key nearer", [](Fault& f) { f.sight.left_shift = f.sight.right_shift = -1; });
      add(Family::window_wrong, "both ends one key further", [](Fault& f) { f.sight.left_shift = f.sight.right_shift = 1; });
      if (p_.window.left && p_.window.right)
        add(Family::window_wrong, "the ends exchanged", [&](Fault& f) {
          f.sight.left_shift = *p_.window.right - *p_.window.left;
          f.sight.right_shift = *p_.window.left - *p_.window.right;
        });
    }
    if (p_.key_lengths) {
      add(Family::length_wrong, "not at all", [](Fault& f) { f.sight.no_length = true; });
      add(Family::length_wrong, "not at all, the position neither", [](Fault& f) { f.sight.no_length = f.sight.position_from_nk = true; });
      if (!positional) add(Family::length_wrong, "that of batch 0", [](Fault& f) { f.sight.length_of_batch_zero = true; });
      for (int64_t n : {1, -1})
        for (const bool moves : {false, true})
          if (positional || !moves)
            add(Family::length_wrong, by_keys(n, "further", "earlier") + (moves ? ", the position too" : ""), [&](Fault& f) { f.sight.length_shift = n, f.sight.position_moves = moves; });
    }
    if (p_.mask) {
      using M = Sight::Mask;
      const std::pair<M, const char*> rules[] = {{M::ignored, "not at all"}, {M::inverted, "inverted"}, {M::of_row_zero, "that of row 0"}, {M::of_head_zero, "that of head 0"},
          {M::of_batch_zero, "that of batch 0"}, {M::of_key_before, "that of the key before"}, {M::of_key_after, "that of the next key"}};
      for (const auto& [rule, what] : rules) add(Family::mask_wrong, what, [&](Fault& f) { f.sight.mask = rule; });
    }
    if (any) {
      for (double score : {0.0, -1.0, -10.0, -50.0, -100.0, -1e3, -1e4, -3e4, -65504.0, -1e5, -1e6, -1e9, -3.4028234663852886e38})
        for (const bool added : {false, true}) {
          if (added && score == 0) continue;
          add(Family::masked_scored_finite, (added ? "their own plus " : "") + decimal(score), [&](Fault& f) { f.masked_score = score, f.masked_score_added = added; });
          for (const auto& [kinds, by] : hiders())
            if (!added) add(Family::masked_scored_finite, decimal(score) + " where " + by, [&](Fault& f) { f.masked_score = score, f.scored_kinds = kinds; });
        }
      for (const KeyRule rule : {KeyRule::before_first, KeyRule::after_last})
        add(Family::key_leaked, rule == KeyRule::before_first ? "the one before the first visible" : "the one after the last visible", [&](Fault& f) { f.weighed_key = rule; });
    }
    std::vector<int64_t> units{2, 4, 8, 16, 32, 64, 128};
    for (const Walk& w : walks_) {
      units.push_back(w.tile);
      units.push_back(w.splits);
    }
    std::sort(units.begin(), units.end());
    units.erase(std::unique(units.begin(), units.end()), units.end());
    for (int64_t t : units) {
      if (t <= 1) continue;
      if (positional || p_.key_lengths) {
        add(Family::tail_unmasked, "up to a multiple of " + std::to_string(t), [&](Fault& f) { f.sight.round_end = t; });
        if (t <= p_.shape.nk) add(Family::tail_dropped, "down to a multiple of " + std::to_string(t), [&](Fault& f) { f.sight.cut_end = t; });
      } else if (p_.shape.nk % t != 0) {
        add(Family::tail_dropped, "down to a multiple of " + std::to_string(t), [&](Fault& f) { f.sight.cut_end = t; });
      }
      if (p_.shape.nk % t != 0) add(Family::padding_counted, "up to a multiple of " + std::to_string(t), [&](Fault& f) { f.sight.pad_to = t; });
    }
  }

  void tiles_and_keys() {
    // A tile of one key is a key.
    std::vector<Walk> tiles;
    for (const Walk& w : walks_)
      if (w.tile > 1) tiles.push_back(w);
    const auto walk = [&](Family family, const std::string& what, auto change) {
      if (!tiles.empty()) this->walk(family, what, change, tiles);
    };
    const auto each_tile = [&](Family family, double weight) {
      for (const auto& [which, what] : {std::pair{int64_t{-1}, "the last visible"}, {int64_t{-2}, "the first visible"}})
        walk(family, what, [&](Fault& f) { f.weighed_tile = which, f.weight = weight; });
      for (int64_t n = 0; n < 8; ++n)
        walk(family, "number " + std::to_string(n), [&](Fault& f) { f.weighed_tile = n, f.weight = weight; });
    };
    each_tile(Family::tile_dropped, 0);
    each_tile(Family::tile_doubled, 2);
    using RangeEnds = Fault::RangeEnds;
    for (const auto& [where, what] : {std::pair{RangeEnds::with_tile, "the last, where the row's range ends with a tile"}, {RangeEnds::within_tile, "the last, where the row's range ends within a tile"}})
      for (const auto& [family, weight] : {std::pair{Family::tile_dropped, 0.0}, {Family::tile_doubled, 2.0}})
        walk(family, what, [&](Fault& f) { f.weighed_tile = -1, f.range_ends = where, f.weight = weight; });
    const std::tuple<KeyRule, int64_t, const char*> boundaries[] = {{KeyRule::last_of_split, 0, "the last of the first split"}, {KeyRule::last_of_split, -1, "the last of each split but the last"},
        {KeyRule::first_of_split, 0, "the first of the second split"}, {KeyRule::first_of_split, -1, "the first of each split but the first"}};
    for (const auto& [rule, index, what] : boundaries)
      for (const auto& [family, weight] : {std::pair{Family::key_dropped, 0.0}, {Family::key_doubled, 2.0}})
        each_split(family, what, [&](Fault& f) { f.weighed_key = rule, f.index = index, f.weight = weight; });
    const std::pair<KeyRule, const char*> rules[] = {{KeyRule::first_visible, "the first visible"}, {KeyRule::last_visible, "the last visible"}};
    for (const auto& [rule, what] : rules)
      for (const auto& [family, weight] : {std::pair{Family::key_dropped, 0.0}, {Family::key_doubled, 2.0}})
        add(family, what, [&](Fault& f) { f.weighed_key = rule, f.weight = weight; });
    for (const auto& [rule, what] : {std::pair{KeyRule::first_of_tile, "the first visible of each tile"}, {KeyRule::last_of_tile, "the last visible of each tile"}})
      for (const auto& [family, weight] : {std::pair{Family::key_dropped, 0.0}, {Family::key_doubled, 2.0}})
        walk(family, what, [&](Fault& f) { f.weighed_key = rule, f.weight = weight; });
    this->walk(Family::key_dropped, "those that tie with the maximum of the tiles before", [](Fault& f) { f.weighed_key = KeyRule::tied_with_maximum_before, f.weight = 0; });
    this->walk(Family::key_dropped, "those that tie with the key before for the maximum", [](Fault& f) { f.weighed_key = KeyRule::tied_with_key_before, f.weight = 0; });
    for (int64_t j = 0; j < std::min<int64_t>(p_.shape.nk, 64); ++j) {
      add(Family::key_dropped, "number " + std::to_string(j), [&](Fault& f) { f.weighed_key = KeyRule::key, f.key = j, f.weight = 0; });
      add(Family::key_doubled, "number " + std::to_string(j), [&](Fault& f) { f.weighed_key = KeyRule::key, f.key = j, f.weight = 2; });
      if (p_.causal || p_.window.left || p_.window.right || p_.key_lengths || p_.mask)
        add(Family::key_leaked, "number " + std::to_string(j), [&](Fault& f) { f.weighed_key = KeyRule::key, f.key = j; });
    }
  }

  void splits() {
    if (split_walks_.empty() && !p_.sink) return;
    for (const bool sink : {false, true}) {
      if (sink ? !p_.sink : split_walks_.empty()) continue;
      const char* too = sink ? ", with the sink too" : "";
      const auto merge = [&](Family family, const char* what, Merge how, double number = 0, std::optional<Narrow> format = {}) {
        const auto change = [&](Fault& f) { f.merge = how, f.number = number, f.factor_format = format, f.merges_sink = sink; };
        if (split_walks_.empty()) add(family, std::string(what) + too, change);
        else each_split(family, std::string(what) + too, change);
      };
      merge(Family::merge_factor_wrong, "each by the other's", Merge::swapped);
      merge(Family::merge_factor_wrong, "powers of 2 for powers of e", Merge::power, kLn2);
      merge(Family::merge_factor_wrong, "log2 e twice", Merge::power, 1 / kLn2);
      merge(Family::merge_factor_wrong, "inverted", Merge::power, -1);
      merge(Family::merge_factor_wrong, "squared", Merge::power, 2);
      merge(Family::merge_factor_wrong, "scaled once more", Merge::power, p_.scale);
      merge(Family::merge_factor_wrong, "1 for the first", Merge::first_not_rescaled);
      merge(Family::merge_factor_wrong, "1 for the second", Merge::second_not_rescaled);
      merge(Family::merge_rescale_missing, "", Merge::no_rescale);
      // Of one state and the sink, a state left out or doubled is the sink's affair.
      if (split_walks_.empty()) continue;
      merge(Family::merge_state_dropped, "the second", Merge::first_only);
      merge(Family::merge_state_dropped, "the first", Merge::second_only);
      merge(Family::merge_state_dropped, "that of the lower maximum", Merge::larger_only);
      merge(Family::merge_state_dropped, "the second twice", Merge::second_twice);
      merge(Family::merge_state_dropped, "the first twice", Merge::first_twice);
      for (const auto& [format, what] : {std::pair{Narrow::f16, "f16"}, {Narrow::bf16, "bf16"}}) {
        merge(Family::rescale_imprecise, (std::string(what) + ", in merges").c_str(), Merge::narrow_both, 0, format);
        merge(Family::rescale_imprecise, (std::string(what) + ", the second's in merges").c_str(), Merge::narrow_second, 0, format);
      }
    }
    if (split_walks_.empty()) return;
    each_split(Family::merge_empty_nan, "", [](Fault& f) { f.merge = Merge::empty_nan; });
    int64_t most = 0;
    for (const Walk& w : split_walks_) most = std::max(most, w.splits);
    for (int64_t n = 0; n < most; ++n)
      each_split(Family::split_dropped, "number " + std::to_string(n), [&](Fault& f) { f.dropped_split = n; });
    each_split(Family::merge_unweighted, "their mean", [](Fault& f) { f.merge = Merge::mean; });
    each_split(Family::merge_unweighted, "their mean, empty ones included", [](Fault& f) { f.merge = Merge::mean, f.index = 1; });
    each_split(Family::merge_unweighted, "their sum", [](Fault& f) { f.merge = Merge::sum; });
    for (const double c : {0.0, -1e4, -65504.0}) {
      each_split(Family::merge_empty_counted, "with LSE " + decimal(c), [&](Fault& f) { f.merge = Merge::empty_counted, f.number = c; });
      each_split(Family::merge_empty_counted, "without weight, its maximum " + decimal(c), [&](Fault& f) { f.merge = Merge::empty_counted, f.number = c, f.index = 2; });
    }
    each_split(Family::merge_empty_counted, "with the weight of the maximum", [](Fault& f) { f.merge = Merge::empty_counted, f.index = 1; });
  }

  void end_of_row() {
    add(Family::not_divided, "", [](Fault& f) { f.division = Division::none; });
    add(Family::divided_wrongly, "exp(LSE - m), LSE rounded first", [](Fault& f) { f.division = Division::by_rounded_lse; });
    const std::pair<Division, const char*> divisions[] = {{Division::by_count, "the number of visible keys"}, {Division::by_last_tile, "the last tile's sum"},
        {Division::by_maximum_sum, "1 + l"}, {Division::twice, "the square of l"}, {Division::sqrt, "the square root of l"}};
    for (double n : {1e-8, 1e-6, 1e-5, 1e-3}) add(Family::divided_wrongly, "l + " + decimal(n), [&](Fault& f) { f.division = Division::plus, f.number = n; });
    for (double n : {64.0, 256.0, 1024.0, 65504.0}) add(Family::divided_wrongly, "l, at most " + decimal(n), [&](Fault& f) { f.division = Division::at_most, f.number = n; });
    for (const auto& [format, what] : {std::pair{Narrow::f16, "f16"}, {Narrow::bf16, "bf16"}, {Narrow::twelve_bits, "12 bits"}})
      for (const bool cut : {true, false})
        add(Family::divided_wrongly, std::string("the reciprocal of l in ") + what + (cut ? ", cut" : ""), [&](Fault& f) { f.division = Division::narrow_reciprocal, f.output_format = format, f.index = 2, f.truncated = cut; });
    for (const auto& [rule, what] : divisions) walk(Family::divided_wrongly, what, [&](Fault& f) { f.division = rule; });
    if (p_.sink) {
      const auto sink = [&](Family family, const char* what, SinkRule rule, int64_t index = 0) { add(family, what, [&](Fault& f) { f.sink = rule, f.index = index; }); };
      sink(Family::sink_missing, "", SinkRule::missing);
      sink(Family::sink_missing, "in O", SinkRule::in_lse_only);
      sink(Family::sink_repeated, "twice", SinkRule::twice);
      each_split(Family::sink_repeated, "once for each split", [](Fault& f) { f.sink = SinkRule::per_split; });
      sink(Family::sink_wrong, "exp(sink) instead of exp(sink - m)", SinkRule::unscaled);
      sink(Family::sink_wrong, "as 1", SinkRule::as_one);
      sink(Family::sink_wrong, "as 1 beside the larger maximum", SinkRule::as_one, 1);
      sink(Family::sink_wrong, "multiplied by the scale", SinkRule::scaled);
      sink(Family::sink_wrong, "that of head 0", SinkRule::of_head_zero);
      sink(Family::sink_wrong, "negated", SinkRule::negated);
      sink(Family::sink_wrong, "that of the key head's number", SinkRule::of_key_head);
      sink(Family::sink_wrong, "-inf as 0", SinkRule::infinite_is_zero);
      sink(Family::sink_wrong, "with the first key's value", SinkRule::with_first_value);
      if (p_.softcap > 0) sink(Family::sink_wrong, "through the softcap", SinkRule::capped);
      for (const auto& [factor, what] : {std::pair{kLn2, "times ln 2: log2 e is missing"}, {1 / kLn2, "times log2 e"}})
        add(Family::sink_wrong, what, [&](Fault& f) { f.sink = SinkRule::times, f.number = factor; });
      add(Family::lse_without_sink, "", [](Fault& f) { f.lse = LseRule::without_sink; });
    }
    const std::tuple<Family, const char*, LseRule> rules[] = {{Family::lse_without_maximum, "", LseRule::without_maximum},
        {Family::lse_base_two, "log2 instead of ln", LseRule::base_two}, {Family::lse_base_two, "m in base 2, ln l", LseRule::maximum_base_two},
        {Family::lse_base_two, "m + log2 l", LseRule::sum_base_two}, {Family::lse_base_two, "times ln 2 though it is natural", LseRule::times_ln_two}, {Family::lse_wrong, "m without ln l", LseRule::maximum_only},
        {Family::lse_wrong, "negated", LseRule::negated}, {Family::lse_wrong, "m - ln l", LseRule::minus_log}, {Family::lse_wrong, "l itself", LseRule::of_sum_only},
        {Family::lse_wrong, "0", LseRule::zero}};
    for (const auto& [family, what, rule] : rules) add(family, what, [&](Fault& f) { f.lse = rule; });
    const std::tuple<const char*, double, double> parts[] = {{"scale m + ln l", p_.scale, 1}, {"m + scale ln l", 1, p_.scale}, {"scale (m + ln l)", p_.scale, p_.scale}, {"-m + ln l", -1, 1}};
    for (const auto& [what, of_m, of_l] : parts)
      if (of_m != 1 || of_l != 1) add(Family::lse_wrong, what, [&](Fault& f) { f.lse = LseRule::affine, f.lse_of_m = of_m, f.lse_of_l = of_l; });
    walk(Family::lse_wrong, "that of the last tile", [](Fault& f) { f.lse = LseRule::of_last_tile; });
    const std::tuple<Family, const char*, EmptyRow> empties[] = {{Family::empty_row_nan, "", EmptyRow::nan}, {Family::empty_row_nan, "in O only", EmptyRow::only_o_nan},
        {Family::empty_row_filled, "the mean of V", EmptyRow::mean}, {Family::empty_row_filled, "the mean of V", EmptyRow::mean_lse},
        {Family::empty_row_filled, "the first value", EmptyRow::first_value}, {Family::empty_row_filled, "", EmptyRow::anything}, {Family::empty_row_lse, "0", EmptyRow::lse_zero}, {Family::empty_row_lse, "NaN", EmptyRow::lse_nan},
        {Family::empty_row_lse, "+inf", EmptyRow::lse_infinity}, {Family::empty_row_lse, "a finite number", EmptyRow::lse_lowest}};
    for (const auto& [family, what, rule] : empties) add(family, what, [&](Fault& f) { f.empty_row = rule; });
    walk(Family::masked_value_leaks, "of what lies behind the last key in its tile, which is NaN", [](Fault& f) { f.special = Special::padding_leaks; });
    if (non_finite(p_.v)) {
      walk(Family::masked_value_leaks, "", [](Fault& f) { f.special = Special::masked_value_leaks; });
      add(Family::value_swallowed, "", [](Fault& f) { f.special = Special::value_swallowed; });
    }
    if (non_finite(p_.k) || non_finite(p_.q) || (p_.bias && non_finite(*p_.bias))) {
      add(Family::masked_score_leaks, "", [](Fault& f) { f.special = Special::masked_score_leaks; });
      add(Family::nan_swallowed, "", [](Fault& f) { f.special = Special::nan_swallowed; });
    }
  }

  void addresses() {
    const Shape& s = p_.shape;
    if (s.hk > 1) {
      const std::pair<HeadRule, const char*> rules[] = {{HeadRule::modulo, "h mod Hk for h / (Hq / Hk)"}, {HeadRule::zero, "head 0"}, {HeadRule::next, "the next head"},
          {HeadRule::clamped, "h for h / (Hq / Hk)"}, {HeadRule::last, "the last head"}, {HeadRule::divided, "h / Hk for h / (Hq / Hk)"}};
      for (const auto& [rule, what] : rules) {
        add(Family::wrong_key_head, what, [&](Fault& f) { f.key_head = f.value_head = rule; });
        add(Family::wrong_key_head, std::string(what) + ", V only", [&](Fault& f) { f.value_head = rule; });
        add(Family::wrong_key_head, std::string(what) + ", K only", [&](Fault& f) { f.key_head = rule; });
      }
    }
    if (s.hq > 1) add(Family::wrong_row, "the query of head 0", [](Fault& f) { f.head_zero_query = true; });
    if (s.b > 1) {
      add(Family::wrong_batch, "K and V of batch 0", [](Fault& f) { f.batch_zero_keys = true; });
      add(Family::wrong_batch, "the query of batch 0", [](Fault& f) { f.batch_zero_query = true; });
    }
    if (s.nq > 1)
      for (int64_t n : {1, -1}) add(Family::wrong_row, n > 0 ? "the next row's query" : "the query of the row before", [&](Fault& f) { f.row_shift = n; });
    for (int64_t n : {1, -1}) add(Family::value_row_shifted, n > 0 ? "the next key's" : "that of the key before", [&](Fault& f) { f.value_shift = n; });
    const std::pair<PlaceRule, const char*> places[] = {{PlaceRule::next_head, "the next head's"}, {PlaceRule::head_zero, "head 0's"}, {PlaceRule::row_zero, "row 0's"},
        {PlaceRule::next_row, "the next row's"}, {PlaceRule::row_before, "the row before's"}, {PlaceRule::batch_zero, "batch 0's"}};
    for (const auto& [rule, what] : places)
      for (const bool lse_stays : {false, true}) {
        if ((rule == PlaceRule::next_head || rule == PlaceRule::head_zero) ? s.hq < 2 : rule == PlaceRule::batch_zero ? s.b < 2 : s.nq < 2) continue;
        add(Family::wrong_output_place, std::string(what) + (lse_stays ? ", LSE right" : ""), [&](Fault& f) { f.place = rule, f.lse_stays = lse_stays; });
      }
    if (s.hq > 1 && s.nq > 1) add(Family::wrong_output_place, "LSE as [B, Nq, Hq]", [](Fault& f) { f.lse_transposed = true; });
    if (s.dv > s.d) add(Family::wrong_output_place, "columns past D are 0", [](Fault& f) { f.columns_past_d_zero = true; });
    add(Family::ignores_inputs, "zeros", [](Fault& f) { f.constant = Constant::zero; });
    add(Family::ignores_inputs, "the mean of V over the visible keys", [](Fault& f) { f.constant = Constant::mean; });
    add(Family::ignores_inputs, "the mean of V", [](Fault& f) { f.constant = Constant::mean_of_all; });
    add(Family::ignores_inputs, "NaN", [](Fault& f) { f.constant = Constant::nan; });
    add(Family::ignores_inputs, "V of the first key", [](Fault& f) { f.constant = Constant::first; });
  }

  void formats() {
    for (double n : {0x1p-24, 0x1p-20, 0x1p-14, 0x1p-10}) {
      walk(Family::exponential_cut, "at least " + decimal(n), [&](Fault& f) { f.exp = ExpRule::floor, f.number = n; });
      walk(Family::exponential_cut, "at least " + decimal(n) + ", for masked keys too", [&](Fault& f) { f.exp = ExpRule::floor_masked_too, f.number = n; });
    }
    walk(Family::exponential_cut, "2^x wraps below 2^-126", [&](Fault& f) { f.exp = ExpRule::wraps; });
    for (double n : {-8.0, -10.0, -16.0, -20.0, -32.0}) walk(Family::exponential_cut, "0 below " + decimal(n), [&](Fault& f) { f.exp = ExpRule::flushed_below, f.number = n; });
    for (double n : {0x1p-16, 0x1p-12, 0x1p-10, 0x1p-8})
      for (const double sign : {1.0, -1.0}) walk(Family::exponential_imprecise, "by " + decimal(sign * n), [&](Fault& f) { f.exp = ExpRule::biased, f.number = sign * n; });
    for (const auto& [format, what] : {std::pair{Narrow::f16, "f16"}, {Narrow::bf16, "bf16"}})
      for (const bool cut : {false, true}) {
        add(Family::lse_in_low_precision, std::string(what) + (cut ? ", cut" : ""), [&](Fault& f) { f.lse_format = format, f.truncated = cut; });
        if (p_.type != DType::bf16) add(Family::output_in_low_precision, std::string("the result in ") + what + (cut ? ", cut" : ""), [&](Fault& f) { f.output_format = format, f.index = 2, f.truncated = cut; });
      }
    if (p_.type != DType::f32)
      add(Family::output_in_low_precision, "the result cut", [&](Fault& f) { f.output_format = p_.type == DType::f16 ? Narrow::f16 : Narrow::bf16, f.index = 2, f.truncated = true; });
    const auto solves = [&](Family family, const char* what, Transform t) { add(family, what, [&](Fault& f) { f.transform = t; }); };
    solves(Family::inputs_in_low_precision, "V in bf16", Transform::v_bf16);
    solves(Family::inputs_in_low_precision, "Q times scale in the input type", Transform::q_scaled);
    if (p_.type == DType::f32) {
      solves(Family::inputs_in_low_precision, "Q and K in tf32, cut", Transform::tf32);
      solves(Family::inputs_in_low_precision, "Q and K in f16", Transform::f16_inputs);
    }
    if (p_.type != DType::bf16) solves(Family::inputs_in_low_precision, "Q and K in bf16", Transform::bf16_inputs);
    solves(Family::inputs_in_low_precision, "subnormals flushed", Transform::flushed);
    solves(Family::inputs_in_low_precision, "clamped to the range of f16", Transform::clamped);
    solves(Family::scale_wrong, "rounded to bf16", Transform::scale_bf16);
    solves(Family::scale_wrong, "rounded to f16", Transform::scale_f16);
    solves(Family::scale_wrong, "0 taken for the default", Transform::zero_scale_default);
    solves(Family::scale_wrong, "1/sqrt(Dv) whatever scale is given", Transform::scale_of_value_width);
    solves(Family::exponential_base, "log2 e rounded to f16", Transform::log2e_f16);
    solves(Family::bias_wrong, "rounded to bf16", Transform::bias_bf16);
    solves(Family::bias_wrong, "without log2 e", Transform::bias_times_log2e);
    solves(Family::bias_wrong, "read as if packed", Transform::bias_packed);
    solves(Family::mask_wrong, "rows and keys exchanged", Transform::mask_transposed);
    solves(Family::mask_wrong, "that of the key head's number", Transform::mask_of_key_head);
    solves(Family::mask_wrong, "head and batch exchanged", Transform::mask_exchanged);
    solves(Family::mask_wrong, "read as if packed", Transform::mask_packed);
    solves(Family::length_wrong, "the longest of all batches", Transform::longest_length);
    solves(Family::length_wrong, "0 taken for none", Transform::zero_length_full);
    solves(Family::window_wrong, "a side of 0 taken for none", Transform::no_window_where_zero);
    solves(Family::wrong_batch, "V of batch 0", Transform::batch_zero_values);
    const std::pair<Transform, const char*> strides[] = {{Transform::q_packed, "Q as if packed"}, {Transform::k_packed, "K as if packed"}, {Transform::v_packed, "V as if packed"},
        {Transform::kv_packed, "K and V as if packed"}, {Transform::k_by_v_strides, "K by V's strides"}, {Transform::v_by_k_strides, "V by K's strides"},
        {Transform::kv_exchanged, "K and V with heads and rows exchanged"}, {Transform::q_exchanged, "Q with heads and rows exchanged"}, {Transform::no_offsets, "without the offset"},
        {Transform::k_rows_cut_to_16_bytes, "rows of K from an address cut to 16 bytes"}, {Transform::kv_rows_cut_to_16_bytes, "rows of K and V from an address cut to 16 bytes"},
        {Transform::k_block_of_16_repeated, "K of the block before in a last block of 16 keys that is not full"},
        {Transform::k_block_of_32_repeated, "K of the block before in a last block of 32 keys that is not full"},
        {Transform::k_block_of_64_repeated, "K of the block before in a last block of 64 keys that is not full"},
        {Transform::k_block_of_128_repeated, "K of the block before in a last block of 128 keys that is not full"},
        {Transform::kv_offsets_of_15_bits, "rows of K and V by an offset that wraps at 2^15 elements"},
        {Transform::kv_offsets_of_16_bits, "rows of K and V by an offset that wraps at 2^16 elements"}};
    for (const auto& [transform, what] : strides) solves(Family::wrong_strides, what, transform);
    const std::pair<Narrow, const char*> narrow[] = {{Narrow::bf16, "bf16"}, {Narrow::f16, "f16"}, {Narrow::e4m3, "e4m3"}, {Narrow::tf32, "tf32"}};
    for (const auto& [format, what] : narrow)
      for (const bool cut : {false, true}) {
        const std::string how = std::string(what) + (cut ? ", cut" : "");
        for (const bool both : {false, true})
          walk(Family::weights_in_low_precision, how + (both ? ", in l too" : ""), [&](Fault& f) { f.weight_format = format, f.truncated = cut, f.narrow_sum_of_weights = both; });
        for (const auto& [each, which] : {std::pair{0, "the dot product"}, {1, "dot product and score"}, {2, "the score"}})
          add(Family::scores_in_low_precision, std::string(which) + " in " + how, [&](Fault& f) { f.score_format = format, f.truncated = cut, f.index = each; });
        for (int64_t each : {0, 1}) {
          if (format == Narrow::e4m3) continue;
          if (each == 0) walk(Family::sum_in_low_precision, how, [&](Fault& f) { f.sum_format = format, f.truncated = cut; });
          walk(Family::output_in_low_precision, how + (each ? ", each term" : ""), [&](Fault& f) { f.output_format = format, f.truncated = cut, f.index = each; });
        }
      }
    for (const bool saturates : {false, true})
      add(Family::output_in_low_precision, std::string("sums beyond the input type's range are ") + (saturates ? "its largest number" : "infinite"), [&](Fault& f) {
        f.sums_in_input_type = true;
        f.saturates = saturates;
      });
    for (double most : {8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0})
      walk(Family::sum_in_low_precision, "what one tile adds is at most " + decimal(most), [&](Fault& f) { f.largest_tile_sum = most; });
    // P times 2^8 in e4m3 ends at 448; it gets there where the maximum lags.
    for (double lag : {kLn2, 2 * kLn2, 4 * kLn2, 8 * kLn2})
      walk(Family::weights_in_low_precision, "at most 448 / 256, the maximum lagging by " + decimal(lag), [&](Fault& f) {
        f.largest_weight = 448.0 / 256;
        f.fold = Fold::lazy_known;
        f.number = lag;
      });
    for (double e : {0x1p-12, 0x1p-8, 0x1p-5}) add(Family::sum_in_low_precision, "off by up to " + decimal(e) + ", as LSE shows", [&](Fault& f) { f.sum_as_lse_shows = true, f.number = e; });
    for (double e : {0x1p-18, 0x1p-14, 0x1p-11, 0x1p-8, 0x1p-6}) add(Family::exponential_imprecise, "up to " + decimal(e), [&](Fault& f) { f.exp_error = e; });
  }

 private:
  const Problem& p_;
  const std::vector<Walk>& walks_;
  Hanging which_;
  std::vector<Walk> split_walks_;
  std::vector<Fault> list_;
};

}  // namespace

std::vector<Fault> candidates(const Problem& p, const std::vector<Walk>& walks, Hanging which) {
  List list(p, walks, which);
  list.recurrence();
  list.scores();
  list.masks();
  list.tiles_and_keys();
  list.splits();
  list.end_of_row();
  list.addresses();
  list.formats();
  std::vector<Fault> all = list.take();
  std::stable_sort(all.begin(), all.end(), [](const Fault& a, const Fault& b) { return a.family < b.family; });
  return all;
}

}  // namespace attest
