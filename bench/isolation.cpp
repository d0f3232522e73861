// What isolation costs: the same cases of one seed, in this process and in workers, taking turns.
//
//     isolation_bench [--cases N] [--rounds N] [--most PERCENT]
//
// Prints the throughput and the processor time of every round and the medians of their ratios; exits 1 where isolation costs
// more than PERCENT of the throughput. On a busy machine only the ratio of the processor times says something.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

#include "properties/verify.h"

namespace {

using namespace attest;

struct Speed {
  double cases = 0;  // a second
  double cpu = 0;    // seconds of processor time for each case, the worker's and its start included
};

double processor_seconds(int who) {
  rusage used{};
  getrusage(who, &used);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

Speed measure(const std::optional<Isolation>& isolation, int64_t cases) {
  const auto used = [] { return processor_seconds(RUSAGE_SELF) + processor_seconds(RUSAGE_CHILDREN); };
  const double before = used();
  Speed speed;
  {
    const Kernel kernel = std::get<Kernel>(Kernel::load("host", isolation));
    const VerifyReport report = verify(kernel, {.seed = 3, .cases = cases, .threads = 1});
    speed.cases = static_cast<double>(report.cases()) / report.seconds;
  }
  speed.cpu = (used() - before) / static_cast<double>(cases);
  return speed;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  int64_t cases = 1500, rounds = 5, most = 10;
  for (int n = 1; n + 1 < argc; n += 2) {
    const std::string_view name = argv[n], text = argv[n + 1];
    int64_t* value = name == "--cases" ? &cases : name == "--rounds" ? &rounds : name == "--most" ? &most : nullptr;
    if (value == nullptr || std::from_chars(text.data(), text.data() + text.size(), *value).ec != std::errc() || *value < 1) {
      fmt::print(stderr, "isolation_bench: '{} {}' is not --cases N, --rounds N or --most PERCENT\n", name, text);
      return 2;
    }
  }
  measure(Isolation{}, 100);  // both are warm
  measure(std::nullopt, 100);
  std::vector<double> throughput, processor;
  for (int64_t round = 0; round < rounds; ++round) {
    const Speed inside = measure(std::nullopt, cases), apart = measure(Isolation{}, cases);
    throughput.push_back(apart.cases / inside.cases);
    processor.push_back(inside.cpu / apart.cpu);
    fmt::print("in process {:.0f} cases/s, {:.3f} ms of CPU a case; in a worker {:.0f} cases/s, {:.3f} ms; ratios {:.3f}, {:.3f}\n", inside.cases, 1e3 * inside.cpu,
               apart.cases, 1e3 * apart.cpu, throughput.back(), processor.back());
    std::fflush(stdout);
  }
  fmt::print("isolation leaves {:.1f} % of the throughput, {:.1f} % by processor time (medians of {} rounds)\n", 100 * median(throughput), 100 * median(processor), rounds);
  return median(throughput) < 1 - static_cast<double>(most) / 100 ? 1 : 0;
}
