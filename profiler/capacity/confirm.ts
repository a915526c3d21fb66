import { cutAfter, keeps, percentileName } from '../slo.ts'
import { overShare } from '../statistics/dependence.ts'
import { provesPercentile } from '../statistics/early-stopping.ts'
import { leftOut, loadPointOf, summarise } from '../statistics/load-point.ts'
import type { Arrivals, CapacityOutcome, LoadGenerator, LoadPoint, LoadRun, Measurement, Phase, Slo, Target } from '../types.ts'
import { between, unprovenPart } from './known-capacity.ts'
import { caveatsOf, generatorFor } from './measure.ts'
import { pausesOf } from './pauses.ts'
import { failuresOf, type Played, Session } from './session.ts'
import { untilNoFaster } from './warm-up.ts'

export interface ConfirmOptions {
  readonly target: Target
  readonly slo: Slo
  /** The rate whose SLO is to be confirmed. */
  readonly rateRps: number
  /** Length of one window, default 30. */
  readonly seconds?: number
  /** Whether a window that passed without proving the percentile is followed by another, where both together could; default true. */
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
  /** The window at the highest rate that held, two of them as one, else the last one. */
  readonly point: LoadPoint
  /** Independent requests that say as much as that window's. */
  readonly nEff: number
  /** LoadGen's early-stopping rule on nEff: the window alone proves the percentile at 95 %. */
  readonly proven: boolean
}

/** Of the rate to be confirmed, as parts of a window's length: a server under load for the first time compiles, allocates and fills its caches. */
const warmUpShare = 1 / 30
const mostWarmUps = 5
/** Rates tried one after the other, as parts of the first, until one holds. A window that misses the SLO is cut as soon as that is certain. */
const lowerRates = [1, 0.95, 0.9, 0.82, 0.65, 0.45, 0.25, 0.1]
/** Of what a server was seen to serve while it fell behind: rates beyond it are passed over. */
const servedMargin = 1.1
/** Fewer answers than this tell no rate. */
const leastServed = 20
/** Where the rate that held lies further below the one that missed, those between are tried, up to so many. */
const wide = 1.15
const mostBetween = 2

/**
 * Puts a long open load on a target at a rate it should keep; where it does not, at lower ones until one holds, and between that and the lowest
 * that missed. A window that missed while the generator could not hold it, while the machine kept either waiting, or for one pause longer than the SLO is
 * repeated once. Throws as `measureCapacity` does.
 */
export async function confirmCapacity(options: ConfirmOptions): Promise<Confirmation> {
  const generator = generatorFor(options.target, options.generator)
  try {
    return await new ConfirmationUnderWay(options, generator).run()
  } finally {
    if (options.generator === undefined) await generator.close()
  }
}

class ConfirmationUnderWay {
  private readonly session: Session
  private readonly seconds: number
  private readonly seed: number
  /** Highest rate that held, with its window; lowest one that the server missed, and lowest that was tried and did not hold for whatever reason. */
  private found: { readonly rps: number; readonly played: Played } | undefined
  private missedRps = Number.POSITIVE_INFINITY
  private lowestRps = Number.POSITIVE_INFINITY
  /** What the server answered in the last window that missed: it holds none far beyond. */
  private servedRps = Number.POSITIVE_INFINITY
  private windows = 0
  private betweens = 0
  private readonly pausedCaveats: string[] = []

  constructor(
    private readonly options: ConfirmOptions,
    generator: LoadGenerator,
  ) {
    const { target, slo, signal, onStep = () => {}, seconds = 30, seed = 1 } = options
    this.session = new Session(target, slo, generator, signal, onStep)
    this.seconds = seconds
    this.seed = seed
  }

  async run(): Promise<Confirmation> {
    const { session, seconds } = this
    const warm = await session.closed(2, Math.min(1, seconds / 10), 'warm-up', false)
    const idle = await session.closed(1, Math.min(1, seconds / 10), 'idle')
    if (await session.died(warm.point)) return this.result('server-died', warm, idle.run)
    await this.warmUp(idle.point)
    let last: Played = idle
    for (let rate = this.nextRate(); rate !== undefined; rate = this.nextRate()) {
      last = await this.tried(rate, idle.point)
      if (await session.died(last.point)) return this.result('server-died', last, idle.run)
      if (last.run.cutMs !== undefined) await session.settle(idle.point)
      if (this.holds(last)) this.found = { rps: rate, played: last }
      else {
        this.lowestRps = rate
        if (!spoilt(last.point)) {
          this.missedRps = rate
          this.servedRps = servedRps(last.run)
        }
      }
    }
    if (this.found !== undefined) return this.result('converged', this.found.played, idle.run)
    return this.result(last.point.disturbed ? 'disturbed' : last.point.generatorSaturated ? 'generator-limit' : 'budget', last, idle.run)
  }

