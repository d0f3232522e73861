// A kernel in a worker: the same results as in this process, and whatever it does to its worker is told, leaves nothing
// behind and spoils no other call.
#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "kernel/testing/direct.h"
#include "kernel/runner/kernel.h"

namespace attest {
namespace {

constexpr Isolation kApart{.program = "", .seconds = 30, .memory = uint64_t{1} << 30};

std::string plugin(const std::string& fault) { return ATTEST_MISBEHAVING_DIR "/misbehaving_" + fault + ".so"; }

Kernel apart(const std::string& name, const Isolation& isolation = kApart) {
  auto loaded = Kernel::load(name, isolation);
  if (const auto* error = std::get_if<LoadError>(&loaded)) throw std::runtime_error(error->message);
  return std::get<Kernel>(loaded);
}

// Misbehaving kernels mind an odd number of keys.
Problem problem(int64_t keys) {
  Problem p = Problem::make({.b = 1, .hq = 2, .hk = 1, .nq = 3, .nk = keys, .d = 4, .dv = 4}, DType::f32);
  for (int64_t n = 0; n < p.q.layout.count(); ++n) p.q.set_bits(n, f32_from_double(0.25 * static_cast<double>(n % 5)));
  for (int64_t n = 0; n < p.k.layout.count(); ++n) p.k.set_bits(n, f32_from_double(0.5 * static_cast<double>(n % 3)));
  for (int64_t n = 0; n < p.v.layout.count(); ++n) p.v.set_bits(n, f32_from_double(static_cast<double>(n)));
  return p;
}

void expect_same(const Observation& a, const Observation& b) {
  EXPECT_EQ(a.status, b.status) << a.message << b.message;
  EXPECT_EQ(a.overrun + a.unwritten + a.input_change, b.overrun + b.unwritten + b.input_change);
  ASSERT_EQ(a.o.size(), b.o.size());
  ASSERT_EQ(a.lse.size(), b.lse.size());
  ASSERT_EQ(a.trace.size(), b.trace.size());
  for (size_t n = 0; n < a.o.size(); ++n) ASSERT_TRUE(same_value(a.o[n], b.o[n])) << n;
  for (size_t n = 0; n < a.lse.size(); ++n) ASSERT_TRUE(same_value(a.lse[n], b.lse[n])) << n;
  for (size_t n = 0; n < a.trace.size(); ++n) ASSERT_TRUE(same_value(a.trace[n].m, b.trace[n].m) && same_value(a.trace[n].l, b.trace[n].l)) << n;
}

TEST(Worker, GivesTheBitsThatTheKernelGivesInThisProcess) {
  const Kernel here = std::get<Kernel>(Kernel::load("host")), there = apart("host");
  EXPECT_TRUE(there.isolated());
  EXPECT_EQ(there.name(), here.name());
  EXPECT_EQ(there.table().features, here.table().features);
  EXPECT_EQ(there.table().tile_count, here.table().tile_count);
  EXPECT_EQ(there.traceable(), here.traceable());
  for (uint64_t seed = 0; seed < 300; ++seed) {
    testing::Random random(seed);
    const Problem p = testing::random_problem(random);
    ASSERT_EQ(here.refuses(p), there.refuses(p)) << seed;
    expect_same(here.run(p, {.trace = true}), there.run(p, {.trace = true}));
    if (::testing::Test::HasFatalFailure()) FAIL() << "seed " << seed;
  }
  const PartialStates a{2, {1, 2, 3, 4}, {0.5f, -1}}, b{2, {5, 6, 7, 8}, {2, 1}};
  EXPECT_EQ(here.merge(a, b).state.o, there.merge(a, b).state.o);
  EXPECT_EQ(here.merge(a, b).state.lse, there.merge(a, b).state.lse);
  EXPECT_EQ(there.end_workers(), "");
}

// On the CPU there are no streams and no graphs: two calls follow each other, and a captured one is made twice.
TEST(Worker, CallsTwoProblemsTogetherAndACapturedOneAsEachAlone) {
  const Kernel here = std::get<Kernel>(Kernel::load("host")), there = apart("host");
  for (const Kernel* kernel : {&here, &there}) {
    const auto [first, second] = kernel->run_together(problem(8), problem(301));
    expect_same(here.run(problem(8)), first);
    expect_same(here.run(problem(301)), second);
    expect_same(here.run(problem(8)), kernel->run(problem(8), {.captured = true}));
  }
  // What the kernel does not survive is the end of both.
  const Kernel dies = apart(plugin("segfault"));
  int told = 0;
  dies.when_lost([&](const Problem&, const Observation&) { ++told; });
  const auto [first, second] = dies.run_together(problem(8), problem(7));
  EXPECT_EQ(first.status, RunStatus::crashed);
  EXPECT_EQ(second.status, RunStatus::crashed);
  EXPECT_EQ(told, 1);
  const auto [again, other] = dies.run_together(problem(8), problem(6));
  expect_same(here.run(problem(8)), again);
  expect_same(here.run(problem(6)), other);
}

TEST(Worker, ServesSeveralThreadsAtOnce) {
  const Kernel here = std::get<Kernel>(Kernel::load("host")), there = apart("host");
  std::vector<std::thread> threads;
  std::array<Observation, 4> seen;
  for (size_t t = 0; t < seen.size(); ++t)
    threads.emplace_back([&, t] {
      for (int n = 0; n < 50; ++n) there.run(problem(10 + static_cast<int64_t>(t)), {}, seen[t]);
    });
  for (std::thread& t : threads) t.join();
  for (size_t t = 0; t < seen.size(); ++t) expect_same(here.run(problem(10 + static_cast<int64_t>(t))), seen[t]);
}

// One fault, how it must be told, and that the next call is right.
struct Told {
  const char* fault;
  RunStatus status;
  const char* words;         // in the message; nothing is asked of it under a sanitizer, which ends a process its own way
  Isolation isolation = kApart;
};

void PrintTo(const Told& told, std::ostream* out) { *out << told.fault; }

class Misbehaving : public ::testing::TestWithParam<Told> {};

TEST_P(Misbehaving, IsToldAndTheNextCallIsRight) {
  const Told& t = GetParam();
  const Kernel kernel = apart(plugin(t.fault), t.isolation), right = std::get<Kernel>(Kernel::load("host"));
  int told = 0;
  kernel.when_lost([&](const Problem& p, const Observation&) {
    ++told;
    EXPECT_TRUE(same(p, problem(7)));
  });
  for (int again = 1; again <= 2; ++again) {
    expect_same(right.run(problem(8)), kernel.run(problem(8)));
    const Observation seen = kernel.run(problem(7));
    EXPECT_EQ(seen.status, t.status) << seen.message;
#if !defined(__SANITIZE_ADDRESS__)
    EXPECT_NE(seen.message.find(t.words), std::string::npos) << seen.message;
#endif
    EXPECT_NE(seen.message, "");
    EXPECT_EQ(told, again);
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, Misbehaving,
                         ::testing::Values(Told{"segfault", RunStatus::crashed, "Segmentation fault"}, Told{"aborts", RunStatus::crashed, "Aborted"},
                                           Told{"exits", RunStatus::crashed, "exited with status 0"}, Told{"throws", RunStatus::crashed, "nobody catches this"},
                                           Told{"loops", RunStatus::timed_out, "no answer within 1 s", {.seconds = 1}}, Told{"stops", RunStatus::timed_out, "stopped"},
                                           Told{"eats_memory", RunStatus::crashed, "the limit is 300 MiB", {.memory = uint64_t{300} << 20}},
                                           Told{"corrupts_heap", RunStatus::crashed, "Aborted"}, Told{"overflows_stack", RunStatus::crashed, "Segmentation fault"},
                                           Told{"supports_crashes", RunStatus::crashed, "Aborted"}),
                         [](const auto& info) { return std::string(info.param.fault); });

TEST(Worker, OutputInTheWrongBufferIsSeenAsInThisProcess) {
  const Observation seen = apart(plugin("wrong_buffer")).run(problem(7));
  EXPECT_EQ(seen.status, RunStatus::ok) << seen.message;
  EXPECT_NE(seen.input_change.find("q: byte"), std::string::npos) << seen.input_change;
}

TEST(Worker, AKernelThatClosesItsConnectionIsTold) {
  // The worker may see it before the limit is over, and end.
  const Kernel kernel = apart(plugin("hangs_up"), {.seconds = 1});
  for (int n = 0; n < 2; ++n) {
    const Observation seen = kernel.run(problem(7));
    EXPECT_TRUE(seen.status == RunStatus::timed_out || seen.status == RunStatus::crashed) << seen.message;
    EXPECT_NE(seen.message, "");
  }
}

TEST(Worker, APluginThatDoesNotLoadIsToldInOneLine) {
  const auto expect = [](const std::string& name, LoadError::Kind kind, const std::string& words) {
    const auto loaded = Kernel::load(name, Isolation{.seconds = 1, .load_seconds = 1});
    const auto* error = std::get_if<LoadError>(&loaded);
    ASSERT_NE(error, nullptr) << name;
    EXPECT_EQ(error->kind, kind) << error->message;
    EXPECT_NE(error->message.find(words), std::string::npos) << error->message;
    EXPECT_EQ(error->message.find('\n'), std::string::npos) << error->message;
  };
  expect(plugin("load_exits"), LoadError::Kind::crashed, "exited with status 7");
  expect(plugin("load_hangs"), LoadError::Kind::crashed, "no answer within 1 s");
  expect(plugin("nowhere"), LoadError::Kind::not_found, "no such file");
  expect(ATTEST_MISBEHAVING_DIR, LoadError::Kind::bad_plugin, "not a file");
}

TEST(Worker, AProgramThatIsNoneIsToldByName) {
  for (const auto& [kernel, isolation] : {std::pair{"host", Isolation{.program = "/nowhere/attest"}}, std::pair{"kernel.py:attention", Isolation{.python = "/nowhere/attest"}}}) {
    const auto loaded = Kernel::load(kernel, isolation);
    const auto* error = std::get_if<LoadError>(&loaded);
    ASSERT_NE(error, nullptr);
    EXPECT_NE(error->message.find("/nowhere/attest"), std::string::npos) << error->message;
  }
}

// --- nothing is left behind

size_t entries(const char* folder) {
  size_t n = 0;
  DIR* dir = opendir(folder);
  while (readdir(dir) != nullptr) ++n;
  closedir(dir);
  return n;
}

// Processes whose parent is this one.
size_t children() {
  size_t n = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "stat");
    std::string line;
    if (!std::getline(file, line)) continue;
    int parent = 0;
    char state = 0;
    if (std::sscanf(line.c_str() + line.rfind(')') + 1, " %c %d", &state, &parent) == 2 && parent == getpid()) ++n;
  }
  return n;
}

int64_t resident_pages() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident;
}

