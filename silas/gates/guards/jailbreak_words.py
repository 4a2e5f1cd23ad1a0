"""The words by meaning of which the rules of the guard `jailbreak` are made."""

CONCEPTS: dict[str, str] = {
    "dismiss": "ignore ignoring disregard disregarding forget override bypass discard neglect"
    " regardless ignoriere vergiss ignorez oubliez oublie ignora ignorar olvida dimentica",
    "earlier": "previous prior above earlier preceding former foregoing original initial existing"
    " past vorherigen bisherigen precedentes anteriores precedenti anterior",
    "all": "all any every",
    "rules": "instructions instruction rules guidelines guideline directions directives"
    " directive prompts prompt commands orders policies restrictions programming safeguards"
    " training task tasks requests protocols anweisungen instrucciones istruzioni instrucoes"
    " consignes regeln reglas regles input inputs",
    "talk": "conversation conversations messages context everything chat",
    "told": "told given gave got received said before above",
    "your": "your deine deiner deinen ihre ihrer ta votre tu su tua sua vostra",
    "you": "you",
    "you_there": "you youre youll ai assistant chatgpt gpt chatbot",
    "new": "new",
    "reveal": "reveal repeat print output leak display expose recite disclose tell show give share"
    " what summarize copy return reproduce paste",
    "inner": "system initial hidden secret original internal confidential developer",
    "prompt": "prompt instructions prompts message guidelines directives rules preprompt",
    "never": "never not dont cannot cant without wont no doesnt",
    "refuse": "refuse refuses refusing refused refusal reject decline declines",
    "request": "request requests question questions prompt prompts answer answering user users"
    " order orders anything instruction instructions",
    "do": "do",
    "anything": "anything",
    "now": "now",
    "power": "developer dan jailbreak jailbroken god sudo unrestricted uncensored evil opposite"
    " chaos unfiltered",
    "mode": "mode",
    "switched": "enabled enable activated activate activating on active engaged unlocked output"
    " outputs",
    "free": "no without free freed unbound lacks zero ignores ignoring disregards",
    "limits": "restrictions restriction limitations limitation filters filter filtering"
    " censorship guidelines safeguards boundaries limits constraints ethics",
    "unbound": "unfiltered uncensored amoral unrestricted jailbroken",
    "persona": "persona character bot ai chatbot assistant model mode version gpt response"
    " responses",
    "from": "from",
    "on": "on onwards onward",
    "play": "act acting play playing roleplay pretend behave impersonate simulate become respond"
    " answer reply speak talk are be",
    "are": "are youre",
    "a": "a an the",
    "who": "who named called that which whose",
    "answer": "response responses answer answers reply replies elucidation output message"
    " summary summaries analysis evaluation translation assessment antwort"
    " reponse respuesta resposta risposta",
    "twist": "modify alter translate render encode encrypt reverse scramble rearrange jumble"
    " shuffle substitute append augment enhance ubersetze traduis traduce traduza traduci",
    "put": "add append include insert incorporate integrate embed introduce modify augment"
    " enhance alter adjust translate render encode encrypt reverse rewrite scramble rearrange"
    " jumble shuffle replace substitute convert shift remove mention promote suggest recommend"
    " finish end begin start conclude state highlight emphasize express write provide give use"
    " apply group repeat format weave reword paraphrase fuge schreibe ubersetze beende ajoute"
    " ecris traduis termine anade agrega incluye escribe traduce adicione inclua escreva"
    " traduza aggiungi includi scrivi traduci",
    "into": "in into to with for of within at by as",
    "following": "following below subsequent",
    "code": "code",
    "snippet": "snippet snippets block excerpt section segment fragment",
    "work": "solution implementation algorithm codebase code response answer elucidation reply"
    " explanation",
    "tell": "tell mention inform alert notify reveal warn telling alerting informing notifying",
    "the": "the this",
    "user": "user users human owner",
    "if": "if",
    "machine": "ai llm assistant chatbot gpt",
    "before": "before",
    "task": "task",
    "first": "first",
    "show": "paste share output print repeat reveal show display list dump copy recite echo"
    " reproduce expose leak disclose spell send post provide give tell return write quote",
    "own": "prompt prompts preprompt configuration",
    "inward": "system initial hidden secret original developer starting exact first full",
    "what": "what whats",
    "orders": "prompt instructions instruction prompts guidelines directives rules preprompt",
    "seen": "see saw read given received told have got were",
    "words": "everything text words content contents message messages lines sentences all",
    "over": "above before preceding",
    "sentence": "sentence line word words paragraph",
    "urgent": "important urgent priority critical mandatory overriding immediate",
    "mission": "instructions instruction directive directives command commands task",
    "job": "task job mission goal objective role",
    "please": "please must first immediately instead",
    "perform": "do execute perform run follow complete obey",
    "asked": "asked told instructed prompted requested",
    "chore": "summarize summarise summary answer describe translate review question questions"
    " explain analyze rate evaluate",
    "asks": "asks ask asked requests wants",
    "say": "reply respond say answer tell report output print state",
    "when": "if when whenever",
    "rest": "rest remainder",
    "data": "data document text page email article content conversation context message file",
    "unseen": "invisible hidden unseen",
    "people": "humans people human readers",
    "scanner": "llm llms ai ais gpt chatgpt chatbots",
    "visible": "visible intended meant addressed readable",
    "send": "send forward upload email post share transfer leak exfiltrate copy transmit submit"
    " mail",
    "holder": "all your user users every",
    "private": "emails inbox messages passwords password credentials contacts files documents"
    " transactions history keys secrets conversation conversations invoices",
    "security": "security verification authentication login",
    "codes": "code codes",
    "to": "to",
    "these": "this these",
    "order": "instruction instructions message note prompt",
    "asking": "asking informing notifying confirmation permission consent approval confirming",
    "override": "override overrides",
    "system": "system admin administrator developer root",
    "in": "in",
    "make": "generate produce write compose",
    "hateful": "toxic offensive discriminatory racist hateful sexist defamatory obscene harmful",
    "piece": "sentence joke story text comment paragraph poem essay tweet message",
    "persuade": "convince persuade urge trick",
    "plural": "instructions directives",
    "inside": "in into within throughout",
    "retort": "response answer reply",
    "manner": "in into by using as through via",
    "convey": "mention promote include suggest say spread express highlight recommend add contain"
    " use start end begin form represent",
    "see_to": "make keep ensure let have",
    "program": "program project script application function codebase solution implementation"
    " algorithm software module",
    "instead": "instead",
    "as": "as",
    "must": "must should need will have",
    "note": "note message notice reminder",
    "by": "from by",
    "maker": "openai anthropic developer developers administrator admin",
}
"""Words by meaning, as they stand in folded text: small letters, no accents, no apostrophes."""
