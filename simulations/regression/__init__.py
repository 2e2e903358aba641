"""Studies of regression and the central model: configuration as data, one row of a CSV a setting.

`python -m simulations.regression [NAME ...]` writes results/regression/NAME.csv and .svg and exits
non-zero when a bar is missed; `make studies-regression` does all. Any row can be drawn again from
its study's name and its place (`Study.row`), and `tests/simulations/test_studies.py` does.
"""
