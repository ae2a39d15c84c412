#include <atomic_file.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "bench_output.h"

/* FLOP per gathered byte of a head: 2176 over 1152. */
static const double intensity_per_head = 2176.0 / 1152.0;

static const char style[] = "set encoding utf8\n"
                            "set logscale xy\n"
                            "set xlabel 'FLOP per gathered byte, and the heads that make it' offset 0,-1\n"
                            "set ylabel 'GFLOP/s'\n"
                            "set grid xtics ytics lc rgb '#dddddd' lt 1\n"
                            "set border 3 lc rgb '#555555'\n"
                            "set tics nomirror\n"
                            "set mytics 10\n"
                            "set bmargin 5.5\n"
                            "set key outside right top Left reverse samplen 2 spacing 1.2\n";

static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"};
enum { COLOURS = sizeof colours / sizeof *colours };

bool bench_can_plot(void)
{
    return system("gnuplot --version >/dev/null 2>&1") == 0;
}

/* A text within gnuplot's single quotes. */
static void put_quoted(FILE *stream, const char *text)
{
    fputc('\'', stream);
    for (; *text; text++) {
        if (*text == '\'')
            fputc('\'', stream);
        fputc(*text, stream);
    }
    fputc('\'', stream);
}

struct range {
    double low, high;
};

static void widen(struct range *range, double value)
{
    range->low = fmin(range->low, value);
    range->high = fmax(range->high, value);
}

static void put_axes(FILE *script, const struct bench_report *report, struct range *x)
{
    struct range y = {INFINITY, 0};
    *x = (struct range){INFINITY, 0};
    fputs("set xtics (", script);
    for (int i = 0; i < report->result_count; i++) {
        const struct bench_result *result = &report->results[i];
        double intensity = intensity_per_head * result->shape.heads;
        widen(x, intensity);
        widen(&y, 1e3 * result->tflops);
        fprintf(script, "%s\"%.3g\\nH = %d\" %g", i ? ", " : "", intensity, result->shape.heads, intensity);
    }
    for (int i = 0; i < report->roof_count; i++)
        if (isfinite(report->roofs[i].gflops))
            widen(&y, report->roofs[i].gflops);
    x->low /= 2;
    x->high *= 2;
    fprintf(script, ")\nset xrange [%g:%g]\nset yrange [%g:%g]\n", x->low, x->high, y.low / 2, y.high * 2);
}

/* Do this result and an earlier one belong to one series of points? */
static bool same_series(const struct bench_case *a, const struct bench_case *b)
{
    return a->threads == b->threads && a->tokens == b->tokens && a->topk == b->topk;
}

static int roof_of(const struct bench_report *report, int threads)
{
    for (int i = 0; i < report->roof_count; i++)
        if (report->roofs[i].threads == threads)
            return i;
    return 0;
}

/* Inline data: the points of each series, one block each. Gives the series' first results. */
static int put_points(FILE *script, const struct bench_report *report, int *firsts)
{
    int series = 0;
    for (int i = 0; i < report->result_count; i++) {
        bool known = false;
        for (int s = 0; s < series; s++)
            known |= same_series(&report->results[firsts[s]].shape, &report->results[i].shape);
        if (known)
            continue;
        fprintf(script, "$series%d << END\n", series);
        for (int j = i; j < report->result_count; j++)
            if (same_series(&report->results[i].shape, &report->results[j].shape))
                fprintf(script, "%g %g\n", intensity_per_head * report->results[j].shape.heads,
                        1e3 * report->results[j].tflops);
        fputs("END\n", script);
        firsts[series++] = i;
    }
    return series;
}

/* A GPU's roof is the gather alone: nothing here measures its tensor cores. */
static void put_roof(FILE *script, const struct bench_roof *roof, const char *colour)
{
    if (!roof->threads) {
        fprintf(script, "x*%g w l lw 2 lc rgb '#000000' t 'gather floor: %.4g GB/s'", roof->gather_gbps,
                roof->gather_gbps);
        return;
    }
    fprintf(script, "(x*%g < %g ? x*%g : %g) w l lw 2 lc rgb '%s' t '%d thread%s: %.3g GB/s, %.4g GFLOP/s'",
            roof->gather_gbps, roof->gflops, roof->gather_gbps, roof->gflops, colour, roof->threads,
            roof->threads == 1 ? "" : "s", roof->gather_gbps, roof->gflops);
}

static void put_plot(FILE *script, const struct bench_report *report, const int *firsts, int series)
{
    fputs("set samples 400\nplot ", script);
    for (int i = 0; i < report->roof_count; i++) {
        fputs(i ? ", " : "", script);
        put_roof(script, &report->roofs[i], colours[i % COLOURS]);
    }
    for (int s = 0; s < series; s++) {
        const struct bench_case *shape = &report->results[firsts[s]].shape;
        int colour = shape->threads ? roof_of(report, shape->threads) : s;
        fprintf(script, "%s$series%d w p pt %d ps 0.9 lc rgb '%s' t '", s || report->roof_count ? ", " : "",
                s, 4 + 2 * (s % 5) + 1, colours[colour % COLOURS]);
        if (shape->threads)
            fprintf(script, "%d thread%s, ", shape->threads, shape->threads == 1 ? "" : "s");
        fprintf(script, "%lld row%s, top-k %d'", (long long)shape->tokens, shape->tokens == 1 ? "" : "s",
                shape->topk);
    }
    fputc('\n', script);
}

/* Lets gnuplot draw into `image`. */
static bool draw(const struct bench_report *report, const char *image, struct io_error *error)
{
    int *firsts = calloc((size_t)report->result_count + 1, sizeof *firsts);
    FILE *script = firsts ? popen("gnuplot 2>/dev/null", "w") : NULL;
    if (!script) {
        free(firsts);
        return io_fail(error, "gnuplot cannot be started: %s", strerror(errno));
    }
    struct range x;
    char title[224];
    snprintf(title, sizeof title, "smla on %s, %s",
             report->gpu ? report->gpu->name : report->machine.cpu_name,
             report->gpu ? smla_backend_name(report->backend) : smla_isa_name(report->isa));
    fputs("set terminal svg size 1000,600 font 'sans,13' background rgb 'white'\nset output ", script);
    put_quoted(script, image);
    fputs("\nset title ", script);
    put_quoted(script, title);
    fprintf(script, " noenhanced\n%s", style);
    put_axes(script, report, &x);
    put_plot(script, report, firsts, put_points(script, report, firsts));
    int status = pclose(script);
    free(firsts);
    if (status == -1 || !WIFEXITED(status) || WEXITSTATUS(status))
        return io_fail(error, "gnuplot failed");
    return true;
}

bool bench_write_plot(const struct bench_report *report, const char *path, struct io_error *error)
{
    struct atomic_file file;
    if (!atomic_file_open(&file, path, error))
        return false;
    if (!draw(report, file.temporary, error)) {
        atomic_file_abandon(&file);
        return false;
    }
    return atomic_file_commit(&file, error);
}
