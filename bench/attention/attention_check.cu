// attention_check: the Hopper kernel against direct attention in double on the same card.
//
// Each case prints one line: the relative error of O (root of summed squares), the largest error in units of what
// one rounding of P and O may do, the largest error of LSE. Exit 1 if any case is out of bounds.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "bench/attention/call.h"
#include "bench/attention/variants.h"
#include "kernel/cuda/hopper/forward.h"

namespace {

using namespace attest;

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(error));
  std::exit(2);
}

template <class T>
__host__ __device__ float number(T x);
template <>
__host__ __device__ float number(__half x) {
  return __half2float(x);
}
template <>
__host__ __device__ float number(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
template <class T>
__host__ __device__ T element(float x);
template <>
__host__ __device__ __half element(float x) {
  return __float2half(x);
}
template <>
__host__ __device__ __nv_bfloat16 element(float x) {
  return __float2bfloat16(x);
}

// About normal numbers, the same on every machine: sums of hashed bits.
template <class T>
__global__ void fill(T* out, int64_t count, uint32_t seed, float size) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
    uint64_t x = (i + 1) * 0x9E3779B97F4A7C15ull + seed * 0xD1B54A32D192ED03ull;
    float sum = 0;
    for (int j = 0; j < 6; ++j) {
      x ^= x >> 33, x *= 0xFF51AFD7ED558CCDull, x ^= x >> 29;
      sum += (x >> 40) * 0x1p-24f - 0.5f;
    }
    out[i] = element<T>(sum * 1.41f * size);
  }
}

struct Case {
  std::string name;
  bench::Extents e;
  bool bf16 = true, heads_inside = false, lengths = false;
  int causal = 0;
  int64_t left = -1, right = -1;
  float scale = 0;  // 0: 1 / sqrt(D)
  float q_size = 1, v_size = 1;
  int variant = -1;  // -1: the shape that the kernel chooses
};

struct Strides {
  int64_t b, h, n;
};

// One block a row: O in double, its spread sum p |v| / l, and LSE.
template <class T>
__global__ void direct(const T* q, const T* k, const T* v, double* o, double* spread, double* lse, bench::Extents e,
                       Strides sq, Strides sk, Strides sv, const int* lengths, int causal, int64_t left, int64_t right,
                       double scale) {
  const int64_t row = blockIdx.x % e.queries, head = blockIdx.x / e.queries % e.query_heads;
  const int64_t batch = blockIdx.x / e.queries / e.query_heads, key_head = head / (e.query_heads / e.key_heads);
  const int64_t keys = lengths ? lengths[batch] : e.keys, position = row + keys - e.queries;
  q += batch * sq.b + head * sq.h + row * sq.n, k += batch * sk.b + key_head * sk.h,
      v += batch * sv.b + key_head * sv.h;
  __shared__ double weight[128], total[1], most[1];
  double acc[2] = {}, mass[2] = {};
  const auto visible = [&](int64_t j) {
    return j < keys && (!causal || j <= position) && (left < 0 || j >= position - left) &&
           (right < 0 || j <= position + right);
  };
  const auto score = [&](int64_t j) {
    double dot = 0;
    for (int d = 0; d < e.width; ++d) dot += double(number(q[d])) * double(number(k[j * sk.n + d]));
    return dot * scale;
  };
  if (threadIdx.x == 0) total[0] = 0, most[0] = -INFINITY;
  for (int pass = 0; pass < 2; ++pass)
    for (int64_t base = 0; base < e.keys; base += 128) {
      const int64_t j = base + threadIdx.x;
      __syncthreads();
      weight[threadIdx.x] = visible(j) ? score(j) : -INFINITY;
      __syncthreads();
      if (pass == 0) {
        if (threadIdx.x == 0)
          for (int i = 0; i < 128; ++i) most[0] = fmax(most[0], weight[i]);
        continue;
      }
      for (int i = 0; i < 128 && base + i < keys; ++i) {
        if (weight[i] == -INFINITY) continue;
        const double p = exp(weight[i] - most[0]);
        if (threadIdx.x == 0) total[0] += p;
        for (int c = 0; c < 2; ++c)
          if (threadIdx.x + 128 * c < e.value_width) {
            const double x = number(v[(base + i) * sv.n + threadIdx.x + 128 * c]);
            acc[c] += p * x, mass[c] += p * fabs(x);
          }
      }
    }
  __syncthreads();
  for (int c = 0; c < 2; ++c)
    if (threadIdx.x + 128 * c < e.value_width) {
      o[blockIdx.x * e.value_width + threadIdx.x + 128 * c] = total[0] > 0 ? acc[c] / total[0] : 0;
      spread[blockIdx.x * e.value_width + threadIdx.x + 128 * c] = total[0] > 0 ? mass[c] / total[0] : 0;
    }
  if (threadIdx.x == 0) lse[blockIdx.x] = most[0] + log(total[0]);
}

