import type { Load } from '../model/load.ts'
import type { LoadGenerator } from '../model/load-generator.ts'
import type { LoadPoint } from '../model/load-point.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { Slo } from '../model/slo.ts'
import type { Target } from '../model/target.ts'
import type { VirtualRun } from '../model/virtual-server.ts'
import { GeneratorError } from '../profiler-errors.ts'
import { checkLoad } from './check-load.ts'
import { summariseRun } from './load-point.ts'

/**
 * Loads simulated servers. It behaves like the HTTP generator, in the virtual time of the server.
 */
export class VirtualLoadGenerator implements LoadGenerator {
  readonly name = 'virtual'

  async run(target: Target, load: Load, slo: Slo, signal: AbortSignal): Promise<LoadPoint> {
    return summariseRun(await this.play(target, load, signal), slo)
  }

  async play(target: Target, load: Load, signal: AbortSignal): Promise<LoadRun> {
    if (target.kind !== 'virtual')
      throw new GeneratorError('the virtual load generator was given a real target')
    checkLoad(load)
    signal.throwIfAborted()
    return buildRun(load, target.server.play(load))
  }

  /** Virtual time advances only under load, so this sends one request over the whole time. */
  async rest(target: Target, seconds: number, signal: AbortSignal): Promise<void> {
    const arrivals = { kind: 'constant' } as const
    const load = {
      kind: 'open',
      rateRps: 1 / seconds,
      durationS: seconds,
      arrivals,
      seed: 1,
    } as const
    await this.play(target, load, signal)
  }

  async close(): Promise<void> {}
}

function buildRun(load: Load, played: VirtualRun): LoadRun {
  // Only windows with an end-to-end SLO are cut early, as with real servers. The age of an
  // unanswered request does not bound its time to first token.
  const cutMs =
    load.kind === 'open' && load.cut !== undefined && played.stream === undefined
      ? computeCutMs(played, load.cut)
      : undefined
  const { sentMs, latencyMs } = truncateAt(played, cutMs)
  // End-to-end latencies, even where the SLO constrains another one.
  const e2eMs = played.stream?.latenciesMs.e2e ?? latencyMs
  const failedCount = latencyMs.filter(Number.isNaN).length
  let lastAnswerMs = cutMs ?? 0
  if (cutMs === undefined)
    for (const [i, atMs] of sentMs.entries())
      lastAnswerMs = Math.max(lastAnswerMs, atMs + (Number.isNaN(e2eMs[i]!) ? 0 : e2eMs[i]!))
  return {
    load,
    sentMs,
    latencyMs,
    errorKinds: failedCount > 0 ? { [played.failure]: failedCount } : {},
    planned: sentMs.length,
    latenessP99Ms: 0,
    seconds: cutMs === undefined ? load.durationS : Math.min(cutMs / 1000, load.durationS),
    // Until the cut, else at least the planned duration.
    elapsedS: Math.max(lastAnswerMs / 1000, cutMs === undefined ? load.durationS : 0),
    generatorCores: 0,
    cutMs,
    ...(played.stream && { stream: played.stream }),
  }
}

/**
 * Truncates a run at a cut. Requests after it were never sent; those in progress count with the age
 * that they had reached.
 */
function truncateAt(
  { sentMs, latencyMs }: VirtualRun,
  cutMs: number | undefined,
): Pick<LoadRun, 'sentMs' | 'latencyMs'> {
  if (cutMs === undefined) return { sentMs: sentMs.slice(), latencyMs: latencyMs.slice() }
  const firstUnsent = sentMs.findIndex((atMs) => atMs > cutMs)
  const sentCount = firstUnsent < 0 ? sentMs.length : firstUnsent
  return {
    sentMs: sentMs.slice(0, sentCount),
    latencyMs: latencyMs.slice(0, sentCount).map((ms, i) => Math.min(ms, cutMs - sentMs[i]!)),
  }
}

/**
 * Computes the time of the cut: when more than `cut.requests` requests had failed or exceeded
 * `cut.overMs`, ms. Undefined where that never happens.
 */
function computeCutMs(
  { sentMs, latencyMs }: VirtualRun,
  cut: { overMs: number; requests: number },
): number | undefined {
  /** Times at which requests exceed the limit, ascending as the send times are. */
  const violatedAtMs: number[] = []
  for (let i = 0; i < sentMs.length; i++)
    // A failed request (NaN) also counts, at `overMs`, so the comparison is negated.
    if (!(latencyMs[i]! <= cut.overMs)) violatedAtMs.push(sentMs[i]! + cut.overMs)
  return violatedAtMs.length > cut.requests ? violatedAtMs[cut.requests] : undefined
}
