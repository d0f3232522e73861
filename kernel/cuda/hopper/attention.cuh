// attention.cuh: the forward kernel for Hopper (sm_90a). This file is the algorithm; the wrappers it uses are named
// for what they do.
//
// A block of QueryRows queries of one head is worked on by one producer warpgroup, which streams tiles of K and V
// into a ring in shared memory, and by consumer warpgroups of 64 queries each, which keep S, P and O in registers:
//
//     S = Q K^T;  take tile into (m, l);  P = exp(S - m);  O = O * factor + P V;  at the end O / l
//
// Tiles are visited from the last visible key down. A consumer issues the next tile's Q K^T before this tile's P V,
// so that the matrix unit works on P V while the exponentials of the next tile are taken, and with TakeTurns the
// warpgroups issue their products in turn, so that one computes exponentials while the other multiplies.
// Every mask is an interval of keys per query (visible_keys.cuh): only tiles at its edges are tested, tiles outside
// are not visited.
// Sources: T. Dao et al., "FlashAttention" (2022), algorithm 1; J. Shah et al., "FlashAttention-3" (2024).
#pragma once

#include <type_traits>

#include "kernel/cuda/hopper/arguments.cuh"
#include "kernel/cuda/hopper/barrier.cuh"
#include "kernel/cuda/hopper/bulk_copy.cuh"
#include "kernel/cuda/hopper/clean_values.cuh"
#include "kernel/cuda/hopper/matrix_multiply.cuh"
#include "kernel/cuda/hopper/schedule.cuh"
#include "kernel/cuda/hopper/softmax.cuh"
#include "kernel/cuda/hopper/visible_keys.cuh"

namespace attest::hopper {

// Tile shapes and choices that do not change what is computed.
template <int QueryRows, int KeyRows, int Width, int Stages, bool TakeTurns, bool RescaleEarly>
struct Tile {
  static constexpr int query_rows = QueryRows;  // 64 for each consumer warpgroup
  static constexpr int key_rows = KeyRows;      // keys per tile
  static constexpr int width = Width;           // columns of Q, K and V, narrower ones padded with zeros
  static constexpr int stages = Stages;         // tiles of K and of V in flight
  static constexpr bool take_turns = TakeTurns;
  static constexpr bool rescale_early = RescaleEarly;  // O is rescaled before the product, not after the softmax
  static constexpr int consumers = QueryRows / 64;
  static constexpr int threads = 128 * (1 + consumers);
  static constexpr int producer_registers = consumers == 3 ? 32 : 40;
  static constexpr int consumer_registers = consumers == 3 ? 160 : 232;
  static_assert(QueryRows % 64 == 0 && KeyRows % 16 == 0 && Width % 64 == 0 && (consumers == 2 || consumers == 3));
};

template <class Tile>
struct Shared {
  alignas(1024) char q[Tile::query_rows * Tile::width * 2];
  alignas(1024) char k[Tile::stages][Tile::key_rows * Tile::width * 2];
  alignas(1024) char v[Tile::stages][Tile::key_rows * Tile::width * 2];
  TransferBarrier q_full[Tile::consumers], q_free[Tile::consumers];  // each warpgroup's queries by themselves
  TransferBarrier k_full[Tile::stages], k_free[Tile::stages], v_full[Tile::stages], v_free[Tile::stages];
  WorkQueue queue;
};

// The number of a tile in the stream of tiles of this thread block: its place in the ring, and the parity of the
// barriers' phase there.
template <int Stages>
struct RingPosition {
  int number = 0;
  __device__ int stage() const { return number % Stages; }
  __device__ uint32_t parity() const { return number / Stages & 1; }
  __device__ void next() { ++number; }
};

constexpr int kTurnBarriers = 3;  // named barriers 1 to 3 (Turn); the next ones belong to one warpgroup each
__device__ inline void meet_warpgroup(int warpgroup) { meet(1 + kTurnBarriers + warpgroup, 128); }

// Whether the second pass has anything to do in this block of queries.
template <class Tile>
__device__ inline bool holds_rows_to_clean(const Arguments& a, const Work& work) {
  const uint8_t* strips = a.strip_state + (int64_t{work.batch} * a.query_heads + work.head) * a.strips;
  const int begin = work.block * (Tile::query_rows / kStripRows);
  bool any = false;
  for (int i = begin; i < min(begin + Tile::query_rows / kStripRows, a.strips); ++i)
    any |= strips[i] & kValuesNotFinite;
  return any;
}

template <class Tile>
struct Block {
  Work work;
  VisibleKeys visible;
  TileRange<Tile::key_rows> tiles;

