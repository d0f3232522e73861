#include "properties/shrink.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>
#include <iterator>
#include <utility>

#include "properties/generate/floats.h"
#include "properties/generate/layouts.h"
#include "properties/generate/select.h"
#include "reference/numerics.h"

namespace attest {

namespace {

using Step = Simplification::Step;

// ---- numbers, by simplicity ----

// Candidates for one number, simplest first; the number itself ends the list.
constexpr int kSimpleNumbers = 7;
double simple_number(double x, int64_t n) {
  switch (n) {
    case 0:
      return 0;
    case 1:
      return 1;
    case 2:
      return -1;
    case 3: {
      if (x == 0 || !std::isfinite(x)) return x;
      int exponent = 0;
      const double fraction = std::frexp(std::fabs(x), &exponent);
      return std::copysign(std::ldexp(fraction < 0.70710678 ? 0.5 : 1.0, exponent), x);
    }
    case 4:
      return std::fabs(x) < 1e6 ? std::round(x) : x;
    case 5:
      return std::fabs(x) < 1e5 ? std::round(x * 8) / 8 : x;
    default:
      return std::fabs(x) < 1e4 ? std::round(x * 100) / 100 : x;
  }
}

// Larger is less simple; every step lowers it.
int complexity(double x, DType type) {
  if (!std::isfinite(x)) return 10;
  if (x == 0) return std::signbit(x) ? 1 : 0;
  if (x == 1) return 2;
  if (x == -1) return 3;
  int exponent = 0;
  if (std::frexp(std::fabs(x), &exponent) == 0.5) return exponent >= -8 && exponent <= 12 ? 4 : 5;
  if (std::fabs(x) < 1e6 && x == std::round(x)) return 6;
  if (std::fabs(x) < 1e5 && x * 8 == std::round(x * 8)) return 7;
  if (std::fabs(x) < 1e4 && x == round_to(type, std::round(x * 100) / 100)) return 8;
  return 9;
}

// ---- operands ----

enum Operand : int32_t { kV, kK, kQ, kBias, kSink, kScale, kSoftcap, kMask, kOperands };

Tensor* tensor(Problem& p, int32_t operand) {
  switch (operand) {
    case kV:
      return &p.v;
    case kK:
      return &p.k;
    case kQ:
      return &p.q;
    case kBias:
      return p.bias ? &*p.bias : nullptr;
    default:
      return nullptr;
  }
}
const Tensor* tensor(const Problem& p, int32_t operand) { return tensor(const_cast<Problem&>(p), operand); }

int64_t elements(const Problem& p, int32_t operand) {
  if (const Tensor* t = tensor(p, operand)) return t->layout.count();
  if (operand == kSink) return p.sink ? static_cast<int64_t>(p.sink->size()) : 0;
  if (operand == kMask) return p.mask ? p.mask->layout.count() : 0;
  if (operand == kScale) return 1;
  return operand == kSoftcap && p.softcap != 0 ? 1 : 0;
}

int64_t storage_index(const Layout& l, int64_t n) {
  const auto& e = l.extent;
  return l.at(n / (e[1] * e[2] * e[3]), n / (e[2] * e[3]) % e[1], n / e[3] % e[2], n % e[3]);
}

// Replaces element n by f(value, type); false where that changes nothing or is no simplification.
template <class F>
bool replace(Problem& p, int32_t operand, int64_t n, F f) {
  if (operand == kMask) {  // a visible key, said with a 1, is simplest
    uint8_t& visible = p.mask->storage[static_cast<size_t>(storage_index(p.mask->layout, n))];
    return f(visible) == 1 && std::exchange(visible, uint8_t{1}) != 1;
  }
  if (Tensor* t = tensor(p, operand)) {
    const int64_t at = storage_index(t->layout, n);
    const double old = to_double(t->type, t->bits(at)), now = round_to(t->type, f(old));
    if (complexity(now, t->type) >= complexity(old, t->type)) return false;
    t->set_bits(at, from_double(t->type, now));
    return true;
  }
  float& x = operand == kSink ? (*p.sink)[static_cast<size_t>(n)] : operand == kScale ? p.scale : p.softcap;
  const double old = x, now = round_to(DType::f32, f(old));
  if (complexity(now, DType::f32) >= complexity(old, DType::f32)) return false;
  if (operand == kSoftcap && now <= 0) return false;
  x = static_cast<float>(now);
  return true;
}

// ---- features ----

enum Feature : int64_t {
  kDropBias,
  kDropMask,
  kDropCausal,
  kDropWindow,
  kDropWindowLeft,
  kDropWindowRight,
  kDropLengths,
  kDropSink,
  kDropSoftcap,
  kDropSplits,
  kDropOrder,
  kDropPType,
  kPackQ,
  kPackK,
  kPackV,
  kPackBias,
  kPackMask,
  kPackO,
  kPackLse,
  kFeatures
};

bool pack(Tensor& t) {
  const Layout packed = Layout::packed(t.layout.extent);
  if (t.layout == packed && static_cast<int64_t>(t.storage.size()) == packed.count() * size_of(t.type)) return false;
  Tensor out = Tensor::packed(t.type, packed.extent);
  for (int64_t n = 0; n < packed.count(); ++n) out.set_bits(n, t.bits(storage_index(t.layout, n)));
  t = std::move(out);
  return true;
}

bool pack(BoolMask& m) {
  const Layout packed = Layout::packed(m.layout.extent);
  if (m.layout == packed && static_cast<int64_t>(m.storage.size()) == packed.count()) return false;
  BoolMask out{packed, std::vector<uint8_t>(static_cast<size_t>(packed.count()))};
  for (int64_t n = 0; n < packed.count(); ++n)
    out.storage[static_cast<size_t>(n)] = m.storage[static_cast<size_t>(storage_index(m.layout, n))];
  m = std::move(out);
  return true;
}

bool pack(Layout& l) {
  const Layout packed = Layout::packed(l.extent);
  return std::exchange(l, packed) != packed;
}

// Sets `field` to `to` and says whether that changed it.
template <class T, class U>
bool set(T& field, const U& to) {
  const bool changed = field != T(to);
  field = T(to);
  return changed;
}

bool drop_feature(Problem& p, int64_t feature) {
  switch (feature) {
    case kDropBias:
      return set(p.bias, std::nullopt);
    case kDropMask:
      return set(p.mask, std::nullopt);
    case kDropCausal:
      return set(p.causal, false);
    case kDropWindow:
      return set(p.window, Window{});
    case kDropWindowLeft:
      return p.window.right && set(p.window.left, std::nullopt);
    case kDropWindowRight:
      return p.window.left && set(p.window.right, std::nullopt);
    case kDropLengths:
      return set(p.key_lengths, std::nullopt);
    case kDropSink:
      return set(p.sink, std::nullopt);
    case kDropSoftcap:
      return set(p.softcap, 0.0f);
    case kDropSplits:
      return set(p.choice.splits, 0);
    case kDropOrder:
      return set(p.choice.order, TileOrder::any);
    case kDropPType:
      return set(p.choice.p_type, std::nullopt);
    case kPackQ:
      return pack(p.q);
    case kPackK:
      return pack(p.k);
    case kPackV:
      return pack(p.v);
    case kPackBias:
      return p.bias && pack(*p.bias);
    case kPackMask:
      return p.mask && pack(*p.mask);
    case kPackO:
      return pack(p.o);
    case kPackLse:
      return pack(p.lse);
    default:
      return false;
  }
}

// ---- lists without a run ----

std::vector<int64_t> without(int64_t size, int64_t begin, int64_t end) {
  std::vector<int64_t> kept = range(0, std::min(begin, size));
  for (int64_t n = end; n < size; ++n) kept.push_back(n);
  return kept;
}

int64_t group_size(const Problem& p) { return p.shape.hk > 0 ? p.shape.hq / p.shape.hk : 0; }
bool positional(const Problem& p) { return p.causal || p.window.left || p.window.right || p.key_lengths; }

// Runs to remove from a list of `size`, halves first, down to `least` left.
void add_runs(std::vector<Simplification>& list, Step step, int64_t size, int64_t least) {
  if (size <= least) return;
  for (int64_t run = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(size - least))); run >= 1; run /= 2)
    for (int64_t begin = 0; begin + run <= size; begin += run) list.push_back({step, 0, -run, begin});
}

