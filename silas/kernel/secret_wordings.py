"""How people word a secret that they tell, in seven languages; `told_secrets` reads these.

Each `Wording` is a table: alternatives of regular expressions, and words. What is in a list of
`no_values` follows "is" where nothing secret is told ("is wrong", "ist im Tresor"); `endings` are
those of adjectives and participles in languages that have too many of them for a list.
"""

from dataclasses import dataclass


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _hints(text: str) -> tuple[str, ...]:
    return tuple(text.split())


@dataclass(frozen=True)
class Wording:
    """How one language tells a secret."""

    kinds: str
    """What a secret is called: "password", "door code"."""
    about: str
    """What stands between that and what it is for: "for", "of"; each with its own space."""
    equals: str
    """"is", "is now"."""
    greets: str
    asks: str
    """What asks to keep something: "remember that"."""
    whose: str
    """What a telling sentence begins with: "my", "the"."""
    orders: str
    """What begins a request: it needs what it names."""
    questions: str
    """What begins a question."""
    wants: str
    """What asks for a secret: "what is"."""
    hints: tuple[str, ...]
    """One of these is in every text that tells a secret in this language."""
    no_values: frozenset[str]
    small_words: frozenset[str]
    """What says nothing in a name."""
    phrase_kinds: str = r"(?!)"
    """Those of `kinds` whose value has several words."""
    endings: str = r"(?!)"
    """How words end that are no value."""
    closes: str = r"(?!)"
    """A verb at the end, of languages that put it there: "dass das Passwort … ist"."""
    has_bare_names: bool = False
    """What it is for may follow without a preposition: "mot de passe wifi"."""


_PHRASES = r"pass[ -]?phrases?|(?:seed|recovery|secret)[ -](?:phrases?|words?)"
_EVERYWHERE = r"pass(?:words?|codes?|wd)|pwd|cvv|cvc|puk|tokens?|log-?ins?|passphrase"
"""Words that other languages have taken over."""
_APOSTROPHE = r"['\u2019]"

ENGLISH = Wording(
    phrase_kinds=_PHRASES,
    kinds=(
        rf"{_PHRASES}"
        r"|pass(?:words?|codes?|wd)|pwd|pins?(?:[ -](?:codes?|numbers?))?|cvv|cvc|puk"
        r"|(?:api|access|secret|private|licen[cs]e|encryption|recovery|network|wi-?fi|wlan|product"
        r"|master|signing|auth|bearer|bot|client|ssh|security)[ -]?(?:keys?|tokens?|secrets?)"
        r"|(?:door|gate|alarm|safe|lock|entry|access|security|unlock|recovery|backup|login"
        r"|verification|garage|building|bike|locker|suitcase|voicemail)[ -](?:codes?|combinations?)"
        r"|tokens?|log-?ins?|credentials?"
    ),
    about=r"(?:for|of|to|at|on)[ \t]+",
    equals=r"\b(?:is|are)\b(?:[ \t]+now\b)?",
    greets=(
        r"(?:(?:hi|hello|hey|ok|okay|so|and|also|please|silas|fyi|btw|by the way)\b[\s,.!:]*)*"
        r"(?:(?:can|could|will|would) you\s+(?:please\s+)?)?"
    ),
    asks=(
        rf"(?:remember|note|keep in mind|do not forget|don{_APOSTROPHE}t forget|save|store"
        rf"|write down)\b[\s,:]*(?:that\b)?|here(?:{_APOSTROPHE}s|\s+(?:is|are))\b|this\s+is\b"
    ),
    whose=rf"(?:my|our|the|his|her|their|[\w-]+{_APOSTROPHE}s)\b",
    orders=(
        r"(?:add|append|apply|change|check|create|curl|delete|edit|echo|execute|export|fix|in|make"
        r"|open|patch|put|replace|run|send|set|show|start|test|use|watch|write)\b"
    ),
    questions=(
        r"(?:what|which|how|where|when|why|who|whose|is|are|am|do|does|did|can|could|should|would"
        r"|will|may|was|were|has|have|tell me what)\b"
    ),
    wants=(
        rf"(?:what(?:{_APOSTROPHE}s|\s+is|\s+are|\s+was)|tell me|show me|give me"
        rf"|do you (?:know|remember)|where(?:{_APOSTROPHE}s|\s+is|\s+are)|recall)\s+"
    ),
    hints=(
        *("pass", "phrase", "word", "pwd", "pin", "cvv", "cvc", "puk", "key", "token", "secret"),
        *("code", "combination", "login", "log-in", "credential"),
    ),
    no_values=_words(
        "a about accepted again all already also always an and as at available bad being best"
        " broken but by case changed changing compromised correct different due easy empty"
        " encrypted enough expired expiring fine for forgotten from going gone good hard hashed"
        " here hidden i if important in incorrect inside invalid it just kept known leaked like"
        " long longer lost missing mentioned my needed never new no nothing not of off ok okay"
        " old on only optional or over printed private probably protected ready really rejected"
        " required requested reset right safe same saved secret set short shorter shown so"
        " something still stolen stored strong that the their there this to too under unknown"
        " unsafe up used valid very visible was weak what when where which why with without"
        " working written wrong your"
    ),
    small_words=_words(
        "a an and are as at be for i in is it its me my new of on our please remember save"
        " silas store that the this to was with"
    ),
)

