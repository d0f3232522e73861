// Elements as text: every 16-bit pattern and many of 32 bits come back, through a JSON parser too.
#include "corpus/element_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

using namespace attest;

namespace {

// As a reader of JSON takes it.
uint32_t back(DType type, const std::string& text) {
  if (!is_number_text(text)) return element_from_text(type, text).value();
  return element_from_number(type, nlohmann::json::parse(text).get<double>()).value();
}

TEST(ElementText, EveryPatternOf16BitsComesBack) {
  for (DType type : {DType::f16, DType::bf16})
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const std::string text = element_text(type, bits);
      ASSERT_EQ(back(type, text), bits) << name_of(type) << " " << text;
    }
}

TEST(ElementText, PatternsOf32BitsComeBack) {
  uint64_t state = 1;
  for (int n = 0; n < 200'000; ++n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto bits = static_cast<uint32_t>(state >> 32);
    const std::string text = element_text(DType::f32, bits);
    ASSERT_EQ(back(DType::f32, text), bits) << text;
  }
}

TEST(ElementText, IsTheShortestDecimalAPersonWouldWrite) {
  const auto f32 = [](double x) { return element_text(DType::f32, from_double(DType::f32, x)); };
  EXPECT_EQ(f32(0), "0");
  EXPECT_EQ(f32(-0.0), "-0.0");
  EXPECT_EQ(f32(0.1), "0.1");
  EXPECT_EQ(f32(-2.5), "-2.5");
  EXPECT_EQ(f32(100000), "100000");
  EXPECT_EQ(f32(16777216), "16777216");
  EXPECT_EQ(f32(0.0000454), "0.0000454");
  EXPECT_EQ(f32(1e30), "1e30");
  EXPECT_EQ(f32(-1.5e-30), "-1.5e-30");
  EXPECT_EQ(f32(0x1p-149), "1e-45");
  EXPECT_EQ(f32(3.4028234663852886e38), "3.4028235e38");
  EXPECT_EQ(element_text(DType::bf16, 0x3dcd), "0.1");
  EXPECT_EQ(element_text(DType::f16, 0x7bff), "65500");
  EXPECT_EQ(element_text(DType::f16, 0x7c00), "inf");
  EXPECT_EQ(element_text(DType::bf16, 0xff80), "-inf");
  EXPECT_EQ(element_text(DType::f32, 0x7fc00000), "nan");
  EXPECT_EQ(element_text(DType::f32, 0xffc00000), "0xffc00000");
  EXPECT_EQ(element_text(DType::f32, 0x7f800001), "0x7f800001");
  EXPECT_EQ(element_text(DType::f16, 0xfe01), "0xfe01");
}

TEST(ElementText, RefusesWhatIsNoElement) {
  for (const char* text : {"", "Inf", "NaN", "-nan", "0x", "0x7fc0", "0x7fc0000g", "0x7fc000000", "1.5", "0X7fc00000", "infinity"})
    EXPECT_FALSE(element_from_text(DType::f32, text)) << text;
  EXPECT_FALSE(element_from_number(DType::f32, 1e39));
  EXPECT_FALSE(element_from_number(DType::f16, 65520));
  EXPECT_EQ(element_from_number(DType::f16, 65519), 0x7bffu);
}

TEST(ElementText, FloatsOfMetadataComeBack) {
  for (float x : {0.125f, 1.0f, -0.0f, 3.0e-39f, 0.70710678f, -3.4028235e38f}) EXPECT_EQ(float_from_text(float_text(x)), x);
  for (const char* text : {"", " 1", "1 ", "1,5", "0x10", "inf", "nan", "1e39", "--1", "one"}) EXPECT_FALSE(float_from_text(text)) << text;
}

}  // namespace
