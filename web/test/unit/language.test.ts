import assert from "node:assert/strict";
import { test } from "node:test";
import { languageIn } from "../../src/library/language.ts";

test("the name of a subtitle file may state a language", () => {
  for (const [name, language] of [
    ["film.de.srt", "de"],
    ["film.pt_BR.forced.vtt", "pt-BR"],
    ["my.film.deu.sdh.srt", "deu"],
    ["film.srt", ""],
    ["de.srt", ""],
    ["film.1080p.srt", ""],
    ["film.notes.srt", ""],
  ] as const)
    assert.equal(languageIn(name), language, name);
});
