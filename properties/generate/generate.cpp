#include "properties/generate/generate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "properties/generate/embed.h"
#include "properties/generate/floats.h"
#include "properties/generate/layouts.h"
#include "properties/generate/masks.h"
#include "properties/generate/scores.h"
#include "properties/generate/shapes.h"
#include "properties/generate/values.h"
#include "reference/visible.h"

namespace attest {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Scores with a visible key of NaN or an infinity.
bool plants_score(Regime r) {
  return r == Regime::nan_score || r == Regime::pos_inf_score || r == Regime::neg_inf_score;
}

// Chances in 16 that an axis leaves its simplest regime, when nothing is pinned there.
constexpr uint32_t departs(Axis a) {
  switch (a) {
    case Axis::score:
      return 15;
    case Axis::mask:
      return 10;
    case Axis::scale:
      return 8;
    case Axis::softcap:
      return 3;
    case Axis::sink:
      return 3;
    case Axis::values:
      return 9;
    case Axis::payload:
      return 6;
    case Axis::layout:
      return 4;
    case Axis::shape:
      return 6;
  }
  return 0;
}

// The regime of each axis.
using Plan = std::array<Regime, kAxes>;
Regime& of(Plan& plan, Axis a) { return plan[static_cast<size_t>(a)]; }
Regime of(const Plan& plan, Axis a) { return plan[static_cast<size_t>(a)]; }

// Regimes that a recipe and a target leave, which can be computed once and for all.
bool allowed(const Target& target, const Recipe& recipe, Regime r) {
  if (!offers(target.features & ~recipe.never_features, r)) return false;
  if (traits_of(r) & recipe.never_traits) return false;
  if (std::find(recipe.never.begin(), recipe.never.end(), r) != recipe.never.end()) return false;
  if (recipe.embedded && axis_of(r) == Axis::score && !(traits_of(r) & kEmbedded)) return false;
  const bool needs_keys = recipe.min_tiles > 0 || recipe.min_keys > 1;
  if (needs_keys && (r == Regime::no_keys || r == Regime::one_key)) return false;
  if (r == Regime::no_keys && recipe.min_keys > 0 && recipe.never_traits & kSpoils) return false;
  if (r == Regime::decode && recipe.min_queries > 1) return false;
  if (target.conventions.nonfinite_v_leaks && r == Regime::non_finite_payload) return false;
  return true;
}

RegimeSet all_allowed(const Target& target, const Recipe& recipe) {
  RegimeSet set;
  for (Regime r : all_regimes()) set.set(static_cast<size_t>(r), allowed(target, recipe, r));
  return set;
}

// Hides keys from every row of a head, which a payload at masked keys needs, whatever the contents.
constexpr Regime kHidesForSure = Regime::trailing_tiles_masked;

Plan draw_plan(Choices& c, const RegimeSet& allowed_regimes, const Recipe& recipe, bool plain) {
  Plan plan;
  RegimeSet left = allowed_regimes;  // what goes with everything that is fixed so far
  std::array<bool, kAxes> fixed{};
  const auto fix = [&](Regime r) {
    of(plan, axis_of(r)) = r;
    fixed[static_cast<size_t>(axis_of(r))] = true;
    left &= compatible_with(r);
  };
  bool payload = false;
  for (Regime pin : recipe.pins)
    if (allowed_regimes.test(static_cast<size_t>(pin))) {
      fix(pin);
      payload |= axis_of(pin) == Axis::payload && pin != Regime::plain_payload;
    }
  for (int a = 0; a < kAxes; ++a) {
    if (fixed[static_cast<size_t>(a)]) continue;
    const auto axis = regimes_of(static_cast<Axis>(a));
    std::array<Regime, kRegimes> fitting;
    size_t count = 0;
    for (Regime r : axis)
      if (left.test(static_cast<size_t>(r))) fitting[count++] = r;
    Regime chosen = count > 0 ? fitting[0] : axis[0];
    if (plain) {
      if (payload && axis_of(chosen) == Axis::mask && left.test(static_cast<size_t>(kHidesForSure)))
        chosen = kHidesForSure;
    } else if (count > 1 && c.chance(departs(static_cast<Axis>(a)), 16)) {
      chosen = fitting[1 + c.below(count - 1)];
    }
    fix(chosen);
  }
  return plan;
}

class Maker {
 public:
  Maker(Choices& c, const Target& target, const Recipe& recipe, const Plan& plan)
      : c_(c), target_(target), recipe_(recipe), plan_(plan), features_(target.features & ~recipe.never_features) {}

