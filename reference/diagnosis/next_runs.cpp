// next_runs.cpp: the runs that would tell more.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "reference/diagnosis/candidates.h"
#include "reference/diagnosis/diagnose.h"
#include "reference/diagnosis/transforms.h"

namespace attest {

namespace {

constexpr int64_t kIndicatorRuns = 16;    // at most, one chunk of keys each
constexpr int64_t kRows = 37, kEdges = 150; // rows of a larger problem; edges of a mask, so that they lie in more than one block
constexpr int64_t kBeyond = 256;           // keys more than a tile or block that a model rounds to
constexpr size_t kSeparatingRuns = 4;
constexpr size_t kContenders = 12;
constexpr size_t kAlternatives = 4;       // problems offered where a kernel may refuse some
constexpr double kApart = 6;              // tolerances between two predictions that a run tells apart
constexpr double kWork = 3e7;             // multiplications for choosing the contents of one run

// Uniform in [-1, 1).
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  double next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return std::ldexp(static_cast<double>((state_ * 0x2545F4914F6CDD1Du) >> 11), -52) - 1;
  }

 private:
  uint64_t state_;
};

bool has(const Evidence& e, Purpose purpose) {
  return std::any_of(e.runs.begin(), e.runs.end(), [&](const EvidenceRun& r) { return r.purpose == purpose; });
}

Problem with_values(const Problem& p, int64_t width) {
  Problem out = p;
  out.shape.dv = width;
  out.v = Tensor::packed(p.type, {p.shape.b, p.shape.hk, p.shape.nk, width});
  out.o = Layout::packed({p.shape.b, p.shape.hq, p.shape.nq, width});
  return out;
}

// Each key of a chunk has a column of its own; each head a value of its own, so that V of another head shows.
NextRuns indicators(const Problem& p, int64_t widest) {
  const int64_t nk = p.shape.nk, width = std::min(std::max<int64_t>(widest, 1), nk);
  NextRuns next;
  const auto head_value = [&](int64_t b, int64_t g) { return 1 + static_cast<double>((b * p.shape.hk + g) % 8) / 8; };
  const bool keys = nk <= kIndicatorRuns * width;
  const int64_t block = keys ? 1 : (nk + width - 1) / width;
  next.purpose = keys ? Purpose::key_indicators : Purpose::tile_indicators;
  for (int64_t first = 0; first < nk; first += width * block) {
    Problem run = with_values(p, width);
    for (int64_t b = 0; b < p.shape.b; ++b)
      for (int64_t g = 0; g < p.shape.hk; ++g)
        for (int64_t j = first; j < std::min(nk, first + width * block); ++j) run.v.set(b, g, j, (j - first) / block, head_value(b, g));
    next.problems.push_back(std::move(run));
  }
  return next;
}

enum class Order : uint8_t { random, ascending, descending, needle_first, needle_last, valley };

int64_t tile_of(const Problem& p) { return p.choice.tile_keys > 0 ? p.choice.tile_keys : 64; }

