/* What the tests over the fake driver share. */
#ifndef FAKE_GPU_H
#define FAKE_GPU_H

#include "fake_driver.h"
#include "harness.h"

/* Runs `body` in a process of its own, in which the library has not opened the driver yet; the test fails if a CHECK
 * in it does. Skips without the fake driver. */
void in_process(void (*body)(void));
/* The same where there must be no driver at all. */
void in_process_without_driver(void (*body)(void));

#define CHECK(truth) ((truth) ? (void)0 : check_failed(#truth, __FILE__, __LINE__))
_Noreturn void check_failed(const char *text, const char *file, int line);

/* Images that this build seems to carry: all of them, unless a test sets fewer. The last one is the portable lane's. */
extern int fake_image_count;

/* For use in such a body. The fake's state; the driver is loaded by that. */
struct fake *fake(void);
void fake_current_device(int device);
/* Is the caller's own context of this device (-1: none) current, and nothing complained of? */
void check_undisturbed(int device);
/* A CUDA context on a device as in smla_context_options. */
smla_context *open_gpu(int device);
/* The text of the last failure contains `text`. */
void check_text(const smla_context *context, const char *text);

/* A plan for slots, K = 64, block 16, one head unless the problem is edited; and tensors over static memory. */
struct small {
    smla_problem problem;
    smla_plan_options options;
    smla_plan *plan;
    smla_tensors tensors;
    int32_t lists[8][64];
};
void small_init(struct small *small);
smla_status small_plan(struct small *small, smla_context *context, int64_t rows);
void small_open(struct small *small, smla_context *context, int64_t rows); /* the same, or the test fails */
smla_status small_run(struct small *small, const smla_step *step);
const struct fake_launch *last_launch(void);

#endif
