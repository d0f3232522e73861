#include "reference/diagnosis/equal_rows.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

#include "reference/alignment.h"
#include "reference/visible.h"

namespace attest {

namespace {

constexpr int64_t kMost = int64_t{1} << 22;  // elements of K, V and of rows times keys

// FNV-1a over words: contents that differ are told apart but for one chance in 2^64.
class Contents {
 public:
  void word(uint64_t x) { hash_ = (hash_ ^ x) * 0x100000001B3u, hash_ ^= hash_ >> 29; }
  void number(double x) { word(std::bit_cast<uint64_t>(x)); }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xCBF29CE484222325u;
};

// What all rows of a run have in common.
uint64_t kind_of_call(const Problem& p) {
  Contents c;
  const Shape& s = p.shape;
  for (int64_t x : {s.nq, s.nk, s.d, s.dv, s.hk > 0 ? s.hq / s.hk : 0, int64_t(p.type), int64_t(p.causal), p.window.left.value_or(-1), p.window.right.value_or(-1),
                    int64_t(p.key_lengths.has_value()), int64_t(p.mask.has_value()), p.bias ? 1 + int64_t(p.bias->type) : 0, int64_t(p.sink.has_value()), p.choice.tile_keys,
                    int64_t(p.choice.order), int64_t(p.choice.splits), p.choice.p_type ? 1 + int64_t(*p.choice.p_type) : 0})
    c.word(static_cast<uint64_t>(x));
  c.number(p.scale);
  c.number(p.softcap);
  for (const Alignment& a : alignment_class(p)) c.word(static_cast<uint64_t>(a.all * 32 + a.used));
  return c.value();
}

uint64_t keys_and_values(const Problem& p, int64_t b, int64_t g) {
  Contents c;
  for (int64_t j = 0; j < p.shape.nk; ++j) {
    for (int64_t d = 0; d < p.shape.d; ++d) c.word(p.k.bits(p.k.layout.at(b, g, j, d)));
    for (int64_t d = 0; d < p.shape.dv; ++d) c.word(p.v.bits(p.v.layout.at(b, g, j, d)));
  }
  return c.value();
}

uint64_t own_contents(const Problem& p, const RowPlace& at) {
  Contents c;
  for (int64_t d = 0; d < p.shape.d; ++d) c.word(p.q.bits(p.q.layout.at(at.b, at.h, at.i, d)));
  for (int64_t j = 0; j < p.shape.nk; ++j) {
    if (p.mask) c.word(p.mask->storage[static_cast<size_t>(broadcast_at(p.mask->layout, at.b, at.h, at.i, j))] != 0);
    if (p.bias) c.word(p.bias->bits(broadcast_at(p.bias->layout, at.b, at.h, at.i, j)));
  }
  if (p.key_lengths) c.word(static_cast<uint64_t>((*p.key_lengths)[static_cast<size_t>(at.b)]));
  if (p.sink) c.number((*p.sink)[static_cast<size_t>(at.h)]);
  return c.value();
}

}  // namespace

std::optional<UnequalRows> unequal_rows(const Evidence& evidence) {
  if (evidence.conventions.batch_dependent) return std::nullopt;
  struct First {
    size_t run;
    RowPlace place;
  };
  std::map<std::tuple<uint64_t, int64_t, uint64_t, uint64_t>, First> first;  // by kind of call, i, K and V, own contents
  std::vector<uint64_t> whole(evidence.runs.size(), 0);                      // contents of a run
  std::vector<UnequalRows> unequal;
  for (size_t n = 0; n < evidence.runs.size(); ++n) {
    const EvidenceRun& run = evidence.runs[n];
    const Problem& p = run.problem;
    const Shape& s = p.shape;
    if (run.seen.status != RunStatus::ok || s.rows() == 0 || s.hk == 0) continue;
    if (s.b * s.hk * s.nk * (s.d + s.dv) > kMost || s.rows() * (s.nk + s.d) > kMost) continue;
    const uint64_t kind = kind_of_call(p);
    Predictor rows(p, evidence.conventions, run.numerics);
    Contents all;
    bool complained = false;
    for (int64_t b = 0; b < s.b; ++b)
      for (int64_t h = 0; h < s.hq; ++h) {
        const uint64_t head = keys_and_values(p, b, s.key_head(h));
        for (int64_t i = 0; i < s.nq; ++i) {
          const RowPlace at{b, h, i};
          const uint64_t own = own_contents(p, at);
          for (uint64_t x : {kind, head, own}) all.word(x);
          const auto [found, is_new] = first.try_emplace({kind, i, head, own}, First{n, at});
          if (is_new || complained || rows.kind(at) == RowKind::out_of_range) continue;
          const auto& [other, place] = found->second;
          const EvidenceRun& before = evidence.runs[other];
          const auto row = [](const Shape& shape, const RowPlace& x) { return static_cast<size_t>((x.b * shape.hq + x.h) * shape.nq + x.i); };
          const size_t here = row(s, at), there = row(before.problem.shape, place), width = static_cast<size_t>(s.dv);
          const auto hold = [&](int64_t column, double x, double y) {
            if (complained || same_value(x, y)) return;
            complained = true;
            unequal.push_back({other, n, place, at, column, x, y});
          };
          for (size_t d = 0; d < width; ++d) hold(static_cast<int64_t>(d), before.seen.o[there * width + d], run.seen.o[here * width + d]);
          if (!before.seen.lse.empty() && !run.seen.lse.empty()) hold(-1, before.seen.lse[there], run.seen.lse[here]);
        }
      }
    whole[n] = all.value();
  }
  if (unequal.empty()) return std::nullopt;
  // The pair that differs in least says most.
  using Apart = UnequalRows::Apart;
  for (UnequalRows& u : unequal) {
    const bool same_contents = whole[u.run_a] == whole[u.run_b] && u.run_a != u.run_b;
    u.apart = !same_contents ? Apart::others : same(evidence.runs[u.run_a].problem, evidence.runs[u.run_b].problem) ? Apart::nothing : Apart::layout;
  }
  return *std::min_element(unequal.begin(), unequal.end(), [](const UnequalRows& x, const UnequalRows& y) { return x.apart < y.apart; });
}

}  // namespace attest
