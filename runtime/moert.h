/*===- moert.h - The runtime as a C library ----------------------*- C -*-===*\
|*                                                                            *|
|* One session runs one plan. Every function returns a moert_status; on       *|
|* failure moert_last_error(session) tells what went wrong and how to fix it. *|
|* No C++ exception and no signal crosses this interface. A session may move  *|
|* between threads, but only one may use it at a time; moert_cancel is the    *|
|* exception.                                                                 *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef MOERT_H
#define MOERT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when a function or a field is added; fields are appended. */
#define MOERT_ABI_VERSION 2

typedef enum moert_status {
  MOERT_OK = 0,
  MOERT_INTERNAL = 1,      /* a bug in this library */
  MOERT_USAGE = 2,         /* an argument is wrong */
  MOERT_INVALID_FILE = 3,  /* a plan or model file is malformed */
  MOERT_IO = 4,            /* the operating system refused */
  MOERT_DOES_NOT_FIT = 5,  /* memory or context cannot hold */
  MOERT_UNSUPPORTED = 6,   /* well-formed, but not implemented */
  MOERT_WRONG_MACHINE = 7, /* the plan is for another CPU, GPU or model */
  MOERT_CANCELLED = 130
} moert_status;

typedef struct moert_session moert_session;

/* A session with nothing open; NULL only when memory is exhausted. */
moert_session *moert_create(void);
void moert_destroy(moert_session *session); /* NULL is allowed */

/* The message of the last failure, or "". Valid until the next call. */
const char *moert_last_error(const moert_session *session);

typedef struct moert_open_options {
  int32_t threads;          /* 0: one per physical core */
  const char *model_path;   /* where the model file is now, or NULL */
  const char *weights_path; /* where the weights file is now, or NULL */
  int32_t allow_paging;     /* 0: DOES_NOT_FIT where memory does not hold all
                               weights; else they are read from the disk again
                               and again */
} moert_open_options;

/* Opens a plan in place of the one open before. `options` may be NULL. */
moert_status moert_open(moert_session *session, const char *plan_path,
                        const moert_open_options *options);

int32_t moert_vocab(const moert_session *session);    /* 0: nothing open */
int32_t moert_context(const moert_session *session);  /* 0: nothing open */
int32_t moert_position(const moert_session *session); /* tokens in the cache */

/* Writes up to `capacity` token ids of `bytes` bytes of UTF-8 and sets *count
 * to how many there are; USAGE when that is more than `capacity`. */
moert_status moert_tokenize(moert_session *session, const char *text,
                            size_t bytes, int add_bos, int32_t *ids,
                            size_t capacity, size_t *count);

/* Appends tokens to the sequence and writes the logits after the last one,
 * moert_vocab() floats, where `logits` is not NULL. */
moert_status moert_evaluate(moert_session *session, const int32_t *ids,
                            size_t count, float *logits);

/* Forgets all tokens from `position` on; 0 starts anew. */
moert_status moert_rewind(moert_session *session, int32_t position);

typedef struct moert_generate_options {
  int32_t max_tokens;   /* -1: until the model ends its text */
  float temperature;    /* 0: greedy */
  int32_t top_k;        /* 0: all */
  float top_p;          /* 1: all */
  float min_p;          /* 0: all */
  float repeat_penalty; /* 1: none */
  int32_t repeat_last_n;
  uint64_t seed;
  const char *const *stops; /* may be NULL */
  size_t stop_count;
  int32_t ignore_eos;
} moert_generate_options;

/* The options moert run has by default. */
void moert_default_generate_options(moert_generate_options *options);

/* Receives text as it is generated, whole UTF-8 characters only, not
 * terminated by a NUL. Returning non-zero ends the generation. */
typedef int (*moert_text_callback)(void *user, const char *text, size_t bytes);

typedef struct moert_generate_stats {
  int32_t prompt_tokens, generated_tokens;
  double prompt_seconds, decode_seconds;
} moert_generate_stats;

/* Appends the prompt and generates after it. CANCELLED when the callback or
 * moert_cancel ended it. `options` and `stats` may be NULL. */
moert_status moert_generate(moert_session *session, const int32_t *prompt,
                            size_t count, const moert_generate_options *options,
                            moert_text_callback callback, void *user,
                            moert_generate_stats *stats);

/* Ends a running call of another thread, or from a signal handler. */
void moert_cancel(moert_session *session);

#ifdef __cplusplus
}
#endif

#endif /* MOERT_H */