GERMAN = Wording(
    kinds=(
        r"[\wäöüß]*-?passw(?:o|ö|oe)rt(?:er)?|[\wäöüß]*-?kennw(?:o|ö|oe)rt(?:er)?"
        r"|(?:[\wäöüß]+-|karten|handy|bank|sim|geräte)?pin(?:-?(?:codes?|nummer))?"
        r"|(?:api|wlan|wi-?fi|zugangs|lizenz|netzwerk|sicherheits|produkt|ssh|haupt|wiederherstellungs)"
        r"-?(?:key|schlüssel|schluessel|code|token)s?"
        r"|(?:tür|tuer|haustür|wohnungs|tor|alarm|safe|tresor|garagen|freischalt|entsperr|eingangs"
        r"|keller|koffer|zahlen|fahrrad)-?(?:codes?|kombination(?:en)?)"
        rf"|zugangsdaten|geheimzahl|passphrase|{_EVERYWHERE}"
    ),
    phrase_kinds=r"passphrase",
    about=(
        r"(?:für|fuer|vom|von|zum|zur|bei|beim|im|am)[ \t]+"
        r"(?:(?:das|den|die|der|dem|mein\w*|unser\w*)[ \t]+)?"
    ),
    equals=r"\b(?:ist|sind|lautet|lauten|heißt|heisst|wäre)\b(?:[ \t]+(?:jetzt|nun|ab jetzt)\b)?",
    closes=r"(?:ist|sind|lautet|lauten|heißt|heisst)",
    greets=(
        r"(?:(?:hallo|hi|hey|moin|ok|okay|also|und|übrigens|bitte|silas|kannst du|könntest du)\b"
        r"[\s,.!:]*)*"
    ),
    asks=(
        r"(?:merke?(?:\s+dir)?|notiere?(?:\s+dir)?|speicher[en]?|vergiss nicht|denk(?:e)? daran"
        r"|schreib(?:e)?(?:\s+dir)?\s+auf|behalte?)\b(?:\s+bitte\b)?[\s,:]*(?:dass?\b|das\b)?"
        r"|hier (?:ist|sind)\b|das ist\b"
    ),
    whose=r"(?:mein\w*|unser\w*|dein\w*|sein\w*|ihr\w*|der|die|das|den|dem)\b",
    orders=(
        r"(?:ändere?|aendere?|erstelle?|lege?|schreibe?|öffne|lösche?|führe?|starte?|prüfe?|teste?"
        r"|zeige?|sende|schicke?|setze?|ersetze?|verwende|benutze|nimm|mach\w*|füge?)\b"
    ),
    questions=(
        r"(?:was|welche\w*|wie|wo|wann|warum|wer|wessen|ist|sind|hast|hat|kann|kannst|soll|sollte"
        r"|darf|wird|weißt|weisst|kennst|brauch\w*)\b"
    ),
    wants=(
        r"(?:wie (?:ist|lautet|war)|was ist|sag(?:e)? mir|zeig(?:e)? mir|gib mir|kennst du"
        r"|weißt du|weisst du)\s+"
    ),
    hints=_hints(
        "passw kennw pin code kombination schlüssel schluessel key token geheim zugangs"
        " phrase login puk cvv cvc pwd"
    ),
    endings=(
        r"\w+(?:ig|lich|bar|sam|isch|los|iert|haft)(?:e[rsnm]?)?"
        r"|(?:ge|ver|ab|aus|zer|er|be|ent|un|ange|abge|ausge|wegge|aufge)\w+(?:t|en|er)"
    ),
    no_values=_words(
        "aber ab alle allen alles als alt am an auch auf aus bei beim bekannt da damit dann das"
        " daß dass dein deine dem den der derselbe des dieselbe dasselbe dies die diese dieses"
        " dort ein eine einem einen einer einfach egal es etwas falsch fällig fertig für fort"
        " ganz gar gleich gut hier hinter im immer in ins irgendwo ja jedes jetzt kaputt kein"
        " keine keiner klar kurz kürzer lang länger leer leider leicht mal mein meine mehr mit"
        " möglich nach neben neu nicht nichts nie niemandem noch nun nur oben ob oder ok okay"
        " okey richtig sehr sein seit sicher sicherer schlecht schon schwach schwer selten so"
        " sofort stark super sogar streng tabu tot über überall um unbekannt und unter unten"
        " viel vom von vor wahr weg wegen weil wenn wer wichtig wie wieder wo wohl zu zum zur"
        " zurück zwischen"
    ),
    small_words=_words(
        "am an auf bei beim bitte das dass dem den der des die dir ein eine es für im in ist"
        " jetzt mein meine meinem meinen meiner merk merke mit neu neue neues nun silas sind"
        " unser unsere vom von zum zur"
    ),
)