// The same kind of problem with so many keys, and at least so many rows: masks, lengths and bias drawn anew, packed.
Problem of_keys(const Problem& p, int64_t keys, int64_t rows, uint64_t seed) {
  Shape s = p.shape;
  s.nk = keys;
  s.nq = std::max<int64_t>(p.shape.nq, rows);
  if (rows > p.shape.nq && (s.nk - s.nq) % 2 == 0) ++s.nk;  // so that blocks of rows and of keys do not end together
  s.b = std::min<int64_t>(s.b, 3);
  Problem out = Problem::make(s, p.type);
  out.scale = p.scale;
  out.softcap = p.softcap;
  out.causal = p.causal;
  out.window = p.window;
  out.sink = p.sink;
  out.choice = p.choice;
  Numbers numbers(seed);
  if (p.key_lengths) {
    out.key_lengths.emplace();
    for (int64_t b = 0; b < s.b; ++b) out.key_lengths->push_back(static_cast<int32_t>(s.nk - 1 - b * 3 - std::lround((numbers.next() + 1) * 0.2 * double(s.nk))));
  }
  const auto extent = [&](const Layout& l) {
    return std::array<int64_t, 4>{l.extent[0] == 1 ? 1 : s.b, l.extent[1] == 1 ? 1 : s.hq, l.extent[2] == 1 ? 1 : s.nq, l.extent[3] == 1 ? 1 : s.nk};
  };
  if (p.mask) {
    out.mask = BoolMask{Layout::packed(extent(p.mask->layout)), {}};
    out.mask->storage.resize(static_cast<size_t>(out.mask->layout.count()));
    // About three of four keys; the first row sees none.
    const int64_t of_row = out.mask->layout.extent[3];
    for (size_t n = 0; n < out.mask->storage.size(); ++n) out.mask->storage[n] = numbers.next() < 0.5 && (out.mask->layout.extent[2] == 1 || static_cast<int64_t>(n) >= of_row);
  }
  if (p.bias) out.bias = Tensor::packed(p.bias->type, extent(p.bias->layout));
  return out;
}

// The same contents in f32, exactly.
Problem finer(const Problem& p) {
  Problem out = p;
  const auto widen = [](const Tensor& t) {
    Tensor wide = Tensor::packed(DType::f32, t.layout.extent);
    int64_t n = 0;
    for (int64_t a = 0; a < t.layout.extent[0]; ++a)
      for (int64_t b = 0; b < t.layout.extent[1]; ++b)
        for (int64_t c = 0; c < t.layout.extent[2]; ++c)
          for (int64_t d = 0; d < t.layout.extent[3]; ++d) wide.set_bits(n++, from_double(DType::f32, t.get(a, b, c, d)));
    return wide;
  };
  out.type = DType::f32;
  out.q = widen(p.q);
  out.k = widen(p.k);
  out.v = widen(p.v);
  if (p.bias) out.bias = widen(*p.bias);
  out.choice.p_type.reset();
  return out;
}

// The same geometry, masks and bias with other scores, spread over about [-spread, spread], and other values.
Problem contents(const Problem& p, Order order, double spread, uint64_t seed) {
  Problem out = p;
  const Shape& s = p.shape;
  Numbers numbers(seed);
  const double d = static_cast<double>(s.d), scale = std::fabs(static_cast<double>(p.scale));
  const double reach = std::min(scale > 0 ? spread / scale / d : 1.0, 240.0), sign = p.scale < 0 ? -1 : 1;
  const auto sign_of = [](int64_t c) { return c % 3 == 1 ? -1.0 : 1.0; };
  for (int64_t b = 0; b < s.b; ++b) {
    for (int64_t h = 0; h < s.hq; ++h)
      for (int64_t i = 0; i < s.nq; ++i) {
        const double row = 0.75 + 0.25 * numbers.next();
        for (int64_t c = 0; c < s.d; ++c) out.q.set(b, h, i, c, sign * sign_of(c) * reach * row * (1 + 0.25 * numbers.next()));
      }
    for (int64_t g = 0; g < s.hk; ++g)
      for (int64_t j = 0; j < s.nk; ++j) {
        const double at = s.nk > 1 ? 2 * static_cast<double>(j) / static_cast<double>(s.nk - 1) - 1 : 0, noise = 0.1 * numbers.next();
        double t = numbers.next();
        switch (order) {
          case Order::random: break;
          case Order::ascending: t = at + noise; break;
          case Order::descending: t = -at + noise; break;
          case Order::needle_first: t = j == 0 ? 1 : -0.5 + noise; break;
          case Order::needle_last: t = j == s.nk - 1 ? 1 : -0.5 + noise; break;
          case Order::valley: t = std::fabs(at) - 0.5 + noise; break;
        }
        for (int64_t c = 0; c < s.d; ++c) out.k.set(b, g, j, c, sign_of(c) * t);
        for (int64_t c = 0; c < s.dv; ++c) out.v.set(b, g, j, c, std::round(numbers.next() * 16) / 8);
      }
  }
  // Finite biases and sinks anew; -inf stays, it masks.
  if (p.bias)
    for (int64_t n = 0, count = static_cast<int64_t>(out.bias->storage.size()) / size_of(out.bias->type); n < count; ++n)
      if (to_double(out.bias->type, out.bias->bits(n)) != -INFINITY) out.bias->set_bits(n, from_double(out.bias->type, std::round(numbers.next() * 64) / 16));
  if (out.sink)
    for (float& x : *out.sink)
      if (std::isfinite(x)) x = static_cast<float>(std::round(numbers.next() * 64) / 16);
  return out;
}