template <class T>
class Run {
 public:
  explicit Run(const Case& c) : c_(c) {
    const auto& e = c.e;
    q = allocate<T>(e.batches * e.query_heads * e.queries * e.width);
    k = allocate<T>(e.batches * e.key_heads * e.keys * e.width);
    v = allocate<T>(e.batches * e.key_heads * e.keys * e.value_width);
    rows = e.batches * e.query_heads * e.queries;
    o = allocate<T>(rows * e.value_width);
    lse = allocate<float>(rows);
    fill<<<256, 256>>>(q, e.batches * e.query_heads * e.queries * e.width, 1, c.q_size);
    fill<<<256, 256>>>(k, e.batches * e.key_heads * e.keys * e.width, 2, 1);
    fill<<<256, 256>>>(v, e.batches * e.key_heads * e.keys * e.value_width, 3, c.v_size);
    if (c.lengths) {
      std::vector<int> l(e.batches);
      for (int64_t b = 0; b < e.batches; ++b) l[b] = b == 1 ? 0 : static_cast<int>(e.keys - b * 37 % (e.keys + 1));
      lengths = allocate<int>(e.batches);
      check(cudaMemcpy(lengths, l.data(), l.size() * 4, cudaMemcpyHostToDevice), "copy");
    }
    scale = c.scale != 0 ? c.scale : static_cast<float>(1 / std::sqrt(static_cast<double>(e.width)));
  }
  ~Run() {
    for (void* p : owned_) cudaFree(p);
  }

  // False if refused. `batch`: this one alone, written where the whole call writes it.
  bool forward(int64_t batch = -1) {
    bench::Extents e = c_.e;
    const int64_t b = std::max<int64_t>(batch, 0), heads = e.query_heads * b;
    if (batch >= 0) e.batches = 1;
    bench::Call call(e, std::is_same_v<T, __nv_bfloat16>, q + heads * e.queries * e.width,
                     k + b * e.key_heads * e.keys * e.width, v + b * e.key_heads * e.keys * e.value_width,
                     o + heads * e.queries * e.value_width, lse + heads * e.queries, c_.heads_inside);
    if (lengths) call.set_key_lengths(lengths);
    call.args.scale = scale, call.args.causal = c_.causal;
    call.args.window_left = c_.left, call.args.window_right = c_.right;
    char message[200] = "";
    if (!hopper::takes(call.args)) return std::printf("%s: refused\n", c_.name.c_str()), false;
    // A variant may cut the call otherwise than the shape that the kernel chooses.
    call.args.workspace_bytes = hopper::workspace_bytes(call.args) + (c_.variant < 0 ? 0 : 1 << 20);
    if (!workspace) workspace = allocate<char>(call.args.workspace_bytes);
    check(cudaMemset(workspace, 0x5A, call.args.workspace_bytes), "poison");
    if (batch <= 0) check(cudaMemset(o, 0xFF, rows * c_.e.value_width * 2), "poison");
    if (batch <= 0) check(cudaMemset(lse, 0xFF, rows * 4), "poison");
    call.args.workspace = workspace;
    int count;
    const attest_status status =
        c_.variant < 0 ? hopper::forward(call.args, nullptr, message, sizeof message)
                       : bench::variants(count)[c_.variant].forward(call.args, nullptr, message, sizeof message);
    if (status != ATTEST_OK) return std::printf("%s: %s\n", c_.name.c_str(), message), false;
    check(cudaDeviceSynchronize(), c_.name.c_str());
    return true;
  }

