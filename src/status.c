#include <smla/smla.h>

#define CASE_NAME(name, number, text)                                                                        \
    case name:                                                                                               \
        return #name;
#define CASE_TEXT(name, number, text)                                                                        \
    case name:                                                                                               \
        return text;

const char *smla_status_name(smla_status status)
{
    switch (status) {
        SMLA_STATUS_TABLE(CASE_NAME)
    }
    return "unknown status";
}

const char *smla_status_text(smla_status status)
{
    switch (status) {
        SMLA_STATUS_TABLE(CASE_TEXT)
    }
    return "unknown status";
}
