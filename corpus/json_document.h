// json_document.h: JSON that a stranger wrote, read with care.
//
// parse_json refuses what a case file never needs and a reader could trip over: nesting deeper than 12, a key given
// twice, text that is not UTF-8, numbers beyond double. A Field is a value with its place in the file, so that every
// error names both. Memory stays below a small multiple of the text.
// Errors: CaseError, one line: "a.json: shape.D: must be a whole number from 1 to 2147483648".
// Example:
//     const nlohmann::json document = parse_json(text, "a.json", "");
//     const Field top{document, "a.json", ""};
//     const int64_t tile = top.at("choice").at("tile_keys").integer(0, 4096);
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace attest {

// `field` names the text within the file where it is only a part of it, "" otherwise.
nlohmann::json parse_json(std::string_view text, const std::string& file, const std::string& field);

// A value in a document that outlives it.
class Field {
 public:
  Field(const nlohmann::json& value, std::string file, std::string path) : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& file() const { return file_; }
  const std::string& path() const { return path_; }
  [[noreturn]] void fail(std::string_view what) const;

  // Members of an object.
  Field at(const std::string& name) const;                  // error if absent
  std::optional<Field> find(const std::string& name) const;  // nullopt if absent
  void only(std::span<const std::string_view> names) const;  // error if it has any other member
  void only(std::initializer_list<std::string_view> names) const { only(std::span(names.begin(), names.size())); }

  // Items of a list.
  size_t size() const;
  Field item(size_t index) const;

  // Values; an error says what was expected.
  std::string text() const;
  bool boolean() const;
  int64_t integer(int64_t least, int64_t most) const;
  double number() const;

 private:
  const nlohmann::json* value_;
  std::string file_, path_;
};

// What a JSON value is, for messages: "a string", "an object", ...
std::string_view kind_of(const nlohmann::json& value);

}  // namespace attest
