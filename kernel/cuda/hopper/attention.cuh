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
//
// The loop is compiled twice. The fast one does the main pass with the copy engine. The careful one has the same
// arithmetic, hence the same bits, and takes what the copy engine does not: other layouts, blocks to be done again on
// clean values, and the walk that records a trace (arguments.cuh).
// Sources: T. Dao et al., "FlashAttention" (2022), algorithm 1; J. Shah et al., "FlashAttention-3" (2024).
#pragma once

#include <type_traits>

#include "kernel/cuda/hopper/arguments.cuh"
#include "kernel/cuda/hopper/barrier.cuh"
#include "kernel/cuda/hopper/bulk_copy.cuh"
#include "kernel/cuda/hopper/careful_copy.cuh"
#include "kernel/cuda/hopper/exact_rows.cuh"
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
  static constexpr bool may_split = consumers == 1;  // for few queries: the keys are split into parts
  static constexpr int query_stages = may_split ? 2 : 1;  // where blocks are short, the next one's queries come early
  static constexpr int threads = 128 * (1 + consumers);
  // Registers a thread, moved from the producer to the consumers where a multiprocessor has not enough for all alike.
  // Together no more than the block starts with: the last warpgroup to ask would wait for ever.
  static constexpr bool move_registers = consumers > 1;
  static constexpr int start_registers = 65536 / threads / 8 * 8;
  static constexpr int producer_registers = consumers == 3 ? 32 : 40;
  static constexpr int consumer_registers = consumers == 3 ? 160 : 232;
  static_assert(!move_registers ||
                producer_registers + consumers * consumer_registers <= start_registers * (1 + consumers));
  static_assert(QueryRows % 64 == 0 && KeyRows % 16 == 0 && Width % 64 == 0 && consumers >= 1 && consumers <= 3);
  static_assert(!TakeTurns || consumers > 1);
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

// How far the producer has come.
template <class Tile>
struct Produced {
  RingPosition<Tile::stages> keys, values;
  RingPosition<Tile::query_stages> queries;
  int pushed = 0;
  int last_place = -1;  // the chain of Arguments::previous_place starts here
};

// How far a consumer has come.
template <class Tile>
struct Consumed {
  RingPosition<Tile::stages> at;  // the tile whose scores come next or are being taken in
  RingPosition<Tile::query_stages> queries_at;
  int popped = 0;
};

template <class Tile>
struct Shared {
  alignas(1024) char q[Tile::query_stages][Tile::query_rows * Tile::width * 2];
  alignas(1024) char k[Tile::stages][Tile::key_rows * Tile::width * 2];
  alignas(1024) char v[Tile::stages][Tile::key_rows * Tile::width * 2];
  // Each warpgroup's queries by themselves.
  TransferBarrier q_full[Tile::query_stages][Tile::consumers], q_free[Tile::query_stages][Tile::consumers];
  TransferBarrier k_full[Tile::stages], k_free[Tile::stages], v_full[Tile::stages], v_free[Tile::stages];
  WorkQueue queue;
  Produced<Tile> produced;  // after the main pass
  int rows_left;            // whether the main pass left rows undone
};

// Named barriers 1 to 3 belong to Turn, the next ones to one warpgroup each, the one after to all consumers.
constexpr int kTurnBarriers = 3, kConsumersBarrier = 1 + kTurnBarriers + 4;
__device__ inline void meet_warpgroup(int warpgroup) { meet(1 + kTurnBarriers + warpgroup, 128); }

template <class Tile>
struct Block {
  Work work;
  VisibleKeys visible;
  TileRange<Tile::key_rows> tiles;

  __device__ Block(const Arguments& a, const Work& w)
      : work(w), visible(a, w.keys), tiles(visible, first_row(), end_row(a)) {
    if constexpr (Tile::may_split) tiles.keep(w.split * a.split_tiles, a.split_tiles);
  }
  __device__ int first_row() const { return work.block * Tile::query_rows; }
  __device__ int end_row(const Arguments& a) const { return min(first_row() + Tile::query_rows, a.queries); }
};

