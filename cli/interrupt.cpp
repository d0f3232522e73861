#include "cli/interrupt.h"

#include <unistd.h>

namespace attest::cli {

namespace {

std::atomic<bool> stopped{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_signal(int signal) {
  constexpr char kLine[] = "\nattest: stopping after the cases at hand; once more stops at once\n";
  if (write(STDERR_FILENO, kLine, sizeof kLine - 1) < 0) return;
  stopped = true;
  ::signal(signal, SIG_DFL);
}

}  // namespace

Interrupt::Interrupt() {
  stopped = false;
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &int_);
  sigaction(SIGTERM, &action, &term_);
}

Interrupt::~Interrupt() {
  sigaction(SIGINT, &int_, nullptr);
  sigaction(SIGTERM, &term_, nullptr);
}

const std::atomic<bool>* Interrupt::flag() const { return &stopped; }

}  // namespace attest::cli
