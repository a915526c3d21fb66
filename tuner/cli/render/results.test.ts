import { describe, expect, test } from 'vitest'
import { recommend } from '../../../reports/recommendation/recommend.ts'
import { estimateText } from '../../../reports/recommendation/words.ts'
import { sampleInput } from '../../../reports/samples.contract.ts'
import { formatResult } from './results.ts'

const recommendation = recommend(sampleInput)
const shown = (columns: number) =>
  formatResult(recommendation, [], { color: false, unicode: true }, columns)
/** Before the details. */
const ranked = (columns: number) => {
  const lines = shown(columns)
  return lines.slice(1, lines.indexOf('Details'))
}
const best = recommendation.best!
const others = recommendation.alternatives.slice(0, 6)

describe('what was tried, ranked', () => {
  test.each([50, 80, 100, 120, 200])(
    'is whole at %d columns: prices, figures and reasons, none of them cut',
    (columns) => {
      const text = ranked(columns).join(' ').replace(/\s+/g, ' ')
      for (const { label, status, whyNot } of others)
        for (const word of [label, status, whyNot]) expect(text).toContain(word)
      expect(text).toContain(best.label)
      expect(text).toContain('best found, NOT confirmed')
      expect(text.match(/per million/g)?.length).toBeGreaterThanOrEqual(
        others.filter(({ feasible }) => feasible).length + 1,
      )
      expect(text).not.toContain('…')
      expect(ranked(columns).filter((line) => line.length > columns)).toEqual([])
    },
  )

  test('has each label in one column, marked or not, where figures stand below', () => {
    const [first, second] = [best, others[0]!].map(
      ({ label }) => ranked(50).find((line) => line.includes(label))!,
    )
    expect([first, second]).toEqual([`★  ${best.label}`, `   ${others[0]!.label}`])
    expect(shown(80).filter((line) => line.length > 80)).toEqual([])
  })

  test('is a line each where there is room, and the reason below where there is not', () => {
    const wide = ranked(250).filter((line) => line !== '')
    expect(wide).toHaveLength(others.length + 2)
    const widest = Math.max(...wide.map((line) => line.length))
    expect(ranked(widest).filter((line) => line !== '')).toEqual(wide)
    const narrower = ranked(widest - 1)
    expect(narrower[0]).toMatch(
      /configuration +status +safe capacity +p99 there +cost +estimate \[90 %\]$/,
    )
    expect(narrower).toContain(`     ${others[0]!.whyNot}`)
    const narrow = ranked(Math.max(...narrower.map((line) => line.length)) - 1)
    expect(narrow[0]).toMatch(/configuration +status +safe capacity +p99 there +cost$/)
    expect(narrow).toContain(
      `     estimate [90 %] ${estimateText(others[0]!)}, ${others[0]!.whyNot}`,
    )
  })
})

describe('the verdict', () => {
  const verdict = (columns: number, change: Partial<typeof recommendation> = {}) => {
    const style = { color: false, unicode: true }
    const lines = formatResult({ ...recommendation, ...change }, ['a.json'], style, columns)
    return lines.slice(lines.lastIndexOf('') + 1)
  }

  test('is the last on the screen: what, the figures, the SLO, whether cheapest, what next', () => {
    expect(verdict(140)).toEqual([
      'Best found, NOT confirmed: 2 cores, 0.25 T4, batch 8                      emulated GPU',
      '  191 req/s at p99 36 ms (estimated; SLO 50 ms), $0.12 per million requests, 83 % cheaper than the baseline',
      '  SLO       not confirmed: measured once, no second load test gave a result',
      '  Cheapest  not assessed; statistically tied with 1 cores, 0.25 T4, batch 8 (trial 3)',
      '  Next      tune resume bert-7f3a --max-trials 10 · tune dashboard bert-7f3a · tune spec bert-7f3a',
    ])
  })

  test.each([50, 80, 120])('leaves room for a prompt on 24 lines of %d columns', (columns) => {
    expect(verdict(columns).length).toBeLessThanOrEqual(12)
    expect(verdict(columns).filter((line) => line.length > columns)).toEqual([])
  })

  test.each([
    [{ percentile: 0.99 }, {}, 'tune show bert-7f3a --slo 183ms'],
    [{ percentile: 0.95 }, {}, "tune show bert-7f3a --slo 'p95<183ms'"],
    [{}, { sloMsFrom: 'measured' }, 'tune show bert-7f3a ·'],
    [{}, { sloMsAtCapacity: Number.POSITIVE_INFINITY }, 'tune show bert-7f3a ·'],
    [{}, { status: 'inconclusive' }, 'tune resume bert-7f3a --max-trials 8'],
  ] as const)('without a best, of %j and %j, says what leads to one', (slo, change, next) => {
    const nearest = {
      ...best,
      ...({ status: 'infeasible', sloMsFrom: 'unloaded', sloMsAtCapacity: 91.2 } as const),
      ...change,
    }
    const none = { best: undefined, nearest, slo: { ...recommendation.slo, ...slo } }
    expect(verdict(120, none).at(-1)).toContain(`  Next      ${next}`)
  })

  test.each([
    ['twice the trials with a result', undefined, ' --max-trials 10 ·'],
    ['twice the trials with a result, at the limit', 5, ' --max-trials 10 ·'],
    ['the limit, below it', 12, ' --max-trials 12 ·'],
  ])('proposes %s', (_, maxTrials, limit) => {
    expect(verdict(120, { maxTrials }).at(-1)).toContain(`Next      tune resume bert-7f3a${limit}`)
  })

  test('proposes no number of trials while none has a result', () => {
    const nearest = { ...best, status: 'inconclusive' } as const
    const none = { best: undefined, nearest, alternatives: [] }
    expect(verdict(120, none).at(-1)).toContain('Next      tune resume bert-7f3a ·')
  })

  test('of another objective than cost asks whether it is the best', () => {
    const lines = verdict(120, { objective: { kind: 'max-rate', maxPricePerHour: 1 } })
    expect(lines.some((line) => line.startsWith('  Best      not assessed'))).toBe(true)
  })
})
