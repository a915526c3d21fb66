import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { readBaseline, roundCases, writeBaseline } from './baseline.ts'
import { aTenthMore, readingsOf, shareRight, shown, upTo } from './rows.ts'
import type { Cases, Row } from './types.ts'
import { checkBaseline, compareWith, countChanged, exitCodeOf, summaryOf } from './verdict.ts'

const figures = { measure: 'm', baseline: 10, now: 11, cases: 3 }
const rowOf = (verdict: Row['verdict']): Row => ({
  measure: verdict,
  baseline: '1',
  now: '2',
  allowed: '3',
  verdict,
  cases: 1,
})
/** The first `right` of `n` cases are right. */
const cases = (right: number, n = 20): Cases =>
  Object.fromEntries(
    Array.from({ length: n }, (_, i) => [`case ${i}`, { right: Number(i < right) }]),
  )

describe('verdicts', () => {
  test('a figure passes up to its bound, and not above it', () => {
    expect(upTo(figures, 11, String)).toMatchObject({ verdict: 'passed', allowed: 'at most 11' })
    expect(upTo(figures, 10.9, String).verdict).toBe('worse')
  })

  test('there may be a tenth more trials', () => {
    expect(aTenthMore({ ...figures, now: 10.99 }, 'trials').verdict).toBe('passed')
    expect(aTenthMore({ ...figures, now: 11.01 }, 'trials').verdict).toBe('worse')
  })

  test('a share may lose what chance explains: four of four that differ, not five of five', () => {
    expect(shareRight('m', 'right', cases(15), cases(11)).verdict).toBe('passed')
    const lost = shareRight('m', 'right', cases(15), cases(10))
    expect(lost).toMatchObject({ verdict: 'worse', baseline: '75.0 %', cases: 20 })
    expect(lost.now).toBe('50.0 % (5 lost, 0 gained)')
    expect(shareRight('m', 'right', cases(10), cases(20)).verdict).toBe('passed')
    expect(shareRight('m', 'right', cases(10), cases(10)).verdict).toBe('passed')
  })

  test('what is shown is not judged', () => {
    expect(shown({ ...figures, now: 1e6 }, String).verdict).toBe('shown')
  })

  test('a case that lacks a reading is an error', () => {
    expect(() => readingsOf({ 'server a': { error: 0.1 } }, 'holds')).toThrow(/holds.*server a/)
  })
})

describe('comparison', () => {
  const parts = [
    {
      name: 'part',
      compare: (was: Cases, is: Cases) => [shareRight('m', 'right', was, is)],
    },
  ]

  test('has the rows of the parts that were run', () => {
    expect(compareWith({ part: cases(9) }, { part: cases(9) }, parts)).toHaveLength(1)
    expect(compareWith({ part: cases(9) }, {}, parts)).toEqual([])
  })

  test('a part that the baseline lacks is an error, not a pass', () => {
    expect(() => compareWith({}, { part: cases(9) }, parts)).toThrow(/no figures of part/)
  })

  test('what the baseline lacks is named before anything is run', () => {
    expect(() => checkBaseline({ a: cases(1) }, ['a', 'b', 'c'])).toThrow(/no figures of b, c/)
    expect(() => checkBaseline({ a: cases(1) }, ['a'])).not.toThrow()
  })

  test('other cases than those of the baseline are an error', () => {
    expect(() => compareWith({ part: cases(9, 19) }, { part: cases(9) }, parts)).toThrow(/case 19/)
    expect(() => compareWith({ part: cases(9, 21) }, { part: cases(9) }, parts)).toThrow(/case 20/)
  })

  test('counts cases with other readings', () => {
    expect(countChanged(cases(9), cases(9))).toBe(0)
    expect(countChanged(cases(9), cases(11))).toBe(2)
  })
})

describe('exit code and summary', () => {
  test('1 where something is worse than allowed, and it is named', () => {
    const rows = [rowOf('passed'), rowOf('worse'), rowOf('shown')]
    expect(exitCodeOf(rows)).toBe(1)
    expect(summaryOf(rows)).toBe('1 of 2 judged measures passed; worse than allowed: worse')
  })

  test('a skipped measure fails nothing and is not counted as passed', () => {
    const rows = [rowOf('passed'), rowOf('skipped: machine busy')]
    expect(exitCodeOf(rows)).toBe(0)
    expect(summaryOf(rows)).toBe('1 of 1 judged measures passed; 1 skipped, which is no pass')
  })
})

describe('baseline file', () => {
  let folder: string
  let file: string
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'gate-'))
    file = join(folder, 'baseline.json')
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  test('reads back what was written, and adds parts that it lacks', () => {
    writeBaseline(file, { one: cases(2) }, false)
    writeBaseline(file, { two: cases(3) }, false)
    expect(readBaseline(file)).toEqual({ one: cases(2), two: cases(3) })
  })

  test('replaces no part unless forced', () => {
    writeBaseline(file, { one: cases(2) }, false)
    const before = readFileSync(file, 'utf8')
    expect(() => writeBaseline(file, { one: cases(3) }, false)).toThrow(/figures of one.*--force/)
    expect(readFileSync(file, 'utf8')).toBe(before)
    writeBaseline(file, { one: cases(3) }, true)
    expect(readBaseline(file)).toEqual({ one: cases(3) })
  })

  test('is empty where there is no file, and a broken one is an error', () => {
    expect(readBaseline(file)).toEqual({})
    writeFileSync(file, '{')
    expect(() => readBaseline(file)).toThrow()
  })

  test('readings are rounded, and cases sorted, whatever order they ended in', () => {
    const rounded = roundCases({ b: { x: 1 / 3 }, a: { x: 2 } })
    expect(JSON.stringify(rounded)).toBe('{"a":{"x":2},"b":{"x":0.333333}}')
  })
})