  Generated make() {
    draw_type_and_choice();
    draw_sizes();
    set_scale();
    MaskWishes wishes{tile_, features_, visible_tiles(), !is(Axis::payload, Regime::plain_payload)};
    Choices fill = c_.fork();
    apply_mask(p_, of(plan_, Axis::mask), wishes, fill);
    set_softcap();
    set_sink();
    scores_met_ = fill_all_scores(fill);
    fill_values(p_, of(plan_, Axis::values), tile_, fill);
    const bool value_planted = of(plan_, Axis::values) != Regime::non_finite_value || plant_value(fill);
    const bool payload_placed = place_payload(fill);
    apply_layout(p_, of(plan_, Axis::layout), (features_ & ATTEST_UNALIGNED) != 0, c_);

    Generated g;
    for (int a = 0; a < kAxes; ++a)
      if (met(static_cast<Axis>(a), value_planted, payload_placed)) g.regimes.push_back(plan_[static_cast<size_t>(a)]);
    p_.origin = {std::string(name_of(of(plan_, Axis::score))), std::string(name_of(of(plan_, Axis::values))),
                 std::string(name_of(of(plan_, Axis::mask))), ""};
    g.problem = std::move(p_);
    g.tile = tile_;
    return g;
  }

 private:
  bool is(Axis axis, Regime r) const { return of(plan_, axis) == r; }
  uint32_t traits() const {  // of the whole plan
    uint32_t all = 0;
    for (Regime r : plan_) all |= traits_of(r);
    return all;
  }

  // Tiles that the score pattern needs to see.
  int64_t visible_tiles() const {
    const uint32_t t = traits_of(of(plan_, Axis::score));
    return t & kThreeTiles ? 3 : t & kTwoTiles ? 2 : 1;
  }

  void draw_type_and_choice() {
    type_ = recipe_.type ? *recipe_.type : c_.pick(target_.types);
    std::vector<int64_t> tiles = target_.tiles;
    if (is(Axis::score, Regime::ties_within_tile)) std::erase(tiles, 1);  // a tie takes two keys
    if (!tiles.empty()) {
      tile_ = c_.pick(tiles);
      if (recipe_.choose_tile || c_.below(4) != 3)
        choice_.tile_keys = tile_;
      else if (target_.own_tile > 1)
        tile_ = target_.own_tile;
    } else if (target_.own_tile > 1) {
      tile_ = target_.own_tile;
    } else {
      constexpr int64_t kUsual[] = {64, 128, 32, 16};
      tile_ = c_.pick(kUsual);
    }
    if (!target_.orders.empty() && c_.chance(8, 16)) choice_.order = c_.pick(target_.orders);
    if (!target_.splits.empty() && c_.chance(6, 16)) choice_.splits = c_.pick(target_.splits);
    if (!target_.p_types.empty() && c_.chance(5, 16)) {
      // P is kept in f32 or rounded to what the tensor cores take beside V.
      const DType p_type = c_.pick(target_.p_types);
      if (p_type == DType::f32 || p_type == type_) choice_.p_type = p_type;
    }
  }

