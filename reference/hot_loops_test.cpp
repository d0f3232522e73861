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
  // Of all sizes, and every fifth 0.
  float wild() { return engine() % 5 == 0 ? 0 : static_cast<float>(std::ldexp(normal(), static_cast<int>(engine() % 90) - 60)); }
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

// Products of all sizes, and products that cancel but for the last.
TEST_P(HotLoopsTest, DotPairsKeepTwiceTheDigits) {
  for (int64_t d : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 33, 64, 70, 256})
    for (int64_t n : {0, 1, 3, 4, 5, 9})
      for (bool cancels : {false, true}) {
        std::vector<double> q(static_cast<size_t>(d));
        std::vector<float> k(static_cast<size_t>(2 * n * d));
        for (double& x : q) x = static_cast<double>(wild());
        for (float& x : k) x = wild();
        for (int64_t c = 0; cancels && c + 1 < d; c += 2) {
          const auto at = static_cast<size_t>(c);
          q[at + 1] = -q[at];
          for (size_t j = 0; j < k.size(); j += static_cast<size_t>(d)) k[j + at + 1] = c + 3 < d ? k[j + at] : std::nextafterf(k[j + at], 1);
        }
        const auto size = static_cast<size_t>(n);
        const std::vector<int64_t> key = keys(n);
        std::vector<double> value(size), abs(size), terms(size), high(size), low(size);
        loops().dots({q.data(), k.data(), key.data(), n, d, false, value.data(), abs.data(), terms.data()});
        loops().dot_pairs({q.data(), k.data(), key.data(), n, d, abs.data(), high.data(), low.data()});
        for (size_t j = 0; j < size; ++j) {
          Dec50 exact = 0;
          for (int64_t c = 0; c < d; ++c) exact += Dec50(q[static_cast<size_t>(c)]) * Dec50(k[static_cast<size_t>(key[j] * d + c)]);
          const double off = static_cast<double>(Dec50(Dec50(high[j]) + Dec50(low[j]) - exact)), roundings = static_cast<double>(d) * kUnit;
          EXPECT_LE(std::fabs(off), 8 * roundings * roundings * abs[j]) << "D " << d << ", key " << j;
          EXPECT_LE(std::fabs(low[j]), 8 * roundings * abs[j]);
        }
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

// Near the ends of the argument's steps, and where e^x is subnormal, 0, or the argument beyond any integer.
TEST_P(HotLoopsTest, ExpLowsAreWhatTheExponentialsLack) {
  std::vector<double> x = {0, -0.0, -1e-300, -0x1p-60, -1, -699.9, -700, std::nextafter(-700.0, -701.0), -709, -720, -745, -746, -1e5, -1e15, -1e300, -kInf};
  for (int n = 0; n < 5000; ++n) x.push_back(-std::ldexp(std::fabs(normal()), n % 20 - 12));
  for (int step = 0; step < 8000; step += 7) x.push_back(-(step + 0.5) * std::log(2.0) / 8);
  for (size_t n : {size_t{0}, size_t{1}, size_t{2}, size_t{3}, size_t{7}, size_t{8}, size_t{9}, size_t{17}, x.size()}) {
    std::vector<double> x_low(n), p(n), low(n);
    for (double& d : x_low) d = normal();
    for (size_t j = 0; j < n; ++j) x_low[j] *= std::isinf(x[j]) ? 1 : j % 5 == 0 ? 0x1p-44 : x[j] * 0x1p-55;
    loops().exps(x.data(), static_cast<int64_t>(n), p.data());
    loops().exp_lows({x.data(), x_low.data(), p.data(), static_cast<int64_t>(n), low.data()});
    for (size_t j = 0; j < n; ++j) {
      if (x[j] < -700) {
        EXPECT_EQ(low[j], 0) << x[j];
        continue;
      }
      const Dec50 exact = exp(Dec50(x[j]) + Dec50(x_low[j]));
      EXPECT_LE(std::fabs(static_cast<double>(Dec50((Dec50(p[j]) + Dec50(low[j]) - exact) / exact))), 0x1p-60) << x[j] << " + " << x_low[j];
    }
  }
}

TEST_P(HotLoopsTest, ScorePairsAndTheirShiftKeepTwiceTheDigits) {
  for (int64_t n = 0; n <= 17; ++n)
    for (double scale : {1.0, -0.75, 0x1.555556p-4, 0.0}) {
      const auto size = static_cast<size_t>(n);
      const int64_t d = 8;
      std::vector<double> high(size), low(size), abs(size), terms(size, 8), bias(size), kappa(size), s(size), s_low(size), ds(size), ds_low(size);
      for (size_t j = 0; j < size; ++j) {
        high[j] = static_cast<double>(wild());
        low[j] = std::ldexp(high[j] * normal(), -54);
        abs[j] = 2 * std::fabs(high[j]);
        bias[j] = j % 3 == 0 ? std::ldexp(normal(), 126) : j % 3 == 1 ? static_cast<double>(wild()) : 0;
        if (j % 4 == 0) terms[j] = 1, low[j] = 0;
      }
      std::vector<Dec50> exact(size);
      for (size_t j = 0; j < size; ++j) exact[j] = (Dec50(high[j]) + Dec50(low[j])) * Dec50(scale);
      loops().score_pairs({high.data(), low.data(), abs.data(), terms.data(), bias.data(), n, d, scale, kappa.data(), s.data(), s_low.data()});
      for (size_t j = 0; j < size; ++j) {
        const auto off = [&](double a, double b, const Dec50& from) { return std::fabs(static_cast<double>(Dec50(Dec50(a) + Dec50(b) - from))); };
        const Dec50 with_bias = exact[j] + Dec50(bias[j]);
        EXPECT_LE(off(high[j], low[j], exact[j]), kappa[j] + 1e-48 * std::fabs(high[j]));  // (the decimals themselves)
        EXPECT_LE(kappa[j], terms[j] > 1 ? 0x1p-93 * std::fabs(scale) * abs[j] : 0);
        EXPECT_LE(off(s[j], s_low[j], with_bias), 0x1p-104 * std::fabs(s[j]) + kappa[j] + 0x1p-105 * std::fabs(scale) * abs[j]);
      }
      for (size_t top = 0; top < size; ++top) {
        loops().shift_pairs({high.data(), low.data(), bias.data(), n, high[top], low[top], bias[top], ds.data(), ds_low.data()});
        for (size_t j = 0; j < size; ++j) {
          const Dec50 scores = Dec50(high[j]) + Dec50(low[j]) - Dec50(high[top]) - Dec50(low[top]), biases = Dec50(bias[j]) - Dec50(bias[top]);
          const double sizes = std::fabs(high[j]) + std::fabs(high[top]) + std::fabs(static_cast<double>(biases));
          EXPECT_LE(std::fabs(static_cast<double>(Dec50(Dec50(ds[j]) + Dec50(ds_low[j]) - scores - biases))), 0x1p-103 * sizes);
          if (j == top) {
            EXPECT_EQ(ds[j], 0);
            EXPECT_EQ(ds_low[j], 0);
          }
        }
      }
    }
}

// Values of all sizes; weights down to where products are subnormal; a column that is not finite harms no other.
TEST_P(HotLoopsTest, WeightedPairsKeepTheWeightsLowerDigits) {
  for (int64_t dv : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 33, 64, 65})
    for (int64_t n : {0, 1, 2, 17, 150})
      for (bool nonfinite : {false, true}) {
        const auto size = static_cast<size_t>(n), columns = static_cast<size_t>(dv);
        std::vector<float> v(static_cast<size_t>(2 * n * dv));
        for (float& x : v) x = wild();
        if (nonfinite && !v.empty()) v[0] = NAN;
        const std::vector<int64_t> key = keys(n);
        std::vector<double> p(size), p_low(size), o(columns), abs(columns), high(columns), low(columns);
        for (size_t j = 0; j < size; ++j) {
          p[j] = std::exp(-std::ldexp(std::fabs(normal()), j % 4 == 0 ? 8 : 0));
          if (j % 7 == 6) p[j] = 0x1p-1050;
          p_low[j] = p[j] * normal() * (j % 2 == 0 ? 0x1p-54 : 0x1p-44);
        }
        loops().weighted_sums({v.data(), key.data(), p.data(), n, dv, o.data(), abs.data()});
        loops().weighted_pairs({v.data(), key.data(), p.data(), p_low.data(), n, dv, abs.data(), high.data(), low.data()});
        for (size_t d = nonfinite ? 1 : 0; d < columns; ++d) {
          Dec50 exact = 0;
          for (size_t j = 0; j < size; ++j) exact += (Dec50(p[j]) + Dec50(p_low[j])) * Dec50(v[static_cast<size_t>(key[j] * dv) + d]);
          const double off = static_cast<double>(Dec50(Dec50(high[d]) + Dec50(low[d]) - exact));
          EXPECT_LE(std::fabs(off), static_cast<double>(n) * (0x1p-79 * abs[d] + 0x1p-1020)) << "Dv " << dv << ", N " << n << ", column " << d;
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

TEST_P(HotLoopsTest, TanhIsWithinTwoUnits) {
  std::vector<double> x, y;
  for (double t : {0.0, 0x1p-1000, 0x1p-140, 0x1p-60, 0x1p-27, 1e-3, 0.1, 0.3, 0.6, 1.0, 3.0, 18.0, 19.1, 30.0, 800.0, 1e300})
    for (double sign : {-1.0, 1.0}) x.push_back(sign * t);
  for (int round = 0; round < 20000; ++round) x.push_back(std::ldexp(normal(), static_cast<int>(engine() % 40) - 35));
  y.resize(x.size());
  loops().tanhs(x.data(), static_cast<int64_t>(x.size()), y.data());
  for (size_t j = 0; j < x.size(); ++j) {
    const long double exact = std::tanh(static_cast<long double>(x[j]));
    EXPECT_LE(std::fabs(static_cast<long double>(y[j]) - exact), 2 * kUnit * std::fabs(exact)) << x[j];
  }
}

TEST_P(HotLoopsTest, FieldsTakeSubnormalFactorsForTheLeastNormal) {
  const double least = 0x1p-14;
  for (int64_t d : {1, 2, 3, 4, 7, 8, 15, 16, 33, 64})
    for (bool zeros : {false, true}) {
      const std::vector<double> q = normals(d);
      std::vector<float> k = floats(6 * d);
      for (float& x : k) {
        if (engine() % 3 == 0) x *= 0x1p-16f;
        if (zeros && engine() % 4 == 0) x = 0;
      }
      bool below = false;
      for (float x : k) below = below || (x != 0 && std::fabs(x) < least);
      EXPECT_EQ(loops().has_below(k.data(), static_cast<int64_t>(k.size()), static_cast<float>(least)), below);
      const std::vector<int64_t> key = keys(3);
      double field[3];
      loops().field_sums({q.data(), k.data(), key.data(), 3, d, least, zeros, field});
      for (size_t j = 0; j < 3; ++j) {
        double expected = 0, size = 0;
        for (int64_t c = 0; c < d; ++c) {
          const double y = std::fabs(static_cast<double>(k[static_cast<size_t>(key[j] * d + c)]));
          const double term = y == 0 ? 0.0 : q[static_cast<size_t>(c)] * std::max(y, least);
          expected += term;
          size += std::fabs(term);
        }
        EXPECT_NEAR(field[j], expected, 1e-14 * size);
      }
    }
}

// The bound of a column as bound.md has it, one column at a time.
struct Column {
  double bound, score_part, range, enclosure, variance, drift, common, most_noise;
  bool near_binade = false;
};
double to_power_of_two(double x) {
  const double below = std::exp2(std::floor(std::log2(x)));
  return std::min(x - below, 2 * below - x);
}
Column column_of(const ColumnArguments& a, size_t d, DType type) {
  Column out{};
  const double o = a.o[d], o_abs = std::fabs(o), v_low = a.low[d], v_high = a.high[d];
  const double far = std::max(v_high - o, o - v_low), magnitude = std::max(std::fabs(v_low), std::fabs(v_high));
  const double inverse = 1 / a.l_low, sink_spread = a.sink_grow * o_abs;
  const bool one_way = !a.aligned_blocks && (v_low >= 0 || v_high <= 0);
  const double absolute = (a.flushed_abs[d] + (a.nonzero[d] + a.rescales + 1) * kFlush) * a.inverse_flush;
  const double tail = a.o_abs[d] + a.spread[d] + o_abs * a.grow_sum;
  const double mass = std::isnan(tail) ? magnitude : std::min(tail * inverse, magnitude);
  const double rounding_abs = a.p_rel > 0 ? std::min((a.near_abs[d] + a.sub_abs[d]) * inverse, (1 + a.p_rel) * magnitude) : 0.0;
  const double rounding_spread = a.p_rel > 0 ? a.near[d] + a.sub_spread[d] : 0.0;
  const auto value_error = [&](bool shared_rounding) {
    const double spread = a.spread[d] + sink_spread + (shared_rounding ? rounding_spread : 0.0);
    const double shared = std::isnan(spread) ? far : std::min(spread / (shared_rounding ? a.l_low_rounded : a.l_low), far);
    const double rounding = shared_rounding ? 0.0 : rounding_abs;
    const double sums = a.theta[d] * (mass + rounding), own = rounding + absolute;
    const double loss = a.phi < 0.5 ? a.phi / (1 - a.phi) : 2 * a.phi, l_sums = (o_abs + shared) * loss;
    return shared + own * (1 + loss) + (one_way ? std::max(sums, l_sums) + sums * loss : sums + l_sums);
  };
  const double score_spread = (a.spread[d] + sink_spread) * inverse;
  out.range = std::max(0.0, v_high - v_low);
  out.score_part = out.range == 0 ? 0.0 : std::isnan(score_spread) ? far : std::min(score_spread, far);
  const double by_gain = a.gain * score_spread, by_far = far * a.p_kappa / a.l;
  out.enclosure = !a.enclosed || a.p_kappa == 0 ? 0.0 : 2 * (by_gain <= by_far ? by_gain : by_far);
  double error = 0;
  if (a.may_keep_l) error = std::max(error, value_error(false));
  if (a.may_round_l) error = std::max(error, value_error(true));
  const double before = (o_abs + error) * kBinade, divided = error + kDivisionUlps * ulp_at(DType::f32, before) * (1 + kF32Unit);
  const double least = (o_abs - divided) / kBinade, after = (o_abs + divided) * kBinade;
  double total = divided;
  if (type != DType::f32) total += ulp_at(type, std::min(after, largest_finite(type))) / 2;
  if (type != DType::f16 && least < kFlush) total += kFlush;
  const double blur = 2 * (out.enclosure + a.o_sum_error[d]) + error * 0x1p-36;
  for (double edge : {before, after}) out.near_binade = out.near_binade || (a.enclosed && a.several_keys && edge > 0x1p-100 && to_power_of_two(edge) <= blur);
  if (a.enclosed && o_abs > 0 && type != DType::f16 && std::fabs(least - kFlush) <= blur) out.near_binade = true;
  out.bound = total * kEnlarge;

  const double mean_abs = a.o_abs[d] / a.l;
  out.most_noise = a.p_rel > 0 ? 9 * magnitude * magnitude : out.range * out.range;
  double weights_noise = std::min(a.noise_spread[d] / a.l / a.l, out.most_noise);
  if (a.p_rel > 0 && a.may_keep_l) weights_noise = std::max(weights_noise, std::min(a.noise_abs[d] / a.l / a.l, out.most_noise));
  if (!(a.grow_sum < a.l)) weights_noise = out.most_noise;
  if (a.one_weight && a.p_rel == 0) weights_noise = 0;
  const double together = kF32Unit * mean_abs, division = 0x1p-23 * o_abs;
  out.common = a.common * together;
  const double output = type == DType::f32 ? 0.0 : ulp_at(type, std::min(o_abs * kBinade, largest_finite(type))) / 2;
  const double variance = weights_noise + out.common * out.common + ((a.steps[d] + a.rescales) * together * together + division * division + output * output) / 3;
  const double subnormal = type == DType::f16 ? 0.0 : (o_abs < 2 * kFlush ? kFlush : 0.0);
  out.variance = std::max(variance, together * together / 3) + (absolute + subnormal) * (absolute + subnormal);
  out.drift = a.truncates ? a.blocks * 0x1p-23 * mean_abs : 0.0;
  return out;
}

TEST_P(HotLoopsTest, ColumnsAreBoundedAsOneByOne) {
  int near = 0;
  for (int round = 0; round < 4000; ++round) {
    const auto columns = static_cast<size_t>(1 + engine() % 21);
    const DType type = kAllDTypes[engine() % 3];
    const auto chance = [&](int one_in) { return engine() % static_cast<unsigned>(one_in) == 0; };
    const auto size = [&] { return chance(6) ? 0.0 : std::ldexp(std::fabs(normal()), static_cast<int>(engine() % 30) - 25); };
    const auto sizes = [&] {
      std::vector<double> x(columns);
      for (double& v : x) v = chance(40) ? kInf : chance(40) ? std::nan("") : size();
      return x;
    };
    std::vector<double> o(columns), o_abs(columns), sum_error(columns), theta(columns), steps(columns), nonzero(columns);
    std::vector<float> low(columns), high(columns);
    for (size_t d = 0; d < columns; ++d) {
      const double unit = chance(5) ? 0x1p-120 : chance(5) ? 0x1p100 : 1.0;
      const double a = unit * normal(), b = chance(4) ? a : unit * normal();
      low[d] = static_cast<float>(std::min(a, b)), high[d] = static_cast<float>(std::max(a, b));
      o[d] = chance(6) ? std::ldexp(1.0, static_cast<int>(engine() % 20) - 10) : chance(6) ? 0.0 : low[d] + (static_cast<double>(high[d]) - low[d]) * 0.3;
      o_abs[d] = std::fabs(o[d]) + size();
      sum_error[d] = chance(3) ? 0x1p-12 * std::fabs(o[d]) : 0.0;
      theta[d] = size() * 0x1p-10;
      steps[d] = size() * 100;
      nonzero[d] = static_cast<double>(engine() % 100);
    }
    const std::vector<double> spread = sizes(), near_sum = sizes(), near_abs = sizes(), sub_abs = sizes(), sub_spread = sizes(), flushed = sizes(), noise_spread = sizes(), noise_abs = sizes();
    std::vector<double> result[8];
    for (auto& r : result) r.assign(columns, -1);
    ColumnArguments a{};
    a.dv = static_cast<int64_t>(columns);
    a.o = o.data(), a.o_abs = o_abs.data(), a.o_sum_error = sum_error.data(), a.low = low.data(), a.high = high.data();
    a.theta = theta.data(), a.steps = steps.data(), a.nonzero = nonzero.data();
    a.spread = spread.data(), a.near = near_sum.data(), a.near_abs = near_abs.data(), a.sub_abs = sub_abs.data(), a.sub_spread = sub_spread.data();
    a.flushed_abs = flushed.data(), a.noise_spread = noise_spread.data(), a.noise_abs = noise_abs.data();
    a.l = 1 + size(), a.l_low = a.l * 0.99, a.l_low_rounded = a.l * 0.98;
    a.inverse_flush = 1, a.phi = chance(5) ? 0.7 : size() * 0x1p-8, a.grow_sum = chance(5) ? kInf : size(), a.sink_grow = chance(3) ? size() : 0.0;
    a.p_rel = chance(3) ? 0.0 : 0x1p-9, a.rescales = static_cast<double>(engine() % 5), a.gain = chance(3) ? 0.0 : 0x1p-20, a.p_kappa = chance(3) ? 0.0 : 0x1p-18;
    a.blocks = 6, a.common = size() * 10;
    a.may_keep_l = chance(2), a.may_round_l = !a.may_keep_l || chance(2), a.one_weight = chance(4), a.aligned_blocks = chance(2), a.truncates = chance(2);
    a.enclosed = !chance(4), a.several_keys = !chance(4);
    a.least_exponent = min_subnormal_exponent(type), a.significand_bits = significand_bits(type), a.largest = largest_finite(type);
    a.f32 = type == DType::f32, a.flushes = type != DType::f16;
    double** const results[8] = {&a.bound, &a.score_part, &a.range, &a.enclosure, &a.variance, &a.drift, &a.common_part, &a.most_noise};
    for (size_t r = 0; r < 8; ++r) *results[r] = result[r].data();
    loops().columns(a);
    bool near_binade = false;
    for (size_t d = 0; d < columns; ++d) {
      const Column c = column_of(a, d, type);
      const double expected[8] = {c.bound, c.score_part, c.range, c.enclosure, c.variance, c.drift, c.common, c.most_noise};
      for (size_t r = 0; r < 8; ++r) {
        const double got = result[r][d];
        EXPECT_TRUE((std::isnan(got) && std::isnan(expected[r])) || got == expected[r] || std::fabs(got - expected[r]) <= 1e-13 * std::fabs(expected[r]))
            << "round " << round << ", column " << d << ", result " << r << ": " << got << ", expected " << expected[r];
      }
      near_binade = near_binade || c.near_binade;
    }
    EXPECT_EQ(a.near_binade, near_binade) << "round " << round;
    near += near_binade;
  }
  EXPECT_GT(near, 100);  // both answers are seen
  EXPECT_LT(near, 3900);
}

INSTANTIATE_TEST_SUITE_P(Sets, HotLoopsTest, testing::Range(0, hot_loop_sets().count),
                         [](const auto& info) { return std::string(hot_loop_sets().set[info.param]->name); });

}  // namespace
