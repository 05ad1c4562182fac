# Each target is a thin call of a script in scripts/, which finds the Rust toolchain and says what
# it does. `make` alone lists the targets.

PREFIX ?= /usr/local
DESTDIR ?=
LIBDIR ?= $(PREFIX)/lib

.DEFAULT_GOAL := help
.PHONY: help setup build run test lint bench docs package package-test install uninstall clean

help: ## list these targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what building needs: a C compiler and a Rust toolchain, where they are missing
	@scripts/setup.sh build

build: setup ## build the release: verisum, blksum, libblkhash
	@scripts/cargo.sh build --release --locked --workspace --exclude verisum-python

run: build ## set up, build, and hash a real disk image
	@scripts/run.sh demo

test: setup ## install what the tests need and run all of them
	@scripts/setup.sh test
	@scripts/test.sh

lint: setup ## formatting, clippy, rustdoc, licences, shell and Python
	@scripts/setup.sh lint
	@scripts/lint.sh

bench: setup ## run the criterion benches
	@scripts/cargo.sh bench --locked --workspace --benches

docs: setup ## build the book of docs/ into build/book; installs mdbook where it is missing
	@scripts/docs.sh

package: setup ## make Debian packages, tarballs, a wheel and their checksums in build/package/out
	@scripts/setup.sh package
	@scripts/package.sh

package-test: ## install, use, upgrade and purge those Debian packages in a bare Debian; needs root
	@scripts/setup.sh package
	@scripts/package_test.sh

install: ## install into PREFIX (/usr/local), below DESTDIR if given; LIBDIR for the library
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' LIBDIR='$(LIBDIR)' scripts/install.sh

uninstall: ## remove what `make install` put below the same PREFIX and DESTDIR
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/uninstall.sh

clean: ## remove everything that was built
	@scripts/cargo.sh clean
