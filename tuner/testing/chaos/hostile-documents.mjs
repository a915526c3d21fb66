// Documents in the place of good answers. By kind (hostile-predictors.ts); `good` is the answer {
// model_name, id, outputs: [y] } and y its one output.

export const documentOf = {
  'another model': (good) => ({ ...good, model_name: 'other' }),
  'another id': (good) => ({ ...good, id: 'somebody' }),
  'another output': (good, y) => ({ ...good, outputs: [{ ...y, name: 'z' }] }),
  'another type': (good, y) => ({ ...good, outputs: [{ ...y, datatype: 'BYTES', data: y.data.map(String) }] }),
  'an unknown type': (good, y) => ({ ...good, outputs: [{ ...y, datatype: 'FP33' }] }),
  'another shape': (good, y) => ({ ...good, outputs: [{ ...y, shape: [9, 9] }] }),
  'a negative shape': (good, y) => ({ ...good, outputs: [{ ...y, shape: [-1, -y.data.length] }] }),
  'a shape of fractions': (good, y) => ({ ...good, outputs: [{ ...y, shape: [y.data.length / 2, 2.5] }] }),
  'a shape of words': (good, y) => ({ ...good, outputs: [{ ...y, shape: 'wide' }] }),
  'a shape of 2^60': (good, y) => ({ ...good, outputs: [{ ...y, shape: [2 ** 30, 2 ** 30] }] }),
  'no data': (good) => ({ ...good, outputs: [{ name: 'y', datatype: 'BOOL', shape: [9] }] }),
  'data of words': (good, y) => ({ ...good, outputs: [{ ...y, data: 'much' }] }),
  'data of objects': (good, y) => ({ ...good, outputs: [{ ...y, data: y.data.map(() => ({})) }] }),
  'numbers in quotes': (good, y) => ({ ...good, outputs: [{ ...y, data: y.data.map(String) }] }),
  'truths for numbers': (good, y) => ({ ...good, outputs: [{ ...y, data: y.data.map(() => true) }] }),
  'null for a number': (good, y) => ({ ...good, outputs: [{ ...y, data: y.data.map(() => null) }] }),
  'null for an output': (good) => ({ ...good, outputs: [null] }),
  'an output twice': (good, y) => ({ ...good, outputs: [y, { ...y, data: y.data.map((value) => value + 1) }] }),
  'outputs of an object': (good, y) => ({ ...good, outputs: { y } }),
  'its own numbering': (good) => ({ ...good, id: '123e4567-e89b-12d3-a456-426614174000' }),
  'no id': ({ id, ...good }) => good,
  'extra fields': (good, y) => ({ ...good, model_version: '1', parameters: { took: Math.random() }, outputs: [{ ...y, parameters: {} }] }),
  'a key of a prototype': (good) => JSON.parse(JSON.stringify(good).replace('{', '{"__proto__": {"outputs": []}, "constructor": 1, ')),
  'an error of status 200': () => ({ error: 'out of cheese' }),
  'an error beside outputs': (good) => ({ ...good, error: 'out of cheese' }),
  null: () => null,
  'a number': () => 42,
  'a list': (good) => [good],
  'no outputs': (good) => ({ ...good, outputs: [] }),
  'fifty megabytes beside': (good) => ({ ...good, parameters: { why: 'x'.repeat(50 * 2 ** 20) } }),
}

const firstNumber = /"data":\[[^\]]*\]/

/** Texts in the place of a good answer's. */
export const textOf = {
  NaN: (text) => text.replace(firstNumber, '"data":[NaN]'),
  'a number beyond doubles': (text) => text.replace(firstNumber, '"data":[1e999]'),
  'a number of a million digits': (text) => text.replace(firstNumber, `"data":[${'9'.repeat(1_000_000)}]`),
  'half a document': (text) => text.slice(0, text.length / 2),
  'two documents': (text) => text + text,
  'a word behind the document': (text) => `${text}and more`,
  'a comment before the document': (text) => `// good\n${text}`,
  'a page': () => '<html><body>It works!</body></html>',
  'an empty body': () => '',
  'deeply nested': () => '['.repeat(1_000_000),
  'deeply nested beside': (text) => text.replace('{', `{"x": ${'['.repeat(20_000)}${']'.repeat(20_000)}, `),
  'a million keys': (text) => text.replace('{', `{${Array.from({ length: 300_000 }, (_, i) => `"k${i}":0,`).join('')}`),
  'invalid UTF-8': (text) => Buffer.concat([Buffer.from([0xff, 0xfe, 0xc0]), Buffer.from(text)]),
  'UTF-16': (text) => Buffer.from(text, 'utf16le'),
  'NUL bytes': (text) => `${text}\0\0\0`,
  'escapes and controls': () => '\x1b[2J\x1b]0;gone\x07\x00\x08',
}
