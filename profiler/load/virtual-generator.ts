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

  /** Virtual time passes under load only, so a single request is sent to let it pass. */
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
  // As with real servers, only end-to-end SLOs cut a window: the age of an unanswered request is no
  // bound of its time to first token.
  const cutMs =
    load.kind === 'open' && load.cut !== undefined && played.stream === undefined
      ? computeCutMs(played, load.cut)
      : undefined
  // Requests after the cut were never sent.
  const firstUnsent = cutMs === undefined ? undefined : played.sentMs.findIndex((at) => at > cutMs)
  const sentCount =
    firstUnsent === undefined || firstUnsent < 0 ? played.sentMs.length : firstUnsent
  const sentMs = played.sentMs.slice(0, sentCount)
  const latencyMs = played.latencyMs.slice(0, sentCount)
  // Requests in progress at the cut count with the age they had reached.
  if (cutMs !== undefined)
    for (let i = 0; i < sentCount; i++) latencyMs[i] = Math.min(latencyMs[i]!, cutMs - sentMs[i]!)
  // End-to-end latencies, even where the SLO constrains another one.
  const e2eMs = played.stream?.latenciesMs.e2e ?? latencyMs
  let [failed, lastMs] = [0, cutMs ?? 0]
  for (let i = 0; i < sentCount; i++) {
    if (Number.isNaN(latencyMs[i]!)) failed++
    if (cutMs === undefined)
      lastMs = Math.max(lastMs, sentMs[i]! + (Number.isNaN(e2eMs[i]!) ? 0 : e2eMs[i]!))
  }
  return {
    load,
    sentMs,
    latencyMs,
    errorKinds: failed > 0 ? { [played.failure]: failed } : {},
    planned: sentCount,
    latenessP99Ms: 0,
    seconds: cutMs === undefined ? load.durationS : Math.min(cutMs / 1000, load.durationS),
    elapsedS: Math.max(lastMs / 1000, cutMs === undefined ? load.durationS : 0),
    generatorCores: 0,
    cutMs,
    ...(played.stream && { stream: played.stream }),
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
  /** Times at which requests exceed the limit. A failed request counts at the same age. */
  const violatedAtMs: number[] = []
  for (let i = 0; i < sentMs.length; i++)
    if (!(latencyMs[i]! <= cut.overMs)) violatedAtMs.push(sentMs[i]! + cut.overMs)
  return violatedAtMs.length > cut.requests ? violatedAtMs[cut.requests] : undefined
}
