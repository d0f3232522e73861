// matrix_multiply.cuh: the asynchronous matrix products of a warpgroup (128 threads).
//
// D[64 x N] (+)= A[64 x 16] B[16 x N], f16 or bf16 in, f32 accumulated. PTX ISA: "wgmma.mma_async".
// Thread t of a warpgroup holds of D, for i < N/2: row 16*(t/32) + (t%32)/4 + 8*((i/2)%2),
// column 8*(i/4) + 2*(t%4) + i%2; and the four A registers of 16 columns hold the same elements of a D of 16 columns,
// two to a register. So a finished tile of scores becomes the A of the next product without moving between threads.
//
// Between issue and wait the registers of D and A belong to the matrix unit. Order of use: open(), products...,
// close(), and wait_for_all_but<n>() before D is read or A overwritten.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernel/cuda/hopper/bulk_copy.cuh"

namespace attest::hopper {

// Operand in shared memory, in panels as bulk_copy.cuh lays them out: start, distance between panels (used where N
// spans panels), distance between groups of 8 rows, 128-byte swizzle. PTX ISA: "Matrix descriptor format".
// Only the low half differs between operands, and no address carries out of its field.
struct SharedOperand {
  uint32_t low;
  __device__ uint64_t descriptor() const {
    constexpr uint64_t kEightRows = 8 * kPanelRowBytes, kSwizzle128 = uint64_t{1} << 62;
    return low | (kEightRows >> 4) << 32 | kSwizzle128;
  }
};
__device__ inline SharedOperand shared_operand(const void* start, uint32_t panel_bytes) {
  return {(shared_address(start) & 0x3FFFF) >> 4 | panel_bytes >> 4 << 16};
}
// The operand `bytes` further on.
__device__ inline uint64_t advance(SharedOperand operand, uint32_t bytes) {
  return SharedOperand{operand.low + (bytes >> 4)}.descriptor();
}

namespace products {
__device__ inline void open() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void close() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Groups>
__device__ inline void wait_for_all_but() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Groups) : "memory");
}
}  // namespace products

// Keeps the compiler from moving uses of these registers across this point.
template <int Count>
__device__ inline void pin(float (&registers)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}

// scores(): A in shared memory, rows of A and of B (keys) contiguous along the summed dimension.
// weighted_values(): A in registers, B (keys x columns) contiguous along the columns.
template <class T, int N>
struct MatrixMultiply;

#define ATTEST_OUT8(i)                                                                                        \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define ATTEST_D64                                                                                       \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
  "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31 "
#define ATTEST_OUT64 ATTEST_OUT8(0), ATTEST_OUT8(8), ATTEST_OUT8(16), ATTEST_OUT8(24)
#define ATTEST_D80                                                                                       \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
  "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39 "
#define ATTEST_OUT80 ATTEST_OUT8(0), ATTEST_OUT8(8), ATTEST_OUT8(16), ATTEST_OUT8(24), ATTEST_OUT8(32)
#define ATTEST_D128                                                                                      \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
  "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, " \
  "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, " \
  "%62, %63 "
#define ATTEST_OUT128                                                                                                  \
  ATTEST_OUT8(0), ATTEST_OUT8(8), ATTEST_OUT8(16), ATTEST_OUT8(24), ATTEST_OUT8(32), ATTEST_OUT8(40), ATTEST_OUT8(48), \
      ATTEST_OUT8(56)
#define ATTEST_D160                                                                                      \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
  "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, " \
  "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, " \
  "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79 "
#define ATTEST_OUT160                                                                                                  \
  ATTEST_OUT8(0), ATTEST_OUT8(8), ATTEST_OUT8(16), ATTEST_OUT8(24), ATTEST_OUT8(32), ATTEST_OUT8(40), ATTEST_OUT8(48), \
      ATTEST_OUT8(56), ATTEST_OUT8(64), ATTEST_OUT8(72)
#define ATTEST_D176                                                                                      \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
  "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, " \
  "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, " \
  "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, " \
  "%82, %83, %84, %85, %86, %87 "
#define ATTEST_OUT176                                                                                                  \
  ATTEST_OUT8(0), ATTEST_OUT8(8), ATTEST_OUT8(16), ATTEST_OUT8(24), ATTEST_OUT8(32), ATTEST_OUT8(40), ATTEST_OUT8(48), \
      ATTEST_OUT8(56), ATTEST_OUT8(64), ATTEST_OUT8(72), ATTEST_OUT8(80)
#define ATTEST_D192                                                                                      \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
  "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, " \
  "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, " \
  "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, " \
  "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95 "