// ATTEST_FAULTS=1000 worker_test --gtest_filter='*InARow*'
TEST(Worker, ManyFaultsInARowLoseAndLeaveNothing) {
  const char* asked = std::getenv("ATTEST_FAULTS");
  const int64_t faults = asked != nullptr ? std::atoll(asked) : 100;
  ASSERT_GT(faults, 0);
  const char* kinds[] = {"segfault", "aborts", "exits", "throws", "stops", "corrupts_heap", "overflows_stack", "supports_crashes"};
  int64_t told = 0;
  size_t files = 0, processes = 0;
  int64_t pages = 0;
  {
    std::vector<Kernel> kernels;
    for (const char* kind : kinds) {
      kernels.push_back(apart(plugin(kind)));
      kernels.back().when_lost([&](const Problem&, const Observation&) { ++told; });
    }
    const auto round = [&](int64_t n) {
      const Kernel& kernel = kernels[static_cast<size_t>(n) % kernels.size()];
      const Observation seen = kernel.run(problem(7));
      ASSERT_TRUE(seen.status == RunStatus::crashed || seen.status == RunStatus::timed_out) << n << ": " << seen.message;
    };
    for (size_t n = 0; n < kernels.size(); ++n) round(static_cast<int64_t>(n));  // what the allocator keeps is there now
    files = entries("/proc/self/fd");
    processes = children();
    pages = resident_pages();
    told = 0;
    for (int64_t n = 0; n < faults && !HasFatalFailure(); ++n) round(n);
    EXPECT_EQ(told, faults);
    EXPECT_EQ(entries("/proc/self/fd"), files);
    EXPECT_EQ(children(), processes);
#if !defined(__SANITIZE_ADDRESS__)
    EXPECT_LT(resident_pages() - pages, 256) << "pages of memory more after " << faults << " faults";
#endif
  }
  EXPECT_EQ(children(), 0u);
}