  std::vector<T> output() const { return fetch(o, rows * c_.e.value_width); }
  std::vector<float> log_sums() const { return fetch(lse, rows); }

  void reference(std::vector<double>& ro, std::vector<double>& spread, std::vector<double>& rl) {
    const auto& e = c_.e;
    double *d_o = allocate<double>(rows * e.value_width), *d_s = allocate<double>(rows * e.value_width),
           *d_l = allocate<double>(rows);
    const auto strides = [&](int64_t h, int64_t n, int64_t d) {
      return c_.heads_inside ? Strides{n * h * d, d, h * d} : Strides{h * n * d, n * d, d};
    };
    direct<<<rows, 128>>>(q, k, v, d_o, d_s, d_l, e, strides(e.query_heads, e.queries, e.width),
                          strides(e.key_heads, e.keys, e.width), strides(e.key_heads, e.keys, e.value_width), lengths,
                          c_.causal, c_.left, c_.right, scale);
    check(cudaDeviceSynchronize(), "reference");
    ro = fetch(d_o, rows * e.value_width), spread = fetch(d_s, rows * e.value_width), rl = fetch(d_l, rows);
  }
  // Position of (batch, head, row, column) of O in memory and in the reference's packed order.
  int64_t place(int64_t i) const {
    const auto& e = c_.e;
    if (!c_.heads_inside) return i;
    const int64_t d = i % e.value_width, n = i / e.value_width % e.queries,
                  h = i / e.value_width / e.queries % e.query_heads;
    const int64_t b = i / e.value_width / e.queries / e.query_heads;
    return ((b * e.queries + n) * e.query_heads + h) * e.value_width + d;
  }
  void set(T* where, int64_t at, float x) {
    const T t = element<T>(x);
    check(cudaMemcpy(where + at, &t, sizeof t, cudaMemcpyHostToDevice), "set");
  }

  T *q, *k, *v, *o;
  float* lse;
  int* lengths = nullptr;
  char* workspace = nullptr;
  int64_t rows;
  float scale;

 private:
  template <class U>
  U* allocate(int64_t count) {
    void* p = nullptr;
    check(cudaMalloc(&p, count * sizeof(U) + 16), "allocate");
    owned_.push_back(p);
    return static_cast<U*>(p);
  }
  template <class U>
  std::vector<U> fetch(const U* from, int64_t count) const {
    std::vector<U> to(count);
    check(cudaMemcpy(to.data(), from, count * sizeof(U), cudaMemcpyDeviceToHost), "fetch");
    return to;
  }
  const Case& c_;
  std::vector<void*> owned_;
};

int failures = 0;

void verdict(const std::string& name, bool good, const char* figures) {
  failures += !good;
  std::printf("%-4s %-58s %s\n", good ? "ok" : "BAD", name.c_str(), figures);
  std::fflush(stdout);
}

template <class T>
void accuracy(const Case& c) {
  Run<T> run(c);
  if (!run.forward()) return verdict(c.name, false, "did not run");
  const auto first = run.output();
  const auto lse = run.log_sums();
  std::vector<double> o, spread, l;
  run.reference(o, spread, l);
  constexpr double unit = std::is_same_v<T, __half> ? 0x1p-11 : 0x1p-8;
  double squares = 0, norm = 0, worst = 0, worst_lse = 0;
  int64_t nan = 0, worst_at = 0;
  for (size_t i = 0; i < o.size(); ++i) {
    const double got = number(first[run.place(i)]), error = std::fabs(got - o[i]);
    nan += !(error < INFINITY);
    squares += error * error, norm += o[i] * o[i];
    const double units = error / (unit * (spread[i] + std::fabs(o[i])) + 1e-6);
    if (units > worst) worst = units, worst_at = static_cast<int64_t>(i);
  }
  for (size_t i = 0; i < l.size(); ++i) {
    const double error = l[i] == lse[i] ? 0 : std::fabs(lse[i] - l[i]) / (1 + std::fabs(l[i]));
    worst_lse = std::fmax(worst_lse, std::isnan(error) ? INFINITY : error);
  }
  if (!run.forward()) return verdict(c.name, false, "did not run again");
  const auto again = run.output();
  const bool same = std::memcmp(first.data(), again.data(), first.size() * sizeof(T)) == 0;
  char figures[200];
  std::snprintf(figures, sizeof figures, "relative %.2e, worst %.3f units at %lld, LSE %.1e, not finite %lld%s",
                std::sqrt(squares / std::fmax(norm, 1e-30)), worst, static_cast<long long>(worst_at), worst_lse,
                static_cast<long long>(nan), same ? "" : ", DIFFERS BETWEEN RUNS");
  verdict(c.name, nan == 0 && worst < 1.01 && worst_lse < 2e-6 && same, figures);
}