#define ATTEST_OUT192                                                                                                  \
  ATTEST_OUT8(0), ATTEST_OUT8(8), ATTEST_OUT8(16), ATTEST_OUT8(24), ATTEST_OUT8(32), ATTEST_OUT8(40), ATTEST_OUT8(48), \
      ATTEST_OUT8(56), ATTEST_OUT8(64), ATTEST_OUT8(72), ATTEST_OUT8(80), ATTEST_OUT8(88)
#define ATTEST_D256                                                                                      \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
  "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, " \
  "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, " \
  "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, " \
  "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, "     \
  "%101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, "     \
  "%117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127 "
#define ATTEST_OUT256                                                                                                  \
  ATTEST_OUT8(0), ATTEST_OUT8(8), ATTEST_OUT8(16), ATTEST_OUT8(24), ATTEST_OUT8(32), ATTEST_OUT8(40), ATTEST_OUT8(48), \
      ATTEST_OUT8(56), ATTEST_OUT8(64), ATTEST_OUT8(72), ATTEST_OUT8(80), ATTEST_OUT8(88), ATTEST_OUT8(96),            \
      ATTEST_OUT8(104), ATTEST_OUT8(112), ATTEST_OUT8(120)

// a, b, c, e, f, g: the numbers of the operands after the accumulators.
#define ATTEST_MATRIX_MULTIPLY(T, NAME, N, a, b, c, e, f, g)                                                        \
  template <>                                                                                                       \
  struct MatrixMultiply<T, N> {                                                                                     \
    __device__ static void scores(float (&d)[N / 2], uint64_t rows, uint64_t keys, int accumulate) {                \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #c                                                          \
                   ", 0;\n"                                                                                         \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." NAME "." NAME " {" ATTEST_D##N                 \
                   "}, %" #a ", %" #b ", p, 1, 1, 0, 0;\n}\n"                                                       \
                   : ATTEST_OUT##N                                                                                  \
                   : "l"(rows), "l"(keys), "r"(accumulate));                                                        \
    }                                                                                                               \
    __device__ static void weighted_values(float (&d)[N / 2], const uint32_t* p, uint64_t values, int accumulate) { \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #g                                                          \
                   ", 0;\n"                                                                                         \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." NAME "." NAME " {" ATTEST_D##N                 \
                   "}, {%" #a ", %" #b ", %" #c ", %" #e "}, %" #f ", p, 1, 1, 1;\n}\n"                             \
                   : ATTEST_OUT##N                                                                                  \
                   : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(values), "r"(accumulate));                     \
    }                                                                                                               \
  };
ATTEST_MATRIX_MULTIPLY(__half, "f16", 64, 32, 33, 34, 35, 36, 37)
ATTEST_MATRIX_MULTIPLY(__nv_bfloat16, "bf16", 64, 32, 33, 34, 35, 36, 37)
ATTEST_MATRIX_MULTIPLY(__half, "f16", 80, 40, 41, 42, 43, 44, 45)
ATTEST_MATRIX_MULTIPLY(__nv_bfloat16, "bf16", 80, 40, 41, 42, 43, 44, 45)
ATTEST_MATRIX_MULTIPLY(__half, "f16", 128, 64, 65, 66, 67, 68, 69)
ATTEST_MATRIX_MULTIPLY(__nv_bfloat16, "bf16", 128, 64, 65, 66, 67, 68, 69)
ATTEST_MATRIX_MULTIPLY(__half, "f16", 160, 80, 81, 82, 83, 84, 85)
ATTEST_MATRIX_MULTIPLY(__nv_bfloat16, "bf16", 160, 80, 81, 82, 83, 84, 85)
ATTEST_MATRIX_MULTIPLY(__half, "f16", 176, 88, 89, 90, 91, 92, 93)
ATTEST_MATRIX_MULTIPLY(__nv_bfloat16, "bf16", 176, 88, 89, 90, 91, 92, 93)
ATTEST_MATRIX_MULTIPLY(__half, "f16", 192, 96, 97, 98, 99, 100, 101)
ATTEST_MATRIX_MULTIPLY(__nv_bfloat16, "bf16", 192, 96, 97, 98, 99, 100, 101)
ATTEST_MATRIX_MULTIPLY(__half, "f16", 256, 128, 129, 130, 131, 132, 133)
ATTEST_MATRIX_MULTIPLY(__nv_bfloat16, "bf16", 256, 128, 129, 130, 131, 132, 133)
#undef ATTEST_MATRIX_MULTIPLY
#undef ATTEST_OUT8
#undef ATTEST_D64
#undef ATTEST_OUT64
#undef ATTEST_D80
#undef ATTEST_OUT80
#undef ATTEST_D128
#undef ATTEST_OUT128
#undef ATTEST_D160
#undef ATTEST_OUT160
#undef ATTEST_D176
#undef ATTEST_OUT176
#undef ATTEST_D192
#undef ATTEST_OUT192
#undef ATTEST_D256
#undef ATTEST_OUT256

}  // namespace attest::hopper
