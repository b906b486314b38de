"""The companion runner: trains the models of a grid and fills lookup tables from them.

Needs the extra `train`; only the command line imports it. Data flows one way:

    specs/     spec.toml -> the grid of configurations, checked
    training/  which trainings are left, and the processes or the cluster that do them; kept models
    family     what a model family is: families/ has them, corpora/ what they are trained on
    devices    the devices to train on
    lm/, nmt/  language models, their training and evaluation; what Sockeye needs
    ledgers/   ledger.jsonl, one line per training that has ended -> a table folder
    tuning/    an HPO method chooses which configuration is trained next
    disk/      locks, archives, and paths that a spec names
"""
