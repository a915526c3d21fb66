import { overShare } from '../statistics/dependence.ts'
import { provesPercentile } from '../statistics/early-stopping.ts'
import { summarise } from '../statistics/load-point.ts'
import type { Arrivals, CapacityOutcome, LoadGenerator, LoadPoint, LoadRun, Measurement, Slo, Target } from '../types.ts'
import { caveatsOf, generatorFor, noLatency } from './measure.ts'
import { failuresOf, keeps, type Phase, Session } from './session.ts'

export interface ConfirmOptions {
  readonly target: Target
  readonly slo: Slo
  /** The rate whose SLO is to be confirmed. */
  readonly rateRps: number
  /** Length of one window, default 30. */
  readonly seconds?: number
  /** Whether a window that passed without proving the percentile is followed by one twice as long, where that could; default true. */
  readonly extend?: boolean
  /** Default Poisson. */
  readonly arrivals?: Arrivals
  readonly seed?: number
  readonly signal: AbortSignal
  readonly onStep?: (point: LoadPoint, phase: Phase) => void
  /** Default: one of its own, closed at the end. A given one is left open. */
  readonly generator?: LoadGenerator
}

/** A measurement whose capacity is the highest rate tried that kept the SLO, 0 when none did. */
export interface Confirmation extends Measurement {
  /** Whether the SLO held at the rate that was asked for. */
  readonly held: boolean
  readonly rateRps: number
  /** The window at the highest rate that held, else the last one. */
  readonly point: LoadPoint
  /** Independent requests that say as much as that window's. */
  readonly nEff: number
  /** LoadGen's early-stopping rule on nEff: the window alone proves the percentile at 95 %. */
  readonly proven: boolean
}

const longestExtension = 2
/** Rates tried one after the other, as parts of the first. A window that misses the SLO is cut as soon as that is certain. */
const lowerRates = [1, 0.95, 0.9, 0.82]

/**
 * Puts a long open load on a target at a rate it should keep, and at two lower ones while it does not.
 * A window that the generator could not hold is repeated once. Throws as `measureCapacity` does.
 */
export async function confirmCapacity(options: ConfirmOptions): Promise<Confirmation> {
  const { target, slo, rateRps, seconds = 30, arrivals = { kind: 'poisson' }, seed = 1, extend = true, signal } = options
  const generator = generatorFor(target, options.generator)
  const session = new Session(target, slo, generator, signal, options.onStep ?? (() => {}))
  try {
    const warm = await session.closed(2, Math.min(1, seconds / 10), 'warm-up', false)
    const idle = await session.closed(1, Math.min(1, seconds / 10), 'idle')
    if (await session.died(warm.point)) return result('server-died', 0, warm.run, warm.point, summarise(idle.run.latencyMs))
    let last = idle
    let windows = 0
    let unheld = false
    for (const factor of lowerRates) {
      last = await window(rateRps * factor, seed + windows++)
      if (last.point.generatorSaturated) last = await window(rateRps * factor, seed + windows++)
      if (await session.died(last.point)) return result('server-died', 0, last.run, last.point, summarise(idle.run.latencyMs))
      if (last.run.cutMs !== undefined) await session.settle(idle.point)
      unheld = last.point.generatorSaturated
      if (!unheld && keeps(last.point, slo))
        return result('converged', rateRps * factor, last.run, last.point, summarise(idle.run.latencyMs))
    }
    return result(unheld ? 'generator-limit' : 'budget', 0, last.run, last.point, summarise(idle.run.latencyMs))
  } finally {
    if (options.generator === undefined) await generator.close()
  }

  /** One window; twice as long when the first half passed without proving anything and could. */
  async function window(rate: number, windowSeed: number) {
    const first = await play(rate, seconds, windowSeed)
    const { nEff, over, dispersion } = overShare(first.run.latencyMs, slo.limitMs)
    const couldProve = provesPercentile(longestExtension * nEff, (longestExtension * over) / dispersion, slo.percentile)
    if (!extend || !keeps(first.point, slo) || provesPercentile(nEff, over / dispersion, slo.percentile) || !couldProve) return first
    return play(rate, longestExtension * seconds, windowSeed + 1000)
  }

  function play(rate: number, durationS: number, windowSeed: number) {
    const tolerated = rate * durationS * (1 - slo.percentile)
    const cut = { overMs: slo.limitMs, requests: Math.ceil(1.5 * tolerated) + 5 }
    return session.play({ kind: 'open', rateRps: rate, durationS, seed: windowSeed, arrivals, cut }, 'confirm')
  }

  function result(outcome: CapacityOutcome, heldRps: number, run: LoadRun, point: LoadPoint, idle = noLatency): Confirmation {
    const { nEff, over, dispersion } = overShare(run.latencyMs, slo.limitMs)
    const proven = heldRps > 0 && provesPercentile(nEff, over / dispersion, slo.percentile)
    return {
      outcome,
      capacityRps: heldRps,
      capacityCi90Rps: heldRps > 0 ? [heldRps * (proven ? 1 : 0.95), Number.POSITIVE_INFINITY] : [0, rateRps * lowerRates.at(-1)!],
      slo,
      idle,
      saturationRps: point.achievedRps,
      points: session.points,
      requests: session.requests,
      seconds: session.totalS,
      detail:
        heldRps > 0
          ? undefined
          : point.errors > 0
            ? failuresOf(point)
            : outcome === 'generator-limit'
              ? 'the load generator could not hold the rate: this machine was busy with something else'
              : `the SLO did not hold at ${(rateRps * lowerRates.at(-1)!).toFixed(1)} requests per second either`,
      caveats: [...caveatsOf(target, session), ...(heldRps > 0 && !proven ? [unproven(nEff, slo)] : [])],
      held: heldRps === rateRps,
      rateRps,
      point,
      nEff,
      proven,
    }
  }
}

const unproven = (nEff: number, { percentile }: Slo) =>
  `the confirmation held, but its ${Math.round(nEff)} effective requests do not prove p${Number((percentile * 100).toFixed(4))} at 95 % by themselves; a longer one may`
