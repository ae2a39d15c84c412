/* What the commands say: failures, JSON, the time. */
#ifndef REPORT_H
#define REPORT_H

#include <jansson.h>
#include <smla/smla.h>
#include <stdbool.h>

/* Seconds of a clock that never steps back. */
double report_clock(void);

/* Notes the time at which the tool began: the first thing that main does. */
void report_begin(void);

/* Milliseconds from then to `now`, a time of report_clock. */
double report_since_begin(double now);

/* One line "smla: text" on stderr, and with `json` an object with "exit" and "error" on stdout. Gives `code`. */
int report_failure(bool json, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The exit code for a status that is not SMLA_OK: the tens of smla.h decide. */
int report_exit_of(smla_status status);

/* A JSON real, or null for NaN and infinities, which JSON cannot say. */
json_t *report_number(double value);

/* The same for a text; in a text that is not UTF-8, bytes past ASCII become ?. */
json_t *report_text(const char *text);

/* Prints the object on stdout and lets it go. */
void report_json(json_t *object);

#endif
