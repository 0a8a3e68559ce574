/*===- moert.h - The runtime as a C library ----------------------*- C++
-*-===*\
|*                                                                            *|
|* An engine runs one plan; sequences are the texts that it works on. Every   *|
|* function returns a moert_status; on failure moert_last_error(engine) tells *|
|* what went wrong and how to fix it. No C++ exception and no signal crosses  *|
|* this interface. An engine and its sequences may move between threads, but  *|
|* only one thread may use them at a time; moert_cancel is the exception.     *|
|*                                                                            *|
|* Structs of options begin with their size, so that fields can be added:     *|
|* set `size` to sizeof the struct and what you do not use to 0.              *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef MOERT_H
#define MOERT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when a program that was built before would not work any more. */
#define MOERT_ABI_VERSION 3

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

/*===-- Engines -----------------------------------------------------------===*/

/* An engine with nothing open; NULL only when memory is exhausted. */
moert_engine *moert_create(void);
/* Its sequences must be destroyed before. NULL is allowed. */
void moert_destroy(moert_engine *engine);

/* The message of the last failure of the engine or one of its sequences, or "".
 * Valid until the next call with either. */
const char *moert_last_error(const moert_engine *engine);

/* The command line that mends that failure, for a POSIX shell in the current
 * folder, or "". The word MODEL in it stands for a model file of which only the
 * user knows the place. Valid as long as the message. */
const char *moert_last_remedy(const moert_engine *engine);

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

/* Opens a plan in place of the one open before, of which no sequences may be
 * left (USAGE). `options` may be NULL. */
moert_status moert_open(moert_engine *engine, const char *plan_path,
                        const moert_open_options *options);

int32_t moert_vocab(const moert_engine *engine);   /* 0: nothing open */
int32_t moert_context(const moert_engine *engine); /* of a sequence; 0 */
/* Most sequences of which a step appends a token at once. */
int32_t moert_batch(const moert_engine *engine);
/* Most tokens of prompts that a step takes. */
int32_t moert_ubatch(const moert_engine *engine);

/* Writes up to `capacity` token ids of `bytes` bytes of UTF-8 and sets *count
 * to how many there are; USAGE when that is more than `capacity`. */
moert_status moert_tokenize(moert_engine *engine, const char *text,
                            size_t bytes, int add_bos, int32_t *ids,
                            size_t capacity, size_t *count);

/*===-- Sequences ---------------------------------------------------------===*/

typedef struct moert_sequence_options {
  size_t size;
  int32_t private_prefix; /* 0: takes the cache of tokens that another sequence
                             began with, and offers its own; 1: neither */
} moert_sequence_options;

/* An empty sequence in *sequence. `options` may be NULL. */
moert_status moert_sequence_create(moert_engine *engine,
                                   const moert_sequence_options *options,
                                   moert_sequence **sequence);
void moert_sequence_destroy(moert_sequence *sequence); /* NULL is allowed */

/* Tokens in the cache. */
int32_t moert_sequence_position(const moert_sequence *sequence);

/* Forgets all tokens from `position` on; 0 starts anew. */
moert_status moert_sequence_rewind(moert_sequence *sequence, int32_t position);

/* Another sequence with the same tokens; what they share is kept once. */
moert_status moert_sequence_fork(moert_sequence *sequence,
                                 moert_sequence **fork);

/* Writes tokens and cache to a file, and reads them back with the same plan.
 * Saving replaces an earlier saved sequence or an empty file; for any other
 * file it fails with USAGE. Restoring fails with INVALID_FILE for a damaged
 * file and with WRONG_MACHINE for another plan's. */
moert_status moert_sequence_save(moert_sequence *sequence, const char *path);
moert_status moert_sequence_restore(moert_engine *engine, const char *path,
                                    const moert_sequence_options *options,
                                    moert_sequence **sequence);

/* Ends a running call of another thread that works on this sequence, or what
 * it does for this sequence; also from a signal handler. */
void moert_cancel(moert_sequence *sequence);

/*===-- Work --------------------------------------------------------------===*/

/* Appends tokens to the sequence and writes the logits after the last one,
 * moert_vocab() floats, where `logits` is not NULL. */
moert_status moert_evaluate(moert_sequence *sequence, const int32_t *ids,
                            size_t count, float *logits);

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
moert_status moert_step(moert_engine *engine, moert_request *requests,
                        size_t count);

typedef struct moert_generate_options {
  size_t size;
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

/* Sets the options moert run has by default, as far as options->size goes. */
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
moert_status moert_generate(moert_sequence *sequence, const int32_t *prompt,
                            size_t count, const moert_generate_options *options,
                            moert_text_callback callback, void *user,
                            moert_generate_stats *stats);

#ifdef __cplusplus
}
#endif

#endif /* MOERT_H */
