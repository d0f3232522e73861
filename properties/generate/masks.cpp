#include "properties/generate/masks.h"

#include <algorithm>
#include <limits>

#include "properties/generate/floats.h"
#include "reference/visible.h"

namespace attest {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Extents of a mask operand: each of B, Hq, Nq is 1 now and then.
std::array<int64_t, 4> draw_extent(const Shape& s, Choices& c) {
  std::array<int64_t, 4> extent{s.b, s.hq, s.nq, s.nk};
  for (int k = 0; k < 3; ++k)
    if (extent[k] > 1 && c.below(3) == 2) extent[k] = 1;
  return extent;
}

void add_mask(Problem& p, std::array<int64_t, 4> extent) {
  p.mask = BoolMask{Layout::packed(extent), {}};
  p.mask->storage.assign(static_cast<size_t>(p.mask->layout.count()), uint8_t{1});
}

// Hides keys by row, by boolean mask or by a bias of -inf: `row(visible)` clears what the row does not see.
template <class F>
void hide(Problem& p, std::array<int64_t, 4> extent, const MaskWishes& w, Choices& c, F row) {
  const bool boolean = (w.features & ATTEST_MASK) && (w.boolean_only || !(w.features & kAnyBias) || c.below(4) != 3);
  std::vector<uint8_t> visible(static_cast<size_t>(extent[3]));
  if (boolean) add_mask(p, extent);
  Tensor* bias = boolean ? nullptr : &add_bias(p, extent, w.features, c);
  const uint32_t hidden = bias ? from_double(bias->type, -kInfinity) : 0;
  for (int64_t b = 0; b < extent[0]; ++b)
    for (int64_t h = 0; h < extent[1]; ++h)
      for (int64_t i = 0; i < extent[2]; ++i) {
        std::fill(visible.begin(), visible.end(), uint8_t{1});
        row(visible);
        const int64_t at = (boolean ? p.mask->layout : bias->layout).at(b, h, i, 0);
        for (int64_t j = 0; j < extent[3]; ++j) {
          if (boolean)
            p.mask->storage[static_cast<size_t>(at + j)] = visible[static_cast<size_t>(j)];
          else if (!visible[static_cast<size_t>(j)])
            bias->set_bits(at + j, hidden);
        }
      }
}

void random_row(std::vector<uint8_t>& visible, uint32_t hidden_of_16, Choices& c) {
  for (uint8_t& v : visible) v = c.chance(hidden_of_16, 16) ? 0 : 1;
}

void random_boolean(Problem& p, Choices& c) {
  auto extent = draw_extent(p.shape, c);
  if (p.shape.nk > 1 && c.below(12) == 11) extent[3] = 1;  // one bit for all keys of a row
  add_mask(p, extent);
  constexpr uint32_t kHidden[] = {4, 1, 8, 14};
  const uint32_t hidden = extent[3] == 1 ? 3 : c.pick(kHidden);
  for (uint8_t& v : p.mask->storage) v = c.chance(hidden, 16) ? 0 : static_cast<uint8_t>(1 + 254 * c.chance(1, 16));
}

int64_t draw_reach(Choices& c, int64_t tile, int64_t nk) {  // how far a window goes to one side
  switch (c.below(6)) {
    case 0:
      return c.between(0, 3);
    case 1:
      return tile + c.between(-1, 1);
    case 2:
      return 2 * tile + c.between(-1, 1);
    case 3:
      return nk;
    default:
      return c.between(0, std::max<int64_t>(nk, 1));
  }
}

int32_t draw_length(Choices& c, int64_t tile, int64_t nk) {
  int64_t length = nk;
  switch (c.below(6)) {
    case 0:
      break;
    case 1:
      length = 1;
      break;
    case 2:
      length = nk - 1;
      break;
    case 3:
      length = c.between(1, std::max<int64_t>(nk / tile, 1)) * tile;
      length += c.between(-1, 1);
      break;
    default:
      length = c.between(0, nk);
      break;
  }
  return static_cast<int32_t>(std::clamp<int64_t>(length, 0, nk));
}

void random_lengths(Problem& p, int64_t tile, Choices& c) {
  p.key_lengths.emplace();
  for (int64_t b = 0; b < p.shape.b; ++b) p.key_lengths->push_back(draw_length(c, tile, p.shape.nk));
}

}  // namespace