// Tiles in which the kernel may walk: the one asked for; where the choice is the kernel's, those that are common. A tile
// that is said is simpler than one that is not, because it may be small.
std::vector<int64_t> likely_tiles(const Problem& p) {
  if (p.choice.tile_keys > 0) return {p.choice.tile_keys};
  return {16, 32, 64, 128};
}
bool is_likely(const Problem& p, int64_t tile) {
  const std::vector<int64_t> tiles = likely_tiles(p);
  return std::find(tiles.begin(), tiles.end(), tile) != tiles.end();
}

// Elements beyond this many are simplified together only.
constexpr int64_t kFewElements = 512;

}  // namespace

std::vector<Simplification> simplifications(const Problem& p) {
  std::vector<Simplification> list;
  const Shape& s = p.shape;
  add_runs(list, Step::batches, s.b, 1);
  add_runs(list, Step::key_heads, s.hk, 1);
  add_runs(list, Step::group, group_size(p), 1);
  add_runs(list, Step::rows, s.nq, 1);
  add_runs(list, Step::keys, s.nk, 0);
  if (positional(p)) add_runs(list, Step::keys_by_mask, s.nk, 0);
  for (const Step step : {Step::tile_and_keys, Step::tile})
    for (int64_t tile : likely_tiles(p))
      for (int64_t factor = tile; factor >= 2; --factor)
        if (tile % factor == 0)
          for (int64_t which = 0; which < (step == Step::tile ? 1 : 2); ++which)
            list.push_back({step, static_cast<int32_t>(tile), -factor, which});
  add_runs(list, Step::value_columns, s.dv, 1);
  add_runs(list, Step::columns, s.d, 1);
  for (int64_t feature = 0; feature < kFeatures; ++feature) list.push_back({Step::feature, 0, feature, 0});
  for (const Step step : {Step::all_zero, Step::all_one, Step::rounded})
    for (int32_t operand = 0; operand < kOperands; ++operand) {
      if (elements(p, operand) < 2) continue;
      list.push_back({step, operand, 1, 0});
      if (step == Step::rounded) list.push_back({step, operand, 8, 0});
    }
  for (int32_t operand = 0; operand < kOperands; ++operand) {
    if (elements(p, operand) > kFewElements) continue;
    for (int64_t n = 0; n < elements(p, operand); ++n)
      for (int64_t simple = 0; simple < kSimpleNumbers; ++simple) list.push_back({Step::element, operand, n, simple});
  }
  return list;
}