  void draw_sizes() {
    ShapeWishes w;
    w.type = type_;
    w.tile = tile_;
    w.aligned = !(features_ & ATTEST_UNALIGNED);
    w.may_group = (features_ & ATTEST_GROUPED_HEADS) != 0;
    w.work = recipe_.work;
    w.most.nk = recipe_.max_keys;
    w.most.d = w.most.dv = recipe_.max_width;
    w.least.b = std::max<int64_t>(recipe_.min_batches, 1);
    w.least.hk = std::max<int64_t>(recipe_.min_key_heads, 1);
    w.least.nq = std::max<int64_t>(recipe_.min_queries, 1);
    int64_t tiles = std::max(recipe_.min_tiles, visible_tiles());
    w.least.nk = std::max<int64_t>(recipe_.min_keys, 1);
    const Regime mask = of(plan_, Axis::mask);
    if (mask == Regime::leading_tiles_masked || mask == Regime::trailing_tiles_masked)
      tiles = std::max(tiles, visible_tiles() + 1);
    if (mask == Regime::middle_tiles_masked) tiles = std::max(tiles, std::max<int64_t>(3, visible_tiles() + 1));
    if (tiles > 1) w.least.nk = std::max(w.least.nk, (tiles - 1) * tile_ + 1);
    if (traits_of(of(plan_, Axis::score)) & kTwoKeys) w.least.nk = std::max<int64_t>(w.least.nk, 2);
    if (is(Axis::score, Regime::needle_tile_last_key)) w.least.nk = std::max(w.least.nk, tile_ + 1);
    if (is(Axis::payload, Regime::non_finite_payload) || is(Axis::payload, Regime::loud_payload))
      w.least.nk = std::max<int64_t>(w.least.nk, 2);
    if (is(Axis::score, Regime::common_offset)) w.least.d = 2;
    if (is(Axis::score, Regime::dense_cancelling)) w.least.d = 2;
    if (is(Axis::values, Regime::random_wide))
      w.least.dv = std::min<int64_t>({32, recipe_.max_width, target_.max_width});
    if (mask == Regime::length_zero && (traits_of(of(plan_, Axis::score)) & (kPattern | kNonFinite)))
      w.least.b = std::max<int64_t>(w.least.b, 2);
    if (mask == Regime::fully_masked_row && (traits() & (kPattern | kNonFinite)))
      w.least.nq = std::max<int64_t>(w.least.nq, 2);
    if (is(Axis::layout, Regime::broadcast_keys)) (c_.bits(1) ? w.least.b : w.least.hk) = 2;
    switch (of(plan_, Axis::shape)) {
      case Regime::decode:
        w.most.nq = 1;
        break;
      case Regime::grouped_heads:
        w.grouped = true;
        break;
      case Regime::more_queries_than_keys:
        w.more_queries = true;
        w.most.nk = std::max(std::min<int64_t>(w.most.nk, 200), w.least.nk);
        break;
      case Regime::one_key:
        w.most.nk = 1;
        break;
      case Regime::many_heads:
        w.least.b = std::max<int64_t>(w.least.b, 2), w.least.hk = std::max<int64_t>(w.least.hk, 2);
        break;
      default:
        break;
    }
    Shape s = draw_shape(c_, target_, w);
    if (mask == Regime::no_keys) s.nk = 0;
    if (is(Axis::shape, Regime::empty_output)) {
      switch (c_.below(3)) {
        case 0:
          s.nq = 0;
          break;
        case 1:
          s.b = 0;
          break;
        default:
          s.hq = s.hk = 0;
          break;
      }
    }
    p_ = Problem::make(s, type_);
    p_.choice = choice_;
  }

  // 2^lo to 2^(hi + 1), any exponent alike.
  double draw_sized(int lo, int hi) {
    const int exponent = static_cast<int>(c_.between(lo, hi));
    return std::ldexp(1.0 + c_.unit(), exponent);
  }

  void set_scale() {
    const double natural = default_scale(p_.shape.d);
    const bool f16 = type_ == DType::f16;
    double scale = natural;
    switch (of(plan_, Axis::scale)) {
      case Regime::unit_scale:
        scale = 1;
        break;
      case Regime::negative_scale: {
        constexpr double kFactors[] = {1, 0.25, 0.37, 2};
        scale = c_.bits(1) ? -natural : -c_.pick(kFactors);
        break;
      }
      case Regime::zero_scale:
        scale = c_.bits(1) ? -0.0 : 0.0;
        break;
      case Regime::tiny_scale:
        scale = draw_sized(f16 ? -12 : -60, f16 ? -7 : -10);
        break;
      case Regime::huge_scale:
        scale = draw_sized(5, f16 ? 19 : 39);
        break;
      default:
        break;
    }
    p_.scale = static_cast<float>(scale);
    // Large enough that f16 products can leave the range at all.
    if (is(Axis::score, Regime::out_of_range) && f16) p_.scale = static_cast<float>(std::copysign(0x1p100, scale));
  }

  void set_softcap() {
    switch (of(plan_, Axis::softcap)) {
      case Regime::softcap_large: {
        constexpr float kCaps[] = {0x1p12f, 0x1p16f, 1e5f, 0x1p20f};
        p_.softcap = c_.pick(kCaps);
        return;
      }
      case Regime::softcap_small: {
        constexpr float kCaps[] = {1, 5, 30, 50, 0.3f};
        p_.softcap = c_.pick(kCaps);
        return;
      }
      case Regime::softcap_saturated:
        p_.softcap = static_cast<float>(draw_sized(-40, -18));
        return;
      default:
        return;
    }
  }

