//===- Sequence.h - Tokens and their cache ----------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_ENGINE_SEQUENCE_H
#define MOE_RUNTIME_ENGINE_SEQUENCE_H

#include "runtime/base/OutputTarget.h"
#include "runtime/cache/StatePool.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace moert {

class Engine;

struct SequenceOptions {
  /// Reuse cached pages of other sequences that begin with the same tokens, and
  /// publish this sequence's pages.
  bool sharePrefixes = true;
  /// Pages are shared with sequences of the same group alone; at least 0.
  int32_t group = 0;
};

/// The checked content of a file that Sequence::save() wrote, for
/// Engine::restore().
class SavedSequence {
public:
  std::span<const uint8_t> bytes() const {
    return {reinterpret_cast<const uint8_t *>(bytes_.data()), bytes_.size()};
  }

private:
  friend class Engine;
  std::string bytes_;
};

/// A text that an engine works on: its tokens, the pages of the cache that hold
/// their keys and values, and the state of layers that keep a state instead. A
/// sequence must be destroyed before its engine and used from one thread at a
/// time.
class Sequence {
public:
  Sequence(Sequence &&other) noexcept;
  Sequence &operator=(Sequence &&other) noexcept;
  ~Sequence();

  const SequenceOptions &options() const { return options_; }
  /// Number of tokens in the cache.
  int32_t position() const { return int32_t(tokens_.size()); }
  std::span<const int32_t> tokens() const { return tokens_; }

  /// Removes all tokens from `position` on; `position` is at most the current
  /// one. Layers with a state return to a checkpoint, and the next step
  /// evaluates the tokens after it again, unless ring buffers still hold them
  /// (StatePool.h).
  Status rewind(int32_t position);

  /// Returns a sequence with the same tokens. The two share each page until one
  /// of them writes to it.
  Sequence fork() const;

  /// Writes tokens and cache to a file for Engine::restore(). Returns the
  /// errors of OutputFile.
  Status save(OutputTarget target) const;
  /// Writes to `path` under Engine::outputRule(): only an earlier saved session
  /// may be replaced.
  Status save(const std::string &path) const;
  /// Passes the content of such a file to `out`, in pieces. Returns its first
  /// error and those of devices.
  Status
  write(const std::function<Status(std::span<const uint8_t>)> &out) const;
  /// Bytes of the file that save() writes.
  uint64_t savedBytes() const;

  /// Sets a flag that another thread or a signal handler may set to end steps
  /// of this sequence with Cancelled. Null removes it. It must outlive its use.
  void setCancel(const std::atomic<bool> *cancel) { cancel_ = cancel; }

private:
  friend class Engine;
  Sequence(Engine &engine, SequenceOptions options)
      : engine_(&engine), options_(options) {}

  bool isCancelled() const {
    return cancel_ && cancel_->load(std::memory_order_relaxed);
  }
  /// Releases the pages after those of its tokens.
  void trim();
  /// Releases its state.
  void dropState();
  /// Releases its state if that has seen more than the sequence's tokens and no
  /// longer holds the data to continue from them.
  void dropStaleState();

  Engine *engine_;
  SequenceOptions options_;
  std::vector<int32_t> tokens_, pages_;
  /// Number of leading pages that other sequences can find.
  size_t published_ = 0;
  /// Slot in the StatePool with the state after all tokens; kNone: the state
  /// has to be restored (Engine::restoreState()).
  int32_t state_ = StatePool::kNone;
  const std::atomic<bool> *cancel_ = nullptr;
};

} // namespace moert

#endif // MOE_RUNTIME_ENGINE_SEQUENCE_H
