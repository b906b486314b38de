"""What version 0.1 wrote is read, and methods look up the rows that they looked up then.

The folder `version_0_1` was written by that version:

    hpobench-nmt run --tables sotu-ngram --methods BO_EI_M,GB_EIF_M --trials 2 --out version_0_1
"""

from pathlib import Path

import pandas as pd

import hpobench_nmt as hb
from hpobench_nmt.benchmarking.call import benchmark


def test_results_are_read_and_the_rows_are_the_same_now(home):
    old = hb.load_results(Path(__file__).with_name("version_0_1"))
    new = benchmark("sotu-ngram", ["BO_EI_M", "GB_EIF_M"], trials=2)
    assert list(old.trials) == [("sotu-ngram", "BO_EI_M"), ("sotu-ngram", "GB_EIF_M")]
    for key, trials in old.trials.items():
        assert [t.rows.tolist() for t in trials] == [t.rows.tolist() for t in new.trials[key]]
    columns = ["table", "method", "score", "mean"]
    pd.testing.assert_frame_equal(old.scores()[columns], new.scores()[columns])
