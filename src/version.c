#include <smla/smla.h>

int smla_version(void)
{
    return SMLA_VERSION_MAJOR * 10000 + SMLA_VERSION_MINOR * 100 + SMLA_VERSION_PATCH;
}
