// Malformed and hostile files: one line that names the file and the field, no crash, no memory beyond the file's means.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <random>

#include "corpus/case_file.h"
#include "corpus/testing/random_problem.h"

namespace {

// Bytes that are allocated now, and the most at any time since reset.
std::atomic<int64_t> live{0}, peak{0};

void* take(size_t size) {
  void* p = std::malloc(size);
  if (!p) throw std::bad_alloc();
  const int64_t now = live += static_cast<int64_t>(malloc_usable_size(p));
  if (now > peak) peak = now;
  return p;
}

void give(void* p) {
  live -= static_cast<int64_t>(malloc_usable_size(p));
  std::free(p);
}

}  // namespace

void* operator new(size_t size) { return take(size); }
void* operator new[](size_t size) { return take(size); }
void operator delete(void* p) noexcept { give(p); }
void operator delete[](void* p) noexcept { give(p); }
void operator delete(void* p, size_t) noexcept { give(p); }
void operator delete[](void* p, size_t) noexcept { give(p); }

using namespace attest;

namespace {

constexpr int64_t kFixedMemory = int64_t{16} << 20;  // embedded scores may take 2^20 elements whatever the file's size
constexpr int64_t kMemoryPerByte = 200;              // a node of a JSON object for each few bytes of text

// The message, "" if the file was accepted. Anything but a CaseError escapes and fails the test.
std::string message_of(const std::function<Case()>& read, size_t file_bytes) {
  const int64_t before = live;
  peak = before;
  std::string message;
  try {
    const Case c = read();
    EXPECT_EQ(validate(c.problem), std::nullopt);
  } catch (const CaseError& e) {
    message = e.what();
    EXPECT_FALSE(message.empty());
    EXPECT_LT(message.size(), 400u) << message;
    for (char c : message) EXPECT_GE(static_cast<uint8_t>(c), 0x20) << message;
    EXPECT_TRUE(message.starts_with("evil")) << message;
  }
  EXPECT_LE(peak - before, kFixedMemory + kMemoryPerByte * static_cast<int64_t>(file_bytes)) << message;
  return message;
}

std::string json_message(const std::string& text) {
  return message_of([&] { return parse_json_case(text, "evil.json"); }, text.size());
}

std::string safetensors_message(const std::vector<uint8_t>& bytes) {
  return message_of([&] { return parse_safetensors_case(bytes, "evil.safetensors"); }, bytes.size());
}

void expect_names(const std::string& message, const std::string& part, const std::string& what) {
  EXPECT_NE(message, "") << "accepted: " << what;
  EXPECT_NE(message.find(part), std::string::npos) << "\"" << message << "\" does not name " << part << " in " << what;
}

// A case of one row and two keys, with one field replaced or added ("" leaves it out).
std::string json_with(const std::string& field, const std::string& value) {
  const std::pair<const char*, const char*> base[] = {{"attest_case", "1"}, {"type", "\"f32\""}, {"scale", "1"}, {"q", "[[1]]"}, {"k", "[[1], [2]]"}, {"values", "[[1], [2]]"}};
  std::string text;
  bool replaced = false;
  const auto add = [&](const std::string& name, const std::string& v) {
    if (v.empty()) return;
    if (!text.empty()) text += ", ";
    text += "\"" + name + "\": " + v;
  };
  for (const auto& [name, v] : base) {
    add(name, name == field ? value : v);
    replaced |= name == field;
  }
  if (!replaced && !field.empty()) add(field, value);
  return "{" + text + "}";
}

TEST(HostileJson, AMessageStaysShortWhateverItQuotes) {
  // Bytes that are written as escapes, inside a string that is never closed.
  for (const char* byte : {"\x7f", "\x86", "\n", "\xE2\x80\xA8"}) {
    std::string text = "{\"attest_case\": 1, \"name\": \"";
    for (int n = 0; n < 300; ++n) text += byte;
    EXPECT_NE(json_message(text), "");
  }
}

TEST(HostileJson, TheBaseOfTheTableIsACase) { EXPECT_EQ(json_message(json_with("", "")), ""); }

TEST(HostileJson, EveryOffenceNamesItsField) {
  const std::string deep = std::string(100'000, '[');
  const struct { const char* field; std::string value; const char* named; } table[] = {
      {"attest_case", "", "attest_case: is missing"},
      {"attest_case", "2", "attest_case: must be a whole number from 1 to 1"},
      {"type", "", "type: is missing"},
      {"type", "\"f64\"", "type: unknown type \"f64\""},
      {"type", "7", "type: must be a string"},
      {"type", "\"f3\\n2\\u0000\\u001b[31m\"", "type: unknown type \"f3\\n2\\x00\\x1b[31m\""},
      {"q", "", "q: is missing"},
      {"q", "1", "q: must be a list"},
      {"q", "\"inf\"", "q: must be a list"},
      {"q", "{}", "q.extent: is missing"},
      {"q", "[[1, 2]]", "k: D is 1 here and 2 elsewhere"},
      {"q", "[[true]]", "q[0][0]: must be a number, is true or false"},
      {"q", "[[null]]", "q[0][0]: must be a number, is null"},
      {"q", "[[\"infinity\"]]", "q[0][0]: \"infinity\" is neither"},
      {"q", "[[\"0x7fc0\"]]", "q[0][0]: \"0x7fc0\" is neither"},
      {"q", "[[1e39]]", "q[0][0]: 1e+39 is too large for f32"},
      {"q", "[[[[[1]]]]]", "nested more than 4 deep"},
      {"q", "[]", "is missing and no list tells it"},
      {"k", "[[1], [2, 3]]", "k[1]: has 2 items, its neighbours have 1"},
      {"k", "[[1], 2]", "k[1]: must be a list like its neighbours"},
      {"k", "[1, [2]]", "k[1]: must be a number like its neighbours"},
      {"k", "[[1], []]", "k[1]: has 0 items"},
      {"k", "[[1], [2], [3]]", "values: Nk is 2 here and 3 elsewhere"},
      {"values", "", "values: is missing"},
      {"scores", "[1, 2]", "q: is given beside scores"},
      {"score_unit", "2", "score_unit: is given without scores"},
      {"shape", "{\"B\": -1}", "shape.B: must be a whole number from 0"},
      {"shape", "{\"B\": 2}", "q: B is 1 here and 2 elsewhere"},
      {"shape", "{\"D\": 0}", "shape.D: must be a whole number from 1"},
      {"shape", "{\"Nq\": 1e300}", "shape.Nq: must be a whole number"},
      {"shape", "{\"Nq\": 99999999999999999999}", "shape.Nq: must be a whole number"},
      {"shape", "{\"Nq\": 18446744073709551615}", "shape.Nq: must be a whole number"},
      {"shape", "{\"Nq\": 1.5}", "shape.Nq: must be a whole number"},
      {"shape", "{\"N\": 1}", "shape: unknown field \"N\""},
      {"shape", "[1]", "shape: must be an object"},
      {"scale", "\"auto\"", "scale: must be a number or \"default\""},
      {"scale", "1e39", "scale: 1e+39 is too large"},
      {"scale", "null", "scale: must be a number"},
      {"softcap", "-1", "softcap: must be finite and 0 or more"},
      {"softcap", "\"inf\"", "softcap: must be a number"},
      {"causal", "1", "causal: must be true or false"},
      {"window", "{\"left\": -1}", "window.left: must be a whole number from 0"},
      {"window", "{\"top\": 1}", "window: unknown field \"top\""},
      {"window", "[1, 2]", "window: must be an object"},
      {"key_lengths", "[3]", "key_lengths: 3 is outside 0 to Nk = 2"},
      {"key_lengths", "[1, 1]", "key_lengths: 2 entries, expected B = 1"},
      {"key_lengths", "[-1]", "key_lengths[0]: must be a whole number from 0"},
      {"key_lengths", "[1.0]", "key_lengths[0]: must be a whole number"},
      {"key_lengths", "2", "key_lengths: must be a list"},
      {"mask", "[\"x?\"]", "mask[0]: \"x?\" must consist of x (masked) and . (visible)"},
      {"mask", "[\"xxx\"]", "mask: dimension 3 is 3, expected 2 or 1"},
      {"mask", "[\"x.\", \"x\"]", "mask[1]: has 1 items"},
      {"mask", "[[0, 256]]", "mask[0][1]: must be a whole number from 0 to 255"},
      {"mask", "[[1, 1], \"x.\"]", "mask: dimension 2 is 2"},
      {"mask", "[[0, \"x\"]]", "mask[0][1]"},
      {"bias", "[[1, 2, 3]]", "bias: dimension 3 is 3, expected 2 or 1"},
      {"bias_type", "\"f32\"", "bias_type: is given without bias"},
      {"bias", "{\"extent\": [1, 1, 1, 2], \"stride\": [0, 0, 0, 1], \"storage\": [1]}", "bias: storage of 1 elements is shorter"},
      {"bias", "{\"extent\": [1, 1, 1, 2], \"stride\": [0, 0, 0, 2], \"storage\": [1, 2, 3]}", "bias: stride of the last dimension must be 1"},
      {"bias", "{\"extent\": [1, 1, 1], \"stride\": [0, 0, 0, 1], \"storage\": [1]}", "bias.extent: must have 4 numbers, has 3"},
      {"sink", "[1, 2]", "sink: 2 entries, expected Hq = 1"},
      {"sink", "[\"inf\"]", "sink: must be finite or -inf"},
      {"sink", "[\"nan\"]", "sink: must be finite or -inf"},
      {"o_layout", "{\"stride\": [-1, 0, 0, 1]}", "o_layout.stride[0]: must be a whole number from 0"},
      {"o_layout", "{\"stride\": [0, 0, 0, 1], \"offset\": 1000000000000}", "o: has or reaches more than"},
      {"choice", "{\"tile_keys\": -1}", "choice.tile_keys: must be a whole number from 0"},
      {"choice", "{\"order\": \"up\"}", "choice.order: unknown order \"up\""},
      {"choice", "{\"splits\": 4294967297}", "choice.splits: must be a whole number"},
      {"choice", "{\"p_type\": \"f8\"}", "choice.p_type: unknown type \"f8\""},
      {"origin", "{\"seed\": \"1\"}", "origin: unknown field \"seed\""},
      {"expected", "{\"m\": \"1\"}", "expected: unknown field \"m\""},
      {"expected", "{\"lse\": [\"one\"]}", "expected.lse[0]: \"one\" is no decimal"},
      {"expected", "{\"lse\": [1]}", "expected.lse[0]: must be a string"},
      {"expected", "{\"states\": [{\"m\": \"1\"}]}", "expected.states[0].block: is missing"},
      {"soft_cap", "1", "unknown field \"soft_cap\""},
      {"na\\nme", "1", "unknown field \"na\\nme\""},
      {"name", deep, "nested more than 12 deep"},
      {"name", "\"a\", \"name\": \"b\"", "field \"name\" is given twice"},
      {"name", "1e999", "number overflow"},
      {"name", "\"\xff\"", "UTF-8"},
      {"name", "\"\xed\xa0\x80\"", "UTF-8"},
      {"name", "\"a\nb\"", "control character"},
      {"q", "{\"extent\": [2147483648, 2147483648, 2147483648, 2147483648], \"stride\": [0, 0, 0, 1], \"storage\": [1]}", "k: B is 1 here"},
  };
  for (const auto& [field, value, named] : table) {
    const std::string text = json_with(field, value);
    expect_names(json_message(text), named, text.substr(0, 200));
  }
}

TEST(HostileJson, SizesAloneTakeNoMemory) {
  const struct { const char* text; const char* named; } table[] = {
      // Broadcasting says 2^31 rows, and O as many.
      {R"({"attest_case": 1, "type": "f32", "q": {"extent": [1, 1, 2147483648, 1], "stride": [0, 0, 0, 1], "storage": [1]}, "k": [[1]], "values": [[1]]})", "q: has or reaches more"},
      {R"({"attest_case": 1, "type": "f32", "q": {"extent": [2147483648, 2147483648, 2147483648, 1], "stride": [0, 0, 0, 1], "storage": [1]},
           "k": {"extent": [2147483648, 1, 1, 1], "stride": [0, 0, 0, 1], "storage": [1]}, "values": {"extent": [2147483648, 1, 1, 1], "stride": [0, 0, 0, 1], "storage": [1]}})", "too large"},
      {R"({"attest_case": 1, "type": "f32", "q": {"extent": [1, 1, 1, 1], "stride": [0, 0, 0, 1], "offset": 1099511627776, "storage": [1]}, "k": [[1]], "values": [[1]]})", "q: has or reaches more"},
      // The scores alone are short, q and k of this width are not.
      {R"({"attest_case": 1, "type": "f32", "shape": {"D": 2147483648}, "scores": [1], "values": [[1]]})", "scores: q and k would have more than"},
      {R"({"attest_case": 1, "type": "f32", "shape": {"D": 1}, "scores": [[1], [2]], "values": [[1]]})", "scores: D = 1 is too small"},
      {R"({"attest_case": 1, "type": "f32", "scores": [[1], [2]], "values": [[[1]], [[1]], [[1]]]})", "scores: Hq = 1 is no multiple of Hk = 3"},
      {R"({"attest_case": 1, "type": "f16", "score_unit": 3, "scores": [1], "values": [[1]]})", "score_unit: must be a power of two"},
      {R"({"attest_case": 1, "type": "f16", "score_unit": 0.5, "scores": [60000], "values": [[1]]})", "score number 0 divided by score_unit"},
      {R"({"attest_case": 1, "type": "f16", "scores": ["inf"], "values": [[1]]})", "scores[0]: must be a finite number"},
      // An empty problem of any size in its other directions.
      {R"({"attest_case": 1, "type": "f32", "shape": {"B": 2147483648, "Hq": 2147483648, "Hk": 2147483648, "Nq": 0, "Nk": 0, "D": 2147483648, "Dv": 1}, "q": [], "k": [], "values": []})", "q: has or reaches more"},
      {R"({"attest_case": 1, "type": "f32", "shape": {"B": 1, "Hq": 1, "Hk": 1, "Nq": 1, "Nk": 1, "D": 1, "Dv": 1}, "q": [], "k": [], "values": []})", "q: is empty, but no size"},
  };
  for (const auto& [text, named] : table) expect_names(json_message(text), named, text);
}

TEST(HostileJson, TextThatIsNoDocument) {
  for (const char* text : {"", " ", "{", "[]", "null", "1", "\"", "{\"type\":", "{}", "{} {}", "\xef\xbb\xbf", "{\"a\":1,}"}) EXPECT_NE(json_message(text), "") << text;
  EXPECT_NE(json_message(std::string(1 << 20, '[')), "");
  EXPECT_NE(json_message(std::string(1 << 20, '{')), "");
  EXPECT_NE(json_message("{\"" + std::string(1 << 20, 'a') + "\": 1}"), "");
  EXPECT_NE(json_message(std::string("{\"type\": \"f32\0\"}", 16)), "");
  const std::string valid = json_with("", "");
  for (size_t length = 0; length < valid.size(); ++length) EXPECT_NE(json_message(valid.substr(0, length)), "") << length;
}

std::vector<uint8_t> file_with(const std::string& header, size_t data, std::optional<uint64_t> length = std::nullopt) {
  std::vector<uint8_t> bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<uint8_t>(length.value_or(header.size()) >> (8 * i)));
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.resize(bytes.size() + data, 0);
  return bytes;
}

// q, k, v of one element each in 12 bytes, with one member of the header replaced or added.
std::string header_with(const std::string& name, const std::string& value) {
  const std::pair<const char*, const char*> base[] = {{"q", R"({"dtype":"F32","shape":[1,1],"data_offsets":[0,4]})"},
                                                      {"k", R"({"dtype":"F32","shape":[1,1],"data_offsets":[4,8]})"},
                                                      {"v", R"({"dtype":"F32","shape":[1,1],"data_offsets":[8,12]})"}};
  std::string text;
  bool replaced = false;
  const auto add = [&](const std::string& n, const std::string& v) {
    if (!v.empty()) text += (text.empty() ? "\"" : ",\"") + n + "\":" + v;
  };
  for (const auto& [n, v] : base) {
    add(n, n == name ? value : v);
    replaced |= n == name;
  }
  if (!replaced && !name.empty()) add(name, value);
  return "{" + text + "}";
}

TEST(HostileSafetensors, TheBaseOfTheTableIsACase) { EXPECT_EQ(safetensors_message(file_with(header_with("", ""), 12)), ""); }

TEST(HostileSafetensors, EveryOffenceNamesItsField) {
  const struct { const char* name; std::string value; const char* named; } table[] = {
      {"q", "", "k.data_offsets: begin at 4, where the tensors before it end at 0"},
      {"q", "7", "q: must be an object"},
      {"q", R"({"shape":[1,1],"data_offsets":[0,4]})", "q.dtype: is missing"},
      {"q", R"({"dtype":"F64","shape":[1,1],"data_offsets":[0,8]})", "q.dtype: unknown type \"F64\""},
      {"q", R"({"dtype":"I32","shape":[1,1],"data_offsets":[0,4]})", "q.dtype: is I32, must be F32, F16 or BF16"},
      {"q", R"({"dtype":"F16","shape":[1,2],"data_offsets":[0,4]})", "k: type differs"},
      {"q", R"({"dtype":"F32","shape":[-1,1],"data_offsets":[0,4]})", "q.shape[0]: must be a whole number from 0"},
      {"q", R"({"dtype":"F32","shape":[1.0,1],"data_offsets":[0,4]})", "q.shape[0]: must be a whole number"},
      {"q", R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]})", "q.shape: the product of its sizes is too large"},
      {"q", R"({"dtype":"F32","shape":[2305843009213693952,1],"data_offsets":[0,4]})", "q.shape: the product of its sizes is too large"},
      {"q", R"({"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]})", "q.shape[0]: must be a whole number"},
      {"q", R"({"dtype":"F32","shape":[2,1],"data_offsets":[0,4]})", "q.data_offsets: span 4 bytes, the shape needs 8"},
      {"q", R"({"dtype":"F32","shape":[],"data_offsets":[0,4]})", "q.shape: has 0 dimensions"},
      {"q", R"({"dtype":"F32","shape":[1,1,1,1,1],"data_offsets":[0,4]})", "q.shape: has 5 dimensions"},
      {"q", R"({"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]})", "q.shape: has 17 dimensions"},
      {"q", R"({"dtype":"F32","shape":[1,1],"data_offsets":[0]})", "q.data_offsets: must be two numbers"},
      {"q", R"({"dtype":"F32","shape":[1,1],"data_offsets":[4,0]})", "q.data_offsets[1]: must be a whole number from 4"},
      {"q", R"({"dtype":"F32","shape":[1,1],"data_offsets":[-4,0]})", "q.data_offsets[0]: must be a whole number from 0"},
      {"q", R"({"dtype":"F32","shape":[1,1],"data_offsets":[12,16]})", "q.data_offsets[1]: must be a whole number from 12 to 12"},
      {"q", R"({"dtype":"F32","shape":[1,1],"data_offsets":[2,6]})", "q.data_offsets: begin at 2"},
      {"q", R"({"dtype":"F32","shape":[1,1],"data_offsets":[4,8]})", "data_offsets: begin at 4"},
      {"q", R"({"dtype":"F32","shape":[1,1],"data_offsets":[0,4],"extra":1})", "q: unknown field \"extra\""},
      {"k", R"({"dtype":"F32","shape":[1,1,1,0],"data_offsets":[4,4]})", "v.data_offsets: begin at 8"},
      {"w", R"({"dtype":"F32","shape":[0],"data_offsets":[12,12]})", "unknown tensor \"w\""},
      {"q", R"({"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},"q":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]})", "field \"q\" is given twice"},
      {"mask", R"({"dtype":"F32","shape":[0],"data_offsets":[12,12]})", "mask.dtype: is F32, must be U8 or BOOL"},
      {"sink", R"({"dtype":"F32","shape":[0],"data_offsets":[12,12]})", "sink: 0 entries, expected Hq = 1"},
      {"sink", R"({"dtype":"F32","shape":[0,2],"data_offsets":[12,12]})", "sink.shape: must have one dimension"},
      {"key_lengths", R"({"dtype":"U8","shape":[0],"data_offsets":[12,12]})", "key_lengths.dtype: is U8, must be I32 or I64"},
      {"__metadata__", "1", "__metadata__: must be an object"},
      {"__metadata__", R"({"scale":0.125})", "__metadata__: \"scale\" must be a string, is a number"},
      {"__metadata__", R"({"scale":"fast"})", "metadata scale: \"fast\" is no finite number"},
      {"__metadata__", R"({"scale":"nan"})", "metadata scale: \"nan\" is no finite number"},
      {"__metadata__", R"({"soft_cap":"1"})", "metadata: unknown field \"soft_cap\""},
      {"__metadata__", R"({"causal":"yes"})", "metadata causal: \"yes\" is neither true nor false"},
      {"__metadata__", R"({"window_left":"-1"})", "metadata window_left: \"-1\" is no whole number"},
      {"__metadata__", R"({"tile_keys":"99999999999999999999"})", "metadata tile_keys: \"99999999999999999999\" is no whole number"},
      {"__metadata__", R"({"splits":"2147483648"})", "metadata splits: \"2147483648\" is no whole number"},
      {"__metadata__", R"({"order":"up"})", "metadata order: unknown order \"up\""},
      {"__metadata__", R"({"p_type":"f8"})", "metadata p_type: unknown type \"f8\""},
      {"__metadata__", R"({"attest_case":"2"})", "metadata attest_case: version \"2\" is not known"},
      {"__metadata__", R"({"layout.q":"{}"})", "q.shape: must have one dimension"},
      {"__metadata__", R"({"layout.o":"{}"})", "metadata layout.o.stride: is missing"},
      {"__metadata__", R"({"layout.o":"["})", "metadata layout.o: parse error"},
      {"__metadata__", R"({"layout.o":"{\"stride\":[1,1,1,1],\"offset\":1000000000000}"})", "o: has or reaches more than"},
      {"__metadata__", R"({"expected":"[[[[[[[[[[[[[[1]]]]]]]]]]]]]]"})", "metadata expected: nested more than"},
  };
  for (const auto& [name, value, named] : table) {
    const std::string header = header_with(name, value);
    expect_names(safetensors_message(file_with(header, 12)), named, header);
  }
}

