"""Studies of the local mechanisms: configuration as data, one row of a CSV a setting.

`python -m simulations.studies [NAME ...]` writes results/studies/NAME.csv and .svg and exits
non-zero when a bar is missed; `make studies` does all, those of regression too. Any row can be
drawn again from its study's name and its place (`Study.row`), and
`tests/simulations/test_studies.py` does.
"""
