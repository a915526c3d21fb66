/** One finished trial, or one load step, as a line. */
import type { LoadPoint, Slo } from '../../profiler/types.ts'
import { latency, money, percent, rate, rateInterval, sloName, sloValue } from '../../reports/format.ts'
import { duration } from './columns.ts'
import { glyph, type Paint, type Style } from './glyphs.ts'
import type { Row } from './progress.ts'

export interface Line {
  readonly mark: string
  readonly paint?: Paint
  readonly text: string
}

/** What came out of a trial: capacity with its interval and price, or why there is none. */
export function trialLine({ trial, label, pricePerHour }: Row, style: Style): Line {
  const head = `#${trial.number} ${label}`
  switch (trial.state) {
    case 'complete': {
      const { capacityRps, capacityCi90Rps: ci, outcome, slo } = trial.measurement
      if (capacityRps <= 0) {
        const idle = `${sloName({ ...slo, percentile: 0.99 })} ${sloValue(slo, trial.measurement.idle.p99Ms)} unloaded`
        return { mark: glyph('infeasible', style), paint: 'yellow', text: `${head}: misses the SLO (${trial.measurement.detail ?? idle})` }
      }
      const bound = outcome === 'beaten' ? 'at most ' : outcome === 'generator-limit' || !Number.isFinite(ci[1]) ? 'at least ' : ''
      const interval = Number.isFinite(ci[1]) ? ` [${rateInterval(ci)}]` : ''
      const cost = money((pricePerHour / 3600 / capacityRps) * 1e6)
      const text = `${head}: ${bound}${rate(capacityRps)}${interval}, ${cost} per million, ${duration(trial.seconds)}`
      return { mark: glyph('done', style), paint: 'green', text }
    }
    case 'infeasible':
      return {
        mark: glyph('infeasible', style),
        paint: 'yellow',
        text: `${head}: cannot serve, ${trial.reason}: ${firstLine(trial.detail)}`,
      }
    case 'failed':
      return { mark: glyph('failed', style), paint: 'red', text: `${head}: failed, ${firstLine(trial.error)}` }
  }
}

/** '120 req/s: p99 43 ms of 50 ms'. */
export function stepLine(point: LoadPoint, slo: Slo | undefined, phase: string): string {
  const name = slo ? sloName(slo) : 'p99'
  const limit = slo && !slo.limits ? ` of ${latency(slo.limitMs)}` : ''
  const errors = point.errors > 0 ? `, ${point.errors} errors` : ''
  const good = point.joint ? ` (${percent(point.joint.good)} good)` : ''
  const load = point.load.kind === 'closed' ? `${point.load.connections} at a time, ${rate(point.achievedRps)}` : rate(point.offeredRps)
  return `${phase}: ${load}: ${name} ${slo ? sloValue(slo, point.sloMs) : latency(point.sloMs)}${limit}${good}${errors}${point.generatorSaturated ? ' (generator saturated)' : ''}`
}

const firstLine = (text: string) => text.split('\n')[0] ?? ''
