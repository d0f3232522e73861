// Every set of hot loops that this processor runs, against the same sums written out.
#include "reference/hot_loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "reference/exact.h"
#include "reference/formats.h"

using namespace attest;

namespace {

constexpr double kUnit = 0x1p-53;
constexpr double kInf = std::numeric_limits<double>::infinity();

class HotLoopsTest : public testing::TestWithParam<int> {
 protected:
  const HotLoops& loops() const { return *hot_loop_sets().set[GetParam()]; }
  std::mt19937_64 engine{1};
  double normal() { return std::normal_distribution<double>()(engine); }
  std::vector<double> normals(int64_t n) {
    std::vector<double> x(static_cast<size_t>(n));
    for (double& v : x) v = normal();
    return x;
  }
  std::vector<float> floats(int64_t n) {
    std::vector<float> x(static_cast<size_t>(n));
    for (float& v : x) v = static_cast<float>(normal());
    return x;
  }
  // Every other key of 2 n.
  static std::vector<int64_t> keys(int64_t n) {
    std::vector<int64_t> key(static_cast<size_t>(n));
    for (int64_t j = 0; j < n; ++j) key[static_cast<size_t>(j)] = 2 * j;
    return key;
  }
};

// One large product, then products of a little more than half a unit of it: every addition rounds up, by all it may.
TEST_P(HotLoopsTest, DotsStayWithinTheirRoundings) {
  for (int64_t d = 1; d <= 70; ++d)
    for (int64_t large = 0; large < d; ++large) {
      std::vector<double> q(static_cast<size_t>(d), 1);
      std::vector<float> k(static_cast<size_t>(d), static_cast<float>(kUnit * (1 + 0x1p-20)));
      k[static_cast<size_t>(large)] = 1;
      const int64_t key = 0;
      double value, abs, terms;
      const double total = loops().dots({q.data(), k.data(), &key, 1, d, true, &value, &abs, &terms});
      const Dec50 exact = 1 + Dec50(d - 1) * Dec50(static_cast<double>(k[static_cast<size_t>(large == 0 ? d - 1 : 0)]) * (d > 1 ? 1 : 0));
      EXPECT_LE(std::fabs(static_cast<double>(Dec50(Dec50(value) - exact))), dot_roundings(d) * kUnit * abs) << "D " << d << ", large " << large;
      EXPECT_EQ(terms, static_cast<double>(d));
      EXPECT_EQ(total, abs);
    }
}

TEST_P(HotLoopsTest, DotsCountWhatIsNotZero) {
  for (int64_t d = 1; d <= 40; ++d) {
    const int64_t n = 5;
    std::vector<double> q = normals(d);
    std::vector<float> k = floats(2 * n * d);
    for (size_t c = 0; c < k.size(); c += 3) k[c] = 0;
    q[0] = 0;
    const std::vector<int64_t> key = keys(n);
    std::vector<double> value(5), abs(5), terms(5);
    loops().dots({q.data(), k.data(), key.data(), n, d, false, value.data(), abs.data(), terms.data()});
    for (size_t j = 0; j < 5; ++j) {
      double v = 0, a = 0, t = 0;
      for (int64_t c = 0; c < d; ++c) {
        const double product = q[static_cast<size_t>(c)] * static_cast<double>(k[static_cast<size_t>(key[j] * d + c)]);
        v += product;
        a += std::fabs(product);
        t += product != 0 ? 1 : 0;
      }
      EXPECT_NEAR(value[j], v, 1e-13 * a);
      EXPECT_NEAR(abs[j], a, 1e-13 * a);
      EXPECT_EQ(terms[j], t) << "D " << d;
    }
  }
}

TEST_P(HotLoopsTest, DotsOfWhatIsNotFiniteAreNotFinite) {
  for (int64_t d : {1, 3, 8, 16, 17, 33}) {
    std::vector<double> q(static_cast<size_t>(d), 1);
    std::vector<float> k(static_cast<size_t>(d), 1);
    k.back() = std::numeric_limits<float>::infinity();
    const int64_t key = 0;
    double value, abs, terms;
    EXPECT_FALSE(std::isfinite(loops().dots({q.data(), k.data(), &key, 1, d, true, &value, &abs, &terms})));
    EXPECT_FALSE(std::isfinite(abs));
  }
}

TEST_P(HotLoopsTest, ExpsAreWithinTwoUnits) {
  std::vector<double> x = {0, -0x1p-60, -1e-9, -1, -700, -745, -746, -1e300, 0x1p-40};
  for (int n = 0; n < 5000; ++n) x.push_back(-std::ldexp(std::fabs(normal()), n % 12 - 3));
  std::vector<double> y(x.size());
  for (size_t n : {size_t{1}, size_t{2}, size_t{7}, x.size()}) {
    loops().exps(x.data(), static_cast<int64_t>(n), y.data());
    for (size_t j = 0; j < n; ++j) {
      const long double exact = std::exp(static_cast<long double>(x[j]));  // 64 bits, and no subnormal doubles
      EXPECT_LE(std::fabs(static_cast<long double>(y[j]) - exact), exact < 0x1p-1021L ? exact : 4 * kUnit * exact) << x[j];
    }
  }
}

TEST_P(HotLoopsTest, TiedSumsAddBeforeTheySquare) {
  for (int64_t dv : {1, 3, 4, 7, 8, 9, 33}) {
    const int64_t n = 20;
    const std::vector<float> v = floats(2 * n * dv);
    const std::vector<int64_t> key = keys(n);
    const std::vector<double> center = normals(dv), sigma2 = normals(n);
    std::vector<int64_t> group(static_cast<size_t>(n)), next(group);
    for (int64_t j = 0; j < n; ++j) {  // key 0 alone, then 1, 4, 7, ... and so on
      group[static_cast<size_t>(j)] = j == 0 ? 0 : (j - 1) % 3 + 1;
      next[static_cast<size_t>(j)] = j == 0 || j + 3 >= n ? -1 : j + 3;
    }
    std::vector<double> noise2(static_cast<size_t>(dv), 0.5), noise_abs(static_cast<size_t>(dv), 0.25);
    loops().tied_sums({v.data(), key.data(), center.data(), n, dv, group.data(), next.data(), sigma2.data(), noise2.data(), noise_abs.data()});
    for (int64_t d = 0; d < dv; ++d) {
      double about_o = 0.5, about_zero = 0.25;
      for (int64_t g = 0; g < 4; ++g) {
        double w = 0, count = 0;
        for (int64_t j = 0; j < n; ++j)
          if (group[static_cast<size_t>(j)] == g) {
            w += static_cast<double>(v[static_cast<size_t>(key[static_cast<size_t>(j)] * dv + d)]);
            ++count;
          }
        const double away = w - count * center[static_cast<size_t>(d)];
        about_o += sigma2[static_cast<size_t>(g)] * away * away;
        about_zero += sigma2[static_cast<size_t>(g)] * w * w;
      }
      EXPECT_NEAR(noise2[static_cast<size_t>(d)], about_o, 1e-11);
      EXPECT_NEAR(noise_abs[static_cast<size_t>(d)], about_zero, 1e-11);
    }
  }
}

TEST_P(HotLoopsTest, ExtremesZerosAndNonFiniteValues) {
  for (int64_t columns : {1, 7, 8, 17, 64})
    for (int64_t n : {1, 5, 64}) {
      std::vector<float> v = floats(n * columns);
      std::vector<float> low(static_cast<size_t>(columns), 0.0f), high(low);
      for (float& x : v) x = x == 0 ? 1 : x;
      EXPECT_FALSE(loops().has_zero(v.data(), n * columns));
      EXPECT_FALSE(loops().has_nonfinite(v.data(), n * columns));
      loops().extremes(v.data(), n, columns, low.data(), high.data());
      for (int64_t d = 0; d < columns; ++d) {
        float least = 0, most = 0;
        for (int64_t j = 0; j < n; ++j) {
          least = std::min(least, v[static_cast<size_t>(j * columns + d)]);
          most = std::max(most, v[static_cast<size_t>(j * columns + d)]);
        }
        EXPECT_EQ(low[static_cast<size_t>(d)], least);
        EXPECT_EQ(high[static_cast<size_t>(d)], most);
      }
      for (size_t at : {size_t{0}, v.size() / 2, v.size() - 1}) {
        for (float x : {NAN, INFINITY, -INFINITY, 0.0f, -0.0f}) {
          const float before = std::exchange(v[at], x);
          EXPECT_EQ(loops().has_zero(v.data(), n * columns), x == 0) << at;
          EXPECT_EQ(loops().has_nonfinite(v.data(), n * columns), x != 0) << at;
          v[at] = before;
        }
      }
    }
}

TEST_P(HotLoopsTest, WeightedSumsAndBoundSumsAreTheSumsTheySayTheyAre) {
  for (int64_t dv : {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 33, 64, 65})
    for (int64_t n : {1, 63, 64, 65, 150})
      for (const auto& [zeros, rounded, extremes] : {std::tuple{false, true, true}, {true, true, true}, {false, false, false}, {true, false, true}}) {
        std::vector<float> v = floats(2 * n * dv);
        if (zeros)
          for (size_t c = 0; c < v.size(); c += 5) v[c] = 0;
        const std::vector<int64_t> key = keys(n);
        std::vector<double> p = normals(n), grow = normals(n), rounding = normals(n), sigma2 = normals(n), center = normals(dv);
        for (auto* weights : {&p, &grow, &rounding, &sigma2})
          for (double& w : *weights) w = std::fabs(w);
        const auto columns = static_cast<size_t>(dv);
        std::vector<double> o(columns), abs(columns), spread(columns), near(columns), noise1(columns), noise2(columns), nonzero(columns);
        std::vector<float> low(columns, 0.25f), high(columns, 0.5f);
        loops().weighted_sums({v.data(), key.data(), p.data(), n, dv, o.data(), abs.data()});
        loops().bound_sums({v.data(), key.data(), center.data(), n, dv, rounded, zeros, extremes, grow.data(), rounding.data(), sigma2.data(),
                            {spread.data(), near.data(), noise1.data(), noise2.data(), nonzero.data(), low.data(), high.data()}});
        for (size_t d = 0; d < columns; ++d) {
          double sums[7] = {}, least = 0.25, most = 0.5;
          for (size_t j = 0; j < key.size(); ++j) {
            const double x = static_cast<double>(v[static_cast<size_t>(key[j] * dv) + d]), away = x - center[d];
            sums[0] += p[j] * x;
            sums[1] += p[j] * std::fabs(x);
            sums[2] += grow[j] * std::fabs(away);
            sums[3] += rounding[j] * std::fabs(away);
            sums[4] += sigma2[j] * away;
            sums[5] += sigma2[j] * away * away;
            sums[6] += x != 0 ? 1 : 0;
            least = std::min(least, x);
            most = std::max(most, x);
          }
          const double scale = 1e-12 * static_cast<double>(n);
          EXPECT_NEAR(o[d], sums[0], scale);
          EXPECT_NEAR(abs[d], sums[1], scale);
          EXPECT_NEAR(spread[d], sums[2], scale);
          EXPECT_NEAR(near[d], rounded ? sums[3] : 0, scale);
          EXPECT_NEAR(noise1[d], rounded ? sums[4] : 0, scale);
          EXPECT_NEAR(noise2[d], sums[5], scale * 10);
          EXPECT_EQ(nonzero[d], zeros ? sums[6] : 0);
          EXPECT_EQ(static_cast<double>(low[d]), extremes ? least : 0.25);
          EXPECT_EQ(static_cast<double>(high[d]), extremes ? most : 0.5);
        }
      }
}

TEST_P(HotLoopsTest, KeySumsFitTheirPlainForms) {
  for (int64_t n : {1, 2, 3, 7, 8, 9, 31, 100}) {
    const auto size = static_cast<size_t>(n);
    std::vector<double> s = normals(n), low(size, 0), kappa(size, 0x1p-50), ds(size), p(size), own = normals(n), delta(size);
    for (double& x : own) x = std::fabs(x) * 1e-7;
    const double m = loops().maximum(s.data(), n);
    EXPECT_EQ(m, *std::max_element(s.begin(), s.end()));
    ShiftArguments shift{s.data(), low.data(), kappa.data(), n, m, 0, ds.data(), 0, 0};
    loops().shift(shift);
    EXPECT_EQ(shift.kappa_at_maximum, 0x1p-50);
    EXPECT_EQ(shift.least_ds, *std::min_element(s.begin(), s.end()) - m);
    for (size_t j = 0; j < size; ++j) EXPECT_EQ(ds[j], s[j] - m);
    loops().exps(ds.data(), n, p.data());
    SumArguments sums{ds.data(), p.data(), n, kappa.data(), 0, 0, 0};
    loops().sums(sums);
    DeltaArguments deltas{own.data(), ds.data(), kappa.data(), p.data(), n, 1e-6, -1000, delta.data(), 0, 0, 0, 0};
    loops().deltas(deltas);
    double l = 0, entropy = 0, gain = 0, most = 0;
    for (size_t j = 0; j < size; ++j) {
      const double expected = 0x1p-50 + (ds[j] == 0 ? 0.0 : kUnit * (4 - 2 * ds[j]));
      EXPECT_DOUBLE_EQ(kappa[j], expected);
      EXPECT_DOUBLE_EQ(delta[j], own[j] + 0x1p-23 * std::fabs(ds[j]) + 1e-6);
      l += p[j];
      entropy += p[j] * expected;
      gain = std::max(gain, kappa[j] / delta[j]);
      if (ds[j] + 2 * delta[j] > -1000) most = std::max(most, delta[j]);
    }
    EXPECT_DOUBLE_EQ(sums.l, l);
    EXPECT_NEAR(sums.entropy, entropy, 1e-12 * entropy);
    EXPECT_DOUBLE_EQ(deltas.gain, gain);
    EXPECT_DOUBLE_EQ(deltas.delta_most, most);
  }
  EXPECT_EQ(loops().maximum(nullptr, 0), -kInf);
}

TEST_P(HotLoopsTest, EveryNarrowNumberIsWidenedExactly) {
  std::vector<uint8_t> bytes(2 << 16);
  for (uint32_t u = 0; u < 1 << 16; ++u) {
    const auto half = static_cast<uint16_t>(u);
    std::memcpy(bytes.data() + 2 * u, &half, 2);
  }
  std::vector<float> wide(1 << 16);
  loops().widen_f16(bytes.data(), 1 << 16, wide.data());
  for (uint32_t u = 0; u < 1 << 16; ++u) {
    const float expected = f16_to_float(static_cast<uint16_t>(u));
    EXPECT_TRUE(wide[u] == expected || (std::isnan(wide[u]) && std::isnan(expected))) << u;
    EXPECT_EQ(std::signbit(wide[u]), std::signbit(expected)) << u;
  }
  loops().widen_bf16(bytes.data(), 1 << 16, wide.data());
  for (uint32_t u = 0; u < 1 << 16; ++u) {
    const float expected = bf16_to_float(static_cast<uint16_t>(u));
    EXPECT_EQ(std::memcmp(&wide[u], &expected, 4), 0) << u;
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, HotLoopsTest, testing::Range(0, hot_loop_sets().count),
                         [](const auto& info) { return std::string(hot_loop_sets().set[info.param]->name); });

}  // namespace