  void set_sink() {
    const Regime regime = of(plan_, Axis::sink);
    if (regime == Regime::no_sink) return;
    constexpr double kDominating[] = {60, 120, 300, 1e4, 1e30};
    constexpr double kNegligible[] = {-60, -110, -300, -1e4, -0x1.fffffep127};
    p_.sink.emplace();
    for (int64_t h = 0; h < p_.shape.hq; ++h) {
      double sink = 3 * c_.normal();
      if (regime == Regime::sink_dominating) sink = c_.pick(kDominating);
      if (regime == Regime::sink_negligible) sink = c_.pick(kNegligible);
      if (regime == Regime::sink_minus_infinity && (h == 0 || c_.below(3) != 2)) sink = -kInfinity;
      p_.sink->push_back(static_cast<float>(sink));
    }
  }

  bool fill_all_scores(Choices& fill) {
    if (p_.shape.rows() == 0 || p_.shape.nk == 0) return false;
    const Regime score = of(plan_, Axis::score);
    if (is(Axis::mask, Regime::bias_scores)) return bias_scores(score, fill);
    if (plants_score(score)) return plant_scores(score, fill);
    if (traits_of(score) & kEmbedded) return p_.scale == 0 ? all_equal(fill) : embed_scores(score, fill);
    return dense_scores(score, fill);
  }

  // Scale 0: K may be anything moderate.
  bool all_equal(Choices& fill) {
    normals(p_.q, 1, fill);
    normals(p_.k, 1, fill);
    return some_row_sees_a_key();
  }

  bool some_row_sees_a_key() {
    std::vector<int64_t> keys;
    for (int64_t b = 0; b < p_.shape.b; ++b)
      for (int64_t h = 0; h < p_.shape.hq; ++h)
        for (int64_t i = 0; i < p_.shape.nq; ++i) {
          live_keys(p_, target_.conventions, b, h, i, keys);
          if (!keys.empty()) return true;
        }
    return false;
  }

  bool embed_scores(Regime score, Choices& fill) {
    const Shape& s = p_.shape;
    const bool offset = score == Regime::common_offset;
    const int64_t rows_per_key_head = s.hq / s.hk * s.nq;
    const int64_t columns = std::clamp<int64_t>(offset ? s.d - 1 : s.d, 1, rows_per_key_head);
    const double type_limit = std::fabs(p_.scale) * largest_finite(type_) * (type_ == DType::f16 ? 0x1p14 : 1);
    const double reach = reach_of(score, std::min(0x1p100, type_limit / 4));
    const Embedding e = embed(p_, columns, reach, fill);
    if (s.d > columns && fill.bits(1)) fill_idle_columns(columns, fill);
    if (offset && s.d > 1) add_offset(s.d - 1, fill);

    std::vector<double> scores(static_cast<size_t>(s.nk));
    std::vector<int64_t> keys;
    const bool only_first = is(Axis::layout, Regime::broadcast_keys);  // the other heads will read head 0
    bool met = false;
    for (int64_t b = 0; b < s.b; ++b)
      for (int64_t g = 0; g < s.hk; ++g)
        for (int64_t col = 0; col < columns; ++col) {
          const int64_t h = g * (s.hq / s.hk) + col / s.nq, i = col % s.nq;  // the first row that reads it
          live_keys(p_, target_.conventions, b, h, i, keys);
          const RowView row{tile_, keys, type_, e.unit, !(recipe_.never_traits & kWild)};
          const bool filled = fill_scores(score, row, fill, scores);
          if (!only_first || (b == 0 && g == 0)) met |= filled;
          for (int64_t j = 0; j < s.nk; ++j) e.set_score(p_, b, g, j, col, scores[static_cast<size_t>(j)]);
        }
    return met;
  }

  // Columns of K that every query multiplies by 0.
  void fill_idle_columns(int64_t first, Choices& fill) {
    const Shape& s = p_.shape;
    for (int64_t b = 0; b < s.b; ++b)
      for (int64_t g = 0; g < s.hk; ++g)
        for (int64_t j = 0; j < s.nk; ++j)
          for (int64_t col = first; col < s.d; ++col) p_.k.set(b, g, j, col, bell(fill));
  }

