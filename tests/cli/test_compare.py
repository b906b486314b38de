"""`compare` and `power` on results of other programs."""

from pathlib import Path

HEAD = "method,task,family,trial,budget,value\n"


def tidy(copies):
    """Four tasks of four families: ours needs half of the budget of the baseline, give or take a trial."""
    lines = [
        f"{method},t{task},f{task},{trial},{budget},{value}"
        for method, half in (("ours", 2), ("theirs", 4))
        for task in range(4)
        for trial in range(copies)
        for budget, value in ((half - 1 + trial % 2, 1), (8, 0))
    ]
    return HEAD + "\n".join(lines) + "\n"


def test_a_csv_file_is_compared_and_gives_the_power_of_a_study(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("results.csv").write_text(tidy(6))
    code, out, err = call("compare", "results.csv", "--methods", "ours,theirs")
    assert (code, err) == (0, "")
    words = " ".join(out.split())
    assert words.startswith("ours takes 2.3") and "times less budget than theirs" in words
    assert "On these tasks: shown, p < 0.001." in words and "no verdict" in words
    code, out, _ = call("power", "results.csv", "--methods", "ours,theirs")
    assert code == 0 and out.splitlines()[0].startswith("true ratio")


def test_what_a_csv_file_lacks_is_said_in_a_line(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("results.csv").write_text(tidy(2).replace("t0,", ",", 1))
    for command in ("compare", "power"):
        code, out, err = call(command, "results.csv", "--methods", "ours,theirs")
        assert (code, out) == (2, "")
        assert err.count("\n") == 1 and "results.csv, line 2: needs a method, a task" in err
    code, _, err = call("compare", "results.csv", "results.csv", "--methods", "ours,theirs")
    assert code == 2 and "into one data frame or CSV file" in err
