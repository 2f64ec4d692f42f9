"""The datasets that have a name: their sizes, pinned, and the pinned files they can be fetched from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from tuckerkg.data.download import Remote

TRIPLES = "triples.tar.gz"
_ARCHIVES = "https://raw.githubusercontent.com/TimDettmers/ConvE/f3c0eb286025410fa5b4c04696c918264163d0ca"
_INDUCTIVE = "https://raw.githubusercontent.com/kkteru/grail/2a3dffa719518e7e6250e355a2fb37cd932de91e/data"
_TITLES = "https://raw.githubusercontent.com/yao8839836/kg-bert/0b8f625108efcb9b43603b6840f2548ff3d3c973/data"


class Counts(TypedDict):
    """Sizes of a dataset."""

    entities: int
    relations: int
    train: int
    valid: int
    test: int


@dataclass(frozen=True)
class Known:
    """A dataset with a name: its size, pinned, and where its files can be fetched from.

    ``remotes`` maps a file name in the dataset's folder to its source; an archive is unpacked there.
    ``title_ends`` cuts titles at the first occurrence, where the source adds a gloss.
    ``collection`` names a folder of several datasets that this one may lie in.
    """

    name: str
    about: str
    counts: Counts
    spellings: tuple[str, ...] = ()
    remotes: Mapping[str, Remote] = field(default_factory=dict)
    title_ends: str | None = None
    collection: str | None = None


def _triples(path: str, size: int, sha256: str) -> dict[str, Remote]:
    return {TRIPLES: Remote(f"{_ARCHIVES}/{path}", sha256, size)}


def _title(path: str, size: int, sha256: str) -> dict[str, Remote]:
    return {path.rpartition("/")[2]: Remote(f"{_TITLES}/{path}", sha256, size)}


def _inductive(name: str, *, entities: int, relations: int, **splits: tuple[int, int, str]) -> Known:
    """A graph of the inductive benchmarks of Teru et al. (2020), GraIL; a split is its triples, bytes and SHA-256."""
    whole = f"{'Freebase' if name.startswith('fb') else 'WordNet'}, inductive benchmark {name.split('_')[1]}"
    about = "entities that training never sees" if name.endswith("_ind") else "the part to train on"
    train, valid, test = (splits[split][0] for split in ("train", "valid", "test"))
    return Known(
        name=name.casefold(),
        about=f"{whole}: {about}",
        counts=Counts(entities=entities, relations=relations, train=train, valid=valid, test=test),
        remotes={
            f"{split}.txt": Remote(f"{_INDUCTIVE}/{name}/{split}.txt", sha256, size)
            for split, (_, size, sha256) in splits.items()
        },
        collection="grail",
    )


_ALL = (
    Known(
        name="countries",
        about="countries of the world; ships with the package",
        counts=Counts(entities=978, relations=10, train=2_701, valid=208, test=208),
        spellings=("country", "world"),
    ),
    Known(
        name="fb15k-237",
        about="facts of Freebase without inverse relations",
        counts=Counts(entities=14_541, relations=237, train=272_115, valid=17_535, test=20_466),
        spellings=("fb237", "freebase237"),
        remotes=_triples(
            "FB15k-237.tar.gz", 3_678_603, "311df7930f842a02979eaa7a802484a6afe62303c07f915f1e6edbc30cbe05e8"
        )
        | _title(
            "FB15k-237/entity2text.txt", 392_383, "16beedcfad3d32696e8b0b98cfa0f5eeb144f5142225f227a64fd9ce37447da5"
        )
        | _title(
            "FB15k-237/relation2text.txt", 29_130, "4bf7cb6ea0ac09b17ad210889f723be5e079669f6ae5d507787e1320bbaa0f72"
        ),
    ),
    Known(
        name="wn18rr",
        about="word senses of WordNet without inverse relations",
        counts=Counts(entities=40_943, relations=11, train=86_835, valid=3_034, test=3_134),
        spellings=("wnrr", "wordnet18rr"),
        remotes=_triples("WN18RR.tar.gz", 892_861, "1eb9152f804c140d163462c0d49f65e5a0b30ab5fbb375c5e3353c11a6249060")
        | _title(
            "WN18RR/entity2text.txt", 4_086_439, "8f5c6f11753dafa879917b9bdf73d398ceb3bd4bed8d5553177e1e0f2c37521f"
        )
        | _title("WN18RR/relation2text.txt", 370, "91b1de5585d686ed31498d50f1c4eed44ba9486dffbbcc0c28927ac884184918"),
        title_ends=",",
    ),
    Known(
        name="umls",
        about="relations between kinds of medical concepts",
        counts=Counts(entities=135, relations=46, train=5_216, valid=652, test=661),
        remotes=_triples("umls.tar.gz", 35_648, "26223aa91f0ec8db2324e0f489b9a4425e04d1d0df72ce5cfd62af4b91aee6fd"),
    ),
    Known(
        name="kinship",
        about="kinship terms between members of a tribe",
        counts=Counts(entities=104, relations=25, train=8_544, valid=1_068, test=1_074),
        spellings=("kinships", "alyawarra"),
        remotes=_triples("kinship.tar.gz", 42_703, "a3cb9ca67213eb38133aebc12901195e283d844ebd59f1a6cbf2d4fa12ced4e6"),
    ),
    Known(
        name="nations",
        about="dealings between nations around 1960",
        counts=Counts(entities=14, relations=55, train=1_592, valid=199, test=201),
        spellings=("nation",),
        remotes=_triples("nations.tar.gz", 8_077, "feb3e3e027103089934ea7dfb67d2048d8a43e65d6757a86f2e037acb66f640b"),
    ),
    _inductive(
        "fb237_v1",
        entities=1_594,
        relations=180,
        train=(4_245, 306_475, "74ef3120fe38a22e5131064d23108b88a8d339496057fa8467d80dcda8f1cec1"),
        valid=(489, 35_308, "d4c2698d7dc36c0dc39ffb3d810caeafe530d779bf9f6451fac2027f41c2ff6d"),
        test=(492, 34_735, "130534f98bc3b9621bc866035098b132091e8bc749fbad327b5978f3d47f49f7"),
    ),
    _inductive(
        "fb237_v1_ind",
        entities=1_093,
        relations=142,
        train=(1_993, 147_145, "049829f7047ecf0e0bff0769efca31bc7f811f760c4ffcb20a5680f789b00c61"),
        valid=(206, 15_165, "ac817123c4177ef46b08a3802380a355282b99d4283c43474c9dd91c082107dd"),
        test=(205, 14_846, "c79d39372be30a3864cfe5094b3022f38b57d88c351dbbfa2d9e7f3368ac23aa"),
    ),
    _inductive(
        "fb237_v2",
        entities=2_608,
        relations=200,
        train=(9_739, 722_862, "542f81af46d6727979278643105ba7c236dd8b29ee5d9962e3c3fa295ab8869c"),
        valid=(1_166, 87_596, "59e07dcb883b28bb35585ba95576e4ebb2a71ddbc906119abcc4c87b28198d0c"),
        test=(1_180, 89_741, "95da050e60b94f285cdf18ea7899b34df9e0a4a1d638f5ec6ff99caef36a2beb"),
    ),
    _inductive(
        "fb237_v2_ind",
        entities=1_660,
        relations=172,
        train=(4_145, 326_955, "6756f8d4aa688bc1a18c1106117a7fde94e0469f223f5d00954846afce471e54"),
        valid=(469, 37_244, "2c3b4430cac899b868c9dd22ece0eae830ca62c8a6c0bf8610c670bbeaf7d6d8"),
        test=(478, 38_098, "17c16e008cb6dfdc67ef0f375aab0a8fee2b087c7d687a72f5217b789d0c4a10"),
    ),
    _inductive(
        "fb237_v3",
        entities=3_668,
        relations=215,
        train=(17_986, 1_391_287, "0f27b7f00d3e34964450c22445d17f7612d12d7c382caa3317f45bfe7465f299"),
        valid=(2_194, 170_085, "8b034e73fe64af9c7baf1e12704a94e7e9a9e6b9242feb498c69ebd65bccf269"),
        test=(2_214, 171_303, "f93ff5277296486e2ce5d035e46b81b24b89e55a7a8e41196636482aeb50a49b"),
    ),
    _inductive(
        "fb237_v3_ind",
        entities=2_501,
        relations=183,
        train=(7_406, 560_703, "2805f9237816f5bb5bb1ff1fbc3d37cc0beb99047bef3a6bd82cc1f6947e8525"),
        valid=(866, 65_038, "76f7691aa597d43d704af047d01a5f4d266c02733c52a5c340c2bea4a85dd281"),
        test=(865, 65_726, "7dbd4d74210ffd5029d95327639f83c3b46f8bd4ee3571e619812b367d0880da"),
    ),
    _inductive(
        "fb237_v4",
        entities=4_707,
        relations=219,
        train=(27_203, 2_102_632, "b9fa0f2650a1ab7687e21e0aec24bb51c0b0eacf0d88c8780c03c9b201b9148d"),
        valid=(3_352, 259_213, "d99dedcd13bc0cd338a299a895685b66f15e0b7ed42477d40f1ad1a65ce6d483"),
        test=(3_361, 259_175, "f1ecc866636b2704bd6f7cae53d2bbeea414fa88c1f2b4ab9f1924719bd505c8"),
    ),
    _inductive(
        "fb237_v4_ind",
        entities=3_051,
        relations=200,
        train=(11_714, 900_449, "ef55c03e05d5eeeec97fe2030e92bc36bd5ee9311b770ae0a3fd812982686e8d"),
        valid=(1_416, 110_395, "0a237c20719267449388e1d43995ccf67da5a3c82085ba5d2e3996c77dc73921"),
        test=(1_424, 111_402, "8e6e19adb9b154348897bf896b5305a76126bc4d79a21705ea47e4efce2d84f3"),
    ),
    _inductive(
        "WN18RR_v1",
        entities=2_746,
        relations=9,
        train=(5_410, 213_160, "4cc72d4fdcc8206e208e1f59f3c778be5de4a68cfe76776d15245b0d2c08d396"),
        valid=(630, 24_758, "5cebd29da8ada35ac73b6875329884cdf83943ddea454e9f70cc43b423ea479b"),
        test=(638, 25_248, "f1cb44e999e2540a0a614f4bb710c7f82a9304432ff37ce282749b56c66d0d20"),
    ),
    _inductive(
        "WN18RR_v1_ind",
        entities=922,
        relations=8,
        train=(1_618, 67_372, "7d1b73c5994e9aa816b34e33ee10707656803ba6b8a0f6066cae7ddc04f87553"),
        valid=(185, 7_974, "cfa28b9d75dbab17ea82a9443a5bf8acb738e60267cc63f8a221b38967e1d238"),
        test=(188, 8_101, "6df8c00a2e0cf1a4b484ac638c081198926fcbc411ce2e12ccc79d432eead269"),
    ),
    _inductive(
        "WN18RR_v2",
        entities=6_954,
        relations=10,
        train=(15_262, 607_710, "a14a902df92e32f4aeb65761560072a007ae915308bb8a7a03c58dc1e9c2a9ad"),
        valid=(1_838, 73_166, "2d3f6703d87fe1605f636736f0e848d9750b8e1593bd41101554ecbb41a1d836"),
        test=(1_868, 75_199, "04e03f270adf4970132ad51ab1a4022e46e790e9b662890ce4e13d31e6d096ad"),
    ),
    _inductive(
        "WN18RR_v2_ind",
        entities=2_757,
        relations=10,
        train=(4_011, 160_235, "8dc9bb459e6306737a083b15698ed1420ce8dc57e27f8a42ab7b90c26dfc5154"),
        valid=(411, 17_196, "fc32db7cb56dba0ff05bf57efd8a2279f0825dc6ae763c9d32281a9a1373c09a"),
        test=(441, 18_191, "3b3942ce7665f1a6667721f5eab946bde79a5929f1996c5af16e0b092a5084bb"),
    ),
    _inductive(
        "WN18RR_v3",
        entities=12_078,
        relations=11,
        train=(25_901, 1_009_325, "324a2b04b621bfe8d2dd98ad1c585fbc7efefb1548e92b5d10afc08733286aa7"),
        valid=(3_097, 121_186, "7f008df4879d36ef70a5c5eb58a7c87488c3f1fea606ab484e66a1aff89b0cbc"),
        test=(3_152, 123_083, "df6690cc2a454c14f79a62e879ba6d688bd666f2cf6168e1d6abffd7a7efc598"),
    ),
    _inductive(
        "WN18RR_v3_ind",
        entities=5_084,
        relations=11,
        train=(6_327, 228_490, "85b817c364d097793a4b0969fa49d20167345256bf812c978bff381ad3aef492"),
        valid=(538, 19_638, "c0876dafce4cef4c6ef1aa53457fb9f4e40a31a8bf9edbaf05389bfe5ba26f43"),
        test=(605, 22_225, "efad21a11c1cf26a1a4a5fcf7a64c585ccde3c4f8f71de3a00a995d9e8c9938d"),
    ),
    _inductive(
        "WN18RR_v4",
        entities=3_861,
        relations=9,
        train=(7_940, 313_123, "5eace2cdfdffb2b19c6d27c7527ae79b8f4b1b3fb712d9a5049243a13edb95ca"),
        valid=(934, 37_149, "ca1568ca934bbf5ccfeabb3a67010968433c0e5bc1df9b0d3d48279023abd7bd"),
        test=(968, 38_408, "7d4f3226400ea477a5559aa69034df73f0cd314c1a1916963ac000b2cac44e82"),
    ),
    _inductive(
        "WN18RR_v4_ind",
        entities=7_084,
        relations=9,
        train=(12_334, 499_274, "d5608132dab5873666e249c1de9412608c0e0b2cc0d154b0ffceff1ce067cc03"),
        valid=(1_394, 57_918, "0928c5cb528ebde49a3be13f3df4d863f95312c247854bea556c65008cc5b54c"),
        test=(1_429, 58_676, "10ccff353175e6eaaff0b3d7ef7931115845868653ddba0ba6fb5c8dfdab6364"),
    ),
)
KNOWN = {known.name: known for known in _ALL}


def canonical_name(name: str) -> str | None:
    """The name of the known dataset that ``name`` spells in any common way, or None."""
    wanted = _plain(name)
    for known in KNOWN.values():
        if wanted in {_plain(spelling) for spelling in (known.name, *known.spellings)}:
            return known.name
    return None


def _plain(name: str) -> str:
    return re.sub(r"[-_ .]", "", name.casefold())
