# A thin front to CMake. `make help` lists the targets.

BUILD ?= build
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
DESTDIR ?=
CAPTURE ?= tests/data/dsv32_h16_topk128_mixed.safetensors
MACHINE ?= $(shell tools/machine-name)

configure = cmake --log-level=WARNING -S . -B $(BUILD)
# An outer -j would only quarrel with ours.
build = MAKEFLAGS=--no-print-directory cmake --build $(BUILD) -j $(JOBS)

.PHONY: all run test bench install fmt clean help
.DEFAULT_GOAL := all

# The tests are left out of a new build folder, but stay in one that has them.
all:
	@tools/setup tool
	@$(configure) $(if $(wildcard $(BUILD)/CMakeCache.txt),,-DSMLA_TESTS=OFF)
	@$(build)

run: all
	$(BUILD)/smla run $(CAPTURE)

test:
	@tools/setup test
	@$(configure) -DSMLA_TESTS=ON
	@$(build)
	@tools/run-tests $(BUILD) -j $(JOBS)

bench: all
	@tools/setup bench
	@mkdir -p bench/results
	$(BUILD)/smla bench --backend cpu -o bench/results/$(MACHINE).csv --plot bench/results/$(MACHINE).svg
	$(BUILD)/smla bench --backend cuda -o bench/results/$(MACHINE)-cuda.csv \
		--plot bench/results/$(MACHINE)-cuda.svg || [ $$? -eq 3 ]

install: all
	DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(abspath $(PREFIX))"

fmt:
	@tools/setup fmt
	tools/format

clean:
	rm -rf $(BUILD)

help:
	@echo 'make            library and tool, in $(BUILD)/'
	@echo 'make run        builds, then attends a capture: CAPTURE=$(CAPTURE)'
	@echo 'make test       builds, then runs every test'
	@echo 'make bench      builds, then measures: bench/results/$(MACHINE).csv and .svg'
	@echo 'make install    builds, then installs: PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)'
	@echo 'make fmt        formats the sources'
	@echo 'make clean      removes $(BUILD)/'
	@echo 'BUILD names another build folder, JOBS the number of compile jobs.'
	@echo 'Missing Debian or Ubuntu packages are installed first, where apt-get may be used.'
