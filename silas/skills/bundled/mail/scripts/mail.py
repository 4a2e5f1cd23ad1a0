"""What can be done with a mailbox: `mail.py COMMAND`, with the arguments as JSON on standard input.

1. A command prints one JSON object. If it fails, the object has `error`, a sentence, and `kind`:
   `conflict` (something was changed meanwhile), `refused` (it cannot be done like this),
   `unknown_outcome` (nobody knows whether it was done: look before you repeat it), or the type of a
   failure of the account.
2. A command that changes something looks first whether every mail is where its id says, and does
   nothing otherwise. Afterwards it reads back, in a session of its own, what is there now.
3. A command that can be undone says how, in `undo`: the tool, and the arguments for what was really
   changed. The tool that undoes takes the same arguments as the one that it undoes, and in `left`
   the mails as the command has left them. Those that were moved since stay; `stayed` names them.
4. What stands in mails is a stranger's text, and is given as it is.
"""

import json
import os
import re
import smtplib
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from email.message import EmailMessage
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import letters
import providers
from imap_session import INBOX, SECONDS, Conflict, Mailbox, MailId, Unavailable, criterion, mailbox
from letters import NotWritten

RELAY = ("127.0.0.1", 1587)
READ_BYTES = 1024 * 1024
BATCH = 50
# What servers call these folders, and the names that they have where servers do not say it. Gmail
# has no archive: what is archived there is in `All Mail` alone, whatever that is called.
_ARCHIVE = (
    "archive",
    frozenset({"archive", "archives", "archiv", "archivo", "archivio", "archief", "arquivo"}),
    "all",
)
_DRAFTS = (
    "drafts",
    frozenset(
        {"drafts", "draft", "entwürfe", "brouillons", "borradores", "bozze", "rascunhos"}
        | {"concepten"}
    ),
)
_SENT = (
    "sent",
    frozenset(
        {"sent", "sent mail", "sent items", "sent messages", "gesendet", "gesendete objekte"}
        | {"gesendete elemente", "envoyés", "éléments envoyés", "messages envoyés", "enviados"}
        | {"elementos enviados", "inviati", "posta inviata", "verzonden", "verzonden items"}
    ),
)
_HEADERS = (
    "BODY.PEEK[HEADER.FIELDS (FROM TO SUBJECT DATE MESSAGE-ID AUTHENTICATION-RESULTS "
    "LIST-UNSUBSCRIBE)]"
)
_MARKS = {
    "read": ("+", "\\Seen"),
    "unread": ("-", "\\Seen"),
    "flagged": ("+", "\\Flagged"),
    "unflagged": ("-", "\\Flagged"),
}
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
Args = Mapping[str, Any]


class UnknownOutcome(Exception):
    """Nobody knows whether it was done."""


# Looking.


def folders(_args: Args) -> dict[str, Any]:
    """The folders, with how many mails each has."""
    found = []
    with mailbox() as box:
        for each in box.folders():
            if each.can_be_opened:
                total, unread = box.unread(each.name)
                found.append({"folder": each.name, "mails": total, "unread": unread})
    return {"folders": found}


def search(args: Args) -> dict[str, Any]:
    """Mails that meet the criteria, newest first."""
    limit, folder = int(args.get("limit") or 20), args.get("folder") or INBOX
    with mailbox() as box:
        box.open(folder)
        uids = box.search(*_criteria(args))
        older = MailId.parse(args["older_than"]) if args.get("older_than") else None
        if older is not None and older.validity == box.validity:
            uids = [each for each in uids if each < older.uid]
        page = uids[::-1][:limit]
        listed: list[dict[str, Any]] = []
        for start in range(0, len(page), BATCH):
            listed += _summaries(box, page[start : start + BATCH], folder)
            print(f"{len(listed)} of {len(page)} mails", file=sys.stderr, flush=True)
    more = len(uids) - len(page)
    return {"found": len(uids), "mails": listed, "older_ones": more}


def _criteria(args: Args) -> list[bytes | str]:
    found: list[bytes | str] = []
    for name, key in (("text", "TEXT"), ("sender", "FROM"), ("to", "TO"), ("subject", "SUBJECT")):
        if args.get(name):
            found.append(criterion(key, args[name]))
    for name, key in (("since", "SINCE"), ("before", "BEFORE")):
        if args.get(name):
            found.append(f"{key} {_imap_date(args[name])}")
    if args.get("unread"):
        found.append("UNSEEN")
    if args.get("label"):
        found.append(f"KEYWORD {_label(args['label'])}")
    return found


