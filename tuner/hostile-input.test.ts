/**
 * Input made to hang or to flood: it ends with exit code 2, a message that fits a screen, and in
 * time.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { CliBox } from './testing/run-cli.ts'
import { WarmCli } from './testing/warm-cli.ts'

const tune = new WarmCli()
const box = new CliBox()
afterAll(() => {
  tune.end()
  box.dispose()
})

/** What takes two seconds here is allowed as much as a slow and busy machine may take for it. */
const maxMs = 100_000

async function config(args: readonly string[]): Promise<{ code: number | null; text: string }> {
  const { code, stdout, stderr } = await tune.run(box, ['config', ...args])
  return { code, text: stdout + stderr }
}

const base = 'model: bert\nslo: 50ms\n'
const many = (count: number, line: (i: number) => string) =>
  Array.from({ length: count }, (_, i) => line(i)).join('')
const long = 'a'.repeat(100_000)
const thousand = Array.from({ length: 1_000 }, (_, i) => i)
const laughs = `name: &a [x,x,x,x,x,x,x,x,x]\n${many(9, (i) => `k${i}: &${'bcdefghij'[i]} [${Array(9).fill(`*${'abcdefghi'[i]}`)}]\n`)}`

describe('an experiment file with', () => {
  test.each<[what: string, text: string, message: RegExp]>([
    ['a binary for the model', 'model: !!binary aGVsbG8=\nslo: 50ms\n', /:1:8: Unresolved tag/],
    ['a set for the SLO', 'model: bert\nslo: !!set {a, b}\n', /:2:6: Unresolved tag/],
    [
      'a model of 100,000 letters',
      `model: ${long}\nslo: 50ms\n`,
      /unknown model .*100002? characters/,
    ],
    ['an SLO of 100,000 digits', `model: bert\nslo: '${'9'.repeat(100_000)}ms'\n`, /:2:6: slo/],
    [
      'a constraint of 15,000 terms',
      `${base}constraints: ['${many(15_000, () => 'batchSize > 1 && ')}true']\n`,
      /the condition has \d+ characters/,
    ],
    [
      'a constraint of 20,000 brackets',
      `${base}constraints: ['${'('.repeat(20_000)}1${')'.repeat(20_000)} > 0']\n`,
      /the condition has \d+ characters/,
    ],
    [
      '20,000 constraints',
      `${base}constraints:\n${many(20_000, () => '  - batchSize > 1\n')}`,
      /more than 20,000/,
    ],
    [
      '15,000 unknown keys',
      base + many(15_000, (i) => `k${i}: 1\n`),
      /unknown key 'k19', and 14980 more/,
    ],
    [
      '6,000 parameters',
      `${base}space:\n${many(6_000, (i) => `  k${i}: {values: [1]}\n`)}`,
      /parameters exceed the maximum of 20/,
    ],
    [
      '21 parameters',
      `${base}space:\n${many(21, (i) => `  k${i}: {values: [1, 2], category: env}\n`)}`,
      /parameters exceed the maximum of 20/,
    ],
    ['20,000 brackets', `model: ${'['.repeat(20_000)}\n`, /nested deeper than 200/],
    ['a key that stands twice', `${base}name: a\nname: b\n`, /:4:1: Map keys must be unique/],
    ['nine anchors of nine each', `${base}${laughs}`, /Excessive alias count/],
    ['an SLO of more than a life', 'model: bert\nslo: 1e308s\n', /is longer than ten years/],
    ['a demand of too many digits', `${base}demand: 1e999999999\n`, /demand/],
    ['a megabyte of a key', `${base}${'x'.repeat(900_000)}: 1\n`, /at most 1024 chars/],
    [
      '20 parameters of 1,000 values',
      `${base}space:\n${many(20, (i) => `  k${i}: {values: [${thousand}]}\n`)}`,
      /more than 20,000/,
    ],
    [
      '50,000 variables',
      `${base}predictor: {env: {${many(50_000, (i) => `A${i}: x,`)}}}\n`,
      /more than 20,000/,
    ],
    ['an SLO of 10,000 limits', `model: bert\nslo: '${'p99<50ms '.repeat(10_000)}'\n`, /slo/],
    ['100,000 documents', base + '---\n'.repeat(100_000), /more than 20,000/],
    ['a NUL byte', `${base}name: a\0b\n`, /NUL byte/],
    ['a NUL that is written', `${base}name: "a\\0b"\n`, /:3:7: a NUL character/],
  ])(
    '%s',
    async (_, text, message) => {
      writeFileSync(join(box.folder, 'e.yaml'), text)
      const result = await config(['-f', 'e.yaml'])
      expect(result.text).toMatch(message)
      expect(result.code).toBe(2)
      expect(result.text.length).toBeLessThan(10_000)
    },
    maxMs,
  )
})

test('long values are shown by their beginnings', async () => {
  const deep = `expect: {'${'a.'.repeat(50_000)}b': 1}\n`
  const wide = `constraints: ['batchSize${'* 9999999999'.repeat(400)} > 1']\n`
  writeFileSync(join(box.folder, 'e.yaml'), base + deep + wide)
  const result = await config(['-f', 'e.yaml'])
  expect(result.code).toBe(0)
  expect(result.text.length).toBeLessThan(50_000)
  expect(result.text).toContain('… (100008 characters)')
})

describe('a command line with', () => {
  test.each<[what: string, args: string[]]>([
    ['a model of 100,000 letters', ['--model', long, '--slo', '50ms']],
    ['an SLO of 100,000 letters', ['--model', 'bert', '--slo', long]],
    ['a GPU of 100,000 letters', ['--model', 'bert', '--slo', '50ms', '--gpus', long]],
    ['a constraint of 100,000 letters', ['--model', 'bert', '--slo', '50ms', '--constraint', long]],
    ['an unknown flag of 100,000 letters', [`--${long}`]],
  ])(
    '%s',
    async (_, args) => {
      const result = await config(args)
      expect([1, 2]).toContain(result.code)
      expect(result.text.length).toBeLessThan(10_000)
    },
    maxMs,
  )
})
