"""The personal numbers of many countries: python-stdnum knows which are valid, a table the rest."""

import tomllib
from collections.abc import Callable
from importlib import import_module, resources

from silas.gates.guards.pii_numbers import NumberRule

_CHECKED_BY = {
    "ar_cuit": "ar.cuit",
    "at_vnr": "at.vnr",
    "au_tfn": "au.tfn",
    "be_nn": "be.nn",
    "bg_egn": "bg.egn",
    "br_cpf": "br.cpf",
    "ca_sin": "ca.sin",
    "ch_ssn": "ch.ssn",
    "cl_rut": "cl.rut",
    "cn_ric": "cn.ric",
    "cz_rc": "cz.rc",
    "de_idnr": "de.idnr",
    "dk_cpr": "dk.cpr",
    "ee_ik": "ee.ik",
    "es_dni": "es.dni",
    "es_nie": "es.nie",
    "fi_hetu": "fi.hetu",
    "fr_nir": "fr.nir",
    "gb_nhs": "gb.nhs",
    "gr_amka": "gr.amka",
    "hr_oib": "hr.oib",
    "ie_pps": "ie.pps",
    "il_idnr": "il.idnr",
    "in_aadhaar": "in_.aadhaar",
    "is_kennitala": "is_.kennitala",
    "it_codicefiscale": "it.codicefiscale",
    "jp_my_number": "jp.in_",
    "kr_rrn": "kr.rrn",
    "lt_asmens": "lt.asmens",
    "mx_curp": "mx.curp",
    "nl_bsn": "nl.bsn",
    "no_fodselsnummer": "no.fodselsnummer",
    "pl_pesel": "pl.pesel",
    "pt_nif": "pt.nif",
    "ro_cnp": "ro.cnp",
    "se_personnummer": "se.personnummer",
    "si_emso": "si.emso",
    "th_pin": "th.pin",
    "tr_tckimlik": "tr.tckimlik",
    "us_ssn": "us.ssn",
    "za_idnr": "za.idnr",
}
"""The module of python-stdnum that knows what is valid; loaded when a text holds a candidate."""


def _validator(name: str) -> Callable[[str], bool]:
    """The check of any text: some of the library's stumble over numbers of unknown places."""
    module = f"stdnum.{_CHECKED_BY[name]}"

    def check(number: str) -> bool:
        is_valid: Callable[[str], bool] = import_module(module).is_valid
        try:
            return is_valid(number)
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return False

    return _is_nir(check) if name == "fr_nir" else check


def _is_nir(valid: Callable[[str], bool]) -> Callable[[str], bool]:
    # The first digit is the sex; others are given out for a while only, and rarely.
    return lambda number: number[:1] in ("1", "2") and valid(number)


def _national_numbers() -> tuple[NumberRule, ...]:
    raw = resources.files(__package__).joinpath("national_numbers.toml").read_text("utf-8")
    return tuple(
        NumberRule(
            name=name,
            why=f"It holds a personal number ({row['country']}).",
            valid=_validator(name),
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
