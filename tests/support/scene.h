/*
 * A scene is one attention step with all its arrays, dense and in host memory, and what the oracle says
 * of it. Every cache row that no list selects holds NaN or Inf. A test makes a scene from a spec, may edit
 * it on the way, and asks for the oracle's answer:
 *
 *     scene_open(&scene, &spec);     lists, lengths, block tables, queries
 *     scene_fill(&scene);            values for the cache rows that the lists select
 *     scene_expect(&scene);          want_out, want_lse
 */
#ifndef TEST_SCENE_H
#define TEST_SCENE_H

#include <ref_attn.h>
#include <smla/smla.h>
#include <stddef.h>
#include <stdint.h>

#include "rng.h"

/* Active lengths: none given; as many as entries were picked; 0 .. K; any number at all. */
enum scene_lengths { LENGTHS_NONE, LENGTHS_EXACT, LENGTHS_RANDOM, LENGTHS_WILD };
enum scene_sinks { SINKS_NONE, SINKS_RANDOM, SINKS_EXTREME };

/* Zero means the default that stands beside a member. */
struct scene_spec {
    const char *name;
    int32_t heads;           /* 4; under DCP those of all ranks together */
    int32_t topk;            /* 64 */
    int32_t block_size;      /* 16 */
    int32_t requests;        /* 3 */
    const int32_t *q_lens;   /* [requests]; 1 each */
    const int32_t *contexts; /* [requests] tokens before the query rows; random below 2 K */
    int32_t width_spare;     /* block-table columns beyond need */
    int32_t picks;           /* entries of a list; K, or the whole sequence if that is shorter */
    double invalid;          /* part of the entries that is then spoilt */
    enum scene_lengths lengths;
    enum scene_sinks sinks;
    smla_lse_base lse_base;
    smla_empty_lse empty_lse;
    int32_t dcp_world, dcp_rank, dcp_interleave;
    float q_gain; /* 1: factor on the queries */
    double scale; /* 576^-0.5 */
    uint64_t seed;
};

struct scene {
    struct scene_spec spec; /* without zeros */
    struct ref_problem ref; /* points at the arrays below */
    int64_t rows;           /* T */
    int32_t *query_start_loc, *seq_lens, *block_table, *row_request, *topk, *length;
    uint16_t *q, *kv;
    float *sinks;
    double *want_out, *want_lse;
    double score_size; /* |scale| times the largest |q| times the largest |key|: no score is larger */
    struct rng rng;
    int32_t single_start[2], single_request; /* of scene_single */
};

void scene_open(struct scene *scene, const struct scene_spec *spec);
void scene_fill(struct scene *scene);
void scene_expect(struct scene *scene);
void scene_close(struct scene *scene);

/* All three steps without edits. */
void scene_build(struct scene *scene, const struct scene_spec *spec);

/* A scene of `rows` requests of one row that may all reach the same `cache_rows` rows, position = slot.
 * Lists hold -1. */
void scene_open_shared(struct scene *scene, const struct scene_spec *spec, int64_t rows, int64_t cache_rows);

/* Row t alone. It borrows the scene's arrays: do not close it, do not copy it. */
void scene_single(struct scene *single, const struct scene *scene, int64_t t);

int32_t *scene_list(const struct scene *scene, int64_t t);
uint16_t *scene_key(const struct scene *scene, int64_t slot);
uint16_t *scene_query(const struct scene *scene, int64_t t, int64_t head);
/* Random values into one cache row. */
void scene_fill_key(struct scene *scene, int64_t slot);

/* bf16 bits of a float, to nearest even, and back. */
uint16_t bf16_from(float value);
float bf16_to(uint16_t bits);

/* malloc that ends the test program when memory is short. */
void *must_malloc(size_t bytes);

#endif
