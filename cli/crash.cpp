#include "cli/crash.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cli/exit_code.h"

namespace attest::cli {

namespace {

constexpr size_t kLongest = 1000;
char what_runs[kLongest + 1] = "attest";

void say(const char* text) {
  // A short write leaves the line short; nothing better can be done here.
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

bool may_end = false;

void on_exit() {
  if (may_end) return;
  std::fflush(stdout);
  say("\nattest: the process was ended by a call of exit while running ");
  say(what_runs);
  say("\n");
  _exit(static_cast<int>(Exit::crash));
}

void on_crash(int signal) {
  say("\nattest: crashed (");
  say(signal == SIGSEGV ? "segmentation fault" : signal == SIGBUS ? "bus error" : signal == SIGFPE ? "arithmetic exception" : signal == SIGILL ? "illegal instruction" : "abort");
  say(") while running ");
  say(what_runs);
  say("\n");
  _exit(static_cast<int>(Exit::crash));
}

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

}  // namespace

void report_crashes() {
  std::atexit(on_exit);
  if (kSanitized) return;
  // Stack overflow leaves no stack to run on.
  static char stack[1 << 16];
  stack_t alternative{};
  alternative.ss_sp = stack;
  alternative.ss_size = sizeof stack;
  sigaltstack(&alternative, nullptr);
  struct sigaction action{};
  action.sa_handler = on_crash;
  action.sa_flags = static_cast<int>(SA_ONSTACK | SA_RESETHAND);
  for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigaction(s, &action, nullptr);
}

void finished() { may_end = true; }

void running(const std::string& what) {
  const size_t n = std::min(what.size(), kLongest);
  std::memcpy(what_runs, what.data(), n);
  what_runs[n] = 0;
}

}  // namespace attest::cli
