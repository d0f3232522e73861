// How much of the worst-case bound can a correct kernel use up? Searches inputs on which a kernel within the strict model
// comes near the bound, and for each term of the bound an input on which that term alone does.
//
//   bound_tightness [--steps N] [--svg FILE]
//
// For each type and N keys: f32 with the final division and rounding below a quarter of the bound; f16 and bf16 once with
// the final rounding as the largest term and once with the rounding of P. Exit 1 where less than half of the bound is
// reached, or where a result within the model leaves the bound. --svg draws error / bound against N.
//
// A term's part of the bound is what the bound loses when the model loses that error; the final part is the division's 2
// ulp of f32 and the output's half ulp.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/judge/chart.h"
#include "bench/judge/model_kernel.h"
#include "kernel/runner/kernel.h"
#include "properties/generate/choices.h"
#include "reference/judge.h"

using namespace attest;
using namespace attest::bench;

namespace {

constexpr double kLn2 = 0.69314718055994530942;
constexpr int64_t kSizes[] = {2, 64, 1024, 16384};
constexpr double kReach = 0.5;

// One row, one column, embedded scores: score j is scale * k_j exactly, and bias_j more where there is one.
struct Input {
  std::string name;
  Problem problem;
  RowOfKeys row;
  Habits habits;
};

Input make_input(std::string name, DType type, const std::vector<double>& scores, const std::vector<double>& values, double scale, Habits habits) {
  Input in{std::move(name), Problem::make({.nk = static_cast<int64_t>(scores.size())}, type), {.type = type}, std::move(habits)};
  Problem& p = in.problem;
  p.scale = static_cast<float>(scale);
  p.q.set(0, 0, 0, 0, 1);
  for (size_t j = 0; j < scores.size(); ++j) {
    const auto key = static_cast<int64_t>(j);
    p.k.set(0, 0, key, 0, scores[j] / scale);
    p.v.set(0, 0, key, 0, values[j]);
    in.row.scores.push_back(double{p.scale} * p.k.get(0, 0, key, 0));
    in.row.values.push_back(p.v.get(0, 0, key, 0));
  }
  return in;
}

// What one term adds to the bound, over the bound.
struct Parts {
  double sums = 0, p_rounding = 0, exponentials = 0, final = 0, rest = 0;
};

struct Found {
  double ratio = 0, host = 0;  // error / bound of the model kernel, of the host kernel
  Parts parts;
  std::string name;
};

class Bench {
 public:
  Bench() : host_(std::get<Kernel>(Kernel::load("host"))) {}

  // error / bound and bound of a result under a model.
  std::pair<double, double> judge(const Problem& p, double o, const Numerics& numerics) {
    seen_.o = {o};
    judge_(p, seen_, {.numerics = numerics, .details = &details_, .noise_budget = false});
    if (details_.elements.empty()) return {0, 0};
    return {details_.elements[0].ratio, details_.elements[0].bound};
  }
  double exact(const Problem& p, const Numerics& numerics) {
    judge(p, 0, numerics);
    return details_.elements.at(0).exact;
  }

  double reach(const Input& in) { return judge(in.problem, model_kernel(in.row, in.habits), strict(in.row.type)).first; }

  Parts parts(const Input& in) {
    const Numerics full = strict(in.row.type);
    const double bound = judge(in.problem, 0, full).second, o = std::fabs(exact(in.problem, full));
    const auto without = [&](auto change) {
      Numerics n = full;
      change(n);
      return std::max(0.0, 1 - judge(in.problem, 0, n).second / bound);
    };
    Parts parts;
    parts.sums = without([](Numerics& n) { n.sum_unit = 0; });
    parts.p_rounding = without([](Numerics& n) { n.p_type = DType::f32; });
    parts.exponentials = without([](Numerics& n) { n.exp_rel_error = 0; });
    double last = 2 * ulp_at(DType::f32, o);
    if (in.row.type != DType::f32) last += ulp_at(in.row.type, o) / 2;
    parts.final = last / bound;
    parts.rest = std::max(0.0, 1 - parts.sums - parts.p_rounding - parts.exponentials - parts.final);
    return parts;
  }

  double host_ratio(const Problem& p) {
    const Observation seen = host_.run(p, {.check_memory = false});
    return judge(p, seen.o.at(0), host_.numerics(p, Contract::strict)).first;
  }

