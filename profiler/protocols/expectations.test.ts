import { describe, expect, test } from 'vitest'
import { coversPath, findViolation, parsePath } from './expectations.ts'

const document = {
  model_name: 'm',
  outputs: [
    { name: 'logits', shape: [1, 3], data: [0.1, 0.7, 0.2] },
    { name: 'label', shape: [1], data: ['spam'] },
  ],
  'a.b': { ok: true },
}

describe('paths', () => {
  test.each<[string, unknown[] | undefined]>([
    ['a.b[0].c', ['a', 'b', 0, 'c']],
    ['$.a[1][2]', ['a', 1, 2]],
    ["['a.b'].c", ['a.b', 'c']],
    ['a["x"]', ['a', 'x']],
    ['a[', undefined],
    ['a..b', undefined],
    ['a]b', undefined],
  ])('%s', (path, steps) => expect(parsePath(path)).toEqual(steps))
})

describe('values at paths', () => {
  test.each([
    { path: 'outputs[0].data[1]', value: 0.7 },
    { path: 'outputs.logits.data', value: [0.11, 0.69, 0.21], tolerance: 0.011 },
    { path: 'outputs.label.data[0]', value: 'spam' },
    { path: 'outputs[1]', value: { shape: [1] } },
    { path: 'outputs', value: [{ shape: [1, 3] }, { name: 'label' }] },
    { path: "['a.b'].ok", value: true },
    { path: 'model_name', tolerance: 0.1 },
  ])('$path is as expected', (one) => expect(findViolation(document, [one])).toBeUndefined())

  test.each<[Parameters<typeof findViolation>[1][number], string]>([
    [{ path: 'outputs[0].data[1]', value: 0.6 }, 'outputs[0].data[1] is 0.7, and 0.6 is expected'],
    [
      { path: 'outputs.logits.data', value: [0.1, 0.7, 0.4], tolerance: 0.1 },
      'outputs.logits.data is [0.1,0.7,0.2], and [0.1,0.7,0.4] within 0.1 is expected',
    ],
    [
      { path: 'outputs.logits.data', value: [0.1, 0.7] },
      'outputs.logits.data is [0.1,0.7,0.2], and [0.1,0.7] is expected',
    ],
    [
      { path: 'outputs.label.data[0]', value: 'ham' },
      'outputs.label.data[0] is "spam", and "ham" is expected',
    ],
    [
      { path: "['a.b']", value: 5 },
      'a.b is {"ok":true}, and 5 is expected'.replace('a.b', "['a.b']"),
    ],
    [
      { path: 'model_name', value: { name: 'm' } },
      'model_name is "m", and {"name":"m"} is expected',
    ],
    [{ path: 'outputs[0].shape[0]', value: '1' }, 'outputs[0].shape[0] is 1, and "1" is expected'],
    [{ path: 'outputs.mask.data', value: 1 }, 'it has no value at outputs.mask.data'],
    [{ path: 'toString', value: 1 }, 'it has no value at toString'],
    [{ path: 'outputs[2]', tolerance: 1 }, 'it has no value at outputs[2]'],
  ])('%o', (one, words) => expect(findViolation(document, [one])).toBe(words))
})

test('long values are shown with their first hundred characters', () => {
  const letters = (n: number) => 'x'.repeat(n)
  const words = (n: number) => findViolation({ a: letters(n) }, [{ path: 'a', value: 'y' }])
  expect(words(98)).toBe(`a is "${letters(98)}", and "y" is expected`)
  expect(words(99)).toBe(`a is "${letters(96)}..., and "y" is expected`)
})

test('a path covers the leaves below it, wherever in a list they are', () => {
  expect(coversPath('outputs.logits.data', 'outputs.logits.data[]')).toBe(true)
  expect(coversPath('outputs[0].data[1]', 'outputs.logits.data[]')).toBe(true)
  expect(coversPath('predictions[0].score', 'predictions[].score')).toBe(true)
  expect(coversPath('predictions', 'predictions[].score')).toBe(true)
  expect(coversPath('scores', 'labels[]')).toBe(false)
  expect(coversPath('rows.score', 'rows[][].score')).toBe(true)
  expect(coversPath('predictions[0].label', 'predictions[].score')).toBe(false)
  expect(coversPath('outputs.logits.data', 'outputs.logits')).toBe(false)
})
