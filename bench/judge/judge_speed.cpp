// How fast the judge is: rows a second by the double path and by cpp_dec_float, on the same rows, one core.
//
//   judge_speed [SECONDS]    seconds for each figure, 1 if left out
//
// Each row is judged whole: scores from dense Q and K, reference, errors of all Dv outputs and LSE, bound, noise
// budget. K and V of a head are widened once for its rows, in both paths; nothing else is kept from row to row.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include <time.h>

#include "reference/hot_loops.h"
#include "reference/judge.h"

using namespace attest;

namespace {

struct Case {
  Problem problem;
  Observation seen;
};

// Normal Q, K, V; the outputs are the exact ones rounded to the type.
Case make_case(DType type, int64_t rows, int64_t keys, int64_t d, int64_t dv) {
  Shape shape;
  shape.nq = rows;
  shape.nk = keys;
  shape.d = d;
  shape.dv = dv;
  Case out;
  Problem& p = out.problem;
  p = Problem::make(shape, type);
  std::mt19937_64 engine(7);
  std::normal_distribution<double> normal;
  for (Tensor* t : {&p.q, &p.k, &p.v})
    for (int64_t n = 0; n < t->layout.count(); ++n) t->set_bits(n, from_double(type, normal(engine)));
  p.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(d)));

  out.seen.o.reserve(static_cast<size_t>(rows * dv));
  std::vector<double> s(static_cast<size_t>(keys));
  for (int64_t i = 0; i < rows; ++i) {
    double m = -INFINITY, l = 0;
    for (int64_t j = 0; j < keys; ++j) {
      double dot = 0;
      for (int64_t c = 0; c < d; ++c) dot += p.q.get(0, 0, i, c) * p.k.get(0, 0, j, c);
      m = std::max(m, s[static_cast<size_t>(j)] = p.scale * dot);
    }
    for (double& x : s) l += x = std::exp(x - m);
    for (int64_t c = 0; c < dv; ++c) {
      double o = 0;
      for (int64_t j = 0; j < keys; ++j) o += s[static_cast<size_t>(j)] * p.v.get(0, 0, j, c);
      out.seen.o.push_back(to_double(type, from_double(type, o / l)));
    }
    out.seen.lse.push_back(static_cast<float>(m + std::log(l)));
  }
  return out;
}

// Time that this thread had a core: other work on the machine does not count.
double processor_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double rows_per_second(Judge& judge, const Case& c, bool exact, double seconds) {
  JudgeOptions options;
  options.numerics = strict(c.problem.type);
  options.exact = exact;
  const double start = processor_seconds();
  int64_t rows = 0;
  double spent = 0;
  do {
    const Verdict v = judge(c.problem, c.seen, options);
    if (v.check != Check::none || (exact ? v.rows_exact != v.rows : v.rows_exact > 0)) {
      fmt::print(stderr, "judge_speed: a row was not judged as planned: {}\n", v.detail);
      std::exit(1);
    }
    rows += v.rows;
    spent = processor_seconds() - start;
  } while (spent < seconds);
  return static_cast<double>(rows) / spent;
}

}  // namespace

int main(int count, char** arguments) {
  const double seconds = count > 1 ? std::atof(arguments[1]) : 1.0;
  Judge judge;
  fmt::print("instructions: {}\n\n", hot_loops().name);
  fmt::print("| type | N | D | Dv | double path, rows/s | us/row | cpp_dec_float, rows/s | ratio |\n|---|---|---|---|---|---|---|---|\n");
  for (DType type : kAllDTypes) {
    const Case many = make_case(type, 64, 1024, 64, 64), one = make_case(type, 1, 1024, 64, 64);
    const double fast = rows_per_second(judge, many, false, seconds), slow = rows_per_second(judge, one, true, seconds);
    fmt::print("| {} | 1024 | 64 | 64 | {:.0f} | {:.1f} | {:.1f} | {:.0f} |\n", name_of(type), fast, 1e6 / fast, slow, fast / slow);
  }
  fmt::print("\nCost of the double path by size, bf16, time of a row beside the smallest one's:\n\n| size | N | D | Dv |\n|---|---|---|---|\n");
  double first[3] = {};
  for (int step = 0; step < 4; ++step) {
    fmt::print("| x{} |", 1 << step);
    for (int axis = 0; axis < 3; ++axis) {
      const int64_t factor = int64_t{1} << step;
      const Case c = make_case(DType::bf16, 16, axis == 0 ? 512 * factor : 1024, axis == 1 ? 32 * factor : 32, axis == 2 ? 32 * factor : 32);
      const double t = 1 / rows_per_second(judge, c, false, seconds);
      if (step == 0) first[axis] = t;
      fmt::print(" {:.2f} |", t / first[axis]);
    }
    fmt::print("\n");
  }
}
