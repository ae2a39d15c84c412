/* What every backend asks of a problem and its tensors; backends add their own facts. */
#ifndef SMLA_SUPPORT_H
#define SMLA_SUPPORT_H

#include "internal.h"

/* The facts of the problem that hold on every backend. */
smla_status smla__check_problem(const smla_problem *problem, struct smla__detail *detail);

/* struct_size, counts and layout of the tensors. */
smla_status smla__check_tensors(const smla_problem *problem, const smla_tensors *tensors,
                                struct smla__detail *detail);

/* The common facts, then the backend's. */
smla_status smla__support(const smla_problem *problem, const struct smla__backend *backend, int cuda_arch,
                          const smla_tensors *tensors, struct smla__detail *detail);

#endif
