// input.h: the byte string of a fuzzer as a Problem, and back.
//
// A string that begins with the four bytes A7 61 74 31 is an image: a header, layouts where they are not packed, and the
// operands' storage. Any other string is read as Choices by the generator. Guarantees: every string decodes, at once,
// to a valid problem within kLimits: fields out of range are clamped, contents past the end are 0, a layout that is not
// valid becomes packed; writing a problem within kLimits and reading it again gives the same problem, bit for bit,
// where its last dimensions have stride 1. An image keeps no origin. Memory is kept between calls, so that reading
// images of similar sizes allocates nothing.
// Example:
//     ProblemReader reader(target);
//     Problem& p = reader.read({data, size});
//     std::vector<uint8_t> image = write_image(p);
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "properties/generate/target.h"
#include "reference/problem.h"

namespace attest::fuzz {

// Small enough that one execution takes well below a millisecond without sanitizers.
struct Limits {
  int64_t batches = 8, heads = 16, rows = 64, keys = 512, width = 256;
  int32_t splits = 16;
  int64_t work = 1 << 19;      // B * Hq * Nq * Nk * (D + Dv)
  int64_t elements = 1 << 17;  // of storage of any operand, and reached by an output's layout
};
inline constexpr Limits kLimits{};

bool within_limits(const Shape& shape);

class ProblemReader {
 public:
  explicit ProblemReader(Target target) : target_(std::move(target)) {}
  // The problem belongs to the reader; the next call overwrites it. The caller may change it in the meantime.
  Problem& read(std::span<const uint8_t> bytes);
  const Target& target() const { return target_; }

 private:
  void read_image(std::span<const uint8_t> bytes);

  Target target_;
  Problem problem_;
  // Operands that the problem does not have now, kept for their memory.
  std::optional<std::vector<int32_t>> spare_lengths_;
  std::optional<BoolMask> spare_mask_;
  std::optional<Tensor> spare_bias_;
  std::optional<std::vector<float>> spare_sink_;
};

// The image of a problem into `bytes`, whose memory is reused.
void write_image(const Problem& problem, std::vector<uint8_t>& bytes);

}  // namespace attest::fuzz