FRENCH = Wording(
    kinds=(
        r"mots? de passe|mdp|phrases? (?:de passe|secr[èe]tes?)"
        r"|codes? (?:pin|secrets?|confidentiels?|wi-?fi|puk"
        rf"|(?:d{_APOSTROPHE}|de (?:la |l{_APOSTROPHE})?|du )(?:acc[èe]s|entr[ée]e|porte|alarme"
        r"|portail|coffre(?:-fort)?|garage|immeuble|cadenas|carte(?: bancaire| bleue)?"
        r"|t[ée]l[ée]phone"
        r"|s[ée]curit[ée]|d[ée]verrouillage|valise|v[ée]lo))"
        rf"|cl[ée]s? (?:api|wi-?fi|wep|wpa|ssh|d{_APOSTROPHE}(?:api|acc[èe]s|activation)|priv[ée]e"
        r"|secr[èe]te|de (?:licence|s[ée]curit[ée]|r[ée]cup[ée]ration|chiffrement))"
        rf"|jetons?|identifiants?|pin|{_EVERYWHERE}"
    ),
    phrase_kinds=r"phrases? (?:de passe|secr[èe]tes?)",
    about=(
        rf"(?:pour (?:le |la |les |l{_APOSTROPHE})?|du |des |de (?:la |l{_APOSTROPHE}|mon |ma )?"
        rf"|d{_APOSTROPHE}|sur |chez )"
    ),
    equals=(
        rf"(?:,?\s*\bc{_APOSTROPHE}est\b|\b(?:est|sont)\b)"
        r"(?:[ \t]+(?:maintenant|désormais|à présent)\b)?"
    ),
    greets=(
        r"(?:(?:bonjour|salut|coucou|ok|alors|et|au fait|silas|stp|svp"
        rf"|s{_APOSTROPHE}il (?:te|vous) pla[îi]t"
        r"|(?:peux|pourrais)-tu|peux tu)\b[\s,.!:]*)*"
    ),
    asks=(
        r"(?:souviens-toi|retiens|rappelle-toi|note|noter|retenir|enregistre|garde|m[ée]morise"
        rf"|n{_APOSTROPHE}oublie pas)\b(?:\s+bien)?[\s,:]*(?:que\b|qu{_APOSTROPHE})?"
        rf"|voici\b|voilà\b|c{_APOSTROPHE}est\b"
    ),
    whose=rf"(?:(?:mon|ma|mes|notre|nos|son|sa|leur|le|la|les)\b|l{_APOSTROPHE})",
    orders=(
        r"(?:ajoute|change|modifie|crée|cree|écris|ecris|ouvre|supprime|lance|exécute|vérifie|teste"
        r"|montre|envoie|mets|remplace|utilise|fais)\b"
    ),
    questions=(
        rf"(?:quel\w*|quoi|comment|où|ou|quand|pourquoi|qui|est-ce|est|sont|peux|peut|dois|faut|as|a"
        rf"|qu{_APOSTROPHE})"
    ),
    wants=(
        rf"(?:quels?(?:le|les)? (?:est|sont|était)|c{_APOSTROPHE}est quoi|donne-moi|dis-moi"
        r"|montre-moi"
        r"|tu connais|connais-tu|tu te souviens de)\s+"
    ),
    hints=_hints(
        "mot mdp code clé cle clef jeton phrase identifiant pin pass token login puk cvv cvc pwd"
    ),
    endings=r"\w+(?:ée?s?|ible|able|eux|euse|ides?|ifs?|ives?|ante?s?|els?|elles?|ues?|ies?)",
    no_values=_words(
        "a à actuellement ailleurs alors au aussi aux avec beaucoup bien bon bonne ça caché ce"
        " celui celle ces cet cette chez comme correct dans de déjà depuis des dessous dessus"
        " deux différent difficile disponible du en encore entre erroné est et expiré facile"
        " faible fausse faux faut fort forte gardé générique identique ici il inconnu incorrect"
        " invalide jamais je juste la là le les leur long longue loin lui mais mal mauvais"
        " mauvaise me même mieux mis moins mon ne ni non nos notre nouveau nouvelle nul on ou où"
        " oui par parti pas perdu peu plus plutôt pour pourri prêt presque privé quand que"
        " quelque qui rien sa sans secret sûr sûre ses si son sous souvent sur ta tes ton"
        " toujours tout très trop un une utile valable valide vers vide vieux vrai y"
    ),
    small_words=_words(
        "à au aux bien ce cette chez de des du est et il la le les ma mes mon note notre pour"
        " que retiens silas son sont sur toi un une"
    ),
    has_bare_names=True,
)

