/* moert.h - The runtime as a C library.
 *
 * An engine runs one plan, which `moec compile` wrote. A scheduler generates
 * many texts on it at the same time, as moert serve does: a program submits
 * prompts or conversations and waits for events. A program that chooses tokens
 * itself has sequences, which are the texts that an engine works on, samplers,
 * which choose tokens, and replies, which turn tokens into text. Constraints
 * hold texts to a JSON schema or a grammar.
 *
 * Errors. Functions that can fail return a moert_status. After a failure
 * nothing has changed, unless the function's comment says otherwise.
 * moert_last_error() returns the message of the last failure, and
 * moert_last_remedy() the command line that corrects it, if there is one. A
 * null pointer or null handle where none is allowed is MOERT_USAGE. No C++
 * exception crosses this interface. The library installs no signal handlers: if
 * another program truncates a weights file while it is mapped, the process
 * receives SIGBUS.
 *
 * Threads. An engine and its sequences, samplers and replies may move between
 * threads, but only one thread may use them at a time. The exception is
 * moert_cancel(). A scheduler has a thread of its own; functions of schedulers
 * and generations may be called from any thread, also while another thread uses
 * the engine. Constraints do not change, so that threads may share them.
 * Different engines are independent of each other.
 *
 * Ownership. The caller owns what a *_create(), _fork() or _restore() function
 * returns, and must destroy it with the *_destroy() function of its kind before
 * the engine. Arguments are read during the call and not kept. A string that a
 * function returns belongs to the engine; the function's comment says how long
 * it is valid.
 *
 * Texts are UTF-8. A text that is passed with its length in bytes needs no
 * terminating NUL and may contain NULs. Tokens are indices into a model's
 * vocabulary, from 0.
 *
 * Results of unknown length are written to a buffer of the caller that has room
 * for `capacity` elements; *count receives the number of elements. If that is
 * more than `capacity`, the call fails with MOERT_USAGE, and nothing is written
 * to the buffer. To ask for the size, pass a capacity of 0 and a null buffer.
 *
 * Versions. Structs that begin with `size` may get more fields at their end:
 * set `size` to sizeof the struct, and set fields of options that you do not
 * use to 0. An older library ignores fields of options that it does not know,
 * and does not write fields of results that it does not know; a newer library
 * does not write fields that an older program has no room for. Structs without
 * `size` do not change, except that moert_event, which only the library
 * creates, may grow. The name of the shared library, libmoert.so.0, changes
 * with the major version. In 0.x, MOERT_ABI_VERSION may also grow with a minor
 * version: a program that loads the library at run time must compare it with
 * moert_abi_version(). New values of enums are added at the end; existing
 * values never change.
 */

#ifndef MOERT_H
#define MOERT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MOERT_API __attribute__((visibility("default")))
#else
#define MOERT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when programs that were built with an earlier version no longer work.
 */
#define MOERT_ABI_VERSION 3

MOERT_API int32_t moert_abi_version(void); /* the library's own */
MOERT_API const char *moert_version(void); /* "0.1.0"; always valid */

typedef enum moert_status {
  MOERT_OK = 0,
  MOERT_INTERNAL = 1,      /* a bug in this library */
  MOERT_USAGE = 2,         /* an argument is wrong */
  MOERT_INVALID_FILE = 3,  /* a plan or model file is malformed */
  MOERT_IO = 4,            /* the operating system refused */
  MOERT_DOES_NOT_FIT = 5,  /* memory, context or cache cannot hold */
  MOERT_UNSUPPORTED = 6,   /* well-formed, but not implemented */
  MOERT_WRONG_MACHINE = 7, /* the plan is for another CPU, GPU or model */
  MOERT_CANCELLED = 130
} moert_status;

typedef struct moert_engine moert_engine;
typedef struct moert_sequence moert_sequence;
typedef struct moert_sampler moert_sampler;
typedef struct moert_reply moert_reply;
typedef struct moert_constraint moert_constraint;
typedef struct moert_scheduler moert_scheduler;
typedef struct moert_generation moert_generation;

/*===-- Engines -----------------------------------------------------------===*/

/* Returns an engine without a plan, or NULL if memory is exhausted. */
MOERT_API moert_engine *moert_create(void);
/* Destroys an engine, all of whose other handles must already be destroyed.
 * NULL is allowed. */
MOERT_API void moert_destroy(moert_engine *engine);

/* Returns the message of the last failure of the engine, its sequences,
 * samplers, replies or constraints; "" before any failure. The string is valid
 * until the next call with any of these. */
