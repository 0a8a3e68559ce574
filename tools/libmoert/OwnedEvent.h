//===- OwnedEvent.h - An event of moert.h and its memory --------*- C++ -*-===//

#ifndef MOE_TOOLS_LIBMOERT_OWNEDEVENT_H
#define MOE_TOOLS_LIBMOERT_OWNEDEVENT_H

#include "runtime/moert.h"
#include "runtime/serve/api/ChatCall.h"

#include <string>
#include <vector>

namespace moert::capi {

class OwnedEvent {
public:
  /// A piece of `choice`, which has it already.
  OwnedEvent(const Delta &delta, const Choice &choice);
  /// The end of `choice`, which has a reason; `failure` says why it is not
  /// complete.
  OwnedEvent(const Choice &choice, const Status &failure);

  /// Sets the end's results.
  void setResults(int32_t stop, std::vector<int32_t> tokens,
                  const GenerationStats &stats, std::vector<float> embedding);

  /// Valid until this is moved or destroyed.
  const moert_event &view();

private:
  moert_event event_ = {};
  std::string text_, id_, error_, remedy_;
  std::vector<TokenLogprob> logprobs_;
  std::vector<moert_logprob> views_;
  /// Memory that `views_` refers to.
  std::vector<std::vector<moert_alternative>> tops_;
  std::vector<int32_t> tokens_;
  std::vector<float> embedding_;
  moert_generation_stats stats_ = {};
};

} // namespace moert::capi

#endif // MOE_TOOLS_LIBMOERT_OWNEDEVENT_H
