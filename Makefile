# Everything a newcomer needs: `make demo` and `make test`. Both set up what is missing, once.

PYTHON  ?= python3
# Tests run side by side, file by file, each process with a fakemssql of its own; one after the other on a shared server.
# They wait for other processes for much of their time, so there is one process more than there are cores.
# The scopes that take longest begin first (tests/scopes.py).
ASIDE   := -n $(if $(SQLQUEUE_TEST_SERVER),0,$(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)) --maxprocesses 5 --dist loadfile --no-loadscope-reorder
# What starts whole programs beside the server: Airflow, spark-submit, clusters of Spark, Spark Connect, Delta Lake on an
# object store, streams that are stopped again and again, the example DAGs and the blocks of the manual, what is measured
# of Spark and of the page, and the first tests of `make contract`, which say about a real server what others say about
# the stand-in.
SYSTEM  := $(addprefix tests/bench/,test_body_rates.py test_page_rates.py test_soak.py test_spark_rates.py) \
           tests/airflow/running $(addprefix tests/airflow/test_,canary.py examples.py small_examples.py spark_application.py spark_target.py) \
           tests/contract/test_first_contact.py tests/docs/test_blocks.py tests/sinks \
           $(addprefix tests/spark/test_,audit_job.py audit_script.py cluster.py pipelines.py source_connect.py source_stream.py)
# What says within a minute whether a change broke something: values, and the operations on queues that all others stand on.
FAST    := tests/unit $(addprefix tests/contract/,batches/test_requeue.py endpoint/test_handlers.py return_to_source \
           $(patsubst %,test_%.py,delayed drain error_queue forward purge queue send_ledger transactions))
# What compares rates has the machine to itself.
ALONE   := tests/bench/test_queue_rates.py
VENV    := .venv
READY   := $(VENV)/.ready
RUN     := $(VENV)/bin

# Airflow's and Spark's processes are hundreds, and each would compile thousands of modules anew without their bytecode.
unexport PYTHONDONTWRITEBYTECODE

NOW     := $(shell date +%j%H%M)
# Tests that kill a kind of work as often as KILLS says, at moments that SEED chooses.
kills: KILLS ?= 500
kills: SEED ?= $(NOW)
kills: TESTS ?= $(addprefix tests/faults/test_,kills.py killed_failures.py killed_handlers.py killed_inbox.py processes.py consuming.py) \
                tests/sinks/test_killed_message_tables.py

# Servers of tests have their data in memory where there is enough of it.
MEMORY  := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 >= 8000000 { print "/dev/shm" }')
test test-fakemssql test-system test-ui coverage soak kills examples: export FAKEMSSQL_TMPDIR ?= $(MEMORY)

# fakemssql's own tests with drivers know nothing of the product, nor of its variables.
ifdef SQLQUEUE_TEST_SERVER
export FAKEMSSQL_TEST_SERVER ?= $(value SQLQUEUE_TEST_SERVER)
endif

.DEFAULT_GOAL := help
.PHONY: help setup jars demo bench test test-fast test-fakemssql test-system test-ui compat versions screenshots faults coverage mutants contract lint format docs site dist clean soak kills examples

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## Make the virtual environment and check the system parts

$(READY): pyproject.toml core/pyproject.toml fakemssql/pyproject.toml requirements-dev.txt scripts/setup.sh scripts/system_parts.py
	@PYTHON="$(PYTHON)" sh scripts/setup.sh $(VENV)
	@touch $@

jars: $(READY) ## Fetch the jars that some tests need (Delta Lake, hadoop-aws, mssql-jdbc, jTDS; 23 MB) from Maven Central, once
	@$(RUN)/python scripts/jars.py

demo: $(READY) ## Run the main job on fakemssql with realistic traffic, to tables and a report
	@$(RUN)/python scripts/demo.py

bench: $(READY) ## Measure speed, growth and memory (half an hour; PARTS="drain growth" for some parts)
	@$(RUN)/python scripts/bench.py $(PARTS)

test: $(READY) ## Run the tests, those that compare rates by themselves (DURATIONS=1 records how long each file takes)
	@$(RUN)/python scripts/jars.py --optional
	@$(if $(DURATIONS),SQLQUEUE_DURATIONS=1) $(RUN)/python -m pytest $(ASIDE) tests --ignore tests/ui $(patsubst %,--ignore %,$(SYSTEM) $(ALONE))
	@$(RUN)/python -m pytest $(ALONE)

test-fast: $(READY) ## Run the unit tests and the core of the contract, while you edit (a minute)
	@$(RUN)/python -m pytest $(ASIDE) $(FAST)

test-fakemssql: $(READY) ## Run the tests of fakemssql, which know nothing of the product (two minutes)
	@$(RUN)/python -m pytest $(ASIDE) fakemssql/tests

test-system: $(READY) ## Run the tests that start Airflow, clusters of Spark, an object store, examples and the manual's blocks
	@$(RUN)/python scripts/jars.py --optional
	@$(if $(DURATIONS),SQLQUEUE_DURATIONS=1) $(RUN)/python -m pytest $(ASIDE) $(SYSTEM)