MOERT_API const char *moert_last_error(const moert_engine *engine);

/* Returns the command line that corrects this failure, or "" if there is none.
 * It is for a POSIX shell in the current folder. The word MODEL in it stands
 * for a model file whose path only the user knows. The string is valid as long
 * as the message. */
MOERT_API const char *moert_last_remedy(const moert_engine *engine);

typedef struct moert_open_options {
  size_t size;
  int32_t threads;          /* at most; 0: no limit */
  const char *model_path;   /* where the model file is now, or NULL */
  const char *weights_path; /* where the weights file is now, or NULL */
  int32_t allow_paging;     /* 0: fail with DOES_NOT_FIT if memory cannot hold
                               all weights; 1: allow it, although weights are
                               then read from the disk again and again */
  int32_t rung;             /* rung of a ladder, from 1; 0: choose by `context`
                               and free memory */
  int32_t context;          /* tokens that the rung, or the plan, must have
                               room for; 0: as many as memory allows */
} moert_open_options;

/* Opens a plan and closes the previous one. Fails with USAGE, and keeps the
 * previous plan, if sequences, replies or a scheduler of it exist; after any
 * other failure no plan is open. `options` may be NULL. */
MOERT_API moert_status moert_open(moert_engine *engine, const char *plan_path,
                                  const moert_open_options *options);

/* These functions return limits of the plan, or 0 if no plan is open. */
/* The number of logits per token. */
MOERT_API int32_t moert_vocab(const moert_engine *engine);
/* The most tokens that a sequence can have. */
MOERT_API int32_t moert_context(const moert_engine *engine);
/* The most sequences that one step can append a token to. */
MOERT_API int32_t moert_batch(const moert_engine *engine);
/* The most prompt tokens that one step can process. */
MOERT_API int32_t moert_ubatch(const moert_engine *engine);
/* The number of elements of a hidden state, and of an embedding. */
MOERT_API int32_t moert_hidden(const moert_engine *engine);

/*===-- What is open ------------------------------------------------------===*/

typedef struct moert_model_info {
  size_t size;
  /* Strings are valid until the plan is closed, and "" if the model file does
   * not have them. */
  const char *name;         /* the name in the model file */
  const char *architecture; /* the GGUF name, as in "deepseek2" */
  const char *target;       /* the plan's machine, as in "4090+xeon" */
  const char *compiler;     /* wrote the plan, as in "moec 0.1.0" */
  int64_t parameters;       /* number in the whole model */
  uint64_t weight_bytes;    /* all weights that the plan reads */
  int32_t layers, hidden;   /* `hidden`: size of the residual stream */
  int32_t experts;          /* per layer; 0: a dense model */
  int32_t experts_used;     /* per token and layer */
  int32_t trained_context;  /* in tokens; 0: unknown */
  int32_t sequences;        /* the most that are decoded together */
  int32_t rung, rungs;      /* of a ladder: number from 1, and count; 0: none */
  int32_t threads;          /* compute threads, with the caller's */
  int32_t has_tokenizer;    /* 0: moert only works on token ids */
  int32_t has_chat_template;
  int32_t tokens;   /* in the tokenizer; further logits are unused */
  int32_t bos, eos; /* tokens that begin and end texts; -1: none */
} moert_model_info;

/* Describes the open plan. */
MOERT_API moert_status moert_get_model_info(moert_engine *engine,
                                            moert_model_info *info);

/* Returns whether this token ends generation, because it ends a text or a turn
 * of a conversation. Returns 0 if the plan has no tokenizer. */
MOERT_API int32_t moert_is_end(const moert_engine *engine, int32_t token);

typedef enum moert_device_kind {
  MOERT_CPU = 0,
  MOERT_CUDA = 1
} moert_device_kind;

/* The memory of one device, in bytes. All of it is reserved when a plan is
 * opened. */
typedef struct moert_device_memory {
  size_t size;
  const char *name; /* "cpu0", "gpu0"; valid until the plan is closed */
  int32_t kind;     /* moert_device_kind */
  uint64_t weights; /* CPU: mapped from files, so the system may page */
  uint64_t kv;      /* the cache of all sequences */
  uint64_t activations;
  uint64_t workspace; /* CPU: buffers of threads; GPU: memory that kernels
                         share in turn, constants and parameters */
  uint64_t pinned;    /* host memory that is pinned for a GPU */
} moert_device_memory;