  // The same large term in every score: Q holds a power of two and K the offset in column `col`.
  void add_offset(int64_t col, Choices& fill) {
    const Shape& s = p_.shape;
    constexpr double kOffsets[] = {1e3, 3e3, -3e3, 3e4, 1e6, -1e6};
    const double offset = fill.pick(kOffsets), stored_limit = type_ == DType::f16 ? 0x1p15 : 0x1p60;
    double q = 1;
    while (std::fabs(offset / (q * p_.scale)) > stored_limit && q < 0x1p14) q *= 2;
    const uint32_t k_bits = saturate(type_, offset / (q * p_.scale)), q_bits = from_double(type_, q);
    for (int64_t b = 0; b < s.b; ++b) {
      for (int64_t h = 0; h < s.hq; ++h)
        for (int64_t i = 0; i < s.nq; ++i) p_.q.set_bits(p_.q.layout.at(b, h, i, col), q_bits);
      for (int64_t g = 0; g < s.hk; ++g)
        for (int64_t j = 0; j < s.nk; ++j) p_.k.set_bits(p_.k.layout.at(b, g, j, col), k_bits);
    }
  }

  // Q zero, K anything moderate, the scores in the bias.
  bool bias_scores(Regime score, Choices& fill) {
    const Shape& s = p_.shape;
    normals(p_.k, 1, fill);
    Tensor& bias = add_bias(p_, {s.b, s.hq, s.nq, s.nk}, features_, fill);
    std::vector<double> scores(static_cast<size_t>(s.nk));
    std::vector<int64_t> keys;
    for (int64_t j = 0; j < s.nk; ++j) keys.push_back(j);
    bool met = false;
    for (int64_t b = 0; b < s.b; ++b)
      for (int64_t h = 0; h < s.hq; ++h)
        for (int64_t i = 0; i < s.nq; ++i) {
          met |= fill_scores(score, {tile_, keys, bias.type, 1, !(recipe_.never_traits & kWild)}, fill, scores);
          for (int64_t j = 0; j < s.nk; ++j)
            bias.set_bits(bias.layout.at(b, h, i, j), saturate(bias.type, scores[static_cast<size_t>(j)]));
        }
    return met;
  }

  static void normals(Tensor& t, double deviation, Choices& fill) {
    const int64_t count = static_cast<int64_t>(t.storage.size()) / size_of(t.type);
    for (int64_t n = 0; n < count; ++n) t.set_bits(n, saturate(t.type, deviation * bell(fill)));
  }
  template <class F>
  static void each(Tensor& t, F bits) {
    const int64_t count = static_cast<int64_t>(t.storage.size()) / size_of(t.type);
    for (int64_t n = 0; n < count; ++n) t.set_bits(n, bits());
  }