  // Random rows of dense Q, K, V on the host kernel: the middle and the largest error / bound.
  std::pair<double, double> usual(DType type, int64_t keys, uint64_t seed) {
    Problem p = Problem::make({.nq = 4, .nk = keys, .d = 64, .dv = 64}, type);
    Choices c = Choices::seeded(Choices::mix(seed, static_cast<uint64_t>(keys)));
    for (Tensor* t : {&p.q, &p.k, &p.v})
      for (int64_t n = 0; n < t->layout.count(); ++n) t->set_bits(n, from_double(type, c.normal()));
    const Observation seen = host_.run(p, {.want_lse = false, .check_memory = false});
    judge_(p, seen, {.numerics = host_.numerics(p, Contract::strict), .details = &details_});
    std::vector<double> ratios;
    for (const ElementError& e : details_.elements) ratios.push_back(e.ratio);
    std::sort(ratios.begin(), ratios.end());
    return {ratios[ratios.size() / 2], ratios.back()};
  }

 private:
  Kernel host_;
  Judge judge_;
  Observation seen_;
  Details details_;
};

// A family of inputs: parameters in [0, 1) to one input.
using Family = std::function<Input(DType, int64_t keys, const std::vector<double>& at)>;
constexpr size_t kParameters = 3;

// Small keys beside one: each is half an ulp of l, so that l loses it, and a little more than half an ulp of O's sum,
// which gains as much: l stays, O grows, both by 2^-24 a key.
Input stagnating_sums(DType type, int64_t keys, const std::vector<double>& at) {
  const double a = 24 * kLn2 * (1 + 1e-6 * (at[0] - 0.5)), w = std::ldexp(1.0, -4 - static_cast<int>(at[1] * 12));
  std::vector<double> s(static_cast<size_t>(keys), -a), v(s.size(), 1 + w);
  s[0] = 0, v[0] = 1;
  return make_input("small keys beside a large one", type, s, v, 1, {.sums = Sums::nearest, .division_ulps = at[2] < 0.5 ? 0.0 : 2.0});
}

// All the values at keys far below the maximum: the rounding of the exponents' arguments tells.
Input far_keys(DType type, int64_t keys, const std::vector<double>& at) {
  std::vector<double> s(static_cast<size_t>(keys), -(20 + 66 * at[0])), v(s.size(), 1 + at[1]);
  s[0] = 0, v[0] = 0;
  return make_input("values at keys far below the maximum", type, s, v, 1, {.arguments = 0x1p-23, .exponentials = 0x1p-22, .sums = Sums::nearest, .division_ulps = 2});
}

// One key has the value, the others take from it: O lies beside a tie of the output type.
Input needle(DType type, int64_t keys, const std::vector<double>& at) {
  const double mass = std::ldexp(1 + at[0], at[1] < 0.5 ? -8 : -11);  // of the others
  const double unit = std::ldexp(1.0, 1 - significand_bits(type));
  std::vector<double> s(static_cast<size_t>(keys), std::log(mass / static_cast<double>(keys - 1))), v(s.size(), 0.0);
  s[0] = 0, v[0] = 1 + unit * std::floor(3 * at[2]);
  return make_input("a needle, O beside a tie of the output", type, s, v, s[1], {.sums = Sums::truncated});
}

// Three units of the type's subnormals at one key, half of the mass: O lies beside one and a half.
Input subnormal_output(DType type, int64_t keys, const std::vector<double>& at) {
  std::vector<double> s(static_cast<size_t>(keys), std::log((0.9 + 0.2 * at[0]) / static_cast<double>(keys - 1))), v(s.size(), 0.0);
  s[0] = 0, v[0] = std::ldexp(3.0, min_subnormal_exponent(type));
  return make_input("three subnormal units of the output, halved", type, s, v, s[1] != 0 ? s[1] : -1, {.sums = Sums::truncated});
}

// A weight beside a tie of P's type against the value that takes it back: O is next to 0, the rounding of P stays.
Input opposed_weight(DType type, int64_t keys, const std::vector<double>& at) {
  const int k = 1 + static_cast<int>(at[0] * 6);
  const double tie = std::ldexp(1 + std::ldexp(1 + 0.01 * (at[1] - 0.5), -significand_bits(type)), -k);
  std::vector<double> s(static_cast<size_t>(keys), 2 * std::log(tie) * (8 + at[2])), v(s.size(), 0.0);
  s[0] = 0, v[0] = -std::ldexp(1.0, -k);
  s[1] = std::log(tie), v[1] = 1;
  return make_input("a weight beside a tie of P, its mean taken off", type, s, v, -s[1], {.sums = Sums::nearest});
}

struct Goal {
  const char* name;
  bool (*met)(const Parts&);
};
constexpr Goal kNotFinal{"other than the final rounding", [](const Parts& p) { return p.final < 0.25; }};
constexpr Goal kFinal{"final rounding", [](const Parts& p) { return p.final > std::max({p.sums, p.p_rounding, p.exponentials, p.rest}); }};
constexpr Goal kRoundedP{"rounding of P", [](const Parts& p) { return p.p_rounding > std::max({p.sums, p.final, p.exponentials, p.rest}); }};

// The largest error / bound that meets the goal: random starts, then smaller and smaller steps around the best.
Found search(Bench& bench, DType type, int64_t keys, const Goal& goal, const std::vector<Family>& families, int steps, bool& bound_holds) {
  Found best;
  Choices c = Choices::seeded(Choices::mix(static_cast<uint64_t>(type), static_cast<uint64_t>(keys)));
  for (const Family& family : families) {
    std::vector<double> at(kParameters);
    double reached = 0;
    for (int n = 0; n < steps; ++n) {
      const double width = n < steps / 3 ? 1.0 : std::ldexp(1.0, -20 * (n - steps / 3) / (steps - steps / 3));
      std::vector<double> candidate(kParameters);
      for (size_t k = 0; k < kParameters; ++k) {
        const double step = width * (c.unit() - 0.5);
        candidate[k] = width == 1.0 ? c.unit() : std::clamp(at[k] + step, 0.0, std::nextafter(1.0, 0.0));
      }
      Input in = family(type, keys, candidate);
      for (double direction : {1.0, -1.0})
        for (Sums sums : {Sums::nearest, Sums::truncated, Sums::aligned}) {
          if (sums == Sums::aligned && type == DType::f32) continue;
          in.habits.direction = direction;
          in.habits.sums = sums;
          const double ratio = bench.reach(in);
          bound_holds = bound_holds && ratio <= 1;
          if (ratio <= reached) continue;
          const Parts parts = bench.parts(in);
          if (!goal.met(parts)) continue;
          reached = ratio;
          at = candidate;
          if (ratio > best.ratio) best = {ratio, bench.host_ratio(in.problem), parts, in.name};
        }
    }
  }
  return best;
}

std::string parts_text(const Parts& p) {
  return fmt::format("{:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f}", p.sums, p.p_rounding, p.exponentials, p.final, p.rest);
}

// Inputs on which one term is the largest, with a kernel that errs there and nowhere else.
struct Alone {
  const char* term;
  Input input;
};

std::vector<Alone> alone() {
  std::vector<Alone> all;
  const auto add = [&](const char* term, Input in) { all.push_back({term, std::move(in)}); };
  const Habits exactly{.sums = Sums::exact, .round_p = false, .round_output = false};
  const auto but = [&](auto change) {
    Habits h = exactly;
    change(h);
    return h;
  };
  const auto filled = [](int64_t n, double first, double rest) {
    std::vector<double> x(static_cast<size_t>(n), rest);
    x[0] = first;
    return x;
  };
  add("arguments of the exponentials, scale", make_input("two keys, 60 apart", DType::f32, {0, -60}, {0, 1}, 1, but([](Habits& h) { h.arguments = 0x1p-23; })));
  add("exponentials", make_input("two opposed keys just below the maximum", DType::f32, {0, -0x1p-6, -0x1p-6}, {0, 1, -1}, 1, but([](Habits& h) { h.exponentials = 0x1p-22; })));
  {
    // The first key is rescaled once for each of four tiles, the last one never; the maximum rises by next to nothing.
    std::vector<double> s(64, -40), v(64, 0.0);
    for (int tile = 0; tile < 4; ++tile) s[static_cast<size_t>(16 * tile)] = -0x1p-10 * (3 - tile);
    v[0] = 1, v[48] = -1;
    add("exponentials of rescales", make_input("the maximum rises in each tile", DType::f32, s, v, 1, but([](Habits& h) { h.exponentials = 0x1p-22, h.tile = 16; })));
  }
  add("sums of one sign", make_input("1024 keys half an ulp of l each", DType::f32, filled(1024, 0, -24 * kLn2), filled(1024, 1, 1 + 0x1p-10), 1, but([](Habits& h) { h.sums = Sums::nearest; })));
  {
    // Values of both signs: l loses its small keys, O keeps them.
    std::vector<double> s = filled(4096, 0, -23.01 * kLn2), v = filled(4096, 1, 0.0);
    v[4095] = -0x1p-20;
    add("sum of l, values of both signs", make_input("4096 keys next to an ulp of l each, truncated", DType::f32, s, v, 1, but([](Habits& h) { h.sums = Sums::truncated; })));
  }
  for (DType type : {DType::f16, DType::bf16})
    add("sums in aligned blocks", make_input("4096 products next to 2^-25 of the sum", type, filled(4096, 0, -14 * kLn2), filled(4096, 1, (1 - 0x1p-7) * 0x1p-11), -14 * kLn2, but([](Habits& h) { h.sums = Sums::aligned; })));
  for (DType type : {DType::f16, DType::bf16}) {
    Input in = opposed_weight(type, 16, {0.4, 0.49, 0});
    for (bool shared : {false, true}) {
      in.habits = but([&](Habits& h) { h.round_p = true, h.l_from_rounded = shared; });
      add(shared ? "rounding of P, l of the rounded P" : "rounding of P", in);
    }
  }
  add("P subnormal", make_input("a weight of 1.5 * 2^-24, a value of 2^10", DType::f16, {0, std::log(1.5 * 0x1p-24)}, {0, 1024}, std::log(1.5 * 0x1p-24), but([](Habits& h) { h.round_p = true; })));
  add("flushed weight", make_input("a weight of 2^-126.1, a value of 2^126", DType::f32, {0, -126.1 * kLn2}, {0, 0x1p126}, 1, but([](Habits& h) { h.flush = true; })));
  add("division", make_input("one key", DType::f32, {0}, {1.5}, 1, but([](Habits& h) { h.division_ulps = 2; })));
  for (DType type : {DType::f16, DType::bf16})
    add("rounding of the output", make_input("the mean of two neighbours", type, {0, 0}, {1, 1 + std::ldexp(1.0, 1 - significand_bits(type))}, 1, but([](Habits& h) { h.round_output = true; })));

  // Errors of the scores themselves: each within its line of the model.
  const auto with_scores = [&](const char* term, Input in, auto change, auto error) {
    change(in.problem);
    in.habits = exactly;
    in.habits.score_errors.resize(in.row.scores.size());
    for (size_t j = 0; j < in.row.scores.size(); ++j) {
      const auto [score, off] = error(j);
      in.row.scores[j] = score;
      in.habits.score_errors[j] = off;
    }
    add(term, std::move(in));
  };
  {
    // Q K of 256 products, the first far above the others: it passes 255 additions, each 2^-23 up or down.
    const int64_t d = 256;
    Input in = make_input("256 products, the first far above the others", DType::f32, {0, 0, 0}, {0, 1, -1}, 1, {});
    in.problem = Problem::make({.nk = 3, .d = d}, DType::f32);
    in.problem.scale = 1;
    for (int64_t c = 0; c < d; ++c) {
      in.problem.q.set(0, 0, 0, c, c == 0 ? 8 : 0x1p-30);
      for (int64_t j = 0; j < 3; ++j) in.problem.k.set(0, 0, j, c, 1);
    }
    in.problem.v.set(0, 0, 1, 0, 1);
    in.problem.v.set(0, 0, 2, 0, -1);
    const double rest = 255 * 0x1p-30;
    with_scores("dot product", in, [](Problem&) {}, [&](size_t) { return std::pair(8 + rest, 8 * std::expm1(255 * std::log1p(0x1p-23))); });
  }
  {
    // (Equal scores would round alike.)
    const auto bias = [](size_t j) { return double{static_cast<float>(1e4 - 0.01 * static_cast<double>(j))}; };
    Input in = make_input("biases of 1e4", DType::f32, {0, 0, 0}, {0, 1, -1}, 1, {});
    with_scores("bias", in, [&](Problem& p) {
      p.bias = Tensor::packed(DType::f32, {1, 1, 1, 3});
      for (int64_t j = 0; j < 3; ++j) p.bias->set(0, 0, 0, j, bias(static_cast<size_t>(j)));
    }, [&](size_t j) { return std::pair(bias(j), 0x1p-24 * bias(j)); });
  }
  {
    const double cap = 64;
    Input in = make_input("scores of 100 under a softcap of 64", DType::f32, {100, 99, 98}, {0, 1, -1}, 1, {});
    const std::vector<double> x = in.row.scores;
    with_scores("softcap", in, [&](Problem& p) { p.softcap = static_cast<float>(cap); },
                [&](size_t j) {
                  const double capped = cap * std::tanh(x[j] / cap);
                  return std::pair(capped, (kTanhError + 0x1p-24) * capped);
                });
  }
  return all;
}

struct Wanted {
  DType type;
  int64_t keys;
  Goal goal;
  int steps;
};

// All of them, shared among threads, in the order in which they were asked for.
std::vector<Found> search_all(const std::vector<Wanted>& wanted, const std::vector<Family>& families, bool& bound_holds) {
  std::vector<Found> found(wanted.size());
  std::atomic<size_t> next{0};
  std::atomic<bool> holds{true};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t)
    threads.emplace_back([&] {
      Bench bench;
      for (size_t n; (n = next++) < wanted.size();) {
        const Wanted& w = wanted[wanted.size() - 1 - n];  // the longest rows stand last
        bool within = true;
        found[wanted.size() - 1 - n] = search(bench, w.type, w.keys, w.goal, families, w.steps, within);
        if (!within) holds = false;
      }
    });
  for (std::thread& t : threads) t.join();
  bound_holds = bound_holds && holds;
  return found;
}

}  // namespace