def _imap_date(text: str) -> str:
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise Conflict(f"{text[:40]!r} is no day. Write it as 2026-03-31.") from error
    # Not by `strftime`: its months are in the language of the machine.
    return f"{day.day}-{_MONTHS[3 * day.month - 3 : 3 * day.month]}-{day.year}"


def _summaries(box: Mailbox, uids: Sequence[int], folder: str) -> list[dict[str, Any]]:
    found = {}
    for uid, attributes, raw in box.fetch(uids, f"FLAGS RFC822.SIZE {_HEADERS}"):
        mail = letters.parsed(raw)
        flags = _flags(attributes)
        named = letters.message_id(mail)
        found[uid] = {
            "id": str(MailId(box.validity, uid, named, folder)),
            "message_id": "" if named == "<>" else named,
            "from": letters.header(mail, "From"),
            "to": letters.header(mail, "To"),
            "subject": letters.header(mail, "Subject"),
            "date": letters.header(mail, "Date"),
            "sender_verified": letters.is_verified(mail, _trusted()),
            "unread": "\\Seen" not in flags,
            "labels": sorted(each for each in flags if not each.startswith("\\")),
            "mailing_list": bool(letters.header(mail, "List-Unsubscribe")),
        }
    return [found[uid] for uid in uids if uid in found]


def _flags(attributes: bytes) -> set[str]:
    found = re.search(rb"FLAGS \(([^)]*)\)", attributes)
    return set(found[1].decode("utf-8", "replace").split()) if found else set()


def read(args: Args) -> dict[str, Any]:
    """One mail, whole, without marking it as read."""
    wanted = MailId.parse(args["mail"])
    mail, size = _read(wanted)
    text, start = letters.text_of(mail), int(args.get("start") or 0)
    part = text[start : start + letters.MAX_TEXT]
    return {
        "id": str(wanted),
        **{name.lower(): letters.header(mail, name) for name in ("From", "To", "Cc", "Reply-To")},
        "subject": letters.header(mail, "Subject"),
        "date": letters.header(mail, "Date"),
        "sender_verified": letters.is_verified(mail, _trusted()),
        "text": part,
        "text_goes_on_at": start + len(part) if start + len(part) < len(text) else None,
        "attachments": letters.attachments(mail),
        "can_be_unsubscribed": any(letters.unsubscribe_addresses(mail)),
        "not_read": max(0, size - READ_BYTES),
    }


def _read(wanted: MailId) -> tuple[EmailMessage, int]:
    with mailbox() as box:
        box.open(wanted.folder)
        [uid] = box.locate([wanted])
        what = f"RFC822.SIZE BODY.PEEK[]<0.{READ_BYTES}>"
        for _, attributes, raw in box.fetch([uid], what):
            size = re.search(rb"RFC822\.SIZE (\d+)", attributes)
            return letters.parsed(raw), int(size[1]) if size else len(raw)
    raise Conflict(f"The mail {wanted} is not there any more.")


# Tidying.


def archive(args: Args) -> dict[str, Any]:
    """Move mails into the archive."""
    with mailbox() as box:
        folder = box.special(*_ARCHIVE)
    return _moved(args["mails"], folder, "mail_unarchive", {})


def unarchive(args: Args) -> dict[str, Any]:
    """Move mails from the archive back to where they were."""
    with mailbox() as box:
        folder = box.special(*_ARCHIVE)
    return _moved_back(args["mails"], folder, args.get("left"))


def move(args: Args) -> dict[str, Any]:
    """Move mails into another folder."""
    return _moved(args["mails"], args["folder"], "mail_move_back", {"folder": args["folder"]})


def move_back(args: Args) -> dict[str, Any]:
    """Move mails from that folder back to where they were."""
    return _moved_back(args["mails"], args["folder"], args.get("left"))


