//===- StoredObjects.h - Objects that clients name by ids -------*- C++ -*-===//
//
// What endpoints that create, list, change and delete objects have in common.
// Functions that return nothing, or false, have answered with an error.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_SERVE_API_STOREDOBJECTS_H
#define MOE_RUNTIME_SERVE_API_STOREDOBJECTS_H

#include "runtime/serve/api/ApiContext.h"

#include <optional>
#include <string>
#include <vector>

namespace moert {

/// An object for the store, with its parent and its status. JSON has its id and
/// when it was created.
StoredObject storedObject(std::string kind, const std::string &owner,
                          const nlohmann::ordered_json &json,
                          std::string parent = {}, std::string status = {});

/// Returns the client's error for a failure of the store.
ApiError storeError(const Status &status);

/// The request's object; {} for a request without a body.
std::optional<nlohmann::ordered_json> bodyObject(Exchange &exchange);

/// The object of this kind and id. With a parent it must be a part of that.
std::optional<nlohmann::ordered_json>
findObject(const Exchange &exchange, const std::string &kind,
           const std::string &id, const std::string &parent = {});

/// Adds the objects, all or none.
bool addObjects(const Exchange &exchange,
                const std::vector<StoredObject> &objects);
/// Stores `json` in the place of the object with its id, whose status stays.
bool changeObject(const Exchange &exchange, const nlohmann::ordered_json &json,
                  const std::string &status = {});

/// Answers with a part of a list, by the query's limit, order, after and
/// before.
void answerList(const Exchange &exchange, StoreQuery query);
/// Answers with a list of these items.
void sendList(const Exchange &exchange, nlohmann::ordered_json items,
              bool hasMore);
/// Removes an object and says so: `name` is what it was.
void answerDelete(const Exchange &exchange, const std::string &kind,
                  const std::string &id, const std::string &name,
                  const std::string &parent = {});

/// `metadata`: up to 16 texts by names; {} if it is absent.
nlohmann::ordered_json readMetadata(const Field &body);
/// Returns the metadata of a request's body, or nothing after an error has been
/// sent.
std::optional<nlohmann::ordered_json>
metadataOf(const Exchange &exchange, const nlohmann::ordered_json &body);
/// Answers with the object after its metadata were replaced by the request's.
void answerMetadataChange(Exchange &exchange, nlohmann::ordered_json json,
                          const std::string &status = {});

/// Returns `prefix` with random digits.
std::string newId(const Exchange &exchange, std::string_view prefix);
int64_t secondsNow(const Exchange &exchange);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_STOREDOBJECTS_H
