/* Dates in text files: ISO 8601, as 2016-05-09, 2014-04-07T10:51:09.277Z and
 * 2019-11-24 00:03:13.44+00:00. */
#ifndef FOPO_DATA_DATE_H
#define FOPO_DATA_DATE_H

#include <stddef.h>

/* Parses all of text; *seconds since 1970-01-01 UTC. The time of day (hours and minutes at least)
 * follows `T` or a blank and may be left out, as may the zone: then it is UTC. 0 if text is no such
 * date, or a day that does not exist. */
int fopo_parse_date(double *seconds, const char *text, size_t n);

#endif