  __device__ Block(const Arguments& a, const Work& w)
      : work(w), visible(a, w.keys), tiles(visible, first_row(), min(first_row() + Tile::query_rows, a.queries)) {}
  __device__ int first_row() const { return work.block * Tile::query_rows; }
};

// The producer: draws blocks of queries and keeps the ring full. K runs one tile ahead of V, as the consumers do.
// One thread does this with the copy engine; in the second pass the whole warpgroup, which cleans V on the way.
template <class Tile, class T>
__device__ inline void produce(const Arguments& a, Shared<Tile>& shared, int thread) {
  RingPosition<Tile::stages> keys_at, values_at;
  uint32_t q_parity = 0;
  int pushed = 0;

  const auto load = [&](const Block<Tile>& block) {
    const Work& work = block.work;
    const int key_head = work.head / a.heads_per_key_head;
    const auto load_keys = [&](int tile) {
      shared.k_free[keys_at.stage()].wait(keys_at.parity() ^ 1);
      if (thread == 0)
        copy_tile<Tile::key_rows, Tile::width>(shared.k[keys_at.stage()], &a.k_map, shared.k_full[keys_at.stage()],
                                               tile * Tile::key_rows, key_head * a.k_head_step,
                                               work.batch * a.k_batch_step);
      keys_at.next();
    };
    const auto load_values = [&](int tile) {
      shared.v_free[values_at.stage()].wait(values_at.parity() ^ 1);
      if (a.pass == Pass::clean_values) {
        const T* values = static_cast<const T*>(a.v.data) + work.batch * a.v.batch + key_head * a.v.head;
        copy_finite_values<T, Tile::key_rows, Tile::width>(shared.v[values_at.stage()], values, a.v.row,
                                                           tile * Tile::key_rows, a.keys, a.value_width, thread);
        meet_warpgroup(0);
        if (thread == 0) shared.v_full[values_at.stage()].arrive();
      } else {
        copy_tile<Tile::key_rows, Tile::width>(shared.v[values_at.stage()], &a.v_map, shared.v_full[values_at.stage()],
                                               tile * Tile::key_rows, key_head * a.v_head_step,
                                               work.batch * a.v_batch_step);
      }
      values_at.next();
    };

    const auto& tiles = block.tiles;
    load_keys(tiles.end - 1);
#pragma unroll
    for (int group = 0; group < Tile::consumers; ++group) {
      shared.q_free[group].wait(q_parity ^ 1);
      if (thread == 0)
        copy_tile<kWarpgroupRows, Tile::width, Tile::query_rows>(
            shared.q + group * kWarpgroupRows * kPanelRowBytes, &a.q_map, shared.q_full[group],
            block.first_row() + group * kWarpgroupRows, work.head * a.q_head_step, work.batch * a.q_batch_step);
    }
    q_parity ^= 1;
    for (int tile = tiles.end - 1; tile >= tiles.begin; --tile) {
      if (tile > tiles.begin) load_keys(tile - 1);
      load_values(tile);
    }
  };

  for (int place = blockIdx.x; place < places(a);) {
    const int next = next_place(a, place);
    const Work work = work_at(a, place);
    if (a.pass == Pass::main || holds_rows_to_clean<Tile>(a, work)) {
      if (thread == 0) shared.queue.push(pushed++, true, work);
      const Block<Tile> block(a, work);
      if (!block.tiles.empty()) load(block);
    }
    place = next;
  }
  if (thread == 0) shared.queue.push(pushed, false, {});
}

// S = Q K^T for the 64 queries that start at `q` (panels of query_rows rows).
template <class Tile, class T>
__device__ inline void start_scores(float (&s)[Tile::key_rows / 2], const char* q, const char* k) {
  constexpr int kQueryPanel = Tile::query_rows * kPanelRowBytes, kKeyPanel = Tile::key_rows * kPanelRowBytes;
  const uint64_t queries = shared_operand(q, 0), keys = shared_operand(k, 0);
#pragma unroll
  for (int step = 0; step < Tile::width / 16; ++step) {
    const int panel = step / 4, within = step % 4 * 32;
    MatrixMultiply<T, Tile::key_rows>::scores(s, advance(queries, panel * kQueryPanel + within),
                                              advance(keys, panel * kKeyPanel + within), step > 0);
  }
}

// O += P V.
template <class Tile, class T>
__device__ inline void start_weighted_values(float (&o)[Tile::width / 2], const uint32_t (&p)[Tile::key_rows / 4],
                                             const char* v) {
  const uint64_t values = shared_operand(v, Tile::key_rows * kPanelRowBytes);
#pragma unroll
  for (int step = 0; step < Tile::key_rows / 16; ++step)
    MatrixMultiply<T, Tile::width>::weighted_values(o, p + 4 * step, advance(values, step * 16 * kPanelRowBytes), 1);
}

// Negates this warpgroup's 64 queries in shared memory, by their sign bits.
template <class Tile>
__device__ inline void negate_queries(char* q, int warpgroup, int thread) {
  for (int i = thread; i < 64 * Tile::width / 8; i += 128) {
    const int panel = i / 512, chunk = i % 512;
    uint4& x = *reinterpret_cast<uint4*>(q + panel * Tile::query_rows * kPanelRowBytes + chunk * 16);
    x = {x.x ^ 0x80008000u, x.y ^ 0x80008000u, x.z ^ 0x80008000u, x.w ^ 0x80008000u};
  }
  publish_shared_writes();
  meet_warpgroup(warpgroup);
}

// Transposes a 4 x 4 block of words over the quad: lane t's word s becomes what was lane s's word t.
__device__ inline void transpose_over_quad(uint32_t (&w)[4], int lane) {
#pragma unroll
  for (int bit = 1; bit <= 2; bit *= 2) {
    const bool upper = lane & bit;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & bit) continue;
      const uint32_t received = __shfl_xor_sync(~0u, upper ? w[i] : w[i | bit], bit);
      (upper ? w[i] : w[i | bit]) = received;
    }
  }
}