std::optional<Problem> apply(const Problem& p, const Simplification& a) {
  const Shape& s = p.shape;
  const int64_t begin = a.second, end = a.second - a.first;
  const auto keep = [&](int64_t size, int64_t least) { return end <= size && size - (end - begin) >= least; };
  switch (a.step) {
    case Step::batches:
      return keep(s.b, 1) ? std::optional(with_batches(p, without(s.b, begin, end))) : std::nullopt;
    case Step::key_heads:
      return keep(s.hk, 1) ? std::optional(with_key_heads(p, without(s.hk, begin, end))) : std::nullopt;
    case Step::group:
      return keep(group_size(p), 1) ? std::optional(with_group(p, without(group_size(p), begin, end))) : std::nullopt;
    case Step::rows:
      return keep(s.nq, 1) ? std::optional(with_rows(p, without(s.nq, begin, end))) : std::nullopt;
    case Step::keys:
      return keep(s.nk, 0) ? std::optional(with_keys(p, without(s.nk, begin, end))) : std::nullopt;
    case Step::keys_by_mask:
      return keep(s.nk, 0) && positional(p)
                 ? std::optional(with_keys(with_explicit_mask(p, {}), without(s.nk, begin, end)))
                 : std::nullopt;
    case Step::tile_and_keys: {
      const int64_t factor = -a.first;
      if (!is_likely(p, a.operand) || s.nk < 2) return std::nullopt;
      std::vector<int64_t> kept;
      for (int64_t j = 0; j < s.nk; j += factor) kept.push_back(a.second ? std::min(j + factor, s.nk) - 1 : j);
      Problem out = with_keys(positional(p) ? with_explicit_mask(p, {}) : p, kept);
      out.choice.tile_keys = a.operand / factor;
      return out;
    }
    case Step::tile: {
      const int64_t factor = -a.first;
      if (!is_likely(p, a.operand)) return std::nullopt;
      Problem out = p;
      out.choice.tile_keys = a.operand / factor;
      return out;
    }
    case Step::value_columns:
      return keep(s.dv, 1) ? std::optional(with_value_columns(p, without(s.dv, begin, end))) : std::nullopt;
    case Step::columns:
      return keep(s.d, 1) ? std::optional(with_columns(p, without(s.d, begin, end))) : std::nullopt;
    case Step::feature: {
      Problem out = p;
      return drop_feature(out, a.first) ? std::optional(std::move(out)) : std::nullopt;
    }
    case Step::all_zero:
    case Step::all_one:
    case Step::rounded: {
      Problem out = p;
      bool changed = false;
      for (int64_t n = 0; n < elements(p, a.operand); ++n)
        changed |= replace(out, a.operand, n, [&](double x) {
          if (a.step == Step::all_zero) return 0.0;
          if (a.step == Step::all_one) return 1.0;
          const double factor = static_cast<double>(a.first);
          return std::fabs(x) < 1e5 ? std::round(x * factor) / factor : x;
        });
      return changed ? std::optional(std::move(out)) : std::nullopt;
    }
    case Step::element: {
      if (a.first >= elements(p, a.operand)) return std::nullopt;
      Problem out = p;
      return replace(out, a.operand, a.first, [&](double x) { return simple_number(x, a.second); })
                 ? std::optional(std::move(out))
                 : std::nullopt;
    }
  }
  return std::nullopt;
}