// The same problem without one of the things that it has, and with other numbers of keys.
std::vector<Problem> variations(const Problem& p, uint64_t seed) {
  std::vector<Problem> list;
  const auto without = [&](bool there, auto change) {
    if (there) change(list.emplace_back(p));
  };
  without(p.choice.splits > 1, [](Problem& x) { x.choice.splits = 1; });
  without(p.sink.has_value(), [](Problem& x) { x.sink.reset(); });
  without(p.mask.has_value(), [](Problem& x) { x.mask.reset(); });
  without(p.bias.has_value(), [](Problem& x) { x.bias.reset(); });
  without(p.softcap > 0, [](Problem& x) { x.softcap = 0; });
  without(p.key_lengths.has_value(), [](Problem& x) { x.key_lengths.reset(); });
  without(p.window.left || p.window.right, [](Problem& x) { x.window = {}; });
  without(p.causal, [](Problem& x) { x.causal = false; });
  if (p.shape.nk < 2048)
    for (const int64_t more : {int64_t{1}, int64_t{2}, tile_of(p) + 3, 2 * tile_of(p)}) list.push_back(of_keys(p, p.shape.nk + more, p.shape.nq, ++seed));
  return list;
}

// How much a problem tells: pairs of models that part on it, the last model being the contract; the likeliest two count
// most.
double told_apart(const Problem& found, const Problem& trial, const std::vector<Fault>& models, const Conventions& conventions, const Numerics& numerics, bool with_lse) {
  const Shape& s = trial.shape;
  std::vector<int64_t> columns(static_cast<size_t>(std::min<int64_t>(s.dv, 4)));
  std::iota(columns.begin(), columns.end(), 0);
  const double work = double(models.size()) * double(s.nk) * double(s.d + 8) * 12;
  const auto rows = std::clamp<int64_t>(static_cast<int64_t>(kWork / work), 1, std::min<int64_t>(s.rows(), 6));
  std::vector<std::vector<Predicted>> predicted(models.size());
  for (size_t m = 0; m < models.size(); ++m) {
    const std::optional<Problem> other = transformed(trial, models[m].transform);
    Predictor predict(other ? *other : trial, conventions, numerics);
    for (int64_t n = 0; n < rows; ++n) {
      const int64_t r = rows > 1 ? n * (s.rows() - 1) / (rows - 1) : 0;
      const RowPrediction& row = predict.row(carried_over(models[m], found, trial), {r / (s.hq * s.nq), r / s.nq % s.hq, r % s.nq}, columns);
      predicted[m].insert(predicted[m].end(), row.o.begin(), row.o.end());
      if (with_lse) predicted[m].push_back(row.lse);
    }
  }
  const auto apart = [&](size_t a, size_t b) {
    for (size_t n = 0; n < predicted[a].size(); ++n) {
      const Predicted &x = predicted[a][n], &y = predicted[b][n];
      if (!x.overflow && !y.overflow && x.misfit(y.value) > kApart && y.misfit(x.value) > kApart) return true;
    }
    return false;
  };
  const size_t contract = models.size() - 1;
  double pairs = 0;
  for (size_t a = 0; a < models.size(); ++a)
    for (size_t b = a + 1; b < models.size(); ++b)
      if (apart(a, b)) pairs += a == 0 ? double(models.size()) * (b == contract ? 2 : b == 1 ? 10 : 1) : 1;
  return pairs;
}

}  // namespace