// Keeps the ring full with the tiles of one block. K runs one tile ahead of V, as the consumers do. One thread does
// this with the copy engine, the whole warpgroup where it copies carefully.
template <class Tile, class T, bool kCareful>
__device__ inline void load(const Arguments& a, Shared<Tile>& shared, Produced<Tile>& at, const Block<Tile>& block,
                            int thread) {
  const Work& work = block.work;
  const int key_head = work.head / a.heads_per_key_head;
  const auto head_of = [&](const Operand& t, int head, int count, int columns) {
    return Rows{static_cast<const T*>(t.data) + work.batch * t.batch + head * t.head, t.row, count, columns};
  };
  const auto landed = [&](TransferBarrier& barrier) {
    meet_warpgroup(0);
    if (thread == 0) barrier.arrive();
  };
  const auto load_keys = [&](int tile) {
    const int stage = at.keys.stage();
    shared.k_free[stage].wait(at.keys.parity() ^ 1);
    if constexpr (kCareful) {
      copy_carefully<T, Tile::key_rows, Tile::width>(shared.k[stage], head_of(a.k, key_head, a.keys, a.width),
                                                     tile * Tile::key_rows, false, thread);
      landed(shared.k_full[stage]);
    } else {
      copy_tile<Tile::key_rows, Tile::width>(shared.k[stage], &a.k_map, shared.k_full[stage], tile * Tile::key_rows,
                                             key_head * a.k_head_step, work.batch * a.k_batch_step);
    }
    at.keys.next();
  };
  const auto load_values = [&](int tile) {
    const int stage = at.values.stage();
    shared.v_free[stage].wait(at.values.parity() ^ 1);
    if constexpr (kCareful) {
      copy_carefully<T, Tile::key_rows, Tile::width>(shared.v[stage], head_of(a.v, key_head, a.keys, a.value_width),
                                                     tile * Tile::key_rows, work.purpose != Purpose::main, thread);
      landed(shared.v_full[stage]);
    } else {
      copy_tile<Tile::key_rows, Tile::width>(shared.v[stage], &a.v_map, shared.v_full[stage], tile * Tile::key_rows,
                                             key_head * a.v_head_step, work.batch * a.v_batch_step);
    }
    at.values.next();
  };

  const auto& tiles = block.tiles;
  load_keys(tiles.end - 1);
#pragma unroll
  for (int group = 0; group < Tile::consumers; ++group) {
    const int stage = at.queries.stage(), first = block.first_row() + group * kWarpgroupRows;
    char* const queries = shared.q[stage] + group * kWarpgroupRows * kPanelRowBytes;
    shared.q_free[stage][group].wait(at.queries.parity() ^ 1);
    if constexpr (kCareful) {
      copy_carefully<T, kWarpgroupRows, Tile::width, Tile::query_rows>(
          queries, head_of(a.q, work.head, a.queries, a.width), first, false, thread);
      landed(shared.q_full[stage][group]);
    } else {
      copy_tile<kWarpgroupRows, Tile::width, Tile::query_rows>(queries, &a.q_map, shared.q_full[stage][group], first,
                                                               work.head * a.q_head_step, work.batch * a.q_batch_step);
    }
  }
  at.queries.next();
  for (int tile = tiles.end - 1; tile >= tiles.begin; --tile) {
    if (tile > tiles.begin) load_keys(tile - 1);
    load_values(tile);
  }
}

// The producer's main pass, or its walk for a trace: draws places until there are none.
template <class Tile, class T, bool kCareful>
__device__ inline void produce(const Arguments& a, Shared<Tile>& shared, Produced<Tile>& at, int thread) {
  const Purpose purpose = kCareful && a.tracing ? Purpose::trace : Purpose::main;
  for (int place = blockIdx.x; place < places(a);) {
    // The counter is for one thread alone; where all of them run, places go in turn.
    const int next = kCareful ? place + gridDim.x : next_place(a, place);
    if (thread == 0) a.previous_place[place] = at.last_place;
    at.last_place = place;
    const Block<Tile> block(a, work_at(a, place, purpose));
    if (thread == 0) shared.queue.push(at.pushed, true, block.work);
    ++at.pushed;
    if (!block.tiles.empty()) load<Tile, T, kCareful>(a, shared, at, block, thread);
    place = next;
  }
  if (thread == 0) shared.queue.push(at.pushed, false, {});
  ++at.pushed;
}

// Whether the careful pass may help a row of this state.
__device__ inline bool to_be_done_again(unsigned state) {
  return state & (kValuesNotFinite | kLargeScores) && !(state & kNeedsExact);
}

