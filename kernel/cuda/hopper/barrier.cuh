// barrier.cuh: how warps of one block wait for each other and for copies.
//
// TransferBarrier: a barrier in shared memory whose phase ends once the expected arrivals were made *and* the
// announced bytes of bulk copies have landed (PTX ISA, "mbarrier"). A waiter passes the parity of the phase it
// waits for: a fresh barrier is in phase 0, so wait(0) blocks until the first phase ends, wait(1) returns at once.
// Turn: warpgroups take turns in a ring by hardware barriers (PTX ISA, "barrier{.cta}").
#pragma once

#include <cstdint>

namespace attest::hopper {

__device__ inline uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

class TransferBarrier {
 public:
  __device__ void init(uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&state_)), "r"(arrivals) : "memory");
  }
  __device__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&state_)) : "memory");
  }
  // Arrives, and holds the phase open until `bytes` of bulk copies have landed.
  __device__ void arrive_and_expect(uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&state_)), "r"(bytes)
                 : "memory");
  }
  __device__ void wait(uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra finished;\n"
        "bra again;\n"
        "finished:\n"
        "}\n" ::"r"(shared_address(&state_)),
        "r"(parity)
        : "memory");
  }

 private:
  uint64_t state_;
};

// Makes freshly initialised barriers visible to the copy engine (PTX ISA, "fence.mbarrier_init", "fence.proxy").
__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
}

// Orders this thread's ordinary writes to shared memory before later reads by matrix unit and copy engine.
__device__ inline void publish_shared_writes() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// All `threads` threads that name barrier `id` meet. Id 0 is __syncthreads().
__device__ inline void meet(int id, int threads) {
  asm volatile("barrier.cta.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ inline void announce(int id, int threads) {
  asm volatile("barrier.cta.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Between launches that follow each other: lets the next one be set up while this one runs, and waits until the
// previous one has ended and its writes are visible. PTX ISA: "griddepcontrol".
__device__ inline void let_next_launch_prepare() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ inline void wait_for_previous_launch() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Turns of `Groups` warpgroups around a ring: while one issues matrix products, the others do arithmetic. Not Taken:
// nobody waits.
template <int Groups, bool Taken>
class Turn {
 public:
  __device__ explicit Turn(int group)
      : mine_(kFirstId + group), next_(kFirstId + (group + 1 == Groups ? 0 : group + 1)) {
    if (Taken && group == Groups - 1) announce(next_, 256);  // group 0 goes first
  }
  __device__ void take() const {
    if constexpr (Taken) meet(mine_, 256);
  }
  __device__ void pass() const {
    if constexpr (Taken) announce(next_, 256);
  }

 private:
  static constexpr int kFirstId = 1;
  int mine_, next_;
};

}  // namespace attest::hopper
