"""Kinds of companions: what each may do, what wakes it, how it speaks and reports.

Three come with Silas, each in a folder of its own; further ones are one YAML file each. What a
companion was made from is kept with it: a file that changes later changes nothing by itself.
"""