/* Returns the number of devices of the plan, or 0 if no plan is open. */
MOERT_API int32_t moert_devices(const moert_engine *engine);
/* Describes device number `device`, from 0. Fails with USAGE if there is none
 * with this number. */
MOERT_API moert_status moert_get_device_memory(moert_engine *engine,
                                               int32_t device,
                                               moert_device_memory *memory);

/* The KV cache. It consists of pages, which all sequences share. */
typedef struct moert_cache_info {
  size_t size;
  int32_t page_tokens; /* tokens per page */
  int32_t pages;
  int32_t free_pages; /* pages that no sequence uses; some may still have a
                         prefix that a new sequence can reuse */
  int32_t sequences;  /* sequences that exist now */
} moert_cache_info;

MOERT_API moert_status moert_get_cache_info(moert_engine *engine,
                                            moert_cache_info *info);

/*===-- Text and tokens ---------------------------------------------------===*/
/* These functions fail with UNSUPPORTED if the plan has no tokenizer. */

/* Converts `bytes` bytes of text to tokens. If `add_bos` is not 0, the first
 * token is the one that begins texts. Names of special tokens in the text
 * become these tokens. */
MOERT_API moert_status moert_tokenize(moert_engine *engine, const char *text,
                                      size_t bytes, int add_bos, int32_t *ids,
                                      size_t capacity, size_t *count);

enum {
  MOERT_CONTROL_NAMES = 1, /* write names of control tokens */
  MOERT_RAW_BYTES = 2      /* return the bytes of the tokens unchanged;
                              without this, bytes that are not UTF-8, such as
                              half a character, become U+FFFD */
};

/* Converts `count` tokens to text without a terminating NUL. `flags` is a
 * combination of the values above. Fails with USAGE for a token outside the
 * vocabulary. To show tokens while they are generated, use a moert_reply,
 * because a character may consist of several tokens. */
MOERT_API moert_status moert_detokenize(moert_engine *engine,
                                        const int32_t *ids, size_t count,
                                        uint32_t flags, char *text,
                                        size_t capacity, size_t *bytes);

/*===-- Conversations -----------------------------------------------------===*/

/* A message of a conversation; both strings are NUL-terminated. */
typedef struct moert_message {
  const char *role; /* "system", "user", "assistant", or the template's own */
  const char *content;
} moert_message;

typedef enum moert_thinking {
  MOERT_THINK_DEFAULT = 0, /* the template decides */
  MOERT_THINK_OFF = 1,     /* ask it not to reason */
  MOERT_THINK_FORCED = 2   /* begin the reply inside its reasoning */
} moert_thinking;

typedef struct moert_chat_options {
  size_t size;
  int32_t thinking;   /* moert_thinking */
  int32_t no_special; /* names of special tokens in messages are plain text */
  /* A JSON object of variables that the template sees, such as tools, or NULL.
   * Where `messages` is a member, that are the messages, and the array must be
   * empty. */
  const char *variables;
  /* A Jinja template instead of the model's, or NULL. */
  const char *chat_template;
} moert_chat_options;

/* Renders the conversation as text, up to the beginning of the reply, without a
 * terminating NUL. `options` may be NULL. Fails with UNSUPPORTED if neither the
 * model nor the options have a chat template, and with USAGE if the template
 * rejects the messages. */
MOERT_API moert_status moert_chat_text(moert_engine *engine,
                                       const moert_message *messages,
                                       size_t message_count,
                                       const moert_chat_options *options,
                                       char *text, size_t capacity,
                                       size_t *bytes);
/* Renders the conversation in the same way and converts it to tokens: a prompt.
 */
MOERT_API moert_status moert_chat_tokens(moert_engine *engine,
                                         const moert_message *messages,
                                         size_t message_count,
                                         const moert_chat_options *options,
                                         int32_t *ids, size_t capacity,
                                         size_t *count);

/*===-- Sequences ---------------------------------------------------------===*/

typedef struct moert_sequence_options {
  size_t size;
  int32_t private_prefix; /* 0: share the cache of a common prefix with other
                             sequences; 1: do not */
} moert_sequence_options;

/* Creates an empty sequence in *sequence. `options` may be NULL. */
MOERT_API moert_status moert_sequence_create(
    moert_engine *engine, const moert_sequence_options *options,
    moert_sequence **sequence);
/* Destroys a sequence. NULL is allowed here and in the other destroy functions.
 */
MOERT_API void moert_sequence_destroy(moert_sequence *sequence);

