//===- Sequence.h - Tokens and their cache ----------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_ENGINE_SEQUENCE_H
#define MOE_RUNTIME_ENGINE_SEQUENCE_H

#include "runtime/base/OutputTarget.h"
#include "runtime/cache/StatePool.h"

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moert {

class Engine;

struct SequenceOptions {
  /// Takes the cache of tokens that another sequence began with instead of
  /// computing it, and offers its own.
  bool sharePrefixes = true;
};

/// A text that an engine works on: its tokens, the pages of the cache that hold
/// their keys and values, and the state of layers that keep one instead.
/// Destroy it before its engine; use both from one thread at a time.
class Sequence {
public:
  Sequence(Sequence &&other) noexcept;
  Sequence &operator=(Sequence &&other) noexcept;
  ~Sequence();

  /// Tokens in the cache.
  int32_t position() const { return int32_t(tokens_.size()); }
  std::span<const int32_t> tokens() const { return tokens_; }

  /// Forgets all tokens from `position` on, at most the current one. Layers
  /// with a state go back to a checkpoint and, in the next step, evaluate again
  /// what is behind it, unless rings of rows still hold it (StatePool.h).
  Status rewind(int32_t position);

  /// Another with the same tokens. They share pages until one of them writes.
  Sequence fork() const;

  /// Writes tokens and cache to a file that Engine::restore() reads. Fails as
  /// OutputFile does.
  Status save(OutputTarget target) const;
  /// The same by Engine::outputRule(): an earlier session is replaced, and no
  /// other file.
  Status save(const std::string &path) const;

  /// When set by another thread or a signal handler, steps of this sequence end
  /// with Cancelled. Null for none; must outlive the sequence's use of it.
  void setCancel(const std::atomic<bool> *cancel) { cancel_ = cancel; }

private:
  friend class Engine;
  Sequence(Engine &engine, SequenceOptions options)
      : engine_(&engine), options_(options) {}

  bool isCancelled() const {
    return cancel_ && cancel_->load(std::memory_order_relaxed);
  }
  /// Releases the pages behind those of its tokens.
  void trim();
  /// Gives its state back.
  void dropState();
  /// Likewise if it has seen more than its tokens, and does not hold what is
  /// needed to go on from them.
  void dropStaleState();

  Engine *engine_;
  SequenceOptions options_;
  std::vector<int32_t> tokens_, pages_;
  size_t published_ = 0; ///< Its first pages that others can find.
  /// Its slot of the StatePool, whose state is the one after all its tokens;
  /// kNone: that one has to be made (Engine::catchUp()).
  int32_t state_ = StatePool::kNone;
  const std::atomic<bool> *cancel_ = nullptr;
};

} // namespace moert

#endif // MOE_RUNTIME_ENGINE_SEQUENCE_H
