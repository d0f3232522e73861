#include "corpus/json_document.h"

#include <algorithm>
#include <set>

#include "corpus/case_error.h"

namespace attest {

using nlohmann::json;

namespace {

constexpr size_t kDeepest = 12;  // a state of `expected` in a case needs 5

// nlohmann's messages read "[json.exception.parse_error.101] parse error at line 1, column 5: ...".
std::string without_prefix(std::string_view what) {
  const size_t end = what.find("] ");
  return std::string(what.starts_with('[') && end != std::string_view::npos ? what.substr(end + 2) : what);
}

// Keeps the keys of every object that is being read; throws at the first offence.
class Guard {
 public:
  Guard(const std::string& file, const std::string& field) : file_(file), field_(field) {}

  bool operator()(int, json::parse_event_t event, json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        keys_.emplace_back();
        if (keys_.size() > kDeepest) fail(file_, field_, "nested more than " + std::to_string(kDeepest) + " deep");
        break;
      case json::parse_event_t::object_end:
      case json::parse_event_t::array_end:
        keys_.pop_back();
        break;
      case json::parse_event_t::key:
        if (!keys_.back().insert(parsed.get_ref<const std::string&>()).second)
          fail(file_, field_, "field " + in_quotes(parsed.get_ref<const std::string&>()) + " is given twice");
        break;
      case json::parse_event_t::value:
        break;
    }
    return true;
  }

 private:
  const std::string& file_;
  const std::string& field_;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

json parse_json(std::string_view text, const std::string& file, const std::string& field) {
  try {
    return json::parse(text.begin(), text.end(), Guard(file, field));
  } catch (const json::exception& e) {
    const std::string what = printable(without_prefix(e.what()));  // escapes count
    fail(file, field, what.size() <= 200 ? what : what.substr(0, 100) + " ... " + what.substr(what.size() - 80));
  }
}

std::string_view kind_of(const json& value) {
  switch (value.type()) {
    case json::value_t::null: return "null";
    case json::value_t::boolean: return "true or false";
    case json::value_t::string: return "a string";
    case json::value_t::array: return "a list";
    case json::value_t::object: return "an object";
    default: return "a number";
  }
}

void Field::fail(std::string_view what) const { attest::fail(file_, path_, what); }

Field Field::at(const std::string& name) const {
  if (std::optional<Field> f = find(name)) return *f;
  attest::fail(file_, path_.empty() ? name : path_ + "." + name, "is missing");
}

std::optional<Field> Field::find(const std::string& name) const {
  if (!value_->is_object()) fail("must be an object, is " + std::string(kind_of(*value_)));
  const auto it = value_->find(name);
  if (it == value_->end()) return std::nullopt;
  return Field(*it, file_, path_.empty() ? name : path_ + "." + name);
}

void Field::only(std::span<const std::string_view> names) const {
  if (!value_->is_object()) fail("must be an object, is " + std::string(kind_of(*value_)));
  for (const auto& [key, unused] : value_->items())
    if (std::find(names.begin(), names.end(), key) == names.end()) fail("unknown field " + in_quotes(key));
}

size_t Field::size() const {
  if (!value_->is_array()) fail("must be a list, is " + std::string(kind_of(*value_)));
  return value_->size();
}

Field Field::item(size_t index) const { return Field((*value_)[index], file_, path_ + "[" + std::to_string(index) + "]"); }

std::string Field::text() const {
  if (!value_->is_string()) fail("must be a string, is " + std::string(kind_of(*value_)));
  return value_->get<std::string>();
}

bool Field::boolean() const {
  if (!value_->is_boolean()) fail("must be true or false, is " + std::string(kind_of(*value_)));
  return value_->get<bool>();
}

int64_t Field::integer(int64_t least, int64_t most) const {
  const bool fits = value_->is_number_integer() && !(value_->is_number_unsigned() && value_->get<uint64_t>() > INT64_MAX);
  if (!fits || value_->get<int64_t>() < least || value_->get<int64_t>() > most)
    fail("must be a whole number from " + std::to_string(least) + " to " + std::to_string(most) + ", is " +
         (value_->is_number() ? value_->dump() : std::string(kind_of(*value_))));
  return value_->get<int64_t>();
}

double Field::number() const {
  if (!value_->is_number()) fail("must be a number, is " + std::string(kind_of(*value_)));
  return value_->get<double>();
}

}  // namespace attest
