/* moert.h - The runtime as a C library.
 *
 * An engine runs one plan, which `moec compile` wrote; sequences are the texts
 * that it works on, samplers choose tokens, replies turn tokens into text.
 *
 * Errors. Functions that can fail return a moert_status, and change nothing
 * that they do not say. moert_last_error() has the message of the last failure
 * and moert_last_remedy() the command line that mends it, where there is one. A
 * null pointer where none is allowed, also a null handle, is MOERT_USAGE. No
 * C++ exception crosses this interface. The library installs no signal
 * handlers: a weights file that another program cuts short while it is mapped
 * raises SIGBUS.
 *
 * Threads. An engine with its sequences, samplers and replies may move between
 * threads, but only one thread may use them at a time. Exceptions are
 * moert_cancel(), and different engines.
 *
 * Ownership. What a *_create(), _fork() or _restore() function returns belongs
 * to the caller, who ends it with the *_destroy() function of its kind, before
 * the engine. Arguments are read during the call and not kept; a string that a
 * function returns belongs to the engine and is valid until what its comment
 * says.
 *
 * Texts are UTF-8. Where a length in bytes is asked for, a text needs no NUL
 * and may hold some. Tokens are the numbers of a model's vocabulary, from 0.
 *
 * Results of unknown length are written to a buffer of the caller: up to
 * `capacity` elements, with the whole number of them in *count. Where that is
 * more, the call fails with MOERT_USAGE, nothing is written to the buffer, and
 * *count says how large it has to be. A capacity of 0 with a null buffer asks
 * for the size.
 *
 * Versions. Structs that begin with `size` may get more fields at their end:
 * set `size` to sizeof the struct and fields of options that you do not use to
 * 0. An older library ignores fields of options that it does not know, and
 * leaves those of results as they were; a newer one leaves out what an older
 * program has no room for. Structs without `size` do not change, except that a
 * moert_event, which only the library makes, may grow. The name of the shared
 * library, libmoert.so.0, changes with the major version; in 0.x also
 * MOERT_ABI_VERSION may grow with a minor one: a program that loads the library
 * at run time compares it with moert_abi_version(). Values of enums are added
 * at the end, never changed.
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

/* Grows when a program that was built before would not work any more. */
#define MOERT_ABI_VERSION 3

MOERT_API int32_t moert_abi_version(void); /* of the library */
MOERT_API const char *moert_version(void); /* "0.1.0"; valid for ever */

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

/* An engine with nothing open; NULL only when memory is exhausted. */
MOERT_API moert_engine *moert_create(void);
/* Its sequences, samplers and replies must be destroyed before. NULL is
 * allowed. */
MOERT_API void moert_destroy(moert_engine *engine);

/* The message of the last failure of the engine or of what belongs to it, or
 * "". Valid until the next call with any of these. */
MOERT_API const char *moert_last_error(const moert_engine *engine);

/* The command line that mends that failure, for a POSIX shell in the current
 * folder, or "". The word MODEL in it stands for a model file of which only the
 * user knows the place. Valid as long as the message. */
MOERT_API const char *moert_last_remedy(const moert_engine *engine);

typedef struct moert_open_options {
  size_t size;
  int32_t threads;          /* 0: one per physical core */
  const char *model_path;   /* where the model file is now, or NULL */
  const char *weights_path; /* where the weights file is now, or NULL */
  int32_t allow_paging;     /* 0: DOES_NOT_FIT where memory does not hold all
                               weights; else they are read from the disk again
                               and again */
  int32_t rung;             /* of a ladder, from 1; 0: what `context` and free
                               memory say */
  int32_t context;          /* tokens that the rung, or the plan, has to hold;
                               0: as many as memory has room for */
} moert_open_options;

/* Opens a plan in place of the one open before, of which no sequences and no
 * replies may be left (USAGE). `options` may be NULL. After any other failure
 * nothing is open. */
MOERT_API moert_status moert_open(moert_engine *engine, const char *plan_path,
                                  const moert_open_options *options);

/* Limits of the plan; 0 where nothing is open. */
/* Logits of a token. */
MOERT_API int32_t moert_vocab(const moert_engine *engine);
/* Most tokens of a sequence. */
MOERT_API int32_t moert_context(const moert_engine *engine);
/* Most sequences of which a step appends a token at once. */
MOERT_API int32_t moert_batch(const moert_engine *engine);
/* Most tokens of prompts that a step takes. */
MOERT_API int32_t moert_ubatch(const moert_engine *engine);

/*===-- What is open ------------------------------------------------------===*/

