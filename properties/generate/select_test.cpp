#include "properties/generate/select.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "properties/generate/generate.h"
#include "properties/generate/layouts.h"
#include "reference/visible.h"

namespace attest {
namespace {

std::vector<int64_t> reversed(int64_t n) {
  std::vector<int64_t> r = range(0, n);
  std::reverse(r.begin(), r.end());
  return r;
}

// Each selection, of everything in reverse order, moves every element to its place and is undone by itself.
TEST(Select, ReversingTwiceGivesTheSameElements) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    Choices c = Choices::seeded(seed);
    const Problem p =
        generate(c, Target::everything(), {.never = {Regime::empty_output}, .max_keys = 150, .work = 3e4}).problem;
    const Shape& s = p.shape;
    const auto check = [&](const Problem& once, const Problem& twice, auto moved) {
      ASSERT_EQ(validate(once), std::nullopt) << "seed " << seed;
      ASSERT_EQ(once.shape, p.shape);
      for (int64_t b = 0; b < s.b; ++b)
        for (int64_t g = 0; g < s.hk; ++g)
          for (int64_t j = 0; j < s.nk; ++j)
            for (int64_t d = 0; d < s.d; ++d) {
              ASSERT_EQ(twice.k.bits(twice.k.layout.at(b, g, j, d)), p.k.bits(p.k.layout.at(b, g, j, d)))
                  << "seed " << seed;
              const std::array<int64_t, 4> from = moved(b, g, j, d);
              // A broadcast dimension has one content for all of its indices.
              ASSERT_EQ(once.k.bits(once.k.layout.at(b, g, j, d)),
                        p.k.bits(p.k.layout.at(from[0], from[1], from[2], from[3])));
            }
    };
    const auto keys = reversed(s.nk);
    check(with_keys(p, keys), with_keys(with_keys(p, keys), keys), [&](int64_t b, int64_t g, int64_t j, int64_t d) {
      return std::array{b, g, s.nk - 1 - j, d};
    });
    const auto batches = reversed(s.b);
    check(with_batches(p, batches), with_batches(with_batches(p, batches), batches),
          [&](int64_t b, int64_t g, int64_t j, int64_t d) {
            return std::array{s.b - 1 - b, g, j, d};
          });
    const auto heads = reversed(s.hk);
    check(with_key_heads(p, heads), with_key_heads(with_key_heads(p, heads), heads),
          [&](int64_t b, int64_t g, int64_t j, int64_t d) {
            return std::array{b, s.hk - 1 - g, j, d};
          });
    const auto columns = reversed(s.d);
    check(with_columns(p, columns), with_columns(with_columns(p, columns), columns),
          [&](int64_t b, int64_t g, int64_t j, int64_t d) {
            return std::array{b, g, j, s.d - 1 - d};
          });
  }
}

// Dropping keys after writing the masks out keeps every pair that is left.
TEST(Select, ExplicitMaskKeepsVisiblePairs) {
  std::vector<int64_t> before, after;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Choices c = Choices::seeded(seed);
    const Problem p =
        generate(c, Target::everything(), {.pins = {Regime::combined_masks}, .max_keys = 100, .work = 2e4}).problem;
    const Shape& s = p.shape;
    const Problem written = with_explicit_mask(p, {});
    ASSERT_EQ(validate(written), std::nullopt);
    std::vector<int64_t> kept;
    for (int64_t j = 0; j < s.nk; ++j)
      if (c.bits(1)) kept.push_back(j);
    const Problem fewer = with_keys(written, kept);
    ASSERT_EQ(validate(fewer), std::nullopt);
    for (int64_t b = 0; b < s.b; ++b)
      for (int64_t h = 0; h < s.hq; ++h)
        for (int64_t i = 0; i < s.nq; ++i) {
          visible_keys(p, {}, b, h, i, before);
          visible_keys(written, {}, b, h, i, after);
          ASSERT_EQ(before, after) << "seed " << seed;
          visible_keys(fewer, {}, b, h, i, after);
          for (int64_t& j : after) j = kept[static_cast<size_t>(j)];
          std::erase_if(before, [&](int64_t j) { return !std::binary_search(kept.begin(), kept.end(), j); });
          ASSERT_EQ(before, after) << "seed " << seed;
        }
  }
}

TEST(Select, KeyLengthsCountTheKeysThatAreLeft) {
  Problem p = Problem::make({.b = 2, .hq = 1, .hk = 1, .nq = 1, .nk = 6, .d = 1, .dv = 1}, DType::f32);
  p.key_lengths = std::vector<int32_t>{4, 6};
  const std::vector<int64_t> kept{0, 3, 5};
  EXPECT_EQ(*with_keys(p, kept).key_lengths, (std::vector<int32_t>{2, 3}));
}

TEST(Layouts, LikeKeepsOrderPaddingBroadcastAndOffset) {
  const std::array<int64_t, 4> extent{2, 3, 5, 8}, smaller{1, 2, 4, 7};
  EXPECT_EQ(like(Layout::packed(extent), smaller), Layout::packed(smaller));
  EXPECT_EQ(like(heads_inside(extent), smaller), heads_inside(smaller));
  EXPECT_EQ(like(with_padding(extent, 3, 2, 1, 5), smaller), with_padding(smaller, 3, 2, 1, 5));
  Layout broadcast = Layout::packed(extent);
  broadcast.stride = {40, 0, 8, 1};
  EXPECT_EQ(like(broadcast, smaller).stride, (std::array<int64_t, 4>{28, 0, 7, 1}));
}

TEST(Layouts, RelayoutKeepsElementsAndFillsTheRestWithNaN) {
  Tensor t = Tensor::packed(DType::f16, {2, 3, 4, 5});
  for (int64_t n = 0; n < t.layout.count(); ++n) t.set_bits(n, static_cast<uint32_t>(n));
  for (const Layout& l : {heads_inside(t.layout.extent), with_padding(t.layout.extent, 2, 3, 1, 7)}) {
    const Tensor moved = relayout(t, l);
    int64_t padding = 0;
    for (int64_t n = 0; n < l.span(); ++n) padding += moved.bits(n) == 0xFFFF;
    EXPECT_EQ(padding, l.span() - l.count());
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t h = 0; h < 3; ++h)
        for (int64_t i = 0; i < 4; ++i)
          for (int64_t d = 0; d < 5; ++d) ASSERT_EQ(moved.bits(l.at(b, h, i, d)), t.bits(t.layout.at(b, h, i, d)));
  }
}

}  // namespace
}  // namespace attest