def _moved(mails: Sequence[str], folder: str, inverse: str, more: Args) -> dict[str, Any]:
    by_folder = _by_folder(mails)
    nameless = [str(each) for ids in by_folder.values() for each in ids if each.message_id == "<>"]
    if nameless:
        raise Conflict(
            "Nothing was done. These mails have no Message-ID, so nobody could find them again: "
            + ", ".join(nameless)
        )
    if folder in by_folder:
        raise Conflict(f"Nothing was done. Some of these mails are in {folder} already.")
    with mailbox() as box:
        box.open(folder)
        for source, ids in by_folder.items():
            box.open(source)
            box.locate(ids)
        for source, ids in by_folder.items():
            box.open(source, changing=True)
            box.move(box.locate(ids), folder)
    wanted = [each for ids in by_folder.values() for each in ids]
    left = [str(each) for each in _require_there(wanted, folder)]
    mails = [str(each) for each in wanted]
    undo = {"tool": inverse, "args": {"mails": mails, "left": left, **more}}
    return {"moved": len(wanted), "folder": folder, "read_back": True, "undo": undo}


def _moved_back(
    mails: Sequence[str], folder: str, left: Sequence[str] | None = None
) -> dict[str, Any]:
    wanted = [each for ids in _by_folder(mails).values() for each in ids]
    with mailbox() as box:
        box.open(folder, changing=True)
        there = _still_left(box, mails, left) if left is not None else _by_name(box, wanted)
        lost = [str(each) for each in wanted if each not in there]
        # If nobody knows how they were left, all of them are moved back or none.
        if lost and (left is None or not there):
            raise Conflict(
                f"Nothing was done. Not in {folder} any more, or moved since: {', '.join(lost)}"
            )
        by_folder = _by_folder([str(each) for each in there])
        for source, ids in by_folder.items():
            box.move([there[each] for each in ids], source)
    for source, ids in by_folder.items():
        _require_there(ids, source)
    done = {"moved": len(there), "read_back": True}
    return {**done, "stayed": lost} if lost else done


def _by_name(box: Mailbox, wanted: Sequence[MailId]) -> dict[MailId, int]:
    """The mails with these Message-IDs in the open folder. Of copies, the last was moved there."""
    found = {each: box.with_message_id(each.message_id) for each in wanted}
    return {each: uids[-1] for each, uids in found.items() if uids}


def _still_left(box: Mailbox, mails: Sequence[str], left: Sequence[str]) -> dict[MailId, int]:
    """The mails that lie in the open folder exactly as they were left there (rule 3)."""
    pairs = zip(letters.flat(mails), letters.flat(left), strict=False)
    ids = {MailId.parse(before): MailId.parse(after) for before, after in pairs}
    same = [each for each in ids.values() if each.validity == box.validity]
    here = box.message_ids([each.uid for each in same])
    return {
        before: after.uid
        for before, after in ids.items()
        if after in same and here.get(after.uid) == before.message_id
    }


def _require_there(ids: Sequence[MailId], folder: str) -> list[MailId]:
    """Read back, in a session of its own (rule 2): the ids that the mails have there."""
    with mailbox() as box:
        box.open(folder)
        found = _by_name(box, ids)
        validity = box.validity
    lost = [str(each) for each in ids if each not in found]
    if lost:
        raise UnknownOutcome(
            f"The mail server said that it was done, but these mails are not in {folder}: "
            + ", ".join(lost)
        )
    return [MailId(validity, found[each], each.message_id, folder) for each in ids]


def label(args: Args) -> dict[str, Any]:
    """Give mails a label."""
    word = _label(args["label"])
    return _flagged(args, "+", word, {"tool": "mail_unlabel", "label": args["label"]})


def unlabel(args: Args) -> dict[str, Any]:
    """Take a label away from mails."""
    word = _label(args["label"])
    return _flagged(args, "-", word, {"tool": "mail_label", "label": args["label"]})


def mark(args: Args) -> dict[str, Any]:
    """Mark mails as read, unread, flagged or unflagged."""
    sign, flag = _MARKS[args["mark"]]
    return _flagged(args, sign, flag, {"tool": "mail_unmark", "mark": args["mark"]})


def unmark(args: Args) -> dict[str, Any]:
    """Take a mark back."""
    sign, flag = _MARKS[args["mark"]]
    other = "-" if sign == "+" else "+"
    return _flagged(args, other, flag, {"tool": "mail_mark", "mark": args["mark"]})