TEST(HostileSafetensors, SizesAloneTakeNoMemory) {
  const std::string layout = R"("__metadata__":{"layout.q":"{\"extent\":[1,1,2147483648,1],\"stride\":[0,0,0,1],\"offset\":0}"},)";
  const std::string header = "{" + layout + R"("q":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"k":{"dtype":"F32","shape":[1,1],"data_offsets":[4,8]},"v":{"dtype":"F32","shape":[1,1],"data_offsets":[8,12]}})";
  expect_names(safetensors_message(file_with(header, 12)), "q: has or reaches more than 67108864 elements", header);
  const std::string empty = R"({"q":{"dtype":"F32","shape":[2147483648,2147483648,0,2147483648],"data_offsets":[0,0]},"k":{"dtype":"F32","shape":[0,1],"data_offsets":[0,0]},"v":{"dtype":"F32","shape":[0,1],"data_offsets":[0,0]}})";
  expect_names(safetensors_message(file_with(empty, 0)), "q", empty);
  // A zero among sizes whose product overflows.
  const std::string huge = R"({"q":{"dtype":"F32","shape":[9223372036854775807,9223372036854775807,0],"data_offsets":[0,0]},"k":{"dtype":"F32","shape":[0,1],"data_offsets":[0,0]},"v":{"dtype":"F32","shape":[0,1],"data_offsets":[0,0]}})";
  expect_names(safetensors_message(file_with(huge, 0)), "q.shape: 9223372036854775807 is more than 2^31", huge);
}

