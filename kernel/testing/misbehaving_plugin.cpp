// A right kernel that misbehaves in one way, ATTEST_FAULT, wherever a problem has an odd number of keys. One plug-in for
// each fault.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "kernel/abi/attest_kernel.h"
#include "kernel/host/host.h"

namespace {

enum Fault {
  none, segfault, aborts, exits, loops, stops, eats_memory, corrupts_heap, wrong_buffer, throws, overflows_stack, hangs_up, supports_crashes, load_exits, load_hangs,
  dies_late, dies_at_end
};
constexpr Fault kFault = ATTEST_FAULT;

bool due(const attest_args* a) { return a->k->shape[2] % 2 == 1; }

volatile unsigned sink = 0;  // unsigned: an endless loop must not end by an overflow that UBSan sees
int overflow(int depth) {
  volatile char frame[4096] = {};
  frame[0] = static_cast<char>(depth);
  return overflow(depth + 1) + frame[0];
}

struct AtEnd {
  bool broken = false;
  ~AtEnd() {
    if (broken) std::abort();
  }
} at_end;
bool broken_before = false;

void misbehave(const attest_args* a) {
  switch (kFault) {
    case segfault: *reinterpret_cast<volatile int*>(16) = 1; break;
    case aborts: std::abort();
    case exits: std::exit(0);
    case loops:
      for (;;) sink = sink + 1;
    case stops: raise(SIGSTOP); break;
    case eats_memory:
      for (;;) {
        constexpr size_t kBlock = size_t{1} << 24;
        if (void* block = std::malloc(kBlock)) std::memset(block, 1, kBlock);
      }
    case corrupts_heap: {
      // What the allocator keeps before a block, and what lies past it: that alone may be found much later.
      volatile int64_t past = 64;
      auto* block = static_cast<char*>(std::malloc(24));
      for (int64_t n = -8; n < past; ++n) static_cast<volatile char*>(block)[n] = 0x41;
      std::free(block);
      break;
    }
    case wrong_buffer: std::memset(static_cast<char*>(a->q->data) + a->q->byte_offset, 0x3C, 2); break;
    case throws: throw std::runtime_error("nobody catches this");
    case overflows_stack: sink = overflow(0); break;
    case hangs_up:
      for (int fd = 3; fd < 1024; ++fd) close(fd);
      pause();
      break;
    case dies_late: broken_before = true; break;
    case dies_at_end: broken_before = at_end.broken = true; break;
    default: break;
  }
}

int32_t supports(const attest_args* a, char* reason, size_t size) {
  if (kFault == supports_crashes && due(a)) std::abort();
  return attest::host_kernel()->supports(a, reason, size);
}

attest_status forward(const attest_args* a, void* stream, char* message, size_t size) {
  if (broken_before) std::abort();
  const attest_status status = attest::host_kernel()->forward(a, stream, message, size);
  if (due(a)) misbehave(a);
  return status;
}

}  // namespace

extern "C" const attest_kernel* attest_kernel_get(uint32_t index) {
  if (index != 0) return nullptr;
  if (kFault == load_exits) _exit(7);
  if (kFault == load_hangs) pause();
  static const attest_kernel table = [] {
    attest_kernel t = *attest::host_kernel();
    t.name = "misbehaving";
    t.supports = supports;
    t.forward = forward;
    return t;
  }();
  return &table;
}
