// What the Hopper path promises beyond the contract's own suite, on "cuda_hopper", every tile shape of it. Without its
// device the program says so and exits with code 4, which CTest reports as skipped.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <variant>
#include <vector>

#include "kernel/runner/kernel.h"
#include "kernel/testing/direct.h"
#include "reference/judge.h"

namespace attest {
namespace {

using testing::Random;

const Kernel& kernel() {
  static const Kernel k = std::get<Kernel>(Kernel::load("cuda_hopper"));
  return k;
}

Observation run(const Problem& p, bool trace = false) {
  EXPECT_EQ(validate(p).value_or(""), "");
  Observation seen = kernel().run(p, {.trace = trace});
  EXPECT_EQ(seen.status, RunStatus::ok) << seen.message;
  EXPECT_EQ(seen.overrun + seen.unwritten + seen.input_change, "");
  return seen;
}

// One call for every tile shape (kernel/cuda/hopper/shapes.cuh), keys enough for several tiles, and for splits where
// queries are few.
std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (int64_t width : {40, 64, 128, 256})
    for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{3, 2500}, {150, 410}, {1100, 300}})
      all.push_back({.b = 2, .hq = 2, .hk = 1, .nq = queries, .nk = keys, .d = width, .dv = width});
  all.push_back({.b = 1, .hq = 1, .hk = 1, .nq = 4200, .nk = 200, .d = 128, .dv = 128});
  return all;
}

Problem filled(const Shape& s, DType type, uint64_t seed) {
  Problem p = Problem::make(s, type);
  Random random(seed);
  for (Tensor* t : {&p.q, &p.k, &p.v})
    for (int64_t n = 0; n < t->layout.count(); ++n) t->set_bits(n, from_double(type, random.uniform(-2, 2)));
  return p;
}

std::string words(const Problem& p) {
  return std::string(name_of(p.type)) + " " + std::to_string(p.shape.nq) + " x " + std::to_string(p.shape.nk) + ", D " + std::to_string(p.shape.d) +
         (p.causal ? ", causal" : "");
}

void for_each_shape(const std::function<void(Problem&)>& body) {
  for (DType type : {DType::f16, DType::bf16})
    for (const Shape& s : shapes())
      for (bool causal : {false, true}) {
        Problem p = filled(s, type, 1);
        p.causal = causal;
        SCOPED_TRACE(words(p));
        body(p);
      }
}

void expect_same_bits(const Observation& a, const Observation& b) {
  ASSERT_EQ(a.o.size(), b.o.size());
  ASSERT_EQ(a.lse.size(), b.lse.size());
  size_t different = 0;
  for (size_t n = 0; n < a.o.size(); ++n) different += !same_value(a.o[n], b.o[n]);
  for (size_t n = 0; n < a.lse.size(); ++n) different += !same_value(a.lse[n], b.lse[n]);
  EXPECT_EQ(different, 0u);
}

void expect_within_the_bound(const Problem& p, const Observation& seen) {
  Judge judge;
  const Verdict v = judge(p, seen, {.numerics = kernel().numerics(p, Contract::strict)});
  EXPECT_TRUE(v.ok()) << v.detail;
}

TEST(Hopper, EveryShapeStaysWithinTheProvenBound) {
  for_each_shape([](Problem& p) {
    if (p.shape.nq > 200) p.shape.b = 1, p = filled(p.shape, p.type, 2);
    expect_within_the_bound(p, run(p));
  });
}

// The reference point of a row moves at every tile, and lies far from 0: exponentials and rescales must agree on it.
TEST(Hopper, RisingMaximaFarFromZeroStayWithinTheProvenBound) {
  for (DType type : {DType::f16, DType::bf16})
    for (double offset : {300.0, 700.0, 3000.0, 50000.0})
      for (const Shape& s : shapes()) {
        if (s.nq > 200) continue;
        Problem p = filled(s, type, 3);
        p.scale = 1;
        for (int64_t b = 0; b < s.b; ++b) {
          for (int64_t h = 0; h < s.hq; ++h)
            for (int64_t i = 0; i < s.nq; ++i)
              for (int64_t d = 0; d < s.d; ++d) p.q.set(b, h, i, d, d == 0 ? offset / 64 : d == 1 ? 1.0 : 0.0);
          // Tiles go down from the last key: the scores rise on the way, by 1/64 a key.
          for (int64_t j = 0; j < s.nk; ++j)
            for (int64_t d = 0; d < s.d; ++d)
              p.k.set(b, 0, j, d, d == 0 ? 64.0 : d == 1 ? static_cast<double>(s.nk - j) / 64 : 0.0);
        }
        SCOPED_TRACE(words(p) + ", offset " + std::to_string(offset));
        expect_within_the_bound(p, run(p));
      }
}