  bool dense_scores(Regime score, Choices& fill) {
    const auto near = [&](double size) {  // |x| in (size/2, size], either sign
      const double signed_size = fill.bits(1) ? -size : size;
      return saturate(type_, signed_size * (1 - 0.5 * fill.unit()));
    };
    switch (score) {
      case Regime::dense_normal:
        normals(p_.q, 1, fill);
        normals(p_.k, 1, fill);
        break;
      case Regime::dense_large:
        normals(p_.q, std::ldexp(1.0, static_cast<int>(fill.between(0, 6))), fill);
        normals(p_.k, std::ldexp(1.0, static_cast<int>(fill.between(2, 6))), fill);
        break;
      case Regime::dense_limits: {
        // D products, and the scale on top, below 2^125; in f16 the type is the tighter limit.
        const int room = 124 - std::ilogb(static_cast<double>(p_.shape.d)) - 1 - std::max(std::ilogb(p_.scale) + 1, 0);
        const int most = type_ == DType::f16 ? 15 : 126;
        const int q = std::min<int>(static_cast<int>(fill.between(room - most > 0 ? room - most : 0, most)), room);
        const int k = std::min(room - q, most);
        each(p_.q, [&] { return near(type_ == DType::f16 ? 65504 : std::ldexp(1.0, q)); });
        each(p_.k, [&] { return near(type_ == DType::f16 ? 65504 : std::ldexp(1.0, k)); });
        break;
      }
      case Regime::dense_cancelling: {
        // Pairs of columns with opposite queries and nearly equal keys.
        normals(p_.q, 1, fill);
        normals(p_.k, 1, fill);
        const double size = std::ldexp(1.0, static_cast<int>(fill.between(4, 9)));
        const Shape& s = p_.shape;
        const auto pair_up = [&](Tensor& t, int64_t heads, int64_t rows, double sign) {
          for (int64_t b = 0; b < s.b; ++b)
            for (int64_t h = 0; h < heads; ++h)
              for (int64_t i = 0; i < rows; ++i)
                for (int64_t col = 0; col + 1 < s.d; col += 2) {
                  const double x = size * t.get(b, h, i, col);
                  t.set(b, h, i, col, x);
                  t.set(b, h, i, col + 1, sign * x + (sign > 0 ? bell(fill) : 0));
                }
        };
        pair_up(p_.q, s.hq, s.nq, -1);
        pair_up(p_.k, s.hk, s.nk, 1);
        break;
      }
      case Regime::any_finite:
        each(p_.q, [&] { return draw_finite(fill, type_); });
        each(p_.k, [&] { return draw_finite(fill, type_); });
        break;
      case Regime::subnormal_inputs: {
        const bool q_too = fill.bits(1);
        each(p_.q, [&] { return draw_class(fill, type_, q_too ? BitClass::subnormal : BitClass::moderate); });
        each(p_.k,
             [&] { return draw_class(fill, type_, q_too && fill.bits(1) ? BitClass::large : BitClass::subnormal); });
        break;
      }
      case Regime::zero_query:
        each(p_.q, [&] { return draw_class(fill, type_, fill.bits(1) ? BitClass::negative_zero : BitClass::zero); });
        normals(p_.k, 4, fill);
        break;
      case Regime::out_of_range: {
        // Large queries only in some rows; large keys leave the small queries in range.
        const double large_k = type_ == DType::f16 ? 65504 : 0x1p100;
        each(p_.k, [&] { return near(large_k); });
        const Shape& s = p_.shape;
        for (int64_t b = 0; b < s.b; ++b)
          for (int64_t h = 0; h < s.hq; ++h)
            for (int64_t i = 0; i < s.nq; ++i) {
              const bool large = (b == 0 && h == 0 && i == 0) || fill.below(3) == 0;
              for (int64_t col = 0; col < s.d; ++col) {
                // In f16 only zeros are small enough beside a scale of 2^100.
                const uint32_t small = type_ == DType::f16 ? 0u : near(0x1p-100);
                p_.q.set_bits(p_.q.layout.at(b, h, i, col), large ? near(type_ == DType::f16 ? 65504 : 0x1p60) : small);
              }
            }
        break;
      }
      default:
        break;
    }
    return some_row_sees_a_key();
  }