  private warmUp(unloaded: LoadPoint): Promise<void> {
    const { session, options, seconds, seed } = this
    return untilNoFaster(mostWarmUps, async (round) => {
      const { run } = await this.play(options.rateRps, warmUpShare * seconds, seed + 2000 + round, 'warm-up')
      if (run.cutMs !== undefined) await session.settle(unloaded)
      return run
    })
  }

  /** While nothing holds, ever lower ones; then those between, up to the lowest that was tried and did not. */
  private nextRate(): number | undefined {
    const { found, lowestRps, servedRps, options } = this
    if (found === undefined) {
      const lower = lowerRates.map((part) => part * options.rateRps).filter((rate) => rate < lowestRps)
      return lower.find((rate) => rate <= servedMargin * servedRps) ?? lower.at(-1)
    }
    const highest = Math.min(lowestRps, servedMargin * servedRps)
    return highest / found.rps > wide && Number.isFinite(highest) && this.betweens++ < mostBetween
      ? Math.sqrt(found.rps * highest)
      : undefined
  }

  /** A window at a rate, or the one in its place where something beside the server may have made it miss. */
  private async tried(rate: number, unloaded: LoadPoint): Promise<Played> {
    const first = await this.window(rate)
    if (this.holds(first)) return first
    const pauses = pausesOf(first.run, this.options.slo.limitMs)
    if (!spoilt(first.point) && pauses.length !== 1) return first
    if (first.run.cutMs !== undefined) await this.session.settle(unloaded)
    const again = await this.window(rate)
    if (this.holds(again) && !spoilt(first.point)) {
      const [pause] = pauses
      const ms = Math.round(pause!.untilMs - pause!.fromMs)
      this.pausedCaveats.push(
        `nothing was answered for ${ms} ms of a first window at ${rate.toFixed(1)} requests per second; the window in its place held`,
      )
    }
    return again
  }

  /** One window, and another where the first passed without proving anything and both could. */
  private async window(rate: number): Promise<Played> {
    const { seconds } = this
    const { slo, extend = true } = this.options
    const windowSeed = this.seed + this.windows++
    const first = await this.play(rate, seconds, windowSeed)
    if (!extend || !this.holds(first)) return first
    const { proven, twiceProven } = evidenceOf(first.run, slo)
    if (proven || !twiceProven) return first
    const run = inARow(first.run, (await this.play(rate, seconds, windowSeed + 1000)).run)
    return { run, point: loadPointOf(run, slo) }
  }

  private play(rate: number, durationS: number, windowSeed: number, phase: 'confirm' | 'warm-up' = 'confirm') {
    const { slo, arrivals = { kind: 'poisson' } } = this.options
    const planned = rate * durationS
    // A warm-up may miss the SLO for a while: that is what it is for.
    const requests = phase === 'confirm' ? Math.ceil(1.5 * planned * (1 - slo.percentile)) + 5 : 0.3 * planned + 20
    const cut = cutAfter(slo, requests)
    return this.session.play({ kind: 'open', rateRps: rate, durationS, seed: windowSeed, arrivals, cut }, phase, phase === 'confirm')
  }

  /** Late sends count against the server, so one that keeps the SLO in spite of them does; sends that were left out do not. */
  private holds({ run, point }: Played): boolean {
    return keeps(point, this.options.slo) && !leftOut(run)
  }

