"""The modules that compute, in groups, and the tests (below ``tests/``) that are to fail after a change in them."""

UPPER = ("guarantees/test_majorant.py", "guarantees/test_upper.py", "guarantees/test_own_filters.py")
EXACT = (
    "engines/test_expectation.py",
    "engines/test_worst_teacher.py",
    "engines/test_averages.py",
    "engines/test_stated_errors.py",
    "engines/test_more_metrics.py",
    "engines/test_evaluate_normalize.py",
    "engines/test_disturbance.py",
)
TRIALS = ("engines/test_simulation.py", "engines/test_averages.py", "engines/test_more_metrics.py")
DIGITS = ("engines/test_digits.py", "engines/test_stated_errors.py", *EXACT[4:6])
ONE_TASK = ("test_equation.py", "solvers", "test_arrays.py")
STREAM = ("estimators/test_estimators.py", "estimators/test_safety.py", "estimators/test_model.py")
UNITS = ("estimators/test_units.py", "estimators/test_report.py", "tables/test_encoded.py")
MIXTURE = ("estimators/test_evidence.py", "estimators/test_report.py", "estimators/test_uncertainty.py")
ENCODER = ("tables", "test_conformance.py", "estimators/test_pipeline.py")
FILES = ("tables/test_reading.py", "tables/test_tables.py", "tables/test_odd_columns.py", "cli/test_tables.py")
KEYS = ("sweeps/test_identity.py", "sweeps/test_grid.py", "sweeps/test_workers.py")
STORES = ("sweeps/test_store.py", "sweeps/test_run.py")
ENSEMBLES = ("ensembles/test_expectation.py", "ensembles/test_trials.py", "ensembles/test_optimal.py")
ANCHOR = ("deep/test_anchor.py", "deep/test_practice.py", "deep/test_linear.py")

