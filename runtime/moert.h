/* moert.h - The runtime as a C library.
 *
 * An engine runs one plan, which `moec compile` wrote. Sequences are the texts
 * that it works on, samplers choose tokens, and replies turn tokens into text.
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
 * moert_cancel(). Different engines are independent of each other.
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

/*===-- Engines -----------------------------------------------------------===*/

/* Returns an engine without a plan, or NULL if memory is exhausted. */
MOERT_API moert_engine *moert_create(void);
/* Destroys an engine, whose sequences, samplers and replies must already be
 * destroyed. NULL is allowed. */
MOERT_API void moert_destroy(moert_engine *engine);

/* Returns the message of the last failure of the engine, its sequences,
 * samplers or replies; "" before any failure. The string is valid until the
 * next call with any of these. */
MOERT_API const char *moert_last_error(const moert_engine *engine);

/* Returns the command line that corrects this failure, or "" if there is none.
 * It is for a POSIX shell in the current folder. The word MODEL in it stands
 * for a model file whose path only the user knows. The string is valid as long
 * as the message. */
MOERT_API const char *moert_last_remedy(const moert_engine *engine);

typedef struct moert_open_options {
  size_t size;
  int32_t threads;          /* 0: one per physical core */
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
 * previous plan, if sequences or replies of it exist; after any other failure
 * no plan is open. `options` may be NULL. */
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
 * after the last token: moert_vocab() floats. Fails with USAGE for a token
 * outside the vocabulary, and with DOES_NOT_FIT if the context is full or no
 * page is free. */
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

/* Records tokens of the text for the repetition penalty: first those of the
 * prompt, then each chosen token. */
MOERT_API moert_status moert_sampler_accept(moert_sampler *sampler,
                                            const int32_t *ids, size_t count);
/* Chooses a token by the `count` logits that moert_evaluate() wrote. Does not
 * record the token: call moert_sampler_accept(). Fails with INTERNAL if a logit
 * is NaN. */
MOERT_API moert_status moert_sampler_choose(moert_sampler *sampler,
                                            const float *logits, size_t count,
                                            int32_t *token);

/* Save and restore the state of a sampler: its random number generator, and the
 * last repeat_last_n tokens that it accepted, the oldest first. A sampler with
 * the same options and this state makes the same choices. */
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
} moert_reply_options;

typedef enum moert_event_kind {
  MOERT_EVENT_TEXT = 0,
  MOERT_EVENT_REASONING = 1,
  MOERT_EVENT_END = 2 /* the last one */
} moert_event_kind;

typedef struct moert_event {
  int32_t kind;     /* moert_event_kind */
  const char *text; /* whole characters, valid during the call; "" at the end */
  size_t bytes;
  int32_t reason; /* at the end: moert_stop_reason */
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
/* Adds a token. Does nothing after the end. */
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
 * callback or moert_cancel() ended it. `options` and `stats` may be NULL. */
MOERT_API moert_status moert_generate(moert_sequence *sequence,
                                      const int32_t *prompt, size_t count,
                                      const moert_generate_options *options,
                                      moert_text_callback callback, void *user,
                                      moert_generate_stats *stats);

#ifdef __cplusplus
}
#endif

#endif /* MOERT_H */
