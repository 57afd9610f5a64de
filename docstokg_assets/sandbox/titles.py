"""Titles in many scripts: short, long, right-to-left, with tags, emoji and formulas.

Pure functions of a few numbers. `latin()` returns the plain form that a PDF with a standard font can show.
"""

from __future__ import annotations

import re
import unicodedata

# fmt: off
_WORDS: dict[str, tuple[str, ...]] = {
    "en": ("Adaptive", "limits", "of", "quantum", "tidal", "memory", "in", "sparse", "networks", "and", "coral",
           "sediments", "under", "thermal", "stress", "revisited", "bounded", "kernels", "for", "urban", "rainfall"),
    "fr": ("Étude", "générale", "des", "forêts", "boréales", "à", "l’équilibre", "où", "naît", "la", "théorie",
           "élargie"),
    "de": ("Über", "die", "Größe", "ähnlicher", "Flüsse", "und", "müder", "Wälder", "im", "späten", "Frühjahr"),
    "pt": ("Análise", "da", "função", "cardíaca", "em", "aves", "migratórias", "após", "exposição", "à", "poluição"),
    "el": ("Μελέτη", "της", "θερμικής", "ισορροπίας", "στα", "νησιά", "του", "Αιγαίου", "και", "των", "κυμάτων"),
    "ru": ("Исследование", "устойчивости", "северных", "экосистем", "при", "изменении", "климата", "и", "почвы"),
    "zh": ("稀疏", "网络", "中", "的", "量子", "记忆", "与", "城市", "降雨", "模型", "研究"),
    "ja": ("深層", "学習", "による", "海洋", "温度", "の", "予測", "と", "その", "評価", "について"),
    "ar": ("دراسة", "في", "استقرار", "الشبكات", "العصبية", "تحت", "تأثير", "الحرارة", "والمياه"),
    "he": ("מחקר", "על", "יציבות", "של", "רשתות", "בתנאי", "חום", "ויובש", "בים", "התיכון"),
}
# language by weight out of 100: most titles are English, as in the world
_LANGUAGES = ("en",) * 62 + ("fr",) * 6 + ("de",) * 6 + ("pt",) * 5 + ("ru",) * 5 + ("zh",) * 5 + ("ja",) * 4 + (
    "el",) * 3 + ("ar",) * 2 + ("he",) * 2
_UNSPACED = frozenset({"zh", "ja"})
_DECORATIONS = {
    0: "{t} <i>in vivo</i> &amp; <sub>2</sub>",
    1: '{t} <mml:math xmlns:mml="http://www.w3.org/1998/Math/MathML"><mml:mi>α</mml:mi><mml:mo>→</mml:mo><mml:mn>0</mml:mn>'
       "</mml:math>",
    2: "{t} 🧪🌍👩‍🔬",
    3: '=HYPERLINK("https://example.org","{t}")',
    4: "{t}: ../../etc/passwd",
    5: "“{t}” — a ‘reply’",
}
# fmt: on


def language(roll: int) -> str:
    return _LANGUAGES[roll % 100]


def title(lang: str, roll: int, code: str) -> str:
    """Return a title; about one in twelve is decorated, one in four hundred is 5,000 characters long."""
    words = _WORDS[lang]
    count = 5 + roll % 6
    picked = [words[(roll // 7 + k * (1 + roll % 5)) % len(words)] for k in range(count)]
    text = ("" if lang in _UNSPACED else " ").join(picked)
    text = f"{text[:1].upper()}{text[1:]} {code[4:].lstrip('0') or '0'}"
    kind = (roll >> 8) % 400
    if kind == 399:
        return (text + "; ") * (5000 // (len(text) + 2) + 1)
    if kind < 33:
        return _DECORATIONS[kind % 6].format(t=text)
    return text


def latin(text: str) -> str:
    """Return what a standard PDF font can show: tags dropped, accents folded, other letters as U+XXXX."""
    plain = re.sub(r"<[^<>]*>", "", text)
    folded = unicodedata.normalize("NFKD", plain)
    kept = [c if 32 <= ord(c) < 127 else ("" if unicodedata.combining(c) else f"<{ord(c):04X}>") for c in folded]
    return "".join(kept)[:400]
