// worker.h: a kernel in a process of its own.
//
// A Worker starts a program that serves one kernel (serve.h), tells it each call through memory that both map, and waits
// for the answer no longer than it may take. What a worker can do to attest is to answer wrongly: the request lies in
// memory that it cannot write, files do not shrink, and every number it gives is checked before it is used.
// Whatever ends it, Lost says what; the process, and whatever it started in its process group, are gone then.
// Ownership: a Worker owns its process, files and mappings and gives them back in its destructor.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kernel/runner/isolation.h"
#include "kernel/runner/place.h"
#include "kernel/runner/plugin.h"
#include "kernel/runner/wire.h"

namespace attest {

class Worker : public Place {
 public:
  // Loads kernel `name` in a new process.
  static std::variant<std::unique_ptr<Worker>, LoadError> start(const std::string& name, const Isolation& isolation);
  ~Worker() override;

  const wire::Description& description() const;
  Needs ask(const PlannedCall& call) override;
  uint8_t* room(size_t bytes) override;
  Outcome forward(const PlannedCall& call, uint8_t* image) override;
  Outcome forward_two(const PlannedCall& first, const PlannedCall& second, uint8_t* image) override;
  Outcome merge(const PlannedMerge& call, uint8_t* image) override;
  // Lets the process end by itself. What was wrong with that, "" if nothing.
  std::string end();

 private:
  class Process;
  explicit Worker(std::unique_ptr<Process> process);
  Outcome make(wire::Op op, size_t size, uint8_t* image);
  std::unique_ptr<Process> process_;
  std::vector<uint8_t> image_;        // ours; the process has a copy, and may write there at any time
  std::optional<PlannedCall> asked_;  // the last call that the kernel was asked about, and what it said
  Needs said_;
};

}  // namespace attest
