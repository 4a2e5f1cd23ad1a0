"""The personal numbers of many countries: python-stdnum knows which are valid, a table the rest."""

import tomllib
from collections.abc import Callable
from importlib import resources

from stdnum.ar import cuit
from stdnum.at import vnr
from stdnum.au import tfn
from stdnum.be import nn
from stdnum.bg import egn
from stdnum.br import cpf
from stdnum.ca import sin
from stdnum.ch import ssn as ahv
from stdnum.cl import rut
from stdnum.cn import ric
from stdnum.cz import rc
from stdnum.de import idnr
from stdnum.dk import cpr
from stdnum.ee import ik
from stdnum.es import dni, nie
from stdnum.fi import hetu
from stdnum.fr import nir
from stdnum.gb import nhs
from stdnum.gr import amka
from stdnum.hr import oib
from stdnum.ie import pps
from stdnum.il import idnr as zehut
from stdnum.in_ import aadhaar
from stdnum.is_ import kennitala
from stdnum.it import codicefiscale
from stdnum.jp import in_ as my_number
from stdnum.kr import rrn
from stdnum.lt import asmens
from stdnum.mx import curp
from stdnum.nl import bsn
from stdnum.no import fodselsnummer
from stdnum.pl import pesel
from stdnum.pt import nif
from stdnum.ro import cnp
from stdnum.se import personnummer
from stdnum.si import emso
from stdnum.th import pin
from stdnum.tr import tckimlik
from stdnum.us import ssn
from stdnum.za import idnr as za_id

from silas.gates.guards.pii_numbers import NumberRule


def _is_nir(number: str) -> bool:
    # The first digit is the sex; others are given out for a while only, and rarely.
    return number[0] in "12" and nir.is_valid(number)


_VALID: dict[str, Callable[[str], bool]] = {
    "ar_cuit": cuit.is_valid,
    "at_vnr": vnr.is_valid,
    "au_tfn": tfn.is_valid,
    "be_nn": nn.is_valid,
    "bg_egn": egn.is_valid,
    "br_cpf": cpf.is_valid,
    "ca_sin": sin.is_valid,
    "ch_ssn": ahv.is_valid,
    "cl_rut": rut.is_valid,
    "cn_ric": ric.is_valid,
    "cz_rc": rc.is_valid,
    "de_idnr": idnr.is_valid,
    "dk_cpr": cpr.is_valid,
    "ee_ik": ik.is_valid,
    "es_dni": dni.is_valid,
    "es_nie": nie.is_valid,
    "fi_hetu": hetu.is_valid,
    "fr_nir": _is_nir,
    "gb_nhs": nhs.is_valid,
    "gr_amka": amka.is_valid,
    "hr_oib": oib.is_valid,
    "ie_pps": pps.is_valid,
    "il_idnr": zehut.is_valid,
    "in_aadhaar": aadhaar.is_valid,
    "is_kennitala": kennitala.is_valid,
    "it_codicefiscale": codicefiscale.is_valid,
    "jp_my_number": my_number.is_valid,
    "kr_rrn": rrn.is_valid,
    "lt_asmens": asmens.is_valid,
    "mx_curp": curp.is_valid,
    "nl_bsn": bsn.is_valid,
    "no_fodselsnummer": fodselsnummer.is_valid,
    "pl_pesel": pesel.is_valid,
    "pt_nif": nif.is_valid,
    "ro_cnp": cnp.is_valid,
    "se_personnummer": personnummer.is_valid,
    "si_emso": emso.is_valid,
    "th_pin": pin.is_valid,
    "tr_tckimlik": tckimlik.is_valid,
    "us_ssn": ssn.is_valid,
    "za_idnr": za_id.is_valid,
}


def _never_raising(valid: Callable[[str], bool]) -> Callable[[str], bool]:
    """The same check for any text: some of the library's stumble over numbers of unknown places."""

    def check(number: str) -> bool:
        try:
            return valid(number)
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return False

    return check


def _national_numbers() -> tuple[NumberRule, ...]:
    raw = resources.files(__package__).joinpath("national_numbers.toml").read_text("utf-8")
    return tuple(
        NumberRule(
            name=name,
            why=f"It holds a personal number ({row['country']}).",
            valid=_never_raising(_VALID[name]),
            shapes=tuple(row.get("shapes", ())),
            bare=tuple(row.get("bare", ())),
            words=tuple(row.get("words", ())),
            is_telling=row.get("is_telling", False),
            match=tuple(row["match"]),
            not_match=tuple(row["not_match"]),
        )
        for name, row in tomllib.loads(raw).items()
    )


NATIONAL_NUMBERS = _national_numbers()
