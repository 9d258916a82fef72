/* lib/json/wide.c: numbers beyond 64 bits, brought into the range of a double before jansson, which
 * refuses them, sees them. Any thread. */
#include "lib/json/json_priv.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/banned.h"

enum { INTEGER_DIGITS = 18, DOUBLE_DIGITS = 15, EXPONENT_MAX = 308, TOKEN_MAX = 24 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The length of the number at @at; 0 when it is none by JSON's grammar. *ret_digits: those before a
 * fraction or an exponent; *ret_is_integer: there is neither. */
static size_t scan_number(const char *at, size_t len, size_t *ret_digits, bool *ret_is_integer)
{
    size_t i = len > 0 && at[0] == '-', first = i;
    while (i < len && is_digit(at[i]))
        i++;
    *ret_digits = i - first;
    *ret_is_integer = true;
    if (i == first || (at[first] == '0' && i - first > 1))
        return 0;
    if (i + 1 < len && at[i] == '.' && is_digit(at[i + 1])) {
        *ret_is_integer = false;
        for (i++; i < len && is_digit(at[i]);)
            i++;
    }
    if (i < len && (at[i] == 'e' || at[i] == 'E')) {
        size_t j = i + 1;
        j += j < len && (at[j] == '+' || at[j] == '-');
        if (j < len && is_digit(at[j])) {
            *ret_is_integer = false;
            for (i = j; i < len && is_digit(at[i]);)
                i++;
        }
    }
    return i;
}

/* Never longer than what it stands for; the rest is filled with blanks. */
static void replace(char *at, size_t len, const char *text)
{
    size_t n = strlen(text);
    memset(at, ' ', len);
    memcpy(at, text, n < len ? n : len);
}

static void narrow_integer(char *at, size_t len, size_t digits)
{
    char text[TOKEN_MAX];
    bool is_negative = at[0] == '-';
    if (digits > EXPONENT_MAX)
        snprintf(text, sizeof(text), "%s1e308", is_negative ? "-" : "");
    else
        snprintf(text, sizeof(text), "%.*se%zu", DOUBLE_DIGITS + is_negative, at,
                 digits - DOUBLE_DIGITS);
    replace(at, len, text);
}

/* The sign of the exponent tells "too large" from "vanishes": the latter is read as it is. */
static void narrow_real(char *at, size_t len)
{
    char *end;
    errno = 0;
    double value = strtod(at, &end);
    if (isinf(value))
        replace(at, len, at[0] == '-' ? "-1e308" : "1e308");
    else if (errno == ERANGE)
        replace(at, len, "0.0");
}

void abx__json_narrow(char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t digits, n = 0;
        bool is_integer;
        if (text[i] == '"') {
            for (i++; i < len && text[i] != '"'; i++)
                if (text[i] == '\\')
                    i++;
            i++;
            continue;
        }
        if (text[i] == '-' || is_digit(text[i]))
            n = scan_number(text + i, len - i, &digits, &is_integer);
        if (n > 0 && is_integer && digits > INTEGER_DIGITS)
            narrow_integer(text + i, n, digits);
        else if (n > 0 && !is_integer)
            narrow_real(text + i, n);
        i += n > 0 ? n : 1;
    }
}
