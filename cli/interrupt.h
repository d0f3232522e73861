// interrupt.h: Ctrl-C and SIGTERM end a long run between two batches, so that what was found is reported.
//
// The second signal ends the process at once, as if nothing had been caught.
// Example: const Interrupt interrupt; options.stop = interrupt.flag();
#pragma once

#include <signal.h>

#include <atomic>

namespace attest::cli {

// From its construction to its end; one at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  const std::atomic<bool>* flag() const;

 private:
  struct sigaction int_{}, term_{};
};

}  // namespace attest::cli
