"""The public path of `hpobench_nmt.exports`, from before that room had this name."""