template <class Tile>
__device__ inline bool holds_rows_to_do_again(const Arguments& a, const Block<Tile>& block) {
  const Work& work = block.work;
  bool any = false;
  for (int row = block.first_row(); row < block.end_row(a); ++row)
    any |= to_be_done_again(a.row_state[state_index(a, work.batch, work.head, work.split, row)]);
  return any;
}

// The producer again, over the blocks of this thread block that hold rows to be done again.
template <class Tile, class T>
__device__ inline void produce_again(const Arguments& a, Shared<Tile>& shared, Produced<Tile> at, int thread) {
  for (int place = at.last_place; place >= 0; place = a.previous_place[place]) {
    const Block<Tile> block(a, work_at(a, place, Purpose::again));
    if (!holds_rows_to_do_again(a, block)) continue;
    if (thread == 0) shared.queue.push(at.pushed, true, block.work);
    ++at.pushed;
    if (!block.tiles.empty()) load<Tile, T, true>(a, shared, at, block, thread);
  }
  if (thread == 0) shared.queue.push(at.pushed, false, {});
}

// S = Q K^T for the 64 queries that start at `q` (panels of query_rows rows).
template <class Tile, class T>
__device__ inline void start_scores(float (&s)[Tile::key_rows / 2], const char* q, const char* k) {
  constexpr int kQueryPanel = Tile::query_rows * kPanelRowBytes, kKeyPanel = Tile::key_rows * kPanelRowBytes;
  const SharedOperand queries = shared_operand(q, 0), keys = shared_operand(k, 0);
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
  const SharedOperand values = shared_operand(v, Tile::key_rows * kPanelRowBytes);
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

// The end of a row that was not split: O / l rounded to the output type.
template <class Tile, class T, bool kCareful>
__device__ inline void write_row(const Arguments& a, const Work& work, const float (&o)[Tile::width / 2],
                                 float reciprocal, int r, int row, bool write, int lane) {
  T* out = static_cast<T*>(a.o.data) + work.batch * a.o.batch + work.head * a.o.head + row * a.o.row;
#pragma unroll
  for (int columns = 0; columns < Tile::width; columns += 32) {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = columns / 2 + 4 * i + 2 * r;
      words[i] = pack_finite<T>(o[at] * reciprocal, o[at + 1] * reciprocal);
    }
    transpose_over_quad(words, lane);
    const int column = columns + lane % 4 * 8;
    if constexpr (kCareful) {
      auto* const elements = reinterpret_cast<uint16_t*>(out + column);
#pragma unroll
      for (int e = 0; e < 8; ++e)
        if (write && column + e < a.value_width) elements[e] = static_cast<uint16_t>(words[e / 2] >> e % 2 * 16);
    } else {
      if (write && column < a.value_width)
        *reinterpret_cast<uint4*>(out + column) = {words[0], words[1], words[2], words[3]};
    }
  }
}

// The end of one split of a row: its state goes to the workspace as it is.
template <class Tile, class Softmax>
__device__ inline void write_partial(const Arguments& a, int64_t index, const float (&o)[Tile::width / 2],
                                     const Softmax& softmax, int r, bool write, int lane) {
  if (!write) return;
  float* const out = a.partial_o + index * a.value_columns;
#pragma unroll
  for (int i = 0; i < Tile::width / 2; i += 2) {
    const int column = column_of(i) + lane % 4 * 2;
    if (row_of(i) == r && column < a.value_columns) *reinterpret_cast<float2*>(out + column) = {o[i], o[i + 1]};
  }
  if (lane % 4 == 0) a.partial[index] = {softmax.maximum(r), softmax.sum(r)};
}

