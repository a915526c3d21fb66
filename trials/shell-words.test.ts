import { describe, expect, test } from 'vitest'
import { type Expand, quoteWord, splitWords } from './shell-words.ts'

const expand: Expand = ({ name, text }) => (name === 'PORT' ? '${port}' : text)
const split = (text: string) => splitWords(text, expand)

describe('one simple command is split as a shell would', () => {
  test.each<[string, readonly string[]]>([
    ['gunicorn  -w 4\tapp:app', ['gunicorn', '-w', '4', 'app:app']],
    ['gunicorn \\\n  --bind :8000 \\\r\n  app:app\n', ['gunicorn', '--bind', ':8000', 'app:app']],
    [`node -e 'a "b"' "c 'd'"`, ['node', '-e', 'a "b"', "c 'd'"]],
    [`a b'c'"d"\\ e ''`, ['a', 'bcd e', '']],
    ['a "x\\"y\\\\z\\n" \'\\n\'', ['a', 'x"y\\z\\n', '\\n']],
    ['a --bind :$PORT', ['a', '--bind', ':${port}']],
    ['a ${PORT} "${PORT:-8000}" ${PORT-1}', ['a', '${port}', '${port}', '${port}']],
    ["a '$PORT'", ['a', '$PORT']],
    ['a \\$PORT', ['a', '$PORT']],
    [
      'a ${workers} ${env:TOKEN} $${HOME} 5$',
      ['a', '${workers}', '${env:TOKEN}', '$${HOME}', '5$'],
    ],
    ['a # what it is', ['a']],
    ['a#b c', ['a#b', 'c']],
    ['exec gunicorn app:app', ['gunicorn', 'app:app']],
    ['A=1 B="c d" exec prog x', ['env', 'A=1', 'B=c d', 'prog', 'x']],
    ['A=1 env B=2 prog', ['env', 'A=1', 'B=2', 'prog']],
    ['exec env A=1 prog', ['env', 'A=1', 'prog']],
    ['prog A=1', ['prog', 'A=1']],
    ["sh -c 'a | b'", ['sh', '-c', 'a | b']],
    ['a;', ['a']],
    ['gunicorn app:create(1)', ['gunicorn', 'app:create(1)']],
  ])('%s', (text, words) => {
    expect(split(text)).toEqual(words)
  })

  test.each([
    ['a | tee log', "the command has '|', but tune runs it without a shell"],
    ['a || b', "the command has '||'"],
    ['a && b', "the command has '&&'"],
    ['a; b', "the command has ';'"],
    ['cd app && b', 'the command begins with cd app'],
    ['a &', 'the command ends in &'],
    ['a > log 2>&1', 'the command has a redirection'],
    ['a $(nproc)', 'the command has a substitution'],
    ['a "`nproc`"', 'the command has a substitution'],
    ['(a b)', 'the command has a group'],
    ['a "b', 'the command has an unclosed "'],
    ["a 'b", "the command has an unclosed '"],
    [' \n', 'the command is empty'],
  ])('%s is refused: a shell does that', (text, words) => {
    expect(() => split(text)).toThrow(words)
  })
})

test.each([
  ['a/b:8000', 'a/b:8000'],
  ['${host}:${port}', "'${host}:${port}'"],
  ["it's", `'it'\\''s'`],
])('%s is written as one word', (word, written) => {
  expect(quoteWord(word)).toBe(written)
})
