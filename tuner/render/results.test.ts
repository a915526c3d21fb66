import { describe, expect, test } from 'vitest'
import { recommend } from '../../reports/recommendation/recommend.ts'
import { sampleInput } from '../../reports/samples.contract.ts'
import { resultLines } from './results.ts'

const recommendation = recommend(sampleInput)
const shown = (columns: number) =>
  resultLines(recommendation, [], { color: false, unicode: true }, columns)
/** From the verdict to what binds. */
const ranked = (columns: number) => {
  const lines = shown(columns)
  return lines.slice(
    lines.indexOf('', 1) + 1,
    lines.findIndex((line) => line.startsWith('Binding')),
  )
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
    const wide = ranked(200).filter((line) => line !== '')
    expect(wide).toHaveLength(others.length + 2)
    const widest = Math.max(...wide.map((line) => line.length))
    expect(ranked(widest).filter((line) => line !== '')).toEqual(wide)
    const narrower = ranked(widest - 1)
    expect(narrower[0]).toMatch(/configuration +status +capacity +at capacity +cost$/)
    expect(narrower).toContain(`     ${others[0]!.whyNot}`)
  })
})
