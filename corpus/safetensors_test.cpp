// The safetensors container byte by byte, and what a file saved from Python means.
#include "corpus/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "corpus/case_file.h"

using namespace attest;

namespace {

std::vector<uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

// A file with this header, padded as the library pads it, and this data.
std::vector<uint8_t> file_with(std::string header, const std::vector<uint8_t>& data) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::vector<uint8_t> bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<uint8_t>(header.size() >> (8 * i)));
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

template <class T>
std::vector<uint8_t> raw(std::initializer_list<T> values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

std::vector<uint8_t> join(std::initializer_list<std::vector<uint8_t>> parts) {
  std::vector<uint8_t> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// save_file({"q": q, "k": k, "v": v}, path, metadata={"scale": "0.0625"}) with q of shape [1, 1, 1, 2] and two keys:
// the header's 224 bytes (0xe0) end in seven spaces; tensors of one type lie in the order of their names.
const std::string kPython = std::string("\xe0\0\0\0\0\0\0\0", 8) +
    R"({"__metadata__":{"scale":"0.0625"},"k":{"dtype":"F32","shape":[1,1,2,2],"data_offsets":[0,16]},)"
    R"("q":{"dtype":"F32","shape":[1,1,1,2],"data_offsets":[16,24]},"v":{"dtype":"F32","shape":[1,1,2,1],"data_offsets":[24,32]}})" "       " +
    std::string("\0\0\x80\x3f" "\0\0\0\x40" "\0\0\x40\x40" "\0\0\x80\x40"   // k = 1, 2, 3, 4
                "\0\0\0\x3f" "\0\0\x80\xbf"                                   // q = 0.5, -1
                "\0\0\xc0\x7f" "\0\0\x80\x7f", 32);                           // v = NaN, +inf

TEST(Safetensors, AFileSavedFromPythonIsACase) {
  const Problem p = parse_safetensors_case(bytes_of(kPython), "python").problem;
  EXPECT_EQ(p.shape, (Shape{1, 1, 1, 1, 2, 2, 1}));
  EXPECT_EQ(p.type, DType::f32);
  EXPECT_EQ(p.scale, 0.0625f);
  EXPECT_EQ(p.k.get(0, 0, 1, 0), 3);
  EXPECT_EQ(p.q.get(0, 0, 0, 1), -1);
  EXPECT_EQ(p.v.bits(0), 0x7fc00000u);
  EXPECT_EQ(p.v.bits(1), 0x7f800000u);
  EXPECT_FALSE(p.causal || p.mask || p.bias || p.sink || p.key_lengths || p.window.left || p.window.right);
  EXPECT_EQ(p.o, Layout::packed({1, 1, 1, 1}));
}

TEST(Safetensors, IsWrittenAsTheLibraryWritesIt) {
  const std::vector<uint8_t> bytes = bytes_of(kPython);
  EXPECT_EQ(safetensors_bytes(parse_safetensors(bytes, "python")), bytes);
}

TEST(Safetensors, LargerElementsComeFirst) {
  const std::vector<uint8_t> wide = raw<int32_t>({1}), narrow = {7}, middle = raw<uint16_t>({9});
  const std::vector<uint8_t> bytes = safetensors_bytes({{}, {{"a", "U8", {1}, narrow}, {"b", "BF16", {1}, middle}, {"c", "I32", {1}, wide}}});
  const Safetensors back = parse_safetensors(bytes, "test");
  ASSERT_EQ(back.tensors.size(), 3u);
  EXPECT_EQ(back.tensors[0].name + back.tensors[1].name + back.tensors[2].name, "cba");
  EXPECT_EQ(bytes.size() % 8, 7u);
}

TEST(SafetensorsCase, ScaleDefaultsToTheHeadWidth) {
  const auto header = [](const std::string& metadata) {
    return R"({)" + metadata + R"("q":{"dtype":"F16","shape":[2,4],"data_offsets":[0,16]},"k":{"dtype":"F16","shape":[1,4],"data_offsets":[16,24]},)"
           R"("v":{"dtype":"F16","shape":[1,1],"data_offsets":[24,26]}})";
  };
  const std::vector<uint8_t> data(26, 0);
  for (const char* metadata : {"", R"("__metadata__":{"format":"pt"},)", R"("__metadata__":{"scale":"default"},)"}) {
    const Problem p = parse_safetensors_case(file_with(header(metadata), data), "test").problem;
    EXPECT_EQ(p.scale, 0.5f);
    EXPECT_EQ(p.shape, (Shape{1, 1, 1, 2, 1, 4, 1})) << "rank 2 is [N, D]";
    EXPECT_EQ(p.type, DType::f16);
  }
}

TEST(SafetensorsCase, EveryOptionalTensorAndField) {
  const std::string header =
      R"({"__metadata__":{"softcap":"30","causal":"True","window_left":"2","tile_keys":"16","order":"descending","splits":"3","p_type":"bf16"},)"
      R"("key_lengths":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"q":{"dtype":"F32","shape":[2,1,1],"data_offsets":[8,16]},)"
      R"("k":{"dtype":"F32","shape":[1,3,1],"data_offsets":[16,28]},"v":{"dtype":"F32","shape":[1,3,1],"data_offsets":[28,40]},)"
      R"("sink":{"dtype":"F32","shape":[2],"data_offsets":[40,48]},"bias":{"dtype":"F32","shape":[1,3],"data_offsets":[48,60]},)"
      R"("mask":{"dtype":"BOOL","shape":[1,3],"data_offsets":[60,63]}})";
  const std::vector<uint8_t> data = join({raw<int64_t>({2}), raw<float>({1, 2}), raw<float>({1, 2, 3}), raw<float>({4, 5, 6}), raw<float>({0.5f, -1}),
                                          raw<float>({7, 8, 9}), {1, 0, 1}});
  const Problem p = parse_safetensors_case(file_with(header, data), "test").problem;
  EXPECT_EQ(p.shape, (Shape{1, 2, 1, 1, 3, 1, 1})) << "rank 3 is [H, N, D]";
  EXPECT_EQ(p.softcap, 30);
  EXPECT_TRUE(p.causal);
  EXPECT_EQ(p.window, (Window{2, std::nullopt}));
  EXPECT_EQ(p.choice, (Choice{16, TileOrder::descending, 3, DType::bf16}));
  EXPECT_EQ(*p.key_lengths, std::vector<int32_t>{2});
  EXPECT_EQ(*p.sink, (std::vector<float>{0.5f, -1}));
  EXPECT_EQ(p.bias->get(0, 0, 0, 2), 9);
  EXPECT_EQ(p.mask->storage, (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(p.mask->layout, Layout::packed({1, 1, 1, 3}));
}

}  // namespace