  private result(outcome: CapacityOutcome, { run, point }: Played, idle: LoadRun): Confirmation {
    const { session, found, missedRps, pausedCaveats } = this
    const { target, slo, rateRps } = this.options
    const heldRps = outcome === 'server-died' ? 0 : (found?.rps ?? 0)
    const evidence = evidenceOf(run, slo)
    const { nEff } = evidence
    const proven = heldRps > 0 && evidence.proven
    return {
      outcome,
      ...(heldRps > 0
        ? between(heldRps * (proven ? 1 : unprovenPart), Math.max(heldRps, missedRps), heldRps)
        : between(0, outcome === 'budget' ? missedRps : Number.POSITIVE_INFINITY)),
      slo,
      idle: summarise(idle.latencyMs),
      saturationRps: point.achievedRps,
      points: session.points,
      requests: session.requests,
      seconds: session.totalS,
      detail: heldRps > 0 ? undefined : whyNot(outcome, point, missedRps),
      caveats: [...caveatsOf(target, session), ...pausedCaveats, ...(heldRps > 0 && !proven ? [unproven(nEff, slo)] : [])],
      held: heldRps === rateRps,
      rateRps,
      point,
      nEff,
      proven,
    }
  }
}

/** Answers per second from the first to the end of a window; infinite where there are too few to tell. */
function servedRps({ sentMs, latencyMs, seconds, cutMs = 1000 * seconds }: LoadRun): number {
  const answeredMs = sentMs.map((sent, i) => sent + latencyMs[i]!).filter((ms) => ms < cutMs - 0.01)
  if (answeredMs.length < leastServed) return Number.POSITIVE_INFINITY
  const first = answeredMs.reduce((a, b) => Math.min(a, b))
  return (1000 * (answeredMs.length - 1)) / (cutMs - first)
}

/** Independent requests that say as much as the run's, and whether they, or twice as many like them, prove the percentile. */
function evidenceOf(run: LoadRun, slo: Slo) {
  const { nEff, over, dispersion } = overShare(run.latencyMs, slo.limitMs)
  const proven = (times: number) => provesPercentile(times * nEff, (times * over) / dispersion, slo.percentile)
  return { nEff, proven: proven(1), twiceProven: proven(2) }
}

/** Why no rate held. */
function whyNot(outcome: CapacityOutcome, point: LoadPoint, missedRps: number): string {
  if (point.errors > 0) return failuresOf(point)
  if (outcome === 'generator-limit') return 'the load generator could not hold the rate: this machine was busy with something else'
  if (outcome === 'disturbed') return 'this machine kept the server or the load generator waiting in every window'
  return `the SLO did not hold at ${missedRps.toFixed(1)} requests per second either`
}

/** The generator, or the machine, may have made a window miss. */
const spoilt = (point: LoadPoint): boolean => point.generatorSaturated || point.disturbed === true

/** Two runs of the same load as one. */
function inARow(a: LoadRun, b: LoadRun): LoadRun {
  const joined = (x: Float64Array, y: Float64Array, shiftMs = 0) => Float64Array.from([...x, ...y.map((value) => value + shiftMs)])
  const errorKinds = { ...a.errorKinds }
  for (const [kind, count] of Object.entries(b.errorKinds)) errorKinds[kind] = (errorKinds[kind] ?? 0) + count
  return {
    load: a.load,
    sentMs: joined(a.sentMs, b.sentMs, 1000 * a.seconds),
    latencyMs: joined(a.latencyMs, b.latencyMs),
    errorKinds,
    planned: a.planned + b.planned,
    latenessP99Ms: Math.max(a.latenessP99Ms, b.latenessP99Ms),
    seconds: a.seconds + b.seconds,
    elapsedS: a.elapsedS + b.elapsedS,
    generatorCores: Math.max(a.generatorCores, b.generatorCores),
    cutMs: b.cutMs === undefined ? undefined : 1000 * a.seconds + b.cutMs,
    stream: a.stream &&
      b.stream && {
        ttftMs: joined(a.stream.ttftMs, b.stream.ttftMs),
        tpotMs: joined(a.stream.tpotMs, b.stream.tpotMs),
        e2eMs: joined(a.stream.e2eMs, b.stream.e2eMs),
        tokens: joined(a.stream.tokens, b.stream.tokens),
        gapsMs: joined(a.stream.gapsMs, b.stream.gapsMs),
      },
  }
}

const unproven = (nEff: number, { percentile }: Slo) =>
  `the confirmation held, but its ${Math.round(nEff)} effective requests do not prove ${percentileName(percentile)} at 95 % by themselves; a longer one may`
