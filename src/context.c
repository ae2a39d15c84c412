#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

void smla_context_options_init(smla_context_options *options)
{
    *options = (smla_context_options){
        .struct_size = sizeof *options,
        .backend = SMLA_BACKEND_AUTO,
        .cuda_device = -1,
        .isa_mask = UINT32_MAX,
    };
}

static smla_status check_options(const smla_context_options *options, struct smla__detail *detail)
{
    if (options->struct_size != sizeof *options)
        return smla__fail(detail, SMLA_ERROR_STRUCT_SIZE,
                          "options.struct_size = %zu: %zu is accepted (call smla_context_options_init)",
                          options->struct_size, sizeof *options);
    if (options->backend != SMLA_BACKEND_AUTO && !smla__backend_find((smla_backend)options->backend))
        return smla__fail(detail, SMLA_ERROR_ARGUMENT,
                          "backend = %" PRId32 ": 0 (auto), 1 (cpu) and 2 (cuda) are accepted",
                          options->backend);
    if (options->cuda_device < -1)
        return smla__fail(detail, SMLA_ERROR_ARGUMENT,
                          "cuda_device = %" PRId32 ": -1 (current) or an ordinal is accepted",
                          options->cuda_device);
    if (options->threads < 0 || options->threads > SMLA__THREADS_MAX)
        return smla__fail(detail, SMLA_ERROR_ARGUMENT,
                          "threads = %" PRId32 ": 0 (all CPUs) or 1 .. %d is accepted", options->threads,
                          SMLA__THREADS_MAX);
    return SMLA_OK;
}

/* Opens the wanted backend, or the first that opens; says in the log why others did not. */
static smla_status open_backend(smla_context *context, const smla_context_options *options)
{
    smla_status status = SMLA_ERROR_ARGUMENT;
    smla_backend id;
    for (int i = 0; (id = smla_backend_at(i)) != SMLA_BACKEND_AUTO; i++) {
        if (options->backend != SMLA_BACKEND_AUTO && options->backend != (int32_t)id)
            continue;
        context->backend = smla__backend_find(id);
        status = context->backend->context_open(context, options);
        if (status == SMLA_OK)
            return SMLA_OK;
        if (context->log) {
            char line[320];
            snprintf(line, sizeof line, "backend %s not used: %s", context->backend->name, context->text);
            context->log(context->log_cookie, 1, line);
        }
    }
    return status;
}

smla_status smla_context_create(smla_context **out, const smla_context_options *options)
{
    smla_context_options defaults;
    struct smla__detail none = {0};
    if (!options) {
        smla_context_options_init(&defaults);
        options = &defaults;
    }
    bool sized = options->struct_size == sizeof *options;
    struct smla__detail detail = sized ? (struct smla__detail){options->detail, options->detail_size} : none;
    if (!out)
        return smla__fail(&detail, SMLA_ERROR_NULL, "out = NULL: the address of a pointer is accepted");
    *out = NULL;
    smla_status status = check_options(options, &detail);
    if (status != SMLA_OK)
        return status;
    smla_context *context = calloc(1, sizeof *context);
    if (!context)
        return smla__fail(&detail, SMLA_ERROR_MEMORY, "no memory for a context of %zu bytes",
                          sizeof *context);
    context->detail = (struct smla__detail){context->text, sizeof context->text};
    context->log = options->log;
    context->log_cookie = options->log_cookie;
    status = open_backend(context, options);
    if (status != SMLA_OK) {
        smla__fail(&detail, status, "%s", context->text);
        free(context);
        return status;
    }
    smla__detail_clear(&context->detail);
    *out = context;
    return SMLA_OK;
}

void smla_context_destroy(smla_context *context)
{
    if (!context)
        return;
    context->backend->context_close(context);
    free(context);
}

const char *smla_context_error(const smla_context *context)
{
    return context ? context->text : "";
}
