import { describe, expect, test } from 'vitest'
import {
  countLine,
  formatTextProto,
  listMessages,
  mergeTextProto,
  parseTextProto,
  readFieldNumbers,
  type Text,
  TextProtoError,
} from './text-proto.ts'

const batch = { max_batch_size: { value: 8 } }

describe('tuned fields are set in a text that its user wrote, and every other byte stays', () => {
  test.each([
    ['an empty text', '', 'max_batch_size {\n  value: 8\n}\n'],
    ['one without the field', 'pad: true', 'pad: true\nmax_batch_size {\n  value: 8\n}\n'],
    [
      'one with comments on both sides',
      '# mine\nmax_batch_size { value: 32 } # cap\npad: true\n',
      '# mine\nmax_batch_size {\n  value: 8\n} # cap\npad: true\n',
    ],
    [
      'other line ends',
      'pad: true\r\nmax_batch_size: { value: 32 }\r\n',
      'pad: true\r\nmax_batch_size {\r\n  value: 8\r\n}\r\n',
    ],
    [
      'angle brackets, separators and one line',
      'pad: true; max_batch_size < value: 32 >, name: "a } # b" \'c\'',
      'pad: true; max_batch_size {\n  value: 8\n}, name: "a } # b" \'c\'',
    ],
    [
      'a field of that name deeper down',
      'thread_pool { max_batch_size: 5 }\n',
      'thread_pool { max_batch_size: 5 }\nmax_batch_size {\n  value: 8\n}\n',
    ],
  ])('%s', (_what, text, merged) => expect(mergeTextProto(text, batch)).toBe(merged))

  test('repeated fields are replaced as a whole', () => {
    const text = 'sizes: 1\nsizes: 32\npad: true\nsizes: 64\n'
    expect(mergeTextProto(text, { sizes: [1, 8] })).toBe('sizes: 1\nsizes: 8\npad: true\n')
    expect(readFieldNumbers(text, 'sizes')).toEqual([1, 32, 64])
    expect(readFieldNumbers('sizes: [1, 2]', 'sizes')).toEqual([1, 2])
  })
})

test.each([
  ['a: 1\nb {', 2],
  ['a: "open\n', 1],
  ['a: 1\n\n= 2', 3],
  ['{"max_batch_size": 3}', 1],
  ['a { b: 1 ]', 1],
])('%j is no text format: line %i is named', (text, line) => {
  expect(() => mergeTextProto(text, batch)).toThrow(TextProtoError)
  expect(() => mergeTextProto(text, batch)).toThrow(`line ${line} `)
})

describe('a whole message', () => {
  test('is read with nested messages, lists, enums and comments', () => {
    const text = `# mine
name: "a" 'b' # joined
max_batch_size: 8, on: true
input [ { name: "x" dims: [ -1, 3 ] }, { name: "y" } ]
input { name: "z" }
instance_group < kind: KIND_CPU; gpus: [] >
`
    expect(parseTextProto(text)).toMatchObject({
      name: { value: 'ab' },
      max_batch_size: 8,
      on: true,
      input: [
        { name: { value: 'x' }, dims: [-1, 3] },
        { name: { value: 'y' } },
        { name: { value: 'z' } },
      ],
      instance_group: { kind: { name: 'KIND_CPU' }, gpus: [] },
    })
    const { at } = listMessages(parseTextProto(text).input)[2]!.name as Text
    expect(countLine(text, at!)).toBe(5)
    expect(parseTextProto(formatTextProto(parseTextProto(text)))).toMatchObject({
      max_batch_size: 8,
    })
  })

  test.each([
    ['a { b = 1\n}', 1],
    ['a {\n  b: [ 1, }\n}', 2],
    ['a: 1\nb: [ { c: 1 }, = ]', 2],
  ])('that is malformed is refused with its line: %j', (text, line) => {
    expect(() => parseTextProto(text)).toThrow(
      new TextProtoError(`line ${line} is not in protocol buffer text format`, line),
    )
  })

  test('loses a field that is set to an empty list', () => {
    expect(mergeTextProto('a: 1\nb { c: 2 }\nd: 3\n', { b: [] })).toBe('a: 1\nd: 3\n')
    expect(mergeTextProto('a: 1\n', { b: [] })).toBe('a: 1\n')
  })
})