SPANISH = Wording(
    kinds=(
        r"contraseñas?|contrasenas?"
        r"|claves?(?! (?:del?|para) (?:la |el )?(?:éxito|problema|asunto|cuestión|tema|victoria"
        r"|todo))(?: (?:api|wi-?fi|secreta|privada|de (?:api|acceso"
        r"|seguridad|licencia|recuperación)|del (?:wi-?fi|banco)))?"
        r"|frases? (?:de contraseña|secreta|semilla)"
        r"|códigos? (?:pin|secreto|de (?:la )?(?:puerta|alarma|entrada|acceso|seguridad"
        r"|caja(?: fuerte)?|desbloqueo|tarjeta)|del (?:portal|garaje|candado|portón|móvil"
        r"|edificio))"
        r"|codigos? (?:pin|secreto|de (?:la )?(?:puerta|alarma|entrada|acceso|seguridad))"
        rf"|pin(?: de la tarjeta)?|credenciales|{_EVERYWHERE}"
    ),
    phrase_kinds=r"frases? (?:de contraseña|secreta|semilla)",
    about=r"(?:para (?:el |la )?|del |de (?:la |las |los |mi )?|en )",
    equals=r"\b(?:es|son)\b(?:[ \t]+ahora\b)?",
    greets=(
        r"(?:(?:hola|oye|ok|vale|bueno|y|por cierto|por favor|silas|puedes|podrías)\b[\s,.!:]*)*"
    ),
    asks=(
        r"(?:recuerda|recordar|anota|apunta|guarda|memoriza|no olvides|ten en cuenta"
        r"|toma nota de)\b[\s,:]*(?:que\b)?|aquí (?:está|tienes)\b|est[ae] es\b"
    ),
    whose=r"(?:mi|mis|nuestr[ao]s?|su|sus|la|el|las|los|tu|tus)\b",
    orders=(
        r"(?:añade|agrega|cambia|crea|escribe|edita|abre|borra|elimina|ejecuta|comprueba|prueba"
        r"|muestra|envía|manda|pon|reemplaza|usa|haz)\b"
    ),
    questions=(
        r"¿|(?:qué|que|cuál|cual|cómo|como|dónde|donde|cuándo|por qué|quién|es|son|puedes|puedo"
        r"|debo|hay|tienes)\b"
    ),
    wants=(
        r"¿?\s*(?:cu[áa]l(?:es)? (?:es|son|era)|dime|dame|muéstrame|(?:sabes|conoces|recuerdas))\s+"
    ),
    hints=_hints(
        "contraseña contrasena clave código codigo pin frase credencial pass token login"
        " puk cvv cvc pwd"
    ),
    endings=(
        r"\w+(?:ad[ao]s?|id[ao]s?|bles?|os[ao]s?|iv[ao]s?|antes?|entes?|ales?|al|il|ísim[ao]s?"
        r"|ment[ae]|ct[ao]s?)"
    ),
    no_values=_words(
        "a ahora al algo alguna antes aquí así aún aunque bastante bien buena bueno cada como"
        " con corta corto cual cuando de del demasiado desde diferente difícil distinta distinto"
        " débil e el ella en entre errónea erróneo esa ese esta está este estos eso falsa falso"
        " fuerte igual importante incorrecta incorrecto la larga largo las lo los mala malo mal"
        " mejor mi mía mío misma mismo muy nada ni ningún ninguna no nueva nuevo nuestra o otra"
        " otro para pero peor poco por porque privada privado pública público que quizás secreta"
        " secreto segura seguro si sí siempre sin sobre solo sólo su suya tal también tan toda"
        " todo tu un una vieja viejo válida válido ya única único fácil"
    ),
    small_words=_words(
        "al anota de del el en es esta este guarda la las los mi mis nueva nuevo para por que"
        " recuerda silas son su una un"
    ),
    has_bare_names=True,
)