/* Returns the number of tokens in the cache. */
MOERT_API int32_t moert_sequence_position(const moert_sequence *sequence);

/* Removes all tokens from `position` on; 0 empties the sequence. */
MOERT_API moert_status moert_sequence_rewind(moert_sequence *sequence,
                                             int32_t position);

/* Creates another sequence with the same tokens. Both share the pages of these
 * tokens. */
MOERT_API moert_status moert_sequence_fork(moert_sequence *sequence,
                                           moert_sequence **fork);

/* Save the tokens and the cache of a sequence to a file, and restore them with
 * the same plan. Saving replaces an earlier saved sequence or an empty file;
 * for any other existing file it fails with USAGE. Restoring fails with
 * INVALID_FILE for a damaged file, and with WRONG_MACHINE for a file of another
 * plan. */
MOERT_API moert_status moert_sequence_save(moert_sequence *sequence,
                                           const char *path);
MOERT_API moert_status moert_sequence_restore(
    moert_engine *engine, const char *path,
    const moert_sequence_options *options, moert_sequence **sequence);

/* Cancels the work of a running call on this sequence; the call may go on with
 * other sequences. May be called from any thread and from a signal handler. */
MOERT_API void moert_cancel(moert_sequence *sequence);

/*===-- Work --------------------------------------------------------------===*/

/* Appends tokens to the sequence. If `logits` is not NULL, writes the logits
 * after the last token: moert_vocab() floats, or those of the classifier if
 * the model ends in one. Fails with USAGE for a token outside the vocabulary,
 * and with DOES_NOT_FIT if the context is full or no page is free. */
MOERT_API moert_status moert_evaluate(moert_sequence *sequence,
                                      const int32_t *ids, size_t count,
                                      float *logits);

/* The tokens that a step is to append to one sequence, and the results. */
typedef struct moert_request {
  moert_sequence *sequence;
  const int32_t *ids; /* tokens to append */
  size_t count;       /* at least 1 */
  float *logits;      /* [vocab], written when all were appended; may be NULL */
  size_t taken;       /* out: how many were appended */
  moert_status status; /* out: what stopped this sequence */
} moert_request;

/* Runs one step. Requests with one remaining token are decoded together; the
 * others follow in their order, with at most moert_ubatch() tokens in all. Each
 * request must be for a different sequence. If a sequence fails, its request
 * has the status, moert_last_error() returns the message of the first one, and
 * the other sequences go on: the call then returns OK. It only fails if the
 * failure concerns all sequences. */
MOERT_API moert_status moert_step(moert_engine *engine, moert_request *requests,
                                  size_t count);

/*===-- Constraints -------------------------------------------------------===*/

typedef enum moert_constraint_kind {
  MOERT_JSON_SCHEMA = 0, /* "{}": any JSON value */
  MOERT_GBNF = 1,        /* a grammar in llama.cpp's notation */
  MOERT_REGEX = 2,       /* matches the whole text */
  MOERT_CHOICES = 3      /* a JSON list of texts */
} moert_constraint_kind;

/* Compiles a constraint of this moert_constraint_kind from `bytes` bytes of
 * text; any number of generations and samplers may have it. Needs no open plan.
 * Fails with USAGE, naming the place, for a text that is malformed, too large
 * when it is compiled, or has parts that are not supported: nothing is ignored.
 */
MOERT_API moert_status moert_constraint_create(moert_engine *engine,
                                               int32_t kind, const char *text,
                                               size_t bytes,
                                               moert_constraint **constraint);
/* May be called while generations and samplers have it. */
MOERT_API void moert_constraint_destroy(moert_constraint *constraint);

/*===-- Choosing tokens ---------------------------------------------------===*/

typedef struct moert_sampler_options {
  size_t size;
  float temperature;     /* 0: the most likely token */
  int32_t top_k;         /* keep the k most likely tokens; 0: all */
  float top_p;           /* above 0 and at most 1; 1: all */
  float min_p;           /* 0 to 1; 0: all */
  float repeat_penalty;  /* above 0; 1: no penalty */
  int32_t repeat_last_n; /* tokens that are penalised; at most 1048576 */
  uint64_t seed;
  /* Subtracted from the logits of generated tokens: once, and for each time. */
  float presence_penalty, frequency_penalty; /* 0: none */
  /* Added to the logits of tokens: arrays of `bias_count`. */
  const int32_t *bias_tokens;
  const float *biases;
  size_t bias_count;
} moert_sampler_options;

/* Sets the defaults of moert run in the first options->size bytes. Set `size`
 * first. */
