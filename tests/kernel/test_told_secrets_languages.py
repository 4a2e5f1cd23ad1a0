"""Secrets that are told in other languages than English, and sentences that only sound like it."""

import pytest

from silas.kernel.told_secrets import asked_secret, told_secret, without_told_secrets

TOLD = """
mein WLAN-Passwort ist hunter2pass -> wlan-passwort
Merk dir, dass das WLAN-Passwort hunter2pass ist -> wlan-passwort
Merke dir bitte: der Türcode ist 4711 -> turcode
das Kennwort für Netflix lautet Foo!bar -> netflix-kennwort
Meine PIN ist 1234. -> pin
Passwort: schmetterling -> passwort
Notiere, dass mein API-Schlüssel abc123def lautet -> api-schlussel
Der Alarmcode ist jetzt 99 12 -> alarmcode
mein Bankpasswort ist „Sommer 2024“ -> bankpasswort
mon mot de passe wifi est hunter2pass -> mot-passe-wifi
Le code de la porte est 4711 -> code-porte
Retiens que le mot de passe du wifi est soleil77 -> mot-passe-wifi
mot de passe Netflix : Foo!bar -> mot-passe-netflix
Mon code PIN c'est 1234 -> code-pin
Note bien que ma clé API est abc123def -> cle-api
le mot de passe de mon compte est « abc » -> mot-passe-compte
mi contraseña del wifi es hunter2pass -> contrasena-wifi
Recuerda que el código de la puerta es 4711 -> codigo-puerta
la clave del wifi es girasol9 -> clave-wifi
Mi PIN es 1234 -> pin
contraseña de Netflix: Foo!bar -> contrasena-netflix
Anota que mi clave API es abc123 -> clave-api
la password del wifi è hunter2pass -> password-wifi
Ricordati che il codice della porta è 4711 -> codice-porta
la mia password di Netflix è Foo!bar -> password-netflix
il mio pin è 1234 -> pin
Il codice dell'allarme e' 9912 -> codice-allarme
chiave api: abc123 -> chiave-api
a senha do wifi é hunter2pass -> senha-wifi
Lembre-se de que o código da porta é 4711 -> codigo-porta
minha senha do Netflix é Foo!bar -> senha-netflix
O meu pin é 1234 -> pin
a palavra-passe do wifi é girassol7 -> palavra-passe-wifi
senha: hunter2 -> senha
mijn wifi-wachtwoord is hunter2pass -> wifi-wachtwoord
Onthoud dat het wachtwoord van de wifi hunter2pass is -> wifi-wachtwoord
de deurcode is 4711 -> deurcode
Onthoud: mijn pincode is 1234 -> pincode
het wachtwoord voor Netflix is Foo!bar -> netflix-wachtwoord
wachtwoord: zonnebloem -> wachtwoord
"""
HARMLESS = """
mein Passwort ist zu lang
Das WLAN-Passwort ist im Tresor.
Mein Passwort ist abgelaufen
Das Passwort ist falsch
Ist mein Passwort sicher?
Wie lautet mein WLAN-Passwort?
Merk dir, dass das Passwort am Kühlschrank hängt
Merk dir, dass das Passwort falsch ist
Der Code ist im Repository
Der Schlüssel ist beim Nachbarn
Erstelle eine Datei notes.txt mit Passwort: hunter2
Ändere das Passwort bis morgen
Die Postleitzahl ist 10115
Mein Passwort ist kompliziert
Mein Login ist kaputt
Die PIN ist nicht richtig
mon mot de passe est trop long
Le mot de passe est dans le coffre
Mon mot de passe est expiré
Le code est dans le dépôt
Quel est mon mot de passe wifi ?
Le mot clé est important
La clé est chez le voisin
Le code postal est 75001
Crée un fichier notes.txt avec mot de passe : hunter2
Mon mot de passe est incorrect
Le mot de passe est difficile
mi contraseña es demasiado larga
La contraseña está en la nevera
La contraseña es incorrecta
La clave del éxito es trabajar
¿Cuál es mi contraseña del wifi?
El código postal es 28001
El código es abierto
La llave está con el vecino
Cambia la contraseña mañana
Mi contraseña es segura
la password è troppo lunga
La password è sul frigo
La password è scaduta
Qual è la mia password del wifi?
Il codice postale è 00100
Il codice è nel repository
La chiave è dal vicino
La chiave del successo è la costanza
Crea un file notes.txt con password: hunter2
La mia password è debole
a senha é muito longa
A senha está no cofre
A senha é fraca
A chave do sucesso é o trabalho
Qual é a minha senha do wifi?
O código postal é 1000-001
O código é aberto
A minha senha expirou
Muda a senha amanhã
A senha é inválida
mijn wachtwoord is te lang
Het wachtwoord is verlopen
Het wachtwoord hangt op de koelkast
Het wachtwoord is verkeerd
Wat is mijn wifi-wachtwoord?
De code is in de repository
De sleutel is bij de buren
De postcode is 1012
Maak een bestand notes.txt met wachtwoord: hunter2
Mijn pincode is kwijt
Onthoud dat het wachtwoord onveilig is
A few notes on login: use SSO
I need the login: please send it
A login is required
Die Kombination aus Wein und Käse ist toll
La combinazione è perfetta
El pin es para el mapa
Mon pin's est rouge
My son's password is forgotten again
The pin is on the map
La passe est belle
Le pass est obligatoire
"""
VALUES = ("hunter2", "4711", "1234", "Foo!", "abc", "99 12", "9912", "Sommer", "soleil", "girass")
ASKED = """
Wie lautet mein WLAN-Passwort? -> wlan passwort
Quel est mon mot de passe wifi ? -> mot passe wifi
¿Cuál es mi contraseña del wifi? -> contraseña wifi
Qual è la mia password del wifi? -> password wifi
Qual é a minha senha do wifi? -> senha wifi
Wat is mijn wifi-wachtwoord? -> wifi wachtwoord
Wie ist das Wetter? -> None
"""


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


@pytest.mark.parametrize("line", lines(TOLD))
def test_a_secret_that_is_told(line: str) -> None:
    text, _, name = line.partition(" -> ")
    told = told_secret(text)
    assert told is not None
    assert told.name == name
    assert told.text.endswith("[redacted]")
    assert not [each for each in VALUES if each in told.text]
    assert without_told_secrets(text) == told.text


@pytest.mark.parametrize("text", lines(HARMLESS))
def test_what_tells_none(text: str) -> None:
    assert told_secret(text) is None
    assert without_told_secrets(text) == text


@pytest.mark.parametrize("line", lines(ASKED))
def test_what_is_asked_for(line: str) -> None:
    text, _, label = line.partition(" -> ")
    assert str(asked_secret(text)) == label