GROUPS = {
    "paper": {
        "filters/base.py": ("test_filters.py", "test_bad_input.py", "test_equation.py"),
        "filters/schemes.py": ("test_filters.py", "test_equation.py"),
        "schedules/presets.py": ("schedules/test_presets.py",),
        "metrics.py": ("engines/test_simulation.py", *EXACT),
        "equation.py": ("test_equation.py",),
        "orderings.py": ("test_orderings.py", "test_bad_input.py", "engines/test_greedy.py"),
        "tasks/collection.py": ("test_tasks.py", "test_bad_input.py"),
        "tasks/task.py": ("test_tasks.py", "test_bad_input.py"),
        "theory/bounds.py": ("theory/test_bounds.py", "theory/test_hypotheses.py"),
        "theory/hypotheses.py": ("theory/test_hypotheses.py",),
        "theory/constructions.py": ("theory/test_constructions.py",),
        "theory/last_iterate.py": ("theory/test_surrogates.py", "theory/test_bounds.py"),
        "theory/surrogates.py": ("theory/test_surrogates.py",),
        "theory/two_tasks.py": ("theory/test_two_tasks.py",),
    },
    "engines": {
        "engines/independent.py": EXACT,
        "engines/draws.py": EXACT,
        "engines/epochs.py": EXACT,
        "engines/one_order.py": EXACT,
        "engines/moments.py": (*EXACT, "engines/test_digits.py"),
        "engines/rounding.py": DIGITS,
        "engines/powers.py": (*EXACT, "theory/test_two_tasks.py"),
        "engines/coordinates.py": TRIALS,
        "engines/simulation.py": TRIALS,
        "engines/disturbance.py": ("engines/test_disturbance.py", "engines/test_evaluate_normalize.py"),
        "engines/greedy.py": ("engines/test_greedy.py",),
        "engines/averaged.py": ("engines/test_averages.py", "engines/test_average_digits.py"),
        "engines/adjoint.py": ("engines/test_adjoint.py",),
        "engines/_subsets.py": EXACT,
        "engines/_trials.py": TRIALS,
        "engines/_noisy_trials.py": ("engines/test_disturbance.py", "engines/test_evaluate_normalize.py"),
        "engines/_trials_numba.py": TRIALS,
        "engines/_moments_numba.py": EXACT,
        "engines/_subsets_numba.py": EXACT,
        "_core/averages.py": ("engines/test_averages.py", "estimators/test_averages.py"),
    },
    "solvers": {
        "solvers/one_task.py": ONE_TASK,
        "solvers/rows.py": ONE_TASK[1:],
        "solvers/stacked.py": (*ONE_TASK, "core/test_products.py"),
        "solvers/_direct.py": ONE_TASK[1:],
        "solvers/_krylov.py": ONE_TASK[1:],
        "solvers/remote.py": ("estimators/test_cluster.py",),
        "_core/linalg.py": (*ONE_TASK, "core/test_products.py", "test_tasks.py"),
    },
    "guarantees": {
        "guarantees/_majorant.py": UPPER,
        "guarantees/_steps.py": UPPER,
        "guarantees/upper.py": UPPER,
        "guarantees/minimax.py": ("guarantees/test_minimax.py",),
        "guarantees/comparison.py": ("guarantees/test_comparison.py",),
        "guarantees/collection.py": ("guarantees/test_collection.py", "guarantees/test_search.py"),
        "guarantees/search.py": ("guarantees/test_search.py",),
        "guarantees/_minimize.py": ("guarantees/test_search.py",),
        "guarantees/_objective.py": ("guarantees/test_search.py", "guarantees/test_collection.py"),
        "guarantees/_ordered_objective.py": ("guarantees/test_ordered_search.py",),
    },
    "advice": {
        "advice/_sampled.py": ("advice/test_sampled.py",),
        "advice/_losses.py": ("advice/test_which_lambda.py", "advice/test_sampled.py"),
        "advice/_reduced.py": ("advice/test_which_lambda.py", "advice/test_sampled.py"),
    },
    "estimators": {
        "estimators/state.py": (
            "estimators/test_state.py",
            "estimators/test_averages.py",
            "estimators/test_units.py",
            *STREAM,
        ),
        "estimators/statistics.py": (*MIXTURE, "estimators/test_pipeline.py"),
        "estimators/evidence.py": MIXTURE,
        "estimators/low_rank.py": ("estimators/test_low_rank.py",),
        "estimators/_single_rows.py": ("estimators/test_single_rows.py", "estimators/test_low_rank.py", *STREAM),
        "estimators/_uncertainty.py": MIXTURE,
        "estimators/_units.py": UNITS,
        "estimators/_input.py": (*STREAM, *UNITS, "test_sklearn_contract.py"),
        "estimators/standard_blocks.py": UNITS,
        "estimators/counted.py": ("tables", "estimators/test_units.py"),
        "estimators/evaluation.py": ("estimators/test_evaluation.py", "estimators/test_report.py"),
        "estimators/held_out.py": ("estimators/test_evaluation.py", "estimators/test_report.py"),
        "estimators/baselines.py": (*STREAM, "estimators/test_averages.py", "test_conformance.py"),
        "estimators/history.py": ("estimators/test_state.py", "estimators/test_model.py"),
        "estimators/regressor.py": (
            *STREAM,
            "estimators/test_units.py",
            "estimators/test_state.py",
            "test_sklearn_contract.py",
        ),
        "estimators/ridge.py": (*STREAM, *MIXTURE),
        "estimators/classifier.py": ("estimators/test_classes.py", "estimators/test_safety.py"),
        "estimators/strength.py": ("estimators/test_strength.py", "estimators/test_estimators.py"),
        "estimators/rules.py": (
            "estimators/test_strength.py",
            "estimators/test_low_rank.py",
            "estimators/test_classes.py",
        ),
    },
    "ensembles": {
        "ensembles/_wishart.py": ("ensembles/test_wishart.py",),
        "ensembles/teachers.py": ENSEMBLES,
        "ensembles/base.py": ENSEMBLES,
        "ensembles/invariant.py": ENSEMBLES,
        "ensembles/anisotropic.py": ENSEMBLES,
        "engines/fresh.py": ENSEMBLES,
        "engines/fresh_trials.py": ENSEMBLES,
        "advice/ensembles.py": ("ensembles/test_optimal.py",),
        "schedules/tracking.py": ("ensembles/test_optimal.py", "schedules/test_names.py"),
        "theory/fresh_tasks.py": ("reproduce/test_field.py", "ensembles/test_expectation.py"),
    },
    "classes": {
        "losses.py": ("test_losses.py", "solvers/test_margins.py"),
        "solvers/margins.py": ("solvers/test_margins.py",),
        "solvers/_newton.py": ("solvers/test_margins.py",),
        "solvers/_box.py": ("solvers/test_margins.py",),
        "solvers/separation.py": ("solvers/test_margins.py", "engines/test_classification.py"),
        "engines/classification.py": ("engines/test_classification.py",),
        "engines/labels.py": ("engines/test_classification.py",),
        "engines/_margin_trials.py": ("engines/test_classification.py",),
        "theory/label_bounds.py": ("guarantees/test_labels.py",),
        "guarantees/labels.py": ("guarantees/test_labels.py",),
        "estimators/calibration.py": ("estimators/test_calibration.py", "estimators/test_classes.py"),
        "estimators/classes.py": ("estimators/test_classes.py", "estimators/test_logistic.py"),
        "estimators/logistic.py": ("estimators/test_logistic.py",),
        "estimators/softmax.py": ("estimators/test_logistic.py",),
    },
    "tables": {
        "tables/encoder.py": ENCODER,
        "tables/_columns.py": ENCODER,
        "tables/_dates.py": FILES,
        "tables/_numbers.py": FILES,
        "tables/readers.py": FILES,
        "tables/pipeline.py": ENCODER,
        "tables/report.py": ("estimators/test_report.py", "cli/test_tables.py"),
        "tables/task_files.py": (*FILES, "cli/test_streams.py"),
    },
    "sweeps": {
        "sweeps/identity.py": KEYS,
        "sweeps/code.py": KEYS,
        "sweeps/grid.py": KEYS,
        "sweeps/store.py": STORES,
        "sweeps/format.py": STORES,
        "sweeps/merging.py": STORES,
        "sweeps/evaluate.py": (*KEYS, "sweeps/test_run.py"),
        "sweeps/report.py": ("sweeps/test_report.py",),
    },
    "torch": {
        "torch/anchor.py": ANCHOR,
        "torch/_proximal.py": (*ANCHOR, "deep/test_importance.py"),
        "torch/importance.py": ("deep/test_importance.py", "deep/test_practice.py"),
        "torch/schedules.py": (*ANCHOR, "deep/test_advice.py"),
        "torch/linear.py": ("deep/test_linearize.py",),
    },
    "files": {
        "estimators/files.py": ("estimators/test_files.py", "estimators/test_stored.py", "attacks"),
        "io/document.py": ("attacks", "estimators/test_files.py"),
    },
}
"""Groups of modules, and the tests that are to notice a change in each."""

CORE = {module: tests for modules in GROUPS.values() for module, tests in modules.items()}
"""The modules of all groups."""