// Writes the results and the state of this thread's rows: `row` of the head, and the one kRowDistance below it. Returns
// whether a row of the warp is left undone.
template <class Tile, class T, bool kCareful>
__device__ inline bool finish_rows(const Arguments& a, const Work& work, const float (&o)[Tile::width / 2],
                                   const OnlineSoftmax<kCareful>& softmax, int row, int lane) {
  const bool again = kCareful && work.purpose == Purpose::again;
  const bool split = Tile::may_split && a.splits > 1;
  bool undone = false;
#pragma unroll
  for (int r = 0; r < kRowsPerThread; ++r) {
    const int this_row = row + kRowDistance * r;
    const bool exists = this_row < a.queries;
    const int64_t index = state_index(a, work.batch, work.head, Tile::may_split ? work.split : 0, this_row);

    float zero[2] = {0, 0};  // and stays so while every element is finite
#pragma unroll
    for (int i = 0; i < Tile::width / 2; ++i)
      if (row_of(i) == r) zero[i & 1] = __fmaf_rn(o[i], 0.0f, zero[i & 1]);
    const unsigned quad = __ballot_sync(~0u, zero[0] + zero[1] == 0) >> (lane & ~3) & 0xF;
    const bool finite = quad == 0xF, sum_finite = softmax.sum(r) < INFINITY;  // false for NaN, too
    bool write = exists, write_lse = exists;
    if (again) {
      const unsigned before = exists ? a.row_state[index] : kDone;
      __syncwarp();
      write = to_be_done_again(before), write_lse = write && before & kLargeScores;
      if (write && !(finite && sum_finite) && lane % 4 == 0) a.row_state[index] = kNeedsExact;
    } else {
      const bool large = softmax.is_large(r, kLargestReference<T>);
      const unsigned now = (large ? kLargeScores : sum_finite ? kDone : kNeedsExact) | (finite ? kDone : kValuesNotFinite);
      if (exists && lane % 4 == 0) a.row_state[index] = static_cast<uint8_t>(now);
      undone |= __any_sync(~0u, exists && now != kDone);
    }
    if (write_lse && lane % 4 == 0 && a.lse && !split)
      a.lse[work.batch * a.lse_batch + work.head * a.lse_head + this_row * a.lse_row] =
          log_sum_exp(softmax.maximum(r), softmax.sum(r), a.scale, softmax.reference_error(r));

    if (split)
      write_partial<Tile>(a, index, o, softmax, r, write, lane);
    else
      write_row<Tile, T, kCareful>(a, work, o, reciprocal_sum(softmax.sum(r)), r, this_row, write, lane);
  }
  return undone;
}

// Records one tile's visit by this thread's rows, those that see a key of it and that tensor cores could do.
template <class Tile>
__device__ inline void record_visit(const Arguments& a, const Block<Tile>& block, int tile,
                                    const OnlineSoftmax<true>& softmax, const RowFactors& factors, int row,
                                    int64_t (&visits)[kRowsPerThread], int lane) {
  const Work& work = block.work;
#pragma unroll
  for (int r = 0; r < kRowsPerThread; ++r) {
    const int this_row = row + kRowDistance * r, begin = tile * Tile::key_rows, end = begin + Tile::key_rows;
    const float l = quad_sum(softmax.sum(r)), m = softmax.maximum(r);
    if (lane % 4 != 0 || this_row >= a.queries || m == -INFINITY || block.visible.first(this_row) >= end ||
        block.visible.end(this_row) <= begin || block.visible.end(this_row) <= block.visible.first(this_row))
      continue;
    bool exact = false;
    for (int split = 0; split < a.splits; ++split)
      exact |= a.row_state[state_index(a, work.batch, work.head, split, this_row)] & kNeedsExact;
    if (exact) continue;
    attest_trace_record visit = {};
    visit.b = work.batch, visit.h = work.head, visit.row = this_row, visit.split = work.split;
    visit.sequence = visits[r]++;
    visit.key_begin = begin, visit.key_end = min(end, a.keys);
    visit.m = a.scale * m;
    visit.l = l * exp2f(-softmax.reference_error(r));
    visit.scale = factors.of_row[r];
    record(a, visit);
  }
}