// Masked keys hold NaN and Inf in K and V: every bit as if they held numbers.
template <class T>
void masked_payload(const Case& c) {
  Run<T> run(c);
  const auto& e = c.e;
  bool ran = run.forward();
  const auto before = run.output();
  const auto lse_before = run.log_sums();
  // The last key of each key head is visible to the last query alone (causal) or to none (lengths).
  const int64_t row = e.keys - 1;
  for (int64_t h = 0; h < e.batches * e.key_heads; ++h)
    for (int64_t d = 0; d < e.value_width; ++d)
      run.set(run.v, (h * e.keys + row) * e.value_width + d, d % 2 ? NAN : -INFINITY);
  for (int64_t h = 0; h < e.batches * e.key_heads; ++h) run.set(run.k, (h * e.keys + row) * e.width, NAN);
  ran &= run.forward();
  const auto after = run.output();
  const auto lse_after = run.log_sums();
  int64_t changed = 0, not_nan = 0;
  for (int64_t r = 0; r < run.rows; ++r) {
    const bool sees = c.causal && r % e.queries == e.queries - 1;
    for (int64_t d = 0; d < e.value_width; ++d) {
      const size_t i = r * e.value_width + d;
      if (sees)
        not_nan += !std::isnan(number(after[i]));
      else
        changed += std::memcmp(&before[i], &after[i], sizeof(T)) != 0;
    }
    if (!sees)
      changed += lse_before[r] != lse_after[r];
    else
      not_nan += !std::isnan(lse_after[r]);
  }
  char figures[100];
  std::snprintf(figures, sizeof figures, "changed %lld, should be NaN %lld", static_cast<long long>(changed),
                static_cast<long long>(not_nan));
  verdict(c.name, ran && changed == 0 && not_nan == 0, figures);
}

// One Inf in V at a visible key: that column non-finite in the rows that see it, everything else as before.
template <class T>
void visible_value(const Case& c) {
  Run<T> run(c);
  const auto& e = c.e;
  bool ran = run.forward();
  const auto before = run.output();
  const int64_t key = e.keys / 2, column = e.value_width / 3;
  run.set(run.v, key * e.value_width + column, INFINITY);
  ran &= run.forward();
  const auto after = run.output();
  int64_t wrong = 0;
  for (int64_t r = 0; r < run.rows; ++r)
    for (int64_t d = 0; d < e.value_width; ++d) {
      const bool hit = r < e.queries && d == column && (!c.causal || r + e.keys - e.queries >= key);
      const float x = number(after[r * e.value_width + d]);
      wrong += hit ? std::isfinite(x)
                   : std::memcmp(&before[r * e.value_width + d], &after[r * e.value_width + d], sizeof(T)) != 0;
    }
  char figures[100];
  std::snprintf(figures, sizeof figures, "wrong %lld", static_cast<long long>(wrong));
  verdict(c.name, ran && wrong == 0, figures);
}

// The same bits `times` times over, and each batch by itself as among the others.
template <class T>
void repeats(const Case& c, int times) {
  Run<T> run(c);
  bool ran = run.forward();
  const auto first = run.output();
  const auto first_lse = run.log_sums();
  int64_t different = 0, alone_different = 0;
  const auto differs = [&] {
    const auto o = run.output();
    const auto l = run.log_sums();
    return std::memcmp(o.data(), first.data(), o.size() * sizeof(T)) != 0 ||
           std::memcmp(l.data(), first_lse.data(), l.size() * sizeof(float)) != 0;
  };
  for (int i = 0; i < times && ran; ++i) ran &= run.forward(), different += differs();
  for (int64_t b = 0; b < c.e.batches && ran; ++b) ran &= run.forward(b);
  alone_different += differs();
  char figures[100];
  std::snprintf(figures, sizeof figures, "%d repeats, %lld differ; alone %s", times, static_cast<long long>(different),
                alone_different ? "DIFFERS" : "the same bits");
  verdict(c.name, ran && different == 0 && alone_different == 0, figures);
}

