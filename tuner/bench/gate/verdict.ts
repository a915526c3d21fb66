/** From figures to the gate's table and its exit code. */
import type { Cases, GateFigures, Part, Row } from './types.ts'

/** @throws Error where the baseline lacks one of these parts: that is no comparison, and no pass */
export function checkBaseline(baseline: GateFigures, parts: readonly string[]): void {
  const missing = parts.filter((part) => baseline[part] === undefined)
  if (missing.length > 0)
    throw new Error(
      `the baseline has no figures of ${missing.join(', ')}: write them at the version to compare with (--write-baseline --only ${missing.join(',')}), or leave them out (--only, --skip-real)`,
    )
}

/** @throws Error where the baseline lacks a part that was run, or has it of other cases */
export function compareWith(
  baseline: GateFigures,
  now: GateFigures,
  parts: readonly Pick<Part, 'name' | 'compare'>[],
): Row[] {
  checkBaseline(baseline, Object.keys(now))
  return parts
    .filter(({ name }) => now[name] !== undefined)
    .flatMap(({ name, compare }) => {
      const [was, is] = [baseline[name]!, now[name]!]
      const differing = differingCases(was, is)
      if (differing.length > 0)
        throw new Error(
          `'${name}' has other cases than the baseline (${differing.slice(0, 3).join('; ')}${differing.length > 3 ? '; …' : ''}): these figures cannot be compared`,
        )
      return compare(was, is)
    })
}

const differingCases = (was: Cases, is: Cases): string[] => [
  ...Object.keys(was).filter((name) => is[name] === undefined),
  ...Object.keys(is).filter((name) => was[name] === undefined),
]

/** Cases whose readings are not those of the baseline, by part: none on the same code. */
export function countChanged(baseline: Cases, now: Cases): number {
  return Object.keys(now).filter(
    (name) => JSON.stringify(now[name]) !== JSON.stringify(baseline[name]),
  ).length
}

export const exitCodeOf = (rows: readonly Row[]): 0 | 1 =>
  rows.some(({ verdict }) => verdict === 'worse') ? 1 : 0

/** What it all comes to, in a line. */
export function summaryOf(rows: readonly Row[]): string {
  const count = (verdict: Row['verdict']) => rows.filter((row) => row.verdict === verdict).length
  const judged = count('passed') + count('worse')
  const skipped = count('skipped: machine busy')
  const worse = rows.filter(({ verdict }) => verdict === 'worse').map(({ measure }) => measure)
  return [
    `${count('passed')} of ${judged} judged measures passed`,
    ...(skipped > 0 ? [`${skipped} skipped, which is no pass`] : []),
    ...(worse.length > 0 ? [`worse than allowed: ${worse.join('; ')}`] : []),
  ].join('; ')
}
