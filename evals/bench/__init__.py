"""`make bench`: Silas beside its floors and its peers, measured in one run, printed as ratios."""
