import { fileURLToPath } from 'node:url'
import { transformSync } from 'esbuild'
import { expect, test } from 'vitest'
import { analyse } from './operators.ts'
import { strayEntries } from './plan.ts'
import { schemata } from './schemata.ts'
import { Switch } from './switch.ts'

const javaScript = (source: string) => transformSync(source, { loader: 'ts' }).code
const faults = (source: string) =>
  analyse(source).mutants.map(({ original, replacement }) => `${original} => ${replacement}`)

test('a decision line has a fault for each operator, boundary, constant and neighbour', () => {
  expect(faults('const spent = (seconds * price) / 3600')).toEqual([
    '(seconds * price) / 3600 => (seconds * price) * (3600)',
    'seconds * price => (seconds) / (price)',
    '3600 => 7200',
  ])
  expect(
    faults(
      'export const ok = (a: number, b?: number): boolean => !a && (b ?? 0) <= Math.min(a, 0.5)',
    ),
  ).toEqual([
    '!a && (b ?? 0) <= Math.min(a, 0.5) => (!a) || ((b ?? 0) <= Math.min(a, 0.5))',
    '!a => a',
    '(b ?? 0) <= Math.min(a, 0.5) => (b ?? 0) < (Math.min(a, 0.5))',
    '(b ?? 0) <= Math.min(a, 0.5) => (b ?? 0) > (Math.min(a, 0.5))',
    'b ?? 0 => b',
    '0 => 1',
    'Math.min(a, 0.5) => Math.max(a, 0.5)',
    '0.5 => 1',
  ])
  expect(faults('const all = [...mine, first].filter(good).some((x) => x.lost)')).toEqual([
    '[...mine, first].filter(good).some((x) => x.lost) => [...mine, first].filter(good).every((x) => x.lost)',
    '[...mine, first].filter(good) => [...mine, first]',
    '[...mine, first] => [ first ]',
  ])
})

test('types, texts, errors thrown and the steps of loops have none', () => {
  expect(faults('type Level = 0 | 1\nconst x = level as 2 | 3')).toEqual([])
  expect(faults("throw new RangeError('below ' + 0)")).toEqual([])
  expect(faults('const text = `${100 * share} %` + name')).toEqual([])
  expect(faults('for (let i = start; i !== end; i++) {}')).toEqual(['i !== end => (i) === (end)'])
})

test('a constant is switched where it is read; a table of figures has no faults', () => {
  const source =
    'const LIMIT = 2 * 30\nexport const over = (x: number) => x > LIMIT\nexport const all = { LIMIT }\nconst PRIMES = [2, 3, 5, 7, 11, 13, 17, 19]'
  expect(faults(source)).toEqual([
    '2 * 30 => (2) / (30)',
    '2 => 4',
    '30 => 60',
    'x > LIMIT => (x) >= (LIMIT)',
    'x > LIMIT => (x) <= (LIMIT)',
  ])
  const switched = schemata(source, analyse(source), 1)
  expect(switched).toContain('const LIMIT = 2 * 30\n')
  expect(switched).toContain(
    '($switched(1)?(((2) / (30))):$switched(2)?((4) * 30):$switched(3)?(2 * (60)):LIMIT)',
  )
})

test('an optional chain is replaced whole or not at all', () => {
  expect(faults('const kept = trial?.points.filter(good)')).toEqual([
    'trial?.points.filter(good) => trial?.points',
  ])
  expect(faults('const first = trial?.points.filter(good).map(name)')).toEqual([])
})

test('a switched source behaves as it stood, and as each mutant when that one is on', () => {
  const source = `
    let total: number = 0
    for (const x of [1, 2, 3]) if (x > 1) total += x
    const more = [...[total]]
    more.push(total - 1)
    return more.join()`
  const wrapped = `function run() {${source}}`
  const analysis = analyse(wrapped)
  globalThis.mutation = new Switch(analysis.mutants.length)
  const run = new Function(
    `${javaScript(schemata(wrapped, analysis, 1))}; return run`,
  )() as () => string
  const asItStood = run()
  expect(asItStood).toBe('5,4')
  const reached = globalThis.mutation.takeReached()
  for (const [i, { original, replacement, start, end }] of analysis.mutants.entries()) {
    expect(reached[i + 1], original).toBeGreaterThan(0)
    const mutated = `${wrapped.slice(0, start)}${analysis.statements.has(start) ? ';' : ''}(${replacement})${wrapped.slice(end)}`
    globalThis.mutation.turnOn(i + 1)
    expect(run(), `${original} => ${replacement}`).toBe(
      (new Function(`${javaScript(mutated)}; return run()`) as () => string)(),
    )
    globalThis.mutation.turnOff()
  }
  expect(analysis.mutants.length).toBeGreaterThan(8)
  expect(run()).toBe(asItStood)
})

test('a mutant that is passed without end is stopped', () => {
  const mutation = new Switch(1)
  mutation.turnOn(1, 10)
  expect(() => {
    for (;;) mutation.switched(1)
  }).toThrow('without end')
})

test('faults with a name, and those that change nothing, still stand in their sources', () => {
  expect(strayEntries(fileURLToPath(new URL('../../..', import.meta.url)))).toEqual([])
})