def _in_place(args: Args) -> tuple[list[str], list[str]]:
    """The mails that are still where they were left, and those that are not (rule 3)."""
    if args.get("left") is None:
        return args["mails"], []
    here: list[str] = []
    with mailbox() as box:
        for folder, ids in _by_folder(args["left"]).items():
            box.open(folder)
            found = _still_left(box, [str(each) for each in ids], [str(each) for each in ids])
            here += [str(each) for each in found]
    stayed = [each for each in letters.flat(args["mails"]) if each not in here]
    if not here:
        raise Conflict(f"Nothing was done. These mails were moved since: {', '.join(stayed)}")
    return here, stayed


def _label(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_$][A-Za-z0-9_$.-]{0,49}", text):
        raise Conflict(f"{text[:60]!r} is no label: letters, digits, `_`, `-` and `.` alone.")
    return text


def _flagged(args: Args, sign: str, flag: str, inverse: Args) -> dict[str, Any]:
    mails, stayed = _in_place(args)
    by_folder, changed = _by_folder(mails), []
    with mailbox() as box:
        for folder, ids in by_folder.items():
            box.open(folder)
            box.locate(ids)
        for folder, ids in by_folder.items():
            box.open(folder, changing=True)
            uids = box.locate(ids)
            carrying = _carrying(box, uids, flag)
            differ = [uid for uid in uids if (uid in carrying) == (sign == "-")]
            box.flag(differ, sign, flag)
            changed += [str(each) for each, uid in zip(ids, uids, strict=True) if uid in differ]
    _require_flags(by_folder, sign, flag)
    tool, *_ = (inverse["tool"],)
    rest = {name: value for name, value in inverse.items() if name != "tool"}
    inverted = {"mails": changed, "left": changed, **rest}
    undo = {"tool": tool, "args": inverted} if changed else None
    unchanged = len(mails) - len(changed)
    done = {"changed": len(changed), "unchanged": unchanged, "read_back": True, "undo": undo}
    return {**done, "stayed": stayed} if stayed else done


def _carrying(box: Mailbox, uids: Sequence[int], flag: str) -> set[int]:
    found = set()
    for uid, flags in box.flags(uids):
        if flag.casefold() in {each.casefold() for each in flags}:
            found.add(uid)
    return found


def _require_flags(by_folder: Mapping[str, Sequence[MailId]], sign: str, flag: str) -> None:
    with mailbox() as box:
        for folder, ids in by_folder.items():
            box.open(folder)
            uids = box.locate(ids)
            wrong = len(uids) if sign == "+" else 0
            if len(_carrying(box, uids, flag)) != wrong:
                raise UnknownOutcome("The mail server said that it was done, but it does not show.")


def _by_folder(mails: Sequence[str]) -> dict[str, list[MailId]]:
    found: dict[str, list[MailId]] = {}
    for each in letters.flat(mails):
        wanted = MailId.parse(each)
        found.setdefault(wanted.folder, []).append(wanted)
    return found


# Writing.


def draft(args: Args) -> dict[str, Any]:
    """Put a draft into the folder for drafts."""
    mail = _compose(args, kind="draft")
    with mailbox() as box:
        folder = box.special(*_DRAFTS)
        box.open(folder)
        if box.with_message_id(mail["Message-ID"]):
            raise Conflict("Nothing was done. This draft lies there already.")
        box.append(folder, "\\Draft \\Seen", mail.as_bytes())
    with mailbox() as box:
        box.open(folder)
        found = box.with_message_id(mail["Message-ID"])
        if not found:
            raise UnknownOutcome("The mail server took the draft, but it is not in its folder.")
        made = MailId(box.validity, found[-1], mail["Message-ID"], folder)
    undo = {"tool": "mail_discard_draft", "args": {**args, "left": str(made)}}
    return {"draft": str(made), **_shown(mail, args), "read_back": True, "undo": undo}