ITALIAN = Wording(
    kinds=(
        r"password|parol[ae] (?:d(?:'|\u2019)ordine|chiave|segret[ae])|frase segreta"
        r"|codic[ei] (?:pin|segreto|wi-?fi|puk|d(?:i |ella |el |ell['\u2019]|['\u2019])"
        r"(?:accesso|ingresso|porta|portone|allarme|cancello|cassaforte|garage|sicurezza|sblocco"
        r"|carta|bancomat|lucchetto|palazzo|telefono))"
        r"|chiav[ei] (?:api|wi-?fi|segreta|privata|d['\u2019]accesso"
        rf"|di (?:licenza|sicurezza|recupero|accesso)|del wi-?fi)"
        rf"|pin(?: del bancomat)?|credenziali|{_EVERYWHERE}"
    ),
    phrase_kinds=r"frase segreta|passphrase",
    about=rf"(?:per (?:il |la |l{_APOSTROPHE})?|del |dell{_APOSTROPHE}|della |dei |di |su |al )",
    equals=r"(?:\b(?:è|é|sono)\b|\be['\u2019])(?:[ \t]+(?:ora|adesso)\b)?",
    greets=(
        r"(?:(?:ciao|ehi|salve|ok|allora|e|comunque|a proposito|per favore|silas|puoi|potresti)\b"
        r"[\s,.!:]*)*"
    ),
    asks=(
        r"(?:ricorda(?:ti|re)?|annota|segna(?:ti)?|salva|memorizza|tieni a mente|non dimenticare"
        r"|prendi nota)\b[\s,:]*(?:che\b)?|ecco\b|quest[ao] è\b"
    ),
    whose=(
        r"(?:(?:(?:il|la|le|i|lo) )?(?:mi[ao]|miei|nostr[ao]|su[ao]|tu[ao])|il|la|le|i|lo)\b"
        rf"|l{_APOSTROPHE}"
    ),
    orders=(
        r"(?:aggiungi|cambia|modifica|crea|scrivi|apri|cancella|elimina|esegui|controlla|verifica"
        r"|prova|mostra|manda|invia|metti|sostituisci|usa|fai)\b"
    ),
    questions=(
        r"(?:che|cosa|qual\w*|come|dove|quando|perché|perche|chi|è|puoi|posso|devo|hai|c['\u2019]è)\b"
    ),
    wants=(r"(?:qual(?: è|'è|\u2019è| e'| era)|dimmi|dammi|mostrami|(?:conosci|sai|ricordi))\s+"),
    hints=_hints(
        "password parola codice codici chiave chiavi pin frase credenziali pass token"
        " login puk cvv cvc pwd"
    ),
    endings=(
        r"\w+(?:at[oaie]|ut[oaie]|it[oaie]|bil[ei]|os[oaie]|iv[oaie]|ant[ei]|ent[ei]|al[ei]"
        r"|issim[oaie]|mente|ett[oaie]|ers[oaie]|erat[oaie])"
    ),
    no_values=_words(
        "a abbastanza ad al alla allo anche ancora bene breve buona buono che chiara chiaro ci"
        " come con corta corto così da dal dalla debole del della dentro di difficile diversa"
        " diverso dove e ed errata errato facile falsa falso finita finito forte fra già giusta"
        " giusto gli ho i identica identico il importante in inutile io la là le lo lunga lungo"
        " ma mai mal male meglio mia mio molto nascosta né nel nella nessuna nessuno niente no"
        " non nostra nulla nuova nuovo o oggi ok ora perché per persa perso più poco pronta"
        " pronto proprio pubblica quando quasi quella quello questa questo qui quindi sbagliata"
        " sbagliato se segreta segreto semplice sempre senza sì sicura sicuro solo sola sono"
        " sotto stata stato stessa stesso su sua sul sulla suo tale tanto tra troppo tua tuo"
        " tutta tutto un una uguale unica unico vera vero vecchia vecchio via vuota vuoto"
    ),
    small_words=_words(
        "al che dal del dell della dei di il in la le lo mia mio nuova nuovo per ricorda"
        " ricordati silas sono su un una"
    ),
    has_bare_names=True,
)

