// Is a file a report? Apart from the rest, for the validator's headers take long to compile.
#include "cli/report/schema.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "cli/report/assets.h"

namespace attest::cli {

std::string not_a_report(const std::string& text) {
  using valijson::adapters::NlohmannJsonAdapter;
  const nlohmann::json report = nlohmann::json::parse(text, nullptr, false);
  if (report.is_discarded()) return "it is no JSON";
  // The version first: another one has another schema.
  if (!report.is_object() || !report.contains("attest_report")) return "it has no attest_report";
  const nlohmann::json rules = nlohmann::json::parse(report_schema());
  if (const auto& version = rules["properties"]["attest_report"]["const"]; report["attest_report"] != version)
    return fmt::format("attest_report: version {}, this attest reads {}", report["attest_report"].dump(), version.dump());
  valijson::Schema schema;
  valijson::SchemaParser().populateSchema(NlohmannJsonAdapter(rules), schema);
  valijson::ValidationResults results;
  if (valijson::Validator().validate(schema, NlohmannJsonAdapter(report), &results)) return "";
  // The first complaint is about the outermost value, the last about the field itself.
  std::string where, what = "it does not follow the schema";
  for (valijson::ValidationResults::Error error; results.popError(error);) {
    std::string path;
    for (const std::string& part : error.context) path += part == "<root>" ? "" : part;
    if (path.size() >= where.size()) {
      where = path;
      what = error.description;
    }
  }
  return (where.empty() ? "" : where + ": ") + what;
}

}  // namespace attest::cli
