"""Studies of regression and the central model: settings as data, one row a setting.

`python -m simulations.regression [NAME ...]` writes results/regression/NAME.svg, and NAME.csv of
several settings. It exits non-zero when a bar is missed. `make studies-regression` runs all. Any
row can be drawn again from its study's name and its place (`Study.row`);
`tests/simulations/test_studies.py` does so.
"""
