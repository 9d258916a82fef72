/* guest/step/step.h: PID 1 of a build step (engine.md 4, security S63). One order, then it ends. */
#pragma once

/** Reads the order from @line_fd (lib/contract/step.h), executes it in the file system below @root
 *  ("" for the live one; a folder for tests, which must not RUN) and answers on the same line.
 *  The exit status of the process: that of the command, 0 or 1 for the other orders. */
int abx_step_main(int line_fd, const char *root);
