// Every set of vector loops that this processor runs, against the steps of kernel/recurrence.h one by one: the same bits.
#include "kernel/host/vector_loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernel/host/host_kernel.h"

using namespace attest;
using namespace attest::host;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Two numbers are the same where their bits are, or both are NaN.
template <class T>
testing::AssertionResult same(T a, T b) {
  if (std::memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << a << " is not " << b;
}

class VectorLoopsTest : public testing::TestWithParam<int> {
 protected:
  const VectorLoops& loops() const { return *vector_loop_sets().set[GetParam()]; }
  std::mt19937_64 engine{1};
  int64_t below(int64_t n) { return static_cast<int64_t>(engine() % static_cast<uint64_t>(n)); }
  double normal() { return std::normal_distribution<double>()(engine); }
  // Of all sizes; one in `special` is a zero, an infinity or NaN.
  float wild(int64_t special) {
    constexpr float kSpecial[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN};
    if (special > 0 && below(special) == 0) return kSpecial[below(5)];
    return static_cast<float>(std::ldexp(normal(), static_cast<int>(below(40)) - 20));
  }
};

TEST_P(VectorLoopsTest, EveryNarrowNumberIsWidened) {
  for (int64_t n : {1, 7, 8, 9, 1 << 16}) {
    std::vector<uint8_t> bytes(static_cast<size_t>(2 * n) + 1);
    for (int64_t u = 0; u < n; ++u) {
      const auto half = static_cast<uint16_t>(n < 1 << 16 ? 0x3C01 + u : u);
      std::memcpy(bytes.data() + 1 + 2 * u, &half, 2);  // at an odd address
    }
    std::vector<float> f16(static_cast<size_t>(n)), bf16(f16);
    loops().widen_f16(bytes.data() + 1, n, f16.data());
    loops().widen_bf16(bytes.data() + 1, n, bf16.data());
    for (int64_t u = 0; u < n; ++u) {
      const auto half = static_cast<uint16_t>(n < 1 << 16 ? 0x3C01 + u : u);
      EXPECT_TRUE(same(f16[static_cast<size_t>(u)], numbers::from_f16(half))) << half;
      EXPECT_TRUE(same(bf16[static_cast<size_t>(u)], numbers::from_bf16(half))) << half;
    }
  }
}

// Lanes in turn, then halves until one is left.
template <class Sum, int kLanes>
Sum dot(const float* q, const float* k, int64_t d) {
  Sum lane[kLanes] = {};
  for (int64_t c = 0; c < d; ++c) lane[c % kLanes] += static_cast<Sum>(q[c]) * static_cast<Sum>(k[c]);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
  return lane[0];
}

TEST_P(VectorLoopsTest, DotsAreSummedInLanes) {
  for (int64_t d : {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 129})
    for (int64_t n = 0; n <= 9; ++n)
      for (int64_t special : {0, 300}) {
        const int64_t width = padded(d, kNarrowLanes), stride = width + 3;
        std::vector<float> q(static_cast<size_t>(width)), k(static_cast<size_t>(stride * (n + 1)));
        for (int64_t c = 0; c < d; ++c) q[static_cast<size_t>(c)] = wild(special);
        for (int64_t j = 0; j < n; ++j)
          for (int64_t c = 0; c < d; ++c) k[static_cast<size_t>(j * stride + c)] = wild(special);
        const std::vector<double> q64(q.begin(), q.end());
        std::vector<double> narrow(static_cast<size_t>(n + kSlack)), wide(narrow);
        loops().dots_narrow(q.data(), k.data(), stride, n, width, narrow.data());
        loops().dots_wide(q64.data(), k.data(), stride, n, padded(d, kWideLanes), wide.data());
        for (int64_t j = 0; j < n; ++j) {
          const float* row = k.data() + j * stride;
          EXPECT_TRUE(same(narrow[static_cast<size_t>(j)], static_cast<double>(dot<float, 16>(q.data(), row, d)))) << "D " << d << ", key " << j;
          EXPECT_TRUE(same(wide[static_cast<size_t>(j)], dot<double, 8>(q.data(), row, d))) << "D " << d << ", key " << j;
        }
      }
}

TEST_P(VectorLoopsTest, ScoresAreThoseOfTheRecurrence) {
  for (int64_t n = 0; n <= 33; ++n)
    for (float softcap : {0.0f, 0.25f, 30.0f})
      for (bool has_bias : {false, true})
        for (int64_t mask_stride : {-1, 0, 1, 3}) {
          std::vector<double> s(static_cast<size_t>(n + kSlack));
          std::vector<float> bias(s.size());
          std::vector<uint8_t> mask(static_cast<size_t>(3 * n + 1));
          for (double& x : s) x = static_cast<double>(wild(10)) * normal();
          for (float& x : bias) x = below(5) == 0 ? -INFINITY : wild(20);
          for (uint8_t& x : mask) x = static_cast<uint8_t>(below(3) == 0 ? 0 : below(256));
          const std::vector<double> dot = s;
          loops().scores({s.data(), n, -0.7f, softcap, has_bias ? bias.data() : nullptr, mask_stride < 0 ? nullptr : mask.data(), mask_stride});
          for (int64_t j = 0; j < n; ++j) {
            const auto at = static_cast<size_t>(j);
            const double b = has_bias ? static_cast<double>(bias[at]) : 0.0;
            const bool visible = b != -kInf && (mask_stride < 0 || mask[static_cast<size_t>(j * mask_stride)] != 0);
            EXPECT_TRUE(same(s[at], visible ? Recurrence::score(dot[at], -0.7f, softcap, b) : Recurrence::masked_score())) << "key " << j << " of " << n;
          }
        }
}

struct Split {
  int64_t begin, end, split_begin, split_end, tile;
};

// Scores that repeat, differ by all sizes, are masked, zeros of both signs, infinite, NaN.
TEST_P(VectorLoopsTest, FoldTakesTheStepsOfTheRecurrence) {
  for (int round = 0; round < 3000; ++round) {
    Split a;
    a.split_begin = below(5);
    a.split_end = a.split_begin + 1 + below(100);
    a.begin = a.split_begin + below(a.split_end - a.split_begin);
    a.end = a.begin + 1 + below(a.split_end - a.begin);
    a.tile = 1 + below(round % 2 == 0 ? 4 : 100);
    const int64_t n = a.end - a.begin;
    const auto size = static_cast<size_t>(n + kSlack);
    const int kind = round % 5;
    std::vector<double> score(size);
    for (double& s : score) {
      s = kind == 0 ? normal() : kind == 1 ? std::ldexp(normal(), static_cast<int>(below(10))) : kind == 2 ? static_cast<double>(wild(20)) : kind == 3 ? (below(2) == 0 ? 0.0 : -0.0) : -87 * std::fabs(normal());
      if (below(4) == 0 && round % 3 == 0) s = -kInf;
    }
    const int32_t type = round % 7 < 3 ? ATTEST_F32 : round % 7 < 5 ? ATTEST_F16 : ATTEST_BF16;
    const bool descending = below(2) == 0;
    const auto tiles = static_cast<size_t>(n / a.tile + 2);
    std::vector<int64_t> key(size);
    std::vector<double> x(size), shift(tiles + static_cast<size_t>(kSlack));
    std::vector<float> p(size), factor(shift.size());
    std::vector<Tile> out(tiles);
    FoldArguments fold{score.data(), a.begin, a.end, a.split_begin, a.split_end, a.tile, descending, type, key.data(), x.data(), p.data(), out.data(), shift.data(), factor.data(), 0};
    loops().fold(fold);

    double m = -kInf;
    float l = 0;
    int64_t visits = 0, c = 0;
    const int64_t count = (a.split_end - a.split_begin + a.tile - 1) / a.tile;
    for (int64_t v = 0; v < count; ++v) {
      const int64_t first = a.split_begin + (descending ? count - 1 - v : v) * a.tile, last = std::min(first + a.tile, a.split_end);
      const auto score_of = [&](int64_t j) { return j < a.begin || j >= a.end ? -kInf : score[static_cast<size_t>(j - a.begin)]; };
      double most = -kInf;
      for (int64_t j = first; j < last; ++j) most = Recurrence::maximum(most, score_of(j));
      if (HostSteps::is_empty(most)) continue;
      const double m_new = Recurrence::new_maximum(m, most);
      const float scale = Recurrence::rescale_l(m, m_new);
      float sum = 0;
      ASSERT_LT(visits, fold.tile_count);
      const Tile& tile = out[static_cast<size_t>(visits++)];
      for (int64_t j = first; j < last; ++j) {
        const float weight = Recurrence::weight(score_of(j), m_new);
        const float rounded = HostSteps::round_weight(weight, type);
        sum = HostSteps::add_weight(sum, weight, rounded);
        if (Recurrence::is_masked(score_of(j))) continue;
        ASSERT_LT(c, tile.end);
        EXPECT_EQ(key[static_cast<size_t>(c)], j);
        EXPECT_TRUE(same(p[static_cast<size_t>(c++)], rounded));
      }
      l *= scale;
      l += sum;
      EXPECT_EQ(tile.first, first);
      EXPECT_EQ(tile.last, last);
      EXPECT_EQ(tile.end, c);
      EXPECT_TRUE(same(tile.m, m_new));
      EXPECT_TRUE(same(tile.l, l));
      EXPECT_TRUE(same(tile.factor, scale));
      m = m_new;
    }
    EXPECT_EQ(fold.tile_count, visits);
  }
}

template <class Sum>
void check_values(void (*values)(const ValueArguments<Sum>&), const std::function<float()>& number, const std::function<int64_t(int64_t)>& below) {
  for (int64_t dv : {1, 8, 9, 31, 32, 40, 64, 65, 96, 129})
    for (int64_t n : {0, 1, 5, 40}) {
      const int64_t width = padded(dv, kWideLanes), stride = width + 5;
      std::vector<float> v(static_cast<size_t>(stride * (2 * n + 1))), p(static_cast<size_t>(n + kSlack));
      for (float& x : v) x = number();
      std::vector<int64_t> key;
      std::vector<Tile> tiles;
      for (int64_t c = 0; c < n; ++c) {
        p[static_cast<size_t>(c)] = std::fabs(number());
        key.push_back(2 * c);
        if (c == n - 1 || below(3) == 0) tiles.push_back({0, 0, c + 1, 0, 0, tiles.empty() ? 0.0f : below(2) == 0 ? 1.0f : std::fabs(number())});
      }
      std::vector<Sum> o(static_cast<size_t>(width), Sum{9}), expected(static_cast<size_t>(dv), Sum{0});
      values({tiles.data(), static_cast<int64_t>(tiles.size()), key.data(), p.data(), v.data(), stride, width, o.data()});
      int64_t c = 0;
      for (const Tile& tile : tiles) {
        scale_values(expected.data(), static_cast<Sum>(tile.factor), dv);
        for (; c < tile.end; ++c) add_value(expected.data(), static_cast<Sum>(p[static_cast<size_t>(c)]), v.data() + key[static_cast<size_t>(c)] * stride, dv);
      }
      for (size_t d = 0; d < expected.size(); ++d) EXPECT_TRUE(same(o[d], expected[d])) << "Dv " << dv << ", column " << d;
    }
}

TEST_P(VectorLoopsTest, ValuesAreAddedKeyByKey) {
  for (int64_t special : {0, 200}) {
    const auto number = [&] { return wild(special); };
    const auto choice = [&](int64_t n) { return below(n); };
    check_values<float>(loops().values_narrow, number, choice);
    check_values<double>(loops().values_wide, number, choice);
  }
}

template <class Sum>
void check_finish(bool (*finish)(const FinishArguments<Sum>&), const std::function<Sum()>& number) {
  for (int32_t type : {ATTEST_F32, ATTEST_F16, ATTEST_BF16})
    for (int64_t n : {1, 2, 3, 4, 5, 8, 31, 4000})
      for (float l : {0.0f, 1.0f, 3.0f, 0x1p-20f, NAN}) {
        std::vector<Sum> o(static_cast<size_t>(n));
        for (Sum& x : o) x = number();
        const int64_t bytes = type == ATTEST_F32 ? 4 : 2;
        std::vector<uint8_t> seen(static_cast<size_t>(bytes * n) + 4, 0xAB), expected = seen;
        View to;
        to.data = expected.data();
        to.type = type;
        const double largest = numbers::largest_finite(type);
        bool finite = true;
        for (int64_t d = 0; d < n; ++d) {
          const auto x = static_cast<double>(o[static_cast<size_t>(d)]);
          finite = finite && std::isfinite(x);
          to.store(d, Recurrence::within_type(Recurrence::normalise(x, l), std::isfinite(x), largest));
        }
        EXPECT_EQ(finish({o.data(), n, l, largest, type, seen.data()}), finite);
        View of = to;
        of.data = seen.data();
        for (int64_t d = 0; d < n; ++d) EXPECT_TRUE(same(of.value(d), to.value(d))) << o[static_cast<size_t>(d)] << " / " << l;
        EXPECT_TRUE(std::equal(seen.end() - 4, seen.end(), expected.end() - 4));  // nothing past the row
      }
}

// Quotients of all sizes, beside ties of the narrow types, beyond their limits, subnormal there.
TEST_P(VectorLoopsTest, FinishRoundsOnce) {
  const auto number = [&]() -> double {
    if (below(50) == 0) return static_cast<double>(wild(1));
    const double x = std::ldexp(1 + static_cast<double>(below(1 << 12)) / (1 << 12), static_cast<int>(below(4) == 0 ? below(280) - 140 : below(44) - 26));
    const int64_t beside = below(4);
    return (below(2) == 0 ? x : -x) * (beside == 0 ? 1 + 0x1p-40 : beside == 1 ? 1 - 0x1p-40 : 1);
  };
  check_finish<double>(loops().finish_wide, number);
  check_finish<float>(loops().finish_narrow, [&] { return static_cast<float>(number()); });
}

INSTANTIATE_TEST_SUITE_P(Sets, VectorLoopsTest, testing::Range(0, vector_loop_sets().count),
                         [](const auto& info) { return std::string(vector_loop_sets().set[info.param]->name); });

}  // namespace