Shrunk shrink(const Problem& failing, const std::function<bool(const Problem&)>& still_fails,
              const ShrinkBudget& budget) {
  using Clock = std::chrono::steady_clock;
  const auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(budget.seconds));
  Shrunk result{failing, 0, 0, false};
  // Goes round the list until one whole round keeps nothing; after a step is kept, the list is that of the new
  // problem, entered where the old one was left.
  std::vector<Simplification> list = simplifications(result.problem);
  size_t at = 0, refused = 0;
  while (refused < list.size()) {
    if (at >= list.size()) at = 0;
    const Simplification step = list[at];
    if (std::optional<Problem> simpler = apply(result.problem, step)) {
      if (result.attempts >= budget.attempts || Clock::now() >= end) return result;
      ++result.attempts;
      if (still_fails(*simpler)) {
        ++result.kept;
        result.problem = std::move(*simpler);
        list = simplifications(result.problem);
        at = static_cast<size_t>(std::lower_bound(list.begin(), list.end(), step) - list.begin());
        refused = 0;
        continue;
      }
    }
    ++at;
    ++refused;
  }
  result.finished = true;
  return result;
}

// ---- in words ----

namespace {

std::string number(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  char text[32];
  const auto end = std::to_chars(text, std::end(text), static_cast<float>(x)).ptr;  // inputs are f32 or narrower
  return {text, end};
}

std::string count(int64_t n, const char* one, const char* many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}

// Rows of numbers beyond this many are not written out.
constexpr int64_t kFewNumbers = 64;

std::string list_of(const Tensor& t, int64_t b, int64_t h) {
  std::string text;
  for (int64_t i = 0; i < t.layout.extent[2]; ++i) {
    text += i ? ", [" : "[";
    for (int64_t col = 0; col < t.layout.extent[3]; ++col)
      text.append(col ? ", " : "").append(number(t.get(b, h, i, col)));
    text += "]";
  }
  return text;
}

void append_tensor(std::string& text, const char* name, const Tensor& t) {
  if (t.layout.count() == 0 || t.layout.count() > kFewNumbers) return;
  for (int64_t b = 0; b < t.layout.extent[0]; ++b)
    for (int64_t h = 0; h < t.layout.extent[1]; ++h) {
      text += name;
      if (t.layout.extent[0] * t.layout.extent[1] > 1)
        text.append("[").append(std::to_string(b)).append(",").append(std::to_string(h)).append("]");
      text.append(" = ").append(list_of(t, b, h)).append("\n");
    }
}

}  // namespace

