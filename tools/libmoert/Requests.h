//===- Requests.h - JSON that callers of moert.h pass -----------*- C++ -*-===//

#ifndef MOE_TOOLS_LIBMOERT_REQUESTS_H
#define MOE_TOOLS_LIBMOERT_REQUESTS_H

#include "runtime/base/JsonPlace.h"
#include "runtime/serve/api/ApiSettings.h"
#include "runtime/serve/api/ChoiceStream.h"
#include "runtime/serve/api/Fields.h"

#include <functional>
#include <string_view>

namespace moert::capi {

/// Parses JSON text, which errors call `name`, and hands it to `read`. Returns
/// the first problem as Usage.
inline Status readJson(std::string_view name, std::string_view text,
                       const std::function<void(const Field &)> &read) {
  StatusOr<nlohmann::ordered_json> json =
      parseJson(name, text, kMostRequestNesting);
  if (!json)
    return Status(StatusCode::Usage, json.status().message());
  Problem problem;
  read(Field(*json, problem));
  return problem.error ? Status(StatusCode::Usage, problem.error->message)
                       : Status::ok();
}

} // namespace moert::capi

#endif // MOE_TOOLS_LIBMOERT_REQUESTS_H
