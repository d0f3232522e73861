#include "kernel/cuda/cuda.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "kernel/check_args.h"
#include "kernel/cuda/hopper/forward.h"
#include "kernel/cuda/plain_kernel.cuh"
#include "kernel/host/host_kernel.h"

namespace attest {

namespace {

using plain::kLargestTile;

int64_t effective_tile(const Call& c) { return std::max<int64_t>(1, std::min(c.tile, c.keys)); }

const char* refuse_cuda(const attest_args& a) {
  if (const char* why = refuse(a, plain::kLargestWidth)) return why;
  if (effective_tile(call_of(a)) > kLargestTile) return "tiles of more than 1024 keys are not supported";
  return nullptr;
}

int32_t supports(const attest_args* args, char* reason, size_t size) { return supports_or_say(refuse_cuda(*args), reason, size); }

// Which path a well-formed call takes depends on the call and the device alone.
bool takes_hopper(const attest_args& a) { return hopper::takes(a); }

bool wide(const Call& c) { return c.p_type == ATTEST_F32; }

uint64_t workspace_bytes(const attest_args* args) {
  if (takes_hopper(*args)) return hopper::workspace_bytes(*args);
  const Call c = call_of(*args);
  if (c.splits == 1) return 0;
  const int64_t each = wide(c) ? plain::state_bytes<double>(c.dv) : plain::state_bytes<float>(c.dv);
  return static_cast<uint64_t>(c.batches * c.heads * c.rows * c.splits * each);
}

uint64_t trace_capacity(const attest_args* args) {
  return takes_hopper(*args) ? hopper::trace_records(*args) : trace_records(call_of(*args));
}

// Within what every launch may have: raising a function's limit would change it for other threads' launches, too.
constexpr size_t kSharedByDefault = 48 * 1024;
constexpr size_t shared_bytes(int64_t tile) { return static_cast<size_t>(plain::kWarpsPerBlock * (tile + (tile + 1) / 2)) * sizeof(double); }
static_assert(shared_bytes(kLargestTile) <= kSharedByDefault);

template <class Sum>
void launch(const Call& c, uint8_t* states, cudaStream_t stream) {
  constexpr int kThreads = plain::kWarp * plain::kWarpsPerBlock;
  const size_t shared = shared_bytes(c.tile);
  const auto blocks = [](int64_t warps) {
    return static_cast<unsigned>(std::clamp<int64_t>((warps + plain::kWarpsPerBlock - 1) / plain::kWarpsPerBlock, 1, 1 << 20));
  };
  const int64_t rows = c.batches * c.heads * c.rows;
  if (c.trace.records != nullptr) plain::attend<Sum, true><<<blocks(rows * c.splits), kThreads, shared, stream>>>(c, states);
  else plain::attend<Sum, false><<<blocks(rows * c.splits), kThreads, shared, stream>>>(c, states);
  // A failed launch left no states to merge.
  if (c.splits > 1 && cudaPeekAtLastError() == cudaSuccess) plain::merge_splits<Sum><<<blocks(rows), kThreads, shared, stream>>>(c, states);
}

attest_status finished(char* message, size_t size) {
  const cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess) return ATTEST_OK;
  supports_or_say(cudaGetErrorString(status), message, size);
  return ATTEST_FAILED;
}

attest_status forward(const attest_args* args, void* stream, char* message, size_t size) {
  if (const char* why = refuse_cuda(*args)) {
    supports_or_say(why, message, size);
    return ATTEST_UNSUPPORTED;
  }
  if (takes_hopper(*args)) return hopper::forward(*args, static_cast<cudaStream_t>(stream), message, size);
  Call c = call_of(*args);
  c.tile = effective_tile(c);
  if (c.batches * c.heads * c.rows == 0) return ATTEST_OK;
  auto* states = static_cast<uint8_t*>(args->workspace);
  if (wide(c)) launch<double>(c, states, static_cast<cudaStream_t>(stream));
  else launch<float>(c, states, static_cast<cudaStream_t>(stream));
  return finished(message, size);
}

struct Pair {
  View o, lse;
};

__global__ void merge_pairs(Pair a, Pair b, Pair out, int64_t rows, int64_t width) {
  const int64_t row = blockIdx.x;
  if (row >= rows) return;
  const double la = a.lse.value(row * a.lse.stride[0]), lb = b.lse.value(row * b.lse.stride[0]);
  const double m = Recurrence::maximum(la, lb);
  const float wa = Recurrence::rescale(la, m), wb = Recurrence::rescale(lb, m);
  const float l = wa + wb;
  for (int64_t d = threadIdx.x; d < width; d += blockDim.x) {
    const double ta = wa == 0 ? 0.0 : static_cast<double>(wa) * a.o.value(row * a.o.stride[0] + d * a.o.stride[1]);
    const double tb = wb == 0 ? 0.0 : static_cast<double>(wb) * b.o.value(row * b.o.stride[0] + d * b.o.stride[1]);
    const double sum = ta + tb;
    out.o.store(row * out.o.stride[0] + d * out.o.stride[1],
                Recurrence::within_type(Recurrence::normalise(sum, l), isfinite(sum), numbers::largest_finite(ATTEST_F32)));
  }
  if (threadIdx.x == 0) out.lse.store(row * out.lse.stride[0], Recurrence::log_sum_exp(m, l));
}

attest_status merge(const attest_state* a, const attest_state* b, const attest_state* out, void* stream, char* message, size_t size) {
  const auto pair = [](const attest_state* s) { return Pair{view_of(*s->o), view_of(*s->lse)}; };
  const int64_t rows = a->o->shape[0];
  if (rows > 0) merge_pairs<<<static_cast<unsigned>(rows), 64, 0, static_cast<cudaStream_t>(stream)>>>(pair(a), pair(b), pair(out), rows, a->o->shape[1]);
  return finished(message, size);
}

// The Hopper path by itself: what it is not made for is refused, not left to the plain kernel.
const char* refuse_hopper(const attest_args& a) {
  if (const char* why = refuse_cuda(a)) return why;
  if (const char* why = hopper::unsupported_feature(a)) return why;
  return hopper::on_hopper() ? nullptr : "the Hopper path needs a device of compute capability 9.0";
}

int32_t hopper_supports(const attest_args* args, char* reason, size_t size) { return supports_or_say(refuse_hopper(*args), reason, size); }

attest_status hopper_forward(const attest_args* args, void* stream, char* message, size_t size) {
  if (!hopper_supports(args, message, size)) return ATTEST_UNSUPPORTED;
  return forward(args, stream, message, size);
}

constexpr int32_t kHopperTypes[] = {ATTEST_F16, ATTEST_BF16};

}  // namespace