  // NaN, +inf or -inf as the score of a visible key, by one of Q, K and bias.
  bool plant_scores(Regime score, Choices& fill) {
    const Shape& s = p_.shape;
    const int64_t columns = 1;  // 0 * inf is NaN: every row reads the same column
    const Embedding e = embed(p_, columns, 256, fill);
    std::vector<double> scores(static_cast<size_t>(s.nk));
    std::vector<int64_t> keys;
    const int64_t b = static_cast<int64_t>(fill.below(static_cast<uint64_t>(s.b)));
    for (int64_t bb = 0; bb < s.b; ++bb)
      for (int64_t g = 0; g < s.hk; ++g) {
        live_keys(p_, target_.conventions, bb, g * (s.hq / s.hk), 0, keys);
        fill_scores(Regime::random_scores, {tile_, keys, type_, e.unit, true}, fill, scores);
        for (int64_t j = 0; j < s.nk; ++j) e.set_score(p_, bb, g, j, 0, scores[static_cast<size_t>(j)]);
      }
    // Start at a drawn row, take the first that sees a key.
    const int64_t rows = s.hq * s.nq, start = static_cast<int64_t>(fill.below(static_cast<uint64_t>(rows)));
    int64_t h = 0, i = 0;
    for (int64_t n = 0; n < rows; ++n) {
      h = (start + n) % rows / s.nq, i = (start + n) % s.nq;
      live_keys(p_, target_.conventions, b, h, i, keys);
      if (!keys.empty()) break;
    }
    if (keys.empty()) return false;
    const int64_t j = keys[fill.below(keys.size())], g = s.key_head(h);
    const uint32_t sign_bit = 1u << (8 * size_of(type_) - 1);
    const uint32_t infinity = from_double(type_, kInfinity) | (p_.scale < 0 ? sign_bit : 0);  // of a +inf score
    const uint32_t nan = from_double(type_, std::numeric_limits<double>::quiet_NaN()) | (fill.bits(1) ? sign_bit : 0);
    uint64_t where = fill.below(3);  // K, Q, bias
    if (where == 2 && (!(features_ & kAnyBias) || score == Regime::neg_inf_score)) where = 0;
    if (where == 2) {
      if (!p_.bias || p_.bias->layout.extent != std::array<int64_t, 4>{s.b, s.hq, s.nq, s.nk}) {
        const std::optional<Tensor> old = std::move(p_.bias);
        Tensor& bias = add_bias(p_, {s.b, s.hq, s.nq, s.nk}, features_, fill);
        if (old) {  // the same bias, written out
          bias = Tensor::packed(old->type, bias.layout.extent);
          for (int64_t n = 0; n < bias.layout.count(); ++n)
            bias.set_bits(n, old->bits(broadcast_at(old->layout, n / (s.hq * s.nq * s.nk), n / (s.nq * s.nk) % s.hq,
                                                    n / s.nk % s.nq, n % s.nk)));
        }
      }
      p_.bias->set(b, h, i, j, score == Regime::nan_score ? std::numeric_limits<double>::quiet_NaN() : kInfinity);
      return true;
    }
    if (score == Regime::nan_score) {
      if (where == 0)
        p_.k.set_bits(p_.k.layout.at(b, g, j, static_cast<int64_t>(fill.below(static_cast<uint64_t>(s.d)))), nan);
      else
        p_.q.set_bits(p_.q.layout.at(b, h, i, static_cast<int64_t>(fill.below(static_cast<uint64_t>(s.d)))), nan);
      return true;
    }
    if (where == 1) {
      // An infinite query: its keys must not be 0 in that column, and the others hold 0 in the query, which is
      // harmless beside finite keys.
      p_.q.set_bits(p_.q.layout.at(b, h, i, 0), infinity);
      for (int64_t n = 0; n < s.nk; ++n) {
        const double magnitude = 1 + static_cast<double>(fill.below(4));
        const bool positive = score == Regime::pos_inf_score && (n == j || fill.bits(1));
        p_.k.set(b, g, n, 0, positive ? magnitude : -magnitude);
      }
      return true;
    }
    p_.k.set_bits(p_.k.layout.at(b, g, j, 0), score == Regime::pos_inf_score ? infinity : infinity ^ sign_bit);
    if (score == Regime::neg_inf_score)
      for (int64_t n = 0; n < s.nk; ++n)
        if (fill.below(4) == 0) p_.k.set_bits(p_.k.layout.at(b, g, n, 0), infinity ^ sign_bit);
    return true;
  }

  bool plant_value(Choices& fill) {
    const Shape& s = p_.shape;
    if (s.rows() == 0 || s.nk == 0) return false;
    std::vector<int64_t> keys;
    const auto start = static_cast<int64_t>(fill.below(static_cast<uint64_t>(s.rows())));
    const bool only_first = is(Axis::layout, Regime::broadcast_keys);
    for (int64_t n = 0; n < s.rows(); ++n) {
      const int64_t at = only_first ? n : (start + n) % s.rows();
      const int64_t b = at / (s.hq * s.nq), h = at / s.nq % s.hq, i = at % s.nq;
      if (only_first && (b > 0 || s.key_head(h) > 0)) continue;
      live_keys(p_, target_.conventions, b, h, i, keys);
      if (keys.empty()) continue;
      for (uint64_t times = 1 + fill.below(3); times > 0; --times) {
        const int64_t j = keys[fill.below(keys.size())];
        const auto col = static_cast<int64_t>(fill.below(static_cast<uint64_t>(s.dv)));
        p_.v.set_bits(p_.v.layout.at(b, s.key_head(h), j, col), draw_non_finite(fill, type_));
      }
      return true;
    }
    return false;
  }

