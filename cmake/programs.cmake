# The programs: abx-guest (inside a sandbox), abx-shim (parent of its PID 1), abx (host).
