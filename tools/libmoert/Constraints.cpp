// Functions of constraints.
#include "runtime/serve/api/CommonFields.h"
#include "tools/libmoert/Handles.h"
#include "tools/libmoert/Requests.h"

using namespace moert;
using namespace moert::capi;

namespace {
using Json = nlohmann::ordered_json;

/// Reads a constraint as requests have it, in the field for its kind.
StatusOr<AnswerFormat> compile(int32_t kind, std::string_view text) {
  AnswerFormat format;
  auto read = [&](const char *name, const Json &value) {
    Problem problem;
    Json whole = {{name, value}};
    Field body(whole, problem);
    Field schema = body["schema"];
    if (!schema || schema.object())
      format =
          readGrammar(schema, body["grammar"], body["regex"], body["choices"]);
    return problem.error ? Status(StatusCode::Usage, problem.error->message)
                         : Status::ok();
  };
  auto readParsed = [&](const char *name) -> Status {
    StatusOr<Json> json = parseJson(name, text, kMostRequestNesting);
    if (!json)
      return Status(StatusCode::Usage, json.status().message());
    return json->is_null()
               ? Status(StatusCode::Usage, std::string(name) + " is null")
               : read(name, *json);
  };
  switch (kind) {
  case MOERT_JSON_SCHEMA:
    MOE_RETURN_IF_ERROR(readParsed("schema"));
    return format;
  case MOERT_CHOICES:
    MOE_RETURN_IF_ERROR(readParsed("choices"));
    return format;
  case MOERT_GBNF:
    MOE_RETURN_IF_ERROR(read("grammar", std::string(text)));
    return format;
  case MOERT_REGEX:
    MOE_RETURN_IF_ERROR(read("regex", std::string(text)));
    return format;
  default:
    return Status(StatusCode::Usage, "kind is not a moert_constraint_kind");
  }
}
} // namespace

moert_status moert_constraint_create(moert_engine *handle, int32_t kind,
                                     const char *text, size_t bytes,
                                     moert_constraint **constraint) {
  return guarded(handle, [&]() -> Status {
    if ((!text && bytes) || !constraint)
      return nullPointer();
    MOE_ASSIGN_OR_RETURN(AnswerFormat format, compile(kind, {text, bytes}));
    *constraint = new moert_constraint{std::move(format)};
    return Status::ok();
  });
}

void moert_constraint_destroy(moert_constraint *constraint) {
  delete constraint;
}
