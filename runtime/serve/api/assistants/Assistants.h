//===- Assistants.h - OpenAI's assistants, threads and runs -----*- C++ -*-===//
//
// An assistant is a set of instructions and tools; a thread is a conversation;
// a run lets an assistant answer in a thread. All are kept in the store, and
// belong to the key that made them.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_SERVE_API_ASSISTANTS_ASSISTANTS_H
#define MOE_RUNTIME_SERVE_API_ASSISTANTS_ASSISTANTS_H

#include "runtime/serve/api/StoredObjects.h"

namespace moert {

// Endpoints. The names of the path are ids, the thread's first.
void createAssistant(Exchange exchange);
void listAssistants(Exchange exchange);
void retrieveAssistant(Exchange exchange);
void modifyAssistant(Exchange exchange);
void deleteAssistant(Exchange exchange);

void createThread(Exchange exchange);
void retrieveThread(Exchange exchange);
void modifyThread(Exchange exchange);
void deleteThread(Exchange exchange);
void createThreadMessage(Exchange exchange);
void listThreadMessages(Exchange exchange);
void retrieveThreadMessage(Exchange exchange);
void modifyThreadMessage(Exchange exchange);
void deleteThreadMessage(Exchange exchange);

void createRun(Exchange exchange);
void createThreadAndRun(Exchange exchange);
void listRuns(Exchange exchange);
void retrieveRun(Exchange exchange);
void modifyRun(Exchange exchange);
void cancelRun(Exchange exchange);
void submitToolOutputs(Exchange exchange);
void listRunSteps(Exchange exchange);
void retrieveRunStep(Exchange exchange);

/// Ends the runs that were in progress when the server last ended. To be called
/// before the first request.
void endAbandonedRuns(const ApiSettings &settings);

// Parts that the endpoints share.

/// A new thread with the metadata of `body`.
nlohmann::ordered_json newThread(const Exchange &exchange, const Field &body);
/// A message that a client adds to a thread.
nlohmann::ordered_json newMessage(const Exchange &exchange,
                                  const std::string &thread,
                                  const Field &message);
/// The messages of a list, as objects for the store.
void addMessages(const Exchange &exchange, const std::string &thread,
                 const Field &list, std::vector<StoredObject> &objects);
/// A message for the store: lists are filtered by its run.
StoredObject storedMessage(const std::string &owner,
                           const nlohmann::ordered_json &message);

/// The run of a thread that is not over: null if there is none, nothing after
/// an error has been sent. One that waited too long for its tools is over.
std::optional<nlohmann::ordered_json> activeRun(const Exchange &exchange,
                                                const std::string &thread);
/// Fails if the thread has a run that is not over.
bool isFree(const Exchange &exchange, const std::string &thread);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_ASSISTANTS_ASSISTANTS_H
