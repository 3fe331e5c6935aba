# On a fresh machine with python3 (3.11 or newer) and make:  `make demo`  or  `make test`.
PYTHON ?= python3
VENV   ?= .venv
CONSTRAINTS ?= constraints.txt

BIN     := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS)

.DEFAULT_GOAL := help
.PHONY: help demo demo-distributed dropin test test-fast test-full gpu check format bench bench-quick docs gallery outputs dist clean

help:
	@echo "make demo         train a GCN on Zachary's karate club and draw what it learned"
	@echo "make demo-distributed   cut a graph into two parts and train on them with two processes"
	@echo "make dropin       install the name dgl into an environment of its own, where importing it gives dglite"
	@echo "make test         run the tests            make test-full   ... with every op x reducer x dtype"
	@echo "make test-fast    run the tests nearest to what changed since main, for two minutes"
	@echo "make gpu          test and measure on this machine's NVIDIA GPU, a quarter of an hour"
	@echo "make check        ruff and mypy            make format      let ruff rewrite the files"
	@echo "make docs         build the documentation site in build/site"
	@echo "make bench        measure against peers    make bench-quick ... small sizes, a minute"
	@echo "make gallery      draw the pictures of docs/gallery.md"
	@echo "make outputs      run the examples whose pages show what they print, and record it"
	@echo "make dist         build what a release publishes in dist/, and try it in an empty environment"

# torch comes first and alone, so that a CPU build that pip finds locally is taken and dglite's own requirement is met.
$(BIN)/torch.installed: $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dglite needs Python 3.11 or newer; $(PYTHON) is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing torch into $(VENV) (this is the large one) ..."
	$(INSTALL) torch
	@touch $@

$(BIN)/%.installed: $(BIN)/torch.installed setup.cfg pyproject.toml
	$(INSTALL) --editable .[$*]
	@touch $@

demo: $(BIN)/examples.installed
	$(BIN)/python examples/karate_club.py

# In an environment of its own, for which pip finds torch: what imports or requires dgl runs on dglite.
DROPIN ?= build/dropin
dropin:
	$(PYTHON) -m venv $(DROPIN)
	$(DROPIN)/bin/python -m pip install --quiet --constraint constraints.txt torch
	$(DROPIN)/bin/python -m pip install --quiet --constraint constraints.txt .[torch] ./shim
	cd $(DROPIN) && bin/python -I -c "import dgl, importlib.metadata as m; print('dgl', m.version('dgl'), 'is', dgl.graph.__module__); print(dgl.rand_graph(5, 9))"

PARTS ?= parts
demo-distributed: $(BIN)/examples.installed
	$(BIN)/python examples/several_machines.py --partition 2 --folder $(PARTS)
	OMP_NUM_THREADS=1 $(BIN)/python -m torch.distributed.run --standalone --nproc-per-node 2 examples/several_machines.py --folder $(PARTS) --picture $(PARTS)/several_machines.png

# All of them, or `make test TESTS=tests/ops`.
TESTS ?=
test: $(BIN)/test.installed
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal $(TESTS)

# Nearest first; `make test-fast BASE=HEAD MINUTES=5`.
BASE ?= main
test-fast: $(BIN)/test.installed
	$(BIN)/python -m tests.nearest --base $(BASE) --minutes $(or $(MINUTES),2)

test-full: $(BIN)/test.installed
	$(BIN)/python -m pytest --full --numprocesses auto --dist worksteal

# With the Python that has torch and CuPy for the GPU: `make gpu PYTHON=python3 MINUTES=13 ONLY="tests kernels"`.
gpu:
	PYTHON="$(PYTHON)" .ci/gpu $(ONLY)

check: $(BIN)/test.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(BIN)/test.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

BENCHMARKS := spmm overhead first_calls memory udf attention layers models graphs sampling reorder backends dynamic one_tree lazy ed_batch scaling giant sweep minibatch out_of_core tofu_search tofu_throughput tofu_train
bench bench-quick: $(BIN)/bench.installed
	for name in $(BENCHMARKS); do $(BIN)/python benchmarks/$$name.py $(if $(filter bench-quick,$@),--quick) || exit 1; done
	$(if $(filter bench,$@),$(BIN)/python benchmarks/report.py)

docs: $(BIN)/docs.installed
	$(BIN)/python -m sphinx -W --keep-going -q docs build/site
	@echo "build/site/index.html is the front page"

# Pictures of results on data that DGLITE_DATA_DIR has, or that is downloaded.
PICTURES := heterogeneous recommend temporal molecules user_defined compiled unsupervised tree_lstm
# matplotlib reads its settings from the file: transparent, grey letters, two pixels for each.
gallery: export MATPLOTLIBRC = docs/pictures/matplotlibrc
gallery: $(BIN)/examples.installed
	$(BIN)/python docs/pictures/readme.py
	$(BIN)/python examples/karate_club.py --picture docs/pictures/karate_club.png
	$(BIN)/python examples/explain.py --node 1500 --picture docs/pictures/explain.png
	for name in $(PICTURES); do $(BIN)/python examples/$$name.py --picture docs/pictures/$$name.png || exit 1; done

# What the pages of examples show: the output of each command of a file, in order. NAME=user_defined for one file.
# Ray colours lines and names the process before each.
outputs: $(BIN)/examples.installed
	mkdir -p build
	for file in docs/outputs/$(or $(NAME),*).txt; do \
		sed -n 's/^\$$ python //p' $$file > build/commands.txt; : > build/output.txt; \
		while read -r command; do echo "$$command"; \
			{ echo "\$$ python $$command"; $(BIN)/python $$command 2>/dev/null </dev/null; } >> build/output.txt || exit 1; \
		done < build/commands.txt; \
		sed 's|$(CURDIR)/||; s/\x1b\[[0-9;]*m//g; s/ pid=[0-9]*)/)/' build/output.txt > $$file; \
	done

# What a release publishes: wheels and source archives of dglite and of the name dgl. The wheels are built from the
# archives, then installed, for which pip finds torch, in an environment that does not see this folder.
RELEASE ?= build/release
dist:
	rm -rf dist $(RELEASE)
	$(PYTHON) -m venv $(RELEASE)/tools
	$(RELEASE)/tools/bin/python -m pip install --quiet build twine
	for folder in . shim; do $(RELEASE)/tools/bin/python -m build --outdir dist $$folder || exit 1; done
	$(RELEASE)/tools/bin/python -m twine check --strict dist/*
	$(PYTHON) -m venv $(RELEASE)/empty
	$(RELEASE)/empty/bin/python -m pip install --quiet --constraint constraints.txt torch
	$(RELEASE)/empty/bin/python -m pip install --quiet --constraint constraints.txt "$$(echo dist/dglite-*.whl)[torch]" dist/dgl-*.whl
	$(RELEASE)/empty/bin/python -m pip check
	$(RELEASE)/empty/bin/python -I -m dglite
	$(RELEASE)/empty/bin/python -I examples/node_classification.py --model gcn --dataset karate --epochs 50
	$(RELEASE)/empty/bin/python -I -c "import dgl, dglite; assert dgl.graph is dglite.graph; print('import dgl is dglite', dglite.__version__)"

clean:
	rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
