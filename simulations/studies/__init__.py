"""Studies of the local mechanisms: settings as data, one row a setting.

`python -m simulations.studies [NAME ...]` writes results/studies/NAME.svg, and NAME.csv of several
settings. It exits non-zero when a bar is missed. `make studies` runs all, with those of regression.
Any row can be drawn again from its study's name and its place (`Study.row`);
`tests/simulations/test_studies.py` does so.
"""