PORTUGUESE = Wording(
    kinds=(
        r"senhas?|palavras?[ -](?:passe|chave|secreta)|frases? (?:secreta|semente|de acesso)"
        r"|c[óo]digos? (?:pin|secreto|wi-?fi|puk|d(?:a |e |o )(?:porta|alarme|entrada|acesso"
        r"|segurança|cofre|portão|garagem|cadeado|prédio|cartão|desbloqueio|telemóvel|celular))"
        r"|chaves? (?:api|wi-?fi|secreta|privada|d[ae] (?:api|acesso|licença|segurança"
        rf"|recuperação))|pin(?: do cartão)?|credenciais|{_EVERYWHERE}"
    ),
    phrase_kinds=r"frases? (?:secreta|semente|de acesso)",
    about=r"(?:para (?:o |a )?|pro |pra |do |da |dos |das |de |no |na )",
    equals=r"\b(?:é|são)\b(?:[ \t]+(?:agora|já)\b)?",
    greets=(
        r"(?:(?:olá|ola|oi|ok|então|e|aliás|por favor|silas|(?:você )?(?:pode|poderia)|podes)\b"
        r"[\s,.!:]*)*"
    ),
    asks=(
        r"(?:lembra(?:-te)?|lembre(?:-se)?|anota|anote|guarda|guarde|salva|salve|memoriza|memorize"
        r"|não (?:te )?esqueças|não esqueça|toma nota)\b[\s,:]*(?:de\s+)?(?:que\b)?"
        r"|aqui (?:está|vai)\b|est[ae] é\b"
    ),
    whose=r"(?:(?:(?:o|a|os|as) )?(?:meu|minha|meus|minhas|noss[ao]|seu|sua|teu|tua)|o|a|os|as)\b",
    orders=(
        r"(?:adiciona|adicione|muda|mude|altera|altere|cria|crie|escreve|escreva|abre|abra|apaga"
        r"|apague|executa|execute|verifica|verifique|testa|teste|mostra|mostre|envia|envie|põe"
        r"|coloca|coloque|substitui|usa|use|faz|faça)\b"
    ),
    questions=(
        r"(?:que|qual|quais|como|onde|quando|por que|porque|quem|é|são|pode|posso|devo|tem|há)\b"
    ),
    wants=(
        r"(?:qual é|quais são|qual era|me diga|diz-me|diga-me|dá-me|me dá|mostra-me|sabes?"
        r"|você sabe|lembras-te d[ao])\s+"
    ),
    hints=_hints(
        "senha palavra frase código codigo chave pin credenciais pass token login puk cvv cvc pwd"
    ),
    endings=(
        r"\w+(?:ad[ao]s?|id[ao]s?|[íáe]vel|[íáe]veis|os[ao]s?|iv[ao]s?|antes?|entes?|ais|al|il"
        r"|íssim[ao]s?|mente|ct?[ao]s?|et[ao]s?)"
    ),
    no_values=_words(
        "a agora ainda algo além antes ao aquela aquele aqui as assim até bastante bem boa bom"
        " cada com como complexa complexo comum curta curto da das de demais desde diferente"
        " difícil do dos e ela ele em entre errada errado essa esse esta este falsa falso fraca"
        " fraco forte fácil igual importante inválida inválido isso já lá longa longo mais mal"
        " mas má mau melhor mesma mesmo meu minha muito na nada nas nem nenhum nenhuma no nos"
        " nossa nova novo não nunca o onde os ou outra outro para pela pelo pior por porque"
        " pouco privada privado própria que quando quase secreta secreto segura seguro sem"
        " sempre seu si sim simples sob sobre sua só tal também tanto tão toda todo tua tudo um"
        " uma velha velho válida válido única único ótima"
    ),
    small_words=_words(
        "ao as com da das de do dos em esta este lembra lembre meu minha na no nova novo os"
        " para por pra que silas são sua um uma"
    ),
    has_bare_names=True,
)