MOERT_API void moert_default_sampler_options(moert_sampler_options *options);

/* Creates a sampler. `options` may be NULL. Fails with USAGE for values outside
 * their ranges. */
MOERT_API moert_status
moert_sampler_create(moert_engine *engine, const moert_sampler_options *options,
                     moert_sampler **sampler);
MOERT_API void moert_sampler_destroy(moert_sampler *sampler);

/* Records tokens of the text for the penalties: first those of the prompt, then
 * each chosen token. After moert_sampler_constrain(), fails with USAGE for a
 * token that the constraint does not allow; those before it were recorded. */
MOERT_API moert_status moert_sampler_accept(moert_sampler *sampler,
                                            const int32_t *ids, size_t count);
/* Chooses a token by the `count` logits that moert_evaluate() wrote. Does not
 * record the token: call moert_sampler_accept(). Fails with INTERNAL if a logit
 * is NaN, and with UNSUPPORTED if the constraint allows no token. */
MOERT_API moert_status moert_sampler_choose(moert_sampler *sampler,
                                            const float *logits, size_t count,
                                            int32_t *token);

/* From now on, moert_sampler_choose() chooses only tokens that the constraint
 * allows after those that are recorded; NULL ends that. Call it when the
 * tokens of the prompt have been recorded. In a conversation, `prompt` is the
 * text of `bytes` bytes that the reply follows, and reasoning before the answer
 * is free; NULL: the text follows the constraint from its first byte. Fails
 * with UNSUPPORTED if the plan has no tokenizer. The sampler then belongs to
 * the open plan, and must be destroyed before another is opened. */
MOERT_API moert_status moert_sampler_constrain(
    moert_sampler *sampler, const moert_constraint *constraint,
    const char *prompt, size_t bytes);
/* Returns whether the constraint's text is complete, and nothing can follow:
 * finish the reply with MOERT_STOP_END. */
MOERT_API int32_t moert_sampler_has_ended(const moert_sampler *sampler);

/* Save and restore the state of a sampler, without its constraint: its random
 * number generator, and the last repeat_last_n tokens that it accepted, the
 * oldest first. A sampler with the same options and this state makes the same
 * choices. */
MOERT_API moert_status moert_sampler_save(moert_sampler *sampler,
                                          uint64_t *random, int32_t *recent,
                                          size_t capacity, size_t *count);
MOERT_API moert_status moert_sampler_load(moert_sampler *sampler,
                                          uint64_t random,
                                          const int32_t *recent, size_t count);

/*===-- From tokens to a reply --------------------------------------------===*/
/* Replies are for programs that choose tokens themselves. A reply converts
 * tokens to whole characters, ends at stop strings, and separates reasoning
 * from the answer. */

typedef enum moert_stop_reason {
  MOERT_STOP_LENGTH = 0,   /* max_tokens */
  MOERT_STOP_END = 1,      /* the model ended its text */
  MOERT_STOP_STRING = 2,   /* one of `stops` */
  MOERT_STOP_CONTEXT = 3,  /* set by the caller: the context is full */
  MOERT_STOP_CANCELLED = 4 /* set by the caller */
} moert_stop_reason;

typedef struct moert_reply_options {
  size_t size;
  int32_t max_tokens;       /* -1: no limit */
  const char *const *stops; /* NUL-terminated, not empty; may be NULL */
  size_t stop_count;
  int32_t ignore_eos;
  int32_t is_chat; /* separate reasoning from the answer, without its marks */
  /* Tools that the reply may call, as a JSON list in OpenAI's form, or NULL:
   * calls in the form of the model's template are then separated from the
   * answer. Needs is_chat. */
  const char *tools;
} moert_reply_options;

typedef enum moert_event_kind {
  MOERT_EVENT_TEXT = 0,
  MOERT_EVENT_REASONING = 1,
  MOERT_EVENT_END = 2,            /* the last one */
  MOERT_EVENT_CALL = 3,           /* a call of a tool begins; text: its name */
  MOERT_EVENT_CALL_ARGUMENTS = 4, /* the next piece of its arguments' JSON */
  MOERT_EVENT_CALL_END = 5        /* its arguments are complete */
} moert_event_kind;

/* A token with the natural logarithm of its probability, as the model gives it
 * before sampling. */
typedef struct moert_alternative {
  int32_t token;
  float logprob;
} moert_alternative;

