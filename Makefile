# Thin entry points; the build itself is CMakeLists.txt, the presets are in CMakePresets.json.
#   make PRESET=dev build     one preset (default: release)
#   make fuzz T=60            seconds per fuzz target;  make bench B=exec: one figure
PRESET ?= release
T ?= 60
B ?=
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
.DEFAULT_GOAL := build
.PHONY: setup build demo test test-fast test-threads test-newest test-vm lint format bench bench-smoke fuzz dist install uninstall clean distclean

setup:
	@tools/setup

# cmake configures only what has no build.ninja; ninja itself notices changed CMake files.
build/%/build.ninja:
	@cmake --preset $* >build/$*.log 2>&1 || { tail -n 30 build/$*.log; exit 1; }

build: | setup
	@$(MAKE) --no-print-directory build/$(PRESET)/build.ninja
	@cmake --build build/$(PRESET) -- -j$(JOBS)
	@[ $(PRESET) != release ] || tools/make-wheels >build/wheels.log

demo: build
	@tests/e2e/demo build/$(PRESET)

test: setup
	@$(MAKE) --no-print-directory build PRESET=dev
	@$(MAKE) --no-print-directory build PRESET=release
	@tools/run-tests

test-fast:
	@$(MAKE) --no-print-directory build PRESET=dev
	@tools/run-tests --fast

test-threads: setup
	@$(MAKE) --no-print-directory build PRESET=tsan
	@tools/run-tests --label threads tsan

test-newest:
	@$(MAKE) --no-print-directory build PRESET=release
	@tools/setup --newest
	@tests/compat/run --newest

test-vm: setup
	@$(MAKE) --no-print-directory build PRESET=release
	@tests/vm/run

lint:
	@tools/check-layers
	@git ls-files '*.c' '*.h' | xargs clang-format-14 --dry-run -Werror

format:
	@git ls-files '*.c' '*.h' | xargs clang-format-14 -i

bench:
	@$(MAKE) --no-print-directory build PRESET=release
	@bench/run $(B)

bench-smoke:
	@$(MAKE) --no-print-directory build PRESET=release
	@bench/run --smoke

fuzz:
	@$(MAKE) --no-print-directory build PRESET=fuzz
	@tools/run-fuzz $(T)

dist:
	@$(MAKE) --no-print-directory build PRESET=release
	@tools/make-wheels
	@tools/make-dist

install: build
	@cmake --install build/$(PRESET) --prefix $(DESTDIR)$(PREFIX)

uninstall:
	@xargs -r rm -f <build/$(PRESET)/install_manifest.txt

clean:
	@for p in release dev tsan fuzz coverage; do [ ! -d build/$$p ] || cmake --build build/$$p --target clean; done

# Without root the files of images belong to the caller's subuid range: removed as its root.
distclean:
	@rm -rf build bench/out 2>/dev/null || unshare --map-root-user --map-auto rm -rf build bench/out