// Writes O / l, LSE and the state of this thread's rows: `row` of the head, and the one kRowDistance below it. Returns
// the kinds of states (bits) among the rows of the warp.
template <class Tile, class T>
__device__ inline unsigned finish_rows(const Arguments& a, const Work& work, const float (&o)[Tile::width / 2],
                                       const OnlineSoftmax& softmax, int row, int lane) {
  const int64_t head_index = int64_t{work.batch} * a.query_heads + work.head;
  unsigned kinds = 0;
#pragma unroll
  for (int r = 0; r < kRowsPerThread; ++r) {
    const int this_row = row + kRowDistance * r;
    const bool exists = this_row < a.queries;
    uint8_t* state = a.row_state + head_index * a.queries + this_row;

    float zero[2] = {0, 0};  // and stays so while every element is finite
#pragma unroll
    for (int i = 0; i < Tile::width / 2; ++i)
      if (row_of(i) == r) zero[i & 1] = __fmaf_rn(o[i], 0.0f, zero[i & 1]);
    const unsigned quad = __ballot_sync(~0u, zero[0] + zero[1] == 0) >> (lane & ~3) & 0xF;
    const RowState now = !softmax.trustworthy(r) ? kNeedsExact : quad != 0xF ? kValuesNotFinite : kDone;
    bool write = exists;
    if (a.pass == Pass::clean_values) {
      write = exists && *state == kValuesNotFinite;
      __syncwarp();
      if (write && now != kDone && lane % 4 == 0) *state = kNeedsExact;
    } else {
      if (exists && lane % 4 == 0) {
        *state = now;
        if (a.lse)
          a.lse[work.batch * a.lse_batch + work.head * a.lse_head + this_row * a.lse_row] =
              softmax.log_sum_exp(r, a.scale);
      }
      kinds |= __reduce_or_sync(~0u, exists ? now : kDone);
    }

    const float reciprocal = softmax.reciprocal_sum(r);
    T* out = static_cast<T*>(a.o.data) + work.batch * a.o.batch + work.head * a.o.head + this_row * a.o.row;
#pragma unroll
    for (int columns = 0; columns < Tile::width; columns += 32) {
      uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = columns / 2 + 4 * i + 2 * r;
        words[i] = pack<T>(o[at] * reciprocal, o[at + 1] * reciprocal);
      }
      transpose_over_quad(words, lane);
      const int column = columns + lane % 4 * 8;
      if (write && column < a.value_width)
        *reinterpret_cast<uint4*>(out + column) = {words[0], words[1], words[2], words[3]};
    }
  }
  if (a.pass == Pass::main && lane == 0 && row < a.queries)
    a.strip_state[head_index * a.strips + row / kStripRows] = static_cast<uint8_t>(kinds);
  return kinds;
}

