// address.cpp: faults of where the tensors' elements lie.
#include "properties/mutants/fault.h"

#include <algorithm>

namespace attest::mutants {

namespace {

// Elements that a tensor reaches from its start.
int64_t reach(const Descriptor& t) {
  int64_t last = 0;
  for (int n = 0; n < t.ndim; ++n) {
    if (t.own_shape[n] == 0) return 0;
    last += (t.own_shape[n] - 1) * t.own_strides[n];
  }
  return last;
}

// Strides that `t` may be read with and stay within what it reaches.
bool within(const Descriptor& t, const int64_t* strides) {
  int64_t last = 0;
  for (int n = 0; n < t.ndim; ++n) last += std::max<int64_t>(0, t.own_shape[n] - 1) * strides[n];
  return last <= reach(t);
}
void use_strides(Descriptor& t, const int64_t* strides) {
  if (within(t, strides)) std::copy_n(strides, t.ndim, t.own_strides);
}
// As if packed, where that stays within the tensor.
void assume_packed(Descriptor& t) {
  const std::vector<int64_t> packed = {t.own_shape[1] * t.own_shape[2] * t.own_shape[3], t.own_shape[2] * t.own_shape[3], t.own_shape[3], 1};
  use_strides(t, packed.data());
}

// Each query head with the key head that F names.
template <class F>
struct KeyHead : Fault {
  static void forward(const attest_args& args) {
    const int64_t heads = args.q->shape[1], key_heads = args.k->shape[1];
    for_each_head(args, [&](FaultyCall& call, int64_t, int64_t h) {
      const int64_t right = h / (heads / key_heads), wrong = std::clamp<int64_t>(F::of(h, heads, key_heads), 0, key_heads - 1);
      for (Descriptor* t : F::tensors(call)) t->byte_offset += static_cast<uint64_t>((wrong - right) * t->own_strides[1] * (t->dtype.bits / 8));
      correct(call.args);
    });
  }
  static std::vector<Descriptor*> tensors(FaultyCall& call) { return {&call.k, &call.v}; }
};
struct HeadModulo : KeyHead<HeadModulo> {
  static int64_t of(int64_t h, int64_t, int64_t key_heads) { return h % key_heads; }
};
struct HeadByKeyHeads : KeyHead<HeadByKeyHeads> {
  static int64_t of(int64_t h, int64_t, int64_t key_heads) { return h / key_heads; }
};
struct FirstHead : KeyHead<FirstHead> {
  static int64_t of(int64_t, int64_t, int64_t) { return 0; }
};
struct QueryHeadIndex : KeyHead<QueryHeadIndex> {
  static int64_t of(int64_t h, int64_t, int64_t) { return h; }
};
struct ValueHeadModulo : KeyHead<ValueHeadModulo> {
  static int64_t of(int64_t h, int64_t, int64_t key_heads) { return h % key_heads; }
  static std::vector<Descriptor*> tensors(FaultyCall& call) { return {&call.v}; }
};

struct FirstBatch : Fault {
  static void change(FaultyCall& call) { call.k.own_strides[0] = call.v.own_strides[0] = 0; }
};
struct ValueOfFirstBatch : Fault {
  static void change(FaultyCall& call) { call.v.own_strides[0] = 0; }
};
struct ValueStridesForKeys : Fault {
  static void change(FaultyCall& call) { use_strides(call.k, call.v.own_strides); }
};
struct KeyStridesForValues : Fault {
  static void change(FaultyCall& call) { use_strides(call.v, call.k.own_strides); }
};
struct QueryAssumedPacked : Fault {
  static void change(FaultyCall& call) { assume_packed(call.q); }
};
struct KeysAssumedPacked : Fault {
  static void change(FaultyCall& call) {
    assume_packed(call.k);
    assume_packed(call.v);
  }
};
struct OutputAssumedPacked : Fault {
  static void change(FaultyCall& call) { assume_packed(call.o); }
};
struct LseAssumedPacked : Fault {
  static void change(FaultyCall& call) {
    if (call.args.lse == nullptr) return;
    const std::vector<int64_t> packed = {call.heads() * call.rows(), call.rows(), 1};
    use_strides(call.lse, packed.data());
  }
};
struct HeadAndRowStridesExchanged : Fault {
  static void change(FaultyCall& call) {
    for (Descriptor* t : {&call.k, &call.v}) {
      const std::vector<int64_t> exchanged = {t->own_strides[0], t->own_strides[2], t->own_strides[1], 1};
      use_strides(*t, exchanged.data());
    }
  }
};
struct ByteOffsetIgnored : Fault {
  static void change(FaultyCall& call) { call.q.byte_offset = call.k.byte_offset = call.v.byte_offset = 0; }
};
// A vector load cuts an address to a multiple of 16 bytes.
struct AddressCutTo16 : Fault {
  static void change(FaultyCall& call) {
    const View from = view_of(call.k), to = call.copy(call.k);
    const int64_t bytes = call.k.dtype.bits / 8;
    FaultyCall::for_each(to, [&](int64_t a, int64_t b, int64_t c, int64_t d) {
      const auto row = reinterpret_cast<uintptr_t>(from.data + bytes * from.at(a, b, c, 0));
      std::memcpy(to.data + bytes * to.at(a, b, c, d), reinterpret_cast<const uint8_t*>(row & ~uintptr_t{15}) + bytes * d, static_cast<size_t>(bytes));
    });
  }
};
// The host analogue of an offset in 32 bits: elements past 2^15 of a head wrap to its start.
struct OffsetsWrap : Fault {
  static void change(FaultyCall& call) {
    for (Descriptor* t : {&call.k, &call.v}) {
      const View from = view_of(*t), to = call.copy(*t);
      FaultyCall::for_each(to, [&](int64_t a, int64_t b, int64_t c, int64_t d) {
        const int64_t row = from.at(0, 0, c, 0) % 32768;
        const int64_t kept = from.stride[2] > 0 ? row / from.stride[2] : c;
        FaultyCall::copy_element(from, from.at(a, b, std::min(kept, c), d), to, to.at(a, b, c, d));
      });
    }
  }
};
// Rows of a block of 64 past the first take the block's first rows of K where a block is not full.
struct KeyRowsRepeated : Fault {
  static void change(FaultyCall& call) {
    const View from = view_of(call.k), to = call.copy(call.k);
    const int64_t full = call.keys() / 64 * 64;
    FaultyCall::for_each(to, [&](int64_t a, int64_t b, int64_t c, int64_t d) {
      FaultyCall::copy_element(from, from.at(a, b, c >= full && full > 0 ? c - 64 : c, d), to, to.at(a, b, c, d));
    });
  }
};

}  // namespace

Family address() {
  return {"address",
          {mutant<HeadModulo>("key_head_modulo", "Query head h reads key head h mod Hk.", "J10 D14"),
           mutant<HeadByKeyHeads>("key_head_divided_by_key_heads", "Query head h reads key head h / Hk.", "J10"),
           mutant<FirstHead>("key_head_always_first", "Every query head reads key head 0.", "J10"),
           mutant<QueryHeadIndex>("key_head_is_query_head", "Query head h reads key head h, as far as there are.", "J10"),
           mutant<ValueHeadModulo>("value_head_modulo", "V is read at head h mod Hk, K at the right one.", "J10"),
           mutant<FirstBatch>("keys_of_first_batch", "Every batch reads K and V of the first."),
           mutant<ValueOfFirstBatch>("values_of_first_batch", "Every batch reads V of the first."),
           mutant<ValueStridesForKeys>("value_strides_for_keys", "K is read with V's strides.", "J09"),
           mutant<KeyStridesForValues>("key_strides_for_values", "V is read with K's strides.", "J09"),
           mutant<QueryAssumedPacked>("query_assumed_packed", "Q is read as if packed.", "J08 J15"),
           mutant<KeysAssumedPacked>("keys_assumed_packed", "K and V are read as if packed.", "J08 J15"),
           mutant<OutputAssumedPacked>("output_assumed_packed", "O is written as if packed.", "E09"),
           mutant<LseAssumedPacked>("lse_assumed_packed", "LSE is written as if packed.", "D12"),
           mutant<HeadAndRowStridesExchanged>("head_and_row_strides_exchanged", "K and V are read with the strides of heads and rows exchanged.", "J15"),
           mutant<ByteOffsetIgnored>("byte_offset_ignored", "byte_offset is ignored."),
           mutant<AddressCutTo16>("address_cut_to_16_bytes", "Rows of K are read from an address cut to a multiple of 16 bytes."),
           mutant<OffsetsWrap>("offsets_wrap_at_2_15", "Rows of K and V past 2^15 elements wrap to the start.", "J01 J03 J04 J05 J07"),
           mutant<KeyRowsRepeated>("partial_block_repeats_keys", "A block of keys that is not full reads K of the block before.", "J17")}};
}

}  // namespace attest::mutants
