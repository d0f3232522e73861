#include "corpus/expected_json.h"

#include "corpus/case_error.h"
#include "corpus/element_text.h"
#include "corpus/json_text.h"

namespace attest {
namespace {

std::string stated(const Field& field) {
  const std::string text = field.text();
  if (!decimal_from_text(text)) field.fail(in_quotes(text) + " is no decimal");
  return text;
}

std::vector<std::string> stated_list(const Field& field) {
  std::vector<std::string> list;
  for (size_t i = 0; i < field.size(); ++i) list.push_back(stated(field.item(i)));
  return list;
}

std::vector<std::vector<std::string>> stated_rows(const Field& field) {
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < field.size(); ++i) rows.push_back(stated_list(field.item(i)));
  return rows;
}

ExpectedState read_state(const Field& field) {
  field.only({"row", "block", "m", "l", "scale", "o"});
  constexpr int64_t kMost = int64_t{1} << 31;
  ExpectedState state;
  if (auto f = field.find("row")) state.row = f->integer(0, kMost);
  state.block = field.at("block").integer(0, kMost);
  if (auto f = field.find("m")) state.m = stated(*f);
  if (auto f = field.find("l")) state.l = stated(*f);
  if (auto f = field.find("scale")) state.scale = stated(*f);
  if (auto f = field.find("o")) state.o = stated_list(*f);
  return state;
}

std::string list_text(const std::vector<std::string>& list) {
  std::string text = "[";
  for (const std::string& s : list) text += (text.size() > 1 ? ", " : "") + json_string(s);
  return text + "]";
}

std::string state_text(const ExpectedState& s) {
  std::string text = "{\"row\": " + std::to_string(s.row) + ", \"block\": " + std::to_string(s.block);
  if (!s.m.empty()) text += ", \"m\": " + json_string(s.m);
  if (!s.l.empty()) text += ", \"l\": " + json_string(s.l);
  if (!s.scale.empty()) text += ", \"scale\": " + json_string(s.scale);
  if (!s.o.empty()) text += ", \"o\": " + list_text(s.o);
  return text + "}";
}

}  // namespace

Expected read_expected(const Field& field) {
  field.only({"source", "states", "o", "lse", "p"});
  Expected e;
  if (auto f = field.find("source")) e.source = f->text();
  if (auto f = field.find("states"))
    for (size_t i = 0; i < f->size(); ++i) e.states.push_back(read_state(f->item(i)));
  if (auto f = field.find("o")) e.o = stated_rows(*f);
  if (auto f = field.find("lse")) e.lse = stated_list(*f);
  if (auto f = field.find("p")) e.p = stated_rows(*f);
  return e;
}

std::string expected_text(const Expected& e, const std::string& indent) {
  const bool lines = !indent.empty();
  const std::string inner = lines ? "\n" + indent + indent : "";
  const auto rows = [&](const std::vector<std::string>& items) {
    std::string text = "[";
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) text += lines ? "," : ", ";
      if (lines) text += inner + indent;
      text += items[i];
    }
    return text + (items.empty() ? "" : inner) + "]";
  };
  const auto lists = [&](const std::vector<std::vector<std::string>>& values) {
    std::vector<std::string> items;
    for (const auto& v : values) items.push_back(list_text(v));
    return rows(items);
  };
  std::vector<std::string> members;
  if (!e.source.empty()) members.push_back("\"source\": " + json_string(e.source));
  if (!e.states.empty()) {
    std::vector<std::string> items;
    for (const ExpectedState& s : e.states) items.push_back(state_text(s));
    members.push_back("\"states\": " + rows(items));
  }
  if (!e.o.empty()) members.push_back("\"o\": " + lists(e.o));
  if (!e.lse.empty()) members.push_back("\"lse\": " + list_text(e.lse));
  if (!e.p.empty()) members.push_back("\"p\": " + lists(e.p));
  std::string text = "{";
  for (size_t i = 0; i < members.size(); ++i) {
    if (i > 0) text += lines ? "," : ", ";
    text += inner + members[i];
  }
  return text + (lines && !members.empty() ? "\n" + indent : "") + "}";
}

}  // namespace attest
