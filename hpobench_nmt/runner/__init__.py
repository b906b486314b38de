"""The companion runner: trains the models of a grid and fills lookup tables from them.

Needs the extra `train`; only the command line imports it. Data flows one way:

    spec_file         spec.toml -> spec, checked
    spec              the grid of configurations, or those drawn from its ranges, for tuning
    workspace         the folder of one spec: a copy of it, the ledger, scratch folders
    status            the state of the trainings, read from another terminal
    plan              which trainings are left
    dispatch          the processes or the cluster that do them
    train_row         one training: claimed, run in a process of its own, recorded
    processes         processes that end with their parent
    training_process  what runs in such a process: a family (families/) trains on a corpus (corpora/)
    curve_file        the curve of a training that runs, for whoever watches
    kept_models       the best models of trainings, where they are kept
    ledger            ledger.jsonl: one line per training that has ended
    merge             ledgers of several folders -> one
    build_table       ledger -> table folder
    tune              an HPO method chooses which configuration is trained next
    live_trainer      several trainings at a time for it, paused and gone on with

lm/ has the language models, their training and evaluation; nmt/ what Sockeye needs.
"""
