#include "corpus/testing/random_problem.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "corpus/score_embedding.h"

namespace attest {
namespace {

class Maker {
 public:
  explicit Maker(uint64_t seed) : random_(seed) {}

  Case make() {
    Case c;
    Problem& p = c.problem;
    Shape& s = p.shape;
    s.b = below(3);
    s.hk = 1 + below(2);
    s.hq = s.hk * (1 + below(3));
    s.nq = below(4);
    s.nk = below(5);
    s.d = 1 + below(4);
    s.dv = 1 + below(4);
    if (below(20) == 0) s.hq = s.hk = 0;
    p.type = kAllDTypes[below(3)];
    p.q = tensor(p.type, {s.b, s.hq, s.nq, s.d});
    p.k = tensor(p.type, {s.b, s.hk, s.nk, s.d});
    p.v = tensor(p.type, {s.b, s.hk, s.nk, s.dv});
    if (below(3) == 0 && s.hk > 0) embed(p);
    p.scale = chance() ? default_scale(s.d) : finite();
    p.softcap = chance() ? 0 : std::fabs(finite());
    p.causal = chance();
    if (chance()) p.window.left = below(5);
    if (chance()) p.window.right = below(20) == 0 ? INT64_MAX : below(5);
    if (chance()) {
      p.key_lengths.emplace();
      for (int64_t b = 0; b < s.b; ++b) p.key_lengths->push_back(static_cast<int32_t>(below(s.nk + 1)));
    }
    if (chance()) p.mask = mask({some(s.b), some(s.hq), some(s.nq), some(s.nk)});
    if (chance()) p.bias = tensor(chance() ? DType::f32 : p.type, {some(s.b), some(s.hq), some(s.nq), some(s.nk)});
    if (chance()) {
      p.sink.emplace();
      for (int64_t h = 0; h < s.hq; ++h) p.sink->push_back(below(4) == 0 ? -std::numeric_limits<float>::infinity() : finite());
    }
    p.o = output({s.b, s.hq, s.nq, s.dv});
    p.lse = output({s.b, s.hq, s.nq, 1});
    if (chance()) p.choice = {below(9), static_cast<TileOrder>(below(3)), static_cast<int32_t>(below(4)), std::nullopt};
    if (chance()) p.choice.p_type = kAllDTypes[below(3)];
    if (chance()) p.origin = {"ties", "ones", "causal", "a \"note\"\nof two lines, \u00e9"};
    if (chance()) c.name = "name \\ with\ttab";
    if (chance()) c.property = "matches_reference";
    if (chance()) c.signature = "bound row 0";
    if (chance()) c.expected = Expected{{{0, 0, "1.000", "-inf", "0", {"1", "2.50"}}, {1, 2, "", "nan", "", {}}}, {{"1", "2"}, {}}, {"0.5"}, {{"1e-7"}}, "a text"};
    return c;
  }

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool chance() { return below(2) == 0; }
  int64_t some(int64_t size) { return chance() ? size : 1; }

  float finite() {
    const auto f = std::bit_cast<float>(static_cast<uint32_t>(random_()));
    return std::isfinite(f) ? f : 0.5f;
  }

  uint32_t element(DType type) {
    switch (below(4)) {
      case 0: return from_double(type, static_cast<double>(below(9) - 4));
      case 1: return from_double(type, std::ldexp(static_cast<double>(below(1 << 20)), static_cast<int>(below(60)) - 40));
      default: return static_cast<uint32_t>(random_()) & (type == DType::f32 ? 0xFFFFFFFFu : 0xFFFFu);
    }
  }

  // Packed, or with gaps, broadcast dimensions, an offset and spare storage behind.
  Layout layout(const std::array<int64_t, 4>& extent, bool output) {
    if (chance()) return Layout::packed(extent);
    Layout l;
    l.extent = extent;
    int64_t span = std::max<int64_t>(extent[3], 1) + below(3);
    for (size_t k = 3; k-- > 0;) {
      l.stride[k] = !output && below(4) == 0 ? 0 : span;
      span = std::max(span, l.stride[k] * extent[k]) + below(2);
    }
    l.offset = below(4);
    return l;
  }
  Layout output(const std::array<int64_t, 4>& extent) { return layout(extent, true); }

  int64_t storage(const Layout& l) { return l == Layout::packed(l.extent) && below(4) != 0 ? l.count() : l.span() + below(3); }

  Tensor tensor(DType type, const std::array<int64_t, 4>& extent) {
    Tensor t;
    t.type = type;
    t.layout = layout(extent, false);
    const int64_t elements = storage(t.layout);
    t.storage.resize(static_cast<size_t>(elements * size_of(type)));
    for (int64_t i = 0; i < elements; ++i) t.set_bits(i, element(type));
    return t;
  }

  BoolMask mask(const std::array<int64_t, 4>& extent) {
    BoolMask m;
    m.layout = layout(extent, false);
    m.storage.resize(static_cast<size_t>(storage(m.layout)));
    const int64_t values = chance() ? 2 : 256;
    for (uint8_t& byte : m.storage) byte = static_cast<uint8_t>(below(values));
    return m;
  }

  void embed(Problem& p) {
    const Shape& s = p.shape;
    p.shape.d = columns_needed(s) + 1 + below(2);
    EmbeddedScores scores;
    scores.unit = std::ldexp(1.0, static_cast<int>(below(7)) - 3);
    for (int64_t i = 0; i < s.b * s.hq * s.nq * s.nk; ++i) scores.score.push_back(below(5) == 0 ? -0.0 : std::ldexp(static_cast<double>(below(1 << 22)), -12));
    embed_scores(p, scores);
  }

  std::mt19937_64 random_;
};

}  // namespace

Case random_case(uint64_t seed) { return Maker(seed).make(); }

}  // namespace attest