// A consumer warpgroup: the online softmax over the tiles of its 64 queries, block after block until the queue ends.
// Returns whether a row of the warp is left undone.
template <class Tile, class T, bool kCareful>
__device__ inline bool consume(const Arguments& a, Shared<Tile>& shared, Consumed<Tile>& progress, int group,
                               int thread) {
  constexpr bool kTakeTurns = Tile::take_turns && !kCareful;
  const int lane = thread % 32, thread_row = group * kWarpgroupRows + thread / 32 * kWarpRows + lane / 4;
  const auto queries = [&](int stage) { return shared.q[stage] + group * kWarpgroupRows * kPanelRowBytes; };
  const Turn<Tile::consumers, kTakeTurns> turn(group);
  const auto release = [&](TransferBarrier& barrier) {
    if (lane == 0) barrier.arrive();
  };

  float s[Tile::key_rows / 2], o[Tile::width / 2];
  uint32_t p[Tile::key_rows / 4];
  RowFactors factors;
  OnlineSoftmax<kCareful> softmax(a.scale_log2e);
  RingPosition<Tile::stages> at = progress.at;
  RingPosition<Tile::query_stages> queries_at = progress.queries_at;
  int popped = progress.popped;
  bool undone = false;
  [[maybe_unused]] int64_t visits[kRowsPerThread];

  Work work = {};               // the block of queries at hand
  int tile = 0, last_tile = 0;  // its tiles go down from `tile` to `last_tile`

  const auto wait_for_queries = [&] {
    shared.q_full[queries_at.stage()][group].wait(queries_at.parity());
    if (a.negative_scale) negate_queries<Tile>(queries(queries_at.stage()), group + 1, thread);
  };
  const auto issue_scores = [&] {
    products::open();
    start_scores<Tile, T>(s, queries(queries_at.stage()), shared.k[at.stage()]);
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
    if (tile == last_tile) release(shared.q_free[queries_at.stage()][group]);
    if constexpr (decltype(masked)::value)
      hide(s, tile * Tile::key_rows + lane % 4 * 2, VisibleKeys(a, work.keys),
           work.block * Tile::query_rows + thread_row);
    factors = softmax.take(s);
    if constexpr (kCareful)
      if (work.purpose == Purpose::trace)
        record_visit(a, Block<Tile>(a, work), tile, softmax, factors, work.block * Tile::query_rows + thread_row,
                     visits, lane);
  };
  const auto issue_weighted_values = [&](const RingPosition<Tile::stages>& position) {
    if constexpr (Tile::rescale_early) scale_rows(o, factors);
    shared.v_full[position.stage()].wait(position.parity());
    products::open();
    start_weighted_values<Tile, T>(o, p, shared.v[position.stage()]);
    products::close();
  };
  const auto finish_weighted_values = [&] {
    issue_weighted_values(at);
    products::wait_for_all_but<0>();
    pin(o);
    release(shared.v_free[at.stage()]);
    at.next();
  };
  const auto first_scores = [&](auto masked) {
    shared.k_full[at.stage()].wait(at.parity());
    issue_scores();
    products::wait_for_all_but<0>();
    take_scores(masked);
    round_to<T>(p, s);
  };
  const auto next_tile_after_this = [&](auto masked) {
    finish_weighted_values();
    first_scores(masked);
    if constexpr (!Tile::rescale_early) scale_rows(o, factors);
  };
  // The scores of the next tile are issued before the weighted values of this one. Between a product and its wait lies
  // no branch but the waits for copies: at a branch the compiler would wait for every product under way.
  // The careful loop, where registers are short and time is not, does one after the other.
  const auto next_tile = [&](auto masked) {
    if constexpr (kCareful) return next_tile_after_this(masked);
    const RingPosition<Tile::stages> this_tile = at;
    at.next();
    shared.k_full[at.stage()].wait(at.parity());
    turn.take();
    issue_scores();
    issue_weighted_values(this_tile);
    turn.pass();
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
    softmax = OnlineSoftmax<kCareful>(a.scale_log2e);
#pragma unroll
    for (float& x : o) x = 0;
    if constexpr (kCareful) {
#pragma unroll
      for (int r = 0; r < kRowsPerThread; ++r) {
        const int row = block.first_row() + thread_row + kRowDistance * r;
        softmax.subtract_first(r, work.purpose != Purpose::main && row < a.queries &&
                                      a.row_state[state_index(a, work.batch, work.head, work.split, row)] & kLargeScores);
        visits[r] = 0;
      }
    }

    if (!block.tiles.empty()) {
      wait_for_queries();
      first_scores(kMasked);

      --tile;
      for (; tile >= last_tile && tile_needs_mask(); --tile) next_tile(kMasked);
      for (; tile >= last_tile && !tile_needs_mask(); --tile) next_tile(kUnmasked);
      for (; tile >= last_tile; --tile) next_tile(kMasked);

      finish_weighted_values();
      queries_at.next();
    }
    softmax.finish();
    if (!kCareful || work.purpose != Purpose::trace)
      undone |= finish_rows<Tile, T, kCareful>(a, work, o, softmax, block.first_row() + thread_row, lane);
  }
  progress = {at, queries_at, popped};
  return undone;
}