typedef struct moert_logprob {
  moert_alternative chosen;
  const moert_alternative *top; /* the most likely ones, descending */
  size_t top_count;
} moert_logprob;

/* Tokens and seconds of one generation. */
typedef struct moert_generation_stats {
  int32_t prompt_tokens;
  int32_t cached_tokens; /* of the prompt, that were not evaluated again */
  int32_t generated_tokens;
  int32_t drafted_tokens, accepted_tokens; /* of speculation */
  double queue_seconds, prompt_seconds, decode_seconds;
} moert_generation_stats;

/* Pointers are valid during the call that received it, or as long as
 * moert_generation_next() says; those without a value are NULL. */
typedef struct moert_event {
  int32_t kind;     /* moert_event_kind */
  const char *text; /* whole characters with a NUL after them; "" at the end */
  size_t bytes;
  int32_t reason; /* at the end: moert_stop_reason */

  int32_t call;   /* number of the call that the event belongs to, from 0 */
  const char *id; /* of MOERT_EVENT_CALL: names the call */
  /* The rest is set for events of schedulers alone. Of MOERT_EVENT_TEXT: the
   * tokens of the text, if they were asked for. */
  const moert_logprob *logprobs;
  size_t logprob_count;
  /* At the end: OK, or why the text is not complete, with the message and the
   * command that corrects it, or "". */
  moert_status status;
  const char *error, *remedy;
  int32_t stop;          /* at the end: index of the stop string, or -1 */
  const int32_t *tokens; /* at the end: all that were generated */
  size_t token_count;
  const moert_generation_stats *stats; /* at the end */
  /* At the end of what moert_submit_embedding() queued: moert_hidden() floats,
   * whose squares sum to 1. */
  const float *embedding;
  size_t embedding_count;
} moert_event;

/* Receives the events that a token causes. */
typedef void (*moert_event_callback)(void *user, const moert_event *event);

/* Creates a reply. `prompt` is the text of `bytes` bytes that the reply
 * follows; it may already have begun the reasoning. It may be NULL with 0
 * bytes. If `options` is NULL, only the model ends the reply. */
MOERT_API moert_status moert_reply_create(moert_engine *engine,
                                          const char *prompt, size_t bytes,
                                          const moert_reply_options *options,
                                          moert_reply **reply);
MOERT_API void moert_reply_destroy(moert_reply *reply);
/* Adds a token. Does nothing after the end. A call of a tool that the model
 * wrote wrongly ends the reply: then fails with UNSUPPORTED. */
MOERT_API moert_status moert_reply_push(moert_reply *reply, int32_t token,
                                        moert_event_callback callback,
                                        void *user);
/* Ends the reply with this moert_stop_reason. Does nothing if it has already
 * ended. */
MOERT_API moert_status moert_reply_finish(moert_reply *reply, int32_t reason,
                                          moert_event_callback callback,
                                          void *user);
/* Returns whether the reply accepts another token. */
MOERT_API int32_t moert_reply_takes_more(const moert_reply *reply);

/*===-- All in one --------------------------------------------------------===*/

typedef struct moert_generate_options {
  size_t size;
  int32_t max_tokens; /* -1: until the model ends its text */
  float temperature;  /* this and the next five: as in moert_sampler_options */
  int32_t top_k;
  float top_p;
  float min_p;
  float repeat_penalty;
  int32_t repeat_last_n;
  uint64_t seed;
  const char *const *stops; /* NUL-terminated, not empty; may be NULL */
  size_t stop_count;
  int32_t ignore_eos;
  float presence_penalty, frequency_penalty; /* as in moert_sampler_options */
  const int32_t *bias_tokens;
  const float *biases;
  size_t bias_count;
} moert_generate_options;

/* Sets the defaults of moert run in the first options->size bytes. Set `size`
 * first. */
MOERT_API void moert_default_generate_options(moert_generate_options *options);

/* Receives generated text: whole UTF-8 characters without a terminating NUL. A
 * non-zero result ends the generation. */
typedef int (*moert_text_callback)(void *user, const char *text, size_t bytes);

typedef struct moert_generate_stats {
  int32_t prompt_tokens, generated_tokens;
  double prompt_seconds, decode_seconds;
} moert_generate_stats;

/* Appends the prompt and generates a reply. Fails with CANCELLED if the
 * callback or moert_cancel() ended it. `options` and `stats` may be NULL. A
 * scheduler of the engine waits until it has ended, and the callback must not
 * use sequences meanwhile: submit the text to the scheduler instead. */
