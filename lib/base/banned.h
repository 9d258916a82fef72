/* lib/base/banned.h: libc calls that this code base does not make. Include last, in .c files. */
#pragma once

#define ABX_BANNED(name) sorry_##name##_is_banned
#undef strcpy
#define strcpy(a, b) ABX_BANNED(strcpy)
#undef strcat
#define strcat(a, b) ABX_BANNED(strcat)
#undef strncpy
#define strncpy(a, b, c) ABX_BANNED(strncpy)
#undef sprintf
#define sprintf(...) ABX_BANNED(sprintf)
#undef vsprintf
#define vsprintf(...) ABX_BANNED(vsprintf)
#undef strtok
#define strtok(a, b) ABX_BANNED(strtok)
#undef atoi
#define atoi(a) ABX_BANNED(atoi)
#undef system
#define system(a) ABX_BANNED(system)
#undef popen
#define popen(a, b) ABX_BANNED(popen)
#undef localtime
#define localtime(a) ABX_BANNED(localtime)
#undef alloca
#define alloca(a) ABX_BANNED(alloca)
#undef uv_spawn
#define uv_spawn(a, b, c) ABX_BANNED(uv_spawn)
