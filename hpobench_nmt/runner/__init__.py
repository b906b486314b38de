"""The companion runner: trains the models of a grid and fills lookup tables from them.

Needs the extra `train`; only the command line imports it. From the ground up; imports go downwards only, as
import-linter checks:

    settings   the settings that a spec may have: typed fields with ranges
    devices    the devices to train on
    disk/      locks, archives, curves, kept models as files, and paths that a spec names
    family     the interface of a model family: settings, metrics, and a function from a job to an outcome
    corpora/   the texts that models are trained on, prepared once and kept
    lm/, nmt/  language models and translation models, their training and evaluation
    families/  the model families, and kept models built again
    specs/     spec.toml -> the grid of configurations, checked
    ledgers/   ledger.jsonl, one line per training that has ended -> a table folder
    training/  the trainings that are left, and the processes or the cluster that run them
    tuning/    an HPO method chooses which configuration is trained next
"""
