"""Forms of English words that the index cannot tell by their endings: "went" is a form of "go"."""

_FORMS = """
become became|begin began begun|break broke broken|bring brought|build built|buy bought|catch caught
choose chose chosen|come came|draw drew drawn|drink drank drunk|drive drove driven|eat ate eaten
fall fell fallen|feel felt|fight fought|find found|fly flew flown|forget forgot forgotten
get got gotten|give gave given|go went gone|grow grew grown|hear heard|hide hid hidden|hold held
keep kept|know knew known|lead led|learn learnt|leave left|lend lent|lose lost|make made|mean meant
meet met|pay paid|ride rode ridden|ring rang rung|rise rose risen|run ran|say said|see saw seen
sell sold|send sent|sew sewn|shake shook shaken|show shown|sing sang sung|sit sat|sleep slept
speak spoke spoken|spend spent|stand stood|steal stole stolen|swim swam swum|take took taken
teach taught|tear tore torn|tell told|think thought|throw threw thrown|understand understood
wake woke woken|wear wore worn|win won|write wrote written|child children|man men|woman women
person people|foot feet|tooth teeth|mouse mice|wife wives|life lives|knife knives|leaf leaves
""".replace("\n", "|")
_GROUPS = [group.split() for group in _FORMS.split("|") if group]
_BY_WORD = {word: group for group in _GROUPS for word in group}


def forms_of(word: str) -> list[str]:
    """The word, and the other forms of it that are spelled in another way."""
    for stem in _stems(word):
        if group := _BY_WORD.get(stem):
            return list(dict.fromkeys([word, *group]))
    return [word]


def _stems(word: str) -> list[str]:
    """The word, and what it could be without its ending."""
    stems = [word]
    if word.endswith("s"):
        stems.append(word[:-1])
    if word.endswith("es"):
        stems.append(word[:-2])
    if word.endswith("ing"):
        bare = word[:-3]
        stems += [bare, f"{bare}e"]
        if len(bare) > 2 and bare[-1] == bare[-2]:
            stems.append(bare[:-1])
    return stems
