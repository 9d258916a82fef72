# What crosses folders: checks of the source tree and the end-to-end suites.
