// limits.h: how large a problem a case file may declare.
//
// A layout with stride 0 names any number of elements at the cost of one, and O is as large as its layout says, so
// sizes alone could make a short file ask for terabytes. A case may reach no further than its file accounts for.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "reference/problem.h"

namespace attest {

inline constexpr int64_t kElementsAlways = int64_t{1} << 26;  // any case may have this many in any one operand
inline constexpr int64_t kElementsPerByte = 64;               // and a .safetensors this many for each byte of its file

// What is wrong if some operand, O or LSE has or reaches more than `most` elements, sizes of 0 counted as 1; nullopt if
// none does.
// Holds no assumption about the problem but that sizes are below 2^63 and safe to convert.
std::optional<std::string> check_reach(const Problem& problem, int64_t most);

// True where every stride of Layout::packed(extent) stays within the contract's 2^40.
bool has_packed_layout(const std::array<int64_t, 4>& extent);

}  // namespace attest