int main(int count, char** arguments) {
  int steps = 120;
  std::string svg;
  for (int n = 1; n < count; n += 2) {
    const std::string name = arguments[n];
    if (n + 1 == count || (name != "--steps" && name != "--svg")) {
      fmt::print(stderr, "bound_tightness: {} is no option with a value\n", name);
      return 2;
    }
    if (name == "--steps") steps = std::max(3, std::atoi(arguments[n + 1]));
    else svg = arguments[n + 1];
  }
  Bench bench;
  bool right = true, bound_holds = true;
  const std::vector<Family> families = {stagnating_sums, far_keys, needle, subnormal_output, opposed_weight};

  fmt::print("The largest error / bound that a kernel within the strict model reaches, and what the bound there consists of. Host: the host\nkernel on the same input.\n\n"
             "| type | N | largest term | error / bound | host | sums | rounding of P | exponentials | final | arguments, rest | input |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
  std::vector<Wanted> wanted;
  for (DType type : kAllDTypes)
    for (const Goal& goal : type == DType::f32 ? std::vector<Goal>{kNotFinal} : std::vector<Goal>{kFinal, kRoundedP})
      for (int64_t keys : kSizes) wanted.push_back({type, keys, goal, steps});
  const std::vector<Found> reached = search_all(wanted, families, bound_holds);
  for (size_t n = 0; n < wanted.size(); ++n) {
    const Found& f = reached[n];
    right = right && f.ratio > kReach;
    fmt::print("| {} | {} | {} | {:.3f} | {:.3f} | {} | {} |\n", name_of(wanted[n].type), wanted[n].keys, wanted[n].goal.name, f.ratio, f.host, parts_text(f.parts), f.name);
  }
  std::fflush(stdout);

  fmt::print("\nEach term by itself: a kernel that errs there and nowhere else, on an input where the term is large.\n\n"
             "| term | type | error / bound | input |\n|---|---|---|---|\n");
  for (Alone& a : alone()) {
    double ratio = 0;
    for (double direction : {1.0, -1.0}) {
      a.input.habits.direction = direction;
      ratio = std::max(ratio, bench.reach(a.input));
    }
    bound_holds = bound_holds && ratio <= 1;
    fmt::print("| {} | {} | {:.3f} | {} |\n", a.term, name_of(a.input.row.type), ratio, a.input.name);
  }
  if (!bound_holds) fmt::print("\nA result within the model is further off than the bound.\n");
  if (!right) fmt::print("\nSome search reached less than half of the bound.\n");

  if (!svg.empty()) {
    std::vector<Wanted> all_sizes;
    for (DType type : kAllDTypes)
      for (int64_t keys = 2; keys <= 16384; keys *= 2) all_sizes.push_back({type, keys, {"", [](const Parts&) { return true; }}, steps / 4});
    const std::vector<Found> worst = search_all(all_sizes, families, bound_holds);
    std::vector<Curve> curves;
    for (DType type : kAllDTypes) {
      Curve most{fmt::format("{} worst found", name_of(type)), static_cast<int>(type), false, {}}, usual{fmt::format("{} normal data", name_of(type)), static_cast<int>(type), true, {}};
      for (size_t n = 0; n < all_sizes.size(); ++n)
        if (all_sizes[n].type == type) {
          most.points.emplace_back(all_sizes[n].keys, worst[n].ratio);
          usual.points.emplace_back(all_sizes[n].keys, bench.usual(type, all_sizes[n].keys, 1).second);
        }
      curves.push_back(most);
      curves.push_back(usual);
    }
    if (!draw_chart(svg, curves)) {
      fmt::print(stderr, "bound_tightness: {} cannot be written\n", svg);
      return 2;
    }
    fmt::print("\n{} written\n", svg);
  }
  return right && bound_holds ? 0 : 1;
}