DUTCH = Wording(
    kinds=(
        r"[\wëïö]*-?wachtwoord(?:en)?|[\wëïö]*-?wachtzin|toegangszin"
        r"|(?:[\w]+-|bank|sim)?pin(?:-?(?:codes?|nummer))?"
        r"|(?:deur|alarm|poort|kluis|garage|toegangs|beveiligings|ontgrendel|herstel|fiets|koffer"
        r"|kluisjes|portiek|slot)-?(?:codes?|combinaties?)"
        r"|(?:api|wifi|wi-fi|toegangs|licentie|netwerk|beveiligings|geheime|privé|ssh)"
        rf"[ -]?(?:sleutels?|keys?|tokens?)|inloggegevens|{_EVERYWHERE}"
    ),
    phrase_kinds=r"[\wëïö]*-?wachtzin|toegangszin",
    about=r"(?:voor|van|op|bij)[ \t]+(?:(?:de|het|mijn|m(?:'|\u2019)n|ons|onze)[ \t]+)?",
    equals=r"\b(?:is|zijn|luidt|luiden)\b(?:[ \t]+(?:nu|voortaan)\b)?",
    closes=r"(?:is|zijn|luidt|luiden)",
    greets=(
        r"(?:(?:hallo|hoi|hey|hé|ok|oké|dus|en|trouwens|alsjeblieft|graag|silas|kun je|kan je"
        r"|wil je)\b[\s,.!:]*)*"
    ),
    asks=(
        r"(?:onthoud|noteer|bewaar|sla op|vergeet niet|schrijf op|denk eraan)\b[\s,:]*(?:dat\b)?"
        r"|hier (?:is|zijn)\b|dit is\b|dat is\b"
    ),
    whose=r"(?:mijn|m(?:'|\u2019)n|onze?|je|jouw|zijn|haar|hun|de|het)\b",
    orders=(
        r"(?:voeg|wijzig|verander|maak|schrijf|open|verwijder|wis|voer|start|controleer|test|toon"
        r"|stuur|zet|vervang|gebruik|doe)\b"
    ),
    questions=(
        r"(?:wat|welke?|hoe|waar|wanneer|waarom|wie|wiens|is|zijn|heb|heeft|kan|kun|moet|mag|weet"
        r"|ken|klopt)\b"
    ),
    wants=r"(?:wat (?:is|zijn|was)|zeg me|geef me|geef mij|toon me|weet je|ken je)\s+",
    hints=_hints(
        "wachtwoord wachtzin pin code combinatie sleutel key token inlog toegang login"
        " pass puk cvv cvc pwd"
    ),
    endings=(
        r"(?:ge|ver|be|ont|her|af|aan|uit|op|ver|on|inge|uitge|opge|afge|aange)\w+(?:d|t|en|de|te)"
        r"|\w+(?:lijke?|bare?|ige?|loze?|isch|ische)"
    ),
    no_values=_words(
        "aan al alleen als altijd anders bekend beter bij boven dan dat de deze dezelfde dicht"
        " die dit door dus echt een eenvoudig en er erg ergens fout fris fijn geen geheim gelijk"
        " goed groot haar heel het hetzelfde hier hoog hun iets in ineens is ja jouw juist kapot"
        " klaar klein kort korter kwijt laag lang langer leeg lek maar makkelijk me meer met"
        " mijn moeilijk mogelijk na naar nergens net niet niets nieuw niks nog nooit nu of om"
        " onbekend onder onjuist onveilig onze op oud over privé raar sinds slecht simpel steeds"
        " sterk te tegen toch tot uit uniek van vast veel veilig vergeten verkeerd verlopen vol"
        " volgens voor vrij waar wat weer weg wel weten zeer zelfs zo zoek zonder zwak zijn"
    ),
    small_words=_words(
        "bij dat de dit een en het hier in is mijn nieuw nieuwe noteer nu onthoud ons onze op"
        " silas van voor zijn"
    ),
)

WORDINGS = (ENGLISH, GERMAN, FRENCH, SPANISH, ITALIAN, PORTUGUESE, DUTCH)
"""English first: what several languages would word is told in it."""