// A consumer warpgroup: the online softmax over the tiles of its 64 queries, block after block.
template <class Tile, class T>
__device__ inline void consume(const Arguments& a, Shared<Tile>& shared, int group, int thread) {
  const int lane = thread % 32, thread_row = group * kWarpgroupRows + thread / 32 * kStripRows + lane / 4;
  char* const queries = shared.q + group * kWarpgroupRows * kPanelRowBytes;
  const Turn<Tile::consumers> turn(group);
  const auto take_turn = [&] {
    if constexpr (Tile::take_turns) turn.take();
  };
  const auto pass_turn = [&] {
    if constexpr (Tile::take_turns) turn.pass();
  };
  const auto release = [&](TransferBarrier& barrier) {
    if (lane == 0) barrier.arrive();
  };

  float s[Tile::key_rows / 2], o[Tile::width / 2];
  uint32_t p[Tile::key_rows / 4];
  RowFactors factors;
  OnlineSoftmax softmax(a.scale_log2e);
  RingPosition<Tile::stages> at;  // the tile whose scores come next or are being taken in
  uint32_t q_parity = 0;
  unsigned kinds = 0;
  int popped = 0;

  Work work = {};               // the block of queries at hand
  int tile = 0, last_tile = 0;  // its tiles go down from `tile` to `last_tile`

  const auto wait_for_queries = [&] {
    shared.q_full[group].wait(q_parity);
    q_parity ^= 1;
    if (a.negative_scale) negate_queries<Tile>(queries, group + 1, thread);
  };
  const auto issue_scores = [&] {
    products::open();
    start_scores<Tile, T>(s, queries, shared.k[at.stage()]);
    products::close();
  };
  const auto tile_needs_mask = [&] {
    const int row = work.block * Tile::query_rows, key = tile * Tile::key_rows;
    return needs_mask(VisibleKeys(a, work.keys), row, min(row + Tile::query_rows, a.queries), key,
                      key + Tile::key_rows);
  };
  // The softmax of finished scores, which makes them P.
  const auto take_scores = [&](auto masked) {
    pin(s);
    release(shared.k_free[at.stage()]);
    if (tile == last_tile) release(shared.q_free[group]);
    if constexpr (decltype(masked)::value)
      hide(s, tile * Tile::key_rows + lane % 4 * 2, VisibleKeys(a, work.keys),
           work.block * Tile::query_rows + thread_row);
    factors = softmax.take(s);
  };
  const auto issue_weighted_values = [&](const RingPosition<Tile::stages>& position) {
    if constexpr (Tile::rescale_early) scale_rows(o, factors);
    shared.v_full[position.stage()].wait(position.parity());
    products::open();
    start_weighted_values<Tile, T>(o, p, shared.v[position.stage()]);
    products::close();
  };
  // The scores of the next tile are issued before the weighted values of this one. Between a product and its wait lies
  // no branch but the waits for copies: at a branch the compiler would wait for every product under way.
  const auto next_tile = [&](auto masked) {
    const RingPosition<Tile::stages> this_tile = at;
    at.next();
    shared.k_full[at.stage()].wait(at.parity());
    take_turn();
    issue_scores();
    issue_weighted_values(this_tile);
    pass_turn();
    products::wait_for_all_but<1>();
    take_scores(masked);
    products::wait_for_all_but<0>();
    pin(o);
    release(shared.v_free[this_tile.stage()]);
    pin(s);
    round_to<T>(p, s);
    if constexpr (!Tile::rescale_early) scale_rows(o, factors);
  };
  constexpr std::true_type kMasked;
  constexpr std::false_type kUnmasked;

  while (shared.queue.pop(popped++, lane, work)) {
    const Block<Tile> block(a, work);
    tile = block.tiles.end - 1, last_tile = block.tiles.begin;
    softmax = OnlineSoftmax(a.scale_log2e);
#pragma unroll
    for (float& x : o) x = 0;

    if (!block.tiles.empty()) {
      wait_for_queries();
      shared.k_full[at.stage()].wait(at.parity());
      issue_scores();
      products::wait_for_all_but<0>();
      take_scores(kMasked);
      round_to<T>(p, s);

      --tile;
      for (; tile >= last_tile && tile_needs_mask(); --tile) next_tile(kMasked);
      for (; tile >= last_tile && !tile_needs_mask(); --tile) next_tile(kUnmasked);
      for (; tile >= last_tile; --tile) next_tile(kMasked);

      issue_weighted_values(at);
      products::wait_for_all_but<0>();
      pin(o);
      release(shared.v_free[at.stage()]);
      at.next();
    }
    softmax.finish();
    kinds |= finish_rows<Tile, T>(a, work, o, softmax, block.first_row() + thread_row, lane);
  }
  if (a.pass == Pass::main && lane == 0)
    a.warp_state[(blockIdx.x * Tile::consumers + group) * 4 + thread / 32] = static_cast<uint8_t>(kinds);
}