test-ui: $(READY) ## Try the page in Airflow with a browser (chromium; some minutes; skipped where that is not to be had)
	@$(RUN)/python scripts/system_parts.py --browser
	@$(RUN)/python -m pytest tests/ui

compat: $(READY) ## Try fakemssql with drivers of Java, Go, Node.js and Python (a minute; what is not installed is left out)
	@$(RUN)/python scripts/jars.py --optional
	@PYTHONPATH=fakemssql:fakemssql/tests:$(PYTHONPATH) $(RUN)/python -m compat $(CLIENTS)

versions: $(READY) ## Try other versions of Airflow, Spark and Python (hours; ROWS="airflow-3.1 --short" for some)
	@$(RUN)/python scripts/versions.py $(ROWS)

screenshots: $(READY) ## Take pictures of the page's views, light and dark, into docs/_screenshots
	@$(RUN)/python scripts/system_parts.py --browser
	@PYTHONPATH=.:$(PYTHONPATH) $(RUN)/python scripts/screenshots.py

faults: $(READY) ## Run the fault tests at length: kills, cuts, storms (some 15 minutes)
	@SQLQUEUE_FAULTS=long $(RUN)/python -m pytest $(ASIDE) tests/faults $(SYSTEM)

# Spark's tests and those of whole systems are not in one process, as in make test and make test-system.
coverage: MEASURED = PYTHONPATH=scripts:$(PYTHONPATH) $(RUN)/python -m coverage run -m pytest -p tests_of_lines $(ASIDE)
coverage: $(READY) ## Measure the branch coverage of each room (an hour; TESTS="tests/unit tests/contract")
	@rm -rf .coverage
	@$(RUN)/python scripts/jars.py --optional
	@$(MEASURED) $(or $(TESTS),tests --ignore tests/ui --ignore tests/bench $(patsubst %,--ignore %,$(SYSTEM)))
	@$(if $(TESTS),,$(MEASURED) $(filter-out tests/bench/%,$(SYSTEM)))
	@$(RUN)/python -m coverage combine -q
	@$(RUN)/python scripts/coverage_rooms.py

mutants: $(READY) ## Test the tests: change the code in 60 places, one at a time (10 minutes; MUTANTS="--seed 7 --rooms queue"; sooner after make coverage)
	@$(RUN)/python scripts/mutants.py $(MUTANTS)

kills: $(READY) ## Kill each kind of work again and again (hours; KILLS=500 SEED=7 TESTS="tests/faults/test_kills.py" for some)
	@$(RUN)/python scripts/jars.py --optional
	@echo "Kills $(KILLS), seed $(SEED)"
	@SQLQUEUE_KILLS='$(KILLS)' SQLQUEUE_SEED='$(SEED)' $(RUN)/python -m pytest $(ASIDE) --dist load $(TESTS)

examples: $(READY) ## Try the properties with a thousand random examples each (some 20 minutes; TESTS="tests/bodies" for some)
	@HYPOTHESIS_PROFILE=night $(RUN)/python -m pytest $(ASIDE) $(or $(TESTS),tests/unit tests/bodies $(addprefix tests/contract/test_,names.py zoo.py new_copies.py) tests/spark/test_chunks.py)

soak: $(READY) ## Run all kinds of work at once on a server with faults, and account for all messages (MINUTES=10 SEED=7)
	@PYTHONPATH=.:$(PYTHONPATH) $(RUN)/python scripts/soak.py $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED))

contract: $(READY) ## Try a server: SERVER=mssql://user:password@host:port/master (CONTRACT="--collation ...")
	@SQLQUEUE_TEST_SERVER='$(or $(SERVER),$(value SQLQUEUE_TEST_SERVER))' $(RUN)/python scripts/contract.py $(CONTRACT)

lint: $(READY) ## Check style, types and the layers
	@$(RUN)/ruff check .
	@$(RUN)/ruff format --check .
	@$(RUN)/mypy
	@$(RUN)/mypy scripts
	@$(RUN)/lint-imports

format: $(READY) ## Format the code
	@$(RUN)/ruff check --fix .
	@$(RUN)/ruff format .

docs: $(READY) ## Build the manual (Python 3.11 or later); a warning is an error
	@$(RUN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "The manual is docs/_build/html/index.html"

site: $(READY) ## Build the manual of each release and of this checkout, as it is hosted, into docs/_build/site
	@$(RUN)/python scripts/hosted_manual.py

dist: $(READY) ## Build the wheels, a bill of materials and the list of licences into dist/ (3 minutes; TAG=v1.2.3 checks a tag first)
	@$(RUN)/python scripts/release.py $(if $(TAG),--tag '$(TAG)')

clean: ## Remove the virtual environment and what the demo and dist left
	@rm -rf $(VENV) .demo dist docs/_build docs/_screenshots
