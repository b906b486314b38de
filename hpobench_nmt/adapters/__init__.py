"""The public path of `hpobench_nmt.exports`, which had this name before."""
