// Translates lines with Bergamot, the engine of Firefox: node scripts/bergamot_translate.mjs FOLDER < lines
//
// FOLDER was written by `nmt export --format bergamot`. The engine is @browsermt/bergamot-translator, which must be
// installed with npm in the current folder, in one above it, or in the folder BERGAMOT.
import { readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const require = createRequire(join(process.env.BERGAMOT ?? process.cwd(), 'package.json'));
const { TranslatorBacking } = await import(pathToFileURL(require.resolve('@browsermt/bergamot-translator')));

// Models come from a folder, not from the network.
class LocalTranslator extends TranslatorBacking {
    async loadModelRegistery() {
        return [];
    }
}

const [folder] = process.argv.slice(2);
const files = readdirSync(folder);
const read = (start) => {
    const name = files.find((file) => file.startsWith(start));
    return name && new Uint8Array(readFileSync(join(folder, name))).buffer;
};
const vocabulary = read('vocab.');
const languages = { from: 'source', to: 'target' };

const { worker, exports: engine } = await new LocalTranslator({}).loadWorker();
await engine.loadTranslationModel(languages, {
    model: read('model.'),
    shortlist: read('lex.') ?? new ArrayBuffer(0), // without one: all subwords
    vocabs: vocabulary ? [vocabulary] : [read('srcvocab.'), read('trgvocab.')],
    config: { 'ssplit-mode': 'sentence' }, // a line is a sentence
});
const lines = readFileSync(0, 'utf-8').split('\n').slice(0, -1);
for (const text of lines) { // one by one: the longest output depends on the longest line of a batch
    const [{ target }] = await engine.translate({ models: [languages], texts: [{ text, html: false }] });
    console.log(target.text);
}
worker.terminate();