const attest_kernel* cuda_kernel() {
  static const attest_kernel table = [] {
    attest_kernel t = host::common_table("cuda");
    t.device = kDLCUDA;
    t.supports = supports;
    t.workspace_bytes = workspace_bytes;
    t.forward = forward;
    t.merge = merge;
    t.trace_capacity = trace_capacity;
    t.reentrant = 1;
    return t;
  }();
  return &table;
}

const attest_kernel* cuda_hopper_kernel() {
  static const attest_kernel table = [] {
    attest_kernel t{};
    t.abi_version = ATTEST_ABI_VERSION;
    t.struct_size = sizeof(attest_kernel);
    t.name = "cuda_hopper";
    t.version = "0.1.0";
    t.device = kDLCUDA;
    t.features = ATTEST_CAUSAL | ATTEST_WINDOW | ATTEST_KEY_LENGTHS | ATTEST_GROUPED_HEADS | ATTEST_LSE | ATTEST_STRIDES | ATTEST_UNALIGNED;
    t.types = kHopperTypes;
    t.type_count = std::size(kHopperTypes);
    t.head_width_max = plain::kLargestWidth;
    // P in the input type, to nearest; l sums it before that rounding; tensor cores cut their sums.
    t.numerics.l_from = 1;
    t.numerics.acc_type = ATTEST_F32;
    t.numerics.acc_rounding = 2;
    t.supports = hopper_supports;
    t.workspace_bytes = workspace_bytes;
    t.forward = hopper_forward;
    t.merge = merge;
    t.trace_capacity = trace_capacity;
    t.reentrant = 1;
    return t;
  }();
  return &table;
}

}  // namespace attest