NextRuns next_runs(const Evidence& evidence, const Diagnosis& diagnosis, int64_t widest) {
  const EvidenceRun& found = evidence.runs.front();
  const Problem& p = found.problem;
  if (p.shape.rows() == 0 || p.shape.nk == 0) return {};
  if (!has(evidence, Purpose::key_indicators) && !has(evidence, Purpose::tile_indicators)) return indicators(p, widest);
  // A first impression by a problem of the same kind that is large enough for most faults, and one in a type that hides
  // less.
  if (!has(evidence, Purpose::larger) && p.shape.nk < 2048) return {Purpose::larger, {contents(of_keys(p, std::max<int64_t>(p.shape.nk, 1) + std::max<int64_t>(2 * tile_of(p), kBeyond) + 7, p.causal || p.window.left || p.window.right ? kEdges : kRows, 5), Order::random, 4.0, 99)}};
  if (!has(evidence, Purpose::finer) && p.type != DType::f32) return {Purpose::finer, {finer(p)}};
  if (diagnosis.explaining.empty()) return {};
  const auto separating = static_cast<size_t>(std::count_if(evidence.runs.begin(), evidence.runs.end(), [](const EvidenceRun& r) { return r.purpose == Purpose::separating; }));
  if (separating >= kSeparatingRuns) return {};

  // Contents, and where those do not do a simpler problem or another number of keys, on which the likeliest models that
  // are left, and the contract, part from each other.
  std::vector<Fault> models;
  for (const Finding& f : diagnosis.explaining)
    if (models.size() < kContenders) models.push_back(f.fault);
  Fault contract;
  contract.walk = models.front().walk;
  models.push_back(contract);

  uint64_t seed = 17 * (separating + 1);
  std::vector<std::pair<double, Problem>> trials;  // by how much they tell
  const auto try_contents = [&](const Problem& geometry, Order order, double spread) {
    Problem trial = contents(geometry, order, spread, ++seed);
    const double tells = told_apart(p, trial, models, evidence.conventions, found.numerics, !found.seen.lse.empty());
    if (tells > 0) trials.emplace_back(tells, std::move(trial));
  };
  const auto try_spread = [&](double spread) {
    for (const Order order : {Order::random, Order::ascending, Order::descending, Order::valley, Order::needle_last, Order::needle_first}) try_contents(p, order, spread);
  };
  // `harmless`: those on which the likeliest model expects nothing wrong.
  const auto try_variations = [&](bool harmless) {
    for (const Problem& other : variations(p, seed))
      for (const Order order : {Order::random, Order::ascending}) {
        if (!harmless) try_contents(other, order, 3.0);
        else if (Problem trial = contents(other, order, 3.0, ++seed); told_apart(p, trial, {models.front(), contract}, evidence.conventions, found.numerics, !found.seen.lse.empty()) == 0)
          trials.emplace_back(1, std::move(trial));
      }
  };
  // A softcap bends beyond itself.
  const std::vector<double> spreads = {p.softcap > 0 ? 3.0 * double(p.softcap) : 0.5, 3.0, 12.0};
  // One answer alone is put to the test where it has not been yet: other spreads, a problem on which it says that nothing
  // is wrong, another on which something is.
  if (diagnosis.explaining.size() == 1) {
    if (separating < 2) try_spread(spreads[separating]);
    else try_variations(separating == 2);
  }
  if (trials.empty()) {
    for (const double spread : spreads) try_spread(spread);
    try_variations(false);
  }
  std::stable_sort(trials.begin(), trials.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  NextRuns next{Purpose::separating, {}, true};
  for (auto& [tells, problem] : trials)
    if (next.problems.size() < kAlternatives) next.problems.push_back(std::move(problem));
  return next;
}

}  // namespace attest