std::string in_words(const Problem& p) {
  const Shape& s = p.shape;
  std::string text = std::string(name_of(p.type)) + ": " + count(s.b, "batch", "batches") + ", " +
                     count(s.hq, "query head", "query heads") + " on " + count(s.hk, "key head", "key heads") + ", " +
                     count(s.nq, "row", "rows") + ", " + count(s.nk, "key", "keys") + ", D = " + std::to_string(s.d) +
                     ", Dv = " + std::to_string(s.dv) + ", scale " + number(p.scale) + "\n";
  std::string extra;
  const auto add = [&](const std::string& part) { extra.append(extra.empty() ? "" : ", ").append(part); };
  if (p.softcap != 0) add("softcap " + number(p.softcap));
  if (p.causal) add("causal");
  if (p.window.left || p.window.right)
    add("window (" + (p.window.left ? std::to_string(*p.window.left) : "unlimited") + ", " +
        (p.window.right ? std::to_string(*p.window.right) : "unlimited") + ")");
  if (p.key_lengths) {
    std::string lengths;
    for (size_t b = 0; b < p.key_lengths->size() && b < 16; ++b)
      lengths.append(b ? " " : "").append(std::to_string((*p.key_lengths)[b]));
    add("key lengths " + lengths + (p.key_lengths->size() > 16 ? " ..." : ""));
  }
  if (p.mask) {
    int64_t hidden = 0;
    for (int64_t n = 0; n < p.mask->layout.count(); ++n)
      hidden += p.mask->storage[static_cast<size_t>(storage_index(p.mask->layout, n))] == 0;
    add("boolean mask that hides " + std::to_string(hidden) + " of " + std::to_string(p.mask->layout.count()));
  }
  if (p.bias) add(std::string(name_of(p.bias->type)) + " bias");
  if (p.sink) {
    std::string sinks;
    for (size_t h = 0; h < p.sink->size() && h < 16; ++h) sinks.append(h ? " " : "").append(number((*p.sink)[h]));
    add("sink " + sinks + (p.sink->size() > 16 ? " ..." : ""));
  }
  if (p.choice.tile_keys) add("tiles of " + count(p.choice.tile_keys, "key", "keys"));
  if (p.choice.order != TileOrder::any)
    add(p.choice.order == TileOrder::ascending ? "tiles ascending" : "tiles descending");
  if (p.choice.splits) add(count(p.choice.splits, "split", "splits"));
  if (p.choice.p_type) add("P in " + std::string(name_of(*p.choice.p_type)));
  if (p.q.layout != Layout::packed(p.q.layout.extent) || p.k.layout != Layout::packed(p.k.layout.extent) ||
      p.v.layout != Layout::packed(p.v.layout.extent) || p.o != Layout::packed(p.o.extent))
    add("not packed");
  if (!extra.empty()) text += extra + "\n";
  append_tensor(text, "q", p.q);
  append_tensor(text, "k", p.k);
  append_tensor(text, "v", p.v);
  if (p.bias) append_tensor(text, "bias", *p.bias);
  if (p.mask && p.mask->layout.count() > 0 && p.mask->layout.count() <= kFewNumbers) {
    text += "visible =";
    for (int64_t n = 0; n < p.mask->layout.count(); ++n) {
      if (n % p.mask->layout.extent[3] == 0) text += " ";
      text += p.mask->storage[static_cast<size_t>(storage_index(p.mask->layout, n))] ? "1" : "0";
    }
    text += "\n";
  }
  return text;
}

}  // namespace attest