typedef struct moert_model_info {
  size_t size;
  /* Strings are valid until the plan is closed; "" where the model does not
   * say. */
  const char *name;         /* as the model file has it */
  const char *architecture; /* as GGUF files name it: "deepseek2" */
  const char *target;       /* the machine that the plan is for: "4090+xeon" */
  const char *compiler;     /* that wrote the plan: "moec 0.1.0" */
  int64_t parameters;       /* of the whole model */
  uint64_t weight_bytes;    /* that the plan reads, each once */
  int32_t layers, hidden;   /* `hidden` numbers are the state of a token */
  int32_t experts;          /* of a layer; 0: a dense model */
  int32_t experts_used;     /* by a token in a layer */
  int32_t trained_context;  /* tokens; 0: the model does not say */
  int32_t sequences;        /* that are decoded together, at most */
  int32_t rung, rungs;      /* of a ladder, from 1, and how many; 0: none */
  int32_t threads;          /* that compute, the caller's included */
  int32_t has_tokenizer;    /* 0: moert works on token numbers alone */
  int32_t has_chat_template;
  int32_t tokens;   /* of the tokenizer; logits beyond are of no token */
  int32_t bos, eos; /* tokens that begin and end a text; -1: none */
} moert_model_info;

/* Facts of the plan that is open. */
MOERT_API moert_status moert_get_model_info(moert_engine *engine,
                                            moert_model_info *info);

/* Whether generation ends with this token: the end of a text, or of a turn of a
 * conversation. 0 also where there is no tokenizer. */
MOERT_API int32_t moert_is_end(const moert_engine *engine, int32_t token);

typedef enum moert_device_kind {
  MOERT_CPU = 0,
  MOERT_CUDA = 1
} moert_device_kind;

/* Memory of one device, in bytes, all reserved when the plan was opened. */
typedef struct moert_device_memory {
  size_t size;
  const char *name; /* "cpu0", "gpu0"; valid until the plan is closed */
  int32_t kind;     /* moert_device_kind */
  uint64_t weights; /* of a CPU: mapped from files, which the system may page */
  uint64_t kv;      /* the cache of all sequences */
  uint64_t activations;
  uint64_t workspace; /* buffers of a CPU's threads; what a GPU's kernels use
                         one after the other, constants, parameters */
  uint64_t pinned;    /* of the host's memory, for a GPU */
} moert_device_memory;

/* How many devices the plan has; 0 where nothing is open. */
MOERT_API int32_t moert_devices(const moert_engine *engine);
/* `device` is from 0; USAGE where there is none of this number. */
MOERT_API moert_status moert_get_device_memory(moert_engine *engine,
                                               int32_t device,
                                               moert_device_memory *memory);

/* The cache, which all sequences share page by page. */
typedef struct moert_cache_info {
  size_t size;
  int32_t page_tokens; /* tokens that a page holds */
  int32_t pages;
  int32_t free_pages; /* that no sequence holds; some may keep a prefix that a
                         next sequence can take */
  int32_t sequences;  /* that are not destroyed */
} moert_cache_info;

MOERT_API moert_status moert_get_cache_info(moert_engine *engine,
                                            moert_cache_info *info);

/*===-- Text and tokens ---------------------------------------------------===*/
/* UNSUPPORTED where the plan has no tokenizer. */

/* The tokens of `bytes` bytes of text, with the one that begins texts in front
 * where `add_bos` is not 0. Names of special tokens become these tokens. */
MOERT_API moert_status moert_tokenize(moert_engine *engine, const char *text,
                                      size_t bytes, int add_bos, int32_t *ids,
                                      size_t capacity, size_t *count);

enum {
  MOERT_CONTROL_NAMES = 1, /* control tokens are their names, not nothing */
  MOERT_RAW_BYTES = 2      /* bytes as the tokens have them; otherwise what is
                              not UTF-8, such as half a character, is U+FFFD */
};

/* The text of `count` tokens, not terminated by a NUL; `flags` are of the
 * above. USAGE for a number outside the vocabulary. To show tokens as they
 * come, use a moert_reply: a character may be more than one token. */
MOERT_API moert_status moert_detokenize(moert_engine *engine,
                                        const int32_t *ids, size_t count,
                                        uint32_t flags, char *text,
                                        size_t capacity, size_t *bytes);

/*===-- Conversations -----------------------------------------------------===*/

/* NUL-terminated. */
typedef struct moert_message {
  const char *role; /* "system", "user", "assistant", or what templates know */
  const char *content;
} moert_message;