MOERT_API moert_status moert_generate(moert_sequence *sequence,
                                      const int32_t *prompt, size_t count,
                                      const moert_generate_options *options,
                                      moert_text_callback callback, void *user,
                                      moert_generate_stats *stats);

/*===-- Many texts at the same time ---------------------------------------===*/
/* A scheduler decodes as many texts together as moert_batch() says; others wait
 * in its queue. A step carries one token of each text and a bounded part of
 * others' prompts. What it knows of a prompt from an earlier text is not
 * evaluated again.
 *
 * Functions with a moert_scheduler or moert_generation may be called from any
 * thread. Their failures are those of the calling thread: */

/* Returns the message of the last failure of a function of schedulers or
 * generations on this thread, and the command line that corrects it; "" before
 * any failure, or if there is none. Valid until the thread's next call of such
 * a function. */
MOERT_API const char *moert_thread_error(void);
MOERT_API const char *moert_thread_remedy(void);

typedef enum moert_speculation {
  MOERT_SPECULATE_WHERE_PAYS = 0, /* measured while texts are generated */
  MOERT_SPECULATE_OFF = 1,
  MOERT_SPECULATE_ALWAYS = 2
} moert_speculation;

typedef struct moert_scheduler_options {
  size_t size; /* a field that is 0 has the default that its comment says */
  int32_t sequences;          /* most texts together; 0: moert_batch() */
  int32_t queue;              /* most texts that wait; 0: 128 */
  int32_t queue_per_client;   /* most that wait of one client; 0: 64 */
  int32_t running_per_client; /* most together of one client; 0: no limit */
  int32_t prefill_chunk;      /* most prompt tokens in a step beside texts;
                                 0: as step_factor allows */
  double step_factor;         /* such a step takes at most so many times one
                                 without prompts, above 1; 0: 4 */
  int32_t assumed_tokens;    /* reserved for texts without max_tokens; 0: 512 */
  int32_t kept_sequences;    /* finished texts to keep for prompts that go on
                                with them; 0: 64; -1: none */
  const char *store_folder;  /* keeps them after the process's end; NULL: not */
  uint64_t store_bytes;      /* of files in this folder; 0: 16 GiB */
  const char *chat_template; /* a Jinja template instead of the model's, for
                                moert_submit_chat(), or NULL */
  int32_t speculation; /* moert_speculation: whether tokens are drafted by what
                          followed in the text before; texts are the same */
} moert_scheduler_options;

/* Creates a scheduler on the open plan. An engine has at most one. While it
 * exists, work on the engine's sequences happens between its steps: each call
 * waits for a step, and the next step for the call. Pages that sequences hold
 * are not available to the scheduler, which gives up finished texts where a
 * sequence needs their pages. `options` may be NULL. Fails with UNSUPPORTED if
 * the plan has no tokenizer, and with IO if the folder cannot be used; the
 * message is that of the engine. */
MOERT_API moert_status moert_scheduler_create(
    moert_engine *engine, const moert_scheduler_options *options,
    moert_scheduler **scheduler);
/* Cancels all generations and waits for their ends. Their handles remain, with
 * the events that were not received yet. No other thread may use the scheduler
 * any more. */
MOERT_API void moert_scheduler_destroy(moert_scheduler *scheduler);

typedef struct moert_submit_options {
  size_t size;
  const char *client; /* whose share of the engine it uses; NULL: "" */
  int32_t priority;   /* of the client's generations, higher ones come first */
  const moert_constraint *constraint; /* NULL: none */
  void *user;                         /* for moert_generation_user() */
  /* The rest is not for moert_submit_chat(), whose request has it. */
  int32_t logprobs; /* 0: no probabilities; n: with n - 1 alternatives */
  int32_t is_chat;  /* separate reasoning from the answer */
} moert_submit_options;

/* Queues a text: `count` tokens, and what is generated after them. `generate`
 * and `options` may be NULL. Fails with USAGE if it can never run, with
 * DOES_NOT_FIT if the queue is full (see moert_scheduler_retry_after()), and
 * with CANCELLED after moert_scheduler_drain(). */
MOERT_API moert_status moert_submit(moert_scheduler *scheduler,
                                    const int32_t *ids, size_t count,
                                    const moert_generate_options *generate,
                                    const moert_submit_options *options,
                                    moert_generation **generation);

typedef enum moert_pooling {
  MOERT_POOL_DEFAULT = 0, /* as the model was trained for, or else the mean */
  MOERT_POOL_MEAN = 1,    /* of the hidden states of all tokens */
  MOERT_POOL_LAST = 2     /* the hidden state of the last token */
} moert_pooling;

