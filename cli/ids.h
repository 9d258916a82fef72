/* cli/ids.h: whether this account has a range of subordinate ids, which images need (security S58).
 */
#pragma once
#include <stdbool.h>

enum { CLI_USER_NAME = 64 };

/** Whether /etc/subuid and /etc/subgid give this account 65,536 ids. @name: the account's, or its
 *  number where it has none: what the missing lines begin with. */
bool cli_ids_have_range(char name[CLI_USER_NAME]);
