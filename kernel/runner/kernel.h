// kernel.h: a loaded kernel, Problem in, Observation out.
//
// The runner gives the kernel copies of the inputs between guard bands, fills outputs with poison, calls it,
// synchronises, and reports what was written where.
// A kernel runs in this process, where its segfault ends the program, or isolated: in worker processes, one for each
// thread that calls it. A worker that crashes, hangs or takes too much memory is an Observation with the status crashed or
// timed_out, and the next call gets a new one; what the parent holds, the problem above all, is out of its reach. What a
// kernel did to its worker without ending it (a heap written over) may show in a later call: alone() tells who it was.
// Ownership: a Kernel keeps its plug-in loaded for the life of the process; workers end with the last copy of it.
// Thread safety: run() may be called from several threads; in this process calls are serialised unless the kernel is
// reentrant.
//
// Example:
//     auto host = Kernel::load("host").value();
//     Observation seen = host.run(problem, {.trace = true});
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kernel/abi/attest_kernel.h"
#include "kernel/runner/isolation.h"
#include "kernel/runner/plugin.h"
#include "reference/numerics.h"
#include "reference/observation.h"
#include "reference/problem.h"

namespace attest {

struct RunOptions {
  bool trace = false;        // ask for a trace if the kernel gives one
  bool want_lse = true;
  uint8_t poison = 0;        // 0: run once with the default fill. Otherwise the byte to fill outputs with.
  bool check_memory = true;  // fill twice with different poison to find unwritten elements; guards, inputs
  bool captured = false;     // on a GPU: the call is captured into a graph, which runs twice; unsupported where it cannot be
};

// Partial states of `lse.size()` rows: O normalised, [rows, width], and LSE.
struct PartialStates {
  int64_t width = 0;
  std::vector<float> o, lse;
};

struct Merged {
  RunStatus status = RunStatus::ok;  // unsupported where the kernel offers no merge
  std::string message;
  PartialStates state;
};

class Kernel {
 public:
  // "host", "cuda", "cuda_hopper", the path of a plug-in, path:name where it holds several, or file.py:function. With `isolation` none
  // of its code runs in this process; a Python function runs in a worker in any case.
  static std::variant<Kernel, LoadError> load(const std::string& name, const std::optional<Isolation>& isolation = {});
  // All built-in kernels present in this build, whether or not their device is there.
  static std::vector<std::string> built_in();
  // A kernel from a table that is already in memory (tests, fuzz targets).
  static Kernel from_table(const attest_kernel* table);

  const attest_kernel& table() const;
  std::string name() const;
  std::string device() const;  // "cpu", or the name of the GPU
  bool has(attest_feature f) const { return (table().features & f) != 0; }
  bool traceable() const { return table().trace_capacity != nullptr; }
  bool isolated() const;
  // The names of the plug-in's other kernels where it holds several and none was named, with commas; else "".
  std::string further() const;

  // The same isolated kernel with workers of its own, that have made no call yet.
  Kernel alone() const;
  // Lets the workers that are idle end, as a program ends. What was wrong with that, "" if nothing.
  std::string end_workers() const;
  // Called in the thread whose worker was lost, with what it was asked to run; nullptr: nothing is called. Set it while no
  // call is made.
  void when_lost(std::function<void(const Problem&, const Observation&)> tell) const;

  // Empty if the kernel takes this problem, otherwise its reason.
  std::string refuses(const Problem& problem) const;
  Observation run(const Problem& problem, const RunOptions& options = {}) const;
  // The same into `seen`, whose memory is used again.
  void run(const Problem& problem, const RunOptions& options, Observation& seen) const;
  // Two problems at once: on a GPU on two streams, with nothing awaited between. Outputs alone are read, no memory is
  // checked; both have the status of the pair.
  std::pair<Observation, Observation> run_together(const Problem& first, const Problem& second) const;
  // merge(a, b) in the kernel's memory. Both have the same rows and width.
  Merged merge(const PartialStates& a, const PartialStates& b) const;

  Conventions conventions() const;
  // What this kernel may round on `problem`. Strict: strict(type), widened only by what the problem itself asks for
  // outside that model: tiles of fewer than 16 keys (a rescale each), splits (a merge each), a narrower P. Declared: the
  // fields that the kernel declares replace the strict ones, and P has the type that the problem asks for.
  Numerics numerics(const Problem& problem, Contract contract) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace attest
