"""Skills: folders of instructions and scripts, of anybody's, read without being trusted.

`tree` knows which bytes a skill consists of, `format` what they say, `inspection` what is
suspicious about them, `importing` how a foreign one becomes one of ours. None of these runs
anything of a skill.
"""
