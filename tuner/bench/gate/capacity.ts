/** The gate's virtual servers, measured as a trial measures them and as `tune profile` does. */
import { efforts } from '../../../profiler/capacity/effort.ts'
import { measureCapacity } from '../../../profiler/capacity/measure.ts'
import { gateServers } from '../../../profiler/testing/gate-servers.ts'
import { quantile } from '../../../search/bench/score.ts'
import { casesFrom, mean, percent, readingsOf, shown, upTo } from './rows.ts'
import { gateSeeds } from './seeds.ts'
import { gateCapacities } from './true-capacities.ts'
import type { Cases, Part, Row } from './types.ts'

/** How often each server is measured. */
const runs = [
  { effort: 'quick', seeds: 2 },
  { effort: 'standard', seeds: 1 },
] as const
/** Of the median error: half a point (design.md, "The gate"). */
const maxMoreError = 0.005
/** Of intervals that are to hold in 90 %. */
const minHold = 0.85
const { signal } = new AbortController()

async function measure(index: number): Promise<Cases> {
  const { name, slo, declared, server } = gateServers(gateSeeds.servers)[index]!
  const trueRps = gateCapacities()[name]
  if (trueRps === undefined)
    throw new Error(`tuner/bench/gate/true-capacities.json lacks '${name}': write it anew`)
  // Every second server is measured as a trial measures it, the others as `tune profile --url` does.
  const discipline = index % 2 === 0 ? declared : undefined
  const cases: Record<string, Cases[string]> = {}
  for (const { effort, seeds } of runs)
    for (let i = 0; i < seeds; i++) {
      const seed = gateSeeds.measurements + 1000 * index + i
      const found = await measureCapacity({
        target: { kind: 'virtual', server: server(seed) },
        slo,
        signal,
        seed: 1000 * seed,
        effort: efforts[effort],
        discipline,
      })
      const [low, high] = found.capacityCi90Rps
      cases[`${effort}: ${name} ${i + 1}`] = {
        error: Math.abs(found.capacityRps / trueRps - 1),
        holds: Number(low <= trueRps && trueRps <= high),
      }
    }
  return cases
}

function compareAt(effort: string, baseline: Cases, now: Cases): Row[] {
  const [was, is] = [baseline, now].map((cases) => casesFrom(cases, `${effort}:`)) as [Cases, Cases]
  const cases = Object.keys(is).length
  const errorAt = (p: number) => ({
    baseline: quantile(readingsOf(was, 'error'), p),
    now: quantile(readingsOf(is, 'error'), p),
    cases,
  })
  const median = { measure: `capacity, ${effort}: median error`, ...errorAt(0.5) }
  const [held, holds] = [mean(readingsOf(was, 'holds')), mean(readingsOf(is, 'holds'))]
  const minShare = Math.min(minHold, held)
  return [
    upTo(median, median.baseline + maxMoreError, (error) => percent(error, 2)),
    shown({ measure: `capacity, ${effort}: p90 error`, ...errorAt(0.9) }, (error) =>
      percent(error, 2),
    ),
    {
      measure: `capacity, ${effort}: 90 % intervals that hold`,
      baseline: percent(held),
      now: percent(holds),
      allowed: `at least ${percent(minShare)}`,
      verdict: holds >= minShare ? 'passed' : 'worse',
      cases,
    },
  ]
}

export const capacity: Part = {
  name: 'capacity',
  pieceSeconds: 4,
  pieces: gateServers(gateSeeds.servers).length,
  run: measure,
  compare: (baseline, now) => runs.flatMap(({ effort }) => compareAt(effort, baseline, now)),
}
