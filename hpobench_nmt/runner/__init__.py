"""The companion runner: trains the models of a grid and fills lookup tables from them.

Needs the extra `train`; only the command line imports it. From the ground up; imports go downwards only, as
import-linter checks:

    settings   what a spec may set: typed fields with ranges, which specs, kept models and the docs read
    devices    the devices to train on
    disk/      locks, archives, curves, kept models as files, and paths that a spec names
    family     what a model family is: its settings, its metrics, and a function from a job to an outcome
    corpora/   what models are trained on, prepared once and kept
    lm/, nmt/  language models, their training and evaluation; what Sockeye needs
    families/  the model families, and kept models made again
    specs/     spec.toml -> the grid of configurations, checked
    ledgers/   ledger.jsonl, one line per training that has ended -> a table folder
    training/  which trainings are left, and the processes or the cluster that do them
    tuning/    an HPO method chooses which configuration is trained next
"""