TEST(Hopper, OneKeyOfALargeScoreGivesItsValueExactly) {
  for (DType type : {DType::f16, DType::bf16})
    for (double factor : {100.0, 1000.0, 10000.0, 60000.0}) {
      Problem p = filled({.nq = 2, .nk = 1, .d = 8, .dv = 64}, type, 4);
      p.scale = -1;
      for (int64_t i = 0; i < 2; ++i)
        for (int64_t d = 0; d < 8; ++d) p.q.set(0, 0, i, d, i == 0 ? 1.0 : -1.0);
      for (int64_t d = 0; d < 8; ++d) p.k.set(0, 0, 0, d, d == 0 ? factor : 1.0);
      const Observation seen = run(p);
      for (size_t n = 0; n < seen.o.size(); ++n) EXPECT_EQ(seen.o[n], p.v.get(0, 0, 0, static_cast<int64_t>(n % 64))) << factor;
    }
}

TEST(Hopper, ValuesAtTheTypesLimitsStayFinite) {
  for_each_shape([](Problem& p) {
    for (int64_t n = 0; n < p.v.layout.count(); ++n) p.v.set_bits(n, from_double(p.type, largest_finite(p.type)));
    const Observation seen = run(p);
    for (double x : seen.o) ASSERT_TRUE(x == 0 || x == largest_finite(p.type)) << x;  // 0: causal, no key to see
  });
}

// The copy engine takes the one, ordinary loads the other; rows broadcast from one are for ordinary loads, too.
TEST(Hopper, EveryLayoutHasTheSameBits) {
  for_each_shape([](Problem& p) {
    const Shape& s = p.shape;
    const Observation packed = run(p);
    Problem odd = p;
    for (Tensor* t : {&odd.q, &odd.k, &odd.v}) {
      const Tensor from = *t;
      Layout& l = t->layout;
      l.stride = {l.extent[1] * (l.extent[2] * (l.extent[3] + 3) + 5), l.extent[2] * (l.extent[3] + 3) + 5, l.extent[3] + 3, 1};
      l.offset = 1;
      t->storage.assign(static_cast<size_t>(l.span()) * 2, 0xFF);
      for (int64_t a = 0; a < l.extent[0]; ++a)
        for (int64_t b = 0; b < l.extent[1]; ++b)
          for (int64_t c = 0; c < l.extent[2]; ++c)
            for (int64_t d = 0; d < l.extent[3]; ++d) t->set_bits(l.at(a, b, c, d), from.bits(from.layout.at(a, b, c, d)));
    }
    expect_same_bits(packed, run(odd));

    Problem repeated = p, broadcast = p;
    for (int64_t b = 0; b < s.b; ++b)
      for (int64_t j = 0; j < s.nk; ++j)
        for (int64_t d = 0; d < s.d; ++d) repeated.k.set(b, 0, j, d, p.k.get(b, 0, 0, d));
    broadcast.k = repeated.k;
    broadcast.k.layout.stride[2] = 0;
    expect_same_bits(run(repeated), run(broadcast));
  });
}

