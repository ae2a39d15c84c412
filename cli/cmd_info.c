/* smla info: what this machine and this build have. */
#include <smla/smla.h>
#include <stdio.h>

#include "args.h"
#include "command.h"
#include "report.h"

enum { KEY_JSON = 256 };

static const struct argp_option options[] = {
    {"json", KEY_JSON, NULL, 0, "Report as JSON", 0},
    {0},
};

static const char doc[] =
    "Tells what this machine and this build have: CPU, instruction sets, GPU, driver, kernels."
    "\v"
    "Examples:\n"
    "  smla info\n"
    "  smla info --json\n";

static error_t parse(int key, char *argument, struct argp_state *state)
{
    bool *json = state->input;
    switch (key) {
    case KEY_JSON:
        *json = true;
        return 0;
    case ARGP_KEY_ARG:
        return args_refuse(state, "unexpected argument '%s': accepted: options only", argument);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void print_json(const smla_machine *machine)
{
    json_t *isas = json_array();
    for (int i = 0; i < SMLA_ISA_COUNT; i++)
        if (machine->isa_mask >> i & 1)
            json_array_append_new(isas, report_text(smla_isa_name((smla_isa)i)));
    json_t *cpu = json_pack("{s:o, s:i, s:o}", "name", report_text(machine->cpu_name), "cpus", machine->cpus,
                            "isas", isas);
    json_t *cuda =
        json_pack("{s:i, s:s, s:o, s:i, s:i, s:i, s:o}", "kernels", machine->cuda_kernels, "status",
                  smla_status_name((smla_status)machine->cuda_status), "detail",
                  report_text(machine->cuda_detail), "driver", machine->cuda_driver, "devices",
                  machine->cuda_devices, "arch", machine->cuda_arch, "name", report_text(machine->cuda_name));
    report_json(json_pack("{s:i, s:o, s:o}", "version", smla_version(), "cpu", cpu, "cuda", cuda));
}

static void print_text(const smla_machine *machine)
{
    printf("library      %d.%d.%d\n", smla_version() / 10000, smla_version() / 100 % 100,
           smla_version() % 100);
    printf("cpu          %s, %d CPUs may be used\n", machine->cpu_name, machine->cpus);
    printf("isa         ");
    for (int i = 0; i < SMLA_ISA_COUNT; i++)
        if (machine->isa_mask >> i & 1)
            printf(" %s", smla_isa_name((smla_isa)i));
    printf("\ngpu kernels  %d built in\n", machine->cuda_kernels);
    if (machine->cuda_status != SMLA_OK)
        printf("gpu          none: %s\n", machine->cuda_detail);
    else
        printf("gpu          %s, sm_%d, %d of them, driver for CUDA %d.%d\n", machine->cuda_name,
               machine->cuda_arch, machine->cuda_devices, machine->cuda_driver / 1000,
               machine->cuda_driver % 1000 / 10);
}

int command_info(int argc, char **argv)
{
    bool json = false;
    const struct argp parser = {.options = options, .parser = parse, .doc = doc};
    smla_machine machine = {.struct_size = sizeof machine};
    if (args_parse(&parser, argc, argv, &json) != EXIT_RIGHT)
        return EXIT_USAGE;
    smla_status status = smla_machine_query(&machine);
    if (status != SMLA_OK)
        return report_failure(json, report_exit_of(status), "%s", smla_status_text(status));
    if (json)
        print_json(&machine);
    else
        print_text(&machine);
    return EXIT_RIGHT;
}