// The consumers of a block together, as ExactRow wants them.
template <class Tile>
struct ConsumerTeam {
  static constexpr int size = Tile::consumers * 128;
  int thread;
  __device__ void meet() const { hopper::meet(kConsumersBarrier, size); }
};

// The rows of this thread block that are still undone. Where keys are split, merge_splits.cuh does this.
template <class Tile, class T>
__device__ inline void finish_exactly(const Arguments& a, Shared<Tile>& shared, int last_place, int thread) {
  const ConsumerTeam<Tile> team{thread};
  team.meet();
  double* const scratch = reinterpret_cast<double*>(shared.k[0]);
  for (int place = last_place; place >= 0; place = a.previous_place[place]) {
    const Block<Tile> block(a, work_at(a, place));
    for (int row = block.first_row(); row < block.end_row(a); ++row) {
      const unsigned state = a.row_state[state_index(a, block.work.batch, block.work.head, 0, row)];
      if (state & (kNeedsExact | kValuesNotFinite))
        ExactRow<T, ConsumerTeam<Tile>>(a, team, scratch, block.work.batch, block.work.head, row)
            .compute(state & kNeedsExact ? kNeedsExact : kValuesNotFinite);
    }
  }
}

template <class Tile, class T>
__global__ void __launch_bounds__(Tile::threads, 1) attention(const __grid_constant__ Arguments a) {
  extern __shared__ char raw[];
  Shared<Tile>& shared = *reinterpret_cast<Shared<Tile>*>((reinterpret_cast<uintptr_t>(raw) + 1023) / 1024 * 1024);
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0), thread = threadIdx.x % 128;

  if (threadIdx.x == 0) {
    prefetch_map(&a.q_map), prefetch_map(&a.k_map), prefetch_map(&a.v_map);
    constexpr int kConsumerWarps = Tile::consumers * 4;
    for (int stage = 0; stage < Tile::query_stages; ++stage)
      for (int i = 0; i < Tile::consumers; ++i) shared.q_full[stage][i].init(1), shared.q_free[stage][i].init(4);
    for (int i = 0; i < Tile::stages; ++i) {
      shared.k_full[i].init(1), shared.k_free[i].init(kConsumerWarps);
      shared.v_full[i].init(1), shared.v_free[i].init(kConsumerWarps);
    }
    shared.queue.init(kConsumerWarps);
    shared.rows_left = 0;
    publish_barriers();
  }
  if (a.tracing) wait_for_previous_launch();
  __syncthreads();
  let_next_launch_prepare();

  const bool fast = a.copy_engine && !a.tracing;
  if (warpgroup == 0) {
    if constexpr (Tile::move_registers) shrink_registers_to<Tile::producer_registers>();
    Produced<Tile> at;
    if (a.next_place) wait_for_previous_launch();  // which set the counter
    if (!fast)
      produce<Tile, T, true>(a, shared, at, thread);
    else if (thread == 0)
      produce<Tile, T, false>(a, shared, at, thread);
    if (thread == 0) shared.produced = at;
    __syncwarp();
    meet(0, Tile::threads);
    if (shared.rows_left) produce_again<Tile, T>(a, shared, shared.produced, thread);
  } else {
    if constexpr (Tile::move_registers) grow_registers_to<Tile::consumer_registers>();
    const int group = warpgroup - 1;
    Consumed<Tile> at;
    bool undone = fast && consume<Tile, T, false>(a, shared, at, group, thread);
    // The careful loop: the main pass where the fast one cannot, then what either left undone.
    bool main = !fast;
#pragma unroll 1
    do {
      if (!main) {
        if (undone && thread % 32 == 0) atomicExch(&shared.rows_left, 1);
        meet(0, Tile::threads);
        if (!shared.rows_left) return;
      }
      undone = consume<Tile, T, true>(a, shared, at, group, thread);
      main = !main;
    } while (!main);
    if (!(Tile::may_split && a.splits > 1))
      finish_exactly<Tile, T>(a, shared, shared.produced.last_place, threadIdx.x - 128);
  }
}

}  // namespace attest::hopper
