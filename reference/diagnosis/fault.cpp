#include "reference/diagnosis/fault.h"

namespace attest {

namespace {
constexpr std::string_view kNames[] = {"none",
#define ATTEST_FAULT(name, sentence) #name,
#include "reference/diagnosis/families.def"
#undef ATTEST_FAULT
};
constexpr std::string_view kSentences[] = {"does what the contract says",
#define ATTEST_FAULT(name, sentence) sentence,
#include "reference/diagnosis/families.def"
#undef ATTEST_FAULT
};
}  // namespace

std::string_view name_of(Family f) { return kNames[static_cast<size_t>(f)]; }
std::string_view sentence_of(Family f) { return kSentences[static_cast<size_t>(f)]; }
std::optional<Family> family_from_name(std::string_view name) {
  for (int f = 0; f < kFamilies; ++f)
    if (kNames[f] == name) return static_cast<Family>(f);
  return std::nullopt;
}

}  // namespace attest