template <class Tile, class T>
__global__ void __launch_bounds__(Tile::threads, 1) attention(const __grid_constant__ Arguments a) {
  extern __shared__ char raw[];
  Shared<Tile>& shared = *reinterpret_cast<Shared<Tile>*>((reinterpret_cast<uintptr_t>(raw) + 1023) / 1024 * 1024);
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0), thread = threadIdx.x % 128;

  if (threadIdx.x == 0) {
    prefetch_map(&a.q_map), prefetch_map(&a.k_map), prefetch_map(&a.v_map);
    constexpr int kConsumerWarps = Tile::consumers * 4;
    for (int i = 0; i < Tile::consumers; ++i) shared.q_full[i].init(1), shared.q_free[i].init(4);
    for (int i = 0; i < Tile::stages; ++i) {
      shared.k_full[i].init(1), shared.k_free[i].init(kConsumerWarps);
      shared.v_full[i].init(1), shared.v_free[i].init(kConsumerWarps);
    }
    shared.queue.init(kConsumerWarps);
    publish_barriers();
  }
  if (a.pass == Pass::clean_values) {
    wait_for_previous_launch();
    if (!anything_left(a, kValuesNotFinite)) return;
  }
  __syncthreads();
  let_next_launch_prepare();

  if (warpgroup == 0) {
    shrink_registers_to<Tile::producer_registers>();
    if (thread == 0 || a.pass == Pass::clean_values) produce<Tile, T>(a, shared, thread);
  } else {
    grow_registers_to<Tile::consumer_registers>();
    consume<Tile, T>(a, shared, warpgroup - 1, thread);
  }
}

}  // namespace attest::hopper