/* Queues an embedding of `count` tokens, which has one event, the end. Of the
 * options, `client`, `priority` and `user` matter. Fails as moert_submit()
 * does, and with UNSUPPORTED if the plan gives no hidden states out or the
 * model has a pooling of another kind. */
MOERT_API moert_status moert_submit_embedding(
    moert_scheduler *scheduler, const int32_t *ids, size_t count,
    int32_t pooling, const moert_submit_options *options,
    moert_generation **generation);

/* Queues the reply in a conversation. `request` is `bytes` bytes of JSON, an
 * object in the form of OpenAI's /v1/chat/completions as moert serve takes it:
 * messages, tools, tool_choice, parallel_tool_calls, response_format,
 * reasoning_effort, chat_template_kwargs, max_tokens, temperature, top_p, seed,
 * stop, logprobs, ...; n must be 1. Names of special tokens in messages are
 * plain text. Fails as moert_submit() does, with USAGE naming the field that is
 * wrong, and with UNSUPPORTED if the model has no chat template. */
MOERT_API moert_status moert_submit_chat(moert_scheduler *scheduler,
                                         const char *request, size_t bytes,
                                         const moert_submit_options *options,
                                         moert_generation **generation);
/* Cancels the generation if it has not ended, without waiting for its end. No
 * other thread may use the handle any more. */
MOERT_API void moert_generation_destroy(moert_generation *generation);
/* Returns moert_submit_options.user. */
MOERT_API void *moert_generation_user(const moert_generation *generation);

/* Ends the generation within one step; its last event still comes. Does nothing
 * if it has ended. */
MOERT_API void moert_generation_cancel(moert_generation *generation);

/* Waits at most `timeout_ms` milliseconds for the next event; -1: without
 * limit. *event is NULL if none came, and after the end. The event is valid
 * until the next call with this generation, for which only one thread may wait
 * at a time. Returns OK also for the end of a generation that failed. */
MOERT_API moert_status moert_generation_next(moert_generation *generation,
                                             int32_t timeout_ms,
                                             const moert_event **event);

/* Waits in the same way until a generation of the scheduler has an event that
 * was not received, and returns it in *generation, or NULL if there is none.
 * Generations take turns. One may come before the call that submits it has
 * returned. For a program whose only waiting thread it is. */
MOERT_API moert_status moert_scheduler_wait(moert_scheduler *scheduler,
                                            int32_t timeout_ms,
                                            moert_generation **generation);
/* Ends a moert_scheduler_wait() that runs, or else the next one, without a
 * generation. */
MOERT_API void moert_scheduler_wake(moert_scheduler *scheduler);

/* Refuses new generations from now on, waits until all have ended, and cancels
 * those that have not after `timeout_ms` (-1: no limit). *all_ended, which may
 * be NULL, receives whether they ended by themselves. */
MOERT_API moert_status moert_scheduler_drain(moert_scheduler *scheduler,
                                             int32_t timeout_ms,
                                             int32_t *all_ended);
/* Returns after how many seconds a text that the full queue refused has a
 * chance, from 1 to 300. */
MOERT_API int32_t moert_scheduler_retry_after(const moert_scheduler *scheduler);

typedef struct moert_scheduler_stats {
  size_t size;
  /* Now. */
  int32_t waiting, running, most_running;
  int32_t pages, free_pages; /* of the cache; free: no running text has them */
  int32_t kept_sequences;    /* finished texts */
  int32_t prefill_chunk;     /* most prompt tokens in the next step */
  int32_t is_draining;
  /* Sums since the scheduler was created. */
  uint64_t submitted, refused, finished, cancelled, failed;
  uint64_t steps;
  uint64_t preempted; /* put back in the queue for want of pages */
  uint64_t prompt_tokens;
  uint64_t cached_tokens;    /* of prompts, that were not evaluated again */
  uint64_t restored_tokens;  /* of these, read from the store */
  uint64_t evaluated_tokens; /* of prompts and texts, in steps */
  uint64_t generated_tokens, drafted_tokens, accepted_tokens;
  double step_seconds; /* of all steps */
} moert_scheduler_stats;

/* Describes the scheduler after its last step. */
MOERT_API moert_status moert_scheduler_get_stats(moert_scheduler *scheduler,
                                                 moert_scheduler_stats *stats);

#ifdef __cplusplus
}
#endif

#endif /* MOERT_H */