template <class T>
void all(const char* type, bool quick) {
  const auto name = [&](const char* what, const bench::Extents& e) {
    char text[200];
    std::snprintf(text, sizeof text, "%s %s B%lld H%lld/%lld N%lldx%lld D%lld/%lld", type, what, (long long)e.batches,
                  (long long)e.query_heads, (long long)e.key_heads, (long long)e.queries, (long long)e.keys,
                  (long long)e.width, (long long)e.value_width);
    return std::string(text);
  };
  const auto run = [&](const char* what, bench::Extents e, const std::function<void(Case&)>& change = {}) {
    Case c;
    c.e = e, c.name = name(what, e);
    if (change) change(c);
    accuracy<T>(c);
  };
  for (int64_t d : {64, 128, 256}) {
    run("full", {1, 2, 2, 128, 128, d, d});
    run("full", {2, 3, 3, 1000, 1000, d, d});
    run("one query", {1, 2, 1, 1, 1, d, d});
    run("short", {1, 2, 2, 33, 17, d, d});
    run("causal", {2, 2, 2, 777, 777, d, d}, [](Case& c) { c.causal = 1; });
    run("causal, more keys", {1, 4, 2, 300, 1111, d, d}, [](Case& c) { c.causal = 1; });
    run("causal, more queries", {1, 4, 1, 1111, 300, d, d}, [](Case& c) { c.causal = 1; });
    run("lengths", {4, 2, 1, 260, 515, d, d}, [](Case& c) { c.lengths = true; });
    run("lengths causal", {4, 4, 2, 260, 515, d, d}, [](Case& c) { c.lengths = true, c.causal = 1; });
    run("window 100,0", {1, 2, 2, 900, 900, d, d}, [](Case& c) { c.left = 100, c.right = 0; });
    run("window 3,70", {1, 2, 2, 900, 1000, d, d}, [](Case& c) { c.left = 3, c.right = 70; });
    run("heads inside", {2, 3, 3, 400, 300, d, d}, [](Case& c) { c.heads_inside = true; });
    run("negative scale", {1, 2, 2, 400, 400, d, d}, [](Case& c) { c.scale = -0.3f; });
    run("large scores", {1, 2, 2, 400, 400, d, d}, [](Case& c) { c.scale = 3.0f; });
    run("huge scores", {1, 2, 2, 200, 200, d, d}, [](Case& c) { c.scale = 1e6f; });
    run("narrow", {1, 2, 2, 200, 300, d - 24, d - 8});
    run("unaligned", {1, 2, 2, 200, 300, d - 23, d - 7}, [](Case& c) { c.causal = 1; });
    run("one query, many keys", {2, 4, 2, 1, 5000, d, d});
    run("few queries causal", {2, 4, 2, 50, 4000, d, d}, [](Case& c) { c.causal = 1; });
    run("few queries lengths", {4, 2, 1, 7, 3000, d, d}, [](Case& c) { c.lengths = true; });
    run("few queries huge scores", {1, 2, 2, 30, 2500, d, d}, [](Case& c) { c.scale = 1e6f; });
    // Beyond what a rounded reference point is good for; the dot products' own roundings still stay below P's.
    run("very large scores", {1, 2, 2, 300, 700, d, d}, [](Case& c) { c.scale = std::is_same_v<T, __half> ? 40.0f : 400.0f; });
    if (!quick) run("many blocks", {3, 16, 4, 1500, 1500, d, d}, [](Case& c) { c.causal = 1; });
    const float limit = std::is_same_v<T, __half> ? 12000.0f : 6e37f;
    run("values at the limit", {1, 1, 1, 200, 500, d, d}, [&](Case& c) { c.v_size = limit; });
    Case c;
    c.e = {1, 2, 2, 300, 300, d, d}, c.causal = 1, c.name = name("masked NaN keeps bits, causal", c.e);
    masked_payload<T>(c);
    c.lengths = false, c.e = {1, 2, 2, 300, 300, d, d}, c.causal = 1, c.name = name("Inf at a visible key", c.e);
    visible_value<T>(c);
    c.causal = 0, c.e = {1, 2, 2, 500, 333, d, d}, c.name = name("Inf at a visible key, full", c.e);
    visible_value<T>(c);
    c.e = {2, 2, 2, 20, 3333, d, d}, c.name = name("Inf at a visible key, few queries", c.e);
    visible_value<T>(c);
    c.causal = 1, c.name = name("masked NaN keeps bits, few queries causal", c.e);
    masked_payload<T>(c);
    const int times = quick ? 20 : 1000;
    c.e = {3, 2, 2, 500, 500, d, d}, c.name = name("repeats causal", c.e);
    repeats<T>(c, times);
    c.e = {3, 4, 2, 2, 5000, d, d}, c.causal = 0, c.name = name("repeats few queries", c.e);
    repeats<T>(c, times);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 3 && std::string(argv[1]) == "once") {  // VARIANT LENGTH CAUSAL: one launch, for a profiler
    int count;
    Case c;
    c.variant = std::atoi(argv[2]), c.causal = argc > 4 && std::atoi(argv[4]);
    const int64_t n = std::atoi(argv[3]), d = bench::variants(count)[c.variant].width;
    c.e = {16384 / n, 2048 / d, 2048 / d, n, n, d, d};
    Run<__nv_bfloat16> run(c);
    return run.forward() && run.forward() ? 0 : 1;
  }
  if (argc > 1 && std::string(argv[1]) == "tiny") {  // a few small cases, for compute-sanitizer
    for (int64_t d : {64, 128, 256}) {
      Case c;
      c.e = {2, 2, 1, 200, 300, d, d}, c.causal = 1, c.lengths = true, c.name = "tiny D" + std::to_string(d);
      accuracy<__nv_bfloat16>(c);
      c.lengths = false, c.e = {1, 2, 2, 140, 140, d, d}, c.name = "tiny masked NaN D" + std::to_string(d);
      masked_payload<__nv_bfloat16>(c);
      c.e = {1, 2, 1, 3, 2100, d, d}, c.name = "tiny few queries D" + std::to_string(d);
      accuracy<__nv_bfloat16>(c);
      masked_payload<__nv_bfloat16>(c);
      c.e = {1, 1, 1, 70, 90, d - 3, d}, c.name = "tiny unaligned D" + std::to_string(d);
      accuracy<__nv_bfloat16>(c);
      c.e = {1, 2, 1, 3, 1100, d - 3, d}, c.name = "tiny few queries unaligned D" + std::to_string(d);
      accuracy<__nv_bfloat16>(c);
      c.scale = -0.3f, c.e = {1, 2, 1, 70, 190, d, d}, c.name = "tiny negative scale D" + std::to_string(d);
      accuracy<__nv_bfloat16>(c);
      c.e = {1, 2, 1, 3, 1100, d, d}, c.name = "tiny few queries negative scale D" + std::to_string(d);
      accuracy<__nv_bfloat16>(c);
      c.scale = 1e6f, c.e = {1, 1, 1, 70, 90, d, d}, c.name = "tiny exact D" + std::to_string(d);
      accuracy<__nv_bfloat16>(c);
    }
    return failures != 0;
  }
  const bool quick = argc > 1 && std::string(argv[1]) == "quick";
  all<__nv_bfloat16>("bf16", quick);
  if (!quick) all<__half>("f16", quick);
  int count;
  const auto* table = attest::bench::variants(count);
  for (int i = 0; i < count; ++i)
    for (int causal : {0, 1}) {
      Case c;
      c.e = {2, 2, 1, 600, 777, table[i].width, table[i].width}, c.variant = i, c.causal = causal;
      c.name =
          std::string("variant ") + table[i].name + " D" + std::to_string(table[i].width) + (causal ? " causal" : "");
      accuracy<__nv_bfloat16>(c);
    }
  std::printf("%d bad\n", failures);
  return failures != 0;
}