def discard_draft(args: Args) -> dict[str, Any]:
    """Delete the draft that was made with the same arguments, unless it was changed since."""
    identity = _identity(args, kind="draft")
    with mailbox() as box:
        folder = box.special(*_DRAFTS)
        box.open(folder, changing=True)
        found = box.with_message_id(identity)
        if args.get("left"):
            # A program that changes a draft puts a new one in its place, often by the same name.
            left = MailId.parse(args["left"])
            found = [left.uid] if box.validity == left.validity and found == [left.uid] else []
        if not found:
            raise Conflict("Nothing was done. The draft is not there any more, or was changed.")
        box.delete(found)
    with mailbox() as box:
        box.open(folder)
        if box.with_message_id(identity):
            raise UnknownOutcome("The mail server said that the draft is gone, but it is there.")
    return {"discarded": 1, "read_back": True}


def send(args: Args) -> dict[str, Any]:
    """Send a mail, once, and keep a copy in the folder for sent mail."""
    mail = _compose(args, kind="mail")
    recipients = letters.flat([*_to(args), *args.get("cc", []), *args.get("bcc", [])])
    return {**_sent(mail, recipients), **_shown(mail, args)}


def unsubscribe(args: Args) -> dict[str, Any]:
    """Leave a mailing list by the mail that it asks for."""
    wanted = MailId.parse(args["mail"])
    mail, _ = _read(wanted)
    by_mail, by_page = letters.unsubscribe_addresses(mail)
    if not letters.is_verified(mail, _trusted()):
        raise NotWritten(
            "Your provider does not vouch for the sender of this mail. An answer would only tell a "
            "stranger that your address is read. Nothing was sent."
        )
    if not by_mail:
        where = f"on its page: {by_page[0]}" if by_page else "nowhere that it says"
        raise NotWritten(f"This list takes no unsubscription by mail, but {where}.")
    parts = urlsplit(by_mail[0])
    fields = {name.lower(): value for name, value in parse_qsl(parts.query)}
    written = letters.written(
        sender=_own_address(),
        to=[unquote(parts.path)],
        subject=fields.get("subject", "unsubscribe"),
        text=fields.get("body", "unsubscribe"),
        identity=_identity(args, kind="unsubscribe"),
    )
    return {**_sent(written, [unquote(parts.path)]), "list": letters.header(mail, "From")}


def _compose(args: Args, *, kind: str) -> EmailMessage:
    answered, subject = None, args.get("subject") or ""
    if args.get("answer_to"):
        answered, _ = _read(MailId.parse(args["answer_to"]))
        subject = subject or letters.answer_subject(answered)
    return letters.written(
        sender=_own_address(),
        to=_to(args),
        cc=args.get("cc") or [],
        bcc=args.get("bcc") or [],
        subject=subject,
        text=args["text"],
        answers=answered,
        identity=_identity(args, kind=kind),
    )


def _identity(args: Args, *, kind: str) -> str:
    """The Message-ID of the mail that these arguments make: the same ones make no second mail.

    The same draft is never made twice. The same mail can be sent again on another day.
    """
    answered = MailId.parse(args["answer_to"]).message_id if args.get("answer_to") else ""
    day = datetime.now(UTC).date().isoformat() if kind != "draft" else ""
    names = ("to", "cc", "bcc", "subject", "text", "mail")
    said = [kind, *(args.get(name) or "" for name in names), answered, day]
    return letters.message_id_for(_own_address(), json.dumps(said))


def _to(args: Args) -> list[str]:
    to = args.get("to") or []
    if not to:
        raise NotWritten("Say whom it is for: `to` is a list of addresses.")
    return list(to)


def _shown(mail: EmailMessage, args: Args) -> dict[str, Any]:
    return {"to": _to(args), "subject": mail["Subject"], "message_id": mail["Message-ID"]}


def _sent(mail: EmailMessage, recipients: Sequence[str]) -> dict[str, Any]:
    identity = mail["Message-ID"]
    with mailbox() as box:
        folder = box.special(*_SENT)
        box.open(folder)
        if box.with_message_id(identity):
            raise Conflict("Nothing was sent. Exactly this mail was sent today already.")
    _hand_over(mail, recipients)
    try:
        return {"sent": True, "recipients": list(recipients), "copy_in": _keep_copy(mail, folder)}
    except (Conflict, Unavailable) as error:
        warning = f"It was sent, but no copy could be kept: {error}"
        return {"sent": True, "recipients": list(recipients), "warning": warning}