Tensor& add_bias(Problem& p, std::array<int64_t, 4> extent, uint32_t features, Choices& c) {
  const bool f32 = !(features & ATTEST_BIAS_INPUT_TYPE) || ((features & ATTEST_BIAS_F32) && c.bits(1) == 0);
  return p.bias.emplace(Tensor::packed(f32 ? DType::f32 : p.type, extent));
}

void apply_mask(Problem& p, Regime mask, const MaskWishes& w, Choices& c) {
  const Shape& s = p.shape;
  const int64_t tile = w.tile, nk = s.nk, tiles = (nk + tile - 1) / tile;
  const int64_t most_hidden = std::max<int64_t>(tiles - w.visible_tiles, 0);
  switch (mask) {
    case Regime::causal:
      p.causal = true;
      return;
    case Regime::window:
      p.window = {draw_reach(c, tile, nk), draw_reach(c, tile, nk)};
      return;
    case Regime::window_one_sided:
      (c.bits(1) ? p.window.right : p.window.left) = draw_reach(c, tile, nk);
      return;
    case Regime::window_zero:
      p.window = {0, 0};
      return;
    case Regime::window_everything:
      p.window = {s.nq + nk + c.between(0, 2), c.bits(1) ? s.nq + nk : int64_t{1} << 40};
      return;
    case Regime::causal_window:
      p.causal = true;
      p.window.left = draw_reach(c, tile, nk);
      if (c.below(4) == 3) p.window.right = c.between(0, nk);
      return;
    case Regime::key_lengths:
      random_lengths(p, tile, c);
      return;
    case Regime::length_zero:
      random_lengths(p, tile, c);
      if (s.b > 0) (*p.key_lengths)[c.below(static_cast<uint64_t>(s.b))] = 0;
      return;
    case Regime::length_one:
      p.key_lengths.emplace(static_cast<size_t>(s.b), nk > 0 ? 1 : 0);
      return;
    case Regime::leading_tiles_masked:
    case Regime::trailing_tiles_masked:
      hide(p, draw_extent(s, c), w, c, [&](std::vector<uint8_t>& visible) {
        const int64_t hidden = std::min(nk, tile * c.between(std::min<int64_t>(1, most_hidden), most_hidden));
        if (mask == Regime::leading_tiles_masked)
          std::fill_n(visible.begin(), hidden, uint8_t{0});
        else
          std::fill(visible.begin() + std::min((tiles - hidden / tile) * tile, nk), visible.end(), uint8_t{0});
      });
      return;
    case Regime::middle_tiles_masked:
      hide(p, draw_extent(s, c), w, c, [&](std::vector<uint8_t>& visible) {
        if (tiles < 3) return;
        const int64_t parity = most_hidden >= tiles / 2 ? c.below(3) : 0;  // one tile; every odd one; all between
        const int64_t only = c.between(1, tiles - 2);
        for (int64_t t = 1; t + 1 < tiles; ++t)
          if (parity == 0 ? t == only : parity == 1 ? t % 2 == 1 : most_hidden >= tiles - 2)
            std::fill_n(visible.begin() + t * tile, tile, uint8_t{0});
      });
      return;
    case Regime::random_mask:
      random_boolean(p, c);
      return;
    case Regime::fully_masked_row: {
      auto extent = draw_extent(s, c);
      extent[2] = s.nq;
      const uint64_t blank = c.below(static_cast<uint64_t>(std::max<int64_t>(extent[0] * extent[1] * extent[2], 1)));
      uint64_t n = 0;
      hide(p, extent, w, c, [&](std::vector<uint8_t>& visible) {
        if (n++ == blank || c.below(6) == 5)
          std::fill(visible.begin(), visible.end(), uint8_t{0});
        else if (c.bits(1))
          random_row(visible, 4, c);
      });
      return;
    }
    case Regime::one_visible_key:
      hide(p, draw_extent(s, c), w, c, [&](std::vector<uint8_t>& visible) {
        if (nk == 0) return;
        int64_t key = c.between(0, nk - 1);
        if (c.bits(1)) key = std::min(nk - 1, key / tile * tile + (c.bits(1) ? tile - 1 : 0));
        std::fill(visible.begin(), visible.end(), uint8_t{0});
        visible[static_cast<size_t>(key)] = 1;
      });
      return;
    case Regime::bias_random: {
      auto extent = draw_extent(s, c);
      if (c.below(8) == 7) extent[3] = 1;
      Tensor& bias = add_bias(p, extent, w.features, c);
      constexpr double kDeviations[] = {1, 0.25, 4, 16};
      const double deviation = c.pick(kDeviations);
      for (int64_t n = 0; n < bias.layout.count(); ++n) bias.set_bits(n, saturate(bias.type, deviation * bell(c)));
      return;
    }
    case Regime::bias_constant: {
      auto extent = draw_extent(s, c);
      if (c.bits(1)) extent[3] = 1;
      Tensor& bias = add_bias(p, extent, w.features, c);
      constexpr double kBiases[] = {1, -8, 100, 3000, -10000};
      for (int64_t n = 0; n < bias.layout.count() / std::max<int64_t>(extent[3], 1); ++n) {
        const uint32_t bits = from_double(bias.type, c.pick(kBiases));
        for (int64_t j = 0; j < extent[3]; ++j) bias.set_bits(n * extent[3] + j, bits);
      }
      return;
    }
    case Regime::bias_neg_inf: {
      Tensor& bias = add_bias(p, draw_extent(s, c), w.features, c);
      const uint32_t hidden = from_double(bias.type, -kInfinity);
      for (int64_t n = 0; n < bias.layout.count(); ++n)
        if (c.chance(5, 16)) bias.set_bits(n, hidden);
      return;
    }
    case Regime::bias_lowest: {
      const auto extent = draw_extent(s, c);
      Tensor& bias = add_bias(p, extent, w.features, c);
      const uint32_t lowest = from_double(bias.type, -largest_finite(bias.type));
      for (int64_t n = 0; n < bias.layout.count() / std::max<int64_t>(extent[3], 1); ++n) {
        const uint32_t of_16 = n > 0 && c.below(8) == 7 ? 16 : 5;
        for (int64_t j = 0; j < extent[3]; ++j)
          if (c.chance(of_16, 16)) bias.set_bits(n * extent[3] + j, lowest);
      }
      return;
    }
    case Regime::combined_masks: {
      random_boolean(p, c);
      const uint32_t others = w.features & (ATTEST_CAUSAL | ATTEST_WINDOW | ATTEST_KEY_LENGTHS);
      const auto take = [&](uint32_t feature) { return (others & feature) && (others == feature || c.below(3) != 2); };
      p.causal = take(ATTEST_CAUSAL);
      if (take(ATTEST_KEY_LENGTHS)) random_lengths(p, tile, c);
      const bool alone = !p.causal && !p.key_lengths;
      if (take(ATTEST_WINDOW) || (alone && (others & ATTEST_WINDOW)))
        p.window.left = draw_reach(c, tile, nk);
      else if (alone && (others & ATTEST_CAUSAL))
        p.causal = true;
      else if (alone)
        random_lengths(p, tile, c);
      if ((w.features & kAnyBias) && c.below(3) == 2) apply_mask(p, Regime::bias_neg_inf, w, c);
      return;
    }
    default:
      return;  // no_mask and no_keys need nothing; bias_scores is filled with the scores
  }
}

void live_keys(const Problem& p, const Conventions& conventions, int64_t b, int64_t h, int64_t i,
               std::vector<int64_t>& keys) {
  visible_keys(p, conventions, b, h, i, keys);
  if (!p.bias) return;
  const double lowest = -largest_finite(p.bias->type);
  std::erase_if(keys, [&](int64_t j) {
    return to_double(p.bias->type, p.bias->bits(broadcast_at(p.bias->layout, b, h, i, j))) <= lowest;
  });
}

}  // namespace attest