  // Fills K and V of keys that no row of their head sees, and bias entries that no row reaches.
  bool place_payload(Choices& fill) {
    const Regime payload = of(plan_, Axis::payload);
    if (payload == Regime::plain_payload) return true;
    const Shape& s = p_.shape;
    const auto draw = [&] {
      return payload == Regime::loud_payload ? draw_class(fill, type_, BitClass::largest)
                                             : draw_non_finite(fill, type_);
    };
    bool placed = false;
    std::vector<int64_t> keys;
    std::vector<uint8_t> seen;  // by some row of the key head
    std::vector<uint8_t> seen_bias(p_.bias ? static_cast<size_t>(p_.bias->layout.count()) : 0);
    for (int64_t b = 0; b < s.b; ++b)
      for (int64_t g = 0; g < s.hk; ++g) {
        seen.assign(static_cast<size_t>(s.nk), 0);
        for (int64_t h = g * (s.hq / s.hk); h < (g + 1) * (s.hq / s.hk); ++h)
          for (int64_t i = 0; i < s.nq; ++i) {
            visible_keys(p_, target_.conventions, b, h, i, keys);
            for (int64_t j : keys) {
              seen[static_cast<size_t>(j)] = 1;
              if (p_.bias) seen_bias[static_cast<size_t>(broadcast_at(p_.bias->layout, b, h, i, j))] = 1;
            }
          }
        for (int64_t j = 0; j < s.nk; ++j) {
          if (seen[static_cast<size_t>(j)]) continue;
          placed = true;
          const bool dense = fill.below(4) != 3;  // the whole row, or elements of it
          for (int64_t col = 0; col < s.d; ++col)
            if (dense || fill.below(4) == 0) p_.k.set_bits(p_.k.layout.at(b, g, j, col), draw());
          for (int64_t col = 0; col < s.dv; ++col)
            if (dense || fill.below(4) == 0) p_.v.set_bits(p_.v.layout.at(b, g, j, col), draw());
        }
      }
    if (p_.bias)
      for (int64_t n = 0; n < p_.bias->layout.count(); ++n)
        if (!seen_bias[static_cast<size_t>(n)])
          p_.bias->set_bits(n, payload == Regime::loud_payload ? draw_class(fill, p_.bias->type, BitClass::largest)
                                                               : draw_non_finite(fill, p_.bias->type));
    return placed;
  }

  // Whether some row of the case is what the plan says of this axis.
  bool met(Axis axis, bool value_planted, bool payload_placed) const {
    const bool rows = p_.shape.rows() > 0, keys = rows && p_.shape.nk > 0;
    switch (axis) {
      case Axis::score:
        return scores_met_;
      case Axis::mask:
        return is(Axis::mask, Regime::no_keys) ? rows && !keys : keys;
      case Axis::scale:
      case Axis::softcap:
        return keys;
      case Axis::sink:
        return rows;
      case Axis::values:
        return keys && value_planted;
      case Axis::payload:
        return rows && payload_placed;
      case Axis::layout:
        return rows && (!is(Axis::layout, Regime::broadcast_keys) || p_.shape.b * p_.shape.hk > 1);
      case Axis::shape:
        return shape_met();
    }
    return false;
  }

  bool shape_met() const {
    const Shape& s = p_.shape;
    switch (of(plan_, Axis::shape)) {
      case Regime::decode:
        return s.nq == 1;
      case Regime::grouped_heads:
        return s.hk > 0 && s.hq > s.hk;
      case Regime::more_queries_than_keys:
        return s.nq > s.nk && s.nk > 0;
      case Regime::one_key:
        return s.nk == 1;
      case Regime::many_heads:
        return s.b > 1 && s.hk > 1;
      case Regime::empty_output:
        return s.rows() == 0;
      default:
        return true;
    }
  }

  Choices& c_;
  const Target& target_;
  const Recipe& recipe_;
  const Plan& plan_;
  const uint32_t features_;
  DType type_ = DType::f32;
  Choice choice_;
  int64_t tile_ = 64;
  bool scores_met_ = false;
  Problem p_;
};

}  // namespace

bool can_have(const Target& target, const Recipe& recipe, Regime regime) {
  if (!allowed(target, recipe, regime)) return false;
  for (Regime pin : recipe.pins)
    if (!compatible(pin, regime)) return false;
  return true;
}

Generated generate(Choices& c, const Target& target, const Recipe& recipe) {
  // A mask may leave no row with the keys that a pinned pattern needs: draw again, at last without a mask.
  constexpr int kAttempts = 4;
  const RegimeSet allowed_regimes = all_allowed(target, recipe);
  RegimeSet possible = allowed_regimes;
  for (Regime pin : recipe.pins) possible &= compatible_with(pin);
  for (int attempt = 1;; ++attempt) {
    const Plan plan = draw_plan(c, allowed_regimes, recipe, attempt == kAttempts);
    Generated g = Maker(c, target, recipe, plan).make();
    const bool met = std::all_of(recipe.pins.begin(), recipe.pins.end(), [&](Regime pin) {
      return !possible.test(static_cast<size_t>(pin)) ||
             std::find(g.regimes.begin(), g.regimes.end(), pin) != g.regimes.end();
    });
    if (met || attempt == kAttempts) return g;
  }
}

}  // namespace attest
