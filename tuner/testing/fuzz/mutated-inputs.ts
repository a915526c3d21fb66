/**
 * Arbitraries of inputs that keep much of a valid input's structure, so that a reader gets further
 * than noise would let it. They shrink to fewer edits, each nearer to the input's beginning.
 */
import fc from 'fast-check'

/** What parsers stumble over, in the places of words and numbers. */
const oddTokens = [
  ...[
    '',
    ' ',
    '0',
    '-1',
    '-0',
    '1e999',
    'NaN',
    'Infinity',
    '9007199254740993',
    '99999999999999999999',
    '0x10',
    '.5',
    '1_000',
    'null',
    'true',
    '~',
  ],
  ...[
    '[]',
    '{}',
    '[[]]',
    '""',
    "'",
    '"',
    '`',
    '\\',
    '\\u0000',
    '\\ud800',
    '\0',
    '\u{1f600}',
    'é',
    '\ufeff',
    '\u2028',
    '\r',
    '\t',
    '#',
    '---',
    '...',
  ],
  ...[
    '__proto__',
    'constructor',
    'toString',
    '&a',
    '*a',
    '!!binary aGk=',
    '!!set {a}',
    '<<: *a',
    '${port}',
    '${',
    '$${x}',
    '${env:HOME}',
    '${file:/etc/passwd}',
  ],
  ...[
    '../../etc/passwd',
    '/dev/zero',
    '/dev/stdin',
    'file:///etc/passwd',
    'http://a:b@c',
    'ftp://x',
    '://',
    '%00',
    '%',
    '50ms',
    '-50ms',
    '1e9s',
    'p99<50ms',
    'p0<1ms',
    'p100',
  ],
  ...['a'.repeat(5_000), '['.repeat(300), '9'.repeat(400), ','.repeat(500), '\n'.repeat(200)],
]
const tokenPattern = /[\w.+-]+|[^\w\s]/g

/** Texts are Latin-1: every byte is a letter. */
type Edit = (text: string) => string

/** Any place of a text, a line or a token, modulo how many there are. */
const place = fc.nat()

function replaceToken(text: string, at: number, replace: (token: string) => string): string {
  const tokens = [...text.matchAll(tokenPattern)]
  if (tokens.length === 0) return replace('')
  const { index, 0: token } = tokens[at % tokens.length]!
  return text.slice(0, index) + replace(token) + text.slice(index + token.length)
}

function replaceLine(text: string, at: number, replace: (line: string) => string[]): string {
  const lines = text.split('\n')
  const index = at % lines.length
  return lines.toSpliced(index, 1, ...replace(lines[index]!)).join('\n')
}

/** @param replace is passed a slice of at most a quarter of the text */
function replaceSlice(
  text: string,
  at: number,
  length: number,
  replace: (slice: string) => string,
): string {
  const from = at % (text.length + 1)
  const to = Math.min(text.length, from + (length % (2 + Math.floor(text.length / 4))))
  return text.slice(0, from) + replace(text.slice(from, to)) + text.slice(to)
}

function arbitraryEdit(seeds: readonly string[]): fc.Arbitrary<Edit> {
  const knownTokens = [...new Set(seeds.flatMap((seed) => seed.match(tokenPattern) ?? []))]
  const knownLines = [...new Set(seeds.flatMap((seed) => seed.split('\n')))]
  const newToken = fc.oneof(
    { weight: 2, arbitrary: fc.constantFrom(...oddTokens) },
    { weight: 1, arbitrary: fc.constantFrom('x', ...knownTokens) },
  )
  const edits: fc.Arbitrary<Edit>[] = [
    fc.tuple(place, fc.integer({ min: 0, max: 255 }), fc.boolean()).map(
      ([at, byte, keeps]) =>
        (text) =>
          replaceSlice(text, at, 1, (old) => String.fromCharCode(byte) + (keeps ? old : '')),
    ),
    fc.tuple(place, fc.integer({ min: 2, max: 50 })).map(
      ([at, times]) =>
        (text) =>
          replaceToken(text, at, (token) => token.repeat(times)),
    ),
    place.map((at) => (text) => replaceLine(text, at, () => [])),
    fc.tuple(place, fc.constantFrom(...knownLines)).map(
      ([at, line]) =>
        (text) =>
          replaceLine(text, at, (old) => [line, old]),
    ),
    fc.tuple(place, fc.integer({ min: 0, max: 4 })).map(
      ([at, spaces]) =>
        (text) =>
          replaceLine(text, at, (line) => [' '.repeat(spaces) + line.trimStart()]),
    ),
    place.map((at) => (text) => text.slice(0, at % (text.length + 1))),
    fc.tuple(place, place, fc.integer({ min: 0, max: 20 })).map(
      ([at, length, times]) =>
        (text) =>
          replaceSlice(text, at, length, (slice) => slice.repeat(times)),
    ),
  ]
  return fc.oneof(
    {
      weight: 4,
      arbitrary: fc.tuple(place, newToken).map(
        ([at, token]) =>
          (text: string) =>
            replaceToken(text, at, () => token),
      ),
    },
    ...edits.map((arbitrary) => ({ weight: 1, arbitrary })),
  )
}

const maxLength = 200_000

/** One of the seeds with one to eight edits. */
export function arbitraryInput(seeds: readonly Buffer[]): fc.Arbitrary<Buffer> {
  const texts = seeds.map((seed) => seed.toString('latin1'))
  return fc
    .tuple(
      fc.constantFrom(...texts),
      fc.array(arbitraryEdit(texts), { minLength: 1, maxLength: 8 }),
      fc.constantFrom<BufferEncoding>('latin1', 'latin1', 'latin1', 'utf8'),
    )
    .map(([seed, edits, encoding]) =>
      Buffer.from(
        edits.reduce((text, edit) => edit(text).slice(0, maxLength), seed),
        encoding,
      ),
    )
}