def _hand_over(mail: EmailMessage, recipients: Sequence[str]) -> None:
    """Give the mail to the relay for every recipient, or for none."""
    content = mail.as_bytes()
    try:
        relay = smtplib.SMTP(*RELAY, local_hostname="localhost", timeout=SECONDS)
    except (smtplib.SMTPException, OSError) as error:
        raise _not_sent(error) from error
    with relay:
        try:
            relay.ehlo_or_helo_if_needed()
            for code, said in (relay.mail(_own_address()), *map(relay.rcpt, recipients)):
                if code not in (250, 251):
                    relay.rset()
                    raise _not_sent(smtplib.SMTPResponseException(code, said))
            code, said = relay.docmd("DATA")
            if code != 354:
                raise _not_sent(smtplib.SMTPResponseException(code, said))
        except (smtplib.SMTPException, OSError) as error:
            raise _not_sent(error) from error
        try:
            relay.send(_as_data(content))
            code, said = relay.getreply()
        except (smtplib.SMTPException, OSError) as error:
            raise UnknownOutcome(
                "The connection broke while the mail was handed over. It may have been sent: look "
                "into the folder for sent mail before you send it again."
            ) from error
        if code != 250:
            raise _not_sent(smtplib.SMTPResponseException(code, said))


def _as_data(content: bytes) -> bytes:
    lines = re.sub(rb"\r\n|\r|\n", b"\r\n", content)
    stuffed = re.sub(rb"(?m)^\.", b"..", lines)
    return stuffed + (b"" if stuffed.endswith(b"\r\n") else b"\r\n") + b".\r\n"


def _not_sent(error: Exception) -> Exception:
    if isinstance(error, smtplib.SMTPResponseException):
        raw = error.smtp_error
        said = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
        if error.smtp_code in (421, 450, 451, 452):
            return Unavailable("rate_limited", f"Nothing was sent. The server says: {said[:300]}")
        if error.smtp_code in (530, 534, 535):
            return Unavailable("token_revoked", "Nothing was sent. The password does not hold.")
        return NotWritten(f"Nothing was sent. The server says: {said[:300]}")
    return Unavailable("service_unavailable", "Nothing was sent. The mail server does not answer.")


def _keep_copy(mail: EmailMessage, folder: str) -> str:
    """A copy for the owner; some providers make it themselves. Read back by IMAP (rule 2)."""
    with mailbox() as box:
        box.open(folder)
        if not box.with_message_id(mail["Message-ID"]):
            box.append(folder, "\\Seen", mail.as_bytes())
    with mailbox() as box:
        box.open(folder)
        if not box.with_message_id(mail["Message-ID"]):
            raise Conflict(f"it is not in {folder}")
    return folder


# The account.


def _account() -> dict[str, Any]:
    """Whose mailbox it is, as Silas says: no secret is in it."""
    known: dict[str, Any] = json.loads(os.environ.get("SILAS_ACCOUNT") or "{}")
    return known


def _own_address() -> str:
    address = str(_account().get("address") or _account().get("username", ""))
    if "@" not in address:
        raise NotWritten(
            "The account has no mail address of its own: its user name is none. Connect it with "
            "the address as user name."
        )
    return address


def _trusted() -> tuple[str, ...]:
    hosts = [each["host"] for each in _account().get("endpoints", ()) if each["kind"] == "imap"]
    return providers.trusted_servers(hosts[0]) if hosts else ()


COMMANDS: Mapping[str, Callable[[Args], dict[str, Any]]] = {
    each.__name__: each
    for each in (
        *(folders, search, read, archive, unarchive, move, move_back, label, unlabel),
        *(mark, unmark, draft, discard_draft, send, unsubscribe),
    )
}


def main() -> int:
    args = json.load(sys.stdin)
    given = {name: value for name, value in args.items() if value is not None}
    try:
        answer = COMMANDS[sys.argv[1]](given)
    except Conflict as error:
        answer = {"error": str(error), "kind": "conflict"}
    except NotWritten as error:
        answer = {"error": str(error), "kind": "refused"}
    except UnknownOutcome as error:
        answer = {"error": str(error), "kind": "unknown_outcome"}
    except Unavailable as error:
        answer = {"error": str(error), "kind": error.kind}
    # Half of a letter, which some programs write, is in no UTF-8.
    print(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace").decode())
    return 1 if "error" in answer else 0


if __name__ == "__main__":
    sys.exit(main())