TEST(Worker, EndsWithItsParentWhateverItDoes) {
  // A process that starts a worker, leaves it in an endless loop and is killed.
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    const Kernel kernel = apart(plugin("loops"));
    std::thread([&] { kernel.run(problem(7)); }).detach();
    usleep(300000);
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream file(entry.path() / "stat");
      std::string line;
      int its_parent = 0, pid = 0;
      char state = 0;
      if (std::getline(file, line) && std::sscanf(line.c_str(), "%d", &pid) == 1 && std::sscanf(line.c_str() + line.rfind(')') + 1, " %c %d", &state, &its_parent) == 2 && its_parent == getpid() &&
          write(pipe_ends[1], &pid, sizeof pid) < 0)
        _exit(1);
    }
    kill(getpid(), SIGKILL);
  }
  close(pipe_ends[1]);
  pid_t worker = 0;
  ASSERT_EQ(read(pipe_ends[0], &worker, sizeof worker), static_cast<ssize_t>(sizeof worker));
  close(pipe_ends[0]);
  waitpid(parent, nullptr, 0);
  bool gone = false;
  for (int n = 0; n < 100 && !gone; ++n) {
    gone = kill(worker, 0) != 0;
    if (!gone) {
      // A zombie that nobody has waited for yet is gone, too.
      std::ifstream file("/proc/" + std::to_string(worker) + "/stat");
      std::string line;
      gone = !std::getline(file, line) || line[line.rfind(')') + 2] == 'Z';
      usleep(50000);
    }
  }
  EXPECT_TRUE(gone) << "worker " << worker << " goes on without its parent";
}

}  // namespace
}  // namespace attest
