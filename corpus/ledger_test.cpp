// The files of known failures: what they may hold, which versions they cover, and that the committed ones can be read.
#include "corpus/ledger.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace attest {
namespace {

namespace fs = std::filesystem;

const std::string kHeading = "versions\tproperty\tsignature\treason\tsince\n";
const std::string kEntry = "2.6.0..2.10.0\tempty_rows\tempty_rows/non_finite\tthem/empty_rows.json\t2025-01-31\n";

std::string file_of(const std::string& text) {
  const fs::path path = fs::path(testing::TempDir()) / "ledger" / "them.tsv";
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
  return path.string();
}

std::string refusal(const std::string& text) {
  try {
    read_ledger(file_of(text));
  } catch (const CaseError& e) {
    return e.what();
  }
  return "";
}

TEST(Ledger, AnEntryIsRead) {
  const std::vector<LedgerEntry> all = read_ledger(file_of(kHeading + kEntry));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].property, "empty_rows");
  EXPECT_EQ(all[0].signature, "empty_rows/non_finite");
  EXPECT_EQ(all[0].file, (fs::path(testing::TempDir()) / "findings/them/empty_rows.json").lexically_normal().string());
  EXPECT_TRUE(all[0].where.ends_with("them.tsv: line 2"));
}

TEST(Ledger, VersionsAreComparedByTheirNumbers) {
  const LedgerEntry e = read_ledger(file_of(kHeading + kEntry)).at(0);
  for (const char* inside : {"2.6.0", "2.9", "2.10.0", "2.7.1rc1"}) EXPECT_TRUE(e.covers(inside)) << inside;
  for (const char* outside : {"2.5.9", "2.10.1", "2.11", "3", "2"}) EXPECT_FALSE(e.covers(outside)) << outside;
  LedgerEntry open;
  EXPECT_TRUE(open.covers("1"));
  open.first = "2";
  EXPECT_FALSE(open.covers("1.9"));
  EXPECT_TRUE(open.covers("10"));
}

TEST(Ledger, WhatIsMalformedIsToldByItsLine) {
  EXPECT_NE(refusal("version\n").find("line 1"), std::string::npos);
  EXPECT_NE(refusal(kHeading + kEntry + "2.6\tempty_rows\n").find("line 3: 2 fields"), std::string::npos);
  const auto with = [](const std::string& from, const std::string& to) {
    std::string line = kEntry;
    line.replace(line.find(from), from.size(), to);
    return refusal(kHeading + line);
  };
  EXPECT_NE(with("2.6.0..2.10.0", "2.6.0").find("versions"), std::string::npos);
  EXPECT_NE(with("empty_rows/non_finite", "matches_reference/bound").find("signature"), std::string::npos);
  EXPECT_NE(with("them/empty_rows.json", "../../etc/passwd").find("reason"), std::string::npos);
  EXPECT_NE(with("them/empty_rows.json", "/etc/passwd").find("reason"), std::string::npos);
  EXPECT_NE(with("2025-01-31", "lately").find("since"), std::string::npos);
  EXPECT_EQ(with("them/empty_rows.json", "https://example.org/issues/1"), "");
}

TEST(Ledger, AKernelsNameStaysAFileName) { EXPECT_EQ(ledger_of("ledger", "../../a b"), "ledger/.._.._a_b.tsv"); }

TEST(Ledger, TheCommittedOnesHoldAndNameCasesThatAreThere) {
  for (const auto& file : fs::directory_iterator(ATTEST_SOURCE_DIR "/corpus/ledger")) {
    if (file.path().extension() != ".tsv") continue;
    for (const LedgerEntry& e : read_ledger(file.path().string())) {
      if (!e.file.empty()) EXPECT_TRUE(fs::exists(e.file)) << e.where << ": " << e.file;
    }
  }
}

}  // namespace
}  // namespace attest
