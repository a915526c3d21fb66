/**
 * Mutations that keep much of an input's structure: what is left is read further than noise would
 * be.
 */
import type { Draw } from '../chaos/draw.ts'

/** What parsers stumble over, in the places of words and numbers. */
const odd = [
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
const word = /[\w.+-]+|[^\w\s]/g

type Mutation = (text: string, draw: Draw, other: string) => string

const slice = (text: string, draw: Draw): [number, number] => {
  const from = draw.whole(0, text.length)
  return [from, Math.min(text.length, from + draw.whole(0, 1 + Math.floor(text.length / 4)))]
}
const pick = <T>(draw: Draw, from: readonly T[]): T => from[draw.whole(0, from.length - 1)]!
const lines =
  (change: (all: string[], draw: Draw, other: string[]) => string[]): Mutation =>
  (text, draw, other) =>
    change(text.split('\n'), draw, other.split('\n')).join('\n')

const mutations: readonly Mutation[] = [
  // A word becomes an odd one, or one of another input.
  (text, draw) => replacedWord(text, draw, () => pick(draw, odd)),
  (text, draw) => replacedWord(text, draw, () => pick(draw, odd)),
  (text, draw, other) => replacedWord(text, draw, () => pick(draw, other.match(word) ?? ['x'])),
  (text, draw) => replacedWord(text, draw, (found) => found.repeat(draw.whole(2, 50))),
  lines((all, draw) => all.toSpliced(draw.whole(0, all.length - 1), 1)),
  lines((all, draw) => all.toSpliced(draw.whole(0, all.length), 0, pick(draw, all))),
  lines((all, draw, other) => all.toSpliced(draw.whole(0, all.length), 0, pick(draw, other))),
  lines((all, draw) => draw.shuffled(all)),
  lines((all, draw) =>
    all.map((line) =>
      draw.whole(0, 3) === 0 ? `${' '.repeat(draw.whole(0, 4))}${line.trimStart()}` : line,
    ),
  ),
  (text, draw) => text.slice(0, draw.whole(0, text.length)),
  (text, draw) => {
    const [from, to] = slice(text, draw)
    return text.slice(0, from) + text.slice(to)
  },
  (text, draw) => {
    const [from, to] = slice(text, draw)
    return text.slice(0, to) + text.slice(from, to).repeat(draw.whole(1, 20)) + text.slice(to)
  },
  (text, draw) => {
    const at = draw.whole(0, text.length)
    return (
      text.slice(0, at) +
      String.fromCharCode(draw.whole(0, 255)) +
      text.slice(at + draw.whole(0, 1))
    )
  },
]

function replacedWord(text: string, draw: Draw, by: (found: string) => string): string {
  const found = [...text.matchAll(word)]
  if (found.length === 0) return by('')
  const at = pick(draw, found)
  return text.slice(0, at.index) + by(at[0]) + text.slice(at.index + at[0].length)
}

const mostLength = 200_000

/** Bytes of an input changed in one to four ways. Latin-1 in between: every byte is a letter. */
export function mutated(input: Buffer, draw: Draw, other: Buffer): Buffer {
  let text = input.toString('latin1')
  for (let n = draw.whole(1, 4); n > 0; n--)
    text = pick(draw, mutations)(text, draw, other.toString('latin1')).slice(0, mostLength)
  return Buffer.from(text, draw.whole(0, 3) === 0 ? 'utf8' : 'latin1')
}
