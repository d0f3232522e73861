#include "properties/property.h"

#include <algorithm>

#include "properties/definition.h"
#include "properties/trial.h"

namespace attest {

namespace {

Property make_property(std::string_view name, std::string_view statement, const Definition& d) {
  Property p;
  p.name = name;
  p.statement = statement;
  p.regimes = d.regimes;
  p.weight = d.weight;
  p.enough = d.enough;
  p.not_covered = d.not_covered;
  p.recipe = d.recipe;
  p.values = d.values;
  p.judge = d.judge;
  return p;
}

// FNV-1a over words.
struct Hash {
  uint64_t value = 0xCBF29CE484222325u;
  void word(uint64_t x) { value = (value ^ x) * 0x100000001B3u; }
  void text(const std::vector<uint8_t>& bytes) {
    word(bytes.size());
    for (size_t at = 0; at < bytes.size(); at += 8) {  // little-endian words, on every platform
      uint64_t x = 0;
      for (size_t k = 0; k < std::min<size_t>(8, bytes.size() - at); ++k) x |= uint64_t{bytes[at + k]} << (8 * k);
      word(x);
      value ^= value >> 29;
    }
  }
  void layout(const Layout& l) {
    for (int64_t x : l.extent) word(static_cast<uint64_t>(x));
    for (int64_t x : l.stride) word(static_cast<uint64_t>(x));
    word(static_cast<uint64_t>(l.offset));
  }
  void tensor(const Tensor& t) {
    word(static_cast<uint64_t>(t.type));
    layout(t.layout);
    text(t.storage);
  }
  void number(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    word(bits);
  }
};

}  // namespace

std::span<const Property> all_properties() {
  static const Property list[] = {
#define ATTEST_PROPERTY(name, statement) make_property(#name, statement, definitions::name),
#include "properties/properties.def"
#undef ATTEST_PROPERTY
  };
  return list;
}

const Property* find_property(std::string_view name) {
  for (const Property& p : all_properties())
    if (p.name == name) return &p;
  return nullptr;
}

uint64_t content_seed(const Problem& p) {
  Hash h;
  const Shape& s = p.shape;
  for (int64_t x : {s.b, s.hq, s.hk, s.nq, s.nk, s.d, s.dv}) h.word(static_cast<uint64_t>(x));
  h.word(static_cast<uint64_t>(p.type));
  h.tensor(p.q);
  h.tensor(p.k);
  h.tensor(p.v);
  h.number(p.scale);
  h.number(p.softcap);
  h.word(p.causal);
  h.word(static_cast<uint64_t>(p.window.left.value_or(-1)));
  h.word(static_cast<uint64_t>(p.window.right.value_or(-1)));
  h.word(p.key_lengths.has_value());
  if (p.key_lengths)
    for (int32_t n : *p.key_lengths) h.word(static_cast<uint64_t>(n));
  h.word(p.mask.has_value());
  if (p.mask) {
    h.layout(p.mask->layout);
    h.text(p.mask->storage);
  }
  h.word(p.bias.has_value());
  if (p.bias) h.tensor(*p.bias);
  h.word(p.sink.has_value());
  if (p.sink)
    for (float x : *p.sink) h.number(x);
  h.layout(p.o);
  h.layout(p.lse);
  h.word(static_cast<uint64_t>(p.choice.tile_keys));
  h.word(static_cast<uint64_t>(p.choice.order));
  h.word(static_cast<uint64_t>(p.choice.splits));
  h.word(p.choice.p_type ? static_cast<uint64_t>(*p.choice.p_type) + 1 : 0);
  return h.value;
}

std::vector<Regime> Property::needed(const Target& target) const {
  const Recipe asked = recipe ? recipe() : Recipe{};
  std::vector<Regime> list;
  for (std::string_view name : regimes)
    if (const std::optional<Regime> r = regime_from_name(name); r && can_have(target, asked, *r)) list.push_back(*r);
  return list;
}

namespace {

// More names than this, and a case is pinned to two axes only: pins of many axes contradict each other.
constexpr size_t kFewRegimes = 8;

// The needed regimes by axis, the longest list first.
std::vector<std::vector<Regime>> by_axis(const std::vector<Regime>& regimes) {
  std::vector<std::vector<Regime>> lists;
  for (int a = 0; a < kAxes; ++a) {
    std::vector<Regime> list;
    for (Regime r : regimes)
      if (axis_of(r) == static_cast<Axis>(a)) list.push_back(r);
    if (!list.empty()) lists.push_back(std::move(list));
  }
  std::stable_sort(lists.begin(), lists.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return lists;
}

// Pairs of pins for a long list: a regime of another axis, and a score regime that goes with it. A regime that
// spoils patterns goes with few others and is rarely met by chance: it comes twice in the cycle, and brings the
// scores that it leaves intact, so that the other cases may hold the rest.
struct Pairs {
  std::vector<Regime> others, intact, rest;  // rest: mostly the scores that a spoiling regime cannot go with

  explicit Pairs(const std::vector<Regime>& regimes) {
    for (Regime r : regimes) {
      const uint32_t traits = traits_of(r);
      if (axis_of(r) != Axis::score) {
        others.insert(others.end(), traits & (kSpoils | kCarriesScores) ? 2 : 1, r);
      } else if (traits & (kPattern | kNonFinite)) {
        rest.insert(rest.end(), kShare, r);
      } else {
        intact.push_back(r);
        rest.push_back(r);
      }
    }
  }

  std::vector<Regime> pins(uint64_t index) const {
    const Regime other = others[index % others.size()];
    const std::vector<Regime>& scores = traits_of(other) & kSpoils ? intact : rest;
    for (size_t n = 0; n < scores.size(); ++n) {
      const Regime score = scores[(index + index / others.size() + n) % scores.size()];
      if (compatible(other, score)) return {other, score};
    }
    return {other};
  }

  // Cases in which each of `rest` has its turn; by then the others have had theirs, by pin or by chance.
  int64_t cycle() const {
    const auto spoiling = static_cast<size_t>(std::count_if(others.begin(), others.end(), [](Regime r) { return traits_of(r) & kSpoils; }));
    return static_cast<int64_t>(rest.size() * others.size() / (others.size() - spoiling) / kShare);
  }

 private:
  static constexpr size_t kShare = 3;
};

}  // namespace

int64_t Property::first_cases(const Target& target) const {
  const std::vector<Regime> list = needed(target);
  if (list.empty()) return enough;
  if (list.size() <= kFewRegimes) return enough * static_cast<int64_t>(by_axis(list).front().size());
  return enough * Pairs(list).cycle() * 23 / 20;  // where a score does not go with its partner, its turn is lost
}

Generated Property::make(Choices& choices, uint64_t index, const Target& target) const {
  Recipe wanted = recipe ? recipe() : Recipe{};
  const std::vector<Regime> list = needed(target);
  if (list.size() > kFewRegimes) {
    wanted.pins = Pairs(list).pins(index);
  } else if (!list.empty()) {
    const std::vector<std::vector<Regime>> axes = by_axis(list);
    const uint64_t turn = index / axes.front().size();  // so that lists of one length meet in every pairing
    for (size_t n = 0; n < axes.size(); ++n) {
      const Regime r = axes[n][(index + n * turn) % axes[n].size()];
      if (can_have(target, wanted, r)) wanted.pins.push_back(r);
    }
  }
  Generated made = generate(choices, target, wanted);
  if (values) {
    values(made.problem, choices);
    std::erase_if(made.regimes, [](Regime r) { return axis_of(r) == Axis::values; });
    made.problem.origin.values.clear();
  }
  return made;
}

CaseResult Property::run(Choices& choices, uint64_t index, const PropertyContext& context) const {
  const Generated made = make(choices, index, Target::from_table(context.kernel.table()));
  CaseResult r = check(made.problem, context);
  r.regimes = names(made.regimes);
  return r;
}

CaseResult Property::check(const Problem& problem, const PropertyContext& context) const {
  Choices choices = Choices::seeded(content_seed(problem));
  return judge(problem, choices, context);
}

CaseResult Property::check_and_memory(const Problem& problem, const PropertyContext& context) const {
  CaseResult r = check(problem, context);
  if (r.verdict.disposition != Disposition::passed) return r;
  const PropertyContext unrecorded{context.kernel, context.judge, context.contract, context.exact};
  const Trial t = run_and_judge(problem, unrecorded, RunOptions{});
  if (t.verdict.check == Check::memory) r = result(problem, t.verdict);
  return r;
}

CaseResult says_nothing(const Problem& problem, const std::string& why) {
  return result(problem, not_applicable("the property says nothing about this case: " + why));
}

std::string lacks(const Kernel& kernel, std::initializer_list<attest_feature> features) {
  for (attest_feature f : features) {
    if (kernel.has(f)) continue;
    switch (f) {
      case ATTEST_CAUSAL: return "the kernel takes no causal mask";
      case ATTEST_WINDOW: return "the kernel takes no window";
      case ATTEST_KEY_LENGTHS: return "the kernel takes no key lengths";
      case ATTEST_MASK: return "the kernel takes no boolean mask";
      case ATTEST_BIAS_F32: return "the kernel takes no f32 bias";
      case ATTEST_BIAS_INPUT_TYPE: return "the kernel takes no bias of the input type";
      case ATTEST_SOFTCAP: return "the kernel takes no softcap";
      case ATTEST_SINK: return "the kernel takes no sink";
      case ATTEST_GROUPED_HEADS: return "the kernel takes no grouped heads";
      case ATTEST_LSE: return "the kernel gives no LSE";
      case ATTEST_STRIDES: return "the kernel takes packed tensors only";
      case ATTEST_UNALIGNED: return "the kernel takes 16-byte aligned tensors only";
    }
  }
  return "";
}

}  // namespace attest
