// Rules for all modules of the page together: they become one script, and it makes no elements or
// code of the data that it shows.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';

const page = new URL('../../tools/page/', import.meta.url);
const textOf = (path) => readFileSync(new URL(path, page), 'utf8');
const modules = readdirSync(new URL('src/', page)).filter((name) => name.endsWith('.js'))
  .map((name) => name.slice(0, -'.js'.length));
const importLine = /^import \{ ([\w, ]+) \} from '\.\/(\w+)\.js';$/gm;

function orderOfScript() {
  return /set\(modules\n([^)]*)\)/.exec(textOf('assemble.cmake'))[1].trim().split(/\s+/);
}

test('the script has every module, each behind those that it imports', () => {
  const order = orderOfScript();
  assert.deepEqual([...order].sort(), [...modules].sort());
  for (const name of modules) {
    for (const [, , other] of textOf(`src/${name}.js`).matchAll(importLine)) {
      assert.ok(order.indexOf(other) < order.indexOf(name), `${name} before ${other}`);
    }
  }
});

test('imports are a line each, of names that their module exports', () => {
  for (const name of modules) {
    const text = textOf(`src/${name}.js`);
    const imports = [...text.matchAll(importLine)];
    assert.equal(imports.length, (text.match(/\bimport\b.*['{]/g) ?? []).length, name);
    for (const [, names, other] of imports) {
      for (const one of names.split(', ')) {
        assert.match(textOf(`src/${other}.js`),
          new RegExp(`^export (class|function|const) ${one}\\b`, 'm'), `${one} of ${other}`);
      }
    }
  }
});

test('top-level names are used in one module', () => {
  const owners = new Map();
  for (const name of modules) {
    const declared = /^(?:export )?(?:async )?(?:class|function|const|let) (\w+)/gm;
    for (const [, one] of textOf(`src/${name}.js`).matchAll(declared)) {
      assert.equal(owners.get(one), undefined, `${one} in ${name} and ${owners.get(one)}`);
      owners.set(one, name);
    }
  }
  assert.ok(owners.size > 100);
});

test('no module makes elements or code of text', () => {
  const makes = new RegExp(['HTML\\b', 'document\\.write', 'DOMParser', '\\beval\\b',
    'new Function', 'createContextualFragment', 'srcdoc'].join('|'));
  for (const name of modules) assert.doesNotMatch(textOf(`src/${name}.js`), makes, name);
});
