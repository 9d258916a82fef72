# The shell kernel: an interactive bash without a terminal. It reads commands from descriptor 0, which is the supervisor;
# what it says to the supervisor goes to descriptor 3. Interactive, because only then SIGINT ends the whole cell and no
# more than it. Cells see neither descriptor.
PS1= PS2= PROMPT_COMMAND= HISTFILE=; set +H +o history; unset PROMPT_COMMAND HISTFILE
__abx_run() { builtin eval "$1" 3>&- </dev/null; }
builtin printf '{"type":"ready"}\n' >&3