TEST(Hopper, ATraceChangesNoBitAndItsLastStatesGiveLse) {
  for_each_shape([](Problem& p) {
    // Some rows of large scores, some for the exact path.
    for (int64_t d = 0; d < p.shape.d; ++d) p.q.set(0, 0, 1, d, 500.0), p.q.set(0, 1, 2, d, d == 0 ? NAN : 1.0);
    const Observation plain = run(p), traced = run(p, true);
    expect_same_bits(plain, traced);
    ASSERT_TRUE(traced.traced);
    const Shape& s = p.shape;
    std::vector<double> m(plain.lse.size(), -INFINITY), l(plain.lse.size(), 0.0);
    const auto row = [&](const TraceRecord& r) { return static_cast<size_t>((r.b * s.hq + r.h) * s.nq + r.row); };
    const auto last = [&](size_t n) {
      const TraceRecord& r = traced.trace[n];
      return n + 1 == traced.trace.size() || row(traced.trace[n + 1]) != row(r) || traced.trace[n + 1].split != r.split;
    };
    for (size_t n = 0; n < traced.trace.size(); ++n)
      if (last(n)) m[row(traced.trace[n])] = std::max<double>(m[row(traced.trace[n])], traced.trace[n].m);
    for (size_t n = 0; n < traced.trace.size(); ++n) {
      const TraceRecord& r = traced.trace[n];
      if (last(n)) l[row(r)] += r.l * std::exp(r.m - m[row(r)]);
      EXPECT_TRUE(r.scale >= 0 && r.scale <= 1);
    }
    for (size_t n = 0; n < m.size(); ++n) {
      if (std::isnan(plain.lse[n])) continue;
      const double expected = l[n] == 0 ? -INFINITY : m[n] + std::log(l[n]);
      EXPECT_TRUE(plain.lse[n] == expected || std::fabs(plain.lse[n] - expected) <= 3e-6 * (1 + std::fabs(m[n]))) << n << ": " << plain.lse[n] << " and " << expected;
    }
  });
}

TEST(Hopper, ABatchHasTheBitsOfItsMembersAlone) {
  for_each_shape([](Problem& p) {
    const Observation together = run(p);
    for (int64_t b = 0; b < p.shape.b; ++b) {
      Shape s = p.shape;
      s.b = 1;
      Problem alone = Problem::make(s, p.type);
      alone.causal = p.causal;
      const auto take = [b](Tensor& to, const Tensor& from) {
        std::memcpy(to.storage.data(), from.storage.data() + b * static_cast<int64_t>(to.storage.size()), to.storage.size());
      };
      take(alone.q, p.q), take(alone.k, p.k), take(alone.v, p.v);
      const Observation seen = run(alone);
      for (size_t n = 0; n < seen.o.size(); ++n) ASSERT_TRUE(same_value(seen.o[n], together.o[static_cast<size_t>(b) * seen.o.size() + n]));
      for (size_t n = 0; n < seen.lse.size(); ++n) ASSERT_TRUE(same_value(seen.lse[n], together.lse[static_cast<size_t>(b) * seen.lse.size() + n]));
    }
  });
}

TEST(Hopper, WhatItIsNotMadeForIsRefusedWithTheReason) {
  const Problem p = filled({.nq = 4, .nk = 8, .d = 16, .dv = 16}, DType::bf16, 5);
  const auto refusal = [&](const std::function<void(Problem&)>& change) {
    Problem changed = p;
    change(changed);
    EXPECT_EQ(kernel().run(changed).status, RunStatus::unsupported);
    return kernel().refuses(changed);
  };
  EXPECT_EQ(kernel().refuses(p), "");
  EXPECT_NE(refusal([](Problem& c) { c.softcap = 2; }).find("softcap"), std::string::npos);
  EXPECT_NE(refusal([](Problem& c) { c.sink = {{0.0f}}; }).find("sink"), std::string::npos);
  EXPECT_NE(refusal([](Problem& c) { c.bias = Tensor::packed(DType::f32, {1, 1, 1, 8}); }).find("bias"), std::string::npos);
  EXPECT_NE(refusal([](Problem& c) { c.mask = BoolMask{Layout::packed({1, 1, 1, 8}), std::vector<uint8_t>(8, 1)}; }).find("mask"), std::string::npos);
  EXPECT_NE(refusal([](Problem& c) { c.choice.splits = 2; }).find("split"), std::string::npos);
  EXPECT_NE(refusal([](Problem& c) { c = filled(c.shape, DType::f32, 5); }).find("f32"), std::string::npos);
}

}  // namespace
}  // namespace attest

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const auto loaded = attest::Kernel::load("cuda_hopper");
  if (const auto* error = std::get_if<attest::LoadError>(&loaded)) {
    std::printf("%s\n", error->message.c_str());
    return error->kind == attest::LoadError::Kind::no_device ? 4 : 1;
  }
  if (std::get<attest::Kernel>(loaded).refuses(attest::filled({.nk = 1, .d = 8, .dv = 8}, attest::DType::bf16, 1)).find("9.0") != std::string::npos) {
    std::printf("no device of compute capability 9.0\n");
    return 4;
  }
  return RUN_ALL_TESTS();
}