TEST(HostileSafetensors, HeadersThatLie) {
  const std::string header = header_with("", "");
  expect_names(safetensors_message({}), "header length", "an empty file");
  expect_names(safetensors_message({1, 0, 0}), "header length", "three bytes");
  for (uint64_t length : {uint64_t{header.size() + 13}, uint64_t{1} << 26, uint64_t{100'000'001}, uint64_t{1} << 32, uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{7}})
    expect_names(safetensors_message(file_with(header, 12, length)), "header length", std::to_string(length));
  expect_names(safetensors_message(file_with(header, 12, 0)), "header", "length 0");
  expect_names(safetensors_message(file_with(" " + header, 12)), "header: does not begin with {", "a space before");
  expect_names(safetensors_message(file_with(header, 13)), "data: 13 bytes follow the header, the tensors cover 12", "a byte too many");
  expect_names(safetensors_message(file_with(header, 11)), "v.data_offsets", "a byte too few");
  expect_names(safetensors_message(file_with("{" + std::string(100'000, '['), 0)), "header", "deep nesting");
  const std::vector<uint8_t> valid = file_with(header, 12);
  for (size_t length = 0; length < valid.size(); ++length)
    EXPECT_NE(safetensors_message({valid.begin(), valid.begin() + static_cast<std::ptrdiff_t>(length)}), "") << length;
}

// Bytes replaced, inserted, deleted, doubled: the reader answers with a case or a CaseError.
template <class Bytes>
void mutate(Bytes& bytes, std::mt19937_64& random) {
  const uint64_t times = 1 + random() % 3;
  constexpr std::string_view kTelling = "0123456789-+.eE[]{}\",:xnif \n";
  for (uint64_t n = 0; n < times && !bytes.empty(); ++n) {
    const auto at = bytes.begin() + static_cast<std::ptrdiff_t>(random() % bytes.size());
    const auto byte = static_cast<typename Bytes::value_type>(random() % 2 == 0 ? kTelling[random() % kTelling.size()] : static_cast<char>(random()));
    switch (random() % 5) {
      case 0: *at = byte; break;
      case 1: *at = static_cast<typename Bytes::value_type>(*at ^ (1 << random() % 8)); break;
      case 2: bytes.insert(at, byte); break;
      case 3: bytes.erase(at); break;
      default: {
        const Bytes piece(at, std::min(at + static_cast<std::ptrdiff_t>(random() % 20), bytes.end()));
        const auto to = bytes.begin() + static_cast<std::ptrdiff_t>(random() % bytes.size());
        bytes.insert(to, piece.begin(), piece.end());
      }
    }
  }
}

TEST(Mutations, OfJsonNeverCrash) {
  std::mt19937_64 random(1);
  int refused = 0;
  for (int n = 0; n < 10'000; ++n) {
    std::string text = to_json(random_case(static_cast<uint64_t>(n % 200)));
    mutate(text, random);
    refused += !json_message(text).empty();
  }
  EXPECT_GT(refused, 2500);
  EXPECT_LT(refused, 10'000);
}

TEST(Mutations, OfSafetensorsNeverCrash) {
  std::mt19937_64 random(2);
  int refused = 0;
  for (int n = 0; n < 10'000; ++n) {
    std::vector<uint8_t> bytes = to_safetensors(random_case(static_cast<uint64_t>(n % 200)));
    mutate(bytes, random);
    refused += !safetensors_message(bytes).empty();
  }
  EXPECT_GT(refused, 2500);
  EXPECT_LT(refused, 10'000);
}

}  // namespace
