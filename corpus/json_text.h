// json_text.h: pieces of JSON text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace attest {

// `text` as a JSON string; bytes that are no UTF-8 become U+FFFD.
inline std::string json_string(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace attest
