/** Lines of the gate's table, by the rule that each kind of figure is judged by. */
import { computeBinomialCdf } from '../../../profiler/statistics/percentile.ts'
import type { Cases, Row } from './types.ts'

/** Chance that an equally good version fails the comparison of shares by the luck of its cases. */
const significance = 0.05
/** How much more trials or time a version may take: design.md, "The gate". */
const maxRatio = 1.1

/** @throws Error where a case lacks the reading */
export const readingsOf = (cases: Cases, reading: string): number[] =>
  Object.entries(cases).map(([name, readings]) => {
    const value = readings[reading]
    if (value === undefined) throw new Error(`no ${reading} was read of ${name}`)
    return value
  })

/** Those whose names begin so. */
export const casesFrom = (cases: Cases, start: string): Cases =>
  Object.fromEntries(Object.entries(cases).filter(([name]) => name.startsWith(start)))

export const percent = (share: number, digits = 1): string => `${(100 * share).toFixed(digits)} %`

export const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length

export const geometricMean = (values: readonly number[]): number =>
  Math.exp(mean(values.map(Math.log)))

interface Figures {
  readonly measure: string
  readonly baseline: number
  readonly now: number
  readonly cases: number
}

/**
 * A figure of which less is better, up to a bound.
 * @param print of it, in its unit
 */
export function upTo(
  { measure, baseline, now, cases }: Figures,
  max: number,
  print: (value: number) => string,
): Row {
  return {
    measure,
    baseline: print(baseline),
    now: print(now),
    allowed: `at most ${print(max)}`,
    verdict: now <= max ? 'passed' : 'worse',
    cases,
  }
}

/** Trials or time, of which there may be a tenth more. */
export const aTenthMore = (figures: Figures, unit: string): Row =>
  upTo(figures, maxRatio * figures.baseline, (value) => `${value.toFixed(2)} ${unit}`)

/** A figure that is not judged. */
export function shown(
  { measure, baseline, now, cases }: Figures,
  print: (value: number) => string,
): Row {
  return {
    measure,
    baseline: print(baseline),
    now: print(now),
    allowed: '-',
    verdict: 'shown',
    cases,
  }
}

/**
 * Share of the cases that are right (1, not 0), compared case by case on the same seeds. Worse
 * where more of them were lost than gained and chance is no explanation: one-sided sign test of
 * those that differ (McNemar's exact test).
 */
export function shareRight(measure: string, reading: string, baseline: Cases, now: Cases): Row {
  const was = readingsOf(baseline, reading)
  const is = readingsOf(now, reading)
  const lost = was.filter((right, i) => right === 1 && is[i] === 0).length
  const gained = was.filter((right, i) => right === 0 && is[i] === 1).length
  const chance = 1 - computeBinomialCdf(lost - 1, lost + gained, 0.5)
  return {
    measure,
    baseline: percent(mean(was)),
    now: `${percent(mean(is))} (${lost} lost, ${gained} gained)`,
    allowed: `no loss beyond chance: p ≥ ${significance}, here ${Math.min(1, chance).toFixed(2)}`,
    verdict: lost > gained && chance < significance ? 'worse' : 'passed',
    cases: was.length,
  }
}