typedef enum moert_thinking {
  MOERT_THINK_DEFAULT = 0, /* what the template does unasked */
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

/* The text that the model goes on after, to answer the last message; not
 * terminated by a NUL. `options` may be NULL. UNSUPPORTED where neither the
 * model nor the options have a chat template; USAGE where the template refuses
 * the messages. */
MOERT_API moert_status moert_chat_text(moert_engine *engine,
                                       const moert_message *messages,
                                       size_t message_count,
                                       const moert_chat_options *options,
                                       char *text, size_t capacity,
                                       size_t *bytes);
/* Its tokens, as a prompt. */
MOERT_API moert_status moert_chat_tokens(moert_engine *engine,
                                         const moert_message *messages,
                                         size_t message_count,
                                         const moert_chat_options *options,
                                         int32_t *ids, size_t capacity,
                                         size_t *count);

/*===-- Sequences ---------------------------------------------------------===*/

typedef struct moert_sequence_options {
  size_t size;
  int32_t private_prefix; /* 0: takes the cache of tokens that another sequence
                             began with, and offers its own; 1: neither */
} moert_sequence_options;

/* An empty sequence in *sequence. `options` may be NULL. */
MOERT_API moert_status moert_sequence_create(
    moert_engine *engine, const moert_sequence_options *options,
    moert_sequence **sequence);
/* NULL is allowed, here and for the other destroy functions. */
MOERT_API void moert_sequence_destroy(moert_sequence *sequence);

/* Tokens in the cache. */
MOERT_API int32_t moert_sequence_position(const moert_sequence *sequence);

/* Forgets all tokens from `position` on; 0 starts anew. */
MOERT_API moert_status moert_sequence_rewind(moert_sequence *sequence,
                                             int32_t position);

/* Another sequence with the same tokens; what they share is kept once. */
MOERT_API moert_status moert_sequence_fork(moert_sequence *sequence,
                                           moert_sequence **fork);

/* Writes tokens and cache to a file, and reads them back with the same plan.
 * Saving replaces an earlier saved sequence or an empty file; for any other
 * file it fails with USAGE. Restoring fails with INVALID_FILE for a damaged
 * file and with WRONG_MACHINE for another plan's. */
MOERT_API moert_status moert_sequence_save(moert_sequence *sequence,
                                           const char *path);
MOERT_API moert_status moert_sequence_restore(
    moert_engine *engine, const char *path,
    const moert_sequence_options *options, moert_sequence **sequence);

/* Ends a running call of another thread that works on this sequence, or what
 * it does for this sequence; also from a signal handler. */
MOERT_API void moert_cancel(moert_sequence *sequence);

/*===-- Work --------------------------------------------------------------===*/

/* Appends tokens to the sequence and writes the logits after the last one,
 * moert_vocab() floats, where `logits` is not NULL. USAGE for a token outside
 * the vocabulary, DOES_NOT_FIT beyond the context or where no page is free. */
MOERT_API moert_status moert_evaluate(moert_sequence *sequence,
                                      const int32_t *ids, size_t count,
                                      float *logits);

/* What a sequence wants of a step. */
typedef struct moert_request {
  moert_sequence *sequence;
  const int32_t *ids; /* to append */
  size_t count;       /* at least 1 */
  float *logits;      /* [vocab], written when all were appended; may be NULL */
  size_t taken;       /* out: how many were appended */
  moert_status status; /* out: what stopped this sequence */
} moert_request;

/* Appends one token of each sequence that has one left, and of the others as
 * many as one step takes, moert_ubatch() in all, in their order. Each request
 * is of another sequence. A failure of one sequence is in its request, with
 * moert_last_error() for the first of them; others go on. Returns OK then, too,
 * and a failure only where it is all sequences'. */
MOERT_API moert_status moert_step(moert_engine *engine, moert_request *requests,
                                  size_t count);

/*===-- Choosing tokens ---------------------------------------------------===*/

typedef struct moert_sampler_options {
  size_t size;
  float temperature;     /* 0: the most likely token */
  int32_t top_k;         /* keep this many; 0: all */
  float top_p;           /* above 0, at most 1: all */
  float min_p;           /* 0 to 1; 0: all */
  float repeat_penalty;  /* above 0; 1: none */
  int32_t repeat_last_n; /* tokens that it is about; at most 1048576 */
  uint64_t seed;
} moert_sampler_options;

/* Sets what moert run has by default, as far as options->size goes. */
MOERT_API void moert_default_sampler_options(moert_sampler_options *options);

/* `options` may be NULL. USAGE for values outside their ranges. */
MOERT_API moert_status
moert_sampler_create(moert_engine *engine, const moert_sampler_options *options,
                     moert_sampler **sampler);
MOERT_API void moert_sampler_destroy(moert_sampler *sampler);

/* Tokens of the text so far, for the penalty: first the prompt's, then each
 * that was chosen. */
MOERT_API moert_status moert_sampler_accept(moert_sampler *sampler,
                                            const int32_t *ids, size_t count);
/* Chooses by `count` logits, those that moert_evaluate() wrote. Does not accept
 * the token. INTERNAL where one is not a number. */
MOERT_API moert_status moert_sampler_choose(moert_sampler *sampler,
                                            const float *logits, size_t count,
                                            int32_t *token);

/* What a sampler remembers: the state of its random numbers, and the last
 * tokens that it accepted, at most repeat_last_n, the oldest first. A sampler
 * of the same options goes on from it as this one would. */
MOERT_API moert_status moert_sampler_save(moert_sampler *sampler,
                                          uint64_t *random, int32_t *recent,
                                          size_t capacity, size_t *count);
MOERT_API moert_status moert_sampler_load(moert_sampler *sampler,
                                          uint64_t random,
                                          const int32_t *recent, size_t count);

/*===-- From tokens to a reply --------------------------------------------===*/
/* For programs that choose tokens themselves: whole characters as they become
 * certain, stop strings, reasoning apart from the answer. */

typedef enum moert_stop_reason {
  MOERT_STOP_LENGTH = 0,   /* max_tokens */
  MOERT_STOP_END = 1,      /* the model ended its text */
  MOERT_STOP_STRING = 2,   /* one of `stops` */
  MOERT_STOP_CONTEXT = 3,  /* the caller: the context is full */
  MOERT_STOP_CANCELLED = 4 /* the caller */
} moert_stop_reason;

typedef struct moert_reply_options {
  size_t size;
  int32_t max_tokens;       /* -1: until something else ends it */
  const char *const *stops; /* NUL-terminated, not empty; may be NULL */
  size_t stop_count;
  int32_t ignore_eos;
  int32_t is_chat; /* tell reasoning from the answer, and leave its marks out */
} moert_reply_options;

typedef enum moert_event_kind {
  MOERT_EVENT_TEXT = 0,
  MOERT_EVENT_REASONING = 1,
  MOERT_EVENT_END = 2 /* the last one */
} moert_event_kind;

typedef struct moert_event {
  int32_t kind;     /* moert_event_kind */
  const char *text; /* whole characters, valid during the call; "" of the end */
  size_t bytes;
  int32_t reason; /* of the end: moert_stop_reason */
} moert_event;

/* Receives the events that a token makes certain. */
typedef void (*moert_event_callback)(void *user, const moert_event *event);

/* `prompt`, `bytes` bytes, is the text that the reply follows: it may have
 * begun the reasoning; NULL and 0 where that does not matter. `options` may be
 * NULL: no end but the model's. */
MOERT_API moert_status moert_reply_create(moert_engine *engine,
                                          const char *prompt, size_t bytes,
                                          const moert_reply_options *options,
                                          moert_reply **reply);
MOERT_API void moert_reply_destroy(moert_reply *reply);
/* Adds a token; after the end nothing happens. */
MOERT_API moert_status moert_reply_push(moert_reply *reply, int32_t token,
                                        moert_event_callback callback,
                                        void *user);
/* Ends the reply, where it has not ended, for this reason (moert_stop_reason).
 */
MOERT_API moert_status moert_reply_finish(moert_reply *reply, int32_t reason,
                                          moert_event_callback callback,
                                          void *user);
/* Whether another token has a place. */
MOERT_API int32_t moert_reply_takes_more(const moert_reply *reply);

/*===-- All in one --------------------------------------------------------===*/

typedef struct moert_generate_options {
  size_t size;
  int32_t max_tokens; /* -1: until the model ends its text */
  float temperature;  /* these as in moert_sampler_options */
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

/* Sets the options moert run has by default, as far as options->size goes. */
MOERT_API void moert_default_generate_options(moert_generate_options *options);

/* Receives text as it is generated, whole UTF-8 characters only, not
 * terminated by a NUL. Returning non-zero ends the generation. */
typedef int (*moert_text_callback)(void *user, const char *text, size_t bytes);

typedef struct moert_generate_stats {
  int32_t prompt_tokens, generated_tokens;
  double prompt_seconds, decode_seconds;
} moert_generate_stats;

/* Appends the prompt and generates after it. CANCELLED when the callback or
 * moert_cancel ended it. `options` and `stats` may be NULL. */
MOERT_API moert_status moert_generate(moert_sequence *sequence,
                                      const int32_t *prompt, size_t count,
                                      const moert_generate_options *options,
                                      moert_text_callback callback, void *user,
                                      moert_generate_stats *stats);

#ifdef __cplusplus
}
#endif

#endif /* MOERT_H */
